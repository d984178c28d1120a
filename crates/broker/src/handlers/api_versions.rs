//! ApiVersions (key 18, versions 0 to 4): what is served.
//!
//! A version that is not served is answered with a version 0 body that names the served range, so that the client can
//! try again (KIP-511). A client whose software has no proper name or version is refused (INVALID_REQUEST).

use std::borrow::Cow;

use riparian_metadata::features;
use riparian_protocol::{
    ApiKey, ErrorCode,
    messages::{
        ApiVersionsRequest, ApiVersionsResponse,
        api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey},
    },
};
use riparian_wire::{DecodeError, Reader};

use crate::{
    handlers::{APIS, Api},
    request::Context,
};

pub(crate) const API: Api = Api { key: ApiKey::ApiVersions, handle };

/// Older clients do not say what they are.
const SOFTWARE_NAME_SINCE: i16 = 3;

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let request = ApiVersionsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
    let names = [&request.client_software_name, &request.client_software_version];
    if ctx.version() >= SOFTWARE_NAME_SINCE && !names.iter().all(|name| is_software_name(name)) {
        ctx.reply(&ApiVersionsResponse { error_code: ErrorCode::InvalidRequest as i16, ..Default::default() });
        return Ok(());
    }
    let image = ctx.broker.image();
    let mut response = ApiVersionsResponse { api_keys: served(), ..Default::default() };
    if ctx.version() >= 3 {
        response.supported_features = features::SUPPORTED
            .iter()
            .map(|feature| SupportedFeatureKey {
                name: Cow::Borrowed(feature.name),
                min_version: feature.level_min,
                max_version: feature.level_max,
                ..Default::default()
            })
            .collect();
        response.finalized_features = image
            .features()
            .iter()
            .map(|(name, level)| FinalizedFeatureKey {
                name: Cow::Owned(name.clone()),
                max_version_level: *level,
                min_version_level: *level,
                ..Default::default()
            })
            .collect();
        response.finalized_features_epoch = image.features_epoch();
    }
    ctx.reply(&response);
    Ok(())
}

/// Answers a request of a version that is not served.
pub(crate) fn refuse_version(ctx: &Context<'_>) {
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion as i16,
        api_keys: served().into_iter().filter(|api| api.api_key == ApiKey::ApiVersions as i16).collect(),
        ..Default::default()
    };
    let to = crate::request::ReplyTo { version: 0, ..ctx.to };
    ctx.broker.reply(to, &response);
}

/// Letters and digits, with dots and dashes between them: what can stand in a log line or a metric's name.
fn is_software_name(name: &str) -> bool {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let at_the_ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    at_the_ends(bytes.first()) && at_the_ends(bytes.last()) && bytes.iter().all(inside)
}

fn served() -> Vec<ApiVersion> {
    let apis = APIS.iter().filter_map(|api| {
        let versions = api.key.served()?;
        Some(ApiVersion {
            api_key: api.key.code(),
            min_version: versions.min,
            max_version: versions.max,
            ..Default::default()
        })
    });
    apis.collect()
}
