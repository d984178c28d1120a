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
