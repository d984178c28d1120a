//! The list of rules of groups: every rule has something that shows it, and every script is of use.
//!
//! It knows the shape of `tests/rules.md`, tables of rules and of what shows them, and of scripts: commands begin with
//! `> `, what comes of them with two spaces.
//! It does not know what they show.

use super::{Problem, cases::Named};

pub(super) const LIST: &str = "tests/rules.md";
const SCRIPTS: &str = "tests/scripts/";
/// What a rule may wait for: whole parts that are not there yet.
const WAITS: [&str; 5] = ["authorization", "consumer groups", "several brokers", "transactions", "warm-ups"];
/// How a remark about a step begins that crosses another one.
const RACED: &str = "# Raced: ";

/// `list` is the text of the list, `files` all files of the tree.
pub(super) fn check(list: &str, files: &[(String, String)]) -> Vec<Problem> {
    let named = Named::of(files);
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(list.lines()).filter(|(_, line)| line.starts_with("| ")) {
        let columns: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [rule, shown_by] = columns[..] else {
            problems.push(Problem::at(LIST, number, "a row has two columns: the rule, and what shows it"));
            continue;
        };
        if rule == "rule" || rule.starts_with("---") {
            continue;
        }
        let names: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        let waits = WAITS.iter().any(|what| shown_by.contains(&format!("waits for {what}")));
        if names.is_empty() && !waits {
            let waits = WAITS.join(", ");
            problems.push(Problem::at(
                LIST,
                number,
                format!("nothing shows this rule; name a script or a test, or what it waits for: {waits}"),
            ));
        }
        let missing = names.iter().filter(|name| !named.exists(name));
        problems.extend(
            missing.map(|name| Problem::at(LIST, number, format!("there is no test or script {name}; name one"))),
        );
    }
    for (file, text) in files {
        let Some(name) = file.strip_prefix(SCRIPTS).filter(|name| name.ends_with(".txt")) else { continue };
        if !list.contains(&format!("`{name}`")) {
            problems
                .push(Problem::in_file(file, format!("shows no rule of {LIST}; name it beside the one that it shows")));
        }
        if !text.lines().any(is_refused_or_raced) {
            problems.push(Problem::in_file(
                file,
                format!(
                    "nothing is refused and nothing raced; add such a step, or say `{RACED}..` above the one there is"
                ),
            ));
        }
    }
    problems
}

/// A line with an error in it, of a step whose answer is lost or waited for later, or a remark about a race.
fn is_refused_or_raced(line: &str) -> bool {
    let is_error = |word: &str| {
        let word = word.trim_end_matches([':', ',']);
        word.contains('_')
            && word.split('_').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_uppercase()))
    };
    match (line.strip_prefix("> "), line.strip_prefix("  ")) {
        (Some(command), _) => command.starts_with("lost ") || command.starts_with("parked "),
        (_, Some(answer)) => answer.split(' ').any(is_error),
        _ => line.starts_with(RACED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_shown_and_scripts_are_named_and_refuse_something() {
        let list = "# Rules\n\nOf `nobody`.\n\n| rule | shown by |\n| --- | --- |\n| One. | `there`, `also.txt` |\n\
                    | Two. | `gone.txt` |\n| Three. | waits for rain |\n| Four. | waits for transactions |\n| Five. |\n";
        let files = [
            ("a/b.rs", "fn there() {}"),
            ("tests/scripts/also.txt", "> beat a\n  FENCED_MEMBER_EPOCH: *"),
            (
                "tests/scripts/lone.txt",
                "# Nothing.\n> beat a\n  epoch 2 -\n  22 a epoch 2 before 0 STABLE [0_0@2 |  | ]",
            ),
        ];
        let files = files.map(|(file, text)| (file.to_owned(), text.to_owned()));
        let texts: Vec<String> = check(list, &files).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "tests/rules.md:8: there is no test or script gone.txt; name one",
                "tests/rules.md:9: nothing shows this rule; name a script or a test, or what it waits for: \
                 authorization, consumer groups, several brokers, transactions, warm-ups",
                "tests/rules.md:11: a row has two columns: the rule, and what shows it",
                "tests/scripts/lone.txt: shows no rule of tests/rules.md; name it beside the one that it shows",
                "tests/scripts/lone.txt: nothing is refused and nothing raced; add such a step, or say `# Raced: ..` \
                 above the one there is",
            ]
        );
    }

    #[test]
    fn a_race_is_told_by_its_step_or_by_a_remark() {
        let raced = ["> lost beat a", "> parked cjoin a", "# Raced: both at once.", "  in-0 STALE_MEMBER_EPOCH"];
        assert!(raced.into_iter().all(is_refused_or_raced));
        assert!(!["> beat a", "# Nobody raced.", "  epoch 2 -", "  a_B", "  A_"].into_iter().any(is_refused_or_raced));
    }
}
