//! What an object is: all that whoever wants to use it has to know.

use drepl::{Bindings, Program, Schema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::error::{Error, Result};

/// The longest text of an object or a fragment, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// The most bytes that the variables of an object take together: as many as one of them may, so that they are counted as those of one are.
const BYTES_MAX: u128 = i64::MAX as u128;

/// The description of an object. It never changes; whoever creates it anew gives it another [`id`](Description::id).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Its variables, in the layout language.
    pub text: String,
    /// Numbers of the names that the text leaves open.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, i64>,
    /// The version that exists at once, and is zeros.
    #[serde(default)]
    pub initial: u64,
    /// Tells it from others that have the name earlier or later. All its regions are of this run.
    pub id: NonZeroU64,
}

impl Description {
    /// Whether the two describe the same, whoever created it.
    pub fn is_same(&self, other: &Description) -> bool {
        self.text == other.text && self.bindings == other.bindings && self.initial == other.initial
    }

    /// What the text describes: all variables together can be counted in bytes.
    ///
    /// # Errors
    /// [`Error::Text`].
    pub fn schema(&self, name: &str) -> Result<Schema> {
        let fault = |mistakes: String| Error::Text { name: name.into(), what: "the description", mistakes };
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(fault(format!("it has {} bytes, and at most {TEXT_BYTES_MAX} are read", self.text.len())));
        }
        let bindings: Bindings = self.bindings.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let schema = Program::parse(&self.text).and_then(|program| program.bind(&bindings));
        let schema = schema.map_err(|mistakes| fault(mistakes.to_string()))?;
        if schema.dataset().objects().is_empty() {
            return Err(fault("it declares no variable: write one, as 'var grid [100,100] float64'".into()));
        }
        let leaves = schema.dataset().leaves().iter();
        // Each of them has fewer, and they are less than 2^16.
        let bytes: u128 = leaves.map(|leaf| u128::from(leaf.elements() * leaf.primitive.size_bytes())).sum();
        if bytes > BYTES_MAX {
            return Err(fault(format!(
                "its variables take {bytes} bytes together, and an object has at most {BYTES_MAX}: make some of them \
                 variables of another object"
            )));
        }
        Ok(schema)
    }

    /// For messages.
    pub(crate) fn shown(&self) -> String {
        let bound: Vec<String> = self.bindings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let bound = if bound.is_empty() { String::new() } else { format!(", {}", bound.join(", ")) };
        format!("{}{bound}, initial version {}", self.text, self.initial)
    }
}
