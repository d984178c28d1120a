//! Every stored record: keys and values of `__consumer_offsets`, values of `__cluster_metadata`, control records.
//!
//! ```text
//! 0 | key length u8, key, value     a record of __consumer_offsets, through the coordinator's codec
//! 1 | value                         a record of __cluster_metadata, the same
//! 2 | key                           any key of __consumer_offsets
//! 3 | which u8, version u8, bytes   any stored struct
//! ```

use std::fmt::Debug;

use riparian_coordinator::{
    Decoded, RecordCodec,
    codecs::{GroupCodec, MetadataCodec},
};
use riparian_group::GroupMachine;
use riparian_metadata::MetadataMachine;
use riparian_records::stored::{MetadataRecord, StoredKey, metadata_frame};
use riparian_types::machine::Machine;

use crate::{input::Input, messages::CODECS};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.u8() % 4 {
        0 => {
            let length = usize::from(input.u8());
            let key = input.take(length);
            let value = input.bool().then(|| input.rest());
            codec::<GroupMachine, GroupCodec>(Some(key), value);
        }
        1 => {
            let value = input.rest();
            codec::<MetadataMachine, MetadataCodec>(None, Some(value));
            metadata_record(value);
        }
        2 => key(input.rest()),
        _ => {
            let stored = CODECS.iter().filter(|(name, _)| !name.ends_with("Request") && !name.ends_with("Response"));
            let count = stored.clone().count();
            let (_, codec) = stored.clone().nth(input.below(count)).expect("there are stored records");
            let version = codec.version(input.u8().into());
            (codec.check)(input.rest(), version);
        }
    }
}

/// What a machine's codec reads, it writes so that the same is read again.
fn codec<M: Machine<Record: PartialEq + Debug>, C: RecordCodec<M>>(key: Option<&[u8]>, value: Option<&[u8]>) {
    let Decoded::Record(record) = C::decode(key, value) else { return };
    let bytes = C::encode(&record);
    match C::decode(bytes.key.as_deref(), bytes.value.as_deref()) {
        Decoded::Record(again) => assert_eq!(again, record),
        Decoded::Unknown { .. } | Decoded::DamagedScope { .. } | Decoded::Damaged(_) => {
            panic!("what was written can't be read: {record:?}");
        }
    }
}

fn metadata_record(value: &[u8]) {
    let Ok(record) = MetadataRecord::from_bytes(value) else { return };
    let (_, version, _) = metadata_frame(value).expect("it was read before");
    let again = record.to_bytes(version);
    assert_eq!(again.as_deref().map(MetadataRecord::from_bytes), Ok(Ok(record.clone())), "version {version}");
    for other in record.versions().iter() {
        let _ = record.to_bytes(other);
    }
}

fn key(bytes: &[u8]) {
    let Ok(key) = StoredKey::from_bytes(bytes) else { return };
    let again = key.to_bytes();
    // Keys have one version and no tagged fields: there is only one way to write them.
    assert_eq!(again.as_deref(), Ok(bytes), "{key:?}");
}
