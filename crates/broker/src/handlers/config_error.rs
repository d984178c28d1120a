//! The one mapping from configuration errors to codes, shared by the APIs that set configs.

use riparian_metadata::config::ConfigError;
use riparian_protocol::ErrorCode;

/// The code of a refused key or value.
pub(crate) fn code(error: &ConfigError) -> ErrorCode {
    match error {
        ConfigError::NullValue { .. } | ConfigError::DuplicateKey { .. } | ConfigError::ReadOnly { .. } => {
            ErrorCode::InvalidRequest
        }
        _ => ErrorCode::InvalidConfig,
    }
}
