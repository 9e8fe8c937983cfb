//! What the driver tells: a line that changes on a terminal, lines elsewhere, JSON on request.

use crate::context::Context;
use crate::failure::Failure;
use crate::units;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// Something that happened.
pub struct Event {
    json: Value,
    text: String,
    /// Whether the next event may take its place on a terminal.
    passing: bool,
}

fn named(version: Option<u64>) -> String {
    version.map_or("nothing".into(), |version| format!("version {version}"))
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
        Event::new(json!({ "event": "begin", "version": version, "origin": origin }), text)
    }

    pub fn restored(version: u64, path: &Path, memory: Option<u64>) -> Event {
        let path = path.display().to_string();
        let memory_text =
            memory.map_or("memory has none".into(), |memory| format!("memory has an older one, {memory}"));
        Event::new(
            json!({ "event": "begin", "version": version, "origin": "checkpoint", "path": path, "memory": memory }),
            format!("begins with version {version}, restored from {path}; {memory_text}"),
        )
    }

    pub fn step(read: Option<u64>, version: u64, took: Duration, attempt: u32, until: u64) -> Event {
        let seconds = took.as_secs_f64();
        let time = units::format_ms(seconds * 1e3);
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        Event {
            json: json!({ "event": "step", "version": version, "read": read, "seconds": seconds, "attempt": attempt }),
            text: format!("version {version} of {until}, {time}{again}"),
            passing: true,
        }
    }

    pub fn failed(read: Option<u64>, write: u64, attempt: u32, why: &str, log: Option<&Path>) -> Event {
        let log = log.map(|path| path.display().to_string());
        let told = log.as_ref().map(|log| format!(" ({log})")).unwrap_or_default();
        Event::new(
            json!({ "event": "failed", "version": read, "write": write, "attempt": attempt, "why": why, "log": log }),
            format!("attempt {attempt} at version {write} failed: {why}{told}; {} is as it was", named(read)),
        )
    }

    pub fn checkpoint(version: u64, path: &Path, took: Duration, bytes: u64, written: u64, why: &str) -> Event {
        let (seconds, path) = (took.as_secs_f64(), path.display().to_string());
        let time = units::format_ms(seconds * 1e3);
        let sizes = format!("{} written for {}", units::format_bytes(written), units::format_bytes(bytes));
        Event::new(
            json!({ "event": "checkpoint", "version": version, "path": path, "seconds": seconds, "bytes": bytes,
                "written_bytes": written, "why": why }),
            format!("version {version} is safe in {path} ({why}; {sizes}, {time})"),
        )
    }

    pub fn note(version: Option<u64>, text: &str) -> Event {
        Event::new(json!({ "event": "note", "version": version, "text": text }), text.into())
    }

    pub fn end(version: Option<u64>, reason: &str, exit: u8) -> Event {
        Event::new(
            json!({ "event": "end", "version": version, "reason": reason, "exit": exit }),
            format!("ends with {}: {reason}", named(version)),
        )
    }
}

/// Tells events as they come.
pub struct Journal {
    json: bool,
    terminal: bool,
    passing: bool,
}

impl Journal {
    pub fn new(json: bool) -> Journal {
        Journal { json, terminal: std::io::stderr().is_terminal(), passing: false }
    }

    pub fn add(&mut self, context: &mut Context, event: &Event) -> Result<(), Failure> {
        if self.json {
            return context.write_json_line(&event.json);
        }
        let over = if self.passing { "\r\x1b[K" } else { "" };
        let passing = event.passing && self.terminal;
        // A file of all steps is what --json is for.
        if !event.passing || passing {
            let end = if passing { "" } else { "\n" };
            let mut err = std::io::stderr().lock();
            // A run goes on when nobody reads what is told of it.
            let _ = write!(err, "{over}still step: {}{end}", crate::table::sanitize(&event.text));
            let _ = err.flush();
            self.passing = passing;
        }
        Ok(())
    }
}
