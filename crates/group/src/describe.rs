//! What is told about groups, and how one is deleted.

use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};

use riparian_types::{
    GroupId,
    machine::{Answer, Decision, Waiter},
};

use crate::{
    command::GroupFilter,
    config::Settings,
    group::{Found, Group},
    machine::GroupMachine,
    record::Record,
    reply::{DeleteGroupError, GroupListing, GroupNotFound, MemberDescription, Reply, StreamsDescription},
    soft::{GroupSoft, SoftGroup},
    streams::group::StreamsGroup,
};

impl GroupMachine {
    /// Everything about one streams group.
    pub(crate) fn describe_streams(
        &self,
        soft: &GroupSoft,
        group_id: &GroupId,
    ) -> Result<StreamsDescription, GroupNotFound> {
        if let Some(damage) = self.damage(group_id) {
            return Err(GroupNotFound(damage));
        }
        let Some(group) = self.groups.get(group_id).and_then(Group::streams) else {
            let text = match self.find(soft, group_id) {
                Found::Nothing => format!("Group {group_id} not found."),
                Found::OffsetsOnly | Found::Classic(_) | Found::Streams(_) => {
                    format!("Group {group_id} is not a streams group.")
                }
            };
            return Err(GroupNotFound(text));
        };
        let soft_group = soft.groups.get(group_id).map(Box::as_ref);
        let configured = soft_group.and_then(SoftGroup::configured);
        let ready = configured.filter(|configured| configured.is_ready());
        let topology = group.topology.as_deref().map(|topology| match ready {
            Some(configured) => configured.resolved(topology),
            None => configured.and_then(|configured| configured.sources.as_deref()).unwrap_or(topology).clone(),
        });
        Ok(StreamsDescription {
            group_id: group_id.clone(),
            state: group.state(),
            group_epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            problem: soft_group.and_then(problem).or_else(|| {
                let topology = group.topology.as_deref().filter(|_| !group.members.is_empty())?;
                let waits = configured.is_none() && topology.has_patterns();
                waits.then(|| String::from("Its source patterns have not been matched with all topics yet."))
            }),
            topology,
            topology_description: group.described().map(|value| Arc::clone(&value.description)),
            members: describe_members(group, soft_group),
            assignor_name: Settings::new(&self.config, soft.overrides.get(group_id)).assignor_name().into(),
        })
    }

    /// The groups that pass the filter, ordered by id.
    pub(crate) fn list_groups(&self, soft: &GroupSoft, filter: &GroupFilter) -> Vec<GroupListing> {
        let matches = |wanted: &[String], actual: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(actual))
        };
        // Of some classic groups nothing was written yet.
        let unwritten = soft.classic.keys().filter(|group_id| !self.groups.contains_key(*group_id));
        let groups =
            self.groups.keys().chain(unwritten).filter_map(|group_id| list(group_id, self.find(soft, group_id)));
        let damaged = self.damaged_groups().map(|group_id| {
            let state = String::from("Dead");
            let listing =
                GroupListing { group_id: group_id.clone(), protocol_type: String::new(), state, group_type: "streams" };
            (listing, "dead")
        });
        let mut listings: Vec<GroupListing> = groups
            .chain(damaged)
            .filter(|(listing, state)| matches(&filter.states, state) && matches(&filter.types, listing.group_type))
            .map(|(listing, _)| listing)
            .collect();
        listings.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        listings
    }

    /// Forgets an empty group.
    pub(crate) fn delete_group(&self, soft: &mut GroupSoft, waiter: Waiter, group_id: GroupId) -> Decision<Self> {
        let mut decision = Decision::nothing();
        let (found, tombstones) = (self.find(soft, &group_id), self.tombstones(&group_id));
        let is_empty = found.is_empty();
        let tombstones = match (tombstones, found) {
            // Nothing was written of it, and nothing shall be left of it.
            (None, Found::Classic(_)) => Some(alloc::vec![Record::ClassicGroupMetadata(group_id.clone(), None)]),
            (tombstones, _) => tombstones,
        };
        let result = match tombstones {
            None => Err(DeleteGroupError::NotFound),
            Some(_) if !is_empty => Err(DeleteGroupError::NotEmpty),
            Some(tombstones) => {
                decision.records = tombstones;
                soft.remove_group(&group_id);
                Ok(())
            }
        };
        decision.replies.push(Answer { waiter, scope: Some(group_id), reply: Reply::DeleteGroup(result) });
        decision
    }
}

/// What keeps the group's tasks from running, as its members are told.
fn problem(soft_group: &SoftGroup) -> Option<String> {
    if let Some(failure) = soft_group.failure() {
        return Some(String::from(failure.text()));
    }
    let problem = soft_group.configured()?.problem.as_deref()?;
    Some(problem.detail.clone())
}

fn describe_members(group: &StreamsGroup, soft: Option<&SoftGroup>) -> Vec<MemberDescription> {
    let describe = |(member_id, member): (&riparian_types::MemberId, &crate::streams::group::Member)| {
        let soft = soft.and_then(|soft| soft.members.get(member_id));
        let metadata = &member.metadata;
        MemberDescription {
            member_id: member_id.clone(),
            member_epoch: member.progress.epoch,
            instance_id: metadata.instance_id.clone(),
            rack_id: metadata.rack_id.as_deref().map(String::from),
            client_id: String::from(&*metadata.client_id),
            client_host: String::from(&*metadata.client_host),
            topology_epoch: metadata.topology_epoch,
            process_id: metadata.process_id.clone(),
            user_endpoint: metadata.user_endpoint.as_deref().cloned(),
            client_tags: metadata.client_tags.to_vec(),
            task_offsets: soft.map(|soft| soft.task_offsets().to_vec()).unwrap_or_default(),
            task_end_offsets: soft.map(|soft| soft.task_end_offsets().to_vec()).unwrap_or_default(),
            assignment: member.progress.assigned.to_lists(&group.ids),
            target_assignment: group
                .targets
                .get(member_id)
                .map(|target| group.ids.to_lists(target))
                .unwrap_or_default(),
        }
    };
    group.members.iter().map(describe).collect()
}

/// A group as it is listed, and the name of its state that filters are compared with.
fn list(group_id: &GroupId, found: Found<'_>) -> Option<(GroupListing, &'static str)> {
    let (protocol_type, state, filter_state, group_type) = match found {
        Found::Nothing => return None,
        Found::OffsetsOnly => ("", "Empty", "empty", "classic"),
        Found::Classic(classic) => {
            let state = classic.state().name();
            (classic.protocol_type(), state, state, "classic")
        }
        Found::Streams(streams) => {
            let state = streams.state();
            ("streams", state.name(), state.filter_name(), "streams")
        }
    };
    let listing = GroupListing {
        group_id: group_id.clone(),
        protocol_type: String::from(protocol_type),
        state: String::from(state),
        group_type,
    };
    Some((listing, filter_state))
}
