//! Keys with their values as text and where each came from.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use riparian_metadata::config::{BrokerConfig, Scope, key};

use super::{ConfigErrors, http::HTTP_ADDRESS, properties::Property};
use crate::cli::ServeOptions;

/// Environment variables start with this; the rest is the key in capitals, with `_` for `.`.
pub(crate) const ENVIRONMENT_PREFIX: &str = "RIPARIAN_";
/// Variables that are no keys: flags of the command line have them as their default, or the tests use them.
const OTHER_VARIABLES: [&str; 5] =
    ["RIPARIAN_CONFIG", "RIPARIAN_LOG", "RIPARIAN_LOG_FORMAT", "RIPARIAN_BOOTSTRAP", "RIPARIAN_BIN"];

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    File { path: PathBuf, line: usize },
    Environment { variable: String },
    Flag { flag: &'static str },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{} line {line}", path.display()),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// All that was said, the last word winning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    settings: BTreeMap<String, Setting>,
}

impl Settings {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings.iter().map(|(key, setting)| (key.as_str(), setting))
    }

    pub(crate) fn source(&self, key: &str) -> Option<&Source> {
        self.settings.get(key).map(|setting| &setting.source)
    }

    pub(crate) fn add_file(&mut self, path: &Path, properties: Vec<Property>) {
        for Property { line, key, value } in properties {
            self.add(key, value, Source::File { path: path.to_owned(), line });
        }
    }

    pub(crate) fn add_environment(&mut self, environment: impl Iterator<Item = (String, String)>) {
        // In the order of names, so that two variables for one key give the same result every time.
        let variables: BTreeMap<String, String> = environment.collect();
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
            if !OTHER_VARIABLES.contains(&variable.as_str()) {
                self.add(key_of_variable(name), value, Source::Environment { variable });
            }
        }
    }

    pub(crate) fn add_flags(&mut self, options: &ServeOptions) -> Result<(), ConfigErrors> {
        for assignment in &options.set {
            let Some((key, value)) = assignment.split_once('=') else {
                return Err(ConfigErrors(vec![format!(
                    "--set {assignment}: allowed is key=value, for example --set num.partitions=3"
                )]));
            };
            self.add(key.trim().to_owned(), value.to_owned(), Source::Flag { flag: "--set" });
        }
        let named = [
            ("listeners", &options.listeners, "--listeners"),
            ("advertised.listeners", &options.advertised_listeners, "--advertised-listeners"),
            (HTTP_ADDRESS, &options.http_address, "--http-address"),
            ("log.dirs", &options.data_dir.as_ref().map(|path| path.display().to_string()), "--data-dir"),
        ];
        for (key, value, flag) in named {
            if let Some(value) = value {
                self.add(key.to_owned(), value.clone(), Source::Flag { flag });
            }
        }
        if let Some(port) = options.port {
            let listeners = self.with_port(port)?;
            self.add("listeners".to_owned(), listeners, Source::Flag { flag: "--port" });
        }
        Ok(())
    }

    /// `listeners` as they stand, with another port.
    fn with_port(&self, port: u16) -> Result<String, ConfigErrors> {
        let text = |key| self.settings.get(key).map(|setting| setting.value.clone());
        let listeners = text("listeners").or_else(|| BrokerConfig::empty().string("listeners")).unwrap_or_default();
        let controllers = text("controller.listener.names").unwrap_or_default();
        let is_controller = |item: &str| {
            controllers.split(',').any(|name| {
                !name.trim().is_empty()
                    && item.split_once("://").is_some_and(|(item, _)| item.eq_ignore_ascii_case(name.trim()))
            })
        };
        let mut ours = listeners.split(',').map(str::trim).filter(|item| !item.is_empty() && !is_controller(item));
        match (ours.next().and_then(|item| item.rsplit_once(':')), ours.next()) {
            (Some((before, _)), None) => Ok(format!("{before}:{port}")),
            _ => Err(ConfigErrors(vec![format!(
                "--port {port} needs exactly one listener, but listeners is {listeners}; use --listeners instead"
            )])),
        }
    }

    fn add(&mut self, key: String, value: String, source: Source) {
        self.settings.insert(key, Setting { value, source });
    }
}

/// The key that a variable without its prefix stands for.
fn key_of_variable(name: &str) -> String {
    let dotted = name.to_ascii_lowercase().replace('_', ".");
    let own = format!("riparian.{dotted}");
    if key(Scope::Broker, &dotted).is_none() && key(Scope::Broker, &own).is_some() { own } else { dotted }
}
