//! What tests ask of a server themselves, without a JVM.
//!
//! It asks the port that it is given and no other, whatever the server advertises, so that it goes past a proxy.

use std::time::Duration;

use riparian_client::{ClientError, Connection, Options};
use riparian_protocol::messages::{
    CreateTopicsRequest, IncrementalAlterConfigsRequest,
    create_topics_request::CreatableTopic,
    incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
};

const TIMEOUT: Duration = Duration::from_secs(10);
const RESOURCE_TYPE_GROUP: i8 = 32;
const CONFIG_SET: i8 = 0;

/// A connection to a port of this machine.
pub(crate) fn connect(port: u16) -> Result<Connection, ClientError> {
    let options = Options { client_id: "test".to_owned(), connect_timeout: TIMEOUT, request_timeout: TIMEOUT };
    Connection::open(&format!("127.0.0.1:{port}"), &options)
}

/// Creates topics with so many partitions each.
pub fn create_topics(port: u16, names: &[&str], partitions: i32) {
    let topics = names.iter().map(|&name| CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: 1,
        ..CreatableTopic::default()
    });
    let request = CreateTopicsRequest { topics: topics.collect(), timeout_ms: 10_000, ..Default::default() };
    let answer = connect(port).and_then(|mut connection| connection.call(&request)).expect("the server answers");
    for topic in answer.decode().expect("an answer").topics {
        assert_eq!(topic.error_code, 0, "{}: {:?}", topic.name, topic.error_message);
    }
}

/// Sets configs of a group.
pub fn set_group_configs(port: u16, group: &str, configs: &[(&str, &str)]) {
    let configs = configs.iter().map(|&(name, value)| AlterableConfig {
        name: name.into(),
        config_operation: CONFIG_SET,
        value: Some(value.into()),
        ..AlterableConfig::default()
    });
    let resource = AlterConfigsResource {
        resource_type: RESOURCE_TYPE_GROUP,
        resource_name: group.into(),
        configs: configs.collect(),
        ..AlterConfigsResource::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = connect(port).and_then(|mut connection| connection.call(&request)).expect("the server answers");
    for result in answer.decode().expect("an answer").responses {
        assert_eq!(result.error_code, 0, "{group}: {:?}", result.error_message);
    }
}
