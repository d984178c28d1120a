//! What is known about an API besides its messages.

use core::fmt;

use riparian_wire::VersionRange;

use crate::ApiKey;

/// One row of the registry.
pub(crate) struct Info {
    pub(crate) name: &'static str,
    pub(crate) versions: VersionRange,
    pub(crate) served: Option<VersionRange>,
    pub(crate) flexible_from: i16,
}

impl ApiKey {
    /// The API with this code, if there is a schema for it.
    pub fn from_code(code: i16) -> Option<Self> {
        let index = Self::ALL.binary_search_by_key(&code, |key| key.code()).ok()?;
        Some(Self::ALL[index])
    }

    /// The number that stands in request headers.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Kafka's name, for example `OffsetCommit`.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The versions that there is code for.
    pub const fn versions(self) -> VersionRange {
        self.info().versions
    }

    /// The versions that a server with all handlers advertises; `None` if it has no handler by intention.
    ///
    /// This may be more than [`ApiKey::versions`]: Produce 0 to 2 are advertised for old clients that look for them, but
    /// refused.
    pub const fn served(self) -> Option<VersionRange> {
        self.info().served
    }

    /// The version of the request header, 1 or 2, for this version of the API; the version need not be a known one.
    pub const fn request_header_version(self, api_version: i16) -> i16 {
        if api_version >= self.info().flexible_from { 2 } else { 1 }
    }

    /// The version of the response header, 0 or 1, for this version of the API.
    ///
    /// ApiVersions always has 0, for a client must be able to read the answer before it knows anything (KIP-511).
    pub const fn response_header_version(self, api_version: i16) -> i16 {
        if !matches!(self, Self::ApiVersions) && api_version >= self.info().flexible_from { 1 } else { 0 }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::ApiKey;

    #[test]
    fn codes_find_their_api() {
        for key in ApiKey::ALL {
            assert_eq!(ApiKey::from_code(key.code()), Some(key));
        }
        assert_eq!(ApiKey::from_code(-1), None);
        assert_eq!(ApiKey::from_code(i16::MAX), None);
    }

    #[test]
    fn header_versions_follow_flexible_versions() {
        assert_eq!(ApiKey::ApiVersions.request_header_version(2), 1);
        assert_eq!(ApiKey::ApiVersions.request_header_version(99), 2);
        assert_eq!(ApiKey::ApiVersions.response_header_version(4), 0);
        assert_eq!(ApiKey::StreamsGroupHeartbeat.response_header_version(0), 1);
        assert_eq!(ApiKey::OffsetDelete.request_header_version(0), 1);
    }
}
