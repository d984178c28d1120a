//! Reads the group specs under `tests/assignor/`, whose format the README there describes.

use std::{collections::BTreeMap, fs::File, path::PathBuf, sync::Arc};

use flate2::read::GzDecoder;
use riparian_assignor::{
    Assignment, AssignmentConfig, AssignmentInput, ClientTag, MemberInput, Subtopologies, SubtopologyInput, TaskId,
    TaskOffset, intern_processes,
};
use riparian_types::{Offset, PartitionIndex, ProcessId};
use serde_json::{Map, Value};

pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/assignor")
}

/// Kafka's quality figures, by name of the spec.
pub(crate) fn kafka_quality() -> BTreeMap<String, Map<String, Value>> {
    let text = std::fs::read_to_string(directory().join("quality-kafka-4.4.0-sticky.jsonl")).unwrap();
    text.lines()
        .map(|line| {
            let figures: Map<String, Value> = serde_json::from_str(line).unwrap();
            (figures["spec"].as_str().unwrap().to_owned(), figures)
        })
        .collect()
}

pub(crate) fn read(name: &str) -> AssignmentInput {
    let file = File::open(directory().join(format!("{name}.json.gz"))).unwrap();
    let spec: Value = serde_json::from_reader(GzDecoder::new(file)).unwrap();
    let subtopologies = Subtopologies::new(array(&spec["subtopologies"]).iter().map(subtopology).collect()).unwrap();
    let mut members: Vec<&Value> = array(&spec["members"]).iter().collect();
    members.sort_by_key(|member| text(&member["id"]));
    let process_ids: Vec<ProcessId> = members.iter().map(|member| text(&member["processId"]).into()).collect();
    let (processes, process_indexes) = intern_processes(&process_ids);
    let members = std::iter::zip(members, process_indexes)
        .map(|(member, process)| MemberInput {
            instance_id: member["instanceId"].as_str().map(Into::into),
            rack_id: member["rackId"].as_str().map(Into::into),
            client_tags: entries(&member["clientTags"])
                .map(|(key, value)| ClientTag { key: key.into(), value: text(value).into() })
                .collect(),
            active: tasks(&subtopologies, &member["active"]),
            standby: tasks(&subtopologies, &member["standby"]),
            warmup: tasks(&subtopologies, &member["warmup"]),
            task_offsets: offsets(&subtopologies, &member["taskOffsets"]),
            task_end_offsets: offsets(&subtopologies, &member["taskEndOffsets"]),
            ..MemberInput::new(text(&member["id"]).into(), process)
        })
        .collect();
    let config = AssignmentConfig {
        num_standby_replicas: u32::try_from(spec["numStandbyReplicas"].as_u64().unwrap()).unwrap(),
        rack_aware_assignment_tags: array(&spec["rackAwareAssignmentTags"])
            .iter()
            .map(|key| text(key).into())
            .collect(),
    };
    AssignmentInput { processes, members, subtopologies: Arc::new(subtopologies), config, changelogs: vec![] }
}

/// What somebody else answered, in the output format of the README.
#[allow(dead_code, reason = "one of the two programs that have this module compares answers")]
pub(crate) fn assignment(input: &AssignmentInput, members: &Value) -> Assignment {
    let mut assignment = Assignment::empty(input.members.len());
    for (member, tasks_of) in std::iter::zip(&input.members, &mut assignment.members) {
        let answer = &members[member.id.as_str()];
        tasks_of.active = tasks(&input.subtopologies, &answer["active"]);
        tasks_of.standby = tasks(&input.subtopologies, &answer["standby"]);
    }
    assignment
}

fn subtopology(value: &Value) -> SubtopologyInput {
    SubtopologyInput {
        id: text(&value["id"]).into(),
        partition_count: u32::try_from(value["partitions"].as_u64().unwrap()).unwrap(),
        stateful: value["stateful"].as_bool().unwrap(),
    }
}

fn tasks(subtopologies: &Subtopologies, value: &Value) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> = entries(value)
        .flat_map(|(id, partitions)| {
            array(partitions).iter().map(|partition| task(subtopologies, id, partition.as_i64().unwrap()))
        })
        .collect();
    tasks.sort_unstable();
    tasks
}

fn offsets(subtopologies: &Subtopologies, value: &Value) -> Vec<TaskOffset> {
    let mut offsets: Vec<TaskOffset> = entries(value)
        .flat_map(|(id, partitions)| {
            entries(partitions).map(|(partition, offset)| TaskOffset {
                task: task(subtopologies, id, partition.parse().unwrap()),
                offset: Offset(offset.as_i64().unwrap()),
            })
        })
        .collect();
    offsets.sort_unstable_by_key(|reported| reported.task);
    offsets
}

fn task(subtopologies: &Subtopologies, id: &str, partition: i64) -> TaskId {
    let partition = PartitionIndex(i32::try_from(partition).unwrap());
    subtopologies.task(subtopologies.find(id).unwrap(), partition).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}
