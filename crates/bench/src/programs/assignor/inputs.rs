//! Groups that assignors decide about, beside those of files: large ones, and seeded ones that change.

use std::{collections::BTreeMap, sync::Arc};

use riparian_assignor::{
    AssignmentConfig, AssignmentInput, MemberInput, StickyTaskAssignor, Subtopologies, SubtopologyInput,
    TaskAssignor as _, TaskId, TaskOffset, intern_processes,
    testbed::{Change, Group},
};
use riparian_types::{Offset, Prng, ProcessId};
use serde_json::{Map, Value, json};

/// A tenth of the tasks of [`LARGE`].
pub(super) const SMALL: &str = "full-m1000-s10-p100-r1-mpp1";
/// The members and standbys of [`SMALL`].
pub(super) const LARGE: &str = "full-m1000-s100-p100-r1-mpp1";

/// Groups of 1,000 members whose names say what they are.
pub(super) fn made_up() -> Vec<(String, AssignmentInput)> {
    vec![
        (SMALL.to_owned(), fresh(10)),
        (LARGE.to_owned(), fresh(100)),
        ("disks-m1000-s100-p100-r1-mpp1".to_owned(), scattered(fresh(100))),
    ]
}

fn fresh(subtopology_count: u32) -> AssignmentInput {
    let list = (0..subtopology_count).map(|index| SubtopologyInput {
        id: format!("subtopology-{index:03}").as_str().into(),
        partition_count: 100,
        stateful: true,
    });
    let ids: Vec<ProcessId> = (0..1000).map(|index| format!("process-{index:04}").as_str().into()).collect();
    let (processes, indexes) = intern_processes(&ids);
    let member = |(index, process)| MemberInput::new(format!("member-{index:04}").as_str().into(), process);
    AssignmentInput {
        processes,
        members: indexes.into_iter().enumerate().map(member).collect(),
        subtopologies: Arc::new(Subtopologies::new(list.collect()).expect("the ids are sorted")),
        config: AssignmentConfig { num_standby_replicas: 1, rack_aware_assignment_tags: vec![] },
        changelogs: vec![],
    }
}

/// After a stop of the whole application: each disk has some of thirty tasks that nobody planned.
fn scattered(mut input: AssignmentInput) -> AssignmentInput {
    let mut prng = Prng::new(30);
    let task_count = u64::from(input.subtopologies.task_count());
    for member in &mut input.members {
        let mut reported: BTreeMap<TaskId, Offset> = BTreeMap::new();
        for _ in 0..30 {
            reported.insert(TaskId(prng.below(task_count) as u32), Offset(1 + prng.below(1_000_000) as i64));
        }
        member.task_offsets = reported.into_iter().map(|(task, offset)| TaskOffset { task, offset }).collect();
    }
    input
}

/// Seeded groups just after a change, which live on with what `sticky` decides.
pub(super) fn changed_groups(wanted: usize) -> Vec<(String, AssignmentInput)> {
    let mut inputs = Vec::with_capacity(wanted);
    for seed in 0.. {
        let mut group = Group::new(seed);
        for change in 0..5 {
            let input = group.input();
            let Ok(assignment) = StickyTaskAssignor.assign(&input) else { break };
            group.adopt(&assignment);
            while group.change() == Change::Nothing {}
            if inputs.len() == wanted {
                return inputs;
            }
            inputs.push((format!("seed {seed}, change {change}"), group.input()));
        }
    }
    inputs
}

/// In the format of `tests/assignor/README.md`.
pub(super) fn to_json(input: &AssignmentInput) -> Value {
    let subtopologies = input.subtopologies.list().iter().map(|subtopology| {
        json!({
            "id": subtopology.id.as_str(),
            "partitions": subtopology.partition_count,
            "stateful": subtopology.stateful,
        })
    });
    let located = |task: TaskId| {
        let (subtopology, partition) = input.subtopologies.locate(task).expect("a task of the group");
        (input.subtopologies.list()[subtopology.index()].id.as_str().to_owned(), partition.0)
    };
    let tasks = |list: &[TaskId]| {
        let mut by_subtopology: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for (subtopology, partition) in list.iter().map(|&task| located(task)) {
            by_subtopology.entry(subtopology).or_default().push(partition);
        }
        json!(by_subtopology)
    };
    let offsets = |list: &[TaskOffset]| {
        let mut by_subtopology: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for reported in list {
            let (subtopology, partition) = located(reported.task);
            by_subtopology.entry(subtopology).or_default().insert(partition.to_string(), json!(reported.offset.0));
        }
        json!(by_subtopology)
    };
    let members = input.members.iter().map(|member| {
        json!({
            "id": member.id.as_str(),
            "processId": input.processes[member.process.index()].as_str(),
            "active": tasks(&member.active),
            "standby": tasks(&member.standby),
            "warmup": tasks(&member.warmup),
            "taskOffsets": offsets(&member.task_offsets),
            "taskEndOffsets": offsets(&member.task_end_offsets),
        })
    });
    json!({
        "numStandbyReplicas": input.config.num_standby_replicas,
        "subtopologies": subtopologies.collect::<Vec<_>>(),
        "members": members.collect::<Vec<_>>(),
    })
}
