//! Runs the commands of one script about groups, and writes down what comes of them.

use std::collections::BTreeMap;

use crate::{
    AdminAnswer, AdminCommand, AdminDone, ClassicBody, ClassicMembers, ClassicRequest, ClassicWords, Command,
    DescribeWords, HeartbeatWords, Members, NodesWords, OffsetWords, Topology,
    show::{HeartbeatAnswer, Printer, Record},
    target::{Answered, ClassicAnswer, ClassicName, Happened, OffsetOutcome, Refusal, Target, TopicChange},
};

/// One script against one target.
///
/// On a server that several scripts share, groups and topics of a script carry a prefix, which is taken away again from
/// whatever is shown.
#[derive(Debug)]
pub struct Session<T> {
    target: T,
    prefix: String,
    members: Members,
    printer: Printer,
    topics: BTreeMap<String, i32>,
    /// What classic members have asked and nobody has waited for yet.
    asked: BTreeMap<ClassicName, ClassicRequest>,
}

type Lines = Result<Vec<String>, String>;

impl<T: Target> Session<T> {
    /// A script that has not begun; members have this topology until it says otherwise.
    pub fn new(target: T, prefix: impl Into<String>, printer: Printer, topology: Topology) -> Self {
        let mut members = Members::new();
        members.set_topology(topology);
        Self { target, prefix: prefix.into(), members, printer, topics: BTreeMap::new(), asked: BTreeMap::new() }
    }

    /// Carries out a command; the lines are what was answered and what was written meanwhile.
    pub fn carry_out(&mut self, line: &str) -> Lines {
        let command = Command::parse(line).map_err(|error| error.to_string())?;
        if let Command::Topology(mut topology) = command {
            topology.rename(|topic| self.real(topic));
            self.members.set_topology(topology);
            return Ok(Vec::new());
        }
        let is_a_change = match &command {
            Command::Config { .. } | Command::Topics(_) => true,
            Command::Admin(command) => !matches!(command, AdminCommand::Settings { .. }),
            _ => false,
        };
        if !is_a_change {
            self.target.settle()?;
        }
        let mut lines = self.answer(command)?;
        lines.extend(self.happened()?);
        Ok(lines)
    }

    fn answer(&mut self, command: Command) -> Lines {
        match command {
            Command::Topology(_) => return Ok(Vec::new()),
            Command::Topics(topics) => return self.change_topics(&topics),
            Command::Config { group, entries } => {
                let answered = self.target.configure(&self.real(&group), &entries)?;
                return Ok(self.shown(answered, |_, ()| Vec::new()));
            }
            Command::Heartbeat(words) => return self.heartbeat(&words),
            Command::Classic(words) => return self.classic(words),
            Command::Answer { group, member } => return self.classic_answer(&ClassicName { group, member }),
            Command::CloseMember { group, member } => {
                let name = ClassicName { group, member };
                self.asked.remove(&name);
                self.target.close_classic(&name)?;
            }
            Command::ClassicDescribe { group, version } => return self.describe_classic(&group, version),
            Command::Describe { group, words } => return self.describe(&group, words),
            Command::Nodes(words) => {
                let words = NodesWords { group: self.real(&words.group), ..words };
                let answered = self.target.describe_nodes(&words)?;
                return Ok(self.shown(answered, |_, ()| vec!["kept".to_owned()]));
            }
            Command::List { states, types, version } => return self.list(&states, &types, version),
            Command::Delete { group, version } => {
                let answered = self.target.delete(&self.real(&group), version)?;
                return Ok(self.shown(answered, |_, ()| vec!["deleted".to_owned()]));
            }
            Command::Commit(words) => {
                let answered = self.target.commit(&self.renamed(words));
                return self.outcomes(answered);
            }
            Command::Forget(words) => {
                let answered = self.target.forget(&self.renamed(words));
                return self.outcomes(answered);
            }
            Command::Fetch(words) => return self.fetch(words),
            Command::Unheard(topics) => self.target.change_topics_unheard(&self.all_real(&topics))?,
            Command::Await(topics) => {
                self.target.await_topics(&self.all_real(&topics))?;
                self.topics.extend(topics);
            }
            Command::CreationEnded(topics) => {
                let topics: Vec<_> = topics.into_iter().map(|(topic, text)| (self.real(&topic), text)).collect();
                self.target.creation_ended(&topics)?;
            }
            Command::Server(entries) => self.target.set_up(&entries)?,
            Command::Admin(command) => return self.admin(command),
            Command::Wait { ms } => self.target.wait(ms)?,
            Command::Close { connection } => self.target.close(connection)?,
            Command::Restart => {
                self.asked.clear();
                self.target.restart()?;
            }
            Command::Disk(state) => self.target.set_disk(state)?,
            Command::PowerCut => {
                self.asked.clear();
                self.target.cut_power()?;
            }
        }
        Ok(Vec::new())
    }

    /// What a group or topic is called where the script runs.
    fn real(&self, name: &str) -> String {
        if name.is_empty() || name.starts_with("__") { name.to_owned() } else { format!("{}{name}", self.prefix) }
    }

    fn all_real(&self, topics: &[(String, i32)]) -> Vec<(String, i32)> {
        topics.iter().map(|(topic, partitions)| (self.real(topic), *partitions)).collect()
    }

    /// As the server is told: names, and the ids of classic members.
    fn renamed(&self, mut words: OffsetWords) -> OffsetWords {
        words.member = words.member.map(|member| self.printer.classic.id(&words.group, &member));
        words.group = self.real(&words.group);
        for (topic, ..) in &mut words.partitions {
            *topic = self.real(topic);
        }
        words
    }

    /// What the script calls it.
    fn short(&self, name: &str) -> String {
        name.strip_prefix(&self.prefix).unwrap_or(name).to_owned()
    }

    fn shown<A>(
        &mut self,
        answered: Result<A, Refusal>,
        show: impl FnOnce(&mut Self, A) -> Vec<String>,
    ) -> Vec<String> {
        match answered {
            Ok(answer) => show(self, answer),
            Err(refusal) => {
                let mut lines = vec![self.refused(&refusal)];
                lines.extend(refusal.besides.map(|besides| format!("with {besides}")));
                lines
            }
        }
    }

    fn refused(&self, refusal: &Refusal) -> String {
        self.printer.error(&refusal.name, refusal.text.as_deref())
    }

    fn change_topics(&mut self, changes: &[(String, i32)]) -> Lines {
        let mut lines = Vec::new();
        let mut changed = Vec::new();
        for (topic, partitions) in changes {
            let change = match (self.topics.contains_key(topic), *partitions) {
                (true, 0) => TopicChange::Delete,
                (true, partitions) => TopicChange::Grow(partitions),
                (false, partitions) => TopicChange::Create(partitions),
            };
            let real = self.real(topic);
            if let Err(refusal) = self.target.change_topic(&real, change)? {
                lines.push(format!("{topic} {}", self.refused(&refusal)));
                continue;
            }
            if change == TopicChange::Delete {
                self.topics.remove(topic);
            } else {
                self.topics.insert(topic.clone(), *partitions);
            }
            changed.push((real, *partitions));
        }
        self.target.topics_changed(&changed)?;
        Ok(lines)
    }

    fn admin(&mut self, mut command: AdminCommand) -> Lines {
        command.rename(|name| self.real(name));
        let outcomes = match self.target.admin(&command)? {
            AdminAnswer::Outcomes(outcomes) => outcomes,
            AdminAnswer::State(lines) => return Ok(lines),
        };
        let outcomes = outcomes.into_iter().map(|(mut subject, outcome)| {
            subject.rename(|name| self.short(name));
            let outcome = match outcome {
                Ok(AdminDone::Deleted { name, id }) => AdminDone::Deleted { name: self.short(&name), id }.to_string(),
                Ok(done) => done.to_string(),
                Err(refusal) => self.refused(&refusal),
            };
            format!("{subject}: {outcome}")
        });
        // Kafka gives them in the order of a hash map.
        Ok(sorted(outcomes.collect()))
    }

    fn heartbeat(&mut self, words: &HeartbeatWords) -> Lines {
        let mut heartbeat = self.members.heartbeat(words).map_err(|error| error.to_string())?;
        heartbeat.group_id = self.real(&heartbeat.group_id);
        if words.is_lost {
            self.target.lose_heartbeat(&heartbeat)?;
            return Ok(Vec::new());
        }
        let answered = self.target.heartbeat(&heartbeat)?;
        Ok(self.shown(answered, |session, mut answer: HeartbeatAnswer| {
            for endpoint in answer.endpoints.iter_mut().flatten() {
                for (topic, _) in endpoint.active.iter_mut().chain(&mut endpoint.standby) {
                    *topic = session.short(topic);
                }
            }
            session.members.learn(words, &answer);
            session.printer.heartbeat(&heartbeat.member_id, &answer)
        }))
    }

    fn classic(&mut self, words: ClassicWords) -> Lines {
        let mut request = self.printer.classic.request(&words).map_err(|error| error.to_string())?;
        request.group_id = self.real(&request.group_id);
        if let ClassicBody::Join { protocols, .. } = &mut request.body {
            protocols.iter_mut().for_each(|(_, metadata)| metadata.rename(|topic| self.real(topic)));
        }
        let name = ClassicName { group: words.group, member: words.member };
        if self.asked.contains_key(&name) {
            return Err(format!("{} is still waiting for an answer", name.member));
        }
        self.target.send_classic(&name, &request)?;
        let group = request.group_id.clone();
        self.asked.insert(name.clone(), request);
        let lines = if words.is_parked { Vec::new() } else { self.classic_answer(&name)? };
        self.target.let_it_arrive(&name, &group, !words.is_parked)?;
        Ok(lines)
    }

    fn classic_answer(&mut self, name: &ClassicName) -> Lines {
        let request = self.asked.remove(name).ok_or_else(|| format!("nothing was asked by `{}`", name.member))?;
        Ok(match self.target.answer_classic(name, &request)? {
            ClassicAnswer::Join(mut answer) => {
                for (_, _, metadata) in &mut answer.members {
                    metadata.rename(|topic| self.short(topic));
                }
                self.printer.classic.learn(&name.group, &name.member, &answer);
                self.printer.classic.join_lines(&answer)
            }
            ClassicAnswer::Sync(answer) => self.printer.classic.sync_lines(&answer),
            ClassicAnswer::Beat(error) => ClassicMembers::beat_lines(&error),
            ClassicAnswer::Leave(answer) => self.printer.classic.leave_lines(&answer),
        })
    }

    fn describe_classic(&mut self, group: &str, version: Option<i16>) -> Lines {
        let answered = self.target.describe_classic(&self.real(group), version)?;
        Ok(self.shown(answered, |session, mut description| {
            description.members.iter_mut().for_each(|it| it.metadata.rename(|topic| session.short(topic)));
            session.printer.classic.description_lines(&description)
        }))
    }

    fn describe(&mut self, group: &str, words: DescribeWords) -> Lines {
        let answered = self.target.describe(&self.real(group), words)?;
        Ok(self.shown(answered, |session, mut description| {
            if let Some(topology) = &mut description.topology {
                topology.rename(|topic| session.short(topic));
            }
            session.printer.description(&description)
        }))
    }

    fn list(&mut self, states: &[String], types: &[String], version: Option<i16>) -> Lines {
        let answered = self.target.list(states, types, version)?;
        Ok(self.shown(answered, |session, listings| {
            let own = listings.iter().filter_map(|it| {
                let id = it.group_id.strip_prefix(&session.prefix)?;
                let protocol = if it.protocol_type.is_empty() { "''" } else { &it.protocol_type };
                // Old versions do not tell state and type.
                Some(format!("{id} {protocol} {} {}", it.group_state, it.group_type).trim_end().to_owned())
            });
            sorted(own.collect())
        }))
    }

    fn outcomes(&mut self, answered: Answered<Vec<OffsetOutcome>>) -> Lines {
        Ok(self.shown(answered?, |session, outcomes| {
            let outcomes = outcomes.iter().map(|it| {
                let outcome = it.refusal.as_ref().map_or_else(|| "ok".to_owned(), |refusal| session.refused(refusal));
                format!("{}-{} {outcome}", session.short(&it.topic), it.partition)
            });
            sorted(outcomes.collect())
        }))
    }

    fn fetch(&mut self, words: OffsetWords) -> Lines {
        let answered = self.target.fetch(&self.renamed(words))?;
        Ok(self.shown(answered, |session, offsets| {
            let offsets = offsets.iter().map(|it| {
                let leader = if it.leader_epoch == -1 { String::new() } else { format!(" leader {}", it.leader_epoch) };
                let refusal = it.refusal.as_ref().map(|refusal| format!(" {}", session.refused(refusal)));
                let topic = session.short(&it.topic);
                format!("{topic}-{} {}{leader}{}", it.partition, it.offset, refusal.unwrap_or_default())
            });
            sorted(offsets.collect())
        }))
    }

    /// Records of other groups than `g` carry the group's name.
    fn happened(&mut self) -> Lines {
        let happened = self.target.happened()?;
        let mut lines = Vec::new();
        let mut records: Vec<(String, Record)> = Vec::new();
        for one in happened {
            match one {
                Happened::Record(group, record) => {
                    let record = self.with_short_names(*record);
                    records.push((self.short(&group), record));
                    continue;
                }
                Happened::Timer(ms) => {
                    self.show_records(&mut records, &mut lines);
                    lines.push(format!("at +{ms}"));
                }
                Happened::Noted(line) => {
                    self.show_records(&mut records, &mut lines);
                    lines.push(line);
                }
                Happened::Creation(topics) => {
                    self.show_records(&mut records, &mut lines);
                    let topics = topics.iter().map(|(topic, count)| format!("{}={count}", self.short(topic)));
                    lines.push(format!("create {}", topics.collect::<Vec<_>>().join(" ")));
                }
            }
        }
        self.show_records(&mut records, &mut lines);
        Ok(lines)
    }

    /// Groups do not wait for each other, so their records are shown group by group.
    fn show_records(&mut self, records: &mut Vec<(String, Record)>, lines: &mut Vec<String>) {
        records.sort_by(|(a, _), (b, _)| a.cmp(b));
        for records in records.chunk_by(|(a, _), (b, _)| a == b) {
            let group = &records[0].0;
            let mark = if group == "g" { String::new() } else { format!("{group} ") };
            let records: Vec<Record> = records.iter().map(|(_, record)| record.clone()).collect();
            lines.extend(self.printer.records(&records).into_iter().map(|line| format!("{mark}{line}")));
        }
        records.clear();
    }

    fn with_short_names(&self, record: Record) -> Record {
        match record {
            Record::Offset { topic, partition, value } => {
                Record::Offset { topic: self.short(&topic), partition, value }
            }
            Record::ClassicGroup(Some(mut group)) => {
                group.members.iter_mut().for_each(|member| member.metadata.rename(|topic| self.short(topic)));
                Record::ClassicGroup(Some(group))
            }
            Record::Topology(Some(mut topology)) => {
                topology.rename(|topic| self.short(topic));
                Record::Topology(Some(topology))
            }
            other => other,
        }
    }
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}
