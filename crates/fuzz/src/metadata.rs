//! Commands to the metadata machine.
//!
//! ```text
//! settings u8, step*
//! ```
//!
//! **Checked here:** a name and an id belong to one topic, a topic has a partition at least; what is announced is what
//! has changed; what is only validated changes nothing and is answered as if it were done; nothing durable is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use riparian_coordinator::codecs::MetadataCodec;
use riparian_metadata::{
    ConfigResource, MetadataImage, MetadataMachine, Settings, Soft,
    command::{
        AlterConfigs, AlterOperation, AlterResource, Command, ConfigChange, CreatePartitions, CreateTopics,
        EnsureInternalTopic, InternalTopic, MorePartitions, NewTopic, TopicSelector,
    },
    config::{BrokerConfig, ConfigKey, broker_keys, group_keys, topic_keys},
    reply::{Effect, Reply, TopicChange},
};
use riparian_types::{NodeId, PartitionIndex, TopicName, Uuid, machine::Waiter};

use crate::{input::Input, shard::Driver};

const STEPS_MAX: usize = 100;
const NODE: NodeId = NodeId(1);
const NAMES: [&str; 9] = ["a", "b", "a.b", "a_b", "c", "__consumer_offsets", "", "..", "ä"];
const VALUES: [&str; 20] = [
    "1",
    "0",
    "-1",
    "100",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775809",
    "0.5",
    "true",
    "compact",
    "delete",
    "compact,delete",
    "producer",
    "zstd",
    "CreateTime",
    "*",
    "0:1,1:1",
    "earliest",
    "",
];

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(input.u8());
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        check_image(&world.image());
    }
    world.sync();
    world.driver.check_replay(false);
}

/// A new machine.
pub(crate) fn fresh() -> (MetadataMachine, Soft) {
    machine(&[])
}

fn fresh_strict() -> (MetadataMachine, Soft) {
    machine(&[("riparian.replication.cap", "false"), ("delete.topic.enable", "false"), ("num.partitions", "3")])
}

fn machine(settings: &[(&str, &str)]) -> (MetadataMachine, Soft) {
    let mut properties = BrokerConfig::empty();
    for (key, value) in settings {
        properties.set(key, value).expect("the keys and values are good");
    }
    let directory_id = Uuid::from_halves(7, 7);
    let machine = MetadataMachine::new(Settings { node_id: NODE, directory_id, properties: Arc::new(properties) });
    (machine, Soft::default())
}

struct World {
    driver: Driver<MetadataMachine, MetadataCodec>,
    /// As announced.
    topics: BTreeMap<TopicName, (Uuid, i32)>,
    /// Producer ids below were given to somebody.
    producer_ids_end: i64,
}

impl World {
    fn new(settings: u8) -> Self {
        let fresh = if settings & 1 == 0 { fresh } else { fresh_strict };
        let mut driver = Driver::new(Default::default(), fresh);
        driver.sync_always = settings & 2 == 0;
        driver.load();
        Self { driver, topics: BTreeMap::new(), producer_ids_end: 0 }
    }

    fn image(&self) -> MetadataImage {
        self.driver.shard.machine().expect("it is loaded").image()
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 16 {
            0 => self.ask(Command::Bootstrap),
            1..=3 => {
                let topics: Vec<NewTopic> = (0..1 + input.below(3)).map(|_| new_topic(input)).collect();
                self.validated(input, |waiter, validate_only| {
                    Command::CreateTopics(waiter, CreateTopics { topics: topics.clone(), validate_only })
                });
            }
            4 => {
                let ensure = EnsureInternalTopic { topic: InternalTopic::ConsumerOffsets, id: id(input) };
                self.ask(|waiter| Command::EnsureInternalTopic(waiter, ensure));
            }
            5 | 6 => {
                let selector = |input: &mut Input<'_>| match input.bool() {
                    false => TopicSelector::Name(name(input)),
                    true => TopicSelector::Id(id(input)),
                };
                let selectors = (0..1 + input.below(3)).map(|_| selector(input)).collect();
                self.ask(|waiter| Command::DeleteTopics(waiter, selectors));
            }
            7 | 8 => {
                let topics: Vec<MorePartitions> = (0..1 + input.below(3)).map(|_| more_partitions(input)).collect();
                self.validated(input, |waiter, validate_only| {
                    Command::CreatePartitions(waiter, CreatePartitions { topics: topics.clone(), validate_only })
                });
            }
            9..=12 => {
                let resources: Vec<AlterResource> = (0..1 + input.below(2)).map(|_| alter_resource(input)).collect();
                self.validated(input, |waiter, validate_only| {
                    Command::AlterConfigs(waiter, AlterConfigs { resources: resources.clone(), validate_only })
                });
            }
            13 => {
                let count = if input.bool() { u32::MAX } else { input.u8().into() };
                self.ask(|waiter| Command::AllocateProducerIds(waiter, count));
            }
            14 => self.crash(),
            _ => {
                self.sync();
                self.driver.sync_always = input.bool();
            }
        }
    }

    /// Asks for a command, once or twice: only to be validated, and then to be done, with the same answer.
    fn validated(&mut self, input: &mut Input<'_>, make: impl Fn(Waiter, bool) -> Command) {
        if !input.bool() {
            return self.ask(|waiter| make(waiter, false));
        }
        self.sync();
        let before = self.image();
        let mut validated = None;
        self.ask_for(|waiter| make(waiter, true), &mut validated);
        assert!(before == self.image(), "what was only validated has changed something");
        let mut done = None;
        self.ask_for(|waiter| make(waiter, false), &mut done);
        self.sync();
        if let (Some(validated), Some(done)) = (&validated, &done) {
            assert_eq!(validated, done, "validated, and done");
        }
    }

    fn ask(&mut self, make: impl FnOnce(Waiter) -> Command) {
        self.ask_for(make, &mut None);
    }

    /// Asks, follows what is announced, and gives the answer if it came at once.
    fn ask_for(&mut self, make: impl FnOnce(Waiter) -> Command, answer: &mut Option<Reply>) {
        let (asked, step) = self.driver.ask(make);
        self.follow(&step.answers);
        *answer = step.answers.into_iter().find(|(waiter, _)| *waiter == asked).map(|(_, reply)| reply);
        for effect in step.effects {
            self.note(effect);
        }
        if self.driver.sync_always {
            let view = self.image().view();
            let topics = view.iter().map(|(name, topic)| (name.clone(), (topic.id, topic.partitions.0)));
            assert_eq!(topics.collect::<BTreeMap<_, _>>(), self.topics, "what is, and what was announced");
        }
    }

    fn sync(&mut self) {
        let step = self.driver.sync();
        self.follow(&step.answers);
        step.effects.into_iter().for_each(|effect| self.note(effect));
    }

    /// What was answered: no producer id is given twice.
    fn follow(&mut self, answers: &[(Waiter, Reply)]) {
        for (_, reply) in answers {
            if let Reply::AllocateProducerIds(Ok(block)) = reply {
                let first = block.first.0;
                assert!(first >= self.producer_ids_end, "producer id {first} is given twice");
                self.producer_ids_end = first + i64::from(block.count);
            }
        }
    }

    fn note(&mut self, effect: Effect) {
        let Effect::TopicsChanged(changes) = effect else { return };
        for change in changes {
            match change {
                TopicChange::Created { name, id, partitions } => {
                    assert_eq!(self.topics.insert(name, (id, partitions.0)), None);
                }
                TopicChange::Grown { name, id, before, partitions } => {
                    assert_eq!(self.topics.insert(name, (id, partitions.0)), Some((id, before.0)));
                }
                TopicChange::Deleted { name, id, partitions } => {
                    assert_eq!(self.topics.remove(&name), Some((id, partitions.0)));
                }
            }
        }
    }

    fn crash(&mut self) {
        self.driver.crash();
        self.driver.check_replay(false);
        // Whoever starts learns of everything.
        let image = self.image();
        self.topics = image.topics().map(|(name, topic)| (name.clone(), (topic.id, topic.partitions.0))).collect();
    }
}

fn check_image(image: &MetadataImage) {
    let mut ids = BTreeSet::new();
    let mut partitions = 0;
    for (name, topic) in image.topics() {
        assert!(ids.insert(topic.id), "{} belongs to {name} and to another", topic.id);
        assert!(topic.partitions.0 > 0, "{name} has no partition");
        assert_eq!(image.topic_by_id(topic.id).map(|(name, _)| name), Some(name));
        partitions += i64::from(topic.partitions.0);
    }
    assert_eq!((ids.len(), partitions), (image.topic_count(), image.partition_count()));
    for (resource, configs) in image.configs() {
        assert!(!configs.is_empty(), "{resource:?}");
        if let ConfigResource::Topic(name) = resource {
            assert!(image.topic(name).is_some(), "configs of {name}, which is gone");
            image.topic_config(name, NODE, &BrokerConfig::empty());
        }
    }
}

fn name(input: &mut Input<'_>) -> TopicName {
    input.pick(&NAMES).into()
}

fn id(input: &mut Input<'_>) -> Uuid {
    Uuid::from_halves(0, input.below(8) as u64)
}

fn new_topic(input: &mut Input<'_>) -> NewTopic {
    let assigned = |input: &mut Input<'_>| (PartitionIndex(i32::from(input.u8() as i8)), nodes(input));
    NewTopic {
        name: name(input),
        id: id(input),
        partitions: count(input),
        replication_factor: i16::from(input.u8() as i8) % 4,
        assignment: if input.chance(4) { (0..input.below(4)).map(|_| assigned(input)).collect() } else { Vec::new() },
        configs: (0..input.below(3))
            .map(|_| {
                let key = key(input, topic_keys());
                let value = input.chance(8);
                (key.clone(), (!value).then(|| self::value(input)))
            })
            .collect(),
    }
}

/// A number of partitions; rarely a large one, which takes its time.
fn count(input: &mut Input<'_>) -> i32 {
    match input.u8() {
        small @ 0..=250 => i32::from(small % 8) - 1,
        251 => 500,
        252 => 10_000,
        253 => 10_001,
        254 => i32::MAX,
        255 => i32::MIN,
    }
}

fn nodes(input: &mut Input<'_>) -> Vec<NodeId> {
    if input.chance(4) { (0..input.below(3)).map(|_| NodeId(input.u8().into())).collect() } else { vec![NODE] }
}

fn more_partitions(input: &mut Input<'_>) -> MorePartitions {
    MorePartitions {
        name: name(input),
        count: count(input),
        assignment: input.chance(4).then(|| (0..input.below(4)).map(|_| nodes(input)).collect()),
    }
}

fn alter_resource(input: &mut Input<'_>) -> AlterResource {
    let broker_keys: Vec<&ConfigKey> = broker_keys().collect();
    let (resource, keys): (_, Vec<&ConfigKey>) = match input.u8() % 4 {
        0 | 1 => (ConfigResource::Topic(name(input)), topic_keys().iter().collect()),
        2 => (ConfigResource::Group(input.pick(&NAMES).into()), group_keys().iter().collect()),
        _ => (ConfigResource::Broker(input.pick(&[None, Some(NODE), Some(NodeId(9))])), broker_keys),
    };
    let changes = (0..input.below(4)).map(|_| ConfigChange {
        key: key(input, keys.iter().copied()),
        operation: input.pick(&[
            AlterOperation::Set,
            AlterOperation::Delete,
            AlterOperation::Append,
            AlterOperation::Subtract,
        ]),
        value: (!input.chance(8)).then(|| value(input)),
    });
    let changes = changes.collect();
    AlterResource { resource, changes }
}

/// A key of the table, or any text.
fn key<'k>(input: &mut Input<'_>, keys: impl IntoIterator<Item = &'k ConfigKey>) -> String {
    let names: Vec<&str> = keys.into_iter().map(|key| key.name).collect();
    if input.chance(16) { text(input) } else { input.pick(&names).to_owned() }
}

/// A usual value, or any text.
fn value(input: &mut Input<'_>) -> String {
    if input.chance(4) { text(input) } else { input.pick(&VALUES).to_owned() }
}

fn text(input: &mut Input<'_>) -> String {
    let length = input.below(24);
    String::from_utf8_lossy(input.take(length)).into_owned()
}
