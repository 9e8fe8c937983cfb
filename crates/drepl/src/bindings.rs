//! Numbers that a program passes beside a text.

use std::collections::BTreeMap;

/// Names in a text that have their numbers from the caller: `xmin` in `{ var g[x:16] = grid[x+xmin] }`.
///
/// ```
/// let bindings = drepl::Bindings::from([("xmin", 48), ("ymin", 96)]);
/// assert_eq!(bindings.get("ymin"), Some(96));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bindings {
    values: BTreeMap<String, i64>,
}

impl Bindings {
    /// No names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a name; an earlier value of it is replaced.
    pub fn set(&mut self, name: impl Into<String>, value: i64) -> &mut Self {
        self.values.insert(name.into(), value);
        self
    }

    /// The value of a name, if it is bound.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.values.get(name).copied()
    }

    /// All names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.values.iter().map(|(name, value)| (&**name, *value))
    }
}

impl<N: Into<String>> FromIterator<(N, i64)> for Bindings {
    fn from_iter<T: IntoIterator<Item = (N, i64)>>(values: T) -> Self {
        Self { values: values.into_iter().map(|(name, value)| (name.into(), value)).collect() }
    }
}

impl<N: Into<String>, const COUNT: usize> From<[(N, i64); COUNT]> for Bindings {
    fn from(values: [(N, i64); COUNT]) -> Self {
        values.into_iter().collect()
    }
}

impl<N: Into<String>> Extend<(N, i64)> for Bindings {
    fn extend<T: IntoIterator<Item = (N, i64)>>(&mut self, values: T) {
        self.values.extend(values.into_iter().map(|(name, value)| (name.into(), value)));
    }
}
