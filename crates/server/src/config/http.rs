//! `riparian.http.address`: its grammar. Binds nothing and resolves nothing.

use std::fmt;

use super::listeners::{Endpoint, HostPort};

/// The key.
pub(crate) const HTTP_ADDRESS: &str = "riparian.http.address";

/// Where health and metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HttpAddress {
    /// At the usual place, or wherever there is room.
    Auto,
    /// Nowhere.
    Off,
    /// There, and nowhere else.
    At {
        /// Without brackets; empty means every interface.
        host: String,
        /// 0: any free port.
        port: u16,
    },
}

impl HttpAddress {
    /// Reads a value of the key.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.to_ascii_lowercase().as_str() {
            "auto" => return Ok(Self::Auto),
            "" | "off" => return Ok(Self::Off),
            _ => {}
        }
        let malformed = || {
            format!(
                "{text:?} is not an address; allowed: host:port (port 0 for any free one), for example 0.0.0.0:9464, or auto, or off"
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
            None if host.contains([':', '/', '[', ']']) => return Err(malformed()),
            None => host,
            Some(None) => return Err(malformed()),
            Some(Some(host)) => host,
        };
        let port = port.parse().map_err(|_| malformed())?;
        Ok(Self::At { host: host.to_owned(), port })
    }

    /// Whether it asks for the port of this listener.
    pub(crate) fn clashes_with(&self, listener: &Endpoint) -> bool {
        let is_any = |host: &str| matches!(host, "" | "0.0.0.0" | "::");
        match self {
            Self::Auto | Self::Off => false,
            Self::At { host, port } => {
                let same_host = *host == listener.host || is_any(host) || is_any(&listener.host);
                *port != 0 && *port == listener.port && same_host
            }
        }
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::At { host, port } => HostPort(host, *port).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = HttpAddress::parse(text).map_or_else(|error| error, |address| address.to_string());
        let expected = expected.replace(
            "MALFORMED",
            "is not an address; allowed: host:port (port 0 for any free one), for example 0.0.0.0:9464, or auto, or off",
        );
        assert_eq!(found, expected);
    }

    #[test]
    fn an_address_is_a_host_and_a_port_or_a_word() {
        check("auto", "auto");
        check(" OFF ", "off");
        check("", "off");
        check("localhost:9464", "localhost:9464");
        check("[::1]:0", "[::1]:0");
        check(":80", ":80");
        for text in ["9464", "localhost", "http://localhost:80", "::1:80", "[::1:80", "a:70000", "a:-1", "a:"] {
            check(text, &format!("{text:?} MALFORMED"));
        }
    }

    #[test]
    fn a_listeners_port_is_not_free() {
        let listener = Endpoint { name: "PLAINTEXT".into(), host: "127.0.0.1".into(), port: 9092 };
        let clashes = |text: &str| HttpAddress::parse(text).unwrap().clashes_with(&listener);
        assert!(clashes("127.0.0.1:9092") && clashes("0.0.0.0:9092") && clashes(":9092"));
        assert!(!clashes("127.0.0.1:9464") && !clashes("127.0.0.1:0") && !clashes("[::1]:9092") && !clashes("auto"));
    }
}
