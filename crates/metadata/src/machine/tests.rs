//! Scripts, and what they cannot say: limits, records that contradict the state, readers of old images.

mod script;

use alloc::{collections::BTreeMap, format, string::ToString, sync::Arc, vec::Vec};

use riparian_types::{
    NodeId, Now, Offset, PartitionCount, TopicName, Uuid, WallMillis,
    machine::{Machine, RecordContext, Waiter},
};

use super::{MetadataMachine, Settings, Soft};
use crate::{
    ConfigResource,
    command::{Command, CreateTopics, NewTopic, TopicSelector},
    config::BrokerConfig,
    record::{ConfigRecord, PartitionRecord, Record, RemoveTopicRecord, TopicRecord},
    reply::{Effect, Reply, Unavailable},
};

/// A machine with the log that it wrote.
struct Cluster {
    machine: MetadataMachine,
    soft: Soft,
    log: Vec<Record>,
}

fn context(offset: usize) -> RecordContext {
    RecordContext { offset: Offset(offset as i64), timestamp: WallMillis(0), producer: None }
}

impl Cluster {
    fn new(properties: &[(&str, &str)]) -> Self {
        let mut broker = BrokerConfig::empty();
        for (name, value) in properties {
            broker.set(name, value).unwrap();
        }
        let directory_id = Uuid::from_halves(7, 7);
        let settings = Settings { node_id: NodeId(1), directory_id, properties: Arc::new(broker) };
        Self { machine: MetadataMachine::new(settings), soft: Soft::default(), log: Vec::new() }
    }

    fn run(&mut self, command: Command) -> (Vec<Record>, Vec<Effect>, Reply) {
        let mut decision = self.machine.decide(&mut self.soft, Now::default(), command);
        for record in &decision.records {
            self.machine.apply(&context(self.log.len()), record).unwrap();
            self.log.push(record.clone());
        }
        assert_eq!(decision.replies.len(), 1);
        (decision.records, decision.effects, decision.replies.remove(0).reply)
    }

    fn replayed(&self) -> MetadataMachine {
        let mut machine = MetadataMachine::new(self.machine.settings.clone());
        for (offset, record) in self.log.iter().enumerate() {
            machine.apply(&context(offset), record).unwrap();
        }
        machine
    }

    fn check_replay(&self) {
        assert_eq!(self.replayed().image, self.machine.image);
        let view = self.machine.image.view();
        let partitions: i64 = view.iter().map(|(_, topic)| i64::from(topic.partitions.0)).sum();
        assert_eq!(partitions, self.machine.image.partition_count());
        for (name, topic) in view.iter() {
            assert!(topic.partitions.0 > 0);
            assert_eq!(self.machine.image.topic_by_id(topic.id).map(|(name, _)| name), Some(name));
        }
    }
}

fn topic(name: &str, id: u64, partitions: i32) -> NewTopic {
    NewTopic {
        name: name.into(),
        id: Uuid::from_halves(1, id),
        partitions,
        replication_factor: -1,
        assignment: Vec::new(),
        configs: Vec::new(),
    }
}

fn create(topics: Vec<NewTopic>) -> Command {
    Command::CreateTopics(Waiter(1), CreateTopics { topics, validate_only: false })
}

#[test]
fn scripts_of_the_servers_hold() {
    let check = |name: &str| {
        let file = format!("../../tests/scripts/{name}.txt");
        script::check_as_a_server(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
    };
    let failures: Vec<_> =
        ["admin-refused", "admin-settings", "admin-topics"].into_iter().filter_map(|name| check(name).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

macro_rules! script {
    ($($test:ident),*) => {
        $(
            #[test]
            fn $test() {
                let file = concat!("testdata/scripts/", stringify!($test), ".txt");
                script::check(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
            }
        )*
    };
}

script!(
    create_topics,
    create_topics_refused,
    create_topics_replication,
    delete_topics,
    create_partitions,
    alter_topic_configs,
    alter_group_configs,
    alter_broker_configs,
    internal_topic,
    producer_ids_and_features
);

#[test]
fn ten_thousand_topics_are_created_in_batches_while_readers_keep_images() {
    let mut cluster = Cluster::new(&[]);
    let mut kept = Vec::new();
    for batch in 0..100u64 {
        let topics = (0..100).map(|index| {
            let number = batch * 100 + index;
            // Not in the order of their names.
            let mut new = topic(&format!("topic-{}", number.wrapping_mul(7919) % 10_007), number + 1, 2);
            new.configs.push(("retention.ms".to_string(), Some(number.to_string())));
            new
        });
        let (_, effects, Reply::CreateTopics(results)) = cluster.run(create(topics.collect())) else {
            panic!("another reply")
        };
        assert!(results.iter().all(|(_, result)| result.is_ok()), "{results:?}");
        assert!(matches!(effects.as_slice(), [Effect::TopicsChanged(changes)] if changes.len() == 100));
        kept.push((cluster.machine.image(), cluster.machine.image().view()));
    }
    for ((image, view), count) in kept.iter().zip((1..).map(|batches| batches * 100)) {
        assert_eq!((image.topic_count(), view.len()), (count, count));
    }
    cluster.check_replay();

    let names: Vec<TopicName> = cluster.machine.image.topics().map(|(name, _)| name.clone()).collect();
    let (_, _, Reply::DeleteTopics(results)) =
        cluster.run(Command::DeleteTopics(Waiter(1), names.into_iter().map(TopicSelector::Name).collect()))
    else {
        panic!("another reply")
    };
    assert!(results.iter().all(|(_, result)| result.is_ok()));
    let mut empty = MetadataMachine::new(cluster.machine.settings.clone()).image;
    empty.apply(&context(cluster.log.len() - 1), &Record::NoOp).unwrap();
    assert_eq!(cluster.machine.image, empty);
}

#[test]
fn ten_thousand_topics_one_by_one_do_not_copy_the_image_each_time() {
    let mut cluster = Cluster::new(&[]);
    let mut image = cluster.machine.image();
    for number in 0..10_000 {
        let (_, _, reply) = cluster.run(create(Vec::from([topic(&format!("t.{number}"), number + 1, 1)])));
        assert!(matches!(reply, Reply::CreateTopics(results) if results[0].1.is_ok()));
        // A reader holds the image that was current, as the broker does.
        image = cluster.machine.image();
    }
    assert_eq!(image.topic_count(), 10_000);
    cluster.check_replay();
}

#[test]
fn limits_hold() {
    let mut cluster = Cluster::new(&[]);
    let error = |reply: Reply| match reply {
        Reply::CreateTopics(results) => {
            results.into_iter().last().unwrap().1.map(|_| ()).map_err(|error| error.to_string())
        }
        _ => panic!("another reply"),
    };
    let ten = |from: u64| (from..from + 11).map(|id| topic(&format!("t{id}"), id, 1000)).collect::<Vec<_>>();
    let message = "too many partitions in one request: at most 10000 are allowed";
    assert_eq!(error(cluster.run(create(ten(1))).2), Err(message.to_string()));
    cluster.machine.image.pretend_partitions(999_000);
    assert_eq!(error(cluster.run(create(Vec::from([topic("last", 90_000, 1000)]))).2), Ok(()));
    let message = "too many partitions: at most 1000000 are allowed (riparian.partitions.max)";
    assert_eq!(error(cluster.run(create(Vec::from([topic("one-more", 99_999, 1)]))).2), Err(message.to_string()));
}

#[test]
fn records_that_contradict_the_state_are_refused() {
    let mut cluster = Cluster::new(&[]);
    cluster.run(create(Vec::from([topic("a", 1, 2)])));
    let id = Uuid::from_halves(1, 1);
    let other = Uuid::from_halves(1, 2);
    let Record::Partition(partition) = cluster.machine.partition(id, 0) else { panic!("another record") };
    let config = |name: &str| ConfigRecord {
        resource: ConfigResource::Topic(name.into()),
        key: "retention.ms".to_string(),
        value: Some("1".to_string()),
    };
    for (record, reason) in [
        (Record::Topic(TopicRecord { name: "a".into(), id: other }), "topic 'a' is created although it exists"),
        (
            Record::Topic(TopicRecord { name: "b".into(), id }),
            "topic id AAAAAAAAAAEAAAAAAAAAAQ is given to 'b' although it is taken",
        ),
        (Record::Partition(partition.clone()), "topic 'a' has 2 partitions and gets partition 0"),
        (
            Record::Partition(PartitionRecord { topic_id: other, ..partition }),
            "partition 0 of unknown topic id AAAAAAAAAAEAAAAAAAAAAg",
        ),
        (Record::RemoveTopic(RemoveTopicRecord { id: other }), "unknown topic id AAAAAAAAAAEAAAAAAAAAAg is removed"),
        (Record::Config(config("b")), "config retention.ms of unknown topic 'b'"),
    ] {
        let before = cluster.machine.image();
        assert_eq!(cluster.machine.apply(&context(9), &record).unwrap_err().reason, reason);
        assert_eq!(cluster.machine.image(), before);
    }
}

#[test]
fn damaged_metadata_refuses_every_command() {
    let mut cluster = Cluster::new(&[]);
    cluster.machine.quarantine((), "record 7 is cut off".to_string(), None);
    for command in [Command::Bootstrap(Waiter(1)), create(Vec::from([topic("a", 1, 1)]))] {
        let (records, _, reply) = cluster.run(command);
        assert!(records.is_empty());
        assert_eq!(reply, Reply::Unavailable(Unavailable { reason: "record 7 is cut off".to_string() }));
    }
}

#[test]
fn an_image_does_not_change_under_its_reader() {
    let mut cluster = Cluster::new(&[]);
    cluster.run(create(Vec::from([topic("a", 1, 1)])));
    let image = cluster.machine.image();
    cluster.run(create(Vec::from([topic("b", 2, 1)])));
    cluster.run(Command::DeleteTopics(Waiter(1), Vec::from([TopicSelector::Name("a".into())])));
    let names = |image: &crate::MetadataImage| {
        image.topics().map(|(name, topic)| (name.to_string(), topic.partitions)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(names(&image), BTreeMap::from([("a".to_string(), PartitionCount(1))]));
    assert_eq!(names(&cluster.machine.image()), BTreeMap::from([("b".to_string(), PartitionCount(1))]));
}
