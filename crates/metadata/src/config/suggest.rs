//! "Did you mean": the name closest to a misspelt one.

use alloc::vec::Vec;

/// Longest name that is compared; the work is quadratic in the length.
const NAME_BYTES_MAX: usize = 100;

/// The candidate that `name` was probably meant to be.
///
/// That is the one with the fewest single-letter edits, if they are few enough to be a slip: at most a quarter of the
/// name, and never more than four; the first one wins a tie. Failing that, the only one that differs by words in front
/// (`retention.ms` and `log.retention.ms`).
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let edits_max = (name.len() / 4).clamp(1, 4);
    let mut closest: Option<(usize, &str)> = None;
    let mut with_prefix = Vec::new();
    for candidate in candidates {
        // Lengths that differ by more cannot be close; saying so is cheap, and who sends nonsense shall not cost much.
        if name.len().abs_diff(candidate.len()) <= edits_max {
            let edits = edits(name.as_bytes(), candidate.as_bytes());
            if edits <= edits_max && closest.is_none_or(|(least, _)| edits < least) {
                closest = Some((edits, candidate));
            }
        }
        if differs_by_prefix(name, candidate) || differs_by_prefix(candidate, name) {
            with_prefix.push(candidate);
        }
    }
    let only = if let [candidate] = with_prefix.as_slice() { Some(*candidate) } else { None };
    closest.map(|(_, candidate)| candidate).or(only)
}

/// Whether `long` is `short` with words in front of it.
fn differs_by_prefix(short: &str, long: &str) -> bool {
    !short.is_empty() && long.strip_suffix(short).is_some_and(|prefix| prefix.ends_with('.'))
}

/// Levenshtein's distance.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &letter) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_close_names_are_suggested() {
        let names = ["log.retention.ms", "log.retention.hours", "num.partitions"];
        assert_eq!(nearest("log.retention.hour", names), Some("log.retention.hours"));
        assert_eq!(nearest("num.partition", names), Some("num.partitions"));
        assert_eq!(nearest("completely.different", names), None);
        assert_eq!(nearest("retention.ms", names), Some("log.retention.ms"));
        assert_eq!(nearest("all.num.partitions", names), Some("num.partitions"));
        assert_eq!(nearest("timeout.ms", ["consumer.timeout.ms", "streams.timeout.ms"]), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"x".repeat(1000), names), None);
    }
}
