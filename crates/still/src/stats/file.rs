//! A file of comma-separated values with a line per version, which goes on where an earlier run stopped.

use super::bins::Bins;
use super::moments::Moments;
use crate::failure::Failure;
use crate::value::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Columns that every file has.
const COLUMNS: [&str; 9] = ["version", "time", "count", "nans", "min", "max", "mean", "std", "sum"];

/// The file, or standard output.
pub struct Table {
    path: PathBuf,
    out: Box<dyn Write>,
    /// The version of the last line.
    pub last: Option<u64>,
    /// The columns, once there are any.
    heading: Option<String>,
}

impl Table {
    /// Opens the file, made if need be. A line that a killed process did not finish goes.
    pub fn open(path: &Path) -> Result<Table, Failure> {
        let failed = |error| Failure::file(path, error);
        if path == Path::new("-") {
            return Ok(Table { path: path.into(), out: Box::new(io::stdout()), last: None, heading: None });
        }
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let columns = COLUMNS.join(",");
        // Of the heading, too, there may be a part only.
        let mut is_own = text.starts_with(&columns) || columns.starts_with(&text);
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        let mut lines = text.lines();
        let heading = lines.next().map(str::to_string);
        let line = lines.next_back();
        let last = line.and_then(|line| line.split(',').next()?.parse().ok());
        is_own &= line.is_none() || last.is_some();
        if !is_own {
            let text = "is no file of `still stats`: give another one";
            return Err(Failure::Problem(format!("{} {text}", path.display())));
        }
        cut(&mut file, text.len() as u64).map_err(failed)?;
        Ok(Table { path: path.into(), out: Box::new(file), last, heading })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether lines go to standard output.
    pub fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }

    /// The bins of an earlier run.
    pub fn bins(&self) -> Option<Bins> {
        let heading = self.heading.as_ref()?;
        let spans: Vec<(f64, f64)> = heading
            .split(',')
            .filter_map(|name| name.split_once(':'))
            .map(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)))
            .collect::<Option<_>>()?;
        let edges = spans.iter().map(|span| span.0).chain([spans.last()?.1]);
        Some(Bins::of_edges(edges.collect()))
    }

    /// Writes the line of a version, whole.
    pub fn add(
        &mut self,
        version: u64,
        time: Option<f64>,
        found: &Moments,
        bins: Option<&Bins>,
    ) -> Result<(), Failure> {
        let mut heading = COLUMNS.join(",");
        if let Some(bins) = bins {
            heading += ",below,above";
            for edges in bins.edges.windows(2) {
                heading += &format!(",{:?}:{:?}", edges[0], edges[1]);
            }
        }
        let mut text = String::new();
        match &self.heading {
            None => text = format!("{heading}\n"),
            Some(had) if *had == heading => {}
            Some(_) => {
                let text = "has other columns, of another --histogram or --range: give another one";
                return Err(Failure::Problem(format!("{} {text}", self.path.display())));
            }
        }
        let number = |value: f64| Value::Float64(value).to_string();
        let mut cells = vec![
            version.to_string(),
            time.map(number).unwrap_or_default(),
            found.count.to_string(),
            found.nans.to_string(),
            found.least().to_string(),
            found.most().to_string(),
            number(found.mean()),
            number(found.deviation()),
            number(found.sum),
        ];
        if let Some(bins) = bins {
            cells.extend([bins.below, bins.above].iter().chain(&bins.counts).map(u64::to_string));
        }
        text += &cells.join(",");
        text.push('\n');
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|error| Failure::file(&self.path, error))?;
        self.heading = Some(heading);
        self.last = Some(version);
        Ok(())
    }
}

/// Shortens the file, and goes on from its end.
fn cut(file: &mut File, end: u64) -> io::Result<()> {
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end)).map(|_| ())
}
