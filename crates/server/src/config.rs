//! Configuration: what the file, the environment and the flags say, and what follows.
//!
//! Keys and values are [`riparian_metadata::config`]'s; here it is decided where a value comes from and whether the whole
//! can be served. Flags win over the environment, that over the file.
//!
//! **Invariant:** [`load`] touches nothing but the file: all that can be known to be wrong is told before a port is bound or
//! a directory made.

pub(crate) mod dump;
pub(crate) mod http;
pub(crate) mod listeners;
pub(crate) mod properties;
mod settings;

use std::{collections::BTreeMap, fmt, net::IpAddr, path::PathBuf};

use anyhow::Result;
use riparian_assignor::built_in;
use riparian_metadata::config::{BrokerConfig, SetError, Support};

pub(crate) use settings::{Settings, Source};

use self::{
    http::{HTTP_ADDRESS, HttpAddress},
    listeners::{Listener, Sources, resolve},
};
use crate::{
    cli::ServeOptions,
    net::{addresses::AddressLimits, connection::HeldLimits, listen::Limits},
};

const ASSIGNORS: &str = "group.streams.assignors";
const ADDRESS_OVERRIDES: &str = "max.connections.per.ip.overrides";
/// Keys of Kafka's that close a server; to run open all the same would be a trap.
const SECURITY_KEYS: [&str; 2] = ["authorizer.class.name", "security.providers"];

/// Where the data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataDir {
    Kept(PathBuf),
    /// A temporary directory that goes with the process.
    Ephemeral,
}

/// What the names of this server's own keys begin with.
const OWN_PREFIX: &str = "riparian.";

/// A checked configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) broker: BrokerConfig,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) http: HttpAddress,
    pub(crate) data_dir: DataDir,
    pub(crate) limits: Limits,
    pub(crate) remarks: Vec<Remark>,
    pub(crate) settings: Settings,
}

/// Something about the configuration that deserves a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remark {
    /// Keys that nobody knows.
    Unknown(String),
    /// Kafka's keys that mean nothing here.
    WithoutEffect(Vec<String>),
    /// `--port` moved a listener away from the port that clients are told.
    OtherPort { advertised: String, source: String },
}

/// All that is wrong, one line each.
#[derive(Debug)]
pub(crate) struct ConfigErrors(pub(crate) Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

/// Reads the file, the environment and the flags.
pub(crate) fn load(options: &ServeOptions, environment: impl Iterator<Item = (String, String)>) -> Result<Config> {
    let mut settings = Settings::default();
    if let Some(path) = &options.config {
        let wrong = |why: String| ConfigErrors(vec![format!("--config {}: {why}", path.display())]);
        let bytes = std::fs::read(path).map_err(|error| wrong(format!("the file cannot be read: {error}")))?;
        let properties = properties::parse(&properties::text_of(bytes)).map_err(|error| wrong(format!("{error:#}")))?;
        settings.add_file(path, properties);
    }
    settings.add_environment(environment);
    settings.add_flags(options)?;
    Ok(check(settings, options.ephemeral)?)
}

fn check(settings: Settings, ephemeral: bool) -> Result<Config, ConfigErrors> {
    let mut broker = BrokerConfig::empty();
    let mut errors = Vec::new();
    let mut remarks = Vec::new();
    let mut without_effect = Vec::new();
    for (key, setting) in settings.iter() {
        if SECURITY_KEYS.contains(&key) && !setting.value.trim().is_empty() {
            errors.push(format!(
                "{key} is set ({}), but access control is not available yet; remove the key to run a server that is open to all",
                setting.source
            ));
            continue;
        }
        match broker.set(key, &setting.value) {
            Ok(known) if matches!(known.support, Support::NoEffect(_)) => without_effect.push(key.to_owned()),
            Ok(_) => {}
            Err(SetError::KafkaOnly { key }) => without_effect.push(key),
            // Nobody but this server has such keys: a misspelt one would leave unset what somebody counts on.
            Err(SetError::Unknown(error)) if key.starts_with(OWN_PREFIX) => {
                errors.push(format!("{error} ({})", setting.source));
            }
            Err(SetError::Unknown(error)) => remarks.push(Remark::Unknown(format!("{error} ({})", setting.source))),
            Err(SetError::Invalid(error)) => errors.push(format!("{error} ({})", setting.source)),
        }
    }
    if !without_effect.is_empty() {
        remarks.push(Remark::WithoutEffect(without_effect));
    }
    if errors.is_empty() {
        errors.extend(broker.check().into_iter().map(|error| match settings.source(error.key()) {
            Some(source) => format!("{error} ({source})"),
            None => error.to_string(),
        }));
    }
    if errors.is_empty()
        && let Err(reason) = check_assignors(&broker)
    {
        let source = settings.source(ASSIGNORS).map(|source| format!(" ({source})")).unwrap_or_default();
        errors.push(format!("{ASSIGNORS}: {reason}{source}"));
    }
    let listeners = resolve_listeners(&broker).unwrap_or_else(|bad| {
        // Without good text there is nothing more to say about listeners.
        if errors.is_empty() {
            let source = settings.source(bad.key).map(|source| format!(" ({source})")).unwrap_or_default();
            errors.push(format!("{}: {}{source}", bad.key, bad.reason));
        }
        Vec::new()
    });
    let http = http_address(&broker, &listeners).unwrap_or_else(|reason| {
        let source = settings.source(HTTP_ADDRESS).map(|source| format!(" ({source})")).unwrap_or_default();
        errors.push(format!("{HTTP_ADDRESS}: {reason}{source}"));
        HttpAddress::Off
    });
    let overrides = broker.string(ADDRESS_OVERRIDES).unwrap_or_default();
    let overrides = AddressLimits::parse_overrides(&overrides).unwrap_or_else(|reason| {
        let source = settings.source(ADDRESS_OVERRIDES).map(|source| format!(" ({source})")).unwrap_or_default();
        errors.push(format!("{ADDRESS_OVERRIDES}: {reason}{source}"));
        BTreeMap::new()
    });
    if !errors.is_empty() {
        return Err(ConfigErrors(errors));
    }
    remarks.extend(other_port(&settings, &listeners));
    let data_dir = if ephemeral { DataDir::Ephemeral } else { DataDir::Kept(data_dir(&broker)) };
    let limits = limits(&broker, overrides);
    Ok(Config { broker, listeners, http, data_dir, limits, remarks, settings })
}

/// The machines take the first of the list, or what a group's `streams.assignor.name` picks of it: each must be there.
fn check_assignors(broker: &BrokerConfig) -> Result<(), String> {
    let names = broker.list(ASSIGNORS);
    let known = || built_in::ASSIGNORS.iter().map(|assignor| assignor.name()).collect::<Vec<_>>().join(", ");
    if names.is_empty() {
        return Err(format!("no assignor is named, there is {}", known()));
    }
    match names.iter().find(|name| built_in::find(name).is_none()) {
        Some(unknown) => Err(format!("there is no assignor '{unknown}', only {}", known())),
        None => Ok(()),
    }
}

/// A flag that names a port should not leave clients with the port of a file without a word.
fn other_port(settings: &Settings, listeners: &[Listener]) -> Option<Remark> {
    let Source::Flag { flag: "--port" } = settings.source("listeners")? else { return None };
    let source = settings.source("advertised.listeners")?;
    let moved = listeners.iter().find(|it| it.advertised.port != 0 && it.advertised.port != it.bind.port)?;
    Some(Remark::OtherPort { advertised: moved.advertised.to_string(), source: source.to_string() })
}

fn resolve_listeners(broker: &BrokerConfig) -> Result<Vec<Listener>, listeners::BadListener> {
    let advertised = broker.string("advertised.listeners").filter(|text| !text.is_empty());
    resolve(&Sources {
        listeners: &broker.string("listeners").unwrap_or_default(),
        advertised_listeners: advertised.as_deref(),
        protocol_map: &broker.string("listener.security.protocol.map").unwrap_or_default(),
        controller_names: &broker.string("controller.listener.names").unwrap_or_default(),
    })
}

fn http_address(broker: &BrokerConfig, listeners: &[Listener]) -> Result<HttpAddress, String> {
    let address = HttpAddress::parse(&broker.string(HTTP_ADDRESS).unwrap_or_default())?;
    match listeners.iter().find(|listener| address.clashes_with(&listener.bind)) {
        Some(listener) => {
            Err(format!("{address} has the port of the listener {}; allowed: any other port", listener.bind))
        }
        None => Ok(address),
    }
}

fn data_dir(broker: &BrokerConfig) -> PathBuf {
    let dirs = if broker.is_set("log.dirs") { broker.list("log.dirs") } else { broker.list("log.dir") };
    dirs.into_iter().next().expect("BrokerConfig::check demands exactly one directory").into()
}

fn limits(broker: &BrokerConfig, overrides: BTreeMap<IpAddr, usize>) -> Limits {
    let number = |key: &str| usize::try_from(broker.int(key)).unwrap_or(0);
    Limits {
        frame_bytes_max: usize::try_from(broker.int("socket.request.max.bytes")).unwrap_or(usize::MAX),
        // Below 0: never, as in Kafka.
        idle_ms_max: u64::try_from(broker.long("connections.max.idle.ms")).unwrap_or(u64::MAX),
        connections_max: number("max.connections"),
        addresses: AddressLimits { per_address: number("max.connections.per.ip"), overrides },
        connections_per_second: number("max.connection.creation.rate") as u64,
        held: HeldLimits {
            requests_max: number("riparian.connection.requests.max") as u64,
            unsent_bytes_max: number("riparian.connection.unsent.bytes.max"),
            all_bytes_max: usize::try_from(broker.long("riparian.connections.bytes.max")).unwrap_or(usize::MAX),
        },
    }
}

#[cfg(test)]
mod tests;
