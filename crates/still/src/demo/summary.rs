//! What the demonstration has come to, as a table or in JSON.

use super::comparison::Comparison;
use super::plan::Plan;
use super::progress::{Progress, Sight};
use crate::trial::measure::human_bytes;
use crate::trial::print_line;
use serde_json::json;

/// What the demonstration has come to.
pub struct Summary<'a> {
    /// What was asked for.
    pub plan: &'a Plan,
    /// How things stood before steps with and without publishing were compared.
    pub progress: &'a Progress,
    /// What that comparison has shown.
    pub comparison: &'a Comparison,
    /// Versions published, all in all.
    pub published: u64,
    /// What the observer with the statistics has seen.
    pub statistics: Sight,
    /// What the viewer has seen, if there was one.
    pub viewer: Option<Sight>,
}

impl Summary<'_> {
    /// Prints it in the way that was asked for.
    pub fn print(&self) {
        if self.plan.json { print_line(self.json()) } else { self.print_table() }
    }

    fn print_table(&self) {
        let Summary { progress, comparison, statistics, .. } = self;
        let row = |name: &str, value: String| print_line(format_args!("  {name:<34} {value}"));
        print_line("");
        row("steps", format!("{} ({:.1} per second)", progress.steps, progress.steps as f64 / progress.seconds));
        row("versions published", self.published.to_string());
        row("versions in the statistics", format!("{} (torn: {})", statistics.seen, statistics.torn));
        if let Some(viewer) = self.viewer {
            row("versions drawn", viewer.seen.to_string());
        }
        row("pages dirty in the last step", format!("{:.0} %", 100.0 * progress.dirty_share));
        let share = progress.publish_seconds / progress.seconds;
        let publish_ms = 1e3 * progress.publish_seconds / progress.steps as f64;
        row("time spent publishing", format!("{publish_ms:.2} ms per step, {:.1} %", 100.0 * share));
        row("arrays", human_bytes(progress.array_bytes as usize));
        row("region's files, all versions", human_bytes(progress.file_bytes as usize));
        row("step without publishing", format!("{:.2} ms", 1e3 * comparison.without_seconds));
        row("step with publishing", format!("{:.2} ms", 1e3 * comparison.with_seconds));
        let turns = comparison.turns;
        row("run time with / without", format!("{:.3} (median of {turns} turns)", comparison.ratio));
        row("pictures and statistics", self.plan.out.display().to_string());
    }

    fn json(&self) -> serde_json::Value {
        let Summary { progress, comparison, statistics, .. } = self;
        json!({
            "cells": self.plan.cells,
            "threads": self.plan.threads,
            "steps": progress.steps,
            "seconds": progress.seconds,
            "published": self.published,
            "statistics": {"seen": statistics.seen, "torn": statistics.torn, "memory_bytes": statistics.memory_bytes},
            "viewer": self.viewer.map(|viewer| json!({"seen": viewer.seen, "memory_bytes": viewer.memory_bytes})),
            "dirty_share": progress.dirty_share,
            "publish_ms": 1e3 * progress.publish_seconds / progress.steps as f64,
            "publish_share": progress.publish_seconds / progress.seconds,
            "array_bytes": progress.array_bytes,
            "file_bytes": progress.file_bytes,
            "step_ms": {"with": 1e3 * comparison.with_seconds, "without": 1e3 * comparison.without_seconds},
            "run_time_ratio": comparison.ratio,
            "equal": comparison.equal,
            "out": self.plan.out,
        })
    }
}
