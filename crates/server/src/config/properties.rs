//! Reads Java's `.properties` format, which is what a Kafka `server.properties` is written in.
//!
//! Owns the grammar only: comment lines (`#`, `!`), logical lines continued by a trailing backslash, keys ended by `=`,
//! `:` or white space, and the escapes `\t \n \r \f \uXXXX`; before any other character a backslash simply vanishes.
//! It does not know what a key means. A key given twice yields two entries, in file order.

use std::{iter::Peekable, str::Chars};

/// One `key = value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    /// The line it starts on, from 1.
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// An escape that stands for no character.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: \\u must be followed by four hexadecimal digits")]
pub(crate) struct BadEscape {
    line: usize,
}

/// Text of a file's bytes: UTF-8, or Latin-1 (Java's choice for this format) when it is not UTF-8.
pub(crate) fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect())
}

/// Reads a whole file.
pub(crate) fn parse(text: &str) -> Result<Vec<Property>, BadEscape> {
    let mut properties = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let first = first.trim_start_matches(is_blank);
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while ends_with_open_backslash(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(is_blank));
        }
        let line = index + 1;
        let (key, value) = split(&logical).map_err(|MalformedUnicode| BadEscape { line })?;
        properties.push(Property { line, key, value });
    }
    Ok(properties)
}

/// Writes text so that [`parse`] reads it back as a value.
pub(crate) fn escape_value(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for (index, character) in value.chars().enumerate() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{c}' => escaped.push_str("\\f"),
            ' ' if index == 0 => escaped.push_str("\\ "),
            other => escaped.push(other),
        }
    }
    escaped
}

struct MalformedUnicode;

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\u{c}')
}

fn ends_with_open_backslash(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

fn split(line: &str) -> Result<(String, String), MalformedUnicode> {
    let mut characters = line.chars().peekable();
    let key = unescape(&mut characters, |character| is_blank(character) || matches!(character, '=' | ':'))?;
    skip_blanks(&mut characters);
    if characters.next_if(|character| matches!(character, '=' | ':')).is_some() {
        skip_blanks(&mut characters);
    }
    let value = unescape(&mut characters, |_| false)?;
    Ok((key, value))
}

fn skip_blanks(characters: &mut Peekable<Chars<'_>>) {
    while characters.next_if(|&character| is_blank(character)).is_some() {}
}

/// Takes characters up to one that `ends`, resolving escapes; an escaped character never ends.
fn unescape(characters: &mut Peekable<Chars<'_>>, ends: fn(char) -> bool) -> Result<String, MalformedUnicode> {
    // Java's strings are UTF-16: a character beyond U+FFFF is written as two escapes.
    let mut units: Vec<u16> = Vec::new();
    let mut buffer = [0; 2];
    while let Some(character) = characters.next_if(|&character| !ends(character)) {
        let plain = match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    units.push(unicode_escape(characters)?);
                    continue;
                }
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        units.extend_from_slice(plain.encode_utf16(&mut buffer));
    }
    Ok(String::from_utf16_lossy(&units))
}

fn unicode_escape(characters: &mut Peekable<Chars<'_>>) -> Result<u16, MalformedUnicode> {
    let mut unit = 0;
    for _ in 0..4 {
        let digit = characters.next().and_then(|character| character.to_digit(16)).ok_or(MalformedUnicode)?;
        unit = unit * 16 + digit as u16;
    }
    Ok(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str, &str)]) {
        let found = parse(text).unwrap();
        let found: Vec<_> = found.iter().map(|p| (p.line, p.key.as_str(), p.value.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        check("# a\n  ! b\n\n \t\nkey=value\n", &[(5, "key", "value")]);
    }

    #[test]
    fn a_key_ends_at_equals_colon_or_blank() {
        check(
            "a=1\nb:2\nc 3\nd = 4\ne\t:\t5\nf\n=g",
            &[(1, "a", "1"), (2, "b", "2"), (3, "c", "3"), (4, "d", "4"), (5, "e", "5"), (6, "f", ""), (7, "", "g")],
        );
    }

    #[test]
    fn only_the_first_separator_counts_and_trailing_blanks_stay() {
        check("a==b=c \r\nl=PLAINTEXT://:9092", &[(1, "a", "=b=c "), (2, "l", "PLAINTEXT://:9092")]);
    }

    #[test]
    fn a_trailing_backslash_continues_the_line_unless_it_is_escaped() {
        check("a=1,\\\n   2,\\\n\t3\nb=x\\\\\nc=end\\", &[(1, "a", "1,2,3"), (4, "b", "x\\"), (5, "c", "end")]);
    }

    #[test]
    fn escapes_are_resolved() {
        check(
            "a\\ b\\:c=\\t\\n\\u00e9\\q\nsmile=\\uD83D\\uDE00 # no comment",
            &[(1, "a b:c", "\t\n\u{e9}q"), (2, "smile", "\u{1f600} # no comment")],
        );
    }

    #[test]
    fn a_malformed_unicode_escape_names_its_line() {
        let error = parse("a=1\nb=\\u12g4").unwrap_err();
        assert_eq!(error.to_string(), "line 2: \\u must be followed by four hexadecimal digits");
    }

    #[test]
    fn an_escaped_value_reads_back() {
        for value in [" lead", "C:\\dir", "two\nlines\t", "a = b # c", ""] {
            check(&format!("key={}", escape_value(value)), &[(1, "key", value)]);
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_latin1() {
        assert_eq!(text_of(vec![b'a', 0xe9]), "a\u{e9}");
        assert_eq!(text_of("\u{e9}".into()), "\u{e9}");
    }
}
