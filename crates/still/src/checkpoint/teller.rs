//! What `still checkpoint` prints of what happens.

use super::Args;
use crate::output::EventLines;
use crate::table::sanitize;
use crate::units;
use ratatui::crossterm::terminal;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Instant;
use stillframe_checkpoint::{Event, Saving, Status};

/// Says what happens, in lines of text or JSON, and on a terminal how far things are in the line below.
pub struct Teller<'a> {
    name: &'a str,
    to: &'a Path,
    json: bool,
    is_terminal: bool,
    lines: EventLines,
    /// The line as it is on the terminal.
    drawn: String,
    begun: HashMap<u64, Instant>,
}

impl<'a> Teller<'a> {
    pub fn new(args: &'a Args, is_terminal: bool) -> Teller<'a> {
        let (name, to, json) = (args.name.as_str(), args.to.as_path(), args.json);
        Teller {
            name,
            to,
            json,
            is_terminal,
            lines: EventLines::default(),
            drawn: String::new(),
            begun: HashMap::new(),
        }
    }

    fn print(&mut self, out: &mut dyn Write, text: &str) {
        self.clear(out);
        self.lines.write(out, text);
    }

    fn print_json(&mut self, out: &mut dyn Write, event: &str, mut value: Value) {
        value["event"] = event.into();
        value["time_ns"] = units::now_ns().into();
        self.print(out, &value.to_string());
    }

    /// Says something that is not an event.
    pub fn say(&mut self, out: &mut dyn Write, text: &str) {
        if !self.json {
            self.print(out, text);
        }
    }

    /// Says what is wrong, where errors are looked for.
    fn complain(&mut self, out: &mut dyn Write, text: &str) {
        self.clear(out);
        let _ = writeln!(std::io::stderr(), "still: {}", sanitize(text));
    }

    pub fn tell(&mut self, out: &mut dyn Write, event: &Event) {
        if let Event::Begun { version, .. } = event {
            self.begun.insert(*version, Instant::now());
        }
        if self.json {
            let (name, value) = self.describe(event);
            return self.print_json(out, name, value);
        }
        let count = |number: usize, what| units::count(number, what);
        match event {
            Event::Attached { ranks, newest } => {
                let what = ranks.map_or("region".into(), |ranks| format!("group of {}", count(ranks, "rank")));
                let newest = newest.map_or("no version yet".into(), |newest| format!("newest version {newest}"));
                let text = format!("{}: {what}, {newest}; saving to {}", sanitize(self.name), self.to.display());
                self.print(out, &text);
            }
            Event::Saved(saved) if saved.already => {
                self.print(out, &format!("version {} was safe before", saved.version));
            }
            Event::Saved(saved) => {
                let (bytes, written) = (units::format_bytes(saved.bytes), units::format_bytes(saved.written_bytes));
                let time = units::format_ms(saved.duration.as_secs_f64() * 1e3);
                let removed = match saved.removed.as_slice() {
                    [] => String::new(),
                    removed => format!("; removed {}", list(removed)),
                };
                let version = saved.version;
                let text = format!("version {version} is safe: {bytes} in {time}, {written} of it written{removed}");
                self.print(out, &text);
                if let Some(trouble) = &saved.trouble {
                    self.complain(out, &format!("version {version} is safe, but {trouble}"));
                }
            }
            Event::Missed { count, after, before } => {
                let text = match after {
                    Some(after) if after + count + 1 == *before && *count == 1 => {
                        format!("missed version {}", after + 1)
                    }
                    Some(after) if after + count + 1 == *before => {
                        format!("missed versions {} to {}: {count} came too fast", after + 1, before - 1)
                    }
                    Some(after) => format!("missed {count} between versions {after} and {before}: they came too fast"),
                    None => format!("missed {count} before version {before}: they came too fast"),
                };
                self.print(out, &text);
            }
            Event::Failed { version, error, retry, .. } => {
                let retry = match retry {
                    Some(retry) => format!("; trying again in {}", units::format_ms(retry.as_secs_f64() * 1e3)),
                    None => String::new(),
                };
                self.complain(out, &format!("version {version} is not saved: {error}{retry}"));
            }
            Event::Undecided { error } => self.complain(out, error),
            Event::RankGone { error } => self.complain(out, &format!("{error}; waiting")),
            Event::Gone { follow } => {
                let follow = match follow.is_zero() {
                    true => String::new(),
                    false => format!("; waiting {} for the next run", units::format_ms(follow.as_secs_f64() * 1e3)),
                };
                self.print(out, &format!("the program that published {} is gone{follow}", sanitize(self.name)));
            }
            Event::NewRun { newest } => {
                let newest = newest.map_or("no version yet".into(), |newest| format!("newest version {newest}"));
                self.print(out, &format!("a new run of {} has begun: {newest}", sanitize(self.name)));
            }
            Event::SetAside { versions, to } => {
                self.print(out, &gave_way(versions, to));
            }
            Event::Remade => {
                self.complain(
                    out,
                    &format!("{} was removed, and is made again: what was in it is gone", self.to.display()),
                );
            }
            _ => {}
        }
    }

    fn describe(&self, event: &Event) -> (&'static str, Value) {
        match event {
            Event::Attached { ranks, newest } => {
                ("attached", json!({ "region": self.name, "to": self.to, "ranks": ranks, "newest": newest }))
            }
            Event::Begun { version, bytes } => ("begun", json!({ "version": version, "bytes": bytes })),
            Event::Saved(saved) => {
                let value = json!({
                    "version": saved.version, "path": saved.path, "already": saved.already, "bytes": saved.bytes,
                    "written_bytes": saved.written_bytes, "linked_bytes": saved.linked_bytes,
                    "read_back_bytes": saved.read_back_bytes, "files": saved.files,
                    "removed": saved.removed, "trouble": saved.trouble, "seconds": saved.duration.as_secs_f64(),
                });
                ("saved", value)
            }
            Event::Missed { count, after, before } => {
                ("missed", json!({ "count": count, "after": after, "before": before }))
            }
            Event::Failed { version, error, code, retry } => {
                let retry = retry.map(|retry| retry.as_secs_f64());
                ("failed", json!({ "version": version, "error": error, "code": code, "retry_seconds": retry }))
            }
            Event::Undecided { error } => ("undecided", json!({ "error": error })),
            Event::RankGone { error } => ("rank-gone", json!({ "error": error })),
            Event::Gone { follow } => ("gone", json!({ "follow_seconds": follow.as_secs_f64() })),
            Event::NewRun { newest } => ("new-run", json!({ "newest": newest })),
            Event::SetAside { versions, to } => ("set-aside", json!({ "versions": versions, "to": to })),
            Event::Remade => ("remade", json!({})),
            _ => ("other", json!({})),
        }
    }

    /// Draws the line that says how far things are.
    pub fn progress(&mut self, out: &mut dyn Write, status: &Status) {
        if !self.is_terminal || self.lines.is_mute() {
            return;
        }
        let mut parts: Vec<String> = status.saving.iter().map(|saving| self.describe_saving(saving)).collect();
        if parts.is_empty() {
            parts.push("waiting".into());
        }
        parts.push(status.newest_safe.map_or("none safe yet".into(), |newest| format!("newest safe {newest}")));
        if status.missed > 0 {
            parts.push(format!("{} missed", status.missed));
        }
        // Some terminals do not know how wide they are.
        let width = terminal::size().ok().map(|(width, _)| width as usize).filter(|width| *width > 0).unwrap_or(80);
        let line: String = parts.join("  ").chars().take(width - 1).collect();
        if line == self.drawn {
            return;
        }
        // The line is drawn over itself, and what it had more is erased.
        let _ = write!(out, "\r{line}\x1b[K").and_then(|()| out.flush());
        self.drawn = line;
    }

    fn describe_saving(&self, saving: &Saving) -> String {
        let seconds = self.begun.get(&saving.version).map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        let share = saving.bytes_done as f64 / saving.bytes.max(1) as f64;
        let rate = units::format_bytes((saving.bytes_done as f64 / seconds.max(1e-3)) as u64);
        let (done, bytes) = (units::format_bytes(saving.bytes_done), units::format_bytes(saving.bytes));
        format!("saving {}: {}, {done} of {bytes}, {rate}/s", saving.version, units::format_share(share))
    }

    pub fn clear(&mut self, out: &mut dyn Write) {
        if !std::mem::take(&mut self.drawn).is_empty() {
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
        }
    }

    pub fn end(&mut self, out: &mut dyn Write, status: &Status) {
        if self.json {
            return self.print_json(out, "ended", json!({ "status": status }));
        }
        let newest = match status.newest_safe {
            Some(newest) => format!("newest safe version {newest}"),
            None => "no version is safe".into(),
        };
        let text = format!("ended: {} saved, {} missed, {newest}", status.saved, status.missed);
        self.print(out, &text);
    }
}

/// Says where checkpoints of an earlier run went.
pub fn gave_way(versions: &[u64], to: &Path) -> String {
    format!("the earlier run's {} gave way to this one's, and went to {}", list(versions), to.display())
}

fn list(versions: &[u64]) -> String {
    versions.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
