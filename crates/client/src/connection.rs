//! A blocking connection to one server.

use std::{
    io::{self, Read, Write},
    marker::PhantomData,
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use riparian_protocol::{ApiKey, Request, messages::ApiVersionsRequest};
use riparian_wire::VersionRange;

use crate::{
    ClientError,
    core::{ClientCore, CoreError, Received},
};

const READ_BYTES: usize = 64 * 1024;

/// How to talk to servers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sent with every request; servers show it in their logs.
    pub client_id: String,
    /// For one address.
    pub connect_timeout: Duration,
    /// From a request's last byte to its answer's.
    pub request_timeout: Duration,
}

/// A connection whose versions are negotiated.
#[derive(Debug)]
pub struct Connection {
    address: String,
    stream: TcpStream,
    core: ClientCore,
    request_timeout: Duration,
}

/// The answer to a request of type `R`.
#[derive(Clone, Debug)]
pub struct Answer<R> {
    /// The answer as it came.
    pub received: Received,
    address: String,
    request: PhantomData<R>,
}

impl<'a, R: Request<'a>> Answer<R> {
    /// Reads it; the response borrows from the answer.
    pub fn decode(&self) -> Result<R::Response<'_>, ClientError> {
        self.received.decode::<R>().map_err(|source| ClientError::Protocol { address: self.address.clone(), source })
    }
}

impl Connection {
    /// Connects to `host:port` and negotiates versions.
    pub fn open(address: &str, options: &Options) -> Result<Self, ClientError> {
        let stream = connect(address, options.connect_timeout)
            .map_err(|error| ClientError::Unreachable { attempts: vec![format!("{address}: {error}")] })?;
        let mut connection = Self {
            address: address.to_owned(),
            stream,
            core: ClientCore::new(options.client_id.clone()),
            request_timeout: options.request_timeout,
        };
        connection.negotiate()?;
        Ok(connection)
    }

    /// Where it goes.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The port at this end.
    pub fn local_port(&self) -> io::Result<u16> {
        Ok(self.stream.local_addr()?.port())
    }

    /// What the server speaks, by API code.
    pub fn server_versions(&self) -> &[(i16, VersionRange)] {
        self.core.server_versions()
    }

    /// The highest version of an API that both sides speak, within `client`.
    pub fn version(&self, api: ApiKey, client: VersionRange) -> Result<i16, ClientError> {
        self.core.version(api, client).map_err(|source| self.protocol(source))
    }

    /// Asks in the highest common version and waits for the answer.
    pub fn call<'a, R: Request<'a>>(&mut self, request: &R) -> Result<Answer<R>, ClientError> {
        let version = self.version(R::API_KEY, R::VERSIONS)?;
        self.call_version(request, version)
    }

    /// Asks in this version and waits for the answer.
    pub fn call_version<'a, R: Request<'a>>(&mut self, request: &R, version: i16) -> Result<Answer<R>, ClientError> {
        self.send(request, version)?;
        self.receive_answer()
    }

    /// Sends a request without waiting; [`Self::receive`] brings the answers in order. Returns the request's number.
    pub fn send<'a, R: Request<'a>>(&mut self, request: &R, version: i16) -> Result<i32, ClientError> {
        let mut bytes = Vec::new();
        let id = self.core.encode(request, version, &mut bytes).map_err(|source| self.protocol(source))?;
        self.write(&bytes)?;
        Ok(id)
    }

    /// Waits for the next answer.
    pub fn receive(&mut self) -> Result<Received, ClientError> {
        let deadline = deadline(self.request_timeout);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if let Some(received) = self.core.poll_answer().map_err(|source| self.protocol(source))? {
                return Ok(received);
            }
            let bytes = self.read(&mut buffer, deadline)?;
            self.core.handle_bytes(&buffer[..bytes]);
        }
    }

    /// Waits until the next answer begins to arrive and closes the connection without reading it: whoever asked never
    /// learns what became of the request, although it was carried out. For tests of answers that get lost.
    pub fn lose_answer(self) -> Result<(), ClientError> {
        let deadline = deadline(self.request_timeout);
        loop {
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                return Err(ClientError::TimedOut { address: self.address, timeout: self.request_timeout });
            }
            match self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.peek(&mut [0])) {
                Ok(0) => return Err(self.broken(io::Error::other("the server closed it"))),
                // Bytes that were never read make the system tell the server that the connection is broken.
                Ok(_) => return Ok(()),
                Err(error) if is_retriable(&error) => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// Waits for the next answer, which is one to a request of this type.
    pub fn receive_answer<'a, R: Request<'a>>(&mut self) -> Result<Answer<R>, ClientError> {
        let received = self.receive()?;
        Ok(Answer { received, address: self.address.clone(), request: PhantomData })
    }

    fn negotiate(&mut self) -> Result<(), ClientError> {
        let mut version = ApiVersionsRequest::VERSIONS.max;
        loop {
            let mut bytes = Vec::new();
            self.core.encode_api_versions(version, &mut bytes).map_err(|source| self.protocol(source))?;
            self.write(&bytes)?;
            let received = self.receive()?;
            match self.core.handle_api_versions(&received).map_err(|source| self.protocol(source))? {
                // It is lower each time, so this ends.
                Some(wanted) => version = wanted,
                None => return Ok(()),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.stream
            .set_write_timeout(Some(self.request_timeout))
            .and_then(|()| self.stream.write_all(bytes))
            .map_err(|error| self.broken(error))
    }

    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> Result<usize, ClientError> {
        loop {
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                return Err(ClientError::TimedOut { address: self.address.clone(), timeout: self.request_timeout });
            }
            let result = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(buffer));
            match result {
                Ok(0) => return Err(self.broken(io::Error::other("the server closed it"))),
                Ok(bytes) => return Ok(bytes),
                Err(error) if is_retriable(&error) => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    fn broken(&self, source: io::Error) -> ClientError {
        if matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            return ClientError::TimedOut { address: self.address.clone(), timeout: self.request_timeout };
        }
        ClientError::Broken { address: self.address.clone(), source }
    }

    fn protocol(&self, source: CoreError) -> ClientError {
        ClientError::Protocol { address: self.address.clone(), source }
    }
}

/// A read that timed out; the deadline decides whether that was the end.
fn is_retriable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn now() -> Instant {
    Instant::now()
}

fn deadline(timeout: Duration) -> Instant {
    now() + timeout
}

fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    if !address.contains(':') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the port is missing; write host:port"));
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
