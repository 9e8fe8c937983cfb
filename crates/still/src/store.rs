//! Directories of checkpoints, as commands are given them, and `still ls --store`.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure, PROBLEM};
use crate::table::{Align, Table, sanitize};
use crate::units;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use stillframe_checkpoint::{Checkpoint, Entry, Error, Store};

/// What a command was given.
pub enum Target {
    /// The name of a region or group.
    Region(String),
    /// A directory of checkpoints, or a checkpoint.
    Path(PathBuf),
}

/// Tells regions from directories: a name that begins with `.` or `/` is a path, and so is one that no region has and a
/// directory does.
pub fn find(context: &Context, text: &str) -> Target {
    let is_region = || context.dir.join(text).is_dir();
    match text.starts_with(['.', '/']) || !is_region() && Path::new(text).is_dir() {
        true => Target::Path(text.into()),
        false => Target::Region(text.into()),
    }
}

/// The checkpoints in a directory by version, which may be a single one. Each is opened when it is come to.
pub fn entries(path: &Path) -> Result<Box<dyn Iterator<Item = Entry>>, Failure> {
    match Store::open(path) {
        Ok(store) => Ok(Box::new(store.entries()?)),
        Err(error @ Error::NoStore { .. }) => match Checkpoint::open(path) {
            Err(Error::NoStore { .. }) => Err(error.into()),
            Ok(checkpoint) => {
                let (version, path) = (checkpoint.version(), path.to_path_buf());
                Ok(Box::new(std::iter::once(Entry { version, path, checkpoint: Ok(checkpoint) })))
            }
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Lists the checkpoints of a directory.
pub fn list(context: &mut Context, path: &Path, as_json: bool) -> Verdict {
    let entries = entries(path)?;
    if as_json {
        let checkpoints: Vec<Value> = entries.map(|entry| describe(&entry)).collect();
        let is_good = checkpoints.iter().all(|checkpoint| checkpoint["error"].is_null());
        context.write_json(&json!({ "store": path, "checkpoints": checkpoints }))?;
        return Ok(if is_good { FINE } else { PROBLEM });
    }
    let mut table = Table::new(&[
        ("VERSION", Align::Right),
        ("REGION", Align::Left),
        ("SIZE", Align::Right),
        ("SHARED", Align::Right),
        ("FILES", Align::Right),
        ("AGE", Align::Right),
        ("ATTRIBUTES", Align::Left),
    ]);
    let now_ns = units::now_ns();
    let (mut is_any, mut errors) = (false, Vec::new());
    for entry in entries {
        table.push(row(&entry, now_ns));
        is_any = true;
        errors.extend(entry.checkpoint.err().map(|error| format!("{}: {}", entry.version, error.finding())));
    }
    if !is_any {
        return context.finish(&format!("no checkpoints in {}", path.display()));
    }
    table.write(context.out)?;
    for error in &errors {
        writeln!(context.out, "{}", sanitize(error))?;
    }
    Ok(if errors.is_empty() { FINE } else { PROBLEM })
}

fn row(entry: &Entry, now_ns: u64) -> Vec<String> {
    let version = entry.version.to_string();
    let Ok(checkpoint) = &entry.checkpoint else { return vec![version, "damaged".into()] };
    let manifest = checkpoint.manifest();
    let ranks = manifest.ranks.map_or(String::new(), |ranks| format!(" ({})", units::count(ranks as usize, "rank")));
    let attributes: Vec<String> = manifest.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![
        version,
        sanitize(&format!("{}{ranks}", manifest.region)),
        units::format_bytes(manifest.bytes),
        units::format_bytes(manifest.linked_bytes),
        manifest.files.to_string(),
        units::format_ms(units::elapsed_ms(manifest.published_ns, now_ns) as f64),
        sanitize(&attributes.join(", ")),
    ]
}

fn describe(entry: &Entry) -> Value {
    let Entry { version, path, checkpoint } = entry;
    match checkpoint {
        Ok(checkpoint) => {
            let manifest = checkpoint.manifest();
            json!({
                "version": version, "path": path, "error": null, "region": manifest.region, "ranks": manifest.ranks,
                "published_ns": manifest.published_ns, "saved_ns": manifest.saved_ns, "attributes": manifest.attributes,
                "bytes": manifest.bytes, "linked_bytes": manifest.linked_bytes, "files": manifest.files,
                "previous": manifest.previous,
            })
        }
        Err(error) => json!({ "version": version, "path": path, "error": error.finding() }),
    }
}
