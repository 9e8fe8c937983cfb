//! What a version of a rank consists of, as one node tells another.

use serde::{Deserialize, Serialize};
use stillframe::{Attributes, Declaration, Kind, Snapshot, VariableView};
use stillframe_segment::schema::Variable;

/// The most variables of a rank that are taken from another node.
const VARIABLES_MAX: usize = 1 << 16;

/// Attributes of a version, and its variables in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) attributes: Attributes,
    pub(super) variables: Vec<Described>,
}

/// A variable in a version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Described {
    pub(super) meta: Variable,
    pub(super) shape: Vec<usize>,
}

impl Content {
    pub(super) fn of(snapshot: &Snapshot) -> Content {
        let variables = snapshot.variables().iter().enumerate().map(Described::of).collect();
        Content { attributes: snapshot.attributes().clone(), variables }
    }

    /// Reads what another node said.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(text: &str) -> Result<Content, String> {
        let content: Content = serde_json::from_str(text).map_err(|error| format!("no content of a rank: {error}"))?;
        if content.variables.len() > VARIABLES_MAX {
            return Err(format!("{} variables are more than {VARIABLES_MAX}", content.variables.len()));
        }
        content.bytes()?;
        Ok(content)
    }

    /// Bytes of all variables.
    ///
    /// # Errors
    /// One has more than can be.
    pub(super) fn bytes(&self) -> Result<u64, String> {
        self.variables.iter().try_fold(0_u64, |sum, variable| {
            sum.checked_add(variable.bytes()?).ok_or_else(|| "a rank is larger than can be".into())
        })
    }

    /// Whether the variables are declared as these are, whatever shape each has.
    pub(super) fn is_declared_as(&self, other: &Content) -> bool {
        let metas = |content: &Content| {
            let of = |described: &Described| Variable { id: 0, ..described.meta.clone() };
            content.variables.iter().map(of).collect::<Vec<_>>()
        };
        metas(self) == metas(other)
    }
}

impl Described {
    fn of((number, view): (usize, &VariableView)) -> Described {
        let VariableView { name, dtype, order, units, attributes, shape, .. } = view;
        let (name, dtype, order) = (name.clone(), dtype.clone(), *order);
        let (units, attributes) = (units.clone(), attributes.clone());
        let meta = Variable { id: number as u32, name, dtype, order, units, attributes };
        Described { meta, shape: shape.clone() }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// It cannot have that type or shape.
    pub(super) fn bytes(&self) -> Result<u64, String> {
        let Described { meta, shape } = self;
        let wrong = |why: String| format!("variable '{}': {why}", meta.name.escape_debug());
        meta.dtype.check().map_err(|error| wrong(error.to_string()))?;
        let bytes = meta.dtype.array_bytes(shape).map_err(|error| wrong(error.to_string()))?;
        Ok(bytes as u64)
    }

    /// How it is declared where it is only received.
    pub(super) fn declaration(&self) -> Declaration {
        let Variable { name, dtype, order, units, attributes, .. } = self.meta.clone();
        let kind = Kind::Loaned { shape: self.shape.clone() };
        Declaration { name, dtype, order, units, attributes, kind, pinned: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let variable = |dtype: &str, shape: &str| {
            let meta = format!(r#"{{"id":0,"name":"u","dtype":{dtype},"order":"c"}}"#);
            format!(r#"{{"attributes":{{}},"variables":[{{"meta":{meta},"shape":{shape}}}]}}"#)
        };
        let read = |text: &str| Content::read(text);
        assert_eq!(read(&variable(r#""float64""#, "[3,4]")).unwrap().bytes(), Ok(96));
        for wrong in [
            variable(r#""float64""#, "[4294967296,4294967296]"),
            variable(r#""float64""#, "[-1]"),
            variable(r#""nothing""#, "[1]"),
            "{}".into(),
            "[".into(),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }
}
