//! The tables as a page: `docs/config.md`.

use alloc::{format, string::String};
use core::fmt::Write;

use super::{
    ConfigKey, KAFKA_ONLY_BROKER_KEYS, Support, broker_keys, group_check::bounds, group_keys, own_keys, topic_keys,
};

const INTRODUCTION: &str = "\
# Configuration keys

<!-- Generated from the tables in `crates/metadata/src/config`; a test fails when this page is stale. -->

Kafka's keys keep Kafka's names, types, bounds and, unless the text says why not, defaults.
Keys that start with `riparian.` are this server's own.
A value set on a topic or group wins over one set on the broker while it runs, that over one in the server's properties, and that over the default.
*Without effect* marks a key that is accepted and shown so that files and tools written for Kafka work, but changes nothing.
";

/// The page that documents every key.
pub fn config_markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    section(
        &mut page,
        "Server",
        "Set in the properties file, the environment or by flag. *Dynamic* ones can be changed while the server runs.",
    );
    table(&mut page, broker_keys().filter(|key| !own_keys::OWN_KEYS.iter().any(|own| own.name == key.name)));
    section(&mut page, "Server, our own", "");
    table(&mut page, own_keys::OWN_KEYS.iter());
    section(&mut page, "Topics", "Set when a topic is created, or later with `kafka-configs --entity-type topics`.");
    table(&mut page, topic_keys().iter());
    section(
        &mut page,
        "Groups",
        "Set with `kafka-configs --entity-type groups`; a streams group's id is its `application.id`.\nThe broker's `min` and `max` keys bound the values.",
    );
    table(&mut page, group_keys().iter());
    section(&mut page, "Kafka's keys that mean nothing here", "They may stand in a properties file and are ignored.");
    for key in KAFKA_ONLY_BROKER_KEYS {
        page.push_str(&format!("- `{key}`\n"));
    }
    page
}

fn section(page: &mut String, title: &str, text: &str) {
    page.push_str(&format!("\n## {title}\n\n"));
    if !text.is_empty() {
        page.push_str(text);
        page.push_str("\n\n");
    }
}

fn table(page: &mut String, keys: impl Iterator<Item = &'static ConfigKey>) {
    page.push_str("| key | type | default | allowed | what it does |\n| --- | --- | --- | --- | --- |\n");
    for key in keys {
        row(page, key).expect("writing to a string succeeds");
    }
}

fn row(page: &mut String, key: &ConfigKey) -> core::fmt::Result {
    write!(page, "| `{}` | {}", key.name, key.kind.config_type())?;
    if !key.unit.as_str().is_empty() {
        write!(page, ", {}", key.unit.as_str())?;
    }
    match key.default {
        None => page.write_str(" | none")?,
        Some("") => page.write_str(" | empty")?,
        Some(default) => write!(page, " | `{default}`")?,
    }
    write!(page, " | {} | {}", key.kind, key.doc)?;
    for synonym in key.synonyms {
        let lead = if synonym.name == key.synonyms[0].name { " Broker default:" } else { ", then" };
        write!(page, "{lead} `{}`", synonym.name)?;
    }
    if !key.synonyms.is_empty() {
        page.write_str(".")?;
    }
    if key.scope == super::Scope::Group {
        match bounds(key.name) {
            [Some(min), Some(max)] => write!(page, " From `{min}` to `{max}`.")?,
            [Some(min), None] => write!(page, " At least `{min}`.")?,
            [None, Some(max)] => write!(page, " At most `{max}`.")?,
            [None, None] => {}
        }
    }
    if key.scope == super::Scope::Broker && key.dynamic {
        page.write_str(" Dynamic.")?;
    }
    if key.internal {
        page.write_str(" Not listed by describe.")?;
    }
    if let Support::NoEffect(why) = key.support {
        write!(page, " *Without effect:* {why}.")?;
    }
    page.write_str(" |\n")
}

#[cfg(test)]
mod tests {
    use super::config_markdown;

    #[test]
    fn the_checked_in_page_is_fresh() {
        expect_test::expect_file!["../../../../docs/config.md"].assert_eq(&config_markdown());
    }
}
