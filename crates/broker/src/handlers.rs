//! One file per API, and the table of what is served.
//!
//! A handler decodes its request, asks the authorizer, and answers: at once, or through a continuation that a shard or
//! a partition keeps. It blocks on nothing.

use riparian_protocol::ApiKey;
use riparian_wire::{DecodeError, Reader};

use crate::request::Context;

pub(crate) mod api_versions;
mod config_resource;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_topic_partitions;
pub(crate) mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod streams_group_describe;
mod streams_group_heartbeat;
mod streams_group_topology_description_update;
mod sync_group;

/// An API that is served; in which versions stands in its schema ([`ApiKey::served`]).
pub(crate) struct Api {
    pub(crate) key: ApiKey,
    pub(crate) handle: fn(Context<'_>, &mut Reader<'_>) -> Result<(), DecodeError>,
}

/// Everything that is served, ordered by key.
pub(crate) static APIS: &[Api] = &[
    produce::API,
    fetch::API,
    list_offsets::API,
    metadata::API,
    offset_commit::API,
    offset_fetch::API,
    find_coordinator::API,
    join_group::API,
    heartbeat::API,
    leave_group::API,
    sync_group::API,
    describe_groups::API,
    list_groups::API,
    api_versions::API,
    create_topics::API,
    delete_topics::API,
    delete_records::API,
    init_producer_id::API,
    offset_for_leader_epoch::API,
    describe_configs::API,
    create_partitions::API,
    delete_groups::API,
    incremental_alter_configs::API,
    offset_delete::API,
    describe_cluster::API,
    describe_topic_partitions::API,
    streams_group_heartbeat::API,
    streams_group_describe::API,
    streams_group_topology_description_update::API,
];

/// The place of the API of this key in [`APIS`], if it is served.
pub(crate) fn place(key: ApiKey) -> Option<usize> {
    APIS.binary_search_by_key(&(key as i16), |api| api.key as i16).ok()
}
