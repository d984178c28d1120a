//! What Kafka's own classes write is read, and written again to the same bytes: every message that has a schema, in
//! every version, with random content.

use std::collections::BTreeMap;

use riparian_protocol::ErrorCode;
use riparian_tests::own_program;
use riparian_wire::Reader;

mod generated {
    pub(crate) mod messages;
}

/// Messages per version.
const ROUNDS: &str = "40";
const SEED: &str = "1071";

/// Decodes and encodes; an error says what went wrong.
type Again = fn(&[u8], i16) -> Result<Vec<u8>, String>;

fn messages() -> BTreeMap<&'static str, Again> {
    let mut messages: BTreeMap<&'static str, Again> = BTreeMap::new();
    macro_rules! add {
        ($name:literal, $message:ty) => {
            messages.insert($name, |bytes, version| {
                let mut reader = Reader::new(bytes);
                let message = <$message>::decode(&mut reader, version).map_err(|error| error.to_string())?;
                reader.finish().map_err(|error| error.to_string())?;
                let mut again = Vec::new();
                message.encode(&mut again, version).map_err(|error| error.to_string())?;
                Ok(again)
            });
        };
    }
    generated::messages::each_message!(add);
    messages
}

/// What the Java program prints for these messages, in words.
fn lines_of_kafka(names: &[&str]) -> Vec<Vec<String>> {
    let output = own_program("RandomMessages").args([SEED, ROUNDS]).args(names).output().expect("java runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("the program prints ASCII");
    text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits")).collect()
}

#[test]
fn bytes_of_kafkas_serializer_are_written_again_as_they_were() {
    let messages = messages();
    let names: Vec<&str> = messages.keys().copied().collect();
    let mut wrong = Vec::new();
    let mut seen = BTreeMap::new();
    for line in lines_of_kafka(&names).iter().filter(|line| line[0] == "message") {
        let (name, version, bytes) = (line[1].as_str(), line[2].parse().expect("a version"), bytes_of(&line[3]));
        *seen.entry(name.to_owned()).or_insert(0) += 1;
        match messages[name](&bytes, version) {
            Ok(again) if again == bytes => {}
            Ok(_) => wrong.push(format!("{name} {version}: other bytes for {}", line[3])),
            Err(error) => wrong.push(format!("{name} {version}: {error} in {}", line[3])),
        }
    }
    assert_eq!(seen.len(), names.len(), "messages that Java printed");
    assert!(wrong.is_empty(), "{} wrong, the first ones:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
}

#[test]
fn error_codes_are_kafkas() {
    let theirs: Vec<String> = lines_of_kafka(&[])
        .iter()
        .filter(|line| line[0] == "error")
        .map(|line| format!("{} {} {}", line[1], line[2], line[3]))
        .collect();
    let ours: Vec<String> =
        ErrorCode::all().map(|code| format!("{} {} {}", code.code(), code.name(), code.is_retriable())).collect();
    assert_eq!(ours, theirs);
}
