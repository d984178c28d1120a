//! What can go wrong when talking to a server.

use std::{fmt, io, time::Duration};

use riparian_protocol::ErrorCode;

use crate::core::CoreError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No address of the list could be connected to.
    #[error("no server can be reached: {}", .attempts.join("; "))]
    Unreachable {
        /// What happened with each address.
        attempts: Vec<String>,
    },
    /// The connection broke.
    #[error("the connection to {address} broke: {source}")]
    Broken {
        /// The server.
        address: String,
        /// How.
        source: io::Error,
    },
    /// The server did not answer in time.
    #[error("{address} did not answer within {timeout:?}")]
    TimedOut {
        /// The server.
        address: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// The two sides do not understand each other.
    #[error("{address}: {source}")]
    Protocol {
        /// The server.
        address: String,
        /// Why.
        source: CoreError,
    },
    /// The server said no.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A node that the server named is not among its nodes.
    #[error("the server names node {node_id}, which is not in its list of nodes")]
    UnknownNode {
        /// The node.
        node_id: i32,
    },
}

/// An error code of an answer, with the server's own words if it sent any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The code as sent.
    pub code: i16,
    /// The server's text.
    pub message: Option<String>,
}

impl ServerError {
    /// The error of an answer; `None` if it reports success.
    pub fn check(code: i16, message: Option<&str>) -> Result<(), Self> {
        if code == ErrorCode::None.code() {
            return Ok(());
        }
        let message = message.filter(|message| !message.is_empty()).map(str::to_owned);
        Err(Self { code, message })
    }

    /// The code, if it is a known one.
    pub fn error_code(&self) -> Option<ErrorCode> {
        ErrorCode::from_code(self.code)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.error_code();
        match (&self.message, code) {
            (Some(message), Some(code)) => write!(f, "{message} ({})", code.name()),
            (Some(message), None) => write!(f, "{message} (error {})", self.code),
            (None, Some(code)) => write!(f, "{} ({})", code.message(), code.name()),
            (None, None) => write!(f, "error {}, which this client does not know", self.code),
        }
    }
}

impl std::error::Error for ServerError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_errors_show_the_servers_words_first() {
        let text = |code, message| ServerError::check(code, message).unwrap_err().to_string();
        assert_eq!(text(36, Some("topic 'a' exists")), "topic 'a' exists (TOPIC_ALREADY_EXISTS)");
        assert!(text(36, Some("")).ends_with("(TOPIC_ALREADY_EXISTS)"));
        assert_eq!(text(9999, None), "error 9999, which this client does not know");
        assert_eq!(ServerError::check(0, None), Ok(()));
    }
}
