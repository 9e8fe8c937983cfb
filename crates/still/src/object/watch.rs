//! `still watch` of an object: a line for each version that becomes complete, and whom the next one waits for.

use super::next::Next;
use super::summary::Summary;
use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure, PROBLEM};
use crate::polite::PoliteArgs;
use crate::table::sanitize;
use crate::units;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;
use stillframe_object::{Error, Object};

/// How long nothing may come before it is said who keeps it from coming. Longer than it takes to see that all have left.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Line {
    /// Nanoseconds since 1970.
    time_ns: u64,
    version: u64,
    published_ns: Option<u64>,
    /// From the version in the line before.
    interval_ms: Option<f64>,
    writers_alive: usize,
    writers_died: usize,
    memory_bytes: u64,
}

/// Watches until all writers have left, at most a line per `interval`, or until the first line.
pub fn run(
    context: &mut Context,
    object: &Object,
    interval: Duration,
    is_once: bool,
    is_json: bool,
    polite: &PoliteArgs,
) -> Verdict {
    let mut last: Option<Summary> = None;
    // What is complete already is the first line.
    let mut after = object.newest()?.saturating_sub(1).max(object.description().initial);
    loop {
        match object.wait_newer(after, PATIENCE) {
            Ok(version) => {
                let summary = Summary::new(object, &context.dir, &HashMap::new())?;
                after = summary.newest.max(version);
                write_version(context, &summary, last.as_ref(), after, is_json)?;
                last = Some(summary);
                if is_once {
                    return Ok(FINE);
                }
                polite.step_back()?;
                std::thread::sleep(interval);
            }
            Err(Error::NoNewer { waiting, .. }) => {
                let summary = Summary::new(object, &context.dir, &HashMap::new())?;
                if let Some(next) = Next::new(waiting, after, &summary.writers) {
                    write_next(context, object, &next, is_json)?;
                }
            }
            Err(Error::Ended { .. }) => {
                if !is_json {
                    writeln!(context.out, "{}: all writers have left", sanitize(object.name()))?;
                }
                return Ok(if is_once { PROBLEM } else { FINE });
            }
            // Nothing comes any more because writers died.
            Err(error) => return Err(error.into()),
        }
    }
}

fn write_version(
    context: &mut Context,
    summary: &Summary,
    before: Option<&Summary>,
    version: u64,
    is_json: bool,
) -> Result<(), Failure> {
    let published = |summary: &Summary| summary.published_ns;
    let between = before.and_then(published).zip(published(summary));
    let interval_ms = between.map(|(before_ns, now_ns)| now_ns.saturating_sub(before_ns) as f64 / 1e6);
    if is_json {
        return context.write_json_line(&Line {
            time_ns: units::now_ns(),
            version,
            published_ns: summary.published_ns,
            interval_ms,
            writers_alive: summary.writers_alive,
            writers_died: summary.writers_died,
            memory_bytes: summary.memory_bytes,
        });
    }
    let since = match (before, interval_ms) {
        (Some(before), Some(ms)) => format!(", {} after {}", units::format_ms(ms), before.newest),
        _ => String::new(),
    };
    let (name, memory) = (sanitize(&summary.name), units::format_bytes(summary.memory_bytes));
    writeln!(context.out, "{name}: version {version}{since}, writers: {}, {memory}", summary.describe_writers())?;
    Ok(context.out.flush()?)
}

fn write_next(context: &mut Context, object: &Object, next: &Next, is_json: bool) -> Result<(), Failure> {
    if is_json {
        let line = serde_json::json!({ "time_ns": units::now_ns(), "next": next });
        return context.write_json_line(&line);
    }
    writeln!(context.out, "{}: {}", sanitize(object.name()), next.text())?;
    Ok(context.out.flush()?)
}
