//! A partition's log that is opened over damaged files.
//!
//! ```text
//! life (a log is written, and the server ends in some way), damage*
//! ```
//!
//! **Checked here**, against the bytes of the files and nothing else:
//! - Opening never panics, and takes no more memory than a small multiple of the files.
//! - The log is offline only if something may be damaged that was known to be durable.
//! - Every batch before the first damage is read, whatever happened to indexes, snapshots and checkpoints.
//! - Producers go on where they were: a batch that is there is not taken again.
//! - Nothing is read that was never written, and no good batch is deleted: what the log can't have is put aside.
//! - Opening again changes no file and finds nothing to do; what was shown once survives a power cut.
//! - The log goes on: what is appended is read.

mod damage;
mod life;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use riparian_log::{Logs, OpenError, PartitionLog, RecoveryReport};
use riparian_records::{Batch, batches};
use riparian_types::{LeaderEpoch, Offset, PartitionIndex};

use crate::{input::Input, memory};
use damage::Damage;
use life::{DIR, Life, ROOT};

/// What opening may take besides a multiple of the files: it reads in large pieces.
const OPEN_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Every file with its bytes.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A batch in a file.
#[derive(Clone, Debug)]
struct Written {
    base: i64,
    next: i64,
    bytes: Vec<u8>,
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let life = Life::live(&mut input);
    let before = life.files();
    let damage = Damage::inflict(&life.disk, &before, &mut input);
    let after = life.files();
    let expected = Expected::new(&life, &before, &after, &damage);

    let mut opened = None;
    let peak = memory::peak_of(|| opened = open(&life, &expected));
    let bytes: usize = after.values().map(Vec::len).sum();
    assert!(peak <= OPEN_BYTES_MAX + 8 * bytes, "opening {bytes} bytes of files took {peak}");
    expected.check_nothing_deleted(&life.files());
    if opened.as_ref().is_some_and(|opened| opened.report.clean_shutdown) {
        // That is so for one start only; the next one reads what this one has trusted.
        drop(opened);
        opened = open(&life, &expected);
        expected.check_nothing_deleted(&life.files());
    }
    if let Some(Opened { logs, log, .. }) = opened {
        let (start, end) = (log.start_offset(), log.end_offset());
        drop((log, logs));
        open_again(&life, &expected, start, end);
    }
}

struct Opened {
    logs: Logs,
    log: Arc<PartitionLog>,
    report: RecoveryReport,
}

/// Opens the log and checks it; none if it does not open, and may not.
fn open(life: &Life, expected: &Expected) -> Option<Opened> {
    let (logs, report) = match life.open() {
        Ok(opened) => opened,
        Err(error) => {
            expected.check_refusal(&error);
            return None;
        }
    };
    if let Some(offline) = report.offline.first() {
        expected.check_refusal(&offline.error);
        return None;
    }
    let Some(log) = log_of(&logs) else {
        assert!(expected.may_be_missing, "the log is gone: {report:?}");
        return None;
    };
    expected.check_log(&log, &report);
    Some(Opened { logs, log, report })
}

fn log_of(logs: &Logs) -> Option<Arc<PartitionLog>> {
    logs.find("t", PartitionIndex(0))
}

/// A second start finds nothing to do, and one after a power cut neither; then the log goes on.
fn open_again(life: &Life, expected: &Expected, start: Offset, end: Offset) {
    let before = life.files();
    let (logs, report) = life.open().unwrap_or_else(|error| panic!("it opened, but not again: {error}"));
    expected.check_nothing_deleted(&life.files());
    let Some(log) = log_of(&logs) else {
        // An empty log need not be there at all.
        assert_eq!(start, end, "it opened, and now it is gone: {report:?}");
        return;
    };
    check_no_work(&report);
    assert_eq!((log.start_offset(), log.end_offset()), (start, end), "opened again");
    drop((log, logs));
    let after = life.files();
    for (path, bytes) in &before {
        assert!(after.get(path) == Some(bytes), "opening again changed {}", path.display());
    }
    assert_eq!(after.len(), before.len(), "opening again made files");
    if expected.may_claim_durable {
        return;
    }

    life.disk.power_cut();
    let (logs, report) = life.open().unwrap_or_else(|error| panic!("it opened, but not after a power cut: {error}"));
    let log = log_of(&logs).filter(|_| report.offline.is_empty());
    let Some(log) = log else {
        // An empty log need not be there at all, and a file that does not belong there may speak against it.
        assert_eq!(start, end, "it opened, and after a power cut it is gone: {report:?}");
        return;
    };
    assert_eq!((log.start_offset(), log.end_offset()), (start, end), "opened after a power cut");
    expected.check_log(&log, &report);
    expected.check_producers(life, &log);
    if end.0 < i64::MAX / 2 {
        let bytes = life::batch(None, 1, 10, 0);
        let appended = log.append_internal(life::now(), LeaderEpoch(i32::MAX), &bytes);
        let appended = appended.unwrap_or_else(|error| panic!("the log does not go on: {error}"));
        log.sync().unwrap_or_else(|error| panic!("the log does not go on: {error}"));
        assert_eq!(appended.base_offset, end);
        assert_eq!(first_at(&log, end).map(|batch| batch.next), Some(end.0 + 1), "what was appended is read");
    }
}

fn check_no_work(report: &RecoveryReport) {
    for partition in &report.partitions {
        // A segment without a good batch has no indexes that tell so: it is looked at, and told, at every start.
        let has_worked = partition.cut.is_some() || partition.rebuilt_indexes > partition.damaged.len();
        assert!(!has_worked, "the second start still finds something to do: {partition:?}");
    }
    assert!(report.removed.is_empty(), "the second start still removes {:?}", report.removed);
}

/// What must hold, by the files before and after the damage.
struct Expected {
    /// Everything that was ever written.
    written: BTreeMap<i64, Written>,
    /// What stands whole in a segment, in the right place, before anything that is damaged.
    intact: Vec<Written>,
    /// Whole batches that the damage has left, anywhere.
    left: Vec<Written>,
    start: Option<i64>,
    may_refuse: bool,
    may_be_missing: bool,
    may_be_forged: bool,
    /// A recovery point or a snapshot may say of batches that they are durable that never were; such batches are not
    /// synced when the log is opened.
    may_claim_durable: bool,
    /// Neither batches nor snapshots are damaged.
    producers_are_known: bool,
}

const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";

/// The highest recovery point of a good file: `topic partition offset` behind two lines of other numbers.
fn recovery_point(files: &Files) -> i64 {
    let text = files.get(Path::new(&format!("{ROOT}/{RECOVERY_POINTS}"))).map(|bytes| String::from_utf8_lossy(bytes));
    let offset = |line: &str| line.split(' ').nth(2)?.parse().ok();
    text.iter().flat_map(|text| text.lines().skip(2)).filter_map(offset).max().unwrap_or(0)
}

/// The highest offset that a file of recovery points may be read to name, if it can be read at all.
fn recovery_point_max(files: &Files) -> i64 {
    let bytes = files.get(Path::new(&format!("{ROOT}/{RECOVERY_POINTS}")));
    let words = bytes.into_iter().flat_map(|bytes| bytes.split(u8::is_ascii_whitespace));
    let numbers = words.filter_map(|word| str::from_utf8(word).ok()?.parse().ok());
    numbers.max().unwrap_or(0)
}

impl Expected {
    fn new(life: &Life, before: &Files, after: &Files, damage: &Damage) -> Self {
        let written: BTreeMap<_, _> = life.written.iter().map(|batch| (batch.base, batch.clone())).collect();
        let changed = |path: &str| before.get(Path::new(path)) != after.get(Path::new(path));
        let in_root = |name: &str| changed(&format!("{ROOT}/{name}"));
        let (intact, end) = intact(before, after);
        let left = segments(after)
            .filter(|(path, _)| before.contains_key(*path))
            .flat_map(|(_, bytes)| whole_batches(bytes))
            .filter(|batch| written.get(&batch.base).is_some_and(|known| known.bytes[16..] == batch.bytes[16..]))
            .filter(|batch| batch.next > life.start)
            .collect();
        let newest_snapshot = |files: &Files| snapshots(files).max().unwrap_or(0);
        let durable = life.checkpointed.max(newest_snapshot(before)).max(newest_snapshot(after));
        // With `FlushMode::Os` less than was durable is written down.
        let known = recovery_point(before).max(newest_snapshot(before));
        let metadata = after.get(Path::new(&format!("{DIR}/partition.metadata"))).map(Vec::as_slice);
        let has_metadata = metadata == Some(life::partition_metadata().as_bytes());
        // The first segments are gone, and so is everything that says that this is as it should be.
        let first = segments(after).next().and_then(|(path, _)| offset_in_name(path, "log")).unwrap_or(0);
        let begins_nowhere = first > 0 && snapshots(after).next().is_none();
        let log_starts = in_root("log-start-offset-checkpoint");
        if damage.is_none() && life.is_acknowledged_durable {
            assert!(end >= life.acknowledged, "a power cut has taken what was durable");
        }
        Self {
            written,
            intact,
            left,
            start: (!log_starts).then_some(life.start),
            may_refuse: in_root("meta.properties") || !has_metadata || in_root(RECOVERY_POINTS) || end < durable,
            may_be_missing: !has_metadata || begins_nowhere,
            may_be_forged: damage.may_be_forged,
            may_claim_durable: newest_snapshot(after) > known
                || in_root(RECOVERY_POINTS) && recovery_point_max(after) > known,
            producers_are_known: ["log", "snapshot"].iter().all(|kind| {
                let of_kind = |files: &Files| {
                    let files = files.iter().filter(|(path, _)| offset_in_name(path, kind).is_some());
                    files.map(|(path, bytes)| (path.clone(), bytes.clone())).collect::<Files>()
                };
                of_kind(before) == of_kind(after)
            }),
        }
    }

    fn check_refusal(&self, error: &OpenError) {
        assert!(self.may_refuse, "nothing durable is damaged, and still: {error}");
    }

    /// A start deletes no records.
    fn check_nothing_deleted(&self, files: &Files) {
        if self.may_be_forged {
            // Behind a batch that claims more offsets than it has, good ones look like those of an earlier life.
            return;
        }
        for batch in &self.left {
            // What stands in front of the CRC is written anew when a log takes a batch, never later.
            let is_there = files.values().any(|bytes| contains(bytes, &batch.bytes));
            assert!(is_there, "the batch at offset {} was good and is deleted", batch.base);
        }
    }

    fn check_log(&self, log: &PartitionLog, report: &RecoveryReport) {
        let (start, end) = (log.start_offset().0, log.end_offset().0);
        assert_eq!(log.durable_end().0, end);
        assert!(start <= end, "from {start} to {end}");
        if let Some(expected) = self.start {
            let first = self.intact.first().map_or(expected, |batch| batch.base);
            assert!(start >= expected.min(end), "records below {expected} are back: {start} {first}");
        }
        for batch in self.intact.iter().filter(|batch| batch.next > start) {
            assert!(batch.next <= end, "the batch at {} is whole, and the log ends at {end}: {report:?}", batch.base);
            for offset in [batch.base.max(start), batch.next - 1] {
                let read = first_at(log, Offset(offset));
                let is_it = read.as_ref().is_some_and(|read| read.bytes[16..] == batch.bytes[16..]);
                assert!(is_it, "at {offset} the batch of {} is whole, what is read is {read:?}", batch.base);
            }
        }
        self.check_reading(log, start, end);
        for batch in self.written.values() {
            let Ok(batch) = Batch::parse(&batch.bytes) else { continue };
            // Times are looked up in what may be damaged: any answer will do, if it is one.
            let _ = log.offset_for_timestamp(batch.header().max_timestamp, Offset(end));
        }
        let _ = log.max_timestamp();
        for epoch in 0..4 {
            let _ = log.end_offset_for_epoch(LeaderEpoch(epoch));
        }
    }

    /// What was the last batch of a producer, and is there, is recognised.
    fn check_producers(&self, life: &Life, log: &PartitionLog) {
        if !self.producers_are_known {
            return;
        }
        // Of what is not in the log only a snapshot knows, which a power cut may have taken.
        let from = if life.may_lack_files { log.start_offset().0 } else { 0 };
        for (bytes, base) in life.produced.values().filter(|(_, base)| (from..log.end_offset().0).contains(base)) {
            let appended = life.append_again(log, bytes);
            let base_offset = appended.as_ref().ok().filter(|appended| appended.duplicate).map(|it| it.base_offset.0);
            assert_eq!(base_offset, Some(*base), "sent again, it is {appended:?}");
        }
    }

    /// Reads on and on, as a consumer does.
    fn check_reading(&self, log: &PartitionLog, start: i64, end: i64) {
        let damaged_from = self.intact.last().map_or(start, |batch| batch.next);
        let mut next = start;
        while next < end {
            let read = match log.read(Offset(next), Offset(end), 1000, true) {
                Ok(read) => read,
                Err(error) => {
                    assert!(next >= damaged_from, "at {next}, before any damage: {error}");
                    return;
                }
            };
            let mut at = next;
            for batch in batches(&read.bytes) {
                let Ok(batch) = batch else {
                    assert!(at >= damaged_from, "at {at}, before any damage, what is read is no batch");
                    break;
                };
                let is_it = |known: &Written| known.bytes[16..] == batch.bytes()[16..];
                let is_known = if at >= damaged_from {
                    // No CRC covers the offset: behind damage a batch may stand where another one was.
                    self.written.values().any(is_it)
                } else {
                    self.written.get(&batch.header().base_offset.0).is_some_and(is_it)
                };
                assert!(is_known || self.may_be_forged, "nobody has ever written {:?}", batch.header());
                at = batch.header().next_offset().0;
            }
            if read.next_offset.0 <= next {
                assert!(next >= damaged_from && read.bytes.is_empty(), "at {next} a reader does not get on");
                return;
            }
            next = read.next_offset.0;
        }
    }
}

/// The batch that a reader gets who asks for this offset.
fn first_at(log: &PartitionLog, offset: Offset) -> Option<Written> {
    let read = log.read(offset, log.end_offset(), 1, true).ok()?;
    whole_batches(&read.bytes).into_iter().next()
}

/// The segments of the log, in order.
fn segments(files: &Files) -> impl Iterator<Item = (&PathBuf, &Vec<u8>)> {
    files.iter().filter(|(path, _)| path.starts_with(DIR) && offset_in_name(path, "log").is_some())
}

fn snapshots(files: &Files) -> impl Iterator<Item = i64> {
    files.keys().filter_map(|path| offset_in_name(path, "snapshot"))
}

/// The offset that a file of this kind has in its name.
fn offset_in_name(path: &Path, extension: &str) -> Option<i64> {
    let name = path.file_name()?.to_str()?.strip_suffix(extension)?.strip_suffix('.')?;
    (name.len() == 20).then(|| name.parse().ok())?
}

/// The batches before anything is damaged that were whole and in order before, and the offset behind them.
fn intact(before: &Files, after: &Files) -> (Vec<Written>, i64) {
    let mut found: Vec<Written> = Vec::new();
    // A new file among the segments is damage from its offset on.
    let new = segments(after).filter(|(path, _)| !before.contains_key(*path));
    let new_from = new.filter_map(|(path, _)| offset_in_name(path, "log")).min().unwrap_or(i64::MAX);
    let mut next = None;
    for (path, bytes) in segments(before) {
        let base = offset_in_name(path, "log").unwrap_or(0);
        let mut end = *next.get_or_insert(base);
        if end != base {
            return (found, end);
        }
        let now = after.get(path);
        let same = now.map_or(0, |now| bytes.iter().zip(now).take_while(|(was, is)| was == is).count());
        let mut position = 0;
        for batch in whole_batches(bytes) {
            position += batch.bytes.len();
            if batch.base != end || position > same || batch.next > new_from {
                return (found, end);
            }
            end = batch.next;
            found.push(batch);
        }
        // Bytes behind the batches, torn or put there, end the log as well.
        if position < bytes.len() || now != Some(bytes) {
            return (found, end);
        }
        next = Some(end);
    }
    (found, next.unwrap_or(0))
}

/// The batches at the beginning of these bytes.
fn whole_batches(bytes: &[u8]) -> Vec<Written> {
    let whole = batches(bytes).map_while(Result::ok);
    whole
        .map(|batch| Written {
            base: batch.header().base_offset.0,
            next: batch.header().next_offset().0,
            bytes: batch.bytes().to_vec(),
        })
        .collect()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    // A batch's first bytes are zeros, its CRC is rare.
    let crc = &wanted[17..21];
    let places = bytes.windows(4).enumerate().filter(|(_, window)| *window == crc);
    places.filter_map(|(at, _)| bytes.get(at.checked_sub(17)?..)).any(|rest| rest.starts_with(wanted))
}
