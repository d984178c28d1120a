//! The releases of Kafka Streams that people run, each on both group protocols.

use riparian_tests::{Server, WordCount};

/// A crash must be noticed within a test.
const QUICK: &[(&str, &str)] = &[
    ("group.min.session.timeout.ms", "1000"),
    ("group.streams.min.session.timeout.ms", "3000"),
    ("group.streams.session.timeout.ms", "3000"),
    ("group.streams.min.heartbeat.interval.ms", "500"),
    ("group.streams.heartbeat.interval.ms", "1000"),
    ("group.streams.initial.rebalance.delay.ms", "500"),
    ("group.initial.rebalance.delay.ms", "500"),
];
/// Lines a second when the rate does not matter.
const AT_ONCE: u64 = 1_000_000;

/// An instance closes, one is killed, the server is killed, all while data flows; the counts are right.
fn word_count_survives(release: &str, protocol: &str) {
    let mut server = Server::start(QUICK);
    let protocol_setting = format!("group.protocol={protocol}");
    let mut settings = vec![protocol_setting.as_str()];
    if protocol == "classic" {
        settings.extend(["session.timeout.ms=3000", "heartbeat.interval.ms=500"]);
    }
    let application = WordCount::new(&server, Some(release), &settings);
    let (first, second) = (application.start("first"), application.start("second"));
    application.wait_until_settled(&[&first, &second]);
    application.feed(0, 1000, AT_ONCE).finish();

    let feed = application.feed(1000, 1000, 1000);
    application.close(second);
    application.wait_until_settled(&[&first]);
    feed.finish();
    application.check_counts(2000, true);

    let mut third = application.start("third");
    application.wait_until_settled(&[&first, &third]);
    let feed = application.feed(2000, 1000, 1000);
    feed.wait_for(200);
    third.kill();
    application.wait_until_settled(&[&first]);
    feed.finish();
    application.check_counts(3000, false);

    let fourth = application.start("fourth");
    application.wait_until_settled(&[&first, &fourth]);
    let feed = application.feed(3000, 2000, 1000);
    // In the middle of what is fed.
    feed.wait_for(500);
    server.kill();
    server.restart();
    feed.finish();
    application.check_counts(5000, false);
    application.wait_until_settled(&[&first, &fourth]);
    application.close(first);
    application.close(fourth);
}

#[test]
fn streams_4_4_0_on_the_streams_protocol() {
    word_count_survives("4.4.0", "streams");
}

#[test]
fn streams_4_4_0_on_the_classic_protocol() {
    word_count_survives("4.4.0", "classic");
}

#[test]
fn streams_4_3_1_on_the_streams_protocol() {
    word_count_survives("4.3.1", "streams");
}

#[test]
fn streams_4_3_1_on_the_classic_protocol() {
    word_count_survives("4.3.1", "classic");
}

#[test]
fn streams_4_2_0_on_the_streams_protocol() {
    word_count_survives("4.2.0", "streams");
}

#[test]
fn streams_4_2_0_on_the_classic_protocol() {
    word_count_survives("4.2.0", "classic");
}
