//! HTTP by hand: one request, one answer, and what of it is a scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// An answer to a request over HTTP.
#[derive(Debug)]
pub struct HttpAnswer {
    /// For example 200.
    pub status: u16,
    /// The lines between the first one and the body.
    pub headers: String,
    /// What it says.
    pub body: String,
}

/// Asks for a path of a port of this machine.
pub fn http_get(port: u16, path: &str) -> HttpAnswer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts HTTP connections");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit above zero is accepted");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()).expect("a request is taken");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the server answers and closes the connection");
    HttpAnswer::parse(&String::from_utf8(bytes).expect("answers are text"))
}

impl HttpAnswer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no end of the head: {text:?}"));
        let (first, headers) = head.split_once("\r\n").unwrap_or_else(|| panic!("no headers: {text:?}"));
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {first:?}"));
        let answer = Self { status, headers: headers.to_ascii_lowercase(), body: body.to_owned() };
        let length = answer.headers.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        assert_eq!(length, Some(body.len()), "length of the body: {text:?}");
        answer
    }
}

/// One scrape, checked against the rules of the OpenMetrics text format.
#[derive(Debug, Default)]
pub struct Scrape {
    families: BTreeMap<String, Family>,
    samples: BTreeMap<(String, Labels), f64>,
}

type Labels = BTreeMap<String, String>;

#[derive(Debug, Default)]
struct Family {
    kind: String,
    unit: Option<String>,
    help: Option<String>,
}

impl Scrape {
    /// Scrapes a server.
    pub fn take(port: u16) -> Self {
        let answer = http_get(port, "/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        let content_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert!(answer.headers.lines().any(|line| line == content_type), "{}", answer.headers);
        Self::parse(&answer.body)
    }

    /// Reads a scrape; panics where the format is not kept.
    pub fn parse(text: &str) -> Self {
        let lines = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
        assert!(lines.is_empty() || lines.ends_with('\n'), "the last line does not end");
        let mut scrape = Self::default();
        let mut current = String::new();
        let mut has_samples = false;
        for line in lines.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.splitn(3, ' ');
                let (what, name, rest) = (words.next(), words.next(), words.next());
                let (Some(what), Some(name), Some(rest)) = (what, name, rest) else { panic!("{line}") };
                if name != current {
                    assert!(is_name(name), "{line}");
                    assert!(!scrape.families.contains_key(name), "in two places: {line}");
                    current = name.to_owned();
                    has_samples = false;
                }
                assert!(!has_samples, "behind samples: {line}");
                let family = scrape.families.entry(current.clone()).or_default();
                match what {
                    "HELP" => assert!(family.help.replace(rest.to_owned()).is_none(), "twice: {line}"),
                    "TYPE" => {
                        assert!(["counter", "gauge", "histogram", "info"].contains(&rest), "{line}");
                        assert!(family.kind.is_empty(), "twice: {line}");
                        family.kind = rest.to_owned();
                    }
                    "UNIT" => {
                        assert!(name.ends_with(&format!("_{rest}")), "the unit is no part of the name: {line}");
                        assert!(family.unit.replace(rest.to_owned()).is_none(), "twice: {line}");
                    }
                    _ => panic!("{line}"),
                }
            } else {
                has_samples = true;
                scrape.sample(&current, line);
            }
        }
        scrape.check_histograms();
        for (name, family) in &scrape.families {
            assert!(!family.kind.is_empty() && family.help.is_some(), "type and help of {name}: {family:?}");
        }
        scrape
    }

    fn sample(&mut self, family: &str, line: &str) {
        let (name, labels, value) = parse_sample(line).unwrap_or_else(|| panic!("no sample: {line}"));
        let kind = self.families.get(family).map_or("", |family| family.kind.as_str());
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            _ => panic!("before its type: {line}"),
        };
        let belongs = suffixes.iter().any(|suffix| name.strip_suffix(suffix) == Some(family));
        assert!(belongs, "not of {family}, a {kind}: {line}");
        assert!(value.is_finite() && (value >= 0.0 || kind == "gauge"), "{line}");
        assert!(labels.contains_key("le") == name.ends_with("_bucket"), "{line}");
        assert!(self.samples.insert((name, labels), value).is_none(), "twice: {line}");
    }

    /// Buckets hold what the ones before them hold, and the last one everything.
    fn check_histograms(&self) {
        let mut buckets: BTreeMap<(&str, Labels), Vec<(f64, f64)>> = BTreeMap::new();
        for ((name, labels), value) in &self.samples {
            let Some(family) = name.strip_suffix("_bucket") else { continue };
            let mut labels = labels.clone();
            let end = labels.remove("le").expect("buckets have an end");
            let end = if end == "+Inf" { f64::INFINITY } else { end.parse().expect("an end is a number") };
            buckets.entry((family, labels)).or_default().push((end, *value));
        }
        for ((family, labels), mut buckets) in buckets {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{family} {labels:?}: {buckets:?}");
            let (last, all) = *buckets.last().expect("there is one");
            let count = self.samples.get(&(format!("{family}_count"), labels.clone()));
            assert_eq!((last, Some(&all)), (f64::INFINITY, count), "{family} {labels:?}");
            assert!(self.samples.contains_key(&(format!("{family}_sum"), labels.clone())), "{family} {labels:?}");
        }
    }

    /// The value of the sample with exactly these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|&(label, value)| (label.to_owned(), value.to_owned())).collect();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }

    /// The sum of the samples that have these labels among theirs.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let matches =
            |found: &Labels| labels.iter().all(|&(label, value)| found.get(label).is_some_and(|found| found == value));
        self.samples
            .iter()
            .filter(|((found, labels), _)| found == name && matches(labels))
            .map(|(_, value)| value)
            .sum()
    }

    /// The values that a label has in the samples of this name.
    pub fn label_values(&self, name: &str, label: &str) -> BTreeSet<String> {
        let samples = self.samples.keys().filter(|(found, _)| found == name);
        samples.filter_map(|(_, labels)| labels.get(label).cloned()).collect()
    }

    /// The names of all samples.
    pub fn sample_names(&self) -> BTreeSet<&str> {
        self.samples.keys().map(|(name, _)| name.as_str()).collect()
    }

    /// The names of all metrics, with what samples of counters and infos end with.
    pub fn metric_names(&self) -> BTreeSet<String> {
        let name = |(name, family): (&String, &Family)| match family.kind.as_str() {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.clone(),
        };
        self.families.iter().map(name).collect()
    }
}

fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_word)
}

/// `name{label="value",…} number`.
fn parse_sample(line: &str) -> Option<(String, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(mut list) = rest.strip_prefix('{') {
        loop {
            let (label, after) = list.split_once("=\"")?;
            let (value, after) = unescaped(after)?;
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            match after.strip_prefix(',') {
                Some(more) => list = more,
                None => break rest = after.strip_prefix('}')?,
            }
        }
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    is_name(name).then(|| (name.to_owned(), labels, value))
}

/// The text up to the closing quotation mark, and what follows it.
fn unescaped(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}
