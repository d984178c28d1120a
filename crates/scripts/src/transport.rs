//! The way to a server.

use riparian_client::Received;
use riparian_protocol::Request;
use riparian_testkit::DiskState;

/// The connection that everything goes over but what classic members ask.
pub const MAIN: &str = "main";

/// The way to a server, and what can be done to it and to its time.
///
/// Connections have names, and are opened when they are needed.
pub trait Transport {
    /// Sends a request, in the highest version that both sides speak if none is given.
    fn send<'a, R: Request<'a>>(&mut self, connection: &str, request: &R, version: Option<i16>) -> Result<(), String>;

    /// Waits until the server has taken from the network what was sent over a connection.
    fn wait_until_read(&mut self, _connection: &str) -> Result<(), String> {
        Ok(())
    }

    /// Waits for the next answer on a connection.
    fn receive(&mut self, connection: &str) -> Result<Received, String>;

    /// Sends a request over the main connection and waits for the answer.
    fn call<'a, R: Request<'a>>(&mut self, request: &R, version: Option<i16>) -> Result<Received, String> {
        self.send(MAIN, request, version)?;
        self.receive(MAIN)
    }

    /// As [`Transport::call`], but once the request is carried out the connection breaks, and the answer with it.
    fn lose<'a, R: Request<'a>>(&mut self, request: &R, version: Option<i16>) -> Result<(), String>;

    /// Closes a connection.
    fn close(&mut self, connection: &str);

    /// Lets time pass.
    fn wait(&mut self, ms: u64) -> Result<(), String>;

    /// Milliseconds since some moment.
    fn now_ms(&self) -> u64;

    /// Kills the server and starts it again; all connections are gone.
    fn restart(&mut self) -> Result<(), String>;

    /// Cuts the power of its machine, and starts it again; all connections are gone.
    fn cut_power(&mut self) -> Result<(), String>;

    /// What its disk does from now on.
    fn set_disk(&mut self, _: DiskState) -> Result<(), String> {
        Err("only a simulated server has a disk that can be told to fail".to_owned())
    }
}
