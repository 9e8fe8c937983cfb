//! A request resolved against the variables of a snapshot: which bytes are meant and how they are arranged.

use crate::failure::Failure;
use crate::slice::{self, Axis, Request};
use stillframe::{DType, Order, VariableView};

/// Elements of one variable.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Name of the variable.
    pub variable: String,
    /// What was asked for, for headings.
    pub label: String,
    /// Unit of measurement, empty when there is none.
    pub units: String,
    /// Type of the selected elements; that of the field when a field was named.
    pub dtype: DType,
    /// Order of the variable in memory.
    pub order: Order,
    /// One entry per axis of the variable.
    pub axes: Vec<Axis>,
    /// Bytes from one element of the variable to the next.
    pub stride_bytes: usize,
    /// Where in an element the field begins.
    pub field_bytes: usize,
}

impl Selection {
    /// What `text` means among `variables`.
    pub fn resolve(text: &str, variables: &[VariableView]) -> Result<Selection, Failure> {
        // A name is taken literally before it is taken apart, so that no name is out of reach.
        if let Some(variable) = variables.iter().find(|variable| variable.name == text) {
            return Selection::of_variable(variable, text, None, Vec::new());
        }
        let request: Request = text.parse()?;
        let path = request.path.as_str();
        let ends = path.match_indices('.').map(|(at, _)| at).rev();
        for end in std::iter::once(path.len()).chain(ends) {
            let (name, fields) = path.split_at(end);
            if let Some(variable) = variables.iter().find(|variable| variable.name == name) {
                return Selection::of_variable(variable, text, fields.strip_prefix('.'), request.indices);
            }
        }
        let names: Vec<&str> = variables.iter().map(|variable| variable.name.as_str()).collect();
        let known = if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
        Err(Failure::Misuse(format!("there is no variable '{path}' in this version: {known}")))
    }

    fn of_variable(
        variable: &VariableView,
        text: &str,
        field: Option<&str>,
        indices: Vec<slice::Index>,
    ) -> Result<Selection, Failure> {
        let (dtype, field_bytes) = match field {
            Some(path) => find_field(&variable.name, &variable.dtype, path)?,
            None => (variable.dtype.clone(), 0),
        };
        let stride_bytes = variable.dtype.bytes();
        let bytes = variable.shape.iter().try_fold(stride_bytes, |bytes, length| bytes.checked_mul(*length));
        if bytes != Some(variable.bytes) {
            return Err(Failure::Problem(format!(
                "variable '{}' says it has {} bytes, its shape {} of {} says otherwise: run `still verify`",
                variable.name,
                variable.bytes,
                slice::format_shape(&variable.shape),
                variable.dtype
            )));
        }
        Ok(Selection {
            variable: variable.name.clone(),
            label: text.trim().into(),
            units: variable.units.clone(),
            dtype,
            order: variable.order,
            axes: slice::select(&indices, &variable.shape)?,
            stride_bytes,
            field_bytes,
        })
    }

    /// The axes that were not dropped.
    pub fn kept(&self) -> Vec<Axis> {
        self.axes.iter().filter(|axis| !axis.dropped).copied().collect()
    }

    /// Shape of what was selected.
    pub fn shape(&self) -> Vec<usize> {
        self.kept().iter().map(|axis| axis.count).collect()
    }

    /// How many elements were selected.
    pub fn count(&self) -> usize {
        self.axes.iter().map(|axis| axis.count).product()
    }

    /// The same selection with only `edge` elements at either end of every axis.
    pub fn abbreviate(&self, edge: usize) -> Selection {
        let axes = self.axes.iter().map(|axis| axis.abbreviate(edge)).collect();
        Selection { axes, ..self.clone() }
    }
}

/// The type of a field and where in an element it begins, from the names of fields with dots between them.
fn find_field(variable: &str, dtype: &DType, path: &str) -> Result<(DType, usize), Failure> {
    look_up_field(dtype, path).ok_or_else(|| {
        let choose = if matches!(dtype, DType::Record { .. }) { ", choose one of its fields" } else { "" };
        Failure::Misuse(format!("'{variable}' has no field '{path}': it is of type {dtype}{choose}"))
    })
}

fn look_up_field(dtype: &DType, path: &str) -> Option<(DType, usize)> {
    let DType::Record { fields, .. } = dtype else { return None };
    // Names may have dots themselves: the longest one that leads somewhere is meant.
    let mut begun: Vec<_> = fields.iter().filter(|field| path.starts_with(&field.name)).collect();
    begun.sort_by_key(|field| std::cmp::Reverse(field.name.len()));
    begun.into_iter().find_map(|field| {
        let rest = &path[field.name.len()..];
        if rest.is_empty() {
            return Some((field.dtype.clone(), field.offset as usize));
        }
        let (dtype, offset) = look_up_field(&field.dtype, rest.strip_prefix('.')?)?;
        Some((dtype, field.offset as usize + offset))
    })
}
