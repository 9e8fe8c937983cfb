//! `still get`: data out of a snapshot, as text or as a file.

use crate::context::{Context, Verdict};
use crate::csv;
use crate::failure::{FINE, Failure};
use crate::gather::{Block, Packed, SnapshotSource, Source};
use crate::npy;
use crate::object;
use crate::picture::{self, Caption};
use crate::selection::Selection;
use crate::slice::format_shape;
use crate::table::sanitize;
use crate::target;
use crate::text;
use crate::units::{parse_seconds, parse_version};
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stillframe::{DType, Observer, Order, Snapshot};

/// Get data out of a region or an object: print it, or write it as .npy, .csv, .png or .svg
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still get heat u                            print u, abbreviated when it is long
  still get heat 'u[3, 4]'                    print one number, nothing else
  still get heat 'u[1:10:2, :, -1]' -o u.csv  every second of rows 1 to 9, last layer
  still get heat 'u[..., 0]' -o u.png         a map of colours of two axes
  still get heat 'cells.rho[:100]' -o rho.npy a field of records
  still get heat u -o - --format npy | ...    to a pipe
  still get mesh 'rho[0:10, ::2]'             elements of an object, from whoever has them

Slices are numpy's: numbers (negative ones count from the end) drop an axis, start:stop:step
selects a span, ... stands for all axes not named. Quote them: the shell knows brackets too.
Only the bytes that are asked for are read, and all are of one version.

Of an object, the newest complete version is taken. A version that is named needs not be complete:
only the elements that are asked for have to be there, and --wait waits for them, for an object that
is not there yet, or for its first complete version. Where there is none, the initial one is shown,
which is zeros.

Files:
  .npy  any dtype, bfloat16 as float32, in the order of the variable's memory; numpy.load reads it
  .csv  numbers on up to two axes as a bare matrix; otherwise one line per element under a
        heading, first its indices in the variable (i0,i1,...), then its value or fields
  .png  one axis as a line, two as a map of colours (rows run down, of Fortran-order arrays the
        first index to the right, complex numbers by magnitude, axes longer than 1024 averaged);
        numbers beside it are indices in the variable
  .svg  the same picture as shapes and text, for print and to be edited

With --json: {\"region\" or \"object\", \"version\", \"published_ns\", \"variable\", \"dtype\", \"shape\",
\"order\", \"units\", \"values\"}, values nested by axis; nan and inf are strings, complex numbers
[re, im], records objects.

Exit codes: 0 well, 1 when the region, object or version does not exist or a file cannot be written,
2 when the slice makes no sense for the variable.")]
pub struct Args {
    /// The region or object; of a group one of its ranks, such as heat/2
    #[arg(value_name = "NAME")]
    region: String,
    /// A variable or record field and what part of it, such as 'u[0, :]'
    #[arg(value_name = "VAR[SLICE]")]
    selection: String,
    /// Take this version instead of the newest
    #[arg(long, value_name = "V", value_parser = parse_version, allow_negative_numbers = true)]
    version: Option<u64>,
    /// Wait so many seconds for what is not there yet
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "0", hide_default_value = true)]
    wait: Duration,
    /// Write to this file; its ending says the format, - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format, whatever the file is called
    #[arg(long, value_enum, conflicts_with = "json", requires = "output")]
    format: Option<Format>,
    /// Print JSON
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// numpy's own
    Npy,
    /// comma-separated values
    Csv,
    /// a picture
    Png,
    /// a picture of shapes, for print
    Svg,
}

/// What the data are of.
struct Origin<'a> {
    region: Option<&'a str>,
    object: Option<&'a str>,
    version: u64,
    published_ns: Option<u64>,
}

/// Gets the data.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let format = args.output.as_deref().map(|path| choose_format(path, args.format)).transpose()?;
    if let Some(object) = object::wait(context, &args.region, args.wait)? {
        // A terminal gets no more than it shows.
        let is_text = format.is_none() && !args.json;
        let shorten = |selection: &Selection| if is_text { text::shown(selection) } else { selection.clone() };
        let answer = object::get::read(&object, &args.selection, args.version, args.wait, shorten)?;
        let (version, published_ns) = (answer.elements.version, answer.elements.published_ns);
        let origin = Origin { region: None, object: Some(object.name()), version, published_ns };
        return write(context, args, format, &origin, &Packed(answer.elements.bytes()), &answer.selection);
    }
    let observer = Observer::options().dir(&context.dir).wait(args.wait).open(&args.region)?;
    let snapshot = match args.version {
        // Whoever does not want to wait is told which versions there are.
        Some(version) if !args.wait.is_zero() => wait_for(&observer, version, args.wait)?,
        Some(version) => observer.version(version)?,
        None if !args.wait.is_zero() => observer.newest_after(None, Some(args.wait))?,
        None => observer.newest()?,
    };
    let selection = Selection::resolve(&args.selection, snapshot.variables())?;
    let source = SnapshotSource { snapshot: &snapshot, variable: &selection.variable };
    let (region, published_ns) = (Some(args.region.as_str()), Some(snapshot.published_ns()));
    let origin = Origin { region, object: None, version: snapshot.version(), published_ns };
    write(context, args, format, &origin, &source, &selection)
}

/// The version, once there is none below it any more.
fn wait_for(observer: &Observer, version: u64, wait: Duration) -> Result<Snapshot, Failure> {
    if observer.versions().last().is_none_or(|newest| newest.version < version) {
        observer.wait_newer(version.checked_sub(1), Some(wait))?;
    }
    Ok(observer.version(version)?)
}

fn write(
    context: &mut Context,
    args: &Args,
    format: Option<Format>,
    origin: &Origin,
    source: &dyn Source,
    selection: &Selection,
) -> Verdict {
    let name = sanitize(origin.object.or(origin.region).unwrap_or_default());
    match (&args.output, format) {
        (Some(path), Some(format)) => {
            let caption = Caption { region: name, version: origin.version };
            write_file(context, path, format, source, selection, &caption)?;
        }
        _ if args.json => write_json(context, origin, source, selection)?,
        _ => {
            // A single value stands alone, for scripts; above anything else stands what it is.
            if !selection.shape().is_empty() {
                let units = if selection.units.is_empty() { "" } else { " " };
                writeln!(
                    context.out,
                    "{} of {name}, version {}: {} {}{units}{}",
                    sanitize(&selection.label),
                    origin.version,
                    sanitize(&selection.dtype.to_string()),
                    format_shape(&selection.shape()),
                    sanitize(&selection.units),
                )?;
            }
            text::write(source, selection, context.out)?;
        }
    }
    Ok(FINE)
}

fn choose_format(path: &Path, wanted: Option<Format>) -> Result<Format, Failure> {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_lowercase);
    match (wanted, ending.as_deref()) {
        (Some(format), _) => Ok(format),
        (None, Some("npy")) => Ok(Format::Npy),
        (None, Some("csv")) => Ok(Format::Csv),
        (None, Some("png")) => Ok(Format::Png),
        (None, Some("svg")) => Ok(Format::Svg),
        _ => Err(Failure::Misuse(format!(
            "'{}' does not say in which format to write: end it in .npy, .csv, .png or .svg, or add --format",
            path.display()
        ))),
    }
}

fn write_file(
    context: &mut Context,
    path: &Path,
    format: Format,
    source: &dyn Source,
    selection: &Selection,
    caption: &Caption,
) -> Result<(), Failure> {
    if path == Path::new("-") {
        if format != Format::Csv && std::io::stdout().is_terminal() {
            return Err(Failure::Misuse("that is not for a terminal: redirect it to a file or a pipe".into()));
        }
        return write_format(context.out, format, source, selection, caption);
    }
    let failed = |error| Failure::file(path, error);
    let write = |file: &File| {
        let mut file = BufWriter::with_capacity(1 << 16, file);
        match write_format(&mut file, format, source, selection, caption).and_then(|()| Ok(file.flush()?)) {
            Err(Failure::Output(error)) => Err(failed(error)),
            other => other,
        }
    };
    // A pipe or a device is written to as it is.
    if target::is_special(path) {
        return write(&File::options().write(true).open(path).map_err(failed)?);
    }
    let whole = target::begin(path)?;
    write(whole.file())?;
    target::commit(path, whole)
}

fn write_format(
    out: &mut dyn Write,
    format: Format,
    source: &dyn Source,
    selection: &Selection,
    caption: &Caption,
) -> Result<(), Failure> {
    match format {
        Format::Npy => npy::write(source, selection, out),
        Format::Csv => csv::write(source, selection, out),
        Format::Png => picture::write(source, selection, caption, picture::Format::Png, out),
        Format::Svg => picture::write(source, selection, caption, picture::Format::Svg, out),
    }
}

#[derive(serde::Serialize)]
struct Report<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'a str>,
    version: u64,
    published_ns: Option<u64>,
    variable: &'a str,
    dtype: &'a DType,
    shape: Vec<usize>,
    order: Order,
    units: &'a str,
    values: serde_json::Value,
}

fn write_json(
    context: &mut Context,
    origin: &Origin,
    source: &dyn Source,
    selection: &Selection,
) -> Result<(), Failure> {
    let block = Block::load(source, selection)?;
    context.write_json_line(&Report {
        region: origin.region,
        object: origin.object,
        version: origin.version,
        published_ns: origin.published_ns,
        variable: &selection.variable,
        dtype: &selection.dtype,
        shape: selection.shape(),
        order: selection.order,
        units: &selection.units,
        values: nest(&block, &mut Vec::new()),
    })
}

/// The values as lists in lists.
fn nest(block: &Block, index: &mut Vec<usize>) -> serde_json::Value {
    if index.len() == block.shape.len() {
        return block.at(index).json();
    }
    let mut list = Vec::new();
    for place in 0..block.shape[index.len()] {
        index.push(place);
        list.push(nest(block, index));
        index.pop();
    }
    list.into()
}
