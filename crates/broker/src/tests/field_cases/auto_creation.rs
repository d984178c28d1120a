//! Topics that come into being because somebody asks for their metadata.

use super::*;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const INVALID_TOPIC_EXCEPTION: i16 = 17;
const VERSIONS: std::ops::RangeInclusive<i16> = 0..=13;
/// Older requests can't say that nothing is to be created.
const FLAG_SINCE: i16 = 4;

fn ask_for(names: &[&str], allow: bool) -> MetadataRequest<'static> {
    let topic = |name: &&str| MetadataRequestTopic { name: Some((*name).to_owned().into()), ..Default::default() };
    let topics = Some(names.iter().map(topic).collect());
    MetadataRequest { topics, allow_auto_topic_creation: allow, ..Default::default() }
}

/// Error code and number of partitions per topic.
fn told(server: &mut Server, request: &MetadataRequest<'static>, version: i16) -> Vec<(i16, usize)> {
    server.ask(request, version, |r| r.topics.iter().map(|topic| (topic.error_code, topic.partitions.len())).collect())
}

fn names(server: &mut Server) -> Vec<String> {
    let request = MetadataRequest { topics: None, ..Default::default() };
    let all: Vec<String> = server.ask(&request, 12, |r| {
        r.topics.iter().map(|topic| topic.name.as_deref().unwrap_or_default().to_owned()).collect()
    });
    all.into_iter().filter(|name| name != "__consumer_offsets").collect()
}

#[test]
fn p_09_topics_are_created_only_if_client_and_server_agree() {
    for server_allows in [true, false] {
        let setting =
            [("auto.create.topics.enable", if server_allows { "true" } else { "false" }), ("num.partitions", "3")];
        for version in VERSIONS {
            let mut server = Server::start_with(&Arc::new(MemDisk::new()), &setting);
            if version >= FLAG_SINCE {
                assert_eq!(told(&mut server, &ask_for(&["t"], false), version), [(UNKNOWN_TOPIC_OR_PARTITION, 0)]);
                assert_eq!(names(&mut server), [""; 0], "version {version}");
            }
            let expected = if server_allows { (0, 3) } else { (UNKNOWN_TOPIC_OR_PARTITION, 0) };
            assert_eq!(told(&mut server, &ask_for(&["t"], true), version), [expected], "version {version}");
            assert_eq!(names(&mut server).len(), usize::from(server_allows), "version {version}");
            // Usable at once.
            let produced = server.produce_bytes("t", 2, batch(&["x"])).0;
            assert_eq!(produced, if server_allows { 0 } else { UNKNOWN_TOPIC_OR_PARTITION });
        }
    }
}

#[test]
fn p_09_admin_look_ups_and_lists_create_nothing() {
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    server.create_topic("there", 1);
    for version in VERSIONS {
        let none = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
        let found = told(&mut server, &none, version).len();
        assert_eq!(found, if version == 0 { 2 } else { 0 }, "an empty list, version {version}");
        if version > 0 {
            let all = MetadataRequest { topics: None, ..Default::default() };
            assert_eq!(told(&mut server, &all, version).len(), 2, "no list, version {version}");
        }
    }
    // Other requests about a topic that is not there.
    assert_eq!(server.produce_bytes("missing", 0, batch(&["x"])).0, UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(server.fetched("missing", 0).0, UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(names(&mut server), ["there"]);
}

#[test]
fn p_09_names_that_no_topic_can_have_are_refused() {
    let long = "x".repeat(249);
    let too_long = "x".repeat(250);
    let mut server = Server::start(&Arc::new(MemDisk::new()));
    for name in ["", ".", "..", "a b", "ä", "a/b", "a\0b", "a,b", "*", &too_long] {
        // Valid ones beside it are created none the less.
        let asked = told(&mut server, &ask_for(&[name, "good"], true), 12);
        assert_eq!(asked, [(INVALID_TOPIC_EXCEPTION, 0), (0, 1)], "{name:?}");
    }
    assert_eq!(told(&mut server, &ask_for(&[&long], true), 12), [(0, 1)]);
    assert_eq!(names(&mut server), ["good", &long]);
}

#[test]
fn p_09_the_servers_own_topics_are_not_created_this_way() {
    let mut server = Server::start_with(&Arc::new(MemDisk::new()), &[("num.partitions", "7")]);
    let offsets = told(&mut server, &ask_for(&["__consumer_offsets"], true), 12);
    assert_eq!(offsets, [(0, 4)], "it is there as it was set up");
    for name in ["__transaction_state", "__share_group_state", "__cluster_metadata"] {
        let asked = told(&mut server, &ask_for(&[name], true), 12);
        assert!(matches!(asked[..], [(UNKNOWN_TOPIC_OR_PARTITION | INVALID_TOPIC_EXCEPTION, 0)]), "{name}: {asked:?}");
    }
    assert_eq!(names(&mut server), [""; 0]);
}

#[test]
fn p_09_a_hundred_who_ask_at_once_get_one_topic() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start(&disk);
    let slots: Vec<u64> = (0..100).map(|_| server.send(&ask_for(&["t", "u"], true), 12)).collect();
    // A produce among them is refused until it is there, and may be tried again.
    let early = server.send(&produce("t", &["x"]), 9);
    server.shell.run_jobs();
    let mut ids = std::collections::BTreeSet::new();
    for slot in slots {
        let bytes = server.reply(slot).expect("all are answered");
        let response = Server::decode::<MetadataRequest<'_>>(&bytes, 12);
        let topic = &response.topics[0];
        assert_eq!((topic.error_code, topic.partitions.len()), (0, 1));
        ids.insert(topic.topic_id);
    }
    assert_eq!(ids.len(), 1, "one and the same");
    let bytes = server.reply(early).expect("an answer");
    let code = Server::decode::<ProduceRequest<'_>>(&bytes, 9).responses[0].partition_responses[0].error_code;
    assert!([0, UNKNOWN_TOPIC_OR_PARTITION].contains(&code), "{code}");
    assert_eq!(server.produce_bytes("t", 0, batch(&["y"])).0, 0);
    drop(server);
    let mut server = Server::start(&disk);
    assert_eq!(names(&mut server), ["t", "u"]);
    assert_eq!(server.topic_id("t"), ids.into_iter().next().unwrap());
}
