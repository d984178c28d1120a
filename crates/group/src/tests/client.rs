//! A client's side of the protocol, for tests that send requests of their own making.

use alloc::string::String;

use riparian_types::MemberEpoch;

use super::convert;
use crate::{
    command::{Caller, ClientSupport, StreamsHeartbeat},
    reply::StreamsHeartbeatReply,
    streams::{TaskLists, Topology},
};

/// A topology by its short form, see `docs/SCRIPTS.md`.
pub(crate) fn topology(text: &str) -> Topology {
    convert::topology(&riparian_testkit::Topology::parse(text).expect("it is a topology"))
}

/// What a client knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    pub(crate) epoch: i32,
    pub(crate) endpoint_epoch: i32,
    pub(crate) instance: Option<String>,
    pub(crate) tasks: TaskLists,
    pub(crate) host: Option<String>,
}

impl Client {
    /// A heartbeat with nothing new to report.
    pub(crate) fn heartbeat(&self, group: &str, member: &str) -> StreamsHeartbeat {
        StreamsHeartbeat {
            caller: Caller {
                client_id: "client".into(),
                client_host: self.host.clone().unwrap_or_else(|| "/127.0.0.1".into()),
                // Whoever comes from elsewhere does so over another connection.
                connection: self.host.iter().flat_map(|host| host.bytes()).map(u64::from).sum(),
            },
            is_usual_client: true,
            support: ClientSupport { heartbeat_v1: true },
            group_id: group.into(),
            member_id: member.into(),
            member_epoch: MemberEpoch(self.epoch),
            endpoint_information_epoch: self.endpoint_epoch,
            instance_id: self.instance.as_deref().map(Into::into),
            rack_id: None,
            rebalance_timeout_ms: -1,
            topology: None,
            active_tasks: None,
            standby_tasks: None,
            warmup_tasks: None,
            process_id: None,
            user_endpoint: None,
            client_tags: None,
            task_offsets: None,
            task_end_offsets: None,
            shutdown_application: false,
        }
    }

    pub(crate) fn join(&mut self, group: &str, member: &str, topology: Topology) -> StreamsHeartbeat {
        self.epoch = 0;
        self.endpoint_epoch = -1;
        self.tasks = TaskLists::default();
        let mut heartbeat = self.heartbeat(group, member);
        heartbeat.topology = Some(topology);
        heartbeat.rebalance_timeout_ms = 300_000;
        self.report(&mut heartbeat);
        heartbeat
    }

    pub(crate) fn report(&self, heartbeat: &mut StreamsHeartbeat) {
        let tasks = self.tasks.clone();
        heartbeat.active_tasks = Some(tasks.active);
        heartbeat.standby_tasks = Some(tasks.standby);
        heartbeat.warmup_tasks = Some(tasks.warmup);
    }

    pub(crate) fn learn(&mut self, reply: &StreamsHeartbeatReply) {
        self.epoch = reply.member_epoch.0;
        self.endpoint_epoch = reply.endpoint_information_epoch;
        if let Some(tasks) = &reply.tasks {
            self.tasks = tasks.clone();
        }
    }
}
