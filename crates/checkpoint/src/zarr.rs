//! Zarr's metadata of a checkpoint (version 3 of its format): a group, a group for each rank if there are ranks, and an array
//! for each variable.

use crate::codec;
use crate::manifest::{Manifest, Variable};
use crate::{Codec, layout};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use stillframe::dimensions::{Axes, name_dimensions};
use stillframe::{Attributes, DType, Field, Order, Scalar, bfloat16};
use zarrs_metadata::FillValueMetadata;
use zarrs_metadata::v3::{ArrayMetadataV3, GroupMetadataV3, MetadataV3};

/// The metadata files of a checkpoint: their paths in it, and their text.
pub(crate) fn files(manifest: &Manifest, codec: Codec) -> Vec<(String, String)> {
    let mut nodes: Vec<(String, Value)> = Vec::new();
    for (rank, attributes) in manifest.rank_attributes.iter().enumerate() {
        let published_ns = manifest.rank_published_ns.get(rank).copied().unwrap_or_default();
        let own = json!({ "rank": rank, "published_ns": published_ns, "attributes": attributes_json(attributes) });
        nodes.push((rank.to_string(), json(&group(own))));
    }
    for (variable, names) in manifest.variables.iter().zip(dimensions(&manifest.variables)) {
        nodes.push((variable.path.clone(), json(&array(variable, names, codec))));
    }
    let mut root = group(json!({
        "region": manifest.region,
        "ranks": manifest.ranks,
        "version": manifest.version,
        "published_ns": manifest.published_ns,
        "attributes": attributes_json(&manifest.attributes),
    }));
    // Tools that read over a network, or that list many arrays, then need one file only.
    let consolidated = json!({
        "kind": "inline",
        "must_understand": false,
        "metadata": nodes.iter().cloned().collect::<Map<String, Value>>(),
    });
    root.additional_fields.insert("consolidated_metadata".into(), consolidated.into());
    nodes.push((String::new(), json(&root)));
    let file = |(path, node): (String, Value)| {
        let path = if path.is_empty() { layout::METADATA.into() } else { format!("{path}/{}", layout::METADATA) };
        // Neither names nor numbers can fail to become JSON.
        (path, format!("{}\n", serde_json::to_string_pretty(&node).unwrap_or_default()))
    };
    nodes.into_iter().map(file).collect()
}

fn json(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

fn group(attributes: Value) -> GroupMetadataV3 {
    let mut group = GroupMetadataV3::new();
    if let Value::Object(attributes) = attributes {
        group.attributes = attributes;
    }
    group
}

fn array(variable: &Variable, dimensions: Vec<String>, codec: Codec) -> ArrayMetadataV3 {
    let extents = |shape: &[usize]| shape.iter().map(|n| *n as u64).collect::<Vec<_>>();
    let grid = configured("regular", json!({ "chunk_shape": extents(&variable.chunk_shape) }));
    let (data_type, fill_value) = data_type(&variable.dtype);
    let mut array =
        ArrayMetadataV3::new(extents(&variable.shape), grid, data_type, fill_value, codecs(variable, codec));
    array.chunk_key_encoding = configured("default", json!({ "separator": "." }));
    array.attributes = array_attributes(variable);
    array.with_dimension_names(Some(dimensions))
}

fn configured(name: &str, configuration: Value) -> MetadataV3 {
    match configuration {
        Value::Object(fields) => MetadataV3::new_with_configuration(name, fields),
        _ => MetadataV3::new(name),
    }
}

/// What is done to a chunk before it is stored. Only arrays whose first index runs fastest are seen otherwise than they lie.
fn codecs(variable: &Variable, codec: Codec) -> Vec<MetadataV3> {
    let mut codecs = Vec::new();
    if variable.order == Order::Fortran && variable.shape.len() > 1 {
        let axes: Vec<usize> = (0..variable.shape.len()).rev().collect();
        codecs.push(configured("transpose", json!({ "order": axes })));
    }
    codecs.push(configured("bytes", json!({ "endian": "little" })));
    match codec {
        Codec::Plain => {}
        Codec::Zstd { level } => codecs.push(configured("zstd", json!({ "level": level, "checksum": false }))),
        Codec::Lz4 => codecs.push(configured(
            "blosc",
            json!({
                "cname": "lz4",
                "clevel": codec::BLOSC_LEVEL,
                "shuffle": "shuffle",
                "typesize": codec::typesize(variable.dtype.bytes()),
                "blocksize": 0,
            }),
        )),
    }
    codecs
}

/// A type of elements as Zarr names it, and its zero.
fn data_type(dtype: &DType) -> (MetadataV3, FillValueMetadata) {
    let zero = FillValueMetadata::from(0.0);
    match dtype {
        DType::Int(_) | DType::Uint(_) => (MetadataV3::new(dtype.to_string()), FillValueMetadata::from(0)),
        DType::Float(_) => (MetadataV3::new(dtype.to_string()), zero),
        // One array of a type that zarr-python does not know, and it opens none of the group: the bits. What they are stands in
        // the attribute `dtype`.
        DType::Bfloat16 => data_type(&DType::Uint(2)),
        DType::Complex(_) => (MetadataV3::new(dtype.to_string()), FillValueMetadata::from([zero.clone(), zero])),
        DType::Bool => (MetadataV3::new("bool"), FillValueMetadata::Bool(false)),
        // What NumPy calls S, as everywhere in Stillframe.
        DType::Bytes(bytes) => {
            (configured("null_terminated_bytes", json!({ "length_bytes": bytes })), FillValueMetadata::from(""))
        }
        DType::Record { fields, bytes } => {
            let fields: Vec<Value> = packed(fields, *bytes);
            (configured("structured", json!({ "fields": fields })), zeros_base64(*bytes as usize).as_str().into())
        }
    }
}

/// The fields of a record as Zarr has them, without offsets: one behind the other, with padding as fields of its own.
fn packed(fields: &[Field], bytes: u32) -> Vec<Value> {
    let mut sorted: Vec<&Field> = fields.iter().collect();
    sorted.sort_by_key(|field| field.offset);
    let mut packed = Vec::new();
    let mut end = 0;
    let pad = |packed: &mut Vec<Value>, from: u32, to: u32| {
        if from < to {
            let mut name = format!("padding_{from}");
            while fields.iter().any(|field| field.name == name) {
                name.push('_');
            }
            packed.push(json!([name, configured("raw_bytes", json!({ "length_bytes": to - from }))]));
        }
    };
    for field in sorted {
        pad(&mut packed, end, field.offset);
        packed.push(json!([field.name, data_type(&field.dtype).0]));
        end = field.offset + field.dtype.bytes() as u32;
    }
    pad(&mut packed, end, bytes);
    packed
}

/// So many zeros as base64, in which three of them are `AAAA`.
fn zeros_base64(bytes: usize) -> String {
    let padding = (3 - bytes % 3) % 3;
    format!("{}{}", "A".repeat(bytes.div_ceil(3) * 4 - padding), "=".repeat(padding))
}

fn array_attributes(variable: &Variable) -> Map<String, Value> {
    let mut attributes = attributes_json(&variable.attributes);
    let mut add = |name: &str, value: Value| {
        // The program's own word counts.
        attributes.entry(name).or_insert(value);
    };
    if !variable.units.is_empty() {
        add("units", variable.units.as_str().into());
    }
    add("order", json(&variable.order));
    let dtype: Value = variable.dtype.to_text().into();
    if bfloat16::has_bfloat16(&variable.dtype) {
        // Nothing else in the store says that these numbers are no integers. The manifest has the program's word.
        attributes.insert("dtype".into(), dtype);
    } else {
        add("dtype", dtype);
    }
    attributes
}

/// Attributes as other tools expect them: numbers that are none or infinite as Zarr writes them, which is text.
fn attributes_json(attributes: &Attributes) -> Map<String, Value> {
    let value = |scalar: &Scalar| match scalar {
        Scalar::Float(value) if value.is_nan() => "NaN".into(),
        Scalar::Float(value) if value.is_infinite() => if *value > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        other => json(other),
    };
    attributes.iter().map(|(name, scalar)| (name.clone(), value(scalar))).collect()
}

/// The names of the dimensions of all variables. Each rank's arrays are a group of their own.
fn dimensions(variables: &[Variable]) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<Option<u32>, Vec<(usize, Axes)>> = BTreeMap::new();
    for (index, variable) in variables.iter().enumerate() {
        let axes = Axes::new(&variable.name, &variable.shape, &variable.attributes);
        groups.entry(variable.rank).or_default().push((index, axes));
    }
    let mut names = vec![Vec::new(); variables.len()];
    for (places, arrays) in groups.into_values().map(|group| group.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()) {
        for (place, found) in places.into_iter().zip(name_dimensions(&arrays, &BTreeMap::new())) {
            names[place] = found;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_said_and_fields_are_in_the_order_in_which_they_lie() {
        let field = |name: &str, dtype, offset| Field { name: name.into(), dtype, offset };
        let fields =
            [field("id", DType::Int(4), 8), field("x", DType::Float(8), 0), field("padding_12", DType::Bool, 15)];
        let expected = json!([
            ["x", "float64"],
            ["id", "int32"],
            ["padding_12_", { "name": "raw_bytes", "configuration": { "length_bytes": 3 } }],
            ["padding_12", "bool"],
        ]);
        assert_eq!(Value::Array(packed(&fields, 16)), expected);
    }

    #[test]
    fn the_programs_word_counts_but_where_nothing_else_says_the_type() {
        let said = |dtype: DType| {
            let variable = Variable {
                rank: None,
                name: "u".into(),
                path: "u".into(),
                dtype,
                order: Order::C,
                units: "K".into(),
                attributes: [("dtype".into(), Scalar::Text("mass".into()))].into_iter().collect(),
                shape: vec![2],
                chunk_shape: vec![2],
                codec: crate::manifest::CodecName::Bytes,
                part: None,
            };
            array_attributes(&variable)["dtype"].clone()
        };
        assert_eq!((said(DType::Float(4)), said(DType::Bfloat16)), ("mass".into(), "bfloat16".into()));
        let record = DType::packed([("w", DType::Bfloat16)]).unwrap();
        assert_eq!(said(record.clone()), record.to_text());
    }

    #[test]
    fn zeros_are_written_in_base64() {
        assert_eq!([1, 2, 3, 4].map(zeros_base64), ["AA==", "AAA=", "AAAA", "AAAAAA=="]);
    }
}
