//! What the driver tells: a line that changes on a terminal, lines elsewhere, JSON on request.

use crate::context::Context;
use crate::output::EventLines;
use crate::units;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;
use stillframe_checkpoint::Saved;

/// Something that happened.
pub struct Event {
    json: Value,
    text: String,
    /// Whether the next event may take its place on a terminal.
    passing: bool,
}

/// What a step that failed has left.
pub fn untouched(read: Option<u64>) -> String {
    read.map_or("there is no version yet".into(), |version| format!("version {version} is as it was"))
}

impl Event {
    fn new(json: Value, text: String) -> Event {
        Event { json, text, passing: false }
    }

    pub fn begin(version: Option<u64>, origin: &str) -> Event {
        let text = match version {
            Some(version) => format!("begins with version {version}, which is in {origin}"),
            None => "begins fresh: there is neither memory nor a checkpoint, and version 0 has to be made".into(),
        };
        Event::new(json!({ "event": "begun", "version": version, "origin": origin }), text)
    }

    pub fn restored(version: u64, path: &Path, memory: Option<u64>) -> Event {
        let path = path.display().to_string();
        let memory_text =
            memory.map_or("memory has none".into(), |memory| format!("memory has an older one, {memory}"));
        Event::new(
            json!({ "event": "begun", "version": version, "origin": "checkpoint", "path": path, "memory": memory }),
            format!("begins with version {version}, restored from {path}; {memory_text}"),
        )
    }

    pub fn step(read: Option<u64>, version: u64, took: Duration, attempt: u32, until: u64) -> Event {
        let seconds = took.as_secs_f64();
        let time = units::format_ms(seconds * 1e3);
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        Event {
            json: json!({ "event": "stepped", "version": version, "read": read, "seconds": seconds, "attempt": attempt }),
            text: format!("version {version} of {until}, {time}{again}"),
            passing: true,
        }
    }

    pub fn failed(read: Option<u64>, write: u64, attempt: u32, error: &str, log: Option<&Path>) -> Event {
        let log = log.map(|path| path.display().to_string());
        let told = log.as_ref().map(|log| format!(" ({log})")).unwrap_or_default();
        Event::new(
            json!({ "event": "failed", "version": read, "read": read, "write": write, "attempt": attempt, "error": error,
                "log": log }),
            format!("attempt {attempt} at version {write} failed: {error}{told}; {}", untouched(read)),
        )
    }

    pub fn saved(saved: &Saved, why: &str) -> Event {
        let (version, path, seconds) = (saved.version, saved.path.display(), saved.duration.as_secs_f64());
        let (bytes, written) = (units::format_bytes(saved.bytes), units::format_bytes(saved.written_bytes));
        let time = units::format_ms(seconds * 1e3);
        Event::new(
            json!({ "event": "saved", "version": version, "path": saved.path, "bytes": saved.bytes,
                "written_bytes": saved.written_bytes, "linked_bytes": saved.linked_bytes, "why": why, "seconds": seconds }),
            format!("version {version} is safe in {path} ({why}): {bytes} in {time}, {written} of it written"),
        )
    }

    pub fn note(version: Option<u64>, text: &str) -> Event {
        Event::new(json!({ "event": "noted", "version": version, "text": text }), text.into())
    }

    pub fn end(version: Option<u64>, reason: &str, exit: u8) -> Event {
        Event::new(
            json!({ "event": "ended", "version": version, "reason": reason, "exit": exit }),
            match version {
                Some(version) => format!("ends with version {version}: {reason}"),
                None => format!("ends without a version: {reason}"),
            },
        )
    }
}

/// Tells events as they come.
pub struct Journal {
    json: bool,
    lines: EventLines,
    terminal: bool,
    passing: bool,
}

impl Journal {
    pub fn new(json: bool) -> Journal {
        Journal { json, lines: EventLines::default(), terminal: std::io::stderr().is_terminal(), passing: false }
    }

    /// Tells an event. A run goes on when nobody reads what is told of it, or there is no room for it.
    pub fn add(&mut self, context: &mut Context, event: &Event) {
        if self.json {
            let mut line = event.json.clone();
            line["time_ns"] = units::now_ns().into();
            return self.lines.write(context.out, &line.to_string());
        }
        let over = if self.passing { "\r\x1b[K" } else { "" };
        let passing = event.passing && self.terminal;
        // A file of all steps is what --json is for.
        if !event.passing || passing {
            let end = if passing { "" } else { "\n" };
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "{over}still step: {}{end}", crate::table::sanitize(&event.text));
            let _ = err.flush();
            self.passing = passing;
        }
    }
}
