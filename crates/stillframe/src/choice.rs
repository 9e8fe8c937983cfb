//! Options whose values have names.

use crate::error::{Error, Result};

/// The value of a name, of all that an option may have.
pub(crate) fn find<T: Copy>(option: &'static str, all: &[T], name: fn(T) -> &'static str, text: &str) -> Result<T> {
    all.iter().copied().find(|value| name(*value) == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|value| name(*value)).collect();
        Error::BadOption { option, why: format!("there is no '{text}'; there are {}", names.join(", ")) }
    })
}
