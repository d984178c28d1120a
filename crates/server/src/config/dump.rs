//! `--dump-config`: the configuration as a properties file that says where each value comes from.

use std::fmt::Write;

use riparian_metadata::config::{ConfigKey, Kind, Support, broker_keys};

use super::{Config, DataDir, properties::escape_value};

const HIDDEN: &str = "[hidden]";
/// Parts of names of keys whose values are nobody's business.
const SECRET_PARTS: [&str; 5] = ["password", "secret", "jaas", "credential", "keystore.key"];

/// The whole configuration; what is secret is hidden.
pub(crate) fn dump(config: &Config) -> String {
    let mut text = String::new();
    write_dump(&mut text, config).expect("writing to a string succeeds");
    text
}

fn write_dump(text: &mut String, config: &Config) -> std::fmt::Result {
    let mut ignored = Vec::new();
    writeln!(text, "# What was set")?;
    for (name, setting) in config.settings.iter() {
        if !config.broker.is_set(name) {
            ignored.push((name, setting));
        } else if name == "log.dirs" && config.data_dir == DataDir::Ephemeral {
            writeln!(text, "# {name} is a temporary directory, removed at exit (flag --ephemeral)")?;
        } else {
            let value = config.broker.string(name).unwrap_or_default();
            writeln!(text, "# {}\n{name}={}", setting.source, shown(name, &value))?;
        }
    }
    if !ignored.is_empty() {
        writeln!(text, "\n# What was set and is ignored")?;
        for (name, setting) in ignored {
            writeln!(text, "# {name}={} ({})", shown(name, &setting.value), setting.source)?;
        }
    }
    writeln!(text, "\n# Defaults")?;
    let works = |key: &&ConfigKey| !key.internal && key.support == Support::Full;
    for key in broker_keys().filter(works).filter(|key| !config.broker.is_set(key.name)) {
        match config.broker.string(key.name) {
            Some(value) if key.kind != Kind::Password => writeln!(text, "{}={}", key.name, escape_value(&value))?,
            Some(_) => writeln!(text, "{}={HIDDEN}", key.name)?,
            None => {}
        }
    }
    Ok(())
}

fn shown(name: &str, value: &str) -> String {
    if SECRET_PARTS.iter().any(|part| name.contains(part)) { HIDDEN.to_owned() } else { escape_value(value) }
}
