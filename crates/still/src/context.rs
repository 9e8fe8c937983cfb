//! What every command is given besides its own arguments.

use crate::failure::{FINE, Failure};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Where regions lie and where the answer goes.
pub struct Context<'a> {
    /// The directory of regions.
    pub dir: PathBuf,
    /// Standard output.
    pub out: &'a mut dyn Write,
}

/// The exit code of a command that ran to its end.
pub type Verdict = Result<u8, Failure>;

impl Context<'_> {
    /// Writes `value` as JSON on several lines.
    pub fn write_json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Problem(error.to_string()))?;
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Writes `value` as JSON on a single line, at once.
    pub fn write_json_line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::Problem(error.to_string()))?;
        writeln!(self.out, "{text}")?;
        Ok(self.out.flush()?)
    }

    /// Writes a line and ends well.
    pub fn finish(&mut self, line: &str) -> Verdict {
        writeln!(self.out, "{line}")?;
        Ok(FINE)
    }
}
