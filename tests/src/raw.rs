//! Bytes written by hand, for requests that no client library would send.
//!
//! It knows the frame, the two request headers that the tests need and one old request body, nothing more.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const READ_LIMIT: Duration = Duration::from_secs(10);

/// A connection that speaks in frames.
pub struct Connection {
    stream: TcpStream,
}

impl Connection {
    /// Connects to a port of this machine.
    pub fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
        stream.set_read_timeout(Some(READ_LIMIT)).expect("a limit above zero is accepted");
        stream.set_nodelay(true).expect("the socket is open");
        Self { stream }
    }

    /// Sends bytes as they are. A peer that has closed is not an error here: reading tells.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a length and the bytes.
    pub fn send_frame(&mut self, body: &[u8]) {
        let length = i32::try_from(body.len()).expect("test frames are small");
        self.send(&[&length.to_be_bytes()[..], body].concat());
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// The next frame, or `None` when the server closed the connection; panics when it does neither.
    pub fn read_frame(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        if !self.read_all(&mut length) {
            return None;
        }
        let length = usize::try_from(i32::from_be_bytes(length)).expect("a server sends no negative length");
        assert!(length < 1 << 20, "a reply of {length} bytes to a bad request");
        let mut body = vec![0; length];
        self.read_all(&mut body).then_some(body)
    }

    fn read_all(&mut self, buffer: &mut [u8]) -> bool {
        use std::io::ErrorKind;
        match self.stream.read_exact(buffer) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the server neither answered nor closed the connection within {READ_LIMIT:?}")
            }
            Err(_) => false,
        }
    }
}

/// A request with the header of the versions before flexible ones: key, version, correlation id, client id.
pub fn request(api_key: i16, api_version: i16, correlation_id: i32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(api_key.to_be_bytes());
    bytes.extend(api_version.to_be_bytes());
    bytes.extend(correlation_id.to_be_bytes());
    bytes.extend(string("raw"));
    bytes.extend(body);
    bytes
}

/// `CreateTopics` version 2 for one topic of one partition.
pub fn create_topic_request(correlation_id: i32, topic: &str) -> Vec<u8> {
    let mut body = 1i32.to_be_bytes().to_vec();
    body.extend(string(topic));
    body.extend(1i32.to_be_bytes()); // partitions
    body.extend(1i16.to_be_bytes()); // replication factor
    body.extend(0i32.to_be_bytes()); // manual assignments
    body.extend(0i32.to_be_bytes()); // configs
    body.extend(5000i32.to_be_bytes()); // timeout
    body.push(0); // validate only
    request(19, 2, correlation_id, &body)
}

fn string(text: &str) -> Vec<u8> {
    let length = i16::try_from(text.len()).expect("test strings are short");
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}
