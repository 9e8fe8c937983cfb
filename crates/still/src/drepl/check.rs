//! `still drepl check`: what a text describes, or what is wrong with it.

use super::described::Described;
use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::table::{Align, Table, sanitize};
use crate::units::{count, format_bytes};
use ::drepl::dataset::Dataset;
use ::drepl::types::{AxisOrder, ByteOrder, Layout, Packing, Type};
use ::drepl::{Diagnostic, Fragment, Replica, Schema, Variable, View};
use serde_json::{Value, json};

/// Check a text, and say what it describes
///
/// All mistakes are shown where they are, with what to do about them. Without any: the objects, and for each view and
/// replica its size and where its variables lie.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still drepl check mesh.drepl
  still drepl check grid.drepl -D N=1000 -D xmin=48
  echo 'var line [100]float64; view even { var e [i] = line[2*i] }' | still drepl check -

Offsets and strides are in bytes; a stride is the distance from one element of the variable to the
next along each axis.

With --json: {\"objects\": [{\"name\", \"type\", \"leaves\": [{\"name\", \"type\", \"extents\"}]}],
\"views\": [{\"name\", \"attributes\", \"bytes\", \"variables\": [{\"name\", \"type\", \"offset_bytes\",
\"strides_bytes\"}], \"parts\": [{\"leaf\", \"type\", \"elements\", \"offset_bytes\", \"strides_bytes\"}]}],
\"replicas\": [{\"name\", \"file\", \"complete\", \"readonly\", \"bytes\", \"views\": [{\"name\",
\"offset_bytes\"}], \"rest_offset_bytes\"}]}, where elements are [start, end, step] per axis; or
{\"mistakes\": [{\"code\", \"message\", \"file\", \"line\", \"column\", \"end_line\", \"end_column\", \"help\"}]}.

Exit codes: 0 without mistakes, 1 with some or when there is no such file, 2 when the command makes
no sense.")]
pub struct Args {
    #[command(flatten)]
    described: Described,
}

/// Checks a text.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let schema = match args.described.read([]) {
        Err(Failure::Mistakes { diagnostics, exit_code }) if args.described.json => {
            context.write_json(&json!({ "mistakes": diagnostics.iter().map(mistake).collect::<Vec<_>>() }))?;
            return Ok(exit_code);
        }
        other => other?,
    };
    if args.described.json {
        context.write_json(&description(&schema))?;
        return Ok(FINE);
    }
    let dataset = schema.dataset();
    let heading = [
        count(dataset.objects().len(), "object"),
        count(schema.views().len(), "view"),
        count(schema.replicas().len(), "replica"),
    ];
    writeln!(context.out, "{}: {}", sanitize(&args.described.name()), heading.join(", "))?;
    write_objects(context, dataset)?;
    write_views(context, &schema)?;
    write_replicas(context, &schema)
}

fn write_objects(context: &mut Context, dataset: &Dataset) -> Verdict {
    if dataset.objects().is_empty() {
        return Ok(FINE);
    }
    let mut table = Table::new(&[("OBJECT", Align::Left), ("TYPE", Align::Left), ("BYTES", Align::Right)]);
    for object in dataset.objects() {
        let packed = Layout { packing: Packing::Packed, ..Layout::default() };
        let bytes = packed.size_bytes(&object.kind).map_or(String::new(), |bytes| bytes.to_string());
        table.push(vec![object.name.to_string(), kind(&object.kind), bytes]);
    }
    writeln!(context.out)?;
    table.write(context.out)?;
    Ok(FINE)
}

fn write_views(context: &mut Context, schema: &Schema) -> Verdict {
    if schema.views().is_empty() {
        return Ok(FINE);
    }
    let columns = [("VIEW", Align::Left), ("BYTES", Align::Right), ("VARIABLE", Align::Left), ("TYPE", Align::Left)];
    let columns = [&columns[..], &[("OFFSET", Align::Right), ("STRIDES", Align::Left), ("", Align::Left)]].concat();
    let mut table = Table::new(&columns);
    for view in schema.views() {
        let mut first = vec![name(view).unwrap_or("{ }").to_string(), view.fragment.size_bytes().to_string()];
        let mut attributes = attributes(view).join(" ");
        for variable in view.fragment.variables() {
            let mut row = std::mem::replace(&mut first, vec![String::new(); 2]);
            row.extend([variable.name.to_string(), kind(&variable.kind), variable.offset_bytes.to_string()]);
            row.extend([bracketed(&strides(variable)), std::mem::take(&mut attributes)]);
            table.push(row);
        }
    }
    writeln!(context.out)?;
    table.write(context.out)?;
    Ok(FINE)
}

fn write_replicas(context: &mut Context, schema: &Schema) -> Verdict {
    for replica in schema.replicas() {
        let words = [("complete", replica.complete), ("readonly", replica.readonly)];
        let words: String = words.iter().filter(|word| word.1).map(|word| format!("{} ", word.0)).collect();
        let file = replica.file.as_ref().map_or(String::new(), |file| format!(" in {}", sanitize(file)));
        let size = replica.fragment.size_bytes();
        writeln!(context.out, "\n{words}replica {}{file}: {size} bytes ({})", replica.name, format_bytes(size))?;
        let mut table = Table::new(&[("OFFSET", Align::Right), ("BYTES", Align::Right), ("", Align::Left)]).indented(2);
        for (what, offset, bytes) in contents(schema, replica) {
            table.push(vec![offset.to_string(), bytes.to_string(), what]);
        }
        table.write(context.out)?;
    }
    Ok(FINE)
}

/// What lies in a replica, and where: views, and the rest of a complete one.
fn contents(schema: &Schema, replica: &Replica) -> Vec<(String, u64, u64)> {
    let stored = replica.views.iter().map(|stored| {
        let view = &schema.views()[stored.view];
        (format!("view {}", name(view).unwrap_or_default()), stored.offset_bytes, view.fragment.size_bytes())
    });
    let rest = replica.fragment.size_bytes() - replica.rest_offset_bytes;
    let rest = (rest > 0).then(|| ("what the views leave out".to_owned(), replica.rest_offset_bytes, rest));
    stored.chain(rest).collect()
}

/// A type on one line, which is not longer than a table can show.
fn kind(kind: &Type) -> String {
    const LETTERS_MAX: usize = 60;
    let text = kind.to_string();
    if text.chars().count() <= LETTERS_MAX { text } else { text.chars().take(LETTERS_MAX).chain(['…']).collect() }
}

fn name(view: &View) -> Option<&str> {
    view.name.as_deref()
}

/// What the view says that is not said of every view.
fn attributes(view: &View) -> Vec<String> {
    let layout = view.layout;
    let words = [
        ("columnmajor", layout.order == AxisOrder::ColumnMajor),
        ("aligned", layout.packing == Packing::Aligned),
        ("bigendian", layout.byte_order == ByteOrder::BigEndian),
        ("default", view.default),
        ("readonly", view.readonly),
        ("clipped", view.clipped),
    ];
    let words = words.iter().filter(|word| word.1).map(|word| word.0.to_owned());
    words.chain(view.fragment.fill().map(|fill| format!("fill {fill}"))).collect()
}

/// Distances of neighbours along the axes of a variable, and of the arrays in it.
fn strides(variable: &Variable) -> Vec<u64> {
    let mut strides = Vec::new();
    let mut inner = &variable.kind;
    while let Type::Array(array) = inner {
        strides.extend(variable.layout.strides_bytes(array).unwrap_or_default());
        inner = &array.element;
    }
    strides
}

fn bracketed(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    if words.is_empty() { String::new() } else { format!("[{}]", words.join(", ")) }
}

fn mistake(diagnostic: &Diagnostic) -> Value {
    let place = &diagnostic.place;
    json!({
        "code": diagnostic.code.name(), "message": diagnostic.message, "file": &*place.file, "line": place.line,
        "column": place.column, "end_line": place.end_line, "end_column": place.end_column, "help": diagnostic.help,
    })
}

fn description(schema: &Schema) -> Value {
    let dataset = schema.dataset();
    let objects = dataset.objects().iter().enumerate().map(|(position, object)| {
        let leaves = dataset.leaves_of(position as u32).map(|(id, leaf)| {
            json!({ "name": dataset.leaf_name(id), "type": leaf.primitive.to_string(), "extents": leaf.extents })
        });
        let leaves: Vec<Value> = leaves.collect();
        json!({ "name": &*object.name, "type": object.kind.to_string(), "leaves": leaves })
    });
    let views = schema.views().iter().map(|view| {
        json!({
            "name": name(view), "attributes": attributes(view), "bytes": view.fragment.size_bytes(),
            "variables": variables(&view.fragment), "parts": parts(&view.fragment),
        })
    });
    let replicas = schema.replicas().iter().map(|replica| {
        let views = replica
            .views
            .iter()
            .map(|stored| json!({ "name": name(&schema.views()[stored.view]), "offset_bytes": stored.offset_bytes }));
        json!({
            "name": &*replica.name, "file": replica.file.as_deref(), "complete": replica.complete,
            "readonly": replica.readonly, "bytes": replica.fragment.size_bytes(), "views": views.collect::<Vec<_>>(),
            "rest_offset_bytes": replica.rest_offset_bytes,
        })
    });
    json!({
        "objects": objects.collect::<Vec<_>>(), "views": views.collect::<Vec<_>>(),
        "replicas": replicas.collect::<Vec<_>>(),
    })
}

fn variables(fragment: &Fragment) -> Vec<Value> {
    let told = fragment.variables().iter().map(|variable| {
        json!({
            "name": &*variable.name, "type": variable.kind.to_string(), "offset_bytes": variable.offset_bytes,
            "strides_bytes": strides(variable),
        })
    });
    told.collect()
}

fn parts(fragment: &Fragment) -> Vec<Value> {
    let told = fragment.parts().iter().map(|part| {
        json!({
            "leaf": fragment.dataset().leaf_name(part.leaf), "type": part.primitive.to_string(),
            "elements": super::plan::slices(&part.elements),
            "offset_bytes": part.offset_bytes, "strides_bytes": part.strides_bytes.to_vec(),
        })
    });
    told.collect()
}
