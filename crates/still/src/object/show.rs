//! `still show` of an object: its versions, its writers, and who has which part.

use super::drawing::Drawing;
use super::list::describe;
use super::summary::{Summary, WriterSummary};
use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::table::{Align, Table, sanitize};
use crate::target;
use crate::units;
use serde_json::json;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use stillframe_object::Object;

/// Shows an object: with a version, who wrote that.
pub fn run(context: &mut Context, object: &Object, version: Option<u64>, svg: Option<&Path>, is_json: bool) -> Verdict {
    let now_ns = units::now_ns();
    let summary = Summary::new(object, &context.dir, &HashMap::new())?;
    let drawing = Drawing::new(object, &summary.infos, version, summary.newest)?;
    if let Some(path) = svg {
        target::write(path, drawing.picture().svg().as_bytes())?;
    }
    if is_json {
        let description = object.description();
        context.write_json(&json!({
            "object": summary, "text": description.text, "bindings": description.bindings,
            "writers": summary.writers, "missing": drawing.missing(),
        }))?;
        return Ok(FINE);
    }
    write_heading(object, &summary, now_ns, context.out)?;
    write_text(object, context.out)?;
    write_variables(&summary, context.out)?;
    write_writers(&summary.writers, context.out)?;
    let of = version.map_or(String::new(), |version| format!(" of version {version}"));
    if !summary.writers.is_empty() {
        write!(context.out, "\nwho has what{of}\n{}", drawing.picture().text())?;
    }
    if let Some(path) = svg {
        writeln!(context.out, "\nwrote {}", sanitize(&path.display().to_string()))?;
    }
    Ok(FINE)
}

fn write_heading(object: &Object, summary: &Summary, now_ns: u64, out: &mut dyn Write) -> Result<(), Failure> {
    let (name, writers) = (sanitize(&summary.name), summary.describe_writers());
    writeln!(out, "{name}: object, {}, writers: {writers}", summary.state)?;
    let (memory, bytes) = (units::format_bytes(summary.memory_bytes), units::format_bytes(summary.bytes));
    writeln!(out, "memory {memory}; a version has {bytes}; the initial version, {}, is zeros", summary.initial)?;
    let versions: Vec<String> = summary.versions.iter().map(u64::to_string).collect();
    let versions = if versions.is_empty() { "none".into() } else { versions.join(", ") };
    writeln!(out, "complete versions that can be had: {versions}")?;
    let age = summary.age_ms(now_ns).map(|age_ms| format!(", published {} ago", units::format_ms(age_ms as f64)));
    let next = match &summary.next {
        Some(next) => next.text(),
        None if summary.writers_alive > 0 => "nobody has published a newer one".into(),
        None if summary.writers.is_empty() => "nobody has attached a fragment to write".into(),
        None => "nobody writes it any more".into(),
    };
    writeln!(out, "{}{}", describe(summary, &next), age.unwrap_or_default())?;
    for missing in summary.next.iter().flat_map(|next| &next.waiting).take(WAITING_MAX) {
        let who = missing.who.as_deref().unwrap_or("nobody");
        writeln!(out, "  still to come: {} of {who}", sanitize(&missing.elements))?;
    }
    let bindings = object.description().bindings.iter();
    let bindings: Vec<String> = bindings.map(|(name, value)| format!("{name}={value}")).collect();
    if !bindings.is_empty() {
        writeln!(out, "created with {}", sanitize(&bindings.join(", ")))?;
    }
    Ok(())
}

/// Lines about what is missing.
const WAITING_MAX: usize = 8;

fn write_text(object: &Object, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "\ntext")?;
    for line in object.description().text.lines() {
        writeln!(out, "{}", format!("  {}", sanitize(line)).trim_end())?;
    }
    Ok(())
}

fn write_variables(summary: &Summary, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "\nvariables")?;
    let columns = [("NAME", Align::Left), ("TYPE", Align::Left), ("SHAPE", Align::Left), ("SIZE", Align::Right)];
    let mut table = Table::new(&columns).indented(2);
    for variable in &summary.variables {
        let size = units::format_bytes(variable.bytes);
        table.push(vec![variable.name.clone(), sanitize(&variable.kind), variable.shape(), size]);
    }
    Ok(table.write(out)?)
}

fn write_writers(writers: &[WriterSummary], out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "\nwriters{}", if writers.is_empty() { ": none" } else { "" })?;
    if writers.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("RANK", Align::Right),
        ("PROCESS", Align::Right),
        ("FRAGMENT", Align::Right),
        ("STATE", Align::Left),
        ("FROM", Align::Right),
        ("NEWEST", Align::Right),
        ("VERSIONS", Align::Right),
        ("MEMORY", Align::Right),
        ("ELEMENTS", Align::Left),
    ])
    .indented(2);
    let or_dash = |number: Option<u64>| number.map_or_else(|| "-".into(), |number| number.to_string());
    for writer in writers {
        table.push(vec![
            or_dash(writer.rank.map(u64::from)),
            writer.pid.to_string(),
            writer.number.to_string(),
            writer.left.map_or_else(|| writer.state.into(), |left| format!("left before {left}")),
            writer.from.to_string(),
            or_dash(writer.newest),
            writer.versions.len().to_string(),
            units::format_bytes(writer.memory_bytes),
            sanitize(&writer.elements),
        ]);
    }
    Ok(table.write(out)?)
}
