//! `still restore`: a checkpoint back into memory.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::object;
use crate::progress::Progress;
use crate::table::sanitize;
use crate::units::{self, parse_version};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;
use stillframe::{Attributes, Region};
use stillframe_checkpoint::{Checkpoint, Error, Reading, RestoreOptions, Skipped, Store};

/// Put a checkpoint back into memory, for a program to go on from
///
/// The region is then as the program left it that published this version and ended: observers see it, and a program that
/// creates it goes on from there. Of a group, all ranks come at once. Of an object, its version is there as its writers left
/// it, for any number of writers to go on from.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still restore ckpt                         the newest good checkpoint, under its own name
  still restore ckpt --version 120
  still restore ckpt --version 120 --as heat-at-120 && still get heat-at-120 u -o u.png
  still restore ckpt/v000000000120.zarr      one checkpoint, or a copy of one

Every chunk is compared with its checksum while it is read. A checkpoint that is damaged is named on
standard error, with the chunk, and the one before is used, unless --version asks for one. Until
all of it was found to be good nobody sees any of it, and if it is not, nothing is changed.

What is in memory under that name stays, and that is an error: a program that creates the region
goes on from there. --replace takes it away instead, but never while its producer lives. An object
that nobody has written gets the version; another one goes before that is put in its place, and if
that fails, the object is gone, which is said.

What describes the arrays to other programs is not needed here: where it is damaged, that is said.

With --json: {\"region\", \"version\", \"path\", \"bytes\", \"seconds\", \"skipped\": [{\"path\", \"error\"}],
\"damaged\": [{\"path\", \"error\"}]}, the first of checkpoints, the second of files of the one restored.

Exit codes: 0 restored, 1 not, 2 the command makes no sense.")]
pub struct Args {
    /// The directory of checkpoints, or one of them
    #[arg(value_name = "DIR")]
    store: PathBuf,
    /// This version instead of the newest that is good
    #[arg(long, value_name = "V", value_parser = parse_version, allow_negative_numbers = true)]
    version: Option<u64>,
    /// Name of the region or group [default: that of the checkpoint]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Take away what has that name in memory
    #[arg(long)]
    replace: bool,
    /// Threads that read [default: the processors, at most 4]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Restores a checkpoint.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let begin = Instant::now();
    let told = told(args)?;
    let object = object::restore::Told::of(&told.region, &told.attributes);
    let name = match (&args.name, &object) {
        (Some(name), _) => name.clone(),
        (None, Some(_)) => object::restore::name_of(&told.region),
        (None, None) => told.region,
    };
    let mut options = RestoreOptions::new().replace(args.replace).version(args.version);
    if let Some(threads) = args.threads {
        options = options.threads(threads);
    }
    let progress = Progress::new("restoring");
    let bytes = std::sync::atomic::AtomicU64::new(0);
    let show = |reading: Reading| {
        bytes.store(reading.bytes, std::sync::atomic::Ordering::Relaxed);
        progress.show(format_args!("version {}", reading.version), reading.bytes_done, reading.bytes);
    };
    let restored = match &object {
        Some(object) => object::restore::restore(context, &args.store, options, &name, object, args.replace, &show),
        None => {
            let region = Region::options().dir(&context.dir);
            options.restore_newest(&args.store, &region, &name, &show).map_err(Failure::from)
        }
    };
    drop(progress);
    let (restored, bytes) = (restored?, bytes.into_inner());
    for skipped in &restored.skipped {
        crate::complain(&format!("skipped: {skipped}"));
    }
    let from = restored.path.display();
    for damage in &restored.damages {
        crate::complain(&format!(
            "note: {from}/{damage}; the arrays are whole without it, other programs may not open them"
        ));
    }
    let is_damaged = !restored.skipped.is_empty() || !restored.damages.is_empty();
    if is_damaged {
        crate::complain(&format!("note: `still verify {}` names all that is", args.store.display()));
    }
    let seconds = begin.elapsed().as_secs_f64();
    if args.json {
        let skipped: Vec<_> =
            restored.skipped.iter().map(|skipped| json!({ "path": skipped.path, "error": skipped.why })).collect();
        let damages: Vec<_> = restored
            .damages
            .iter()
            .map(|damage| json!({ "path": damage.path, "error": damage.fault.to_string() }))
            .collect();
        context.write_json(&json!({
            "region": name, "version": restored.version, "path": restored.path, "bytes": bytes, "seconds": seconds,
            "skipped": skipped, "damaged": damages,
        }))?;
        return Ok(FINE);
    }
    let (size, time) = (units::format_bytes(bytes), units::format_ms(seconds * 1e3));
    let path = sanitize(&restored.path.display().to_string());
    context.finish(&format!(
        "restored {} at version {} from {path}: {size} in {time}",
        sanitize(&name),
        restored.version
    ))
}

/// What a checkpoint tells of what it is one of.
struct Told {
    region: String,
    attributes: Attributes,
}

impl Told {
    fn of(checkpoint: &Checkpoint) -> Told {
        let manifest = checkpoint.manifest();
        Told { region: manifest.region.clone(), attributes: manifest.attributes.clone() }
    }
}

/// What the checkpoint to be restored tells, or the newest that tells anything.
fn told(args: &Args) -> Result<Told, Failure> {
    let store = match Store::open(&args.store) {
        Ok(store) => store,
        Err(error @ Error::NoStore { .. }) => match Checkpoint::open(&args.store) {
            Err(Error::NoStore { .. }) => return Err(error.into()),
            opened => return Ok(Told::of(&opened?)),
        },
        Err(error) => return Err(error.into()),
    };
    let named = |checkpoint: Checkpoint| Ok(Told::of(&checkpoint));
    if let Some(version) = args.version {
        return Ok(store.version(version).and_then(named)?);
    }
    let mut skipped = Vec::new();
    let told = store.newest_after(None, &mut skipped, named)?;
    let skipped = skipped.iter().map(Skipped::to_string).collect();
    told.ok_or_else(|| Error::NoCheckpoint { dir: args.store.clone(), skipped }.into())
}
