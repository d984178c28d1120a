//! Health, version and metrics over HTTP.
//!
//! These are about our own binary only.

mod metrics {
    mod counters;
    mod documents;
    mod format;
    mod groups;
    mod health;
    mod hostile;
    mod limits;
    mod member;
}
