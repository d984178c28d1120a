//! Heartbeats that are known to change nothing.
//!
//! Nearly all heartbeats are of members that have nothing to tell, in groups in which nothing happens. When one of them
//! has gone the whole way ([`super::heartbeat`]) and nothing came of it, its member is *settled*: the same heartbeat again
//! has the same answer, for as long as nothing changes that an answer may depend on. Such a heartbeat only keeps the
//! session alive, and its cost is that of finding the member.
//!
//! **Invariant:** the answer to a heartbeat of a settled member is the one that the whole way would give, and that way
//! would write nothing. Builds with debug assertions go it each time and compare.
//!
//! What an answer depends on is: the records of the group but for its offsets, its topology as it is configured, its
//! settings, what is kept in memory of it ([`SoftGroup`]) and how many members the server has. Whoever changes the first
//! four says so ([`SoftGroup::unsettle`]), which settles no member any more; the last is looked at each time, and so is
//! whether it is time to ask for a description of the topology.

use alloc::vec::Vec;

use riparian_types::{
    GroupId, MemberEpoch, Now,
    machine::Decision,
    planted::{self, Bug},
};

use crate::{
    command::{ClientSupport, PlainHeartbeat, StreamsHeartbeat},
    config::Settings,
    machine::GroupMachine,
    pace::{self, Pace},
    record::Record,
    reply::StreamsHeartbeatReply,
    soft::{GroupSoft, Link},
    timers::Timer,
};

/// What a member must say to have the answer that it had before, and when that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    /// How many changes the group had seen by then.
    as_of: u32,
    epoch: MemberEpoch,
    support: ClientSupport,
    names_instance: bool,
}

impl StreamsHeartbeat {
    /// This heartbeat, if it tells no more than that its member is there.
    pub fn plain(&self) -> Option<PlainHeartbeat<'_>> {
        let Self {
            caller,
            is_usual_client: true,
            support,
            group_id,
            member_id,
            member_epoch,
            endpoint_information_epoch,
            instance_id,
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
        } = self
        else {
            return None;
        };
        (*member_epoch > MemberEpoch::JOIN).then_some(PlainHeartbeat {
            support: *support,
            connection: caller.connection,
            group_id,
            member_id,
            member_epoch: *member_epoch,
            endpoint_information_epoch: *endpoint_information_epoch,
            instance_id: instance_id.as_deref(),
        })
    }
}

impl PlainHeartbeat<'_> {
    /// What is to be kept of it if nothing comes of it.
    pub(super) const fn settled(&self) -> Settled {
        let (epoch, support, names_instance) = (self.member_epoch, self.support, self.instance_id.is_some());
        Settled { as_of: 0, epoch, support, names_instance }
    }
}

impl Settled {
    /// Nothing came of it when the group had seen so many changes.
    pub(super) const fn as_of(self, changes: u32) -> Self {
        Self { as_of: changes, ..self }
    }
}

impl GroupMachine {
    /// Answers a heartbeat at once if its member is settled; such an answer waits for no record but those that were
    /// written of the group before. `None`: the heartbeat must go the whole way.
    pub fn settled_heartbeat(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        heartbeat: &PlainHeartbeat<'_>,
    ) -> Option<StreamsHeartbeatReply> {
        let GroupSoft { groups, timers, overrides, .. } = &mut *soft;
        let soft_group = groups.get_mut(heartbeat.group_id)?;
        let changes = soft_group.changes();
        if soft_group.endpoint_epoch != heartbeat.endpoint_information_epoch {
            return None;
        }
        if soft_group.asked.is_due(now.mono) && heartbeat.support.heartbeat_v1 {
            return None;
        }
        let member = soft_group.members.get_mut(heartbeat.member_id)?;
        let settled = member.settled?;
        let is_settled = (settled.as_of == changes || planted::is_in(Bug::SettledForEver))
            && settled.epoch == heartbeat.member_epoch
            && settled.support == heartbeat.support
            && settled.names_instance == heartbeat.instance_id.is_some()
            && member.link == Link::Open(heartbeat.connection);
        if !is_settled || heartbeat.instance_id.is_some_and(|instance| !self.has_instance(heartbeat, instance)) {
            return None;
        }
        let settings = Settings::new(&self.config, overrides.get(heartbeat.group_id));
        let interval_ms = pace::heartbeat_interval_ms(&self.config, &settings, Pace::Stable);
        member.interval_ms = interval_ms;
        let timer = || Timer::Session(heartbeat.group_id.into(), heartbeat.member_id.into());
        member.session.extend(timers, now.mono, settings.session_timeout_ms(), timer);
        let reply = StreamsHeartbeatReply {
            member_id: heartbeat.member_id.into(),
            member_epoch: heartbeat.member_epoch,
            heartbeat_interval_ms: interval_ms,
            acceptable_recovery_lag: settings.acceptable_recovery_lag(),
            task_offset_interval_ms: settings.task_offset_interval_ms(),
            statuses: Vec::new(),
            tasks: None,
            endpoint_information_epoch: heartbeat.endpoint_information_epoch,
            partitions_by_user_endpoint: None,
            topology_description_required: false,
        };
        #[cfg(debug_assertions)]
        if !planted::is_in(Bug::SettledForEver) {
            self.check_settled(soft, now, heartbeat, &reply);
        }
        Some(reply)
    }

    /// Whether the member is known under this instance id.
    fn has_instance(&self, heartbeat: &PlainHeartbeat<'_>, instance: &str) -> bool {
        let group = self.groups.get(heartbeat.group_id).and_then(|group| group.streams());
        let holder = group.and_then(|group| group.static_members.get(instance));
        holder.is_some_and(|holder| **holder == *heartbeat.member_id)
    }

    /// Every change of a group that is written unsettles its members, but for offsets, which no heartbeat looks at.
    pub(crate) fn unsettle(soft: &mut GroupSoft, decision: &Decision<Self>) {
        let mut last: Option<&GroupId> = None;
        for record in &decision.records {
            let group_id = record.group();
            if matches!(record, Record::OffsetCommit(..)) || last == Some(group_id) {
                continue;
            }
            last = Some(group_id);
            if let Some(soft_group) = soft.groups.get_mut(group_id) {
                soft_group.unsettle();
            }
        }
    }

    /// The whole way leads to the same.
    #[cfg(debug_assertions)]
    fn check_settled(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        heartbeat: &PlainHeartbeat<'_>,
        reply: &StreamsHeartbeatReply,
    ) {
        let group = self.groups.get(heartbeat.group_id).and_then(|group| group.streams());
        let member = group.and_then(|group| group.members.get(heartbeat.member_id));
        let metadata = &member.expect("a settled member is in the group's records").metadata;
        let whole = StreamsHeartbeat {
            caller: crate::command::Caller {
                client_id: metadata.client_id.clone(),
                client_host: (*metadata.client_host).into(),
                connection: heartbeat.connection,
            },
            is_usual_client: true,
            support: heartbeat.support,
            group_id: heartbeat.group_id.into(),
            member_id: heartbeat.member_id.into(),
            member_epoch: heartbeat.member_epoch,
            endpoint_information_epoch: heartbeat.endpoint_information_epoch,
            instance_id: heartbeat.instance_id.map(Into::into),
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
        };
        let outcome = super::heartbeat::beat(self, soft, now, whole);
        let (records, same) = match &outcome {
            Ok(outcome) => (outcome.records.len(), outcome.effect.is_none() && outcome.reply == *reply),
            Err(_) => (0, false),
        };
        assert!(
            records == 0 && same,
            "a settled heartbeat differs: {heartbeat:?}, {reply:?}, {:?}",
            outcome.map(|it| it.reply)
        );
    }
}
