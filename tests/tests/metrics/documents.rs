//! The page of metrics, the dashboard and the rules for alerts name what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use riparian_tests::{Scrape, Server, create_topics};
use serde_json::Value;

use super::{
    counters::eventually,
    member::{Member, commit_offset},
};

fn document(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A server on which everything has happened once.
fn lively() -> (Server, Scrape) {
    let server = Server::start(&[("group.streams.initial.rebalance.delay.ms", "0")]);
    create_topics(server.port(), &["in"], 2);
    commit_offset(server.port(), "reader");
    let mut member = Member::join(server.port(), "app", "member");
    member.settle(2);
    let is_stable = |scrape: &Scrape| scrape.sum("riparian_groups", &[("type", "streams"), ("state", "Stable")]) == 1.0;
    let scrape = eventually(server.http_port(), "a stable group", is_stable);
    (server, scrape)
}

#[test]
fn page_names_the_metrics_that_there_are() {
    let (_server, scrape) = lively();
    let page = document("metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<String> = rows.map(str::to_owned).collect();
    assert_eq!(documented, scrape.metric_names());
    let empty: Vec<String> = scrape.metric_names().into_iter().filter(|name| !has_samples(&scrape, name)).collect();
    assert_eq!(empty, [""; 0], "metrics without a sample although everything has happened");
}

fn has_samples(scrape: &Scrape, metric: &str) -> bool {
    let names = scrape.sample_names();
    ["", "_bucket"].iter().any(|suffix| names.contains(format!("{metric}{suffix}").as_str()))
}

#[test]
fn dashboard_shows_metrics_that_there_are() {
    let (_server, scrape) = lively();
    let dashboard: Value = serde_json::from_str(&document("grafana-dashboard.json")).expect("it is JSON");
    let mut expressions = Vec::new();
    collect(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 10, "{expressions:?}");
    for expression in &expressions {
        check_expression(expression, &scrape);
    }
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().expect("a panel has an id")).collect();
    assert_eq!(ids.len(), panels.len(), "panels share an id");
}

/// The texts under this key, wherever it stands.
fn collect(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if name == key => found.push(text.clone()),
                    field => collect(field, key, found),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, key, found)),
        _ => {}
    }
}

#[test]
fn alerts_are_about_metrics_that_there_are() {
    let (_server, scrape) = lively();
    let alerts = alerts(&document("alerts.yml"));
    assert!(alerts.len() > 8, "{alerts:#?}");
    for (name, alert) in &alerts {
        assert!(name.starts_with("Riparian"), "{name}");
        for key in ["expr", "for", "severity", "summary", "description"] {
            assert!(alert.get(key).is_some_and(|value| !value.is_empty()), "{name} has no {key}: {alert:?}");
        }
        check_expression(&alert["expr"], &scrape);
    }
}

/// The rules by their names, read from the part of YAML that they are written in: mappings and lists in block style,
/// two blanks a level, scalars plain or in single quotation marks.
fn alerts(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.is_empty());
    assert_eq!(lines.next(), Some("groups:"));
    let mut alerts: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut current = None;
    let mut parent_indent = 0;
    for line in lines {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        assert!(indent % 2 == 0 && !line.ends_with(' ') && !line.contains('\t'), "{line:?}");
        let (dash, content) = content.strip_prefix("- ").map_or(("", content), |content| ("- ", content));
        let (key, value) = content.split_once(':').unwrap_or_else(|| panic!("no key: {line:?}"));
        let value = scalar(value.trim_start(), line);
        match (indent, dash, key) {
            (2, "- ", "name") => assert!(!value.is_empty(), "{line:?}"),
            (4, "", "rules") => assert_eq!(value, ""),
            (6, "- ", "alert") => {
                assert!(alerts.insert(value.clone(), BTreeMap::new()).is_none(), "twice: {value}");
                current = Some(value);
            }
            (8, "", "labels" | "annotations") => {
                assert_eq!(value, "");
                parent_indent = indent;
            }
            (8, "", "expr" | "for") | (10, "", "severity" | "summary" | "description") => {
                assert!(indent == 8 || parent_indent == 8, "{line:?}");
                let alert = current.as_ref().and_then(|name| alerts.get_mut(name));
                let alert = alert.unwrap_or_else(|| panic!("before the first alert: {line:?}"));
                assert!(alert.insert(key.to_owned(), value).is_none(), "twice: {line:?}");
            }
            _ => panic!("out of place: {line:?}"),
        }
    }
    alerts
}

fn scalar(text: &str, line: &str) -> String {
    if let Some(quoted) = text.strip_prefix('\'') {
        let quoted = quoted.strip_suffix('\'').unwrap_or_else(|| panic!("no end: {line:?}"));
        assert!(!quoted.replace("''", "").contains('\''), "{line:?}");
        return quoted.replace("''", "'");
    }
    // What would mean something else than itself.
    let is_plain = !text.starts_with(['"', '[', '{', '|', '>', '&', '*', '!', '%', '@', '`', '-', '?'])
        && !text.contains(": ")
        && !text.contains(" #");
    assert!(is_plain, "not a plain scalar: {line:?}");
    text.to_owned()
}

/// Every metric of an expression has samples, with the labels by which they are chosen.
fn check_expression(expression: &str, scrape: &Scrape) {
    let names = scrape.sample_names();
    let balance = |open: char, close: char| expression.matches(open).count() == expression.matches(close).count();
    assert!(balance('(', ')') && balance('{', '}') && balance('[', ']'), "{expression}");
    let mut rest = expression;
    let mut count = 0;
    while let Some(at) = rest.find("riparian_") {
        let end =
            rest[at..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(rest.len(), |end| at + end);
        let name = &rest[at..end];
        rest = &rest[end..];
        count += 1;
        assert!(names.contains(name), "there is no {name}, but {expression}");
        let Some(selectors) = rest.strip_prefix('{') else { continue };
        let selectors = selectors.split('}').next().expect("a split has a first part");
        for selector in selectors.split("\",").filter(|selector| !selector.trim().is_empty()) {
            let label = selector.split(['=', '!']).next().expect("a split has a first part").trim();
            // Added by whoever scrapes.
            if label == "instance" {
                continue;
            }
            let values = scrape.label_values(name, label);
            assert!(!values.is_empty(), "{name} has no label {label}, but {expression}");
        }
    }
    assert!(count > 0, "no metric in {expression}");
}
