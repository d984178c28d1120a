//! `listeners`, `advertised.listeners` and `listener.security.protocol.map`, as in Kafka.
//!
//! Owns their grammar and how they combine; binds nothing and resolves nothing.
//!
//! **Invariant:** what [`resolve`] returns can be served: every listener speaks PLAINTEXT, names and ports are unique,
//! and every listener has an address that a client elsewhere may be told.

use std::{collections::BTreeMap, fmt};

/// The only protocol that is served today.
const PLAINTEXT: &str = "PLAINTEXT";
const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

/// `NAME://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) name: String,
    /// Without brackets; empty means every interface when bound, this machine's name when advertised.
    pub(crate) host: String,
    /// 0: any free port when bound, the bound port when advertised.
    pub(crate) port: u16,
}

impl Endpoint {
    /// Whether it stands for every interface.
    fn is_wildcard(&self) -> bool {
        self.host.is_empty() || self.is_meta_address()
    }

    /// Whether it is written as an address that nobody can connect to from elsewhere.
    fn is_meta_address(&self) -> bool {
        matches!(self.host.as_str(), "0.0.0.0" | "::")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.name, HostPort(&self.host, self.port))
    }
}

/// `host:port`, with brackets around an IPv6 address.
pub(crate) struct HostPort<'a>(pub(crate) &'a str, pub(crate) u16);

impl fmt::Display for HostPort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(f, "[{}]:{}", self.0, self.1) } else { write!(f, "{}:{}", self.0, self.1) }
    }
}

/// Where to listen, and what to tell clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) bind: Endpoint,
    /// Never a meta-address; the host is empty when this machine's name is meant, the port 0 when the bound one is.
    pub(crate) advertised: Endpoint,
}

/// What the four keys say, as text.
pub(crate) struct Sources<'a> {
    pub(crate) listeners: &'a str,
    /// `None`: as `listeners`.
    pub(crate) advertised_listeners: Option<&'a str>,
    pub(crate) protocol_map: &'a str,
    /// `controller.listener.names`: listeners of that name belong to a Kafka controller and are left out.
    pub(crate) controller_names: &'a str,
}

/// A value that is not allowed, and the key it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadListener {
    pub(crate) key: &'static str,
    pub(crate) reason: String,
}

const LISTENERS: &str = "listeners";
const ADVERTISED: &str = "advertised.listeners";
const PROTOCOL_MAP: &str = "listener.security.protocol.map";

/// Reads the four keys.
pub(crate) fn resolve(sources: &Sources<'_>) -> Result<Vec<Listener>, BadListener> {
    let protocols = parse_protocol_map(sources.protocol_map)?;
    let controllers: Vec<String> = names(sources.controller_names);
    let mut binds = parse_list(LISTENERS, sources.listeners)?;
    binds.retain(|endpoint| !controllers.contains(&endpoint.name));
    let Some(_) = binds.first() else {
        return Err(bad(
            LISTENERS,
            "names no listener to serve; allowed: for example PLAINTEXT://127.0.0.1:9092".into(),
        ));
    };
    for endpoint in &binds {
        check_protocol(&endpoint.name, &protocols)?;
    }
    check_ports(&binds)?;

    let Some(advertised_text) = sources.advertised_listeners else {
        return binds.into_iter().map(advertise_as_bound).collect();
    };
    let advertised = parse_list(ADVERTISED, advertised_text)?;
    for endpoint in &advertised {
        if endpoint.is_meta_address() {
            return Err(bad(
                ADVERTISED,
                format!("{endpoint} cannot be connected to; allowed: a host name or address that clients can reach"),
            ));
        }
        let known = binds.iter().any(|bind| bind.name == endpoint.name) || controllers.contains(&endpoint.name);
        if !known {
            let names: Vec<_> = binds.iter().map(|bind| bind.name.as_str()).collect();
            return Err(bad(
                ADVERTISED,
                format!("{} is not among listeners; allowed names: {}", endpoint.name, names.join(", ")),
            ));
        }
    }
    binds
        .into_iter()
        .map(|bind| match advertised.iter().find(|endpoint| endpoint.name == bind.name) {
            Some(endpoint) => Ok(Listener { advertised: endpoint.clone(), bind }),
            None => Err(bad(ADVERTISED, format!("has no entry for the listener {}", bind.name))),
        })
        .collect()
}

fn advertise_as_bound(bind: Endpoint) -> Result<Listener, BadListener> {
    if bind.is_meta_address() {
        return Err(bad(
            ADVERTISED,
            format!(
                "must be set when a listener is {bind}, because clients cannot connect to {}; for example {}://localhost:{}",
                bind.host, bind.name, bind.port
            ),
        ));
    }
    Ok(Listener { advertised: bind.clone(), bind })
}

fn bad(key: &'static str, reason: String) -> BadListener {
    BadListener { key, reason }
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_ascii_uppercase()).filter(|name| !name.is_empty()).collect()
}

fn parse_list(key: &'static str, text: &str) -> Result<Vec<Endpoint>, BadListener> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let endpoint = parse_endpoint(key, item)?;
        if endpoints.iter().any(|earlier| earlier.name == endpoint.name) {
            return Err(bad(key, format!("the name {} is used twice; every listener needs its own", endpoint.name)));
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

fn parse_endpoint(key: &'static str, item: &str) -> Result<Endpoint, BadListener> {
    let malformed = || {
        bad(
            key,
            format!("{item:?} is not a listener; allowed: NAME://host:port, for example PLAINTEXT://localhost:9092"),
        )
    };
    let (name, rest) = item.split_once("://").ok_or_else(malformed)?;
    let (host, port) = rest.rsplit_once(':').ok_or_else(malformed)?;
    let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
        None if host.contains([':', '/', '[', ']']) => return Err(malformed()),
        None => host,
        Some(None) => return Err(malformed()),
        Some(Some(host)) => host,
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')) {
        return Err(malformed());
    }
    let port = port.parse().map_err(|_| {
        bad(key, format!("{item:?} has the port {port:?}; allowed: a number from 0 to 65535, 0 for any free port"))
    })?;
    Ok(Endpoint { name: name.to_ascii_uppercase(), host: host.to_owned(), port })
}

fn parse_protocol_map(text: &str) -> Result<BTreeMap<String, String>, BadListener> {
    let mut map = BTreeMap::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let Some((name, protocol)) = item.split_once(':') else {
            return Err(bad(PROTOCOL_MAP, format!("{item:?} is not NAME:PROTOCOL, for example INTERNAL:PLAINTEXT")));
        };
        let protocol = protocol.trim().to_ascii_uppercase();
        if !PROTOCOLS.contains(&protocol.as_str()) {
            return Err(bad(PROTOCOL_MAP, format!("{protocol} is no protocol; allowed: {}", PROTOCOLS.join(", "))));
        }
        map.insert(name.trim().to_ascii_uppercase(), protocol);
    }
    Ok(map)
}

fn check_protocol(name: &str, protocols: &BTreeMap<String, String>) -> Result<(), BadListener> {
    let protocol = match protocols.get(name) {
        Some(protocol) => protocol.as_str(),
        None if PROTOCOLS.contains(&name) => name,
        None => {
            return Err(bad(
                LISTENERS,
                format!(
                    "the listener {name} has no protocol; name it PLAINTEXT, or add {name}:PLAINTEXT to {PROTOCOL_MAP}"
                ),
            ));
        }
    };
    if protocol == PLAINTEXT {
        return Ok(());
    }
    Err(bad(LISTENERS, format!("the listener {name} wants {protocol}, which is not available yet; allowed: PLAINTEXT")))
}

fn check_ports(binds: &[Endpoint]) -> Result<(), BadListener> {
    for (index, endpoint) in binds.iter().enumerate().filter(|(_, endpoint)| endpoint.port != 0) {
        let clash = binds[..index].iter().find(|earlier| {
            earlier.port == endpoint.port
                && (earlier.host == endpoint.host || earlier.is_wildcard() || endpoint.is_wildcard())
        });
        if let Some(earlier) = clash {
            return Err(bad(LISTENERS, format!("{earlier} and {endpoint} share a port; every listener needs its own")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources<'a>(listeners: &'a str, advertised: Option<&'a str>) -> Sources<'a> {
        Sources { listeners, advertised_listeners: advertised, protocol_map: "", controller_names: "" }
    }

    fn check(sources: &Sources<'_>, expected: &str) {
        let found = match resolve(sources) {
            Ok(listeners) => {
                listeners.iter().map(|l| format!("{} as {}", l.bind, l.advertised)).collect::<Vec<_>>().join("; ")
            }
            Err(error) => format!("{}: {}", error.key, error.reason),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_listener_is_advertised_as_it_is_bound() {
        check(&sources("plaintext://localhost:9092", None), "PLAINTEXT://localhost:9092 as PLAINTEXT://localhost:9092");
        check(&sources("PLAINTEXT://[::1]:0", None), "PLAINTEXT://[::1]:0 as PLAINTEXT://[::1]:0");
        check(&sources("PLAINTEXT://:9092", None), "PLAINTEXT://:9092 as PLAINTEXT://:9092");
    }

    #[test]
    fn every_interface_needs_an_advertised_address() {
        check(
            &sources("PLAINTEXT://0.0.0.0:9092", None),
            "advertised.listeners: must be set when a listener is PLAINTEXT://0.0.0.0:9092, because clients cannot connect to 0.0.0.0; for example PLAINTEXT://localhost:9092",
        );
        check(
            &sources("PLAINTEXT://0.0.0.0:9092", Some("PLAINTEXT://broker:19092")),
            "PLAINTEXT://0.0.0.0:9092 as PLAINTEXT://broker:19092",
        );
        check(
            &sources("PLAINTEXT://:9092", Some("PLAINTEXT://0.0.0.0:9092")),
            "advertised.listeners: PLAINTEXT://0.0.0.0:9092 cannot be connected to; allowed: a host name or address that clients can reach",
        );
    }

    #[test]
    fn several_listeners_are_matched_by_name() {
        let mut two = sources("IN://:9092, OUT://:9093", Some("OUT://example.org:443,IN://db1:9092"));
        two.protocol_map = "IN:PLAINTEXT,OUT:plaintext";
        check(&two, "IN://:9092 as IN://db1:9092; OUT://:9093 as OUT://example.org:443");
        two.advertised_listeners = Some("IN://db1:9092");
        check(&two, "advertised.listeners: has no entry for the listener OUT");
        two.advertised_listeners = Some("IN://db1:9092,OTHER://x:1");
        check(&two, "advertised.listeners: OTHER is not among listeners; allowed names: IN, OUT");
    }

    #[test]
    fn a_kafka_controllers_listener_is_left_out() {
        let mut combined = sources("PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093", None);
        combined.controller_names = "CONTROLLER";
        check(&combined, "PLAINTEXT://localhost:9092 as PLAINTEXT://localhost:9092");
        combined.listeners = "CONTROLLER://localhost:9093";
        check(&combined, "listeners: names no listener to serve; allowed: for example PLAINTEXT://127.0.0.1:9092");
    }

    #[test]
    fn only_plaintext_is_served() {
        check(
            &sources("SSL://localhost:9092", None),
            "listeners: the listener SSL wants SSL, which is not available yet; allowed: PLAINTEXT",
        );
        check(
            &sources("INSIDE://localhost:9092", None),
            "listeners: the listener INSIDE has no protocol; name it PLAINTEXT, or add INSIDE:PLAINTEXT to listener.security.protocol.map",
        );
        let mut mapped = sources("A://localhost:9092", None);
        mapped.protocol_map = "A:TLS";
        check(
            &mapped,
            "listener.security.protocol.map: TLS is no protocol; allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        );
        mapped.protocol_map = "A";
        check(&mapped, "listener.security.protocol.map: \"A\" is not NAME:PROTOCOL, for example INTERNAL:PLAINTEXT");
    }

    #[test]
    fn malformed_listeners_say_what_is_allowed() {
        for text in
            ["localhost:9092", "PLAINTEXT://localhost", "PLAINTEXT://::1:9092", "PLAINTEXT://[::1:9092", "://a:1"]
        {
            let expected = format!(
                "listeners: {text:?} is not a listener; allowed: NAME://host:port, for example PLAINTEXT://localhost:9092"
            );
            check(&sources(text, None), &expected);
        }
        check(
            &sources("PLAINTEXT://a:65536", None),
            "listeners: \"PLAINTEXT://a:65536\" has the port \"65536\"; allowed: a number from 0 to 65535, 0 for any free port",
        );
    }

    #[test]
    fn names_and_ports_are_unique() {
        check(
            &sources("PLAINTEXT://a:1,PLAINTEXT://b:2", None),
            "listeners: the name PLAINTEXT is used twice; every listener needs its own",
        );
        let mut two = sources("A://localhost:1,B://:1", None);
        two.protocol_map = "A:PLAINTEXT,B:PLAINTEXT";
        check(&two, "listeners: A://localhost:1 and B://:1 share a port; every listener needs its own");
    }
}
