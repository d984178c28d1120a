//! Configuration.

pub(crate) mod listeners;
pub(crate) mod properties;
