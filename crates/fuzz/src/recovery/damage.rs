//! What a disk, or somebody with a keyboard, does to files.
//!
//! ```text
//! damage: file u8, kind u8, and what it needs
//! ```

use std::path::{Path, PathBuf};

use riparian_log::{Disk, DiskError, MemDisk};
use riparian_records::{BATCH_PREFIX_BYTES, BatchHeader, HEADER_BYTES, batches};
use riparian_types::{Offset, ProducerEpoch, ProducerId, Sequence, WallMillis};

use super::{DIR, Files, offset_in_name};
use crate::input::Input;

const DAMAGES_MAX: usize = 8;
const NEW_NAMES: [&str; 6] = ["log", "index", "timeindex", "snapshot", "log.0.cut", "x"];

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Damage {
    count: usize,
    /// There may be good batches that nobody has written.
    pub(super) may_be_forged: bool,
}

impl Damage {
    pub(super) fn inflict(disk: &MemDisk, files: &Files, input: &mut Input<'_>) -> Self {
        let mut damage = Self::default();
        let paths: Vec<&PathBuf> = files.keys().collect();
        while !input.is_empty() && damage.count < DAMAGES_MAX {
            let path = paths[input.below(paths.len())];
            damage.count += 1;
            damage.one(disk, files, path, input);
        }
        damage
    }

    pub(super) const fn is_none(&self) -> bool {
        self.count == 0
    }

    fn one(&mut self, disk: &MemDisk, files: &Files, path: &Path, input: &mut Input<'_>) {
        let other = files.values().nth(input.below(files.len())).cloned().unwrap_or_default();
        // A file may have been removed before.
        let tamper = |change: &mut dyn FnMut(&mut Vec<u8>)| drop(disk.tamper(path, |bytes| change(bytes)));
        match input.u8() % 13 {
            0 => tamper(&mut |bytes| bytes.truncate(place(input, bytes))),
            1 => tamper(&mut |bytes| {
                let at = place(input, bytes);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= input.u8().max(1);
                }
            }),
            2 => tamper(&mut |bytes| {
                let (start, count) = (place(input, bytes), input.below(16));
                let new = input.take(count);
                bytes.iter_mut().skip(start).zip(new).for_each(|(byte, new)| *byte = *new);
            }),
            3 => tamper(&mut |bytes| {
                let (start, count) = (place(input, bytes), 1 + usize::from(input.u16()));
                bytes.iter_mut().skip(start).take(count).for_each(|byte| *byte = 0);
            }),
            4 => gone(disk, path, disk.remove_file(path)),
            5 => {
                let count = input.below(80);
                tamper(&mut |bytes| bytes.extend(input.take(count)));
            }
            6 => {
                let count = input.below(80);
                tamper(&mut |bytes| *bytes = input.take(count).to_vec());
            }
            7 => tamper(&mut |bytes| bytes.clone_from(&other)),
            8 => {
                self.may_be_forged = true;
                tamper(&mut |bytes| forge(bytes, input));
            }
            9 => new_file(disk, files, &other, input),
            10 => tamper(&mut |bytes| {
                let (start, at) = (place(input, bytes), place(input, bytes));
                let again: Vec<u8> = bytes.iter().skip(start).take(1 + usize::from(input.u8())).copied().collect();
                bytes.splice(at..at, again);
            }),
            11 => {
                let (number, is_epoch) = (input.number(), input.bool());
                let line = if is_epoch { format!("1 {number}") } else { format!("t 0 {number}") };
                tamper(&mut |bytes| *bytes = format!("0\n1\n{line}\n").into_bytes());
            }
            _ => gone(disk, Path::new(DIR), disk.remove_dir_all(Path::new(DIR))),
        }
    }
}

/// What was removed stays so, also after a power cut. It may have been removed before.
fn gone(disk: &MemDisk, path: &Path, removed: Result<(), DiskError>) {
    let dir = path.parent().unwrap_or(path);
    let _ = removed.and_then(|()| disk.sync_dir(dir));
}

/// A place in these bytes, or right behind them.
fn place(input: &mut Input<'_>, bytes: &[u8]) -> usize {
    usize::from(input.u16()) % (bytes.len() + 1)
}

/// Another segment, index or snapshot with what some file has.
fn new_file(disk: &MemDisk, files: &Files, content: &[u8], input: &mut Input<'_>) {
    let known: Vec<i64> = files.keys().filter_map(|path| offset_in_name(path, "log")).collect();
    let near = known.get(input.below(known.len().max(1))).copied().unwrap_or(0);
    let offset = match input.u8() % 4 {
        0 => near,
        1 => near + 1,
        2 => input.u8().into(),
        _ => input.number().max(0),
    };
    let path = Path::new(DIR).join(format!("{offset:020}.{}", input.pick(&NEW_NAMES)));
    if files.contains_key(&path) || disk.list(Path::new(DIR)).is_err() {
        return;
    }
    let written = disk.write_at(&path, 0, &[content]).and_then(|()| disk.sync_data(&path));
    let written = written.and_then(|()| disk.sync_dir(Path::new(DIR)));
    assert!(written.is_ok(), "a disk in memory takes everything");
}

/// Changes a field of some batch's header and makes its CRC right.
fn forge(bytes: &mut [u8], input: &mut Input<'_>) {
    let mut starts = vec![0];
    for batch in batches(bytes).unverified().flatten() {
        starts.push(starts.last().copied().unwrap_or(0) + batch.bytes().len());
    }
    let start = starts[input.below(starts.len())];
    let Some(mut header) = bytes.get(start..).and_then(BatchHeader::parse) else { return };
    let number = input.number();
    match input.u8() % 11 {
        0 => header.base_offset = Offset(number),
        1 => header.length = number as i32,
        2 => header.leader_epoch.0 = number as i32,
        3 => header.attributes = number as i16,
        4 => header.last_offset_delta = number as i32,
        5 => header.base_timestamp = WallMillis(number),
        6 => header.max_timestamp = WallMillis(number),
        7 => header.producer_id = ProducerId(number),
        8 => header.producer_epoch = ProducerEpoch(number as i16),
        9 => header.base_sequence = Sequence(number as i32),
        _ => header.record_count = number as i32,
    }
    let length = usize::try_from(header.length).unwrap_or(0) + BATCH_PREFIX_BYTES;
    let body = bytes.get(start + HEADER_BYTES..(start + length).min(bytes.len())).unwrap_or_default();
    header.crc = crc32c::crc32c_append(crc32c::crc32c(&header.to_bytes()[21..]), body);
    bytes[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
}
