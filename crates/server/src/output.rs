//! Tables and JSON on standard output, and how an error is told.
//!
//! Names and texts come from servers and their clients: nothing in them may move a terminal's cursor, or look like a line
//! of ours.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, Write},
};

use anyhow::{Context, Result};
use comfy_table::{Table, presets::NOTHING};
use serde::Serialize;

/// Prints data. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<()> {
    print_to_reader(text).map(|_| ())
}

/// Prints data, for whoever goes on printing: whether anybody still reads it.
pub(crate) fn print_to_reader(text: &str) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("standard output cannot be written"),
    }
}

pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let mut text = visible_json(serde_json::to_string_pretty(value)?);
    text.push('\n');
    print(&text)
}

/// JSON with escapes for what must not reach a terminal; those characters only stand inside its strings.
pub(crate) fn visible_json(text: String) -> String {
    if !text.chars().any(|it| it != '\n' && is_invisible(it)) {
        return text;
    }
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        if character != '\n' && is_invisible(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(visible, "\\u{unit:04x}").expect("writing to a string succeeds");
            }
        } else {
            visible.push(character);
        }
    }
    visible
}

/// A name or a text on one line, with escapes for what cannot be seen or would be obeyed.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        if is_invisible(character) {
            visible.extend(character.escape_default());
        } else {
            visible.push(character);
        }
    }
    Cow::Owned(visible)
}

/// Control characters, line ends, and what changes the direction of text or takes no room.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// Columns under a header, without lines.
pub(crate) fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|cell| visible(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The error and its causes, in one line or several; a cause that the text before it has already told is left out.
pub(crate) fn explain(error: &anyhow::Error) -> String {
    let text = error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        if told.is_empty() {
            cause
        } else if told.ends_with(&cause) {
            told
        } else {
            format!("{told}: {cause}")
        }
    });
    let lines: Vec<_> = text.lines().map(visible).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str = "a\u{1b}[2J\nb\t\u{9b}31m\u{202e}c";

    #[test]
    fn nothing_in_a_name_reaches_the_terminal_as_a_command() {
        assert_eq!(visible("größe 名前 a-b"), "größe 名前 a-b");
        assert_eq!(visible(ODD), r"a\u{1b}[2J\nb\t\u{9b}31m\u{202e}c");
        let shown = table(["  GROUP", "STATE"], [[format!("  {ODD}"), "Empty".to_owned()]]);
        assert_eq!(shown.lines().nth(1), Some(r"  a\u{1b}[2J\nb\t\u{9b}31m\u{202e}c  Empty"));
        assert_eq!(shown.lines().count(), 2);
        let told = explain(&anyhow::anyhow!("one\u{7f}\ntwo").context("\r"));
        assert_eq!(told, "\\r: one\\u{7f}\ntwo");
    }

    #[test]
    fn json_says_exactly_what_is_there_in_visible_characters() {
        let value = serde_json::json!({ "name": ODD, "plain": "größe" });
        for text in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            let visible = visible_json(text);
            assert!(
                !visible.chars().any(|it| it != '\n' && is_invisible(it)) && visible.contains("größe"),
                "{visible}"
            );
            assert_eq!(serde_json::from_str::<serde_json::Value>(&visible).unwrap(), value);
        }
    }
}
