//! Groups of the classic protocol.

use std::collections::BTreeMap;

use riparian_protocol::messages::{
    DescribeGroupsRequest,
    describe_groups_response::{DescribedGroup, DescribedGroupMember},
};
use riparian_wire::{DecodeError, Reader, element};

use crate::{ClientError, Cluster, ServerError};

/// The protocol type of consumers, and of Kafka Streams on the classic protocol.
const CONSUMER: &str = "consumer";
/// The state in which DescribeGroups before version 6 shows a group that does not exist.
const DEAD: &str = "Dead";

/// A classic group in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicGroup {
    /// Its id.
    pub group_id: String,
    /// Kafka's word for what it is doing.
    pub state: String,
    /// `consumer` for consumers, empty if nobody has ever joined.
    pub protocol_type: String,
    /// The way to assign that the members agreed on; empty unless the group is stable.
    pub protocol: String,
    /// The members, as the server orders them.
    pub members: Vec<ClassicMember>,
}

/// A member of a classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicMember {
    /// Its id.
    pub member_id: String,
    /// For static members (KIP-345).
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// Partitions by topic; `None` if the assignment isn't one of consumers.
    pub partitions: Option<BTreeMap<String, Vec<i32>>>,
}

/// A classic group; `None` if the server has none of this id. The inner error is the server's about it.
pub fn describe_classic_group(
    cluster: &mut Cluster,
    group_id: &str,
) -> Result<Result<Option<ClassicGroup>, ServerError>, ClientError> {
    let coordinator = cluster.coordinator(group_id)?;
    let request = DescribeGroupsRequest { groups: vec![group_id.into()], ..DescribeGroupsRequest::default() };
    let answer = cluster.node(coordinator)?.call(&request)?;
    let described = answer.decode()?;
    let Some(group) = described.groups.first() else {
        return Ok(Err(ServerError { code: -1, message: Some("the answer is empty".to_owned()) }));
    };
    // An absent group is an error of its own from version 6 on, and a dead one before.
    if group.group_state == DEAD {
        return Ok(Ok(None));
    }
    Ok(ServerError::check(group.error_code, group.error_message.as_deref()).map(|()| Some(classic_group(group))))
}

fn classic_group(group: &DescribedGroup<'_>) -> ClassicGroup {
    let is_of_consumers = group.protocol_type == CONSUMER;
    ClassicGroup {
        group_id: group.group_id.clone().into_owned(),
        state: group.group_state.clone().into_owned(),
        protocol_type: group.protocol_type.clone().into_owned(),
        protocol: group.protocol_data.clone().into_owned(),
        members: group.members.iter().map(|member| classic_member(member, is_of_consumers)).collect(),
    }
}

fn classic_member(member: &DescribedGroupMember<'_>, is_of_consumers: bool) -> ClassicMember {
    ClassicMember {
        member_id: member.member_id.clone().into_owned(),
        instance_id: member.group_instance_id.clone().map(Into::into),
        client_id: member.client_id.clone().into_owned(),
        client_host: member.client_host.clone().into_owned(),
        partitions: is_of_consumers.then(|| assigned_partitions(&member.member_assignment).ok()).flatten(),
    }
}

/// Reads an assignment of the consumer protocol: int16 version, then topics with their partitions; user data and what
/// later versions append is not looked at. No bytes at all stand for no partitions.
fn assigned_partitions(assignment: &[u8]) -> Result<BTreeMap<String, Vec<i32>>, DecodeError> {
    if assignment.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut reader = Reader::new(assignment);
    let version = reader.int16()?;
    let topics = reader.array(false, version, |reader, version| {
        let topic = reader.string(false)?.into_owned();
        let mut partitions = reader.array(false, version, element::int32)?;
        partitions.sort_unstable();
        Ok((topic, partitions))
    })?;
    Ok(topics.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_of_consumers_are_read() {
        let assignment = b"\0\x03\0\0\0\x01\0\x02in\0\0\0\x02\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff";
        let read = assigned_partitions(assignment).expect("it is an assignment");
        assert_eq!(read, BTreeMap::from([("in".to_owned(), vec![1, 4])]));
        assert_eq!(assigned_partitions(b""), Ok(BTreeMap::new()));
        assert!(assigned_partitions(&assignment[..12]).is_err());
        assert!(assigned_partitions(b"\0\0\x7f\xff\xff\xff").is_err());
    }
}
