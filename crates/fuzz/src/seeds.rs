//! What a corpus begins with: bytes of a real broker and real clients, and every message with its defaults.
//!
//! libFuzzer finds the rest. The machines' targets begin with nothing: any bytes are commands.

use std::path::Path;

use riparian_protocol::ApiKey;
use serde_json::Value;

use crate::{Target, corpus::from_hex, messages::CODECS};

/// Inputs to begin with.
///
/// # Panics
/// The golden files are not as they are in the repository.
pub fn seeds(target: &Target) -> Vec<Vec<u8>> {
    match target.name {
        "messages" => messages(),
        "replay" => replay(),
        "stored" => stored(),
        _ => Vec::new(),
    }
}

fn golden(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name);
    let text = std::fs::read_to_string(path).expect("the golden files are in the repository");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn hex(sample: &Value, field: &str) -> Option<Vec<u8>> {
    sample[field].as_str().and_then(from_hex)
}

fn messages() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for sample in golden("wire-88-89.jsonl") {
        let frame = hex(&sample, "hex").expect("a frame has bytes");
        let number = |field: &str| sample[field].as_i64().unwrap_or_default() as i16;
        seeds.push(match sample["dir"] == "request" {
            true => [&[0], &frame[..]].concat(),
            false => [&[1], &number("apiKey").to_be_bytes()[..], &number("version").to_be_bytes(), &frame].concat(),
        });
    }
    for api in ApiKey::ALL {
        for version in api.versions().iter() {
            let mut seed = [&[0], &api.code().to_be_bytes()[..], &version.to_be_bytes(), &[0; 4], &[0xff; 2]].concat();
            seed.extend([0; 64]);
            seeds.push(seed);
            seeds.push([&[1], &api.code().to_be_bytes()[..], &version.to_be_bytes(), &[0; 64]].concat());
        }
    }
    seeds
}

/// The records of a file, in the form that a target takes them.
fn records(name: &str) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let samples = golden(name);
    samples.iter().filter_map(|sample| Some((hex(sample, "key")?, hex(sample, "value")))).collect()
}

const RECORDS: [&str; 3] = ["records-lifecycle.jsonl", "records-static-eos.jsonl", "records-static-raw.jsonl"];

fn replay() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for name in RECORDS {
        for records in records(name).chunks(12) {
            let mut seed = vec![0];
            for (key, value) in records {
                seed.push(u8::try_from(key.len()).unwrap_or(u8::MAX));
                seed.extend(key);
                let length = value.as_ref().map_or(0xffff, |value| u16::try_from(value.len()).unwrap_or(u16::MAX));
                seed.extend(length.to_be_bytes());
                seed.extend(value.iter().flatten());
            }
            seeds.push(seed);
        }
    }
    seeds
}

fn stored() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (key, value) in RECORDS.into_iter().flat_map(records) {
        seeds.push([&[2], &key[..]].concat());
        let mut seed = vec![0, u8::try_from(key.len()).unwrap_or(u8::MAX)];
        seed.extend(&key);
        seed.push(value.is_some().into());
        seed.extend(value.iter().flatten());
        seeds.push(seed);
    }
    for kind in 0..32 {
        seeds.push([&[1, 1, kind, 0], &[0; 64][..]].concat());
    }
    for index in 0..u8::try_from(CODECS.len()).unwrap_or(u8::MAX) {
        seeds.push([&[3, index, 0], &[0; 64][..]].concat());
    }
    seeds
}
