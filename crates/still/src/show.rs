//! `still show`: one region, group or object in detail.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::group::{self, GroupSummary};
use crate::object;
use crate::region::{HolderSample, Summary};
use crate::slice::format_shape;
use crate::table::{Align, Table, sanitize};
use crate::units::{self, parse_version};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use stillframe::inspect::{self, State};
use stillframe::{Attributes, DType, Group, Observer, Order, Snapshot, VersionInfo};

/// Show one region, group or object: variables, versions, memory, and who holds or writes what
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still show heat
  still show heat --version 120
  still show heat/2               a rank of a group
  still show mesh                 an object, if no region has that name
  still show objects/mesh         an object, whatever else has its name
  still show mesh --svg mesh.svg
  still show heat --json | jq -r '.variables[].name'

Of an object: its text, its complete versions, whom the next one waits for, its writers, and a
drawing of which process has which part. Each writer has a letter, in a picture file (--svg) a
colour; what nobody has is hatched. Those are drawn who are attached now, or with --version those
who write that version. A writer is alive, has left (detached), or died. FROM is the first version
that it writes.

With --json: {\"region\": as in `still ls`, \"version\": {\"version\", \"published_ns\", \"attributes\"}
or null, \"variables\": [{\"name\", \"dtype\", \"shape\", \"order\", \"units\", \"bytes\", \"attributes\"}],
\"versions\": [{\"version\", \"published_ns\", \"dirty_pages\", \"total_pages\", \"retiring\"}],
\"planes\": [{\"index\", \"allocated_bytes\"}],
\"holders\": [{\"pid\", \"command\", \"state\", \"stopped\", \"version\", \"versions\", \"age_ms\"}]}.
A holder is a process: the oldest version it holds, how many, and for how long it has been holding
one; those of other users are one, without \"pid\" and \"command\". Other machines that hold versions
(docs/machines.md) follow, with \"enclave\" instead of these, and say not for how long. Of a region of
another machine the holders are the processes on this one.
Of a group: {\"group\": as in `still ls`, \"version\", \"variables\": [[of rank 0], [of rank 1], ...]}.
Of an object: {\"object\": as in `still ls`, \"text\", \"bindings\", \"writers\": [{\"number\", \"rank\",
\"pid\", \"state\", \"from\", \"left\", \"newest\", \"versions\": [], \"elements\", \"memory_bytes\",
\"region\", \"text\", \"bindings\"}], \"missing\": [elements that nobody has]}.
A dtype is a name such as \"float64\", or for records {\"fields\": [{\"name\", \"dtype\", \"offset\"}],
\"bytes\"}.

Exit codes: 0 well, 1 when the region, object or version does not exist or is unreadable.")]
pub struct Args {
    /// The region, group or object
    #[arg(value_name = "NAME")]
    region: String,
    /// Show this version instead of the newest; of an object, who writes this version
    #[arg(long, value_name = "V", value_parser = parse_version, allow_negative_numbers = true)]
    version: Option<u64>,
    /// Of an object: write the drawing as a picture, too
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    region: Summary,
    version: Option<VersionReport>,
    variables: Vec<VariableReport>,
    versions: Vec<VersionEntry>,
    planes: Vec<PlaneEntry>,
    holders: Vec<HolderSample>,
}

#[derive(Serialize)]
struct VersionReport {
    version: u64,
    published_ns: u64,
    attributes: Attributes,
}

#[derive(Serialize)]
struct VariableReport {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    order: Order,
    units: String,
    bytes: usize,
    attributes: Attributes,
}

#[derive(Serialize)]
struct VersionEntry {
    version: u64,
    published_ns: u64,
    dirty_pages: u64,
    total_pages: u64,
    retiring: bool,
}

#[derive(Serialize)]
struct PlaneEntry {
    index: usize,
    allocated_bytes: u64,
}

/// Shows a region, group or object.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    if let Some(object) = object::find(context, &args.region)? {
        return object::show::run(context, &object, args.version, args.svg.as_deref(), args.json);
    }
    if args.svg.is_some() {
        let name = &args.region;
        return Err(Failure::Misuse(format!("'{name}' is no object, and only these are drawn: leave --svg out")));
    }
    let now_ns = units::now_ns();
    if let Some(group) = group::find(context, &args.region, now_ns)? {
        return run_group(context, args, group, now_ns);
    }
    let info = inspect::region(&context.dir, &args.region)?;
    if let State::Unreadable(why) = &info.state {
        return Err(Failure::Problem(format!("region '{}' is unreadable: {why}", info.name)));
    }
    let observer = match info.newest {
        Some(_) => Some(Observer::options().dir(&context.dir).open(&args.region)?),
        None => None,
    };
    let mut snapshot = None;
    if let Some(observer) = &observer {
        snapshot = Some(match args.version {
            Some(version) => observer.version(version)?,
            None => observer.newest()?,
        });
    } else if let Some(version) = args.version {
        return Err(Failure::Problem(format!("region '{}' has no version {version}: it has none yet", info.name)));
    }
    // The hold of this very command says nothing about anybody.
    let own = std::process::id() as i32;
    let mut holders = inspect::holders(&context.dir, &args.region)?;
    holders.retain(|holder| holder.pid != Some(own));
    let versions = info.versions.clone();
    let planes = info.planes.iter();
    let report = Report {
        planes: planes.map(|plane| PlaneEntry { index: plane.index, allocated_bytes: plane.allocated_bytes }).collect(),
        version: snapshot.as_ref().map(report_version),
        variables: snapshot.as_ref().map(report_variables).unwrap_or_default(),
        versions: versions.iter().map(report_entry).collect(),
        holders: holders.into_iter().map(HolderSample::new).collect(),
        region: Summary::new(info, &context.dir, now_ns),
    };
    match args.json {
        true => context.write_json(&report)?,
        false => write_text(&report, now_ns, context.out)?,
    }
    Ok(FINE)
}

/// Shows a group: its ranks, and the variables of a version that all of them have.
fn run_group(context: &mut Context, args: &Args, summary: GroupSummary, now_ns: u64) -> Verdict {
    let group = Group::options().dir(&context.dir).open(&args.region)?;
    let snapshot = match args.version {
        Some(version) => Some(group.version(version)?),
        None if summary.newest.is_some() => Some(group.newest()?),
        None => None,
    };
    let ranks = snapshot.as_ref().map(|snapshot| snapshot.ranks()).unwrap_or_default();
    if args.json {
        let variables: Vec<_> = ranks.iter().map(report_variables).collect();
        let version = ranks.first().map(report_version);
        context.write_json(&serde_json::json!({ "group": summary, "version": version, "variables": variables }))?;
        return Ok(FINE);
    }
    let out = &mut *context.out;
    let name = sanitize(&summary.name);
    let (ranks_text, path) = (units::count(summary.ranks.len(), "rank"), context.dir.join(&summary.name));
    let enclave = summary.enclave().map_or_else(String::new, |enclave| format!(", enclave {}", enclave.describe()));
    writeln!(out, "{name}: group of {ranks_text}, {}{enclave}, in {}", summary.describe_state(), path.display())?;
    let versions: Vec<String> = summary.versions.iter().map(u64::to_string).collect();
    let versions = if versions.is_empty() { "none".into() } else { versions.join(", ") };
    writeln!(out, "memory {}; versions that all ranks have: {versions}", units::format_bytes(summary.memory_bytes))?;
    for note in summary.notes() {
        writeln!(out, "{note}")?;
    }
    for region in &summary.regions {
        if let Some(note) = region.want.note(now_ns) {
            writeln!(out, "{}: {note}", sanitize(&region.name))?;
        }
    }
    writeln!(out, "\nranks")?;
    summary.write_ranks(now_ns, out)?;
    match ranks.first() {
        None => writeln!(out, "\nno version has been published by all ranks")?,
        Some(first) => {
            write_version(&report_version(first), &report_variables(first), now_ns, out)?;
            if ranks.len() > 1 {
                writeln!(out, "\nThese are rank 0's; `still show {name}/1` shows those of rank 1, and so on.")?;
            }
        }
    }
    Ok(FINE)
}

fn report_version(snapshot: &Snapshot) -> VersionReport {
    VersionReport {
        version: snapshot.version(),
        published_ns: snapshot.published_ns(),
        attributes: snapshot.attributes().clone(),
    }
}

fn report_variables(snapshot: &Snapshot) -> Vec<VariableReport> {
    let report = |variable: &stillframe::VariableView| VariableReport {
        name: variable.name.clone(),
        dtype: variable.dtype.clone(),
        shape: variable.shape.clone(),
        order: variable.order,
        units: variable.units.clone(),
        bytes: variable.bytes,
        attributes: variable.attributes.clone(),
    };
    snapshot.variables().iter().map(report).collect()
}

fn report_entry(info: &VersionInfo) -> VersionEntry {
    VersionEntry {
        version: info.version,
        published_ns: info.published_ns,
        dirty_pages: info.dirty_pages,
        total_pages: info.total_pages,
        retiring: info.retiring,
    }
}

fn write_text(report: &Report, now_ns: u64, out: &mut dyn Write) -> Result<(), Failure> {
    let region = &report.region;
    let producer = match (region.state, region.producer_pid) {
        ("live", Some(pid)) => format!(", producer {pid}"),
        _ => String::new(),
    };
    let tracker = region.tracker.as_ref().map(|tracker| format!(", tracker {tracker}")).unwrap_or_default();
    let (name, state) = (sanitize(&region.name), region.state_of_producer());
    let enclave =
        region.enclave.as_ref().map_or_else(String::new, |enclave| format!(", enclave {}", enclave.describe()));
    writeln!(out, "{name}: {state}{producer}{enclave}{tracker}, in {}", region.path.display())?;
    if let Some(note) = region.want.note(now_ns) {
        writeln!(out, "{note}")?;
    }
    let bound = region.bound_bytes.map(|bytes| format!(" of at most {}", units::format_bytes(bytes)));
    let working = match region.state {
        "live" => format!(", working memory {}", units::format_bytes(region.working_bytes)),
        _ => String::new(),
    };
    writeln!(
        out,
        "memory {}, planes {}{}{working}",
        units::format_bytes(region.memory_bytes),
        units::format_bytes(region.plane_bytes),
        bound.unwrap_or_default(),
    )?;
    writeln!(
        out,
        "keeps {}, published {}, skipped {}, created {} ago",
        units::count(region.keep as usize, "version"),
        region.published,
        region.skipped,
        units::format_ms(units::elapsed_ms(region.created_ns, now_ns) as f64),
    )?;
    match &report.version {
        None => writeln!(out, "\nno version was published yet")?,
        Some(version) => write_version(version, &report.variables, now_ns, out)?,
    }
    if !report.versions.is_empty() {
        write_versions(&report.versions, now_ns, out)?;
    }
    if !report.planes.is_empty() {
        writeln!(out, "\nmemory by plane")?;
        let mut table = Table::new(&[("PLANE", Align::Right), ("MEMORY", Align::Right)]).indented(2);
        for plane in &report.planes {
            table.push(vec![plane.index.to_string(), units::format_bytes(plane.allocated_bytes)]);
        }
        table.write(out)?;
    }
    let here = if region.is_others() { " in this enclave" } else { "" };
    writeln!(out, "\nholders{here}{}", if report.holders.is_empty() { ": nobody" } else { "" })?;
    crate::watch::write_holders(&report.holders, 2, out)
}

fn write_version(
    version: &VersionReport,
    variables: &[VariableReport],
    now_ns: u64,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let age_ms = units::elapsed_ms(version.published_ns, now_ns);
    writeln!(out, "\nversion {}, published {} ago", version.version, units::format_ms(age_ms as f64))?;
    for (name, value) in &version.attributes {
        writeln!(out, "  {} = {}", sanitize(name), sanitize(&value.to_string()))?;
    }
    writeln!(out, "\nvariables{}", if variables.is_empty() { ": none" } else { "" })?;
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("DTYPE", Align::Left),
        ("SHAPE", Align::Left),
        ("ORDER", Align::Left),
        ("UNITS", Align::Left),
        ("SIZE", Align::Right),
        ("ATTRIBUTES", Align::Left),
    ])
    .indented(2);
    for variable in variables {
        let attributes = variable.attributes.iter().map(|(name, value)| format!("{name}={value}"));
        table.push(vec![
            sanitize(&variable.name),
            sanitize(&variable.dtype.to_string()),
            format_shape(&variable.shape),
            if variable.order == Order::C { "C".into() } else { "Fortran".into() },
            sanitize(&variable.units),
            units::format_bytes(variable.bytes as u64),
            sanitize(&attributes.collect::<Vec<_>>().join(", ")),
        ]);
    }
    if !variables.is_empty() {
        table.write(out)?;
    }
    Ok(())
}

fn write_versions(versions: &[VersionEntry], now_ns: u64, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "\nversions")?;
    let mut table =
        Table::new(&[("VERSION", Align::Right), ("AGE", Align::Right), ("DIRTY", Align::Right), ("", Align::Left)])
            .indented(2);
    for version in versions {
        let share = version.dirty_pages as f64 / version.total_pages.max(1) as f64;
        table.push(vec![
            version.version.to_string(),
            units::format_ms(units::elapsed_ms(version.published_ns, now_ns) as f64),
            units::format_share(share),
            if version.retiring { "leaves when its holders do".into() } else { String::new() },
        ]);
    }
    Ok(table.write(out)?)
}
