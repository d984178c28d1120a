//! What the APIs about configs share: which resources have configs, who may touch them, and what a refused key or value
//! is called on the wire.

use riparian_metadata::{ConfigResource, config::ConfigError};
use riparian_protocol::ErrorCode;

use crate::{
    authorizer::{Operation, Resource},
    request::Context,
};

/// The resource that a request means, if it has configs and the caller may do this to them.
pub(crate) fn find(
    ctx: &Context<'_>,
    operation: Operation,
    type_number: i8,
    name: &str,
) -> Result<ConfigResource, (ErrorCode, String)> {
    let Some(resource) = ConfigResource::from_parts(type_number, name) else {
        let text = format!(
            "resource type {type_number} with name '{name}' has no configs here: allowed are topics (2), this broker by its \
             number or all brokers without a name (4), and groups (32)"
        );
        return Err((ErrorCode::InvalidRequest, text));
    };
    let (right, denied) = match &resource {
        ConfigResource::Topic(name) => (Resource::Topic(name), ErrorCode::TopicAuthorizationFailed),
        ConfigResource::Broker(_) => (Resource::Cluster, ErrorCode::ClusterAuthorizationFailed),
        ConfigResource::Group(group) => (Resource::Group(group), ErrorCode::GroupAuthorizationFailed),
    };
    if ctx.allows(operation, right) { Ok(resource) } else { Err((denied, denied.message().to_owned())) }
}

/// The code of a refused key or value.
pub(crate) fn error_code(error: &ConfigError) -> ErrorCode {
    match error {
        ConfigError::NullValue { .. } | ConfigError::DuplicateKey { .. } | ConfigError::ReadOnly { .. } => {
            ErrorCode::InvalidRequest
        }
        _ => ErrorCode::InvalidConfig,
    }
}
