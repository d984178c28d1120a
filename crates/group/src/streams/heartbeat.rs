//! One heartbeat of a streams group, from the request to its answer and records (KIP-1071).
//!
//! The steps and their order are Kafka's, and with them which error wins and how records follow each other inside a
//! batch. Hard state is only read; soft state is written once nothing can fail any more.
//!
//! **Invariant:** a heartbeat in which nothing changes writes no record and does work that does not depend on how many
//! members and tasks the group has.

use alloc::{borrow::Cow, boxed::Box, format, string::String, sync::Arc, vec::Vec};

use riparian_assignor::WarmupSupport;
use riparian_types::{
    AssignmentEpoch, MemberEpoch, Now, TopologyEpoch,
    machine::{Answer, Decision, Waiter},
    planted::{self, Bug},
};

use crate::{
    command::StreamsHeartbeat,
    config::Settings,
    group::{Found, GroupKind},
    limits::NoRoom,
    machine::GroupMachine,
    pace::{self, Pace},
    record::{MemberState, Record},
    reply::{Effect, GroupState, Reply, Status, StatusCode, StreamsHeartbeatError, StreamsHeartbeatReply},
    soft::{GroupSoft, Link, SoftGroup, SoftMember, place_of_assignor},
    streams::{
        Topology,
        configured::ConfiguredTopology,
        description,
        group::{Member, Progress, StreamsGroup},
        leave,
        membership::{self, Admission, Owned},
        reconcile::{Walker, reconcile},
        refresh::{self, Configured, Occasion, ToConfigure},
        replace,
        response::{Delay, Statuses, endpoint_map},
        target::{self, PendingMember, TargetInput},
        validate,
        warmup::{self, Known, WarmupStep},
    },
    tasks::{Holdings, Role, SubtopologyIds, Tasks},
    telemetry::GroupLimit,
    timers::Timer,
};

/// What a heartbeat leads to.
pub(super) struct Outcome {
    pub(super) records: Vec<Record>,
    pub(super) effect: Option<Effect>,
    pub(super) reply: StreamsHeartbeatReply,
}

impl GroupMachine {
    /// Answers a heartbeat.
    pub(crate) fn streams_heartbeat(
        &self,
        soft: &mut GroupSoft,
        now: Now,
        waiter: Waiter,
        heartbeat: Box<StreamsHeartbeat>,
    ) -> Decision<Self> {
        let checked = validate::check_request(&self.config, &heartbeat);
        if let Err(error) = checked.and_then(|()| self.check_patterns(&heartbeat)) {
            return Decision::reply(waiter, None, Reply::StreamsHeartbeat(Err(error)));
        }
        let scope = Some(heartbeat.group_id.clone());
        let outcome = if let Some(damage) = self.damage(&heartbeat.group_id) {
            Err(StreamsHeartbeatError::Internal(damage))
        } else if matches!(heartbeat.member_epoch, MemberEpoch::LEAVE | MemberEpoch::LEAVE_STATIC) {
            leave::leave(self, soft, now, &heartbeat)
        } else {
            beat(self, soft, now, *heartbeat)
        };
        match outcome {
            Ok(Outcome { records, effect, reply }) => {
                let reply = Reply::StreamsHeartbeat(Ok(reply));
                let effects = effect.into_iter().collect();
                Decision { records, replies: alloc::vec![Answer { waiter, scope, reply }], effects }
            }
            Err(error) => Decision::reply(waiter, scope, Reply::StreamsHeartbeat(Err(error))),
        }
    }
}

/// A member joins or reports.
pub(super) fn beat(
    machine: &GroupMachine,
    soft: &mut GroupSoft,
    now: Now,
    mut heartbeat: StreamsHeartbeat,
) -> Result<Outcome, StreamsHeartbeatError> {
    let is_join = heartbeat.member_epoch == MemberEpoch::JOIN;
    let plain = heartbeat.plain().map(|plain| plain.settled());
    if is_join {
        heartbeat.group_id = machine.known_id(heartbeat.group_id);
    }
    let (group_id, member_id) = (heartbeat.group_id.clone(), heartbeat.member_id.clone());
    let mut records = Vec::new();

    // Which group and which member.
    let existing = find_group(machine, soft, &heartbeat, &mut records)?;
    let is_replaced = existing.is_some_and(|group| replace::is_due(machine, soft, group, &heartbeat));
    let group = match existing {
        Some(group) if is_replaced => Cow::Owned(replace::replaced(group, heartbeat.topology.as_ref())),
        Some(group) => Cow::Borrowed(group),
        None => Cow::Owned(StreamsGroup::new()),
    };
    let group = group.as_ref();
    let Some(topics) = &soft.topics else { return Err(StreamsHeartbeatError::LoadInProgress) };
    let settings = Settings::new(&machine.config, soft.overrides.get(&group_id));
    if is_join {
        check_size(machine, group, &heartbeat)?;
    }
    let owned = Owned::reported(&heartbeat, &group.ids);
    let warmup_support = match heartbeat.support.heartbeat_v1 {
        true => WarmupSupport::Reports,
        false => WarmupSupport::None,
    };
    let Admission { stored: member, replaced, by_previous_epoch } =
        membership::admit(group, &heartbeat, owned.as_ref(), |holder| {
            machine.config.fence_restarted_processes && soft.is_closed(&group_id, holder)
        })?;
    let stored = member.map_or_else(Cow::default, |member| Cow::Borrowed(&*member.metadata));
    let is_new = member.is_none();
    let start = start_of(member, replaced.is_some());
    if let Some(replaced) = &replaced {
        membership::replacement_records(group, &heartbeat, replaced, &stored, &start, &mut records);
    }
    let told = membership::told(&stored, &heartbeat).or_else(|| is_new.then(|| stored.clone().into_owned()));
    let metadata = told.as_ref().unwrap_or(&stored);
    let mut is_changed = is_replaced || planted::is_in(Bug::StaticReturnNoticed) && replaced.is_some();
    if let Some(told) = &told {
        records.push(Record::StreamsMemberMetadata(group_id.clone(), member_id.clone(), Some(told.clone())));
        is_changed |= is_new || membership::concerns_target(&stored, told);
    }

    // What it has to run, and whether that can run.
    let sent = heartbeat.topology.take();
    let is_unchecked = planted::is_in(Bug::StaticOfAnotherVersion) && replaced.is_some();
    let topology = agree_on_topology(machine, group, sent.filter(|_| !is_unchecked))?;
    let ids = match &group.topology {
        Some(_) => group.ids.clone(),
        None => ids_of(group, &topology)?,
    };
    if group.topology.is_none() || is_replaced {
        records.push(Record::StreamsTopology(group_id.clone(), Some((*topology).clone())));
        if planted::is_in(Bug::ReplacementForgetsOffsets) && is_replaced {
            let offsets = machine.groups.get(&group_id).map(|group| &group.offsets);
            offsets.into_iter().for_each(|offsets| offsets.tombstones(&group_id, &mut records));
        }
        if is_replaced
            && existing.and_then(StreamsGroup::description).is_some_and(|description| description.value.is_some())
        {
            records.push(Record::StreamsTopologyDescription(group_id.clone(), None));
        }
    }
    let soft_group = soft.groups.get(&group_id).map(Box::as_ref);
    let with_topology = soft_group.filter(|_| group.topology.is_some() && !is_replaced);
    let occasion = match is_join {
        true if group.topology.is_none() || is_replaced => Occasion::NewTopology,
        true => Occasion::Join,
        false => Occasion::Heartbeat,
    };
    let wanted = ToConfigure { group_id: &group_id, group, topology: &topology, ids: &ids, topics, occasion };
    let Configured { topology: configured, is_current } =
        refresh::configure(machine, &soft.groups, with_topology, &mut soft.caches, wanted)?;
    if group.topology.is_none() || is_replaced {
        let room = machine.check_room_for_matches(configured.matched(), soft.caches.matches.of_group(&group_id));
        room.map_err(|NoRoom(text)| StreamsHeartbeatError::GroupMaxSizeReached(text))?;
    }
    if configured.is_ready() {
        // A topic may have gone, or come back smaller: who was given tasks of it is not to blame.
        let was_given = |task| {
            let has = |tasks: &Holdings| {
                [Role::Active, Role::Standby, Role::Warmup].iter().any(|&it| tasks.contains(it, task))
            };
            has(&start.assigned) || has(start.pending_revocation())
        };
        for lists in [&heartbeat.active_tasks, &heartbeat.standby_tasks, &heartbeat.warmup_tasks] {
            configured.check_owned(&ids, lists.as_deref().unwrap_or_default(), was_given)?;
        }
    }
    validate::check_offsets(heartbeat.task_offsets.as_deref())?;
    validate::check_offsets(heartbeat.task_end_offsets.as_deref())?;

    // Whether the group becomes another one by that.
    let configs = match soft_group.and_then(SoftGroup::assignment_configs) {
        Some(configs) => Cow::Borrowed(configs),
        None => Cow::Owned(machine.shared_configs(settings.assignment_configs())),
    };
    is_changed |= machine.config.fast_rebalance
        && soft_group.is_some_and(|soft_group| soft_group.is_switched(group, settings.assignor_name()));
    let next_metadata = refresh::next_metadata(group, &topology, &configured, &configs, is_changed);
    let is_changed = next_metadata.is_some();
    let epoch = next_metadata.as_ref().map_or(group.epoch, |metadata| metadata.epoch);
    records.extend(next_metadata.map(|value| Record::StreamsGroupMetadata(group_id.clone(), Some(value))));
    // Kafka's plan is to have a refinement that moves on in a stable group advance the epochs here (KIP-1071 warm-ups);
    // it is looked at by a timer ([`super::warmup`]), which this heartbeat may arm.

    // Where everybody shall go.
    let running_delay = soft_group.and_then(SoftGroup::initial_delay);
    let new_delay = (group.state() == GroupState::Empty && running_delay.is_none())
        .then(|| settings.initial_rebalance_delay_ms())
        .filter(|&delay_ms| delay_ms > 0)
        .map(|delay_ms| now.mono.plus_ms(delay_ms.into()));
    let input = TargetInput {
        group,
        pending: Some(PendingMember {
            id: &member_id,
            replaced: replaced.as_ref(),
            metadata,
            progress: &start,
            task_offsets: heartbeat.task_offsets.as_deref(),
            task_end_offsets: heartbeat.task_end_offsets.as_deref(),
            warmup_support,
        }),
        soft_members: soft_group.map(|soft_group| &soft_group.members),
        ids: &ids,
        configured: &configured,
        assignor_name: settings.assignor_name(),
        configs: &configs,
        warmups: settings.warmups(),
        topology: &topology,
        changelogs: &machine.config.changelogs,
        telemetry: &machine.config.telemetry,
    };
    let mut wait_ms = None;
    let mut new_step = None;
    let (new_target, assignment_epoch, delay) = if running_delay.or(new_delay).is_some() {
        (Some(Tasks::EMPTY), group.assignment_epoch, Some(Delay::InitialRebalance))
    } else if group.assignment_epoch.0 >= epoch.0 {
        (None, group.assignment_epoch, None)
    } else if configured.is_pending() {
        // The last target goes on, unless it is one of a topology that is no more.
        let target = (group.validated_topology_epoch == TopologyEpoch::NONE || is_replaced).then_some(Tasks::EMPTY);
        (target, group.assignment_epoch, Some(Delay::SourcePatterns))
    } else if !is_replaced && let Some(left_ms) = refresh::wait_ms(group, &settings, now) {
        // The last target may name tasks that a replaced topology no longer has.
        wait_ms = Some(left_ms);
        (None, group.assignment_epoch, Some(Delay::AssignmentInterval))
    } else if !is_changed && soft_group.is_some_and(|soft_group| soft_group.awaits_refresh()) {
        // Others of the process that has begun to leave may follow.
        (None, group.assignment_epoch, None)
    } else if planted::is_in(Bug::TargetNeverComputed) && !is_join {
        (None, group.assignment_epoch, Some(Delay::AssignmentInterval))
    } else {
        let target::Plan { mut targets, step } = target::compute(&input)?;
        target::records(&input, &group_id, &targets, epoch, now.wall, &mut records);
        let target = targets.remove(&member_id).unwrap_or_default();
        let own = step.slices.get(&member_id).cloned().unwrap_or(target);
        new_step = Some(step);
        (Some(own), AssignmentEpoch(epoch.0), None)
    };
    let stored_id = replaced.as_ref().unwrap_or(&member_id);
    let known_step = soft_group.map_or(Known::Nothing, |soft_group| soft_group.step_of(group));
    if new_target.is_none()
        && matches!(known_step, Known::Nothing)
        && !configured.is_pending()
        && settings.warmups().num_warmup_replicas > 0
        && !start.is_reconciled_to(assignment_epoch)
    {
        // A restart has lost the step. If those who have arrived at it have something else than what can be told of it
        // now, all must walk to another one: the timer sees to that, and nobody moves before.
        let step = target::next_step(&input);
        new_step = step.agrees_with(group).then_some(step);
    }
    let is_lost = matches!(known_step, Known::Nothing) && new_step.is_none() && new_target.is_none();

    // One step of this member on its way there.
    let walker = Walker {
        group,
        member_id: &member_id,
        process_id: &metadata.process_id,
        replaced: replaced.as_ref(),
        progress: &start,
        owned: owned.as_ref(),
    };
    let is_held_up = is_lost && settings.warmups().num_warmup_replicas > 0 && !start.is_reconciled_to(assignment_epoch);
    let walk = || {
        reconcile(&walker, assignment_epoch, || match new_target {
            Some(target) => Cow::Owned(target),
            None => {
                let of_step = match (&new_step, &known_step) {
                    (Some(step), _) => step.slices.get(&member_id),
                    (None, Known::Staged(step)) => step.slice(stored_id),
                    (None, _) => None,
                };
                of_step.or_else(|| group.targets.get(stored_id)).map_or(Cow::Owned(Tasks::EMPTY), Cow::Borrowed)
            }
        })
    };
    let next = if is_held_up { None } else { walk()? };
    let progress = next.as_ref().unwrap_or(&start);
    if let Some(next) = &next {
        let value = next.to_value(&ids);
        records.push(Record::StreamsCurrentAssignment(group_id.clone(), member_id.clone(), Some(value)));
    }

    // The answer.
    let tasks_changed = next.as_ref().is_some_and(|next| next.assigned != start.assigned);
    let endpoint_changed = metadata.user_endpoint != stored.user_endpoint;
    let knows_warmups = heartbeat.support.heartbeat_v1;
    // A member that owns something else than it was given may have missed the answer that said so. It is told again;
    // one that is still on its way takes equal lists for what they are.
    let may_have_missed = by_previous_epoch
        || owned
            .as_ref()
            .is_some_and(|owned| owned.has_unknown || !progress.assigned.same_tasks(&owned.tasks, knows_warmups));
    let tasks = (is_join || tasks_changed || may_have_missed).then(|| progress.assigned.to_lists(&ids));
    let mut endpoint_epoch = soft_group.map_or(0, |soft_group| soft_group.endpoint_epoch);
    if existing.is_some() && (endpoint_changed || tasks_changed && metadata.user_endpoint.is_some()) {
        endpoint_epoch = endpoint_epoch.wrapping_add(1);
    }
    // Which partitions are where is told when it is known.
    let told_endpoint_epoch =
        if configured.is_pending() { heartbeat.endpoint_information_epoch } else { endpoint_epoch };
    let partitions_by_user_endpoint = (told_endpoint_epoch != heartbeat.endpoint_information_epoch)
        .then(|| endpoint_map(group, &configured, replaced.as_ref(), (&member_id, metadata, &progress.assigned)));
    let shutdown_requested_by = (soft_group.and_then(SoftGroup::shutdown_requested_by))
        .or_else(|| heartbeat.shutdown_application.then_some(&member_id));
    let statuses = Statuses {
        settings: &settings,
        metadata,
        topology_epoch: group.topology.as_ref().map(|topology| topology.epoch),
        delay,
        problem: configured.problem.as_deref().cloned().map(|status| with_failures(status, soft, now, &configured)),
        shutdown_requested_by,
        knows_missing_tags: heartbeat.support.heartbeat_v1,
    }
    .list();
    let delayed_ms = match delay {
        Some(Delay::InitialRebalance) => {
            running_delay.or(new_delay).and_then(|deadline| i64::try_from(deadline.since(now.mono)).ok())
        }
        Some(Delay::AssignmentInterval) => wait_ms,
        Some(Delay::SourcePatterns) => Some(0),
        None => None,
    };
    let has = |code| statuses.iter().any(|status| status.code == code);
    let pace = match configured.problem.as_ref().map(|problem| problem.code) {
        Some(StatusCode::MissingInternalTopics) if !soft.creations.has_failed(now.mono, &configured.missing) => {
            Pace::Moving
        }
        Some(_) => Pace::Patient,
        None if has(StatusCode::StaleTopology) => Pace::Patient,
        None if let Some(ms) = delayed_ms => Pace::Waiting(ms),
        None if next.is_some() || group.is_moving() => Pace::Moving,
        None => Pace::Stable,
    };
    let interval_ms = pace::heartbeat_interval_ms(&machine.config, &settings, pace);
    let may_be_asked =
        machine.config.ask_descriptions && heartbeat.support.heartbeat_v1 && !has(StatusCode::StaleTopology);
    let asked = soft_group.map(|soft_group| soft_group.asked).unwrap_or_default();
    let (asked, topology_description_required) = description::ask(group, topology.epoch, asked, now.mono, may_be_asked);
    let reply = StreamsHeartbeatReply {
        member_id: member_id.clone(),
        member_epoch: match planted::is_in(Bug::MemberEpochBack) && progress.previous_epoch > MemberEpoch::JOIN {
            true => MemberEpoch(progress.previous_epoch.0 - 1).max(MemberEpoch(1)),
            false => progress.epoch,
        },
        heartbeat_interval_ms: interval_ms,
        acceptable_recovery_lag: settings.acceptable_recovery_lag(),
        task_offset_interval_ms: settings.task_offset_interval_ms(),
        statuses,
        tasks,
        endpoint_information_epoch: told_endpoint_epoch,
        partitions_by_user_endpoint,
        topology_description_required,
    };

    // What is kept in memory of it.
    let has_new_target = new_step.is_some() && assignment_epoch.0 > group.assignment_epoch.0;
    // Who waits for a target or for topics is looked at when that is over.
    let has_warmups = settings.warmups().num_warmup_replicas > 0 || !progress.assigned.warmup.is_empty();
    let is_unknown = has_warmups && is_lost && wait_ms.is_none() && !configured.is_pending();
    let is_last = progress.is_reconciled_to(assignment_epoch) && group.have_others_arrived(member, assignment_epoch);
    let acceptable_lag = settings.acceptable_recovery_lag();
    let assignor = has_new_target.then(|| place_of_assignor(settings.assignor_name()));
    let has_arrived = next.as_ref().is_some_and(|next| next.state == MemberState::Stable);
    let session_timeout_ms = settings.session_timeout_ms();
    let rebalance_timeout_ms = metadata.rebalance_timeout_ms;
    let configs =
        soft_group.is_none_or(|soft_group| soft_group.assignment_configs().is_none()).then(|| configs.into_owned());
    if existing.is_none() {
        soft.remove_classic(&group_id);
    }
    let GroupSoft { groups, timers, creations, caches, .. } = soft;
    let is_long = !is_current && caches.matches.count_of(&topology).is_some();
    if is_current {
        caches.matches.count(&group_id, configured.matched());
    }
    let soft_group = match groups.get_mut(&group_id) {
        Some(soft_group) => soft_group,
        None => groups.entry(group_id.clone()).or_default(),
    };
    if is_replaced {
        soft_group.forget_configured();
    }
    if is_current {
        soft_group.keep_configured(Arc::clone(&configured));
    } else if is_long {
        soft_group.arm_refresh(timers, now.mono, &group_id);
    }
    if let Some(configs) = configs {
        soft_group.keep_assignment_configs(configs);
    }
    if heartbeat.shutdown_application {
        soft_group.request_shutdown(&member_id);
    }
    soft_group.endpoint_epoch = endpoint_epoch;
    soft_group.asked = asked;
    if let Some(deadline) = new_delay {
        soft_group.begin_initial_delay(timers, deadline, &group_id);
    }
    if machine.config.fast_rebalance
        && let Some(wait_ms) = wait_ms
    {
        soft_group.arm_refresh(timers, now.mono.plus_ms(wait_ms), &group_id);
    }
    if let Some(replaced) = &replaced {
        soft_group.remove_member(timers, &group_id, replaced);
        soft_group.rename_in_step(replaced, &member_id);
    }
    if let Some(step) = new_step {
        soft_group.keep_step(&ids, step);
    }
    if let Some(assignor) = assignor {
        soft_group.keep_assignor(assignor);
    }
    let changes = soft_group.changes();
    let soft_member = match soft_group.members.get_mut(&member_id) {
        Some(soft_member) => soft_member,
        None => soft_group.members.get_or_insert_with(machine.config.hash_seed, member_id.clone(), SoftMember::default),
    };
    let session = || Timer::Session(group_id.clone(), member_id.clone());
    let rebalance = || Timer::Rebalance(group_id.clone(), member_id.clone());
    soft_member.link = Link::Open(heartbeat.caller.connection);
    soft_member.interval_ms = interval_ms;
    if is_join {
        soft_member.joined = now.mono;
    }
    soft_member.session.extend(timers, now.mono, session_timeout_ms, session);
    match next {
        Some(Progress { state: MemberState::UnrevokedTasks, epoch, .. }) => {
            soft_member.arm_rebalance(timers, now.mono, rebalance_timeout_ms, epoch, rebalance());
        }
        Some(_) => soft_member.disarm_rebalance(timers, rebalance),
        None => {}
    }
    let reports_offsets = heartbeat.task_offsets.is_some() || heartbeat.task_end_offsets.is_some();
    soft_member.keep_offsets(heartbeat.task_offsets, heartbeat.task_end_offsets);
    let is_heard_first = soft_member.warmup_support != warmup_support;
    soft_member.warmup_support = warmup_support;
    let has_caught_up =
        |step: &WarmupStep| reports_offsets && step.has_caught_up(&member_id, soft_member, acceptable_lag);
    let looks = match &soft_group.step {
        _ if is_unknown => Some(now.mono),
        // Nothing comes of a look before all have arrived, and whoever is the last looks.
        Some(step) if is_last && (has_arrived || has_caught_up(step)) => Some(now.mono),
        Some(_) if is_last && (reports_offsets || is_heard_first) => Some(now.mono.plus_ms(warmup::LOOK_MS)),
        _ => None,
    };
    let effect = creations.request(now.mono, &group_id, &configured.missing);
    let says_nothing = pace == Pace::Stable
        && reply.statuses.is_empty()
        && reply.tasks.is_none()
        && reply.partitions_by_user_endpoint.is_none()
        && !reply.topology_description_required
        && reply.member_epoch == heartbeat.member_epoch;
    let settled = plain.filter(|_| says_nothing && records.is_empty() && effect.is_none());
    soft_member.settled = settled.map(|settled| settled.as_of(changes));
    if let Some(at) = looks {
        soft_group.arm_refresh(timers, at, &group_id);
    }
    if is_join {
        machine.look_for_ghosts(soft, now, &group_id, &metadata.process_id);
    }
    Ok(Outcome { records, effect, reply })
}

/// The streams group, or none if the member's join makes it; then what must go first is written.
fn find_group<'a>(
    machine: &'a GroupMachine,
    soft: &GroupSoft,
    heartbeat: &StreamsHeartbeat,
    records: &mut Vec<Record>,
) -> Result<Option<&'a StreamsGroup>, StreamsHeartbeatError> {
    let group_id = &heartbeat.group_id;
    let is_join = heartbeat.member_epoch == MemberEpoch::JOIN;
    if let Some(GroupKind::Streams(group)) = machine.groups.get(group_id).map(|group| &group.kind) {
        return Ok(Some(group));
    }
    match machine.find(soft, group_id) {
        Found::Nothing if is_join => Ok(None),
        // To Kafka a group of offsets is a classic group without members.
        Found::OffsetsOnly | Found::Classic(_) if is_join && machine.find(soft, group_id).is_empty() => {
            records.push(Record::ClassicGroupMetadata(group_id.clone(), None));
            Ok(None)
        }
        Found::Classic(_) => Err(StreamsHeartbeatError::GroupIdNotFound(format!(
            "Group {group_id} is a classic group, not a streams group."
        ))),
        Found::Nothing | Found::OffsetsOnly | Found::Streams(_) => Err(leave::unknown_group(group_id)),
    }
}

fn check_size(
    machine: &GroupMachine,
    group: &StreamsGroup,
    heartbeat: &StreamsHeartbeat,
) -> Result<(), StreamsHeartbeatError> {
    let instance = heartbeat.instance_id.as_ref();
    let is_known = instance.is_some_and(|instance| group.static_members.contains_key(instance))
        || group.members.contains_key(&heartbeat.member_id);
    if is_known {
        return Ok(());
    }
    let max = machine.config.members_max;
    if i64::try_from(group.members.len()).unwrap_or(i64::MAX) >= i64::from(max) {
        machine.config.telemetry.hit(GroupLimit::StreamsGroupSize);
        return Err(StreamsHeartbeatError::GroupMaxSizeReached(format!(
            "Group {} has reached its maximum of {max} members (group.streams.max.size).",
            heartbeat.group_id
        )));
    }
    let room = machine.config.check_room_for_member();
    let room = room.and_then(|()| machine.check_room_for_group(&heartbeat.group_id));
    room.map_err(|NoRoom(text)| StreamsHeartbeatError::GroupMaxSizeReached(text))
}

/// Where the member stands before this heartbeat moves it.
fn start_of(stored: Option<&Member>, is_replaced: bool) -> Cow<'_, Progress> {
    match stored.map(|member| &member.progress) {
        Some(left) if is_replaced => {
            Cow::Owned(Progress { epoch: MemberEpoch::JOIN, previous_epoch: MemberEpoch::JOIN, ..leave::away(left) })
        }
        Some(progress) => Cow::Borrowed(progress),
        None => Cow::Owned(Progress::default()),
    }
}

/// The topology to use: the group's, or the first member's.
fn agree_on_topology(
    machine: &GroupMachine,
    group: &StreamsGroup,
    sent: Option<Topology>,
) -> Result<Arc<Topology>, StreamsHeartbeatError> {
    match (&group.topology, sent) {
        (Some(stored), None) => Ok(Arc::clone(stored)),
        (Some(stored), Some(sent)) if stored.epoch > sent.epoch || replace::is_same(stored, &sent) => {
            Ok(Arc::clone(stored))
        }
        (Some(stored), Some(sent)) if machine.config.replace_topology => {
            Err(StreamsHeartbeatError::InvalidTopologyEpoch(replace::refusal(stored, &sent)))
        }
        (Some(stored), Some(sent)) => Err(StreamsHeartbeatError::InvalidRequest(format!(
            "The topology (epoch {}) differs from the group's (epoch {}). Changing a group's topology is not supported \
             yet: use another application id, or delete the group once all members have left.",
            sent.epoch, stored.epoch
        ))),
        (None, Some(sent)) => Ok(Arc::new(sent)),
        (None, None) => Err(StreamsHeartbeatError::Internal(String::from("The group has no topology."))),
    }
}

/// The numbering that the group will have once the topology is stored.
fn ids_of(group: &StreamsGroup, topology: &Topology) -> Result<SubtopologyIds, StreamsHeartbeatError> {
    if !group.ids.as_slice().is_empty() {
        let text = "The group's records name tasks, but hold no topology; delete the group.";
        return Err(StreamsHeartbeatError::Internal(String::from(text)));
    }
    let ids = topology.subtopologies.iter().map(|subtopology| subtopology.id.clone());
    Ok(SubtopologyIds::new(ids.collect()))
}

fn with_failures(status: Status, soft: &GroupSoft, now: Now, configured: &ConfiguredTopology) -> Status {
    if status.code != StatusCode::MissingInternalTopics {
        return status;
    }
    let failures = soft.creations.failure_text(now.mono, &configured.missing).unwrap_or_default();
    Status { detail: status.detail + &failures, ..status }
}

impl SoftGroup {
    /// To be called when a member's records are deleted.
    pub(super) fn on_member_gone(
        &mut self,
        timers: &mut crate::timers::Timers,
        group_id: &riparian_types::GroupId,
        member_id: &riparian_types::MemberId,
        is_last: bool,
    ) {
        self.remove_member(timers, group_id, member_id);
        if is_last {
            self.on_last_gone();
        }
    }
}
