//! `still drepl convert`: raw files of some views into raw files of others.

use super::described::Described;
use super::plan::{missing_rows, plan};
use super::selected::{Each, Selected, Selection, parse_each};
use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::progress::Progress;
use crate::table::sanitize;
use crate::target;
use crate::units::{count, format_bytes, format_ms, format_rate_bytes};
use ::drepl::executor::{Destination, Executor, FileRange, Source};
use ::drepl::{Fragment, Plan};
use serde_json::json;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Convert raw files from views into others
///
/// A raw file holds the bytes of a view and nothing else. Bytes of the result that are no element, holes and padding, are
/// zero; in holes they are what the view says by `fill`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still drepl convert mesh.drepl --from aos=aos.raw --to soa=soa.raw
  still drepl convert mesh.drepl --from aos=aos.raw --to '{ var m [i,j]{e} = mesh[i*4,j*4] }=e.raw'
  still drepl convert line.drepl --each i=0..8 --each j=0..6 \\
      --from '{ var b [x:12] = line[x+12*i] }=old-{i}.raw' \\
      --to '{ var b [x:16] = line[x+16*j] }=new-{j}.raw'
  still drepl convert mesh.drepl --from main --to soa=soa.raw       # main: a replica with a file

Of elements that several files have, the first one named gives them. If no file has some, nothing is
written, unless --partial; they are zero then. `-` as the file of --to is standard output. A file is
written aside and then put in its place: it is the old one, or whole. The files that a text itself
gives its replicas lie in the text's folder.

With --json: {\"files\": [{\"path\", \"view\", \"bytes\", \"moved_bytes\", \"missing\": [{\"leaf\",
\"elements\", \"count\"}]}], \"seconds\"}, where elements are [start, end, step] per axis.

Exit codes: 0 converted, 1 not, or some elements are in no file, 2 when the command makes no sense.")]
pub struct Args {
    #[command(flatten)]
    described: Described,
    /// What there is: a view, a replica, or a fragment in braces, and its file; any number
    #[arg(long, value_name = "VIEW=FILE", required = true)]
    from: Vec<String>,
    /// What to write, likewise; any number
    #[arg(long, value_name = "VIEW=FILE", required = true)]
    to: Vec<String>,
    /// Let a name run, such as i=0..8: each fragment in braces that has it becomes several, and so does {i} in its file
    #[arg(long, value_name = "NAME=A..B", value_parser = parse_each)]
    each: Vec<Each>,
    /// Leave out elements that no file has
    #[arg(long)]
    partial: bool,
    /// Threads that move bytes [default: the processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

/// Memory that files may take on their way. With much of it a transpose reads long runs.
const STAGING_BYTES: usize = 128 << 20;

/// Memory that what holes have takes on its way into a file.
const PIECE_BYTES: u64 = 8 << 20;

/// A file to read from.
struct SourceFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

/// A file to be written.
struct Task {
    to: Selected,
    path: PathBuf,
    plan: Plan,
}

/// Converts files.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let begin = Instant::now();
    let schema = args.described.read(args.from.iter().chain(&args.to))?;
    let bindings = args.described.bindings();
    let selection = Selection::new(&schema, &bindings, &args.each)?;
    let mut sources = Vec::new();
    for text in &args.from {
        sources.extend(selection.stored(text)?);
    }
    let mut tasks = Vec::new();
    for text in &args.to {
        for to in selection.stored(text)? {
            let path = path(&to, args)?;
            tasks.push(Task { plan: plan(&to, &sources)?, to, path });
        }
    }
    let mut paths = HashSet::new();
    if let Some(twice) = tasks.iter().find(|task| !paths.insert(target::place(&task.path))) {
        let path = twice.path.display();
        return Err(Failure::Misuse(format!("{path} is to be two files: give each its own")));
    }
    if let Some(task) = tasks.iter().find(|task| !task.plan.is_complete() && !args.partial) {
        return Err(Failure::Problem(lacking(task)));
    }
    // Whatever is wrong with a file that is read is told before any is written.
    let files = open(&sources, &tasks, args)?;
    let executor = Executor::new(args.threads.unwrap_or(0).into()).staging_bytes(STAGING_BYTES);
    for task in &tasks {
        write(context, task, &files, &executor)?;
    }
    finish(context, args, &tasks, begin)
}

/// Where a layout is stored.
fn path(selected: &Selected, args: &Args) -> Result<PathBuf, Failure> {
    let name = &selected.name;
    match (&selected.file, selected.default_file) {
        (Some(file), false) => Ok(file.clone()),
        // Who runs a text of somebody else's decides which files that can write.
        (Some(file), true) if file.components().any(|part| !matches!(part, std::path::Component::Normal(_))) => {
            let file = file.display();
            Err(Failure::Misuse(format!("the file of {name}, {file}, is not in the text's folder: say {name}={file}")))
        }
        (Some(file), true) => Ok(args.described.folder().join(file)),
        (None, _) => Err(Failure::Misuse(format!("{name} needs a file: say {name}=FILE"))),
    }
}

/// Opens the files that some task reads, and compares their lengths with what they are to hold.
fn open(sources: &[Selected], tasks: &[Task], args: &Args) -> Result<Vec<Option<SourceFile>>, Failure> {
    let used: HashSet<usize> = tasks.iter().flat_map(|task| &task.plan.transfers).map(|transfer| transfer.0).collect();
    let mut files = Vec::new();
    let mut idle = Vec::new();
    for (position, source) in sources.iter().enumerate() {
        let path = path(source, args)?;
        if path == Path::new("-") {
            let name = &source.name;
            return Err(Failure::Misuse(format!(
                "{name} cannot be read from standard input: write it to a file first"
            )));
        }
        if !used.contains(&position) {
            idle.push(path.display().to_string());
            files.push(None);
            continue;
        }
        let unreadable = |error: io::Error| Failure::Problem(format!("cannot read {}: {error}", path.display()));
        let file = File::open(&path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            let path = path.display();
            return Err(Failure::Problem(format!("cannot read {path}: it is no regular file; copy it into one first")));
        }
        let bytes = source.fragment.size_bytes();
        let name = &source.name;
        if about.len() < bytes {
            return Err(Failure::Problem(format!(
                "{}: the file has {} bytes, and {name} has {bytes}: it is another file, or was not written to its end",
                path.display(),
                about.len()
            )));
        }
        if about.len() > bytes {
            let more = about.len() - bytes;
            crate::complain(&format!("note: {} has {more} bytes more than {name} ({bytes})", path.display()));
        }
        files.push(Some(SourceFile { path, file, bytes }));
    }
    if let Some(first) = idle.first() {
        let others =
            if idle.len() > 1 { format!(" and {}", count(idle.len() - 1, "other file")) } else { String::new() };
        crate::complain(&format!("note: nothing is needed of {first}{others}"));
    }
    Ok(files)
}

/// Writes a file, or what is none.
fn write(context: &mut Context, task: &Task, files: &[Option<SourceFile>], executor: &Executor) -> Result<(), Failure> {
    if task.path == Path::new("-") {
        return Ok(context.out.write_all(&collect(task, files, executor)?)?);
    }
    if target::is_special(&task.path) {
        return target::write(&task.path, &collect(task, files, executor)?);
    }
    let whole = target::begin(&task.path)?;
    let bytes = task.to.fragment.size_bytes();
    let failed = |error| Failure::file(&task.path, error);
    if task.to.fragment.fills() {
        write_holes(&task.to.fragment, whole.file()).map_err(failed)?;
    }
    whole.file().set_len(bytes).map_err(failed)?;
    let range = FileRange { file: whole.file(), path: &task.path, offset: 0, bytes };
    let progress = Progress::new("converting");
    let which = sanitize(&task.to.name);
    executor
        .run_stored_watched(&transfers(task, files), Destination::File(range), &mut |done| {
            progress.show(&which, done, bytes);
        })
        .map_err(|error| Failure::Problem(error.to_string()))?;
    target::commit(&task.path, whole)
}

/// Writes what holes have, and zeros elsewhere, in pieces: a file may be larger than memory.
fn write_holes(fragment: &Fragment, file: &File) -> io::Result<()> {
    let bytes = fragment.size_bytes();
    let mut piece = vec![0; bytes.min(PIECE_BYTES) as usize];
    for begin in (0..bytes).step_by(PIECE_BYTES as usize) {
        let piece = &mut piece[..(bytes - begin).min(PIECE_BYTES) as usize];
        fragment.clear_from(begin, piece);
        file.write_all_at(piece, begin)?;
    }
    Ok(())
}

/// The bytes of a layout that is no regular file.
fn collect(task: &Task, files: &[Option<SourceFile>], executor: &Executor) -> Result<Vec<u8>, Failure> {
    let bytes = task.to.fragment.size_bytes();
    let too_large = || Failure::Problem(format!("{bytes} bytes cannot be had; convert into a regular file"));
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes as usize).map_err(|_| too_large())?;
    buffer.resize(bytes as usize, 0);
    if task.to.fragment.fills() {
        task.to.fragment.clear(&mut buffer);
    }
    executor
        .run_stored(&transfers(task, files), Destination::Memory(&mut buffer))
        .map_err(|error| Failure::Problem(error.to_string()))?;
    Ok(buffer)
}

fn transfers<'a>(
    task: &'a Task,
    files: &'a [Option<SourceFile>],
) -> Vec<(&'a ::drepl::transfer::Transfer, Source<'a>)> {
    let transfers = task.plan.transfers.iter().filter_map(|(position, transfer)| {
        let stored = files[*position].as_ref()?;
        let range = FileRange { file: &stored.file, path: &stored.path, offset: 0, bytes: stored.bytes };
        Some((transfer, Source::File(range)))
    });
    transfers.collect()
}

/// What is said when no file has some elements.
fn lacking(task: &Task) -> String {
    const SHOWN_MAX: usize = 200;
    let missing: Vec<String> = task.plan.missing.iter().map(ToString::to_string).collect();
    let missing = missing.join(", ");
    let mut shown: String = missing.chars().take(SHOWN_MAX).collect();
    if shown.len() < missing.len() {
        shown.push('…');
    }
    format!("no file has {shown} of {}: give more files, or write the rest with --partial", task.to.name)
}

fn finish(context: &mut Context, args: &Args, tasks: &[Task], begin: Instant) -> Verdict {
    let seconds = begin.elapsed().as_secs_f64();
    let to_output = tasks.iter().any(|task| task.path == Path::new("-"));
    if to_output {
        return Ok(FINE);
    }
    if args.described.json {
        let files = tasks.iter().map(|task| {
            json!({
                "path": task.path, "view": task.to.name, "bytes": task.to.fragment.size_bytes(),
                "moved_bytes": task.plan.moved_bytes(), "missing": missing_rows(&task.plan),
            })
        });
        context.write_json(&json!({ "files": files.collect::<Vec<_>>(), "seconds": seconds }))?;
        return Ok(FINE);
    }
    for task in tasks.iter().filter(|task| !task.plan.is_complete()) {
        let missing: u128 = task.plan.missing.iter().map(|missing| missing.elements.count()).sum();
        writeln!(context.out, "{}: {missing} elements are in no file, and zero", sanitize(&task.to.name))?;
    }
    let bytes = tasks.iter().map(|task| task.to.fragment.size_bytes()).sum();
    let (size, time) = (format_bytes(bytes), format_ms(seconds * 1e3));
    let what = match tasks {
        [one] => sanitize(&one.path.display().to_string()),
        several => count(several.len(), "file"),
    };
    let rate = format_rate_bytes(bytes as f64 / seconds);
    context.finish(&format!("wrote {what}: {size} in {time}, {rate}"))
}
