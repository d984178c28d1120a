//! Compares a line that is expected with one that came.
//!
//! `$name` stands for one word that is not known beforehand, the same one wherever the name comes up in a script.
//! `: *` at the end of a line stands for a text that must be there, whatever it says.

use std::collections::BTreeMap;

/// What the placeholders of a script stand for so far.
pub(crate) type Bindings = BTreeMap<String, String>;

enum Part<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// Whether the line is as expected; new placeholders are bound if it is.
pub(crate) fn line_matches(expected: &str, actual: &str, bindings: &mut Bindings) -> bool {
    let mut tried = bindings.clone();
    let is_match = match expected.strip_suffix(": *") {
        Some(before) => {
            let parts = parts(before);
            let mut ends = actual.match_indices(": ").filter(|(end, _)| actual.len() > end + 2);
            ends.any(|(end, _)| {
                tried.clone_from(bindings);
                parts_match(&parts, &actual[..end], &mut tried)
            })
        }
        None => parts_match(&parts(expected), actual, &mut tried),
    };
    if is_match {
        *bindings = tried;
    }
    is_match
}

/// A command with its placeholders filled in; an error is the name that stands for nothing yet.
pub(crate) fn fill_in(command: &str, bindings: &Bindings) -> Result<String, String> {
    let mut filled = String::new();
    for part in parts(command) {
        filled.push_str(match part {
            Part::Text(text) => text,
            Part::Placeholder(name) => bindings.get(name).ok_or(name)?,
        });
    }
    Ok(filled)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '#')
}

fn parts(mut line: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    while let Some(start) = line.find('$') {
        let name = &line[start + 1..];
        let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
        parts.push(Part::Text(&line[..start]));
        parts.push(Part::Placeholder(&name[..end]));
        line = &name[end..];
    }
    parts.push(Part::Text(line));
    parts
}

fn parts_match(parts: &[Part<'_>], actual: &str, bindings: &mut Bindings) -> bool {
    let Some((first, rest)) = parts.split_first() else { return actual.is_empty() };
    let name = match first {
        Part::Text(text) => return actual.strip_prefix(text).is_some_and(|left| parts_match(rest, left, bindings)),
        Part::Placeholder(name) => *name,
    };
    if let Some(value) = bindings.get(name) {
        let value = value.clone();
        return actual.strip_prefix(value.as_str()).is_some_and(|left| parts_match(rest, left, bindings));
    }
    let end = actual.find(|c| !is_word(c)).unwrap_or(actual.len());
    // The longest word first; a shorter one when text follows that the word would swallow, as in `$t@3`.
    for end in (1..=end).rev() {
        bindings.insert(name.to_owned(), actual[..end].to_owned());
        if parts_match(rest, &actual[end..], bindings) {
            return true;
        }
    }
    bindings.remove(name);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[(&str, &str)], expected: bool) {
        let mut bindings = Bindings::new();
        let all = lines.iter().all(|(expected, actual)| line_matches(expected, actual, &mut bindings));
        assert_eq!(all, expected, "{lines:?} {bindings:?}");
    }

    #[test]
    fn placeholders_stand_for_the_same_word_everywhere() {
        check(&[("[$x | ]", "[0_1 | ]"), ("22 $x@3", "22 0_1@3")], true);
        check(&[("[$x | ]", "[0_1 | ]"), ("22 $x@3", "22 0_0@3")], false);
        check(&[("[$x $y]", "[0_1 0_2]")], true);
        check(&[("[$x]", "[]")], false);
    }

    #[test]
    fn starred_texts_must_be_there() {
        check(&[("status 3: *", "status 3: Internal topics: are missing")], true);
        check(&[("status 3: *", "status 3")], false);
        check(&[("status 3: *", "status 4: Stop")], false);
        check(&[("status 3", "status 3: text")], false);
        check(&[("words: INVALID: *", "words: INVALID: text: more")], true);
        check(&[("words: INVALID: *", "words: WRONG: text")], false);
    }

    #[test]
    fn commands_are_filled_in() {
        let bindings = Bindings::from([("x".to_owned(), "0_1".to_owned())]);
        assert_eq!(fill_in("beat a owned=$x,0_2||", &bindings), Ok("beat a owned=0_1,0_2||".to_owned()));
        assert_eq!(fill_in("beat a owned=$y", &bindings), Err("y".to_owned()));
    }
}
