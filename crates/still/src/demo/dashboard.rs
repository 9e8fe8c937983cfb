//! What the terminal shows while the demonstration runs.

use super::plan::Plan;
use super::progress::{Progress, Sight};
use crate::trial::measure::human_bytes;
use crate::trial::print_line;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const BAR_WIDTH: usize = 40;

/// A few lines that are rewritten in place on a terminal, and one line now and then elsewhere.
pub struct Dashboard {
    shown: bool,
    terminal: bool,
    lines: usize,
    last: Instant,
}

impl Dashboard {
    /// A dashboard that shows itself if there is somebody to look.
    pub fn new(plan: &Plan) -> Dashboard {
        let terminal = std::io::stdout().is_terminal();
        let shown = plan.view && !plan.json;
        if shown {
            print_line(format_args!(
                "Gray-Scott reaction, {0} x {0} x {0} cells, {1} threads",
                plan.cells, plan.threads
            ));
        }
        Dashboard { shown, terminal, lines: 0, last: Instant::now() }
    }

    /// Whether it is time to show something new.
    pub fn is_due(&self) -> bool {
        self.shown && self.last.elapsed() > Duration::from_millis(if self.terminal { 250 } else { 2000 })
    }

    /// Shows how things stand.
    pub fn show(&mut self, progress: &Progress, statistics: &Sight, viewer: Option<&Sight>) {
        self.last = Instant::now();
        let rate = progress.steps as f64 / progress.seconds;
        let share = 100.0 * progress.publish_seconds / progress.seconds;
        let dirty = 100.0 * progress.dirty_share;
        let drawn = viewer.map_or(0, |viewer| viewer.seen);
        let memory = human_bytes(progress.file_bytes as usize);
        if !self.terminal {
            print_line(format_args!(
                "step {:>5}  {rate:5.1} steps/s  dirty {dirty:3.0} %  publishing {share:4.1} % of the time  \
                 statistics of {}  pictures of {drawn}  region {memory}",
                progress.steps, statistics.seen
            ));
            return;
        }
        let publish_ms = 1e3 * progress.publish_seconds / progress.steps as f64;
        let observers = human_bytes((statistics.memory_bytes + viewer.map_or(0, |v| v.memory_bytes)) as usize);
        self.rewrite(&[
            format!("  {}  {:.0} s", bar(progress.done), progress.seconds),
            format!("  simulation   {rate:6.1} steps/s     {dirty:3.0} % of the pages dirty"),
            format!("  publishing   {publish_ms:6.2} ms/step    {share:3.1} % of the time"),
            format!(
                "  versions     {:6} published   {} in statistics   {drawn} drawn",
                progress.steps, statistics.seen
            ),
            format!(
                "  memory       {} of arrays   {memory} in the region's files   {observers} in the observers",
                human_bytes(progress.array_bytes as usize)
            ),
        ]);
    }

    /// Says what happens now, below everything else.
    pub fn note(&mut self, text: &str) {
        if self.shown {
            print_line(format_args!("  {text}"));
            self.lines += 1;
        }
    }

    /// Removes what was rewritten in place, so that the summary takes its room.
    pub fn clear(&mut self) {
        if self.shown && self.terminal {
            self.rewrite(&[]);
        }
    }

    fn rewrite(&mut self, lines: &[String]) {
        let mut text = if self.lines > 0 { format!("\x1b[{}F\x1b[J", self.lines) } else { String::new() };
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.lines = lines.len();
        let mut output = std::io::stdout().lock();
        // A terminal that has gone away is no reason to stop.
        let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    }
}

fn bar(done: f64) -> String {
    let full = ((done * BAR_WIDTH as f64) as usize).min(BAR_WIDTH);
    format!("{}{}", "█".repeat(full), "░".repeat(BAR_WIDTH - full))
}
