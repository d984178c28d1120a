//! A script as a file: steps, what is expected of each, comments; checking and rewriting.
//!
//! ```text
//! # a comment
//! > a command
//!   a line that it leads to
//!   kafka D-01: a line that only Kafka shows, because of difference D-01 of docs/differences.md
//!   riparian D-01: a line that only Riparian shows
//!   at +300           only where time is virtual
//! ```

use std::{collections::BTreeSet, fmt, fs, path::Path};

use crate::{
    Command,
    matching::{Bindings, fill_in, line_matches},
};

/// With this variable set, checks rewrite what is expected instead of failing.
const BLESS_VARIABLE: &str = "RIPARIAN_BLESS";
/// Lines that only a runner in virtual time can know.
const VIRTUAL_TIME_ONLY: [&str; 5] = ["at +", "create ", "record ", "effect ", "warning: "];

/// Whether expectations are to be rewritten.
pub fn is_blessing() -> bool {
    std::env::var_os(BLESS_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Who carries out the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// A broker of Apache Kafka.
    Kafka,
    /// Our server.
    Riparian,
    /// A part of ours in virtual time.
    VirtualTime,
}

impl Runner {
    fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Riparian | Self::VirtualTime => "riparian",
        }
    }

    /// The line as this runner should show it; `None` if it should not.
    fn sees(self, line: &str) -> Option<&str> {
        if self != Self::VirtualTime && is_virtual(line) {
            return None;
        }
        match marked(line) {
            Some((who, _, line)) => (who == self.name()).then_some(line),
            None => Some(line),
        }
    }
}

fn is_virtual(line: &str) -> bool {
    VIRTUAL_TIME_ONLY.iter().any(|prefix| line.starts_with(prefix))
}

/// A line that belongs to one side: who, the id of the difference, the line.
fn marked(line: &str) -> Option<(&str, &str, &str)> {
    let (mark, line) = line.split_once(": ")?;
    let (who, id) = mark.split_once(' ')?;
    (["kafka", "riparian"].contains(&who) && id.starts_with("D-")).then_some((who, id, line))
}

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    path: String,
    steps: Vec<Step>,
    /// Comments and empty lines after the last step.
    tail: Vec<String>,
}

#[derive(Clone, Debug)]
struct Step {
    /// Comments and empty lines before it.
    lead: Vec<String>,
    /// The number of the command's line, from 1.
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// A file that cannot be read or is no script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// File and line.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl std::error::Error for ScriptError {}

/// A step that led to something else than expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// File and line of the command.
    pub place: String,
    /// The command.
    pub command: String,
    /// What should have come.
    pub expected: Vec<String>,
    /// What came; an error when the command could not be carried out.
    pub actual: Result<Vec<String>, String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: > {}", self.place, self.command)?;
        let actual = match &self.actual {
            Ok(actual) => actual,
            Err(error) => return write!(f, "    cannot be carried out: {error}"),
        };
        let mut ignored = Bindings::new();
        let is_same = |index: usize| match (self.expected.get(index), actual.get(index)) {
            (Some(expected), Some(actual)) => line_matches(expected, actual, &mut ignored),
            _ => false,
        };
        let same: Vec<bool> = (0..self.expected.len().max(actual.len())).map(is_same).collect();
        for (name, lines) in [("expected", &self.expected), ("came", actual)] {
            writeln!(f, "    {name}:{}", if lines.is_empty() { " nothing" } else { "" })?;
            for (line, is_same) in lines.iter().zip(&same) {
                writeln!(f, "    {} {line}", if *is_same { ' ' } else { '!' })?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Mismatch {}

impl Script {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let place = path.display().to_string();
        let text =
            fs::read_to_string(path).map_err(|error| ScriptError { place: place.clone(), what: error.to_string() })?;
        Self::parse(&place, &text)
    }

    /// Reads a text.
    pub fn parse(path: &str, text: &str) -> Result<Self, ScriptError> {
        let mut script = Self { path: path.to_owned(), steps: Vec::new(), tail: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let trimmed = line.trim_end();
            if let Some(command) = trimmed.strip_prefix("> ") {
                let lead = std::mem::take(&mut script.tail);
                let command = command.trim().to_owned();
                script.steps.push(Step { lead, line: index + 1, command, expected: Vec::new() });
            } else if trimmed.is_empty() || trimmed.starts_with('#') {
                script.tail.push(trimmed.to_owned());
            } else {
                let step = script.steps.last_mut().filter(|_| script.tail.is_empty() && line.starts_with("  "));
                let Some(step) = step else {
                    let what =
                        "neither a command (`> `), nor what follows one (two spaces), nor a comment (`#`)".to_owned();
                    return Err(ScriptError { place: format!("{path}:{}", index + 1), what });
                };
                step.expected.push(line[2..].to_owned());
            }
        }
        if script.steps.is_empty() {
            let what = "there is no command (`> `) in it, so there is nothing that it could show".to_owned();
            return Err(ScriptError { place: path.to_owned(), what });
        }
        Ok(script)
    }

    /// The commands, as written.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| step.command.as_str())
    }

    /// The settings of the server that it wants for itself: what its first command says, if that is `server`.
    pub fn settings(&self) -> Vec<(String, String)> {
        match self.commands().next().map(Command::parse) {
            Some(Ok(Command::Server(settings))) => settings,
            _ => Vec::new(),
        }
    }

    /// The ids of the differences it names.
    pub fn differences(&self) -> BTreeSet<&str> {
        let lines = self.steps.iter().flat_map(|step| &step.expected);
        lines.filter_map(|line| marked(line).map(|(_, id, _)| id)).collect()
    }

    /// Carries out all commands and stops at the first that leads to something else than expected.
    pub fn check(
        &self,
        runner: Runner,
        mut carry_out: impl FnMut(&str) -> Result<Vec<String>, String>,
    ) -> Result<(), Mismatch> {
        let mut bindings = Bindings::new();
        self.steps.iter().try_for_each(|step| self.check_step(step, runner, &mut bindings, &mut carry_out))
    }

    /// Carries out all commands and gives the text of the script as it should be: a step that led to what is expected
    /// stays as it is written, and so does everything from a command on that cannot be carried out.
    pub fn bless(
        &self,
        runner: Runner,
        mut carry_out: impl FnMut(&str) -> Result<Vec<String>, String>,
    ) -> (String, Option<Mismatch>) {
        let mut bindings = Bindings::new();
        let mut blessed = self.clone();
        for step in &mut blessed.steps {
            match self.check_step(step, runner, &mut bindings, &mut carry_out) {
                Ok(()) => {}
                Err(Mismatch { actual: Ok(actual), .. }) => {
                    step.expected = rewritten(runner, &step.expected, &actual, &mut bindings);
                }
                Err(mismatch) => return (blessed.to_string(), Some(mismatch)),
            }
        }
        (blessed.to_string(), None)
    }

    /// Carries out all commands of a script that holds what Kafka does, and gives its text with every line in which we
    /// differ marked with the id of the reason.
    pub fn mark(
        &self,
        id: &str,
        mut carry_out: impl FnMut(&str) -> Result<Vec<String>, String>,
    ) -> Result<String, Mismatch> {
        let mut bindings = Bindings::new();
        let mut marked = self.clone();
        for step in &mut marked.steps {
            match self.check_step(step, Runner::Riparian, &mut bindings, &mut carry_out) {
                Ok(()) => {}
                Err(Mismatch { actual: Ok(actual), .. }) => step.expected = with_marks(id, &step.expected, &actual),
                Err(mismatch) => return Err(mismatch),
            }
        }
        Ok(marked.to_string())
    }

    /// Checks a file, or rewrites it when [`is_blessing`].
    pub fn check_file(
        path: &Path,
        runner: Runner,
        carry_out: impl FnMut(&str) -> Result<Vec<String>, String>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let script = Self::load(path)?;
        if !is_blessing() {
            return Ok(script.check(runner, carry_out)?);
        }
        let (text, stopped) = script.bless(runner, carry_out);
        fs::write(path, text)?;
        stopped.map_or(Ok(()), |mismatch| Err(mismatch.into()))
    }

    fn check_step(
        &self,
        step: &Step,
        runner: Runner,
        bindings: &mut Bindings,
        carry_out: &mut impl FnMut(&str) -> Result<Vec<String>, String>,
    ) -> Result<(), Mismatch> {
        let filled = fill_in(&step.command, bindings).map_err(|name| format!("${name} stands for nothing yet"));
        // Whoever starts a server asks the first command for its settings, and nobody the others.
        let is_first = self.steps.first().is_some_and(|first| first.line == step.line);
        let is_late = !is_first && runner != Runner::VirtualTime && step.command.split(' ').next() == Some("server");
        let filled = if is_late { Err("`server` must be the first command".to_owned()) } else { filled };
        let actual = filled.and_then(|command| carry_out(&command));
        let expected: Vec<String> =
            step.expected.iter().filter_map(|line| runner.sees(line).map(str::to_owned)).collect();
        // A script that says nothing of what only virtual time can know, does not ask for it.
        let knows = expected.iter().any(|line| is_virtual(line));
        let actual = actual.map(|mut lines| {
            lines.retain(|line| knows || step.expected.is_empty() || !is_virtual(line));
            lines
        });
        if let Ok(actual) = &actual {
            let mut tried = bindings.clone();
            let pairs = expected.iter().zip(actual);
            let is_match = expected.len() == actual.len()
                && pairs.into_iter().all(|(expected, actual)| line_matches(expected, actual, &mut tried));
            if is_match {
                *bindings = tried;
                return Ok(());
            }
        }
        // As in the file, and with what is known by now.
        let expected = expected.iter().map(|line| fill_in(line, bindings).unwrap_or_else(|_| line.clone())).collect();
        Err(Mismatch { place: format!("{}:{}", self.path, step.line), command: step.command.clone(), expected, actual })
    }
}

/// What is expected as it should be: what came, but in the words of the script where they say the same, and with the
/// lines that are not this runner's to see where they stood.
fn rewritten(runner: Runner, expected: &[String], actual: &[String], bindings: &mut Bindings) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = actual;
    for (index, line) in expected.iter().enumerate() {
        let Some(seen) = runner.sees(line) else {
            lines.push(line.clone());
            continue;
        };
        if let Some(place) = left.iter().position(|came| line_matches(seen, came, bindings)) {
            lines.extend_from_slice(&left[..place]);
            lines.push(line.clone());
            left = &left[place + 1..];
        } else if let Some((came, others)) = left.split_first() {
            // In its place, unless it has one of its own further down.
            let is_same =
                |line: &String| runner.sees(line).is_some_and(|seen| line_matches(seen, came, &mut bindings.clone()));
            if !expected[index + 1..].iter().any(is_same) {
                lines.push(came.clone());
                left = others;
            }
        }
    }
    lines.extend_from_slice(left);
    lines
}

/// Both sides of a step: lines that both show, in this order, are common.
fn with_marks(id: &str, kafka: &[String], riparian: &[String]) -> Vec<String> {
    let is_same = |a: &str, b: &str| line_matches(a, b, &mut Bindings::new());
    let mut lines = Vec::new();
    let (mut left, mut right) = (kafka, riparian);
    loop {
        // The pair of lines that are the same with the fewest others before them.
        let pairs = (0..left.len()).flat_map(|a| (0..right.len()).map(move |b| (a, b)));
        let next = pairs.filter(|&(a, b)| is_same(&left[a], &right[b])).min_by_key(|(a, b)| a + b);
        let (a, b) = next.unwrap_or((left.len(), right.len()));
        lines.extend(left[..a].iter().map(|line| format!("kafka {id}: {line}")));
        lines.extend(right[..b].iter().map(|line| format!("riparian {id}: {line}")));
        if next.is_none() {
            return lines;
        }
        lines.push(left[a].clone());
        (left, right) = (&left[a + 1..], &right[b + 1..]);
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            step.lead.iter().try_for_each(|line| writeln!(f, "{line}"))?;
            writeln!(f, "> {}", step.command)?;
            step.expected.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        self.tail.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# first\n> join a\n  epoch 1 [$x | ]\n  status 3: *\n  at +300\n\n# second\n> beat a owned=$x\n  kafka D-01: epoch 1 -\n  riparian D-01: epoch 1 [$x | ]\n# end\n";

    fn answers(command: &str) -> Result<Vec<String>, String> {
        Ok(match command {
            "join a" => vec!["epoch 1 [0_0 | ]".to_owned(), "status 3: Missing".to_owned()],
            "beat a owned=0_0" => vec!["epoch 1 -".to_owned()],
            other => return Err(other.to_owned()),
        })
    }

    #[test]
    fn scripts_are_printed_as_they_are_read() {
        assert_eq!(Script::parse("t", TEXT).map(|script| script.to_string()), Ok(TEXT.to_owned()));
        let error = Script::parse("t", "> a\nb\n").expect_err("b is nothing");
        assert!(error.to_string().starts_with("t:2: neither"), "{error}");
        for text in ["", "# nothing\n\n"] {
            let error = Script::parse("t", text).expect_err("there is no command");
            assert!(error.to_string().starts_with("t: there is no command"), "{error}");
        }
    }

    #[test]
    fn settings_of_a_server_that_runs_are_refused() {
        let text = "> server a.b=1\n> server a.b=2\n";
        let script = Script::parse("t", text).expect("it is a script");
        let nothing = |_: &str| Ok(Vec::new());
        assert_eq!(script.check(Runner::VirtualTime, nothing), Ok(()));
        let mismatch = script.check(Runner::Kafka, nothing).expect_err("it is not the first");
        assert_eq!((mismatch.place.as_str(), mismatch.actual.is_err()), ("t:2", true));
    }

    #[test]
    fn each_side_has_its_own_lines() {
        let script = Script::parse("t", TEXT).expect("it is a script");
        assert_eq!(script.differences(), BTreeSet::from(["D-01"]));
        assert_eq!(script.check(Runner::Kafka, answers), Ok(()));
        let mismatch = script.check(Runner::Riparian, answers).expect_err("it answers as Kafka does");
        let shown = mismatch.to_string();
        assert!(shown.starts_with("t:8: > beat a owned=$x\n"), "{shown}");
        assert!(shown.contains("! epoch 1 [0_0 | ]") && shown.contains("! epoch 1 -"), "{shown}");
    }

    #[test]
    fn differences_are_marked() {
        let script = Script::parse("t", "> join a\n  epoch 1 [0_1 | ]\n  status 3: *\n").expect("it is a script");
        let marked = "> join a\n  kafka D-07: epoch 1 [0_1 | ]\n  riparian D-07: epoch 1 [0_0 | ]\n  status 3: *\n";
        assert_eq!(script.mark("D-07", answers), Ok(marked.to_owned()));
    }

    #[test]
    fn blessing_keeps_what_is_right() {
        let script = Script::parse("t", TEXT).expect("it is a script");
        assert_eq!(script.bless(Runner::Kafka, answers), (TEXT.to_owned(), None));
        let wrong = Script::parse("t", &TEXT.replace("epoch 1 -", "epoch 2 -")).expect("it is a script");
        let (blessed, stopped) = wrong.bless(Runner::Kafka, answers);
        assert_eq!(stopped, None);
        let end = "> beat a owned=$x\n  epoch 1 -\n  riparian D-01: epoch 1 [$x | ]\n# end\n";
        assert!(blessed.contains("$x") && blessed.ends_with(end), "{blessed}");
    }

    #[test]
    fn blessing_keeps_what_others_see_beside_what_is_wrong() {
        let text = "> join a\n  epoch 9 [0_0 | ]\n  status 3: *\n  riparian D-01: 20 epoch 1\n  at +300\n";
        let script = Script::parse("t", text).expect("it is a script");
        let blessed = text.replace("epoch 9", "epoch 1");
        // What came stands at its place among the lines that stay.
        assert_eq!(script.bless(Runner::Kafka, answers), (blessed, None));
    }
}
