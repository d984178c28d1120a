//! The table as a page: `docs/metrics.md`.

use std::fmt::Write;

use super::definitions::{ALL, Definition, Kind};

const INTRODUCTION: &str = "\
# Metrics

<!-- Generated from the table in `crates/server/src/metrics/definitions.rs`; a test fails when this page is stale. -->

`GET /metrics` answers in the OpenMetrics text format, which Prometheus and its kin read; where, says the line *ready* of the log (`riparian.http.address`).
Counters start at zero with the server; those of a group or a shard also when its shard is loaded again.
A histogram `x` has the samples `x_bucket`, with the further label `le`, `x_sum` and `x_count`.
There is a [dashboard](grafana-dashboard.json) for Grafana, and there are [rules for alerts](alerts.yml).

| metric | type | labels | what it is |
| --- | --- | --- | --- |
";

impl Definition {
    /// The name of its samples, or for a histogram what they begin with.
    fn sample_name(&self) -> String {
        let mut name = self.name.to_owned();
        if let Some(unit) = &self.unit {
            write!(name, "_{}", unit.as_str()).expect("writing to a string succeeds");
        }
        name + match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        }
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for definition in ALL {
        let kind = match definition.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        };
        let labels: Vec<String> = definition.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, labels, help) = (definition.sample_name(), labels.join(", "), definition.help);
        writeln!(page, "| `{name}` | {kind} | {labels} | {help}. |").expect("writing to a string succeeds");
    }
    page
}

#[test]
fn the_checked_in_page_is_fresh() {
    expect_test::expect_file!["../../../../docs/metrics.md"].assert_eq(&page());
}

#[test]
fn names_are_what_prometheus_wants() {
    for definition in ALL {
        let name = definition.name;
        assert!(name.starts_with("riparian_"), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        for suffix in ["_total", "_info", "_seconds", "_bytes", "_count", "_sum", "_bucket"] {
            assert!(!name.ends_with(suffix), "{name} gets its unit and suffix from the table");
        }
        assert!(!definition.help.ends_with('.') && !definition.help.contains('\n'), "{name}");
        assert_eq!(ALL.iter().filter(|other| other.name == name && other.unit == definition.unit).count(), 1, "{name}");
    }
}
