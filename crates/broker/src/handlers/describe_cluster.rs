//! DescribeCluster (key 60, versions 0 to 2): this server is the cluster.

use std::borrow::Cow;

use riparian_protocol::{
    ApiKey,
    messages::{DescribeClusterRequest, DescribeClusterResponse, describe_cluster_response::DescribeClusterBroker},
};
use riparian_wire::{DecodeError, Reader};

use crate::{handlers::Api, request::Context};

pub(crate) const API: Api = Api { key: ApiKey::DescribeCluster, handle };

/// All operations that Kafka knows for a cluster: create, alter, describe, cluster action, describe configs, alter
/// configs, idempotent write (bits 5, 7 to 12).
pub(crate) const CLUSTER_OPERATIONS: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = DescribeClusterRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let (host, port) = ctx.broker.advertised(ctx.connection.listener());
    let mut response = DescribeClusterResponse {
        endpoint_type: request.endpoint_type,
        cluster_id: Cow::Owned(ctx.broker.cluster_id().to_owned()),
        controller_id: ctx.broker.node_id().0,
        brokers: vec![DescribeClusterBroker {
            broker_id: ctx.broker.node_id().0,
            host: Cow::Owned(host.to_owned()),
            port: i32::from(port),
            ..Default::default()
        }],
        ..Default::default()
    };
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    ctx.reply(&response);
    Ok(())
}
