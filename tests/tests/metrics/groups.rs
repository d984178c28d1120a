//! What is told of groups, shards and logs.

use riparian_tests::{Scrape, Server, create_topics};

use super::{
    counters::eventually,
    member::{Member, commit_offset},
};

const FAST: &[(&str, &str)] = &[
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("group.streams.assignment.interval.ms", "0"),
    ("offsets.topic.num.partitions", "4"),
];
const GROUP: (&str, &str) = ("group", "app");

#[test]
fn a_streams_group_is_told_with_its_state_epochs_members_and_tasks() {
    let server = Server::start(FAST);
    let port = server.http_port();
    create_topics(server.port(), &["in"], 6);
    let mut first = Member::join(server.port(), "app", "first");
    first.settle(6);
    let state =
        |name: &str| [GROUP, ("type", "streams"), ("state", name)].map(|(label, value)| (label, value.to_owned()));
    let is_in = |scrape: &Scrape, name: &str| {
        let labels = state(name);
        scrape.value("riparian_group_state", &labels.each_ref().map(|(label, value)| (*label, value.as_str())))
            == Some(1.0)
    };
    let one = eventually(port, "a stable group", |scrape| is_in(scrape, "Stable"));
    let value = |scrape: &Scrape, name: &str| scrape.value(name, &[GROUP]);
    assert_eq!(value(&one, "riparian_group_epoch"), Some(f64::from(first.epoch)));
    assert_eq!(value(&one, "riparian_group_assignment_epoch"), Some(f64::from(first.epoch)));
    assert_eq!(one.value("riparian_group_members", &[GROUP, ("type", "streams")]), Some(1.0));
    for (role, count) in [("active", 6.0), ("standby", 0.0), ("warmup", 0.0)] {
        assert_eq!(one.value("riparian_group_tasks", &[GROUP, ("role", role)]), Some(count), "{role}");
        assert_eq!(one.value("riparian_groups_tasks", &[("role", role)]), Some(count), "{role}");
    }
    let rebalances = |scrape: &Scrape| {
        let of_group = scrape.value("riparian_group_rebalances_total", &[GROUP, ("type", "streams")]);
        assert_eq!(of_group, scrape.value("riparian_rebalances_total", &[("type", "streams")]));
        of_group.expect("it is counted")
    };
    let before = rebalances(&one);
    assert!(before >= 1.0);
    assert!(one.value("riparian_assignment_seconds_count", &[]) >= Some(before));

    let mut second = Member::join(server.port(), "app", "second");
    let two = eventually(port, "tasks that move", |scrape| is_in(scrape, "Reconciling"));
    assert_eq!(two.value("riparian_group_members", &[GROUP, ("type", "streams")]), Some(2.0));
    assert_eq!(two.value("riparian_groups", &[("type", "streams"), ("state", "Reconciling")]), Some(1.0));
    assert_eq!(rebalances(&two), before + 1.0);
    for _ in 0..3 {
        first.settle(3);
        second.settle(3);
    }
    let settled = eventually(port, "a stable group again", |scrape| is_in(scrape, "Stable"));
    let seconds = |scrape: &Scrape, state: &str| {
        scrape.value("riparian_group_in_state_seconds_total", &[GROUP, ("state", state)]).unwrap_or(0.0)
    };
    assert!(seconds(&settled, "Reconciling") >= seconds(&two, "Reconciling"));
    assert_eq!(settled.sum("riparian_groups_members", &[]), 2.0);

    first.leave();
    second.leave();
    let empty = eventually(port, "an empty group", |scrape| is_in(scrape, "Empty"));
    assert_eq!(empty.value("riparian_group_members", &[GROUP, ("type", "streams")]), Some(0.0));
    assert_eq!(empty.sum("riparian_group_state", &[GROUP]), 1.0, "a group is in one state");
    eventually(port, "time that passes", |scrape| seconds(scrape, "Empty") > seconds(&empty, "Empty"));
}

#[test]
fn groups_beyond_the_limit_are_only_in_the_totals() {
    let settings = [FAST, &[("riparian.metrics.groups.max", "2")]].concat();
    let server = Server::start(&settings);
    create_topics(server.port(), &["in"], 1);
    for group in ["a", "b", "c", "with \"quotes\"\\ and\nlines"] {
        commit_offset(server.port(), group);
    }
    let scrape = Scrape::take(server.http_port());
    assert_eq!(scrape.label_values("riparian_group_state", "group").len(), 2);
    assert_eq!(scrape.value("riparian_groups_left_out", &[]), Some(2.0));
    assert_eq!(scrape.value("riparian_groups", &[("type", "classic"), ("state", "Empty")]), Some(4.0));
    assert_eq!(scrape.sum("riparian_groups", &[]), 4.0);
}

#[test]
fn names_of_groups_are_told_whatever_they_are() {
    let server = Server::start(FAST);
    create_topics(server.port(), &["in"], 1);
    let name = "with \"quotes\", {braces}\\ and\nlines";
    commit_offset(server.port(), name);
    let scrape = Scrape::take(server.http_port());
    assert_eq!(scrape.value("riparian_group_members", &[("group", name), ("type", "classic")]), Some(0.0));
}

#[test]
fn shards_and_logs_are_told_with_their_offsets_and_syncs() {
    let server = Server::start(FAST);
    let port = server.http_port();
    let before = Scrape::take(port);
    let shards =
        |scrape: &Scrape, kind: &str, state: &str| scrape.value("riparian_shards", &[("kind", kind), ("state", state)]);
    assert_eq!((shards(&before, "groups", "serving"), shards(&before, "metadata", "serving")), (Some(4.0), Some(1.0)));
    assert_eq!(before.sum("riparian_shards", &[]), 5.0);
    assert_eq!(before.value("riparian_partitions", &[]), Some(0.0));
    create_topics(server.port(), &["in"], 3);
    commit_offset(server.port(), "a");
    let scrape = eventually(port, "durable records", |scrape| {
        scrape.sum("riparian_shard_log_durable_offset", &[]) == scrape.sum("riparian_shard_log_end_offset", &[])
    });
    for kind in ["metadata", "groups"] {
        let grown = |name: &str| scrape.sum(name, &[("kind", kind)]) - before.sum(name, &[("kind", kind)]);
        assert!(grown("riparian_shard_log_end_offset") >= 1.0, "{kind}");
        assert_eq!(grown("riparian_log_records_total"), grown("riparian_shard_log_end_offset"), "{kind}");
        assert_eq!(grown("riparian_log_appended_bytes_total"), grown("riparian_shard_log_size_bytes"), "{kind}");
        assert!(grown("riparian_log_appends_total") >= 1.0, "{kind}");
        assert!(grown("riparian_log_sync_seconds_count") >= 1.0, "{kind}");
        assert_eq!(scrape.value("riparian_log_sync_failures_total", &[("kind", kind)]), Some(0.0));
    }
    assert_eq!(scrape.value("riparian_partitions", &[]), Some(3.0));
    assert_eq!(scrape.value("riparian_partitions_offline", &[]), Some(0.0));
}
