//! How a classic group is shown.

use std::{collections::BTreeMap, fmt::Write};

use riparian_client::admin::{ClassicGroup, ClassicMember, GroupOffset};
use serde::Serialize;

use super::offsets::{self, OffsetJson};
use crate::output::{table, visible};

#[derive(Serialize)]
pub(super) struct GroupJson<'a> {
    group: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    state: &'a str,
    protocol_type: &'a str,
    protocol: &'a str,
    members: Vec<MemberJson<'a>>,
    offsets: Vec<OffsetJson<'a>>,
}

#[derive(Serialize)]
struct MemberJson<'a> {
    member_id: &'a str,
    instance_id: Option<&'a str>,
    client_id: &'a str,
    client_host: &'a str,
    /// Null where the assignment isn't one of consumers.
    partitions: Option<&'a BTreeMap<String, Vec<i32>>>,
}

pub(super) fn json<'a>(group: &'a ClassicGroup, offsets: &'a [GroupOffset]) -> GroupJson<'a> {
    let member = |member: &'a ClassicMember| MemberJson {
        member_id: &member.member_id,
        instance_id: member.instance_id.as_deref(),
        client_id: &member.client_id,
        client_host: &member.client_host,
        partitions: member.partitions.as_ref(),
    };
    GroupJson {
        group: &group.group_id,
        kind: "classic",
        state: &group.state,
        protocol_type: &group.protocol_type,
        protocol: &group.protocol,
        members: group.members.iter().map(member).collect(),
        offsets: offsets::json(offsets),
    }
}

pub(super) fn text(group: &ClassicGroup, offsets: &[GroupOffset]) -> String {
    let (id, state) = (visible(&group.group_id), visible(&group.state));
    let mut text = format!("{id}: {state}, classic group, {} members", group.members.len());
    if !group.protocol.is_empty() {
        write!(text, ", protocol {}", visible(&group.protocol)).expect("writing to a string succeeds");
    }
    text.push('\n');
    if !group.members.is_empty() {
        let rows = group.members.iter().map(|member| {
            [
                format!("  {}", member.member_id),
                member.instance_id.clone().unwrap_or_else(|| "-".to_owned()),
                member.client_id.clone(),
                member.client_host.clone(),
                member.partitions.as_ref().map_or_else(|| "?".to_owned(), partition_names),
            ]
        });
        text.push_str(&table(["  MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"], rows));
    }
    text.push_str(&offsets::text(offsets));
    text
}

/// Partitions as logs and tools name them: `orders-3`.
fn partition_names(partitions: &BTreeMap<String, Vec<i32>>) -> String {
    let names = partitions
        .iter()
        .flat_map(|(topic, partitions)| partitions.iter().map(move |partition| format!("{topic}-{partition}")));
    names.collect::<Vec<_>>().join(" ")
}
