//! What clients of many ages expect of versions and acknowledgements.

use super::*;

const INVALID_REQUIRED_ACKS: i16 = 21;
const UNSUPPORTED_VERSION: i16 = 35;
const INVALID_REQUEST: i16 = 42;

fn api_versions(name: &'static str, version: &'static str) -> ApiVersionsRequest<'static> {
    ApiVersionsRequest {
        client_software_name: name.into(),
        client_software_version: version.into(),
        ..Default::default()
    }
}

/// The error, and the highest version that is told for ApiVersions itself, if it is told.
fn told(bytes: &Bytes, version: i16) -> (i16, Option<i16>) {
    let response = Server::decode::<ApiVersionsRequest<'_>>(bytes, version);
    let own = response.api_keys.iter().find(|api| api.api_key == ApiKey::ApiVersions.code());
    (response.error_code, own.map(|own| own.max_version))
}

#[test]
fn p_01_api_versions_newer_than_known_is_answered_in_the_oldest_form() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    let highest = ApiKey::ApiVersions.served().unwrap().max;
    let known = api_versions("apache-kafka-java", "4.4.0");
    for version in 0..=highest {
        let answer = server.frame(framed(&known, version, version)).answer();
        assert_eq!(told(&answer, version), (0, Some(highest)), "version {version}");
    }
    // The connection stays usable, again and again.
    for version in [highest + 1, 99, i16::MAX, -1] {
        let answer = server.frame(framed(&known, 3, version)).answer();
        assert_eq!(told(&answer, 0), (UNSUPPORTED_VERSION, Some(highest)), "version {version}");
        let answer = server.frame(framed(&known, 3, 3)).answer();
        assert_eq!(told(&answer, 3), (0, Some(highest)));
    }
    // Only the header is looked at, which has had tagged fields since version 3.
    for body in [&[][..], &[0xff; 40]] {
        let mut frame = framed(&known, 3, 99);
        frame.truncate(2 + 2 + 4 + 2 + "test".len() + 1);
        frame.extend_from_slice(body);
        assert_eq!(told(&server.frame(frame).answer(), 0).0, UNSUPPORTED_VERSION);
    }
}

#[test]
fn p_01_client_ids_may_be_null_or_odd() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    for client_id in [None, Some(""), Some("ä水🜄 \n\t\0{}")] {
        for version in [0, 3] {
            let mut frame = Vec::new();
            let header = RequestHeader {
                api_key: ApiKey::ApiVersions.code(),
                api_version: version,
                client_id: client_id.map(Into::into),
                ..Default::default()
            };
            header.encode(&mut frame).unwrap();
            api_versions("a", "1").encode(&mut frame, version).unwrap();
            assert_eq!(told(&server.frame(frame).answer(), version).0, 0, "{client_id:?} version {version}");
        }
    }
}

#[test]
fn p_01_software_names_with_other_characters_are_refused() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    for good in ["a", "apache-kafka-java", "librdkafka", "9.a-b.C", "a--b"] {
        let answer = server.ask(&api_versions(good, "1.0-rc.1"), 3, |r| r.error_code);
        assert_eq!(answer, 0, "{good:?}");
    }
    for bad in ["", "-a", "a-", ".a", "a.", "a b", "a_b", "ä", "a\n", "a/b"] {
        for (name, version) in [(bad, "1"), ("a", bad)] {
            let answer = server.frame(framed(&api_versions(name, version), 3, 3)).answer();
            assert_eq!(told(&answer, 3).0, INVALID_REQUEST, "{name:?} {version:?}");
        }
    }
    // Older versions carry no name, and the connection is still open.
    assert_eq!(server.ask(&ApiVersionsRequest::default(), 2, |r| r.error_code), 0);
}

/// What librdkafka and its relatives look for before they use a feature, as ranges of which one version must be served.
const LOOKED_FOR: [(ApiKey, i16, i16, &str); 9] = [
    (ApiKey::Produce, 2, 2, "timestamps, and with it every codec"),
    (ApiKey::Produce, 3, 3, "format 2"),
    (ApiKey::Produce, 7, 7, "zstd"),
    (ApiKey::Fetch, 4, 4, "format 2"),
    (ApiKey::Fetch, 10, 10, "zstd"),
    (ApiKey::FindCoordinator, 0, 0, "lz4, and groups"),
    (ApiKey::ListOffsets, 1, 1, "offsets by time"),
    (ApiKey::Metadata, 4, 4, "topics that are not created by asking"),
    (ApiKey::InitProducerId, 0, 0, "idempotence"),
];

#[test]
fn p_02_clients_find_the_versions_they_need_for_compression() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    let served = |key: ApiKey, api: &riparian_protocol::messages::api_versions_response::ApiVersion| {
        (api.api_key == key.code()).then_some((api.min_version, api.max_version))
    };
    for (key, lowest, highest, feature) in LOOKED_FOR {
        let found =
            server.ask(&ApiVersionsRequest::default(), 0, |r| r.api_keys.iter().find_map(|api| served(key, api)));
        let (min, max) = found.unwrap();
        assert!(min <= highest && lowest <= max, "{feature}: {} is served from {min} to {max}", key.name());
    }
    let range = server
        .ask(&ApiVersionsRequest::default(), 0, |r| r.api_keys.iter().find_map(|api| served(ApiKey::Produce, api)));
    assert_eq!(range.unwrap().0, 0);
    // What is advertised for their sake is refused all the same.
    server.create_topic("t", 1);
    for version in 0..3 {
        assert_eq!(server.frame(framed(&produce("t", &["x"]), 3, version)), Outcome::Closed, "version {version}");
    }
    assert_eq!(server.produce_bytes("t", 0, batch(&["y"])), (0, 0));
}

#[test]
fn p_02_batches_stay_compressed() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    for (at, compression) in Compression::ALL.into_iter().enumerate() {
        let sent = timed(compression, &[1_700_000_000_000; 20]);
        assert_eq!(server.produce_bytes("t", 0, sent.clone()), (0, 20 * at as i64));
        let (_, found) = server.fetched("t", 20 * at as i64);
        let stored = Batch::parse(&found).unwrap();
        assert_eq!(stored.header().compression(), Ok(compression));
        assert_eq!(stored.body(), Batch::parse(&sent).unwrap().body());
    }
}

#[test]
fn p_04_acks_0_gets_no_bytes_and_shifts_nothing() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    server.create_topic("t", 1);
    let silent = server.send(&produce_to("t", vec![(0, batch(&["a"]))], 0), 9);
    let metadata = server.send(&MetadataRequest::default(), 12);
    let acknowledged = server.send(&produce_to("t", vec![(0, batch(&["b"]))], 1), 9);
    server.shell.run_jobs();
    assert_eq!(server.outcome(silent), Outcome::Silent);
    for (slot, key, version) in [(metadata, ApiKey::Metadata, 12), (acknowledged, ApiKey::Produce, 9)] {
        let bytes = server.outcome(slot).answer();
        let header = ResponseHeader::decode(&mut Reader::new(&bytes), key, version).unwrap();
        assert_eq!(header.correlation_id, slot as i32);
    }
    drop(server);
    let mut server = Server::start(&disk);
    assert_eq!(server.produce_bytes("t", 0, batch(&["c"])), (0, 2), "both were written");
}

#[test]
fn p_04_acks_0_that_fails_closes_the_connection() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 1);
    let mut damaged = batch(&["a"]);
    *damaged.last_mut().unwrap() ^= 1;
    let missing = produce_to("t", vec![(7, batch(&["a"]))], 0);
    for version in [3, 9, 12] {
        assert_eq!(server.frame(framed(&missing, version, version)), Outcome::Closed, "version {version}");
    }
    assert_eq!(server.frame(framed(&produce_to("t", vec![(0, damaged.clone())], 0), 9, 9)), Outcome::Closed);
    for version in [0, 2, 14, 99] {
        let good = produce_to("t", vec![(0, batch(&["a"]))], 0);
        assert_eq!(server.frame(framed(&good, 9, version)), Outcome::Closed, "version {version}");
    }
    assert_eq!(server.produce_bytes("t", 0, batch(&["b"])), (0, 0), "nothing of all that was written");
    // The good half of a request is written, and still nobody is told of it.
    let both = produce_to("t", vec![(0, batch(&["c"])), (7, batch(&["d"]))], 0);
    assert_eq!(server.frame(framed(&both, 9, 9)), Outcome::Closed);
    assert_eq!(server.produce_bytes("t", 0, batch(&["e"])), (0, 2));
}

#[test]
fn p_04_other_acks_are_refused_and_write_nothing() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("t", 2);
    for acks in [2, -2, i16::MAX, i16::MIN] {
        let request = produce_to("t", vec![(0, batch(&["a"])), (1, batch(&["b"])), (9, batch(&["c"]))], acks);
        let codes = server.ask(&request, 9, |r| {
            let answers = r.responses[0].partition_responses.iter();
            answers.map(|answer| (answer.error_code, answer.base_offset)).collect::<Vec<_>>()
        });
        assert_eq!(codes, [(INVALID_REQUIRED_ACKS, -1); 3], "acks {acks}");
    }
    for partition in [0, 1] {
        assert_eq!(server.produce_bytes("t", partition, batch(&["d"])), (0, 0));
    }
}

/// Kafka 4.4.0 does the same: looking a time up may cost a read, and a small request could ask for very many.
#[test]
fn a_partition_that_is_asked_for_twice_has_no_offsets() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("in", 3);
    let topic = |partitions: &[i32]| ListOffsetsTopic {
        name: "in".into(),
        partitions: partitions
            .iter()
            .map(|&partition_index| ListOffsetsPartition {
                partition_index,
                timestamp: -1,
                current_leader_epoch: -1,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let topics = vec![topic(&[0, 1, 1, 1]), topic(&[0, 2])];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
    let found = server.ask(&request, 7, |r| {
        let partitions = r.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|it| (it.partition_index, it.error_code)).collect::<Vec<_>>()
    });
    assert_eq!(found, [(0, INVALID_REQUEST), (1, INVALID_REQUEST), (2, 0)]);
}
