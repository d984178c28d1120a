//! What a server has not read yet of a connection.

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

/// Message types and flags of the kernel's socket monitoring (`sock_diag(7)`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
const AF_INET: u8 = 2;
const TCP_LISTEN: u8 = 10;
const HEADER_BYTES: usize = 16;
const QUESTION_BYTES: usize = HEADER_BYTES + 8 + 48;
/// Of the socket's state in an answer.
const STATE_AT: usize = HEADER_BYTES + 1;
/// Of the received bytes in an answer: behind what describes the socket and its timer.
const RECEIVED_AT: usize = HEADER_BYTES + 4 + 48 + 4;

/// Bytes that wait in the receive queue of a server's connection; none if there is no such connection.
///
/// The kernel is asked for this one socket: its table of all sockets takes longer than a test may wait when there are ten
/// thousand others. Where it can't be asked, the table has to do.
pub fn unread(server_port: u16, client_port: u16) -> Result<u64, String> {
    match ask(server_port, client_port) {
        Ok(received) => Ok(received),
        Err(Errno::NOENT) => Ok(0),
        Err(_) => look_up(server_port, client_port),
    }
}

fn ask(server_port: u16, client_port: u16) -> Result<u64, Errno> {
    let kernel = socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::SOCK_DIAG))?;
    send(&kernel, &question(server_port, client_port), SendFlags::empty())?;
    let mut answer = [0; 1024];
    let (_, bytes) = recv(&kernel, &mut answer[..], RecvFlags::empty())?;
    let answer = &answer[..bytes.min(1024)];
    let number =
        |at: usize| answer.get(at..at + 4).map(|bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let kind = number(4).ok_or(Errno::BADMSG)?.to_ne_bytes();
    match u16::from_ne_bytes([kind[0], kind[1]]) {
        // Without such a connection it is whoever listens on the port.
        SOCK_DIAG_BY_FAMILY if answer.get(STATE_AT) == Some(&TCP_LISTEN) => Err(Errno::NOENT),
        SOCK_DIAG_BY_FAMILY => number(RECEIVED_AT).map(u64::from).ok_or(Errno::BADMSG),
        NLMSG_ERROR => {
            let code = number(HEADER_BYTES).ok_or(Errno::BADMSG)?.cast_signed();
            Err(Errno::from_raw_os_error(code.saturating_neg()))
        }
        _ => Err(Errno::BADMSG),
    }
}

/// Asks for the TCP socket of the loopback address with these ports. Java's sockets, which are those of IPv6, are found
/// under their addresses of IPv4 too.
fn question(server_port: u16, client_port: u16) -> Vec<u8> {
    const ADDRESS: [u8; 16] = [127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const ANY_STATE: u32 = u32::MAX;
    const NO_COOKIE: [u8; 8] = [0xff; 8];
    let mut question = Vec::with_capacity(QUESTION_BYTES);
    question.extend_from_slice(&(QUESTION_BYTES as u32).to_ne_bytes());
    question.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    // A number for the answer and a sender, neither of which is needed.
    question.extend_from_slice(&[0; 8]);
    question.extend_from_slice(&[AF_INET, IPPROTO_TCP, 0, 0]);
    question.extend_from_slice(&ANY_STATE.to_ne_bytes());
    question.extend_from_slice(&server_port.to_be_bytes());
    question.extend_from_slice(&client_port.to_be_bytes());
    question.extend_from_slice(&ADDRESS);
    question.extend_from_slice(&ADDRESS);
    // Of any interface.
    question.extend_from_slice(&[0; 4]);
    question.extend_from_slice(&NO_COOKIE);
    question
}

fn look_up(server_port: u16, client_port: u16) -> Result<u64, String> {
    let (server, client) = (format!(":{server_port:04X}"), format!(":{client_port:04X}"));
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let sockets = std::fs::read_to_string(table).map_err(|error| format!("cannot read {table}: {error}"))?;
        let mut lines = sockets.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        // Its number, both addresses, its state, and `sent:received`.
        let found = lines.find(|line| line.len() > 4 && line[1].ends_with(&server) && line[2].ends_with(&client));
        if let Some((_, received)) = found.as_ref().and_then(|line| line[4].split_once(':')) {
            return u64::from_str_radix(received, 16).map_err(|error| format!("{table}: {error}"));
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ways see the same; the shorter one needs a kernel that can be asked.
    #[test]
    fn what_is_not_read_is_seen() {
        for host in ["127.0.0.1:0", "[::]:0"] {
            let listener = TcpListener::bind(host).expect("a port is free");
            let port = listener.local_addr().expect("it is bound").port();
            let mut here = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            let (mut there, _) = listener.accept().expect("it was connected to");
            let own = here.local_addr().expect("it is connected").port();
            let can_ask = ask(port, own).is_ok();
            let check = |expected: u64| {
                assert_eq!((unread(port, own), look_up(port, own)), (Ok(expected), Ok(expected)), "{host}");
                assert!(!can_ask || ask(port, own) == Ok(expected), "{host}");
            };
            check(0);
            here.write_all(&[7; 777]).expect("there is room");
            check(777);
            there.read_exact(&mut [0; 700]).expect("they are there");
            check(77);
            assert!(!can_ask || ask(port, 1) == Err(Errno::NOENT));
            assert_eq!(unread(port, 1), Ok(0));
        }
    }
}
