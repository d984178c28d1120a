//! Medians and ratios.

use std::time::Duration;

/// The middle one, or the mean of the two in the middle; 0 of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The median of what each round says.
pub(crate) fn median_of<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> f64 {
    median(&rounds.iter().map(of).collect::<Vec<_>>())
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// So that three digits say something.
pub(crate) fn shown(value: f64) -> String {
    match value.abs() {
        it if !it.is_finite() => "-".to_owned(),
        it if it >= 100.0 => format!("{value:.0}"),
        it if it >= 10.0 => format!("{value:.1}"),
        it if it >= 0.1 || it == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn figures_have_about_three_digits() {
        let check = |value: f64, expected: &str| assert_eq!(shown(value), expected);
        check(1234.5, "1234");
        check(12.345, "12.3");
        check(1.2345, "1.23");
        check(0.012345, "0.0123");
        check(0.0, "0.00");
        check(f64::NAN, "-");
    }
}
