//! What a heartbeat's answer says besides the member's tasks: statuses and the endpoint map.

use alloc::{collections::BTreeMap, format, vec::Vec};

use riparian_types::{MemberId, PartitionIndex, TopicName, TopologyEpoch};

use crate::{
    config::Settings,
    record::StreamsMemberMetadataValue,
    reply::{EndpointPartitions, Status, StatusCode},
    streams::{Endpoint, TopicPartitions, configured::ConfiguredTopology, group::StreamsGroup},
    tasks::{Holdings, Task},
};

/// Why the assignment is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    /// Members may still be starting.
    InitialRebalance,
    /// The last assignment is too young.
    AssignmentInterval,
    /// What the topology's patterns stand for is not known yet.
    SourcePatterns,
}

impl Delay {
    fn detail(self) -> &'static str {
        match self {
            Self::InitialRebalance => "The assignment waits for the initial rebalance delay to pass.",
            Self::AssignmentInterval => "The assignment waits for the assignment interval to pass.",
            Self::SourcePatterns => "The assignment waits until the source patterns have been matched with all topics.",
        }
    }
}

/// Everything that holds at present, in the order in which Kafka lists it.
pub(super) struct Statuses<'a> {
    pub(super) settings: &'a Settings<'a>,
    pub(super) metadata: &'a StreamsMemberMetadataValue,
    /// The epoch of the group's stored topology, none when it is stored just now.
    pub(super) topology_epoch: Option<TopologyEpoch>,
    pub(super) delay: Option<Delay>,
    pub(super) problem: Option<Status>,
    pub(super) shutdown_requested_by: Option<&'a MemberId>,
    /// The member understands status 6.
    pub(super) knows_missing_tags: bool,
}

impl Statuses<'_> {
    pub(super) fn list(self) -> Vec<Status> {
        let stale = self.topology_epoch.filter(|&epoch| self.metadata.topology_epoch < epoch).map(|epoch| Status {
            code: StatusCode::StaleTopology,
            detail: format!(
                "The member's topology epoch {} is behind the group's topology epoch {epoch}.",
                self.metadata.topology_epoch
            ),
        });
        let delayed =
            self.delay.map(|delay| Status { code: StatusCode::AssignmentDelayed, detail: delay.detail().into() });
        let shutdown = self.shutdown_requested_by.map(|member| Status {
            code: StatusCode::ShutdownApplication,
            detail: format!("Member {member} met a fatal error and asked the whole application to shut down."),
        });
        let tags = if self.knows_missing_tags { missing_tags(self.settings, self.metadata) } else { None };
        stale.into_iter().chain(delayed).chain(self.problem).chain(shutdown).chain(tags).collect()
    }
}

fn missing_tags(settings: &Settings<'_>, metadata: &StreamsMemberMetadataValue) -> Option<Status> {
    let has = |tag: &str| metadata.client_tags.iter().any(|(key, _)| key == tag);
    let tags = settings.rack_aware_assignment_tags();
    if tags.iter().all(|tag| has(tag)) {
        return None;
    }
    let missing: Vec<&str> = tags.iter().map(|tag| tag.as_str()).filter(|tag| !has(tag)).collect();
    Some(Status {
        code: StatusCode::MissingClientTags,
        detail: format!(
            "The member lacks client tags that the group's rack-aware assignment needs: {}. Set client.tag.<key> for \
             each in the Streams configuration.",
            missing.join(", ")
        ),
    })
}

/// Where each endpoint's partitions are; this member comes last.
pub(super) fn endpoint_map(
    group: &StreamsGroup,
    configured: &ConfiguredTopology,
    replaced: Option<&MemberId>,
    member: (&MemberId, &StreamsMemberMetadataValue, &Holdings),
) -> Vec<EndpointPartitions> {
    let (member_id, metadata, assigned) = member;
    let others = group.members.iter().filter(|(id, _)| *id != member_id && Some(*id) != replaced);
    let others = others.map(|(_, other)| (other.metadata.user_endpoint.as_deref(), &other.progress.assigned));
    others
        .chain([(metadata.user_endpoint.as_deref(), assigned)])
        .filter_map(|(endpoint, assigned)| Some(endpoint_partitions(configured, endpoint?, assigned)))
        .collect()
}

fn endpoint_partitions(
    configured: &ConfiguredTopology,
    endpoint: &Endpoint,
    assigned: &Holdings,
) -> EndpointPartitions {
    EndpointPartitions {
        endpoint: endpoint.clone(),
        active: input_partitions(configured, assigned.active.tasks()),
        standby: input_partitions(configured, assigned.standby.iter().chain(assigned.warmup.iter())),
    }
}

/// The partitions that these tasks read, as far as they exist; nothing while the topology is not configured.
fn input_partitions(configured: &ConfiguredTopology, tasks: impl Iterator<Item = Task>) -> Vec<TopicPartitions> {
    let mut topics: BTreeMap<&TopicName, Vec<PartitionIndex>> = BTreeMap::new();
    for task in tasks {
        let Some(subtopology) = configured.subtopologies.get(task.subtopology()) else { continue };
        let exists = |&&(_, count): &&(TopicName, i32)| task.partition().0 < count;
        for (topic, _) in subtopology.inputs.iter().filter(exists) {
            topics.entry(topic).or_default().push(task.partition());
        }
    }
    let sorted = |(topic, mut partitions): (&TopicName, Vec<PartitionIndex>)| {
        partitions.sort_unstable();
        partitions.dedup();
        TopicPartitions { topic: topic.clone(), partitions }
    };
    topics.into_iter().map(sorted).collect()
}
