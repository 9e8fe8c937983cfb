//! A look as plain text.

use super::sample::{RegionSample, Sample};
use super::traffic;
use crate::failure::Failure;
use crate::region::HolderSample;
use crate::table::{Align, Table, sanitize};
use crate::units;
use std::io::Write;
use std::path::Path;

/// Writes all that was seen.
pub fn write(sample: &Sample, dir: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let over = sample.interval_ms.map(|ms| format!(", over {}", units::format_ms(ms))).unwrap_or_default();
    writeln!(out, "{} in {}{over}", units::count(sample.regions.len(), "region"), dir.display())?;
    if !sample.regions.is_empty() {
        write_regions(sample, out)?;
    }
    if !sample.nodes.is_empty() {
        writeln!(out)?;
        let mut table = Table::new(&aligned(&traffic::COLUMNS));
        sample.nodes.iter().for_each(|node| table.push(traffic::describe(node).to_vec()));
        table.write(out)?;
    }
    Ok(())
}

fn aligned<'c, const N: usize>(columns: &[(&'c str, bool); N]) -> [(&'c str, Align); N] {
    columns.map(|(name, right)| (name, if right { Align::Right } else { Align::Left }))
}

fn write_regions(sample: &Sample, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out)?;
    let mut table = Table::new(&aligned(&COLUMNS));
    for region in &sample.regions {
        table.push(describe(region).to_vec());
    }
    table.write(out)?;
    for region in &sample.regions {
        let mark = if region.state == "live" { String::new() } else { format!(" ({})", region.state) };
        writeln!(out, "\n{}{mark}: {}", sanitize(&region.name), describe_memory(region))?;
        if let Some(note) = region.want.note(sample.time_ns) {
            writeln!(out, "  {note}")?;
        }
        // Planes of which nothing will ever be published again fill no page: the line above tells what they take in all.
        for plane in region.planes.iter().filter(|_| region.state == "live") {
            writeln!(out, "  plane {}  {}", plane.index, units::format_bytes(plane.allocated_bytes))?;
        }
        writeln!(out, "  holders{}", if region.holders.is_empty() { ": nobody" } else { "" })?;
        write_holders(&region.holders, 4, out)?;
    }
    Ok(())
}

/// The columns that describe a region, and whether they are flush on the right.
pub const COLUMNS: [(&str, bool); 9] = [
    ("REGION", false),
    ("STATE", false),
    ("VERSION", true),
    ("RATE", true),
    ("DIRTY", true),
    ("PUBLISH", true),
    ("COPIED", true),
    ("MEMORY", true),
    ("HOLDERS", true),
];

/// A region in those columns.
pub fn describe(region: &RegionSample) -> [String; 9] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let stopped = region.holders.iter().filter(|holder| holder.stopped).count();
    let stopped = if stopped > 0 { format!(" ({stopped} stopped)") } else { String::new() };
    [
        sanitize(&region.name),
        region.state_of_producer().into(),
        or_dash(region.newest.map(|version| version.to_string())),
        or_dash(region.publish_rate_hz.map(units::format_rate)),
        or_dash(region.dirty_share.map(units::format_share)),
        or_dash(region.publish_ms.map(units::format_ms)),
        or_dash(region.copied_bytes_per_s.map(|bytes| format!("{}/s", units::format_bytes(bytes as u64)))),
        units::format_bytes(region.memory_bytes),
        format!("{}{stopped}", region.holders.len()),
    ]
}

/// The memory of a region in a line.
pub fn describe_memory(region: &RegionSample) -> String {
    let bound = region.bound_bytes.map(|bytes| format!(" of at most {}", units::format_bytes(bytes)));
    let working = match region.state {
        "live" => format!(", working memory {}", units::format_bytes(region.working_bytes)),
        _ => String::new(),
    };
    format!(
        "memory {}, {} in {}{}{working}, {}",
        units::format_bytes(region.memory_bytes),
        units::format_bytes(region.plane_bytes),
        units::count(region.planes.len(), "plane"),
        bound.unwrap_or_default(),
        units::count(region.versions, "version")
    )
}

/// Writes who holds what as a table; nothing when nobody does.
pub fn write_holders(holders: &[HolderSample], indent: usize, out: &mut dyn Write) -> Result<(), Failure> {
    if holders.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("PID", Align::Right),
        ("VERSION", Align::Right),
        ("AGE", Align::Right),
        ("", Align::Left),
        ("COMMAND", Align::Left),
    ])
    .indented(indent);
    for holder in holders {
        table.push(describe_holder(holder).to_vec());
    }
    Ok(table.write(out)?)
}

/// A holder in the columns process, versions, age, state and command.
pub fn describe_holder(holder: &HolderSample) -> [String; 5] {
    [
        match (holder.pid, &holder.enclave) {
            (Some(pid), _) => pid.to_string(),
            (None, Some(_)) => "-".into(),
            (None, None) => "?".into(),
        },
        match (holder.version, holder.versions) {
            (None, 0 | 1) => "-".into(),
            (None, count) => format!("{count}"),
            (Some(version), 0 | 1) => version.to_string(),
            (Some(version), count) => format!("{version} and {} more", count - 1),
        },
        holder.age_ms.map_or_else(|| "-".into(), |age_ms| units::format_ms(age_ms as f64)),
        if holder.stopped { "stopped".into() } else { String::new() },
        match &holder.enclave {
            Some(enclave) => format!("held in enclave {}", sanitize(enclave)),
            None => sanitize(holder.command.as_deref().unwrap_or("(out of sight)")),
        },
    ]
}
