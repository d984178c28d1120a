//! Answers that are sent from files.

use std::{fs, path::PathBuf};

use riparian_log::{Disk, FsDisk};
use tempfile::TempDir;

use super::*;
use crate::net::{counters::Closed, port::Piece};

/// More than a socket takes at once.
const LARGE: usize = 24 << 20;
const BEHIND: &[u8] = b"what follows";

/// A file whose bytes say where they are.
struct Source {
    _dir: TempDir,
    path: PathBuf,
    disk: FsDisk,
}

fn byte_at(position: usize) -> u8 {
    (position % 251) as u8
}

impl Source {
    fn new(bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, (0..bytes).map(byte_at).collect::<Vec<u8>>()).unwrap();
        Self { _dir: dir, path, disk: FsDisk::new(FsDisk::HANDLES_DEFAULT) }
    }

    fn part(&self, position: usize, bytes: usize) -> FilePart {
        FilePart::new(self.disk.lend(&self.path).unwrap(), position as u64, bytes)
    }
}

pub(super) fn framed(part: FilePart) -> Reply {
    let size = u32::try_from(part.len() + BEHIND.len()).unwrap().to_be_bytes();
    Reply::Frame { first: size.to_vec().into(), rest: vec![Piece::File(part), Bytes::from_static(BEHIND).into()] }
}

impl Server {
    fn has(&self, parts: impl IntoIterator<Item = FilePart>) {
        self.fake.parts.lock().unwrap().extend(parts);
    }
}

impl Peer {
    async fn expect_part(&mut self, position: usize, bytes: usize) {
        let found = self.receive().await;
        assert_eq!(found.len(), bytes + BEHIND.len());
        let is_right = found[..bytes].iter().enumerate().all(|(n, &byte)| byte == byte_at(position + n));
        assert!(is_right, "the bytes from {position} on");
        assert_eq!(&found[bytes..], BEHIND);
    }
}

#[tokio::test]
async fn parts_of_files_keep_the_order_of_requests() {
    let server = Server::start(LIMITS);
    let source = Source::new(LARGE);
    let mut peer = server.connect().await;
    let parts = [(0, LARGE), (7, 1), (4095, 100_000), (LARGE - 3, 3)];
    server.has(parts.map(|(position, bytes)| source.part(position, bytes)));
    peer.send(&["hold-one", "file-part", "echo-two", "file-part", "file-part", "echo-three", "file-part"]).await;
    server.fake.until("all are handled", |fake| fake.handled.load(Ordering::SeqCst) == 7).await;
    server.fake.release(0);
    peer.expect(&["hold-one"]).await;
    peer.expect_part(0, LARGE).await;
    peer.expect(&["echo-two"]).await;
    peer.expect_part(7, 1).await;
    peer.expect_part(4095, 100_000).await;
    peer.expect(&["echo-three"]).await;
    peer.expect_part(LARGE - 3, 3).await;
}

#[tokio::test]
async fn slow_readers_of_files_get_every_byte_and_hold_up_nobody() {
    let server = Server::start(LIMITS);
    let source = Source::new(LARGE);
    let mut slow = server.connect().await;
    server.has((0..10).map(|_| source.part(0, LARGE)));
    slow.send(&["file-part"; 10]).await;
    server.fake.until("all are handled", |fake| fake.handled.load(Ordering::SeqCst) == 10).await;
    let mut other = server.connect().await;
    for _ in 0..50 {
        other.send(&["echo-other"]).await;
        other.expect(&["echo-other"]).await;
    }
    // A quarter of a gigabyte waits, and almost nothing of it in memory.
    let held = server.acceptor.hub.held_bytes.load(Ordering::SeqCst);
    assert!(held < 1 << 20, "{held} bytes are held");
    for _ in 0..10 {
        slow.expect_part(0, LARGE).await;
    }
}

#[tokio::test]
async fn removed_files_are_sent_whole() {
    let server = Server::start(LIMITS);
    let source = Source::new(LARGE);
    let mut peer = server.connect().await;
    server.has([source.part(0, LARGE), source.part(1, LARGE - 1)]);
    peer.send(&["file-part", "file-part"]).await;
    server.fake.until("both are handled", |fake| fake.handled.load(Ordering::SeqCst) == 2).await;
    source.disk.remove_file(&source.path).unwrap();
    fs::write(&source.path, [0; 100]).unwrap();
    peer.expect_part(0, LARGE).await;
    peer.expect_part(1, LARGE - 1).await;
}

#[tokio::test]
async fn files_that_are_too_short_end_the_connection_and_no_other() {
    let server = Server::start(LIMITS);
    let source = Source::new(1000);
    let mut other = server.connect().await;
    for (position, bytes, found) in [(0, 1001, 1000), (900, 101, 100), (1000, 1, 0), (5000, 5, 0)] {
        let mut peer = server.connect().await;
        server.has([source.part(position, bytes)]);
        peer.send(&["echo-first", "file-part", "echo-second"]).await;
        peer.expect(&["echo-first"]).await;
        let mut rest = Vec::new();
        let _ = timeout(Duration::from_secs(10), peer.stream.read_to_end(&mut rest)).await.expect("it is closed");
        assert!(rest.len() <= 4 + found, "{} bytes came, where only {found} are", rest.len());
    }
    server.fake.until("all are gone", |fake| fake.disconnected.load(Ordering::SeqCst) == 4).await;
    other.send(&["echo-other"]).await;
    other.expect(&["echo-other"]).await;
    assert_eq!(server.acceptor.hub.counters.closed(Closed::Failure), 4);
}
