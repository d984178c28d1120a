//! Turning borrowed field values into owned ones; shared by the `into_owned` of every generated struct.

use alloc::{borrow::Cow, vec::Vec};

/// An owned string.
pub fn string(value: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(value.into_owned())
}

/// An owned string or null.
pub fn nullable_string(value: Option<Cow<'_, str>>) -> Option<Cow<'static, str>> {
    value.map(string)
}

/// Owned bytes.
pub fn bytes(value: Cow<'_, [u8]>) -> Cow<'static, [u8]> {
    Cow::Owned(value.into_owned())
}

/// Owned bytes or null.
pub fn nullable_bytes(value: Option<Cow<'_, [u8]>>) -> Option<Cow<'static, [u8]>> {
    value.map(bytes)
}

/// Owned strings.
pub fn strings(values: Vec<Cow<'_, str>>) -> Vec<Cow<'static, str>> {
    values.into_iter().map(string).collect()
}

/// Owned strings or null.
pub fn nullable_strings(values: Option<Vec<Cow<'_, str>>>) -> Option<Vec<Cow<'static, str>>> {
    values.map(strings)
}

/// Owned structs.
pub fn structs<T, O>(values: Vec<T>, into_owned: fn(T) -> O) -> Vec<O> {
    values.into_iter().map(into_owned).collect()
}
