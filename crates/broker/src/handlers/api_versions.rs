//! ApiVersions (key 18, versions 0 to 4): what is served.
//!
//! A version that is not served is answered with a version 0 body that names the served range, so that the client can
//! try again (KIP-511).

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

fn handle(ctx: Context<'_>, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    ApiVersionsRequest::decode(reader, ctx.version())?;
    reader.finish()?;
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
