//! A pattern of source topics: written in Java's syntax, matched against whole names in linear time.
//!
//! Who writes patterns writes them for `java.util.regex`, which goes back and tries again, for ever if need be. Here
//! each is put into the words of an engine that reads a name once (`pattern/translate.rs`); what that engine cannot do is
//! refused by name, and so is what the two would read differently. A name has ASCII characters only, so a pattern has.
//!
//! A pattern that the server keeps is compiled once, however many groups have it, and knows nothing of topics that exist:
//! that is [`super::resolve`].

use alloc::{borrow::ToOwned, format, string::String, vec::Vec};

use regex::bytes::{Regex, RegexBuilder};

mod translate;

/// Characters that a pattern may have.
pub const PATTERN_LENGTH_MAX: usize = 1_000;
/// What may be remembered of an automaton while a pattern is matched: much less, and some patterns take a thousand times
/// as long; more is of use to few.
const AUTOMATON_BYTES_MAX: usize = 1 << 16;
/// What an ordinary pattern takes no more than; each character of a name costs little then, whatever the pattern.
const LIGHT_BYTES_MAX: usize = 1 << 10;
/// What a character costs to a larger one, at worst and in proportion.
const HEAVY_WEIGHT: u64 = 8;
/// What a pattern that was accepted once may take when it is loaded, whatever the limit is by then.
const LOADED_BYTES_MAX: usize = 1 << 20;

/// A pattern as it is matched.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: String,
    /// Or why it matches nothing.
    regex: Result<Regex, String>,
    /// What a character of a name may cost, compared with other patterns.
    weight: u64,
}

/// Why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// It means nothing, or nothing that is supported.
    Syntax(String),
    /// It takes more bytes than it may.
    TooLarge,
}

impl Pattern {
    /// A pattern that must be right and small.
    pub(crate) fn check(text: &str, bytes_max: usize) -> Result<(), PatternError> {
        compile(text, bytes_max).map(|_| ())
    }

    /// Whether these, each of which is right, take no more than so many bytes together.
    pub(crate) fn fit_together<'a>(texts: impl Iterator<Item = &'a String>, bytes_max: usize) -> bool {
        let translated: Result<Vec<String>, String> = texts.map(|text| translate::translate(text)).collect();
        translated.is_ok_and(|all| build(&all.join("|"), bytes_max).is_ok())
    }

    /// A pattern of a record: if it can't be used, it matches nothing and can say why.
    pub(crate) fn loaded(text: &str) -> Self {
        let regex = compile(text, LOADED_BYTES_MAX).map_err(|error| match error {
            PatternError::Syntax(text) => text,
            PatternError::TooLarge => "it is too large".to_owned(),
        });
        let is_light = regex.is_ok() && compile(text, LIGHT_BYTES_MAX).is_ok();
        Self { text: text.to_owned(), regex, weight: if is_light { 1 } else { HEAVY_WEIGHT } }
    }

    /// What a character of a name may cost, compared with other patterns.
    pub(crate) const fn weight(&self) -> u64 {
        self.weight
    }

    /// Whether this is the name as a whole.
    pub(crate) fn is_match(&self, topic: &str) -> bool {
        self.regex.as_ref().is_ok_and(|regex| regex.is_match(topic.as_bytes()))
    }

    /// Why it matches nothing whatever topics there are.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.regex.as_ref().err().map(String::as_str)
    }
}

/// The same text is the same pattern.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

fn compile(text: &str, bytes_max: usize) -> Result<Regex, PatternError> {
    if text.len() > PATTERN_LENGTH_MAX {
        let length = text.len();
        return Err(PatternError::Syntax(format!("it has {length} characters; at most {PATTERN_LENGTH_MAX} may be")));
    }
    let translated = translate::translate(text).map_err(PatternError::Syntax)?;
    build(&translated, bytes_max)
}

fn build(translated: &str, bytes_max: usize) -> Result<Regex, PatternError> {
    let mut builder = RegexBuilder::new(translated);
    builder.unicode(false).size_limit(bytes_max).dfa_size_limit(AUTOMATON_BYTES_MAX).build().map_err(
        |error| match error {
            regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
            other => PatternError::Syntax(format!("it is not understood: {other}")),
        },
    )
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String, vec::Vec};

    use super::{Pattern, PatternError};

    /// The names, out of both lists, that the pattern matches are the first ones.
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let compiled = Pattern::loaded(pattern);
        assert_eq!(compiled.problem(), None, "{pattern}");
        matching.iter().for_each(|name| assert!(compiled.is_match(name), "{pattern} {name}"));
        others.iter().for_each(|name| assert!(!compiled.is_match(name), "{pattern} {name}"));
    }

    fn check_refused(pattern: &str, why: &str) {
        let text = match Pattern::check(pattern, 1 << 14) {
            Err(PatternError::Syntax(text)) => text,
            other => format!("{other:?}"),
        };
        assert!(text.contains(why), "{pattern}: {text}");
    }

    #[test]
    fn the_whole_name_is_matched() {
        check("in", &["in"], &["in1", "min", ""]);
        check("a|bc", &["a", "bc"], &["abc", "b"]);
        check("orders-.*", &["orders-", "orders-eu"], &["orders", "my-orders-eu"]);
        check("^a.c$", &["abc", "a.c"], &["ac"]);
        check("", &[""], &["a"]);
    }

    #[test]
    fn what_is_written_for_java_means_the_same() {
        check(r"\Qa.b+\Ec", &["a.b+c"], &["axb+c"]);
        check(r"a\.b\-c\_d", &["a.b-c_d"], &["axb-c_d"]);
        check(r"[a-c[x-z]]+", &["axz"], &["m"]);
        check(r"[a-z&&[^bc]]{2,3}", &["az", "daz"], &["ab", "a", "dazz"]);
        check(r"[+--]x", &["+x", ",x", "-x"], &[".x"]);
        check(r"[]a]b", &["]b", "ab"], &["b"]);
        check(r"[^]a]b", &["cb"], &["ab"]);
        check(r"[a-]b", &["-b", "ab"], &["bb"]);
        check(r"[\w.-]+", &["a_B.9-"], &["a/b"]);
        check(r"\p{Alpha}\P{Digit}[\p{Lower}\p{Nd}]", &["Xy1", "x-a"], &["x1a", "1aa"]);
        check(r"(?i)Orders(?-i)-EU", &["oRDERS-EU"], &["orders-eu"]);
        check(r"(?i:a)b", &["Ab"], &["AB"]);
        check(r"(?<region>eu|us)-(x)", &["eu-x"], &["eu"]);
        check(r"\x61\u0062\x{63}\t?", &["abc"], &["ab"]);
        check(r"a+?b??c*?", &["aab", "ac", "abcc"], &["b"]);
        check(r"a{2}b{1,}c{0,1}", &["aab", "aabbc"], &["ab", "aabcc"]);
        check(r"\ba\b.*", &["a-b"], &["ab"]);
        check(r"a}", &["a}"], &["a"]);
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        check_refused("(?!x).*", "look-ahead, (?!, is not supported");
        check_refused("a(?=b)", "look-ahead, (?=, is not supported");
        check_refused("(?<!a)b", "look-behind, (?<!, is not supported");
        check_refused("(?<=a)b", "look-behind, (?<=, is not supported");
        check_refused(r"(a)\1", r"backreference, \1, is not supported");
        check_refused(r"(?<a>a)\k<a>", r"backreference, \k, is not supported");
        check_refused("a*+", "possessive quantifier, *+, is not supported");
        check_refused("a{2}+", "possessive quantifier, }+, is not supported");
        check_refused("(?>a|b)c", "atomic group, (?>, is not supported");
        check_refused("(?x) a", "flag x is not supported");
        check_refused(r"\Ga", r"\G is not supported");
        check_refused(r"\07", r"\0 is not supported");
        check_refused(r"\p{IsGreek}", r"\p{IsGreek} is not supported");
        check_refused("größe", "topic names have ASCII characters only");
        check_refused(r"[\Qa\E-z]", r"at character 6: a range from \Q..\E is not supported");
        check_refused(r"\u00e4", "topic names have ASCII characters only");
    }

    #[test]
    fn what_means_nothing_is_refused_with_its_place() {
        check_refused("a**", "at character 3: there is nothing that * could repeat");
        check_refused("*", "at character 1: there is nothing that * could repeat");
        check_refused("(a", "a group is not closed");
        check_refused("a)", "at character 2: ) closes no group");
        check_refused("[a", "a class is not closed");
        check_refused("[b-a]", "the range b-a is the wrong way round");
        check_refused("a{x}", r"{ repeats nothing; as a character it is \{");
        check_refused("a{3,2}", "{3,2} is the wrong way round");
        check_refused("a\\", "it ends with a backslash");
        check_refused(r"\x6", r"\x is followed by");
        check_refused(&"(".repeat(80), "groups inside each other, at most");
        check_refused(&"a".repeat(1_001), "it has 1001 characters; at most 1000 may be");
    }

    #[test]
    fn ordinary_patterns_are_light() {
        let weights = |patterns: &[&str]| -> Vec<u64> {
            patterns.iter().map(|pattern| Pattern::loaded(pattern).weight()).collect()
        };
        let light = ["topic-.*", "(eu|us|ap)-orders", "[a-z]+[.]v[0-9]+", ".*-events", r"orders\.(new|old)\..*"];
        assert_eq!(weights(&light), [1; 5]);
        assert_eq!(weights(&["(.*x){20}y", ".*x.{50}y", "[a-z]{100}"]), [8; 3]);
    }

    #[test]
    fn a_pattern_takes_no_more_than_it_may() {
        assert_eq!(Pattern::check("(((a{100}){100}){100}){100}", 1 << 14), Err(PatternError::TooLarge));
        assert_eq!(Pattern::check("[a-z]{1,50}-(eu|us|ap)[.]v[0-9]+", 1 << 14), Ok(()));
    }

    #[test]
    fn patterns_take_no_more_together_than_they_may() {
        let fit = |count: usize, suffix: &str| {
            let texts: Vec<String> = (0..count).map(|index| format!("region{index}{suffix}")).collect();
            Pattern::fit_together(texts.iter(), 1 << 14)
        };
        assert_eq!([fit(30, ".*"), fit(60, ".*")], [true, false]);
        assert_eq!([fit(15, "-.*-orders[.]v[0-9]+"), fit(30, "-.*-orders[.]v[0-9]+")], [true, false]);
        assert_eq!([fit(1, "(.*x){10}y"), fit(12, "(.*x){10}y")], [true, false]);
    }
}
