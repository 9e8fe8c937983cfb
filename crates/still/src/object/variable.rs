//! A variable of an object, or a field of one, as an array.

use crate::failure::Failure;
use crate::selection::Selection;
use crate::slice::{self, Request};
use ::drepl::Dataset;
use ::drepl::types::{Record, Type};
use stillframe::{DType, Order};

/// Elements of an object that are wanted.
pub struct Chosen {
    /// Which, and how they are arranged.
    pub selection: Selection,
    /// The way to them from the object's variable, outermost first.
    pub way: Vec<Step>,
}

/// A part of the way from a variable to its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The variable, or a field.
    Name(String),
    /// An array with so many axes.
    Axes(usize),
}

impl Chosen {
    /// What `text` means among the variables of an object.
    pub fn resolve(text: &str, dataset: &Dataset) -> Result<Chosen, Failure> {
        let request: Request = text.parse()?;
        let (name, fields) = request.path.split_once('.').unwrap_or((&request.path, ""));
        let Some((_, variable)) = dataset.object(name) else {
            let names: Vec<&str> = dataset.objects().iter().map(|variable| &*variable.name).collect();
            let known = names.join(", ");
            return Err(Failure::Misuse(format!("there is no variable '{name}' in this object: it has {known}")));
        };
        let (mut kind, mut shape, mut way) = (&variable.kind, Vec::new(), vec![Step::Name(name.into())]);
        let mut fields = fields.split('.').filter(|field| !field.is_empty());
        loop {
            while let Type::Array(array) = kind {
                shape.extend(array.extents.iter().map(|extent| *extent as usize));
                way.push(Step::Axes(array.extents.len()));
                kind = &array.element;
            }
            let Some(field) = fields.next() else { break };
            let found = match kind {
                Type::Record(record) => record.field(field),
                _ => None,
            };
            let missing = || Failure::Misuse(format!("'{name}' has no field '{field}': it is of type {kind}"));
            kind = &found.ok_or_else(missing)?.1.kind;
            way.push(Step::Name(field.into()));
        }
        let dtype = dtype(&request.path, kind)?;
        let selection = Selection {
            variable: request.path.clone(),
            label: text.trim().into(),
            units: String::new(),
            stride_bytes: dtype.bytes(),
            field_bytes: 0,
            dtype,
            order: Order::C,
            axes: slice::select(&request.indices, &shape)?,
        };
        Ok(Chosen { selection, way })
    }
}

fn dtype(path: &str, kind: &Type) -> Result<DType, Failure> {
    match kind {
        Type::Primitive(primitive) => Ok(stillframe_object::dtype(*primitive)),
        Type::Record(record) => packed(path, record),
        Type::Array(_) => {
            Err(Failure::Misuse(format!("'{path}' is an array in each record: choose it alone, as '{path}'")))
        }
    }
}

/// Records as they are read: fields back to back.
fn packed(path: &str, record: &Record) -> Result<DType, Failure> {
    let field = |field: &::drepl::types::Field| {
        Ok((field.name.to_string(), dtype(&format!("{path}.{}", field.name), &field.kind)?))
    };
    let fields = record.fields().iter().map(field).collect::<Result<Vec<_>, Failure>>()?;
    let fields = fields.iter().map(|(name, dtype)| (name.as_str(), dtype.clone()));
    DType::packed(fields).map_err(|error| Failure::Problem(format!("'{path}': {error}")))
}
