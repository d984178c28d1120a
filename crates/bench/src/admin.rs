//! What has to be there before a load can begin: topics, configs of groups, a coordinator that answers.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use riparian_client::{
    Cluster, Connection, Options,
    admin::{self, StreamsGroup},
};
use riparian_protocol::{
    ErrorCode,
    messages::{
        CreateTopicsRequest, IncrementalAlterConfigsRequest, ListOffsetsRequest,
        create_topics_request::CreatableTopic,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    },
};

use crate::servers::Server;

const LIMIT: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_millis(20);
const RESOURCE_TYPE_GROUP: i8 = 32;
const CONFIG_SET: i8 = 0;
/// The time that stands for a partition's end.
const LATEST: i64 = -1;

pub(crate) fn create_topic(connection: &mut Connection, name: &str, partitions: usize) -> Result<()> {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: i32::try_from(partitions).context("too many partitions")?,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 60_000, ..CreateTopicsRequest::default() };
    let start = Instant::now();
    loop {
        let answer = connection.call(&request)?;
        let response = answer.decode()?;
        let topic = response.topics.first().context("the answer names no topic")?;
        match ErrorCode::from_code(topic.error_code) {
            Some(ErrorCode::None) => return Ok(()),
            // A broker that has just started.
            Some(error) if error.is_retriable() && start.elapsed() < LIMIT => thread::sleep(Duration::from_millis(2)),
            _ => bail!("topic {name} is not created: error {} {:?}", topic.error_code, topic.error_message),
        }
    }
}

/// Creates a topic and waits until its partitions are led: a broker of Kafka says so a moment before it is so.
pub(crate) fn create_topic_and_wait(server: &mut Server, name: &str, partitions: usize) -> Result<()> {
    let mut connection = server.connect()?;
    create_topic(&mut connection, name, partitions)?;
    let partition = |index: usize| ListOffsetsPartition {
        partition_index: index as i32,
        current_leader_epoch: -1,
        timestamp: LATEST,
        ..ListOffsetsPartition::default()
    };
    let topic = ListOffsetsTopic {
        name: name.into(),
        partitions: (0..partitions).map(partition).collect(),
        ..ListOffsetsTopic::default()
    };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..ListOffsetsRequest::default() };
    wait_for("every partition of a new topic tells its end", || {
        let answer = connection.call(&request)?;
        let response = answer.decode()?;
        let mut all = response.topics.iter().flat_map(|topic| &topic.partitions);
        Ok(all.all(|partition| partition.error_code == 0))
    })
}

/// Waits until a group has a coordinator: the first question makes Kafka create the topic of the groups.
pub(crate) fn wait_for_coordinator(server: &mut Server, group: &str) -> Result<()> {
    let mut cluster = cluster(server)?;
    wait_for("the group has a coordinator", || {
        if cluster.coordinator(group).is_err() {
            return Ok(false);
        }
        let described = admin::describe_streams_group(&mut cluster, group)?;
        // A group that does not exist is an answer of its coordinator.
        Ok(described.err().is_none_or(|error| error.error_code() == Some(ErrorCode::GroupIdNotFound)))
    })
}

pub(crate) fn set_group_config(server: &mut Server, group: &str, name: &str, value: &str) -> Result<()> {
    let config = AlterableConfig {
        name: name.into(),
        config_operation: CONFIG_SET,
        value: Some(value.into()),
        ..AlterableConfig::default()
    };
    let resource = AlterConfigsResource {
        resource_type: RESOURCE_TYPE_GROUP,
        resource_name: group.into(),
        configs: vec![config],
        ..AlterConfigsResource::default()
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..IncrementalAlterConfigsRequest::default() };
    let answer = server.connect()?.call(&request)?;
    for result in answer.decode()?.responses {
        if result.error_code != 0 {
            bail!("{name} of group {group} is refused: error {} {:?}", result.error_code, result.error_message);
        }
    }
    Ok(())
}

pub(crate) fn describe(cluster: &mut Cluster, group: &str) -> Result<StreamsGroup> {
    admin::describe_streams_group(cluster, group)?.with_context(|| format!("group {group} is not described"))
}

pub(crate) fn cluster(server: &Server) -> Result<Cluster> {
    let options = Options {
        client_id: "bench-admin".to_owned(),
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(60),
    };
    Ok(Cluster::connect(&[server.bootstrap()], options)?)
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !is_so()? {
        if start.elapsed() > LIMIT {
            bail!("waited {LIMIT:?}, and it is not so yet: {what}");
        }
        thread::sleep(ASK_AGAIN);
    }
    Ok(())
}
