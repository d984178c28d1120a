//! What members remember between heartbeats, as clients do, and the requests that follow from it.

use std::collections::BTreeMap;

use crate::{
    CommandError, HeartbeatWords, Task, TaskLists, TaskOffset, Topology,
    command::{owned, text},
    show::HeartbeatAnswer,
};

/// A heartbeat request, field by field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of StreamsGroupHeartbeat, by their names")]
pub struct Heartbeat {
    /// `None`: the highest.
    pub version: Option<i16>,
    /// Where the machine is to believe it comes from; `None`: this machine.
    pub client_host: Option<String>,
    /// Through which connection the machine is to believe it comes; 0 unless said.
    pub connection: u64,
    pub group_id: String,
    pub member_id: String,
    pub member_epoch: i32,
    pub endpoint_information_epoch: i32,
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub rebalance_timeout_ms: i32,
    pub topology: Option<Topology>,
    pub active_tasks: Option<Vec<Task>>,
    pub standby_tasks: Option<Vec<Task>>,
    pub warmup_tasks: Option<Vec<Task>>,
    pub process_id: Option<String>,
    pub user_endpoint: Option<(String, u16)>,
    pub client_tags: Option<Vec<(String, String)>>,
    pub task_offsets: Option<Vec<TaskOffset>>,
    pub task_end_offsets: Option<Vec<TaskOffset>>,
    pub shutdown_application: bool,
}

/// The members of a script's groups.
#[derive(Clone, Debug, Default)]
pub struct Members {
    topology: Topology,
    known: BTreeMap<(String, String), Member>,
}

#[derive(Clone, Debug, Default)]
struct Member {
    epoch: i32,
    endpoint_epoch: i32,
    instance: Option<String>,
    client_host: Option<String>,
    connection: u64,
    tasks: TaskLists,
}

impl Members {
    /// Nobody has joined yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What members have that join from now on.
    pub fn set_topology(&mut self, topology: Topology) {
        self.topology = topology;
    }

    /// The request that the words stand for.
    pub fn heartbeat(&self, words: &HeartbeatWords) -> Result<Heartbeat, CommandError> {
        let known = self.known.get(&(words.group.clone(), words.member.clone())).cloned().unwrap_or_default();
        let is_join = words.kind == "join";
        let member = if is_join { known.joining(words) } else { known };
        let mut heartbeat = Heartbeat {
            version: None,
            client_host: member.client_host.clone(),
            connection: member.connection,
            group_id: words.group.clone(),
            member_id: words.member.clone(),
            member_epoch: member.epoch,
            endpoint_information_epoch: member.endpoint_epoch,
            instance_id: member.instance.clone(),
            rack_id: None,
            rebalance_timeout_ms: if is_join { 300_000 } else { -1 },
            topology: is_join.then(|| self.topology.clone()),
            active_tasks: None,
            standby_tasks: None,
            warmup_tasks: None,
            process_id: is_join.then(|| words.member.clone()),
            user_endpoint: None,
            client_tags: None,
            task_offsets: None,
            task_end_offsets: None,
            shutdown_application: false,
        };
        if is_join || words.kind == "ack" {
            let tasks = member.tasks.clone();
            heartbeat.active_tasks = Some(tasks.active);
            heartbeat.standby_tasks = Some(tasks.standby);
            heartbeat.warmup_tasks = Some(tasks.warmup);
        }
        match words.kind.as_str() {
            "leave" => heartbeat.member_epoch = -1,
            "rest" => heartbeat.member_epoch = -2,
            _ => {}
        }
        for (key, value) in &words.words {
            heartbeat.set(key, value.as_deref(), &self.topology)?;
        }
        Ok(heartbeat)
    }

    /// The member learns from an answer that was no error; a join that was refused changes nothing.
    pub fn learn(&mut self, words: &HeartbeatWords, answer: &HeartbeatAnswer) {
        if words.is_lost || answer.member_epoch < 0 {
            return;
        }
        let member = self.known.entry((words.group.clone(), words.member.clone())).or_default();
        if words.kind == "join" {
            *member = std::mem::take(member).joining(words);
        }
        if let Some(connection) = words.value("via").and_then(|value| value.parse().ok()) {
            member.connection = connection;
        }
        member.epoch = answer.member_epoch;
        member.endpoint_epoch = answer.endpoint_information_epoch;
        if let Some(tasks) = &answer.tasks {
            member.tasks = tasks.clone();
        }
    }
}

impl Member {
    /// What it is when it joins, again or for the first time.
    fn joining(self, words: &HeartbeatWords) -> Self {
        let value = |key| words.value(key);
        let instance = value("instance").map(text).or(self.instance);
        Self { endpoint_epoch: -1, instance, client_host: value("host").map(text), ..Self::default() }
    }
}

impl Heartbeat {
    /// Sets what one word says; `-` is null.
    fn set(&mut self, key: &str, value: Option<&str>, topology: &Topology) -> Result<(), CommandError> {
        let Some(value) = value else {
            match key {
                "v0" => self.version = Some(0),
                "v1" => self.version = Some(1),
                "shutdown" => self.shutdown_application = true,
                "dynamic" => self.instance_id = None,
                "topology" => self.topology = Some(topology.clone()),
                other => return Err(CommandError::new(other, "a word of a heartbeat")),
            }
            return Ok(());
        };
        let nullable = || (value != "-").then(|| text(value));
        let number = || value.parse().map_err(|_| CommandError::new(value, "a number"));
        match key {
            "id" => self.member_id = text(value),
            "epoch" => self.member_epoch = number()?,
            "endpoints" => self.endpoint_information_epoch = number()?,
            "instance" => self.instance_id = nullable(),
            "rack" => self.rack_id = nullable(),
            "timeout" => self.rebalance_timeout_ms = number()?,
            "via" => self.connection = number()?.unsigned_abs().into(),
            "topology" if value == "-" => self.topology = None,
            "topology" => return Err(CommandError::new(value, "-, as in topology=-")),
            "owned" => [self.active_tasks, self.standby_tasks, self.warmup_tasks] = owned(value)?,
            "process" => self.process_id = nullable(),
            "host" => {}
            "endpoint" => {
                let parse = |value: &str| {
                    value.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)))
                };
                self.user_endpoint = nullable()
                    .map(|value| parse(&value).ok_or_else(|| CommandError::new(&value, "an endpoint, such as h:1")))
                    .transpose()?;
            }
            "tags" => {
                let tag = |tag: &str| {
                    let parts = tag.split_once(':').ok_or_else(|| CommandError::new(tag, "a tag, such as zone:a"))?;
                    Ok((parts.0.to_owned(), parts.1.to_owned()))
                };
                let tags = |value: String| value.split(',').filter(|it| !it.is_empty()).map(tag).collect();
                self.client_tags = nullable().map(tags).transpose()?;
            }
            "at" => self.task_offsets = nullable().map(|value| TaskOffset::parse_list(&value)).transpose()?,
            "ends" => self.task_end_offsets = nullable().map(|value| TaskOffset::parse_list(&value)).transpose()?,
            other => return Err(CommandError::new(other, "a word of a heartbeat")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;

    fn words(line: &str) -> HeartbeatWords {
        match Command::parse(line) {
            Ok(Command::Heartbeat(words)) => words,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn members_remember_what_they_were_told() {
        let mut members = Members::new();
        let join = words("join a instance=i process=p endpoint=h:1");
        let request = members.heartbeat(&join).expect("it is complete");
        assert_eq!(
            (request.member_epoch, request.instance_id.as_deref(), request.process_id.as_deref()),
            (0, Some("i"), Some("p"))
        );
        assert!(request.topology.is_some() && request.active_tasks == Some(Vec::new()));
        let tasks = TaskLists { active: vec![Task::new("0", 1)], ..TaskLists::default() };
        let answer = HeartbeatAnswer { member_epoch: 3, tasks: Some(tasks.clone()), ..HeartbeatAnswer::default() };
        members.learn(&join, &answer);
        let request = members.heartbeat(&words("ack a")).expect("it is complete");
        assert_eq!((request.member_epoch, request.active_tasks), (3, Some(tasks.active)));
        assert_eq!((request.instance_id.as_deref(), request.topology, request.process_id), (Some("i"), None, None));
        members.learn(&words("lost beat a"), &HeartbeatAnswer { member_epoch: 9, ..answer });
        for wrong in ["beat a owned=0_1|||", "join a tags=zone", "join a topology=1"] {
            assert!(members.heartbeat(&words(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(members.heartbeat(&words("beat a owned=0_1||")).map(|request| request.member_epoch), Ok(3));
    }
}
