//! From Java's syntax of patterns to the engine's.
//!
//! Both are read alike in everyday patterns. Characters are written as their codes, so that none has a meaning that it
//! does not have in Java; groups and lazy quantifiers leave no trace, for all that is asked is whether a name matches.

use alloc::{format, string::String};
use core::fmt::Write as _;

/// Groups, or classes, inside each other.
const DEPTH_MAX: usize = 50;

/// The classes that both know, by Java's names.
const PROPERTIES: &[(&str, &str)] = &[
    ("Lower", "lower"),
    ("Upper", "upper"),
    ("ASCII", "ascii"),
    ("Alpha", "alpha"),
    ("Digit", "digit"),
    ("Alnum", "alnum"),
    ("Punct", "punct"),
    ("Graph", "graph"),
    ("Print", "print"),
    ("Blank", "blank"),
    ("Cntrl", "cntrl"),
    ("XDigit", "xdigit"),
    ("Space", "space"),
    // Of ASCII characters these are the same.
    ("L", "alpha"),
    ("Ll", "lower"),
    ("Lu", "upper"),
    ("N", "digit"),
    ("Nd", "digit"),
    ("IsAlphabetic", "alpha"),
    ("IsLowercase", "lower"),
    ("IsUppercase", "upper"),
    ("IsDigit", "digit"),
];

/// The same pattern for the engine, of the whole text; or what is wrong, and where.
pub(super) fn translate(text: &str) -> Result<String, String> {
    if !text.is_ascii() {
        return Err(NOT_ASCII.into());
    }
    let mut translator = Translator { text: text.as_bytes(), next: 0, out: String::new() };
    translator.pattern()?;
    Ok(format!(r"\A(?:{})\z", translator.out))
}

const NOT_ASCII: &str = "topic names have ASCII characters only";

struct Translator<'a> {
    text: &'a [u8],
    next: usize,
    out: String,
}

impl Translator<'_> {
    fn pattern(&mut self) -> Result<(), String> {
        let mut depth = 0;
        // Whether what was read last may be repeated.
        let mut repeatable = false;
        while let Some(byte) = self.take() {
            match byte {
                b'*' | b'+' | b'?' | b'{' if !repeatable => {
                    return Err(self.wrong(&format!("there is nothing that {} could repeat", char::from(byte))));
                }
                b'*' | b'+' | b'?' | b'{' => {
                    self.quantifier(byte)?;
                    repeatable = false;
                }
                b'(' => {
                    depth += usize::from(self.open_group()?);
                    if depth > DEPTH_MAX {
                        return Err(
                            self.wrong(&format!("{depth} groups inside each other, at most {DEPTH_MAX} may be"))
                        );
                    }
                    repeatable = false;
                }
                b')' if depth == 0 => return Err(self.wrong(") closes no group")),
                b')' => {
                    depth -= 1;
                    self.out.push(')');
                    repeatable = true;
                }
                b'[' => {
                    self.class(1)?;
                    repeatable = true;
                }
                b'\\' => repeatable = self.escape()?,
                b'|' | b'^' | b'$' => {
                    self.out.push(byte.into());
                    repeatable = false;
                }
                b'.' => {
                    self.out.push('.');
                    repeatable = true;
                }
                literal => {
                    self.literal(literal);
                    repeatable = true;
                }
            }
        }
        if depth > 0 { Err("a group is not closed".into()) } else { Ok(()) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.next).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.next += 1;
        Some(byte)
    }

    fn take_if(&mut self, wanted: &[u8]) -> bool {
        let found = self.text[self.next..].starts_with(wanted);
        self.next += if found { wanted.len() } else { 0 };
        found
    }

    /// What is wrong with what was read last.
    fn wrong(&self, what: &str) -> String {
        format!("at character {}: {what}", self.next)
    }

    fn literal(&mut self, byte: u8) {
        if byte.is_ascii_alphanumeric() {
            self.out.push(byte.into());
        } else {
            self.write(format_args!("\\x{byte:02x}"));
        }
    }

    fn write(&mut self, text: core::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a string takes any text");
    }

    /// `*`, `+`, `?`, or what follows a `{`; whether it is lazy makes no difference.
    fn quantifier(&mut self, first: u8) -> Result<(), String> {
        if first == b'{' {
            let min = self.number();
            let has_comma = self.take_if(b",");
            let max = self.number();
            let (Some(min), true) = (min, self.take_if(b"}")) else {
                return Err(self.wrong(r"{ repeats nothing; as a character it is \{"));
            };
            if max.is_some_and(|max| max < min) {
                let max = max.unwrap_or(0);
                return Err(self.wrong(&format!("{{{min},{max}}} is the wrong way round")));
            }
            match (has_comma, max) {
                (false, _) => self.write(format_args!("{{{min}}}")),
                (true, None) => self.write(format_args!("{{{min},}}")),
                (true, Some(max)) => self.write(format_args!("{{{min},{max}}}")),
            }
        } else {
            self.out.push(first.into());
        }
        if self.peek() == Some(b'+') {
            let last = if first == b'{' { '}' } else { first.into() };
            return Err(self.wrong(&format!("a possessive quantifier, {last}+, is not supported")));
        }
        self.take_if(b"?");
        Ok(())
    }

    fn number(&mut self) -> Option<u32> {
        let begin = self.next;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.next += 1;
        }
        let digits = core::str::from_utf8(&self.text[begin..self.next]).ok().filter(|digits| !digits.is_empty())?;
        // One that is too large is too large for the engine as well.
        Some(digits.parse().unwrap_or(u32::MAX))
    }

    /// After a `(`; whether there is a group to be closed.
    fn open_group(&mut self) -> Result<bool, String> {
        for (syntax, name) in [
            ("?=", "look-ahead"),
            ("?!", "look-ahead"),
            ("?<=", "look-behind"),
            ("?<!", "look-behind"),
            ("?>", "an atomic group"),
        ] {
            if self.take_if(syntax.as_bytes()) {
                return Err(self.wrong(&format!("{name}, ({syntax}, is not supported")));
            }
        }
        if self.take_if(b"?<") {
            while self.take().ok_or("a group's name is not closed")? != b'>' {}
        } else if self.take_if(b"?") {
            return self.flags();
        }
        self.out.push_str("(?:");
        Ok(true)
    }

    /// After a `(?`: flags until `)`, or until `:`, where a group begins.
    fn flags(&mut self) -> Result<bool, String> {
        let (mut on, mut off) = (false, false);
        let mut is_off = false;
        loop {
            match self.take() {
                Some(b'i') if is_off => off = true,
                Some(b'i') => on = true,
                // They are about ends of lines and characters beyond ASCII.
                Some(b's' | b'm' | b'd' | b'u' | b'U') => {}
                Some(b'-') if !is_off => is_off = true,
                Some(end @ (b')' | b':')) => {
                    self.out.push_str(match (on, off, end) {
                        (false, false, b')') => "",
                        (true, false, b')') => "(?i)",
                        (false, true, b')') => "(?-i)",
                        (true, false, _) => "(?i:",
                        (false, true, _) => "(?-i:",
                        (false, false, _) => "(?:",
                        (true, true, _) => return Err(self.wrong("a flag is both on and off")),
                    });
                    return Ok(end == b':');
                }
                Some(other) => return Err(self.wrong(&format!("the flag {} is not supported", char::from(other)))),
                None => return Err("a group is not closed".into()),
            }
        }
    }

    /// After a backslash outside of a class; whether it may be repeated.
    fn escape(&mut self) -> Result<bool, String> {
        let Some(byte) = self.take() else { return Err("it ends with a backslash".into()) };
        match byte {
            b'Q' => {
                let begin = self.next;
                self.quoted(Self::literal);
                Ok(self.next > begin + 2)
            }
            b'b' | b'B' if self.peek() == Some(b'{') => Err(self.wrong(r"\b{ is not supported")),
            b'A' | b'b' | b'B' => {
                self.write(format_args!("\\{}", char::from(byte)));
                Ok(false)
            }
            b'z' | b'Z' => {
                self.out.push_str(r"\z");
                Ok(false)
            }
            b'1'..=b'9' | b'k' => {
                Err(self.wrong(&format!("a backreference, \\{}, is not supported", char::from(byte))))
            }
            other => {
                if let Some(literal) = self.class_escape(other)? {
                    self.literal(literal);
                }
                Ok(true)
            }
        }
    }

    /// Everything until `\E`, or to the end.
    fn quoted(&mut self, mut each: impl FnMut(&mut Self, u8)) {
        while !self.take_if(br"\E") {
            let Some(byte) = self.take() else { return };
            each(self, byte);
        }
    }

    /// What a backslash means inside of classes, too: a set, which is written, or a character.
    fn class_escape(&mut self, byte: u8) -> Result<Option<u8>, String> {
        Ok(match byte {
            b'd' | b'D' | b'w' | b'W' | b's' | b'S' => {
                self.write(format_args!("\\{}", char::from(byte)));
                None
            }
            b'p' | b'P' => {
                self.property(byte == b'P')?;
                None
            }
            b'x' if self.take_if(b"{") => {
                let code = self.hexadecimal(1..=6, r"\x{")?;
                if !self.take_if(b"}") {
                    return Err(self.wrong(r"\x{ is not closed"));
                }
                Some(code)
            }
            b'x' => Some(self.hexadecimal(2..=2, r"\x")?),
            b'u' => Some(self.hexadecimal(4..=4, r"\u")?),
            b't' => Some(b'\t'),
            b'n' => Some(b'\n'),
            b'r' => Some(b'\r'),
            b'f' => Some(0x0c),
            b'a' => Some(0x07),
            b'e' => Some(0x1b),
            other if other.is_ascii_alphanumeric() => {
                return Err(self.wrong(&format!("\\{} is not supported", char::from(other))));
            }
            literal => Some(literal),
        })
    }

    fn hexadecimal(&mut self, digits: core::ops::RangeInclusive<usize>, after: &str) -> Result<u8, String> {
        let begin = self.next;
        while self.next - begin < *digits.end() && self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
            self.next += 1;
        }
        let text = core::str::from_utf8(&self.text[begin..self.next]).unwrap_or_default();
        if !digits.contains(&text.len()) {
            return Err(self.wrong(&format!("{after} is followed by too few hexadecimal digits")));
        }
        let code = u32::from_str_radix(text, 16).unwrap_or(u32::MAX);
        u8::try_from(code).ok().filter(u8::is_ascii).ok_or_else(|| self.wrong(NOT_ASCII))
    }

    /// After `\p` or `\P`.
    fn property(&mut self, negated: bool) -> Result<(), String> {
        let begin = self.next;
        let name = match self.take() {
            Some(b'{') => {
                while self.take().ok_or(r"\p{ is not closed")? != b'}' {}
                &self.text[begin + 1..self.next - 1]
            }
            Some(_) => &self.text[begin..self.next],
            None => return Err(r"\p is followed by no name".into()),
        };
        let name = core::str::from_utf8(name).unwrap_or_default();
        let Some((_, ours)) = PROPERTIES.iter().find(|(java, _)| *java == name) else {
            return Err(self.wrong(&format!("\\p{{{name}}} is not supported")));
        };
        self.write(format_args!("[[:{}{ours}:]]", if negated { "^" } else { "" }));
        Ok(())
    }

    /// After a `[`.
    fn class(&mut self, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(&format!("{depth} classes inside each other, at most {DEPTH_MAX} may be")));
        }
        self.out.push('[');
        if self.take_if(b"^") {
            self.out.push('^');
        }
        let mut is_empty = true;
        loop {
            let Some(byte) = self.take() else { return Err("a class is not closed".into()) };
            match byte {
                b']' if !is_empty => {
                    self.out.push(']');
                    return Ok(());
                }
                b'[' => self.class(depth + 1)?,
                b'&' if self.peek() == Some(b'&') => {
                    self.next += 1;
                    if is_empty || matches!(self.peek(), Some(b'&' | b']') | None) {
                        return Err(self.wrong("&& has nothing before or after it"));
                    }
                    self.out.push_str("&&");
                }
                b'\\' if self.peek() == Some(b'Q') => {
                    self.next += 1;
                    self.quoted(Self::literal);
                    // Java reads what was quoted as if it were not: a range from it, or nothing.
                    if self.peek() == Some(b'-') {
                        return Err(self.wrong(r"a range from \Q..\E is not supported"));
                    }
                }
                b'\\' => {
                    let Some(escaped) = self.take() else { return Err("it ends with a backslash".into()) };
                    if let Some(literal) = self.class_escape(escaped)? {
                        self.range(literal)?;
                    }
                }
                literal => self.range(literal)?,
            }
            is_empty = false;
        }
    }

    /// A character of a class, and what it is a range to, if it is.
    fn range(&mut self, from: u8) -> Result<(), String> {
        let is_range = self.peek() == Some(b'-') && !matches!(self.text.get(self.next + 1), Some(b']' | b'[') | None);
        if !is_range {
            self.literal(from);
            return Ok(());
        }
        self.next += 1;
        let to = match self.take() {
            Some(b'\\') => {
                let Some(escaped) = self.take() else { return Err("it ends with a backslash".into()) };
                let is_set = matches!(escaped, b'd' | b'D' | b'w' | b'W' | b's' | b'S' | b'p' | b'P');
                let to = if is_set { None } else { self.class_escape(escaped)? };
                to.ok_or_else(|| self.wrong("a range ends with a set"))?
            }
            Some(to) => to,
            None => return Err("a class is not closed".into()),
        };
        if to < from {
            let (from, to) = (char::from(from), char::from(to));
            return Err(self.wrong(&format!("the range {from}-{to} is the wrong way round")));
        }
        self.literal(from);
        self.out.push('-');
        self.literal(to);
        Ok(())
    }
}
