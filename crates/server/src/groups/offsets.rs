//! What a group has committed, for every type of group alike.

use riparian_client::admin::GroupOffset;
use serde::Serialize;

use crate::output::table;

#[derive(Serialize)]
pub(super) struct OffsetJson<'a> {
    topic: &'a str,
    partition: i32,
    committed: i64,
    end: Option<i64>,
    lag: Option<i64>,
}

pub(super) fn json(offsets: &[GroupOffset]) -> Vec<OffsetJson<'_>> {
    let mut shown = Vec::with_capacity(offsets.len());
    for it in offsets {
        let GroupOffset { topic, partition, committed, end } = it;
        shown.push(OffsetJson { topic, partition: *partition, committed: *committed, end: *end, lag: it.lag() });
    }
    shown
}

/// A table; nothing at all if nothing is committed.
pub(super) fn text(offsets: &[GroupOffset]) -> String {
    if offsets.is_empty() {
        return String::new();
    }
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let rows = offsets.iter().map(|it| {
        let (topic, partition) = (format!("  {}", it.topic), it.partition.to_string());
        [topic, partition, it.committed.to_string(), number(it.end), number(it.lag())]
    });
    table(["  TOPIC", "PARTITION", "COMMITTED", "END", "LAG"], rows)
}
