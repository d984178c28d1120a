//! A proxy that loses one answer: it passes everything on, but closes the connection instead of delivering the n-th
//! answer to a request of one kind.
//!
//! It knows frames, where the key stands in a request and the correlation id in both directions, nothing more.
//! Its threads end with the connections that they carry, at the latest when the test's process ends.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const FRAME_BYTES_MAX: usize = 1 << 27;

/// A port that passes on to a server, except for one answer.
pub struct LossyProxy {
    listener: TcpListener,
}

struct Loss {
    api_key: i16,
    /// How many more answers of the kind are delivered; the one after them is lost.
    delivered_before: AtomicU32,
    lost: AtomicU32,
}

/// What one connection asked and has not been answered yet, of the kind that may be lost.
type Asked = Arc<Mutex<BTreeSet<[u8; 4]>>>;

impl LossyProxy {
    /// Takes a port; nobody is served before `run`.
    pub fn bind() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").expect("a loopback port is free") }
    }

    /// The port that clients must be told.
    pub fn port(&self) -> u16 {
        self.listener.local_addr().expect("a bound socket has an address").port()
    }

    /// Serves from now on; the n-th (from 1) answer to `api_key` over all connections is lost. The function tells how
    /// many have been.
    pub fn run(self, server_port: u16, api_key: i16, nth: u32) -> impl Fn() -> u32 {
        let loss = Arc::new(Loss { api_key, delivered_before: AtomicU32::new(nth), lost: AtomicU32::new(0) });
        let counting = Arc::clone(&loss);
        std::thread::spawn(move || {
            for client in self.listener.incoming().map_while(Result::ok) {
                // A server that is gone is a closed connection for the client.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) {
                    pass_on(client, server, &loss);
                }
            }
        });
        move || counting.lost.load(Ordering::Relaxed)
    }
}

fn pass_on(client: TcpStream, server: TcpStream, loss: &Arc<Loss>) {
    let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { return };
    let asked = Asked::default();
    let (noting, api_key) = (Arc::clone(&asked), loss.api_key);
    std::thread::spawn(move || {
        copy_frames(from_client, &server, |frame| {
            if frame.get(..2) == Some(&api_key.to_be_bytes()[..]) && frame.len() >= 8 {
                lock(&noting).insert([frame[4], frame[5], frame[6], frame[7]]);
            }
            true
        });
    });
    let loss = Arc::clone(loss);
    std::thread::spawn(move || {
        copy_frames(from_server, &client, |frame| {
            let concerned = frame.first_chunk::<4>().is_some_and(|correlation| lock(&asked).remove(correlation));
            if !concerned || loss.delivered_before.fetch_sub(1, Ordering::Relaxed) != 1 {
                return true;
            }
            loss.lost.fetch_add(1, Ordering::Relaxed);
            false
        });
    });
}

fn lock(asked: &Asked) -> std::sync::MutexGuard<'_, BTreeSet<[u8; 4]>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies whole frames while `deliver` agrees; then both directions end.
fn copy_frames(from: TcpStream, mut to: &TcpStream, mut deliver: impl FnMut(&[u8]) -> bool) {
    while let Some(frame) = read_frame(&from) {
        if !deliver(&frame[4..]) || to.write_all(&frame).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A whole frame, its length in front.
pub(crate) fn read_frame(mut from: &TcpStream) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame).ok()?;
    let size = frame.first_chunk().map(|&length| i32::from_be_bytes(length))?;
    let size = usize::try_from(size).ok().filter(|size| *size <= FRAME_BYTES_MAX)?;
    frame.resize(4 + size, 0);
    from.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}
