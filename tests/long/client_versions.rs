//! The releases of Kafka Streams that people run, each on both group protocols.

use riparian_tests::{Server, WordCount};

/// A crash must be noticed within a test.
const QUICK: &[(&str, &str)] = &[
    ("group.min.session.timeout.ms", "1000"),
    ("group.streams.min.session.timeout.ms", "3000"),
    ("group.streams.session.timeout.ms", "4000"),
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
        settings.extend(["session.timeout.ms=4000", "heartbeat.interval.ms=500"]);
    }
    let application = WordCount::new(&server, Some(release), &settings);
    let (first, second) = (application.start("first"), application.start("second"));
    application.wait_until_settled(&[&first, &second]);
    application.finish_feed(application.feed(0, 1000, AT_ONCE), 1000);

    let feeder = application.feed(1000, 1000, 500);
    application.close(second);
    application.wait_until_settled(&[&first]);
    application.finish_feed(feeder, 1000);
    application.check_counts(2000, true);

    let mut third = application.start("third");
    application.wait_until_settled(&[&first, &third]);
    let feeder = application.feed(2000, 1000, 500);
    third.kill();
    application.wait_until_settled(&[&first]);
    application.finish_feed(feeder, 1000);
    application.check_counts(3000, false);

    let fourth = application.start("fourth");
    application.wait_until_settled(&[&first, &fourth]);
    let feeder = application.feed(3000, 2000, 1000);
    // In the middle of what is fed: the feeder is still at it when the server is gone.
    feeder.wait_for_line("the feed has begun", std::time::Duration::from_secs(60), |line| line.starts_with("fed "));
    server.kill();
    server.restart();
    application.finish_feed(feeder, 2000);
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
