//! The reader of scrapes notices what breaks the rules of the format.

use riparian_tests::Scrape;

const GOOD: &str = "# HELP a_seconds x y\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
    a_seconds_sum 1.5\na_seconds_count 3\na_seconds_bucket{le=\"0.1\"} 1\na_seconds_bucket{le=\"+Inf\"} 3\n\
    # HELP b x\n# TYPE b counter\nb_total{of=\"a \\\"b\\\"\\\\\\n\",and=\"\"} 7\n# EOF\n";

#[test]
fn a_scrape_is_read() {
    let scrape = Scrape::parse(GOOD);
    assert_eq!(scrape.value("b_total", &[("of", "a \"b\"\\\n"), ("and", "")]), Some(7.0));
    assert_eq!(scrape.sum("a_seconds_bucket", &[]), 4.0);
    assert_eq!(scrape.metric_names().into_iter().collect::<Vec<_>>(), ["a_seconds", "b_total"]);
}

#[test]
fn what_breaks_the_rules_is_refused() {
    for (good, bad) in [
        ("# EOF\n", ""),
        ("# EOF\n", "# EOF"),
        ("# UNIT a_seconds seconds", "# UNIT a_seconds bytes"),
        ("# TYPE b counter", "# TYPE b gauge"),
        ("# TYPE b counter\n", ""),
        ("# HELP b x\n", ""),
        ("# HELP b x", "# HELP a_seconds x"),
        ("# HELP b x", "# HELP b"),
        ("b_total{", "b{"),
        ("b_total{", "c_total{"),
        ("and=\"\"", "of=\"\""),
        (",and=\"\"", ","),
        ("} 7", "} -7"),
        ("} 7", "}7"),
        ("} 7", "} NaN"),
        ("a_seconds_count 3", "a_seconds_count 4"),
        ("a_seconds_count 3\n", ""),
        ("le=\"0.1\"} 1", "le=\"0.1\"} 4"),
        ("a_seconds_bucket{le=\"+Inf\"} 3\n", ""),
        ("a_seconds_sum 1.5\n", "a_seconds_sum 1.5\na_seconds_sum 1.5\n"),
    ] {
        let text = GOOD.replacen(good, bad, 1);
        assert_ne!(text, GOOD, "{good}");
        assert!(std::panic::catch_unwind(|| Scrape::parse(&text)).is_err(), "{bad:?} for {good:?} is accepted");
    }
}
