//! The live table: who runs which task, by the server's records.

use std::fmt::Write as _;

use serde_json::Value;

use super::process::Process;
use super::screen::Picture;

/// What `riparian groups describe --json` says, as far as the table shows it.
#[derive(Default)]
pub(super) struct Group {
    pub(super) state: String,
    epoch: i64,
    members: Vec<Member>,
}

struct Member {
    client: String,
    epoch: i64,
    active: Vec<String>,
    standby: Vec<String>,
}

impl Group {
    pub(super) fn read(json: &str) -> Option<Self> {
        let answer: Value = serde_json::from_str(json).ok()?;
        let group = answer.as_array().map_or(Some(&answer), |groups| groups.first())?;
        let mut members: Vec<Member> = group["members"].as_array()?.iter().map(Member::read).collect();
        members.sort_by(|left, right| left.client.cmp(&right.client));
        Some(Self { state: text(&group["state"]), epoch: group["group_epoch"].as_i64()?, members })
    }

    /// Stable, with so many members that own so many tasks together.
    pub(super) fn is_settled(&self, members: usize, tasks: usize) -> bool {
        let owned: usize = self.members.iter().map(|member| member.active.len()).sum();
        self.state.eq_ignore_ascii_case("stable") && self.members.len() == members && owned == tasks
    }
}

impl Member {
    fn read(member: &Value) -> Self {
        let tasks = |kind: &str| {
            let tasks = member["assignment"][kind].as_array().map(Vec::as_slice).unwrap_or_default();
            tasks.iter().map(text).collect()
        };
        Self {
            client: text(&member["client_id"]),
            epoch: member["member_epoch"].as_i64().unwrap_or_default(),
            active: tasks("active"),
            standby: tasks("standby"),
        }
    }

    /// `first, thread 2`: the instance whose printed thread names this member's client id goes on from.
    fn name(&self, instances: &[&Process]) -> String {
        let (process, thread) = self.client.split_once("-StreamThread-").unwrap_or((&self.client, "?"));
        let thread = thread.split('-').next().unwrap_or("?");
        let prints = |instance: &&&Process| instance.lines().iter().any(|line| line.contains(process));
        let instance = instances.iter().find(prints).map_or("starting", |instance| instance.name());
        format!("{instance}, thread {thread}")
    }
}

pub(super) fn render(group: &Group, instances: &[&Process], fed: u64, lines: u64, counted: u64) -> Picture {
    let mut rows: Vec<[String; 4]> = group
        .members
        .iter()
        .map(|it| [it.name(instances), it.epoch.to_string(), it.active.join(" "), it.standby.join(" ")])
        .collect();
    rows.sort();
    rows.insert(0, ["member", "epoch", "active tasks", "standby tasks"].map(str::to_owned));
    let widths: Vec<usize> = (0..4).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let state = if group.state.is_empty() { "waiting for members" } else { &group.state };
    let mut table = format!("group    {state}, epoch {}\n", group.epoch);
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(table, "         {}", cells.join("   ").trim_end());
    }
    let progress = format!("lines    {fed} of {lines} fed, {counted} counts written");
    Picture { table: table.trim_end().to_owned(), progress }
}

/// The number after the last line that starts with one of these words.
pub(super) fn last_number(lines: &[String], words: &[&str]) -> u64 {
    let number = |line: &String| {
        let mut parts = line.split(' ');
        let known = parts.next().is_some_and(|word| words.contains(&word));
        if known { parts.next()?.parse().ok() } else { None }
    };
    lines.iter().rev().find_map(number).unwrap_or(0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_settled_when_stable_and_everything_is_owned() {
        let json = r#"[{"state": "Stable", "group_epoch": 3, "members": [
            {"client_id": "b", "member_epoch": 3, "assignment": {"active": ["0_0", "0_1"], "standby": ["1_0"]}},
            {"client_id": "a", "member_epoch": 3, "assignment": {"active": ["1_0"], "standby": []}}]}]"#;
        let group = Group::read(json).expect("it is whole");
        assert!(group.is_settled(2, 3));
        assert!(!group.is_settled(2, 4));
        assert!(!group.is_settled(3, 3));
        let picture = render(&group, &[], 5, 10, 7);
        assert_eq!(
            picture.table,
            "group    Stable, epoch 3\n         member               epoch   active tasks   standby tasks\n         \
             starting, thread ?   3       0_0 0_1        1_0\n         starting, thread ?   3       1_0"
        );
        assert_eq!(picture.progress, "lines    5 of 10 fed, 7 counts written");
    }

    #[test]
    fn last_number_is_the_newest_of_its_kind() {
        let lines = ["fed 50", "other 7", "fed 100", "counted 3"].map(str::to_owned);
        assert_eq!(last_number(&lines, &["fed", "done"]), 100);
        assert_eq!(last_number(&lines, &["done"]), 0);
    }
}
