//! The version after the newest complete one, and for whom it waits.

use super::summary::WriterSummary;
use crate::failure::Failure;
use crate::units;
use serde::Serialize;
use std::time::Duration;
use stillframe_object::{Error, Object, Part};

/// The version that comes next.
#[derive(Debug, Clone, Serialize)]
pub struct Next {
    /// Its number: the smallest above the complete one that any writer has; none if no writer has begun.
    pub version: Option<u64>,
    /// What is missing of it.
    pub waiting: Vec<Missing>,
}

/// Elements that are still to be published, and by whom.
#[derive(Debug, Clone, Serialize)]
pub struct Missing {
    /// The number of the writer's fragment; none where nobody has attached them.
    pub number: Option<u32>,
    /// Whether the writer died.
    pub died: bool,
    /// The elements.
    pub elements: String,
    /// The writer, for people.
    #[serde(skip)]
    pub who: Option<String>,
}

/// Writers that are named in a line.
const NAMED_MAX: usize = 4;

impl Next {
    /// What is known of it; `None` if there is none to wait for.
    pub fn of(object: &Object, newest: u64, writers: &[WriterSummary]) -> Result<Option<Next>, Failure> {
        let parts = match object.wait_newer(newest, Duration::ZERO) {
            Ok(_) | Err(Error::Ended { .. } | Error::Removed { .. }) => return Ok(None),
            Err(Error::NoNewer { waiting, .. }) => waiting,
            Err(Error::Lost { losses, .. }) => losses,
            Err(error) => return Err(error.into()),
        };
        Ok(Next::new(parts, newest, writers))
    }

    /// As whoever waited was told of it.
    pub fn new(parts: Vec<Part>, newest: u64, writers: &[WriterSummary]) -> Option<Next> {
        let begun = writers.iter().flat_map(|writer| &writer.versions).filter(|version| **version > newest).min();
        let waiting: Vec<Missing> = parts.iter().map(|part| Missing::new(part, writers)).collect();
        (!waiting.is_empty()).then_some(Next { version: begun.copied(), waiting })
    }

    /// For people: `8 waits for rank 3 (process 4711)`.
    pub fn text(&self) -> String {
        let mut names: Vec<String> = self.waiting.iter().take(NAMED_MAX).map(Missing::text).collect();
        if let more @ 1.. = self.waiting.len().saturating_sub(NAMED_MAX) {
            names.push(format!("{} more", units::count(more, "writer")));
        }
        let version = self.version.map_or("the next".into(), |version| version.to_string());
        format!("{version} waits for {}", names.join(", "))
    }
}

impl Missing {
    fn new(part: &Part, writers: &[WriterSummary]) -> Missing {
        let number = part.who.map(|who| who.0.writer.serial);
        let died = writers.iter().any(|writer| Some(writer.number) == number && writer.state == "died");
        Missing { number, died, elements: part.elements.clone(), who: part.who.map(|who| who.to_string()) }
    }

    fn text(&self) -> String {
        match &self.who {
            Some(who) if self.died => format!("{who}, which died"),
            Some(who) => who.clone(),
            None => format!("somebody to attach {}", self.elements),
        }
    }
}
