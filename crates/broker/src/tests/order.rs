//! What follows from changes of the metadata is carried out in their order, whatever threads they come from.

use std::thread;

use riparian_protocol::messages::{
    DescribeConfigsRequest, IncrementalAlterConfigsRequest,
    describe_configs_request::DescribeConfigsResource,
    incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
};

use super::*;

const ROUNDS: usize = 300;
const THREADS: usize = 4;

/// The same server, through another connection.
fn client(server: &Server, number: u16) -> Server {
    let connection = server.broker.connected(([127, 0, 0, 1], number).into(), "PLAINTEXT");
    Server { broker: server.broker.clone(), shell: server.shell.clone(), connection, slot: 0 }
}

/// Runs something on several threads at once, each with a connection of its own.
fn at_once(server: &Server, run: impl Fn(usize, &mut Server) + Sync) {
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (run, mut client) = (&run, client(server, number as u16));
            scope.spawn(move || run(number, &mut client));
        }
    });
    server.shell.run_jobs();
}

#[test]
fn a_topic_that_is_deleted_and_made_by_many_is_there_in_the_end() {
    let disk = Arc::new(MemDisk::new());
    // Nothing waits for a sync, so that every thread carries out what follows.
    let mut server = Server::start_flushing(&disk, FlushMode::Os, &[]);
    for _ in 0..ROUNDS / 20 {
        at_once(&server, |_, client| {
            for _ in 0..20 {
                let topic =
                    CreatableTopic { name: "t".into(), num_partitions: 2, replication_factor: 1, ..Default::default() };
                client.send(&CreateTopicsRequest { topics: vec![topic], ..Default::default() }, 7);
                client.send(&produce("t", &["x"]), 9);
                let topic = DeleteTopicState { name: Some("t".into()), ..Default::default() };
                client.send(&DeleteTopicsRequest { topics: vec![topic], ..Default::default() }, 6);
            }
        });
        server.create_topic("t", 2);
        let code = server.ask(&produce("t", &["y"]), 9, |r| r.responses[0].partition_responses[0].error_code);
        assert_eq!(code, 0, "a topic that exists can be produced to");
        let topic = DeleteTopicState { name: Some("t".into()), ..Default::default() };
        let request = DeleteTopicsRequest { topics: vec![topic], ..Default::default() };
        assert_eq!(server.ask(&request, 6, |r| r.responses[0].error_code), 0);
        assert!(server.broker.partition(&"t".into(), riparian_types::PartitionIndex(0)).is_none());
    }
}

#[test]
fn a_group_hears_last_what_was_set_last() {
    let disk = Arc::new(MemDisk::new());
    let mut server = Server::start_flushing(&disk, FlushMode::Os, &[]);
    server.create_topic("words", 1);
    let mut epoch = server.ask(&join("m"), 1, |r| r.member_epoch);
    for _ in 0..ROUNDS / 5 {
        at_once(&server, |number, client| {
            for round in 0..5 {
                let value = 5000 + number * 100 + round;
                let config = AlterableConfig {
                    name: "streams.heartbeat.interval.ms".into(),
                    value: Some(value.to_string().into()),
                    ..Default::default()
                };
                let resource = AlterConfigsResource {
                    resource_type: 32,
                    resource_name: "app".into(),
                    configs: vec![config],
                    ..Default::default()
                };
                client.send(&IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() }, 1);
            }
        });
        let resource = DescribeConfigsResource {
            resource_type: 32,
            resource_name: "app".into(),
            configuration_keys: None,
            ..Default::default()
        };
        let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
        let set = server.ask(&request, 4, |r| {
            let config = r.results[0].configs.iter().find(|c| c.name == "streams.heartbeat.interval.ms");
            config.and_then(|config| config.value.as_ref()?.parse::<i32>().ok())
        });
        let heartbeat = StreamsGroupHeartbeatRequest {
            group_id: "app".into(),
            member_id: "m".into(),
            member_epoch: epoch,
            ..Default::default()
        };
        let (code, heard, next) =
            server.ask(&heartbeat, 1, |r| (r.error_code, r.heartbeat_interval_ms, r.member_epoch));
        epoch = next;
        assert_eq!((code, Some(heard)), (0, set));
    }
}

/// What a member knows of itself.
struct Member {
    id: &'static str,
    epoch: i32,
    active: Vec<i32>,
}

impl Member {
    /// Sends a heartbeat as a client does: joins if it is not in the group, and reports what it has.
    fn heartbeat(&mut self, client: &mut Server) {
        let request = if self.epoch == 0 {
            StreamsGroupHeartbeatRequest { process_id: Some(self.id.into()), ..join(self.id) }
        } else {
            let tasks = heartbeat::TaskIds {
                subtopology_id: "0".into(),
                partitions: self.active.clone(),
                ..Default::default()
            };
            StreamsGroupHeartbeatRequest {
                group_id: "app".into(),
                member_id: self.id.into(),
                member_epoch: self.epoch,
                active_tasks: Some(vec![tasks]),
                standby_tasks: Some(Vec::new()),
                warmup_tasks: Some(Vec::new()),
                ..Default::default()
            }
        };
        let slot = client.send(&request, 1);
        let Some(bytes) = client.reply(slot) else { return };
        let response = Server::decode::<StreamsGroupHeartbeatRequest<'_>>(&bytes, 1);
        if response.error_code != 0 {
            (self.epoch, self.active) = (0, Vec::new());
            return;
        }
        self.epoch = response.member_epoch;
        if let Some(tasks) = response.active_tasks {
            self.active = tasks.iter().flat_map(|tasks| tasks.partitions.clone()).collect();
        }
    }
}

/// Who has which active task by the server's records; panics if two have one.
fn owners(server: &mut Server) -> BTreeMap<i32, String> {
    let request = StreamsGroupDescribeRequest { group_ids: vec!["app".into()], ..Default::default() };
    server.ask(&request, 0, |response| {
        let mut owners = BTreeMap::new();
        for member in &response.groups[0].members {
            let tasks = &member.assignment.active_tasks;
            for partition in tasks.iter().flat_map(|tasks| &tasks.partitions) {
                let before = owners.insert(*partition, member.member_id.to_string());
                assert_eq!(before, None, "task {partition} has two owners, one is {}", member.member_id);
            }
        }
        owners
    })
}

#[test]
fn no_task_has_two_owners_while_many_join_and_their_topic_comes_and_goes() {
    const MEMBERS: usize = 60;
    let disk = Arc::new(MemDisk::new());
    let settings = [
        ("group.streams.initial.rebalance.delay.ms", "0"),
        ("group.streams.assignment.interval.ms", "0"),
        ("group.streams.max.size", "1000"),
    ];
    let mut server = Server::start_flushing(&disk, FlushMode::Os, &settings);
    server.create_topic("words", 40);
    let members: Vec<Mutex<Member>> = (0..MEMBERS)
        .map(|number| Mutex::new(Member { id: format!("m{number:03}").leak(), epoch: 0, active: Vec::new() }))
        .collect();
    for round in 0..30 {
        at_once(&server, |number, client| {
            if number == 0 && round % 10 == 5 {
                let topic = DeleteTopicState { name: Some("words".into()), ..Default::default() };
                client.send(&DeleteTopicsRequest { topics: vec![topic], ..Default::default() }, 6);
                let topic = CreatableTopic {
                    name: "words".into(),
                    num_partitions: 40,
                    replication_factor: 1,
                    ..Default::default()
                };
                client.send(&CreateTopicsRequest { topics: vec![topic], ..Default::default() }, 7);
            }
            for member in members.iter().skip(number).step_by(THREADS) {
                member.lock().unwrap().heartbeat(client);
            }
        });
        owners(&mut server);
        // What a client does with its tasks is at most what the records say.
        let mut running = BTreeMap::new();
        for member in &members {
            let member = member.lock().unwrap();
            for partition in &member.active {
                assert_eq!(running.insert(*partition, member.id), None, "task {partition} runs twice");
            }
        }
    }
    assert_eq!(owners(&mut server).len(), 40, "every task has an owner in the end");
}
