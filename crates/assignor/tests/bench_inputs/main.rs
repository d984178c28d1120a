//! The built-in assignors on ten groups, compared with the quality Apache Kafka 4.4.0 reaches on them.
//!
//! `cargo test --test bench_inputs -- --nocapture` prints all figures beside Kafka's.

mod quality;
#[expect(clippy::unwrap_used, reason = "the files are our own; a panic is how the test fails")]
mod spec;

use std::time::Instant;

use riparian_assignor::{assign_checked, built_in};

#[test]
fn sticky_is_as_good_as_kafka() {
    let sticky = built_in::find("sticky").unwrap();
    let kafka_quality = spec::kafka_quality();
    assert_eq!(kafka_quality.len(), 10);
    let mut worse = Vec::new();
    for (name, kafka_quality) in &kafka_quality {
        let input = spec::read(name);
        let start = Instant::now();
        let assignment = assign_checked(sticky, &input).unwrap();
        println!("{name}: {:?}", start.elapsed());
        let kafka = |figure: &str| kafka_quality[figure].as_u64().unwrap();
        for (figure, ours) in quality::figures(&input, &assignment) {
            let theirs = kafka(figure);
            println!("  {figure}: {ours} (Kafka {theirs})");
            let is_worse = if quality::is_better_small(figure) { ours > theirs } else { ours < theirs };
            if is_worse {
                worse.push(format!("{name}: {figure} is {ours}, Kafka's {theirs}"));
            }
        }
        for (figure, (min, max)) in quality::spreads(&input, &assignment) {
            let (kafka_min, kafka_max) = (kafka(&format!("{figure}_min")), kafka(&format!("{figure}_max")));
            println!("  {figure}: {min} to {max} (Kafka {kafka_min} to {kafka_max})");
            if max - min > kafka_max - kafka_min {
                worse.push(format!("{name}: {figure} is {min} to {max}, Kafka's {kafka_min} to {kafka_max}"));
            }
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}
