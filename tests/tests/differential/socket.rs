//! Sockets to a server that scripts share.

use std::collections::{BTreeMap, btree_map::Entry};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use riparian_client::{Connection, Options, Received};
use riparian_protocol::Request;
use riparian_scripts::{MAIN, Transport};
use riparian_tests::{Server, unread};

const LIMIT: Duration = Duration::from_secs(30);

/// Connections to the server.
pub(crate) struct Socket<'s> {
    server: &'s Mutex<Server>,
    connections: BTreeMap<String, Connection>,
    began: Instant,
}

impl<'s> Socket<'s> {
    pub(crate) fn new(server: &'s Mutex<Server>) -> Self {
        Self { server, connections: BTreeMap::new(), began: Instant::now() }
    }

    fn connection(&mut self, name: &str) -> Result<&mut Connection, String> {
        match self.connections.entry(name.to_owned()) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(closed) => {
                let port = self.server.lock().unwrap_or_else(PoisonError::into_inner).port();
                let (connect_timeout, request_timeout) = (Duration::from_secs(10), LIMIT);
                let options = Options { client_id: "client".to_owned(), connect_timeout, request_timeout };
                let opened = Connection::open(&format!("127.0.0.1:{port}"), &options);
                Ok(closed.insert(opened.map_err(|error| error.to_string())?))
            }
        }
    }
}

impl Transport for Socket<'_> {
    fn send<'a, R: Request<'a>>(&mut self, connection: &str, request: &R, version: Option<i16>) -> Result<(), String> {
        let connection = self.connection(connection)?;
        let version = version.map_or_else(|| connection.version(R::API_KEY, R::VERSIONS), Ok);
        let sent = version.and_then(|version| connection.send(request, version));
        sent.map(|_| ()).map_err(|error| error.to_string())
    }

    fn wait_until_read(&mut self, connection: &str) -> Result<(), String> {
        let Some(open) = self.connections.get(connection) else { return Ok(()) };
        let here = open.local_port().map_err(|error| error.to_string())?;
        let there = self.server.lock().unwrap_or_else(PoisonError::into_inner).port();
        let deadline = Instant::now() + LIMIT;
        while unread(there, here)? > 0 {
            if Instant::now() > deadline {
                return Err(format!("the server has not read from {connection} for {LIMIT:?}"));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn receive(&mut self, connection: &str) -> Result<Received, String> {
        let connection = self.connections.get_mut(connection).ok_or("the connection is closed")?;
        connection.receive().map_err(|error| error.to_string())
    }

    fn lose<'a, R: Request<'a>>(&mut self, request: &R, version: Option<i16>) -> Result<(), String> {
        self.send(MAIN, request, version)?;
        let connection = self.connections.remove(MAIN).ok_or("the connection is closed")?;
        connection.lose_answer().map_err(|error| error.to_string())
    }

    fn close(&mut self, connection: &str) {
        self.connections.remove(connection);
    }

    fn wait(&mut self, ms: u64) -> Result<(), String> {
        std::thread::sleep(Duration::from_millis(ms));
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn restart(&mut self) -> Result<(), String> {
        self.connections.clear();
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.kill();
        server.restart();
        Ok(())
    }

    fn cut_power(&mut self) -> Result<(), String> {
        Err("only a machine and a simulated server can lose their power".to_owned())
    }
}
