//! The servers behind a list of addresses.

use std::collections::BTreeMap;

use riparian_protocol::{
    ErrorCode, Request,
    messages::{FindCoordinatorRequest, MetadataRequest},
};

use crate::{
    ClientError, ServerError,
    connection::{Answer, Connection, Options},
};

const KEY_TYPE_GROUP: i8 = 0;
/// From here on FindCoordinator takes several keys.
const FIND_COORDINATOR_BATCHED: i16 = 4;

/// A cluster: one connection to whoever answered first, and one to each node that was asked for.
#[derive(Debug)]
pub struct Cluster {
    options: Options,
    any: Connection,
    nodes: BTreeMap<i32, Node>,
}

#[derive(Debug)]
struct Node {
    address: String,
    connection: Option<Connection>,
}

impl Cluster {
    /// Connects to the first of the addresses (`host:port`) that answers, and learns the nodes from it.
    pub fn connect(bootstrap: &[String], options: Options) -> Result<Self, ClientError> {
        let mut attempts = Vec::new();
        for address in bootstrap {
            match Connection::open(address, &options) {
                Ok(any) => {
                    let mut cluster = Self { options, any, nodes: BTreeMap::new() };
                    cluster.learn_nodes()?;
                    return Ok(cluster);
                }
                Err(ClientError::Unreachable { attempts: failed }) => attempts.extend(failed),
                Err(other) => attempts.push(other.to_string()),
            }
        }
        Err(ClientError::Unreachable { attempts })
    }

    /// The numbers of its nodes, ascending.
    pub fn node_ids(&self) -> Vec<i32> {
        self.nodes.keys().copied().collect()
    }

    /// Asks any node.
    pub fn call<'a, R: Request<'a>>(&mut self, request: &R) -> Result<Answer<R>, ClientError> {
        self.any.call(request)
    }

    /// The connection to any node.
    pub fn any(&mut self) -> &mut Connection {
        &mut self.any
    }

    /// The connection to one node.
    pub fn node(&mut self, node_id: i32) -> Result<&mut Connection, ClientError> {
        let node = self.nodes.get_mut(&node_id).ok_or(ClientError::UnknownNode { node_id })?;
        match &mut node.connection {
            Some(connection) => Ok(connection),
            empty => Ok(empty.insert(Connection::open(&node.address, &self.options)?)),
        }
    }

    /// The node that coordinates a group.
    pub fn coordinator(&mut self, group_id: &str) -> Result<i32, ClientError> {
        let version = self.any.version(FindCoordinatorRequest::API_KEY, FindCoordinatorRequest::VERSIONS)?;
        let mut request = FindCoordinatorRequest { key_type: KEY_TYPE_GROUP, ..FindCoordinatorRequest::default() };
        if version >= FIND_COORDINATOR_BATCHED {
            request.coordinator_keys = vec![group_id.into()];
        } else {
            request.key = group_id.into();
        }
        let answer = self.any.call_version(&request, version)?;
        let response = answer.decode()?;
        let (code, message, node_id, address) = match response.coordinators.first() {
            Some(found) => (
                found.error_code,
                found.error_message.as_deref(),
                found.node_id,
                format!("{}:{}", found.host, found.port),
            ),
            None if version >= FIND_COORDINATOR_BATCHED => {
                (ErrorCode::CoordinatorNotAvailable.code(), None, -1, String::new())
            }
            None => (
                response.error_code,
                response.error_message.as_deref(),
                response.node_id,
                format!("{}:{}", response.host, response.port),
            ),
        };
        ServerError::check(code, message)?;
        self.nodes.entry(node_id).or_insert(Node { address, connection: None });
        Ok(node_id)
    }

    fn learn_nodes(&mut self) -> Result<(), ClientError> {
        let request = MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() };
        // Version 0 understands an empty list as all topics, which is harmless; later ones as none.
        let answer = self.any.call_version(&request, self.metadata_version()?)?;
        self.nodes = answer
            .decode()?
            .brokers
            .iter()
            .map(|broker| {
                let node = Node { address: format!("{}:{}", broker.host, broker.port), connection: None };
                (broker.node_id, node)
            })
            .collect();
        Ok(())
    }

    fn metadata_version(&self) -> Result<i16, ClientError> {
        self.any.version(MetadataRequest::API_KEY, MetadataRequest::VERSIONS)
    }
}
