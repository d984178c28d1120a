//! Every request and response, in every version, as it comes in a frame.
//!
//! ```text
//! 0 | request header | request         the frame of a request without its size
//! 1 | API key i16, version i16 | response header | response
//! ```
//!
//! The lowest bit of the first byte decides. An API key or version that there is none of stands for one that there is.

use std::{collections::BTreeMap, sync::LazyLock};

use riparian_protocol::{ApiKey, RequestHeader, ResponseHeader};
use riparian_wire::{Reader, VersionRange};

use crate::input::Input;

#[path = "../../../tests/tests/generated/messages.rs"]
mod generated;

/// One message or stored record.
pub(crate) struct Codec {
    pub(crate) versions: VersionRange,
    /// Decodes, and checks what follows from it.
    pub(crate) check: fn(&[u8], i16),
}

/// Every message and stored record, by its name.
pub(crate) static CODECS: LazyLock<BTreeMap<&'static str, Codec>> = LazyLock::new(codecs);

fn codecs() -> BTreeMap<&'static str, Codec> {
    let mut codecs = BTreeMap::new();
    macro_rules! note {
        ($name:literal, $message:ty) => {
            let check = |bytes: &[u8], version: i16| {
                let mut reader = Reader::new(bytes);
                let budget = reader.budget();
                let mut decoded = None;
                let peak = crate::memory::peak_of(|| decoded = <$message>::decode(&mut reader, version).ok());
                assert!(peak <= budget, "{} {version}: {peak} bytes of memory, {budget} are allowed", $name);
                let Some(decoded) = decoded else { return };
                let mut encoded = Vec::new();
                let result = decoded.encode(&mut encoded, version);
                assert_eq!(result, Ok(()), "{} {version}: {decoded:?}", $name);
                let mut reader = Reader::with_budget(&encoded, usize::MAX);
                let again = <$message>::decode(&mut reader, version);
                assert_eq!(again.as_ref(), Ok(&decoded), "{} {version}", $name);
                assert_eq!(reader.finish(), Ok(()), "{} {version}: {decoded:?}", $name);
                for other in <$message>::VERSIONS.iter() {
                    // What one version can't say of another is an error, and no more.
                    let _ = decoded.encode(&mut Vec::new(), other);
                }
            };
            codecs.insert($name, Codec { versions: <$message>::VERSIONS, check });
        };
    }
    generated::each_message!(note);
    codecs
}

impl Codec {
    /// The version that this number stands for.
    pub(crate) fn version(&self, number: i16) -> i16 {
        let VersionRange { min, max } = self.versions;
        if self.versions.contains(number) { number } else { min + number.rem_euclid(max - min + 1) }
    }
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.bool() { response(&mut input) } else { request(input.rest()) }
}

fn request(frame: &[u8]) {
    let mut reader = Reader::new(frame);
    let Ok(header) = RequestHeader::decode(&mut reader) else { return };
    let mut again = Vec::new();
    assert_eq!(header.encode(&mut again), Ok(()), "{header:?}");
    assert_eq!(RequestHeader::decode(&mut Reader::new(&again)).as_ref(), Ok(&header));
    check("Request", header.api_key, header.api_version, reader.remaining());
}

fn response(input: &mut Input<'_>) {
    let (code, version) = (input.u16() as i16, input.u16() as i16);
    let frame = input.rest();
    let api = api(code);
    let mut reader = Reader::new(frame);
    let Ok(header) = ResponseHeader::decode(&mut reader, api, version) else { return };
    let mut again = Vec::new();
    assert_eq!(header.encode(&mut again, api, version), Ok(()), "{header:?}");
    assert_eq!(ResponseHeader::decode(&mut Reader::new(&again), api, version).as_ref(), Ok(&header));
    check("Response", code, version, reader.remaining());
}

fn check(direction: &str, code: i16, version: i16, body: &[u8]) {
    let name = format!("{}{direction}", api(code).name());
    let codec = CODECS.get(name.as_str()).expect("every API has a request and a response");
    (codec.check)(body, codec.version(version));
}

fn api(code: i16) -> ApiKey {
    ApiKey::from_code(code).unwrap_or_else(|| ApiKey::ALL[usize::from(code as u16) % ApiKey::ALL.len()])
}
