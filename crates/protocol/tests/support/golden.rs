//! Samples of `tests/golden`, and comparison of decoded messages with their JSON form.
//!
//! A message is turned into JSON by way of its `Debug` form, so that no code has to be generated for it.

use std::fmt::Debug;
use std::path::Path;

use serde_json::{Map, Value};

/// The lines of a sample file.
pub(crate) fn samples(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The bytes of a field in hex; `None` if it is null or absent.
pub(crate) fn hex(sample: &Value, field: &str) -> Option<Vec<u8>> {
    let text = sample[field].as_str()?;
    Some((0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect())
}

/// Checks that a message says what the JSON says.
///
/// The samples leave out what is null or has its default, so a field that is absent there must be that here.
pub(crate) fn check_json(message: &impl Debug, expected: &Value, what: &str) {
    let text = format!("{message:?}");
    let mut parser = Parser { rest: &text };
    let actual = parser.value();
    assert_eq!(parser.rest, "", "{what}: not understood");
    compare(&actual, expected, what);
}

fn compare(actual: &Value, expected: &Value, what: &str) {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            for (name, value) in expected {
                let found = actual.get(name).unwrap_or_else(|| panic!("{what}: no field {name}"));
                compare(found, value, &format!("{what}.{name}"));
            }
            for (name, value) in actual.iter().filter(|(name, _)| !expected.contains_key(*name)) {
                let is_default = match value {
                    Value::Null => true,
                    Value::Bool(value) => !value,
                    Value::Number(number) => number.as_i64().is_some_and(|number| number <= 0),
                    Value::String(text) => text.is_empty(),
                    Value::Array(elements) => elements.is_empty(),
                    Value::Object(_) => false,
                };
                assert!(is_default, "{what}.{name} is {value}, the sample has nothing");
            }
        }
        (Value::Array(actual), Value::Array(expected)) => {
            assert_eq!(actual.len(), expected.len(), "{what}");
            for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
                compare(actual, expected, &format!("{what}[{index}]"));
            }
        }
        _ => assert_eq!(actual, expected, "{what}"),
    }
}

/// Reads the `Debug` form of generated structs.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Value {
        if self.take("Some(") {
            let value = self.value();
            assert!(self.take(")"));
            return value;
        }
        if self.take("TaggedFields(None)") || self.take("None") {
            return Value::Null;
        }
        if self.take("[") {
            let mut elements = Vec::new();
            while !self.take("]") {
                elements.push(self.value());
                self.take(", ");
            }
            return Value::Array(elements);
        }
        if self.rest.starts_with('"') {
            let mut values = serde_json::Deserializer::from_str(self.rest).into_iter();
            let value = values.next().unwrap().unwrap();
            self.rest = &self.rest[values.byte_offset()..];
            return value;
        }
        let end = self.rest.find([',', ' ', ')', ']']).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        self.rest = &self.rest[end..];
        if self.take(" { ") {
            return Value::Object(self.fields());
        }
        // A word that is no number and no bool is an id.
        serde_json::from_str(word).unwrap_or_else(|_| Value::String(word.into()))
    }

    fn fields(&mut self) -> Map<String, Value> {
        let mut fields = Map::new();
        while !self.take(" }") {
            let (name, rest) = self.rest.split_once(": ").unwrap();
            self.rest = rest;
            let value = self.value();
            fields.insert(camel(name), value);
            self.take(", ");
        }
        fields
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_string();
    words.fold(first, |out, word| out + &word[..1].to_uppercase() + &word[1..])
}
