//! "Did you mean": the name closest to a misspelt one.

use alloc::vec::Vec;

/// Longest name that is compared; the work is quadratic in the length.
const NAME_BYTES_MAX: usize = 100;

/// The candidate with the fewest single-letter edits to `name`, if they are few enough to be a slip: at most a quarter
/// of the name, and never more than four. The first one wins a tie.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let edits_max = (name.len() / 4).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (edits(name.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(edits, _)| *edits <= edits_max)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
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
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"x".repeat(1000), names), None);
    }
}
