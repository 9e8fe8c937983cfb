//! Comma-separated values.
//!
//! Plain elements on at most two axes become a bare matrix, which every tool reads. Anything else becomes one line per
//! element under a heading: the element's index in the variable, then its fields.

use crate::failure::Failure;
use crate::gather::{Block, Source};
use crate::selection::Selection;
use crate::value::Value;
use std::io::Write;
use stillframe::DType;

/// Writes the selection.
pub fn write(source: &dyn Source, selection: &Selection, out: &mut dyn Write) -> Result<(), Failure> {
    let block = Block::load(source, selection)?;
    let plain = !matches!(block.dtype, DType::Record { .. });
    match block.shape.as_slice() {
        [] if plain => writeln!(out, "{}", quote(&block.at(&[]).to_string()))?,
        [_] if plain => {
            for index in block.indices() {
                writeln!(out, "{}", quote(&block.at(&index).to_string()))?;
            }
        }
        &[rows, columns] if plain => {
            for row in 0..rows {
                let cells: Vec<_> = (0..columns).map(|column| quote(&block.at(&[row, column]).to_string())).collect();
                writeln!(out, "{}", cells.join(","))?;
            }
        }
        shape => {
            let mut heading: Vec<String> = (0..shape.len()).map(|axis| format!("i{axis}")).collect();
            match &block.dtype {
                DType::Record { .. } => heading.extend(field_names(&block.dtype, "")),
                _ => heading.push(selection.variable.clone()),
            }
            let heading: Vec<_> = heading.iter().map(|name| quote(name)).collect();
            writeln!(out, "{}", heading.join(","))?;
            let axes = selection.kept();
            for index in block.indices() {
                let places = index.iter().zip(&axes).map(|(place, axis)| axis.index(*place).to_string());
                let mut cells: Vec<String> = places.collect();
                flatten(block.at(&index), &mut |value| cells.push(quote(&value.to_string())));
                writeln!(out, "{}", cells.join(","))?;
            }
        }
    }
    Ok(())
}

/// The names of the plain fields of a record, those of nested records with a dot.
pub fn field_names(dtype: &DType, prefix: &str) -> Vec<String> {
    match dtype {
        DType::Record { fields, .. } => fields
            .iter()
            .flat_map(|field| {
                let name = if prefix.is_empty() { field.name.clone() } else { format!("{prefix}.{}", field.name) };
                field_names(&field.dtype, &name)
            })
            .collect(),
        _ => vec![prefix.into()],
    }
}

/// The plain values of an element, in the order of [`field_names`].
pub fn flatten(value: Value, visit: &mut dyn FnMut(Value)) {
    match value {
        Value::Record(fields) => fields.into_iter().for_each(|(_, value)| flatten(value, visit)),
        plain => visit(plain),
    }
}

fn quote(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::tests::{Memory, selection};
    use crate::slice::Index;
    use stillframe::Order;

    fn text(bytes: Vec<u8>, selection: &Selection) -> String {
        let mut out = Vec::new();
        write(&Memory::new(bytes), selection, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn two_axes_are_a_matrix_whatever_the_order() {
        let bytes = || (0..6i16).flat_map(i16::to_ne_bytes).collect();
        assert_eq!(text(bytes(), &selection(DType::Int(2), Order::C, &[2, 3], &[])), "0,1,2\n3,4,5\n");
        assert_eq!(text(bytes(), &selection(DType::Int(2), Order::Fortran, &[2, 3], &[])), "0,2,4\n1,3,5\n");
    }

    #[test]
    fn three_axes_and_records_are_one_line_per_element() {
        let bytes = (0..8u8).collect();
        let wanted =
            selection(DType::Uint(1), Order::C, &[2, 2, 2], &[Index::Span { start: Some(1), stop: None, step: None }]);
        assert_eq!(text(bytes, &wanted), "i0,i1,i2,u\n1,0,0,4\n1,0,1,5\n1,1,0,6\n1,1,1,7\n");
        let inner = DType::packed([("x", DType::Uint(1)), ("y", DType::Uint(1))]).unwrap();
        let record = DType::packed([("tag", DType::Bytes(2)), ("at", inner)]).unwrap();
        let wanted = selection(record, Order::C, &[2], &[]);
        assert_eq!(text(b"a,\x01\x02b\0\x03\x04".to_vec(), &wanted), "i0,tag,at.x,at.y\n0,\"a,\",1,2\n1,b,3,4\n");
    }
}
