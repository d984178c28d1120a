//! Sends what waits in line on a socket that does not block, with one system call at a time.
//!
//! **Invariant:** what is sent are the first bytes of the line and nothing else: a file that has fewer bytes than
//! promised is an error, and its reader gets no others instead.
//!
//! It does not know whose the bytes are, and leaves what was sent in the line.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
};

use rustix::{
    fs::sendfile,
    net::{SendAncillaryBuffer, SendFlags, sendmsg},
};
use tokio::{io::Interest, net::TcpStream};

use super::port::Piece;

const PIECES_MAX: usize = 64;

/// Why nothing was sent.
#[derive(Debug)]
pub(crate) enum SendError {
    /// What the socket says, perhaps that it takes nothing more at the moment.
    Socket(io::Error),
    /// The file doesn't have what it must have.
    File(String),
}

/// Sends the first of these pieces, of which there is one, as far as it goes; returns how many bytes were sent.
pub(crate) fn send_once(stream: &TcpStream, pieces: &VecDeque<Piece>) -> Result<usize, SendError> {
    match pieces.front() {
        // What is usual has a cheaper system call.
        Some(Piece::Bytes(bytes)) if pieces.len() == 1 => stream.try_write(bytes).map_err(SendError::Socket),
        Some(Piece::Bytes(_)) => send_bytes(stream, pieces).map_err(SendError::Socket),
        Some(Piece::File(part)) => {
            let mut position = part.position();
            let send = || Ok(sendfile(stream, part.file(), Some(&mut position), part.len())?);
            match stream.try_io(Interest::WRITABLE, send) {
                Ok(0) => Err(SendError::File(format!(
                    "a file that records are sent from ends at {position}, {} bytes too early",
                    part.len()
                ))),
                result => result.map_err(SendError::Socket),
            }
        }
        None => Ok(0),
    }
}

/// Sends the pieces before the first that is in a file.
fn send_bytes(stream: &TcpStream, pieces: &VecDeque<Piece>) -> io::Result<usize> {
    let mut slices = [IoSlice::new(&[]); PIECES_MAX];
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(pieces) {
        let Piece::Bytes(bytes) = piece else { break };
        *slice = IoSlice::new(bytes);
        count += 1;
    }
    let slices = &slices[..count];
    if count == pieces.len() {
        return stream.try_write_vectored(slices);
    }
    // More follows at once: it isn't worth a packet of its own.
    let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
    let send = || Ok(sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), flags)?);
    stream.try_io(Interest::WRITABLE, send)
}
