//! The shard over a toy machine (a counter per name) and a log in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use riparian_records::batches;
use riparian_types::{
    MonoMillis, Now, Offset, WallMillis,
    machine::{Decision, Inconsistent, Machine, RecordContext, Waiter},
};

use crate::{Decoded, KeyValue, LogFailure, Outcome, RecordCodec, RecordLog, Shard};

/// Hard state: a number per name.
#[derive(Default)]
struct Counters {
    numbers: BTreeMap<String, i64>,
    quarantined: Vec<String>,
}

#[derive(Default)]
struct Soft {
    deadline: Option<MonoMillis>,
}

enum Ask {
    /// Add to a number; the answer is the new one.
    Add(Waiter, &'static str, i64),
    Read(Waiter, &'static str),
    Effect(&'static str),
    Panic,
    WakeAt(u64),
}

#[derive(Clone)]
struct Set(String, i64);

impl Machine for Counters {
    type Soft = Soft;
    type Command = Ask;
    type Record = Set;
    type Reply = i64;
    type Effect = String;
    type Scope = String;

    fn decide(&self, soft: &mut Soft, _: Now, ask: Ask) -> Decision<Self> {
        let current = |name: &str| self.numbers.get(name).copied().unwrap_or(0);
        match ask {
            Ask::Add(waiter, name, by) => {
                let sum = current(name) + by;
                let mut decision = Decision::reply(waiter, Some(name.to_owned()), sum);
                decision.records.push(Set(name.to_owned(), sum));
                decision
            }
            Ask::Read(waiter, name) => Decision::reply(waiter, Some(name.to_owned()), current(name)),
            Ask::Effect(name) => {
                let mut decision = Decision::nothing();
                decision.records.push(Set(name.to_owned(), current(name)));
                decision.effects.push(name.to_owned());
                decision
            }
            Ask::Panic => panic!("on purpose"),
            Ask::WakeAt(ms) => {
                soft.deadline = Some(MonoMillis(ms));
                Decision::nothing()
            }
        }
    }

    fn apply(&mut self, _: &RecordContext, Set(name, number): &Set) -> Result<(), Inconsistent> {
        if *number < 0 {
            return Err(Inconsistent { reason: format!("{name} is {number}") });
        }
        self.numbers.insert(name.clone(), *number);
        Ok(())
    }

    fn scope_of(Set(name, _): &Set) -> String {
        name.clone()
    }

    fn quarantine(&mut self, scope: String, _: String, _: Option<&Set>) {
        self.numbers.remove(&scope);
        self.quarantined.push(scope);
    }

    fn loaded(&self, _: &mut Soft, _: Now) {}

    fn next_deadline(&self, soft: &Soft) -> Option<MonoMillis> {
        soft.deadline
    }

    fn on_deadline(&self, soft: &mut Soft, _: Now) -> Decision<Self> {
        soft.deadline = None;
        let mut decision = Decision::nothing();
        decision.records.push(Set("timer".to_owned(), 1));
        decision
    }
}

struct Codec;

impl RecordCodec<Counters> for Codec {
    fn encode(Set(name, number): &Set) -> KeyValue {
        KeyValue { key: Some(name.clone().into_bytes()), value: Some(number.to_be_bytes().to_vec()) }
    }

    fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Decoded<Counters> {
        let Some(key) = key else { return Decoded::Damaged("no key".to_owned()) };
        let name = String::from_utf8_lossy(key).into_owned();
        if name == "unknown" {
            return Decoded::Unknown { kind: 7 };
        }
        match value.and_then(|value| value.try_into().ok()) {
            Some(number) => Decoded::Record(Set(name, i64::from_be_bytes(number))),
            None => Decoded::DamagedScope { scope: name, tombstone: None, reason: "not a number".to_owned() },
        }
    }
}

#[derive(Default)]
struct Disk {
    batches: Vec<Vec<u8>>,
    end: i64,
    durable: i64,
    fail_appends: bool,
}

#[derive(Clone, Default)]
struct MemLog(Arc<Mutex<Disk>>);

impl MemLog {
    fn with<R>(&self, look: impl FnOnce(&mut Disk) -> R) -> R {
        look(&mut self.0.lock().unwrap())
    }

    fn sync(&self) {
        self.with(|disk| disk.durable = disk.end);
    }

    fn put(&self, records: &[(Option<&str>, Option<&[u8]>)]) {
        let mut builder = riparian_records::BatchBuilder::new(riparian_records::BatchOptions::PLAIN);
        for (key, value) in records {
            builder.push(WallMillis(1), key.map(str::as_bytes), *value);
        }
        let mut log = self.clone();
        log.append(now(0), &builder.build()).unwrap();
        self.sync();
    }
}

impl RecordLog for MemLog {
    fn append(&mut self, _: Now, batch: &[u8]) -> Result<Offset, LogFailure> {
        self.with(|disk| {
            if disk.fail_appends {
                return Err(LogFailure { reason: "full".to_owned() });
            }
            let mut bytes = batch.to_vec();
            let base = Offset(disk.end);
            riparian_records::stamp(&mut bytes, base, riparian_types::LeaderEpoch(0), None);
            disk.end += batches(&bytes).map(|b| i64::from(b.unwrap().header().record_count)).sum::<i64>();
            disk.batches.push(bytes);
            Ok(base)
        })
    }

    fn end_offset(&self) -> Offset {
        Offset(self.with(|disk| disk.end))
    }

    fn durable_end(&self) -> Offset {
        Offset(self.with(|disk| disk.durable))
    }

    fn start_offset(&self) -> Offset {
        Offset::ZERO
    }

    fn read(&self, from: Offset, _: usize) -> Result<Bytes, LogFailure> {
        self.with(|disk| {
            let ends_after = |bytes: &&Vec<u8>| batches(bytes).all(|b| b.unwrap().header().next_offset() > from);
            Ok(disk.batches.iter().find(ends_after).cloned().unwrap_or_default().into())
        })
    }

    fn reopen(&mut self, _: Now) -> Result<(), LogFailure> {
        self.with(|disk| {
            let durable = disk.durable;
            disk.batches.retain(|bytes| batches(bytes).all(|b| b.unwrap().header().base_offset.0 < durable));
            disk.end = durable;
        });
        Ok(())
    }
}

type TestShard = Shard<Counters, Codec, MemLog>;

fn now(ms: u64) -> Now {
    Now { mono: MonoMillis(ms), wall: WallMillis(ms as i64) }
}

fn loaded(log: &MemLog) -> TestShard {
    let mut shard = TestShard::new(log.clone(), Box::new(|| (Counters::default(), Soft::default())));
    shard.load(now(0), false).unwrap();
    shard
}

fn ask(shard: &mut TestShard, waiter: u64, ask: impl FnOnce(Waiter) -> Ask) -> Outcome<Counters> {
    shard.command(now(0), ask(Waiter(waiter)), Some(Waiter(waiter)))
}

fn number(shard: &TestShard, name: &str) -> Option<i64> {
    shard.machine().and_then(|machine| machine.numbers.get(name).copied())
}

#[test]
fn answers_wait_for_their_own_scope_only() {
    let log = MemLog::default();
    let mut shard = loaded(&log);
    let first = ask(&mut shard, 1, |w| Ask::Add(w, "a", 5));
    assert!(first.answers.is_empty() && first.appended);
    // A read of the same scope shows what is not durable yet, so it waits too; another scope doesn't.
    assert!(ask(&mut shard, 2, |w| Ask::Read(w, "a")).answers.is_empty());
    assert_eq!(ask(&mut shard, 3, |w| Ask::Read(w, "b")).answers, [(Waiter(3), 0)]);
    assert!(shard.on_durable().answers.is_empty());
    log.sync();
    assert_eq!(shard.on_durable().answers, [(Waiter(1), 5), (Waiter(2), 5)]);
    assert_eq!(ask(&mut shard, 4, |w| Ask::Read(w, "a")).answers, [(Waiter(4), 5)]);
}

#[test]
fn an_answer_waits_for_the_last_append_before_it_not_for_later_ones() {
    let log = MemLog::default();
    let mut shard = loaded(&log);
    ask(&mut shard, 1, |w| Ask::Add(w, "a", 1));
    log.sync();
    // The call finds the first append durable and lets its answer go on the way.
    assert_eq!(ask(&mut shard, 2, |w| Ask::Add(w, "a", 1)).answers, [(Waiter(1), 1)]);
    assert!(shard.on_durable().answers.is_empty());
    log.sync();
    assert_eq!(shard.on_durable().answers, [(Waiter(2), 2)]);
}

#[test]
fn effects_wait_for_their_records() {
    let log = MemLog::default();
    let mut shard = loaded(&log);
    assert!(ask(&mut shard, 1, |_| Ask::Effect("x")).effects.is_empty());
    log.sync();
    assert_eq!(shard.on_durable().effects, ["x"]);
}

#[test]
fn a_failed_append_unloads_the_shard_and_turns_everybody_away() {
    let log = MemLog::default();
    let mut shard = loaded(&log);
    ask(&mut shard, 1, |w| Ask::Add(w, "a", 1));
    log.sync();
    shard.on_durable();
    ask(&mut shard, 2, |w| Ask::Add(w, "a", 1));
    log.with(|disk| disk.fail_appends = true);
    let failed = ask(&mut shard, 3, |w| Ask::Add(w, "a", 1));
    assert_eq!(failed.unloaded.as_deref(), Some("full"));
    assert_eq!(failed.turned_away, [Waiter(2), Waiter(3)]);
    assert!(!shard.is_loaded());
    assert_eq!(ask(&mut shard, 4, |w| Ask::Read(w, "a")).turned_away, [Waiter(4)]);
    // What was not durable is gone, what was is there.
    shard.load(now(0), true).unwrap();
    assert_eq!(number(&shard, "a"), Some(1));
}

#[test]
fn a_glance_has_no_answer_while_one_would_have_to_wait() {
    let log = MemLog::default();
    let mut shard = loaded(&log);
    let glance = |shard: &mut TestShard, name: &str| {
        let answer = shard.glance(name, |machine, _| machine.numbers.get(name).copied());
        answer.unwrap_or_else(|outcome| panic!("{:?}", outcome.unloaded))
    };
    ask(&mut shard, 1, |w| Ask::Add(w, "a", 1));
    log.sync();
    shard.on_durable();
    ask(&mut shard, 2, |w| Ask::Add(w, "b", 1));
    // Records of another scope are nothing to wait for.
    assert_eq!([glance(&mut shard, "a"), glance(&mut shard, "b"), glance(&mut shard, "c")], [Some(1), None, None]);
    log.sync();
    shard.on_durable();
    assert_eq!(glance(&mut shard, "b"), Some(1));
    shard.unload("on purpose".to_owned());
    assert_eq!(glance(&mut shard, "a"), None);
}

#[test]
fn a_panic_in_a_glance_unloads_the_shard() {
    let log = MemLog::default();
    let mut shard = loaded(&log);
    ask(&mut shard, 1, |w| Ask::Add(w, "a", 1));
    let glance = shard.glance("b", |_, _| -> Option<()> { panic!("on purpose") });
    let Err(outcome) = glance else { panic!("it went well") };
    assert_eq!(outcome.unloaded.as_deref(), Some("panic: on purpose"));
    assert_eq!(outcome.turned_away, [Waiter(1)]);
    assert!(!shard.is_loaded());
}

#[test]
fn a_panic_unloads_the_shard_and_nothing_else() {
    let log = MemLog::default();
    let mut shard = loaded(&log);
    ask(&mut shard, 1, |w| Ask::Add(w, "a", 1));
    log.sync();
    let outcome = ask(&mut shard, 2, |_| Ask::Panic);
    assert_eq!(outcome.unloaded.as_deref(), Some("panic: on purpose"));
    assert_eq!(outcome.turned_away, [Waiter(1), Waiter(2)]);
    shard.load(now(0), true).unwrap();
    assert_eq!(number(&shard, "a"), Some(1));
}

#[test]
fn loading_replays_and_damage_stays_in_its_scope() {
    let log = MemLog::default();
    log.put(&[(Some("a"), Some(&7i64.to_be_bytes())), (Some("unknown"), Some(b"?"))]);
    log.put(&[(Some("b"), Some(b"xx")), (None, None), (Some("c"), Some(&(-1i64).to_be_bytes()))]);
    log.put(&[(Some("a"), Some(&8i64.to_be_bytes()))]);
    let mut shard = TestShard::new(log.clone(), Box::new(|| (Counters::default(), Soft::default())));
    let report = shard.load(now(0), false).unwrap();
    assert_eq!((report.records, report.unknown), (2, 1));
    assert_eq!(report.quarantined.len(), 2, "{report:?}");
    assert_eq!(report.damaged, ["offset 3: no key"]);
    assert_eq!(number(&shard, "a"), Some(8));
    assert_eq!(shard.machine().unwrap().quarantined, ["b", "c"]);
}

#[test]
fn timers_are_handled_until_none_is_due() {
    let log = MemLog::default();
    let mut shard = loaded(&log);
    ask(&mut shard, 1, |_| Ask::WakeAt(50));
    assert_eq!(shard.next_deadline(), Some(MonoMillis(50)));
    assert!(!shard.on_time(now(49)).appended);
    assert!(shard.on_time(now(50)).appended);
    assert_eq!((shard.next_deadline(), number(&shard, "timer")), (None, Some(1)));
}
