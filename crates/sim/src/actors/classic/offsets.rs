//! Offsets of a simulated consumer: what it commits and what it finds committed.
//!
//! **Checked here:** nothing is taken that claims to be of a generation that is over.

use bytes::Bytes;
use riparian_protocol::{
    ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetFetchRequest,
        offset_fetch_response::{OffsetFetchResponsePartition, OffsetFetchResponsePartitions},
    },
};

use crate::{
    actors::classic::{
        COMMIT, Claim, Consumer, State,
        requests::{self, Written},
    },
    app::source_topic,
    client::decode,
    core::Core,
};

impl Consumer {
    pub(super) fn commit_some(&mut self, core: &mut Core) {
        let delay_ms = 200 + core.prng.below(2000);
        self.timer(core, delay_ms, COMMIT);
        if self.state == State::Reading && !core.is_healing && core.prng.chance(50 * self.group.members) {
            self.wish_anew(core);
        }
        if self.commit.is_some() || self.state != State::Reading || self.owned.is_empty() {
            return;
        }
        // A thread that has not heard of the new generation yet: nothing that it says may be taken.
        let is_late = core.prng.chance(8);
        let generation = self.generation - i32::from(is_late);
        let claim = self.claim(core, generation);
        let owned: Vec<i32> = self.owned.iter().copied().collect();
        self.commit(core, claim, &owned);
    }

    /// A leader that has assigned nothing yet commits all the same: it may be refused.
    pub(super) fn commit_early(&mut self, core: &mut Core) {
        if self.commit.is_none() {
            let claim = self.claim(core, self.generation);
            self.commit(core, claim, &[0]);
        }
    }

    fn commit(&mut self, core: &mut Core, claim: Claim, partitions: &[i32]) {
        let topic = source_topic(&self.group.name);
        let written: Vec<Written> = partitions
            .iter()
            .map(|partition| {
                let value = core.commits.next_value();
                core.commits.tried(&self.group.name, &topic, *partition, value, core.now_us);
                Written { partition: *partition, value }
            })
            .collect();
        let (instance, generation) = (self.instance.as_deref(), claim.generation);
        let request = requests::commit(&self.group, &self.member_id, instance, generation, &written);
        if let Some(correlation) = self.client.send(core, &request, self.versions.commit) {
            let values: Vec<String> = written.iter().map(|one| format!("{} at {}", one.value, one.partition)).collect();
            core.tell(self.actor, format_args!("commits {} in generation {generation}", values.join(", ")));
            self.commit = Some((correlation, claim, written));
        }
    }

    pub(super) fn on_commit(&mut self, core: &mut Core, reply: &Bytes, claim: Claim, written: &[Written]) {
        let Some(response) = decode::<OffsetCommitRequest<'_>>(core, reply, self.versions.commit) else { return };
        let (name, topic) = (&self.group.name, source_topic(&self.group.name));
        let mut refusal = None;
        for answer in response.topics.iter().flat_map(|topic| &topic.partitions) {
            let partition = answer.partition_index;
            let Some(one) = written.iter().find(|one| one.partition == partition) else { continue };
            match ErrorCode::from_code(answer.error_code) {
                Some(ErrorCode::None) => {
                    core.commits.acknowledged(name, &topic, partition, one.value, core.now_us);
                    core.totals.add("offsets committed", 1);
                    if claim.is_over {
                        let (id, generation) = (&self.member_id, claim.generation);
                        core.fail(format_args!("{id} may commit in generation {generation}, which was over"));
                    }
                }
                Some(
                    error @ (ErrorCode::UnknownMemberId
                    | ErrorCode::FencedInstanceId
                    | ErrorCode::IllegalGeneration
                    | ErrorCode::RebalanceInProgress),
                ) => {
                    core.commits.refused(name, &topic, partition, one.value);
                    core.totals.add("commits refused", 1);
                    refusal = Some(error);
                }
                Some(ErrorCode::GroupIdNotFound | ErrorCode::UnknownTopicOrPartition) => {
                    core.commits.refused(name, &topic, partition, one.value);
                    core.totals.add("commits refused", 1);
                }
                // The shard may have appended it before it was lost, and reload with or without it.
                Some(ErrorCode::NotCoordinator | ErrorCode::CoordinatorLoadInProgress) => {}
                other => core.fail(format_args!("{} gets error {other:?} for a commit", self.member_id)),
            }
        }
        let is_mine = self.state == State::Reading && claim.generation == self.generation;
        if is_mine
            && !self.must_join
            && let Some(error) = refusal
        {
            self.on_refused(core, Some(error), "a commit");
        }
    }

    pub(super) fn fetch_offsets(&mut self, core: &mut Core) {
        if self.fetch.is_none() {
            let request = requests::fetch(&self.group, &self.owned, self.versions);
            let sent = self.client.send(core, &request, self.versions.fetch);
            self.fetch = sent.map(|correlation| (correlation, core.now_us));
        }
    }

    pub(super) fn on_fetch(&self, core: &mut Core, reply: &Bytes, began_us: u64) {
        let Some(response) = decode::<OffsetFetchRequest<'_>>(core, reply, self.versions.fetch) else { return };
        if response.error_code != 0 {
            return;
        }
        let old = response.topics.iter().flat_map(|topic| &topic.partitions);
        let new = response.groups.iter().flat_map(|group| &group.topics).flat_map(|topic| &topic.partitions);
        let of_old =
            |one: &OffsetFetchResponsePartition<'_>| (one.partition_index, one.committed_offset, one.error_code);
        let of_new =
            |one: &OffsetFetchResponsePartitions<'_>| (one.partition_index, one.committed_offset, one.error_code);
        let topic = source_topic(&self.group.name);
        for (partition, offset, code) in old.map(of_old).chain(new.map(of_new)) {
            if code == 0 {
                let result = core.commits.read((&self.group.name, &topic, partition), offset, began_us);
                core.check(result);
                core.totals.add("offsets compared", 1);
            }
        }
    }
}
