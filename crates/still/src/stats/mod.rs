//! `still stats`: numbers about a variable, version by version.

mod bins;
mod file;
mod moments;
mod scope;

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::polite::PaceArgs;
use crate::slice::format_shape;
use crate::table::sanitize;
use crate::units::{parse_seconds, parse_version};
use crate::value::Value;
use bins::Bins;
use file::Table;
use moments::{Decoder, Moments};
use scope::Scope;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use stillframe::{AnyObserver, AnySnapshot, Attributes, Error, Observer, Scalar};

/// Follow a variable's minimum, maximum, mean and standard deviation, version by version
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still stats heat u                          the newest version each time, until the program ends
  still stats heat u --every                  each version that is still there
  still stats heat 'u[0, :]' --every 10       a row, of versions 10, 20, 30 ...
  still stats heat u --once                   the newest version, and no other
  still stats heat u --histogram 32           with the distribution as a row of bars
  still stats heat u --every --csv u.csv      into a file, which a second run goes on with

REGION may be a group: then the numbers are of all ranks, and slices are of the global array, if
the ranks tell their parts of it. Ghost cells count once, on the rank that computes them. Slices are
those of `still get`. Numbers that are not a number (nan) are counted and otherwise left out;
complex numbers count by magnitude. std is that of the population. Nothing is copied of what is
looked at whole.

A line of the CSV file is written as soon as it is known. It has the columns version, time (the
version's attribute of that name), count, nans, min, max, mean, std, sum, and with --histogram
below, above, and one per bin, called LOW:HIGH. The last bin includes its upper edge. Infinite
numbers lie below or above. Where bins would be too narrow for numbers of double precision, as
around a single large number, they reach farther than the numbers or --range do.

With --json: one object per version and line: {\"region\", \"version\", \"published_ns\", \"attributes\",
\"variable\", \"units\", \"count\", \"nans\", \"min\", \"max\", \"mean\", \"std\", \"sum\", \"histogram\": {\"edges\",
\"counts\", \"below\", \"above\"}}; what is not known is null, and nan and inf are strings.

Exit codes: 0 when the program has ended or nothing came for --timeout, 1 when the region does not
exist, a rank died or a file cannot be written, 2 when the slice makes no sense for the variable.")]
pub struct Args {
    /// The region or group
    region: String,
    /// A variable or record field and what part of it, such as 'u[0, :]'
    #[arg(value_name = "VAR[SLICE]")]
    variable: String,
    /// Each version instead of the newest ones; with N its multiples, or the next version where one is not there
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    /// Only the newest version
    #[arg(long, conflicts_with_all = ["every", "version"])]
    once: bool,
    /// Only this version
    #[arg(long, value_name = "V", conflicts_with = "every", value_parser = parse_version, allow_negative_numbers = true)]
    version: Option<u64>,
    /// Also count how many numbers lie in each of so many equal bins
    #[arg(long, value_name = "BINS", value_parser = clap::value_parser!(u64).range(1..=65536))]
    histogram: Option<u64>,
    /// Where the bins begin and end [default: minimum and maximum of the first version]
    #[arg(long, value_name = "LOW:HIGH", requires = "histogram", value_parser = parse_range, allow_hyphen_values = true)]
    range: Option<(f64, f64)>,
    /// Write lines to this file, going on with it if it is there; - is standard output
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Seconds to wait for the region and its first version
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    wait: Duration,
    /// End when nothing came for so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    #[command(flatten)]
    pace: PaceArgs,
    /// Print JSON, one object per version
    #[arg(long)]
    json: bool,
}

fn parse_range(text: &str) -> Result<(f64, f64), String> {
    let ends = text.split_once(':').and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
    match ends {
        Some((low, high)) if low < high && f64::is_finite(low) && f64::is_finite(high) => Ok((low, high)),
        _ => Err("give two finite numbers, the lower one first, such as 0:1.5".into()),
    }
}

/// Follows the variable until the producer has ended.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let options = Observer::options().dir(&context.dir).wait(args.wait);
    let options = if args.once { options } else { args.pace.options(options) };
    let observer = options.open_any(&args.region)?;
    let mut table = args.csv.as_deref().map(Table::open).transpose()?;
    let mut last = table.as_ref().and_then(|table| table.last);
    check_order(&observer, table.as_ref(), args)?;
    let mut follower = Follower { args, bins: None, headed: false };
    follower.bins = match (args.histogram, args.range) {
        (Some(count), Some((low, high))) => Some(Bins::new(low, high, count as usize)),
        (Some(_), None) => table.as_ref().and_then(Table::bins),
        (None, _) => None,
    };
    if args.once || args.version.is_some() {
        let held = args.version.map_or_else(|| observer.newest(), |version| observer.version(version))?;
        follower.report(context, &held, &mut table)?;
        return Ok(FINE);
    }
    loop {
        // The first version may be any.
        let above = last.map(|last| args.every.map_or(last, |every| (last / every + 1).saturating_mul(every) - 1));
        // How long nothing came counts from when this may go on.
        observer.pause(None);
        let next = match args.every {
            Some(_) => observer.next_after(above, args.timeout),
            None => observer.newest_after(above, args.timeout),
        };
        let held = match next {
            Ok(held) => held,
            Err(Error::ProducerGone { .. } | Error::Timeout { .. } | Error::SlowRank { .. }) => return Ok(FINE),
            Err(error) => return Err(error.into()),
        };
        last = Some(held.version());
        follower.report(context, &held, &mut table)?;
    }
}

/// Refuses a file that knows versions which the region does not have yet.
fn check_order(observer: &AnyObserver, table: Option<&Table>, args: &Args) -> Result<(), Failure> {
    let Some((table, last)) = table.and_then(|table| Some((table, table.last?))) else { return Ok(()) };
    let Ok(newest) = observer.newest().map(|held| held.version()) else { return Ok(()) };
    let at = args.version.unwrap_or(newest);
    if last > newest || args.version.is_some_and(|version| version <= last) {
        let (path, region) = (table.path().display(), sanitize(&args.region));
        return Err(Failure::Problem(format!(
            "{path} goes to version {last}, and {region} is looked at from {at} on: give another file"
        )));
    }
    Ok(())
}

/// What is kept from version to version.
struct Follower<'a> {
    args: &'a Args,
    bins: Option<Bins>,
    headed: bool,
}

impl Follower<'_> {
    /// Looks at a version and says what was found.
    fn report(&mut self, context: &mut Context, held: &AnySnapshot, table: &mut Option<Table>) -> Result<(), Failure> {
        let scope = Scope::resolve(&self.args.variable, held)?;
        let (found, bins) = self.look(&scope)?;
        let (version, attributes) = (held.version(), held.attributes());
        let time = attributes.get("time").and_then(number);
        let mut told = false;
        if let Some(table) = table.as_mut().filter(|table| table.last.is_none_or(|last| version > last)) {
            table.add(version, time, &found, bins.as_ref())?;
            told = table.is_stdout();
        }
        if self.args.json {
            let selection = scope.selection();
            return context.write_json_line(&Report {
                region: &self.args.region,
                version,
                published_ns: held.published_ns(),
                attributes,
                variable: &self.args.variable,
                units: selection.map_or("", |selection| &selection.units),
                count: found.count,
                nans: found.nans,
                min: found.least().json(),
                max: found.most().json(),
                mean: Value::Float64(found.mean()).json(),
                std: Value::Float64(found.deviation()).json(),
                sum: Value::Float64(found.sum).json(),
                histogram: bins.as_ref().map(Histogram::new),
            });
        }
        if !told {
            self.write_line(context, &scope, version, time, &found, bins.as_ref())?;
        }
        Ok(())
    }

    /// One pass over the elements, or two if the bins have first to be found; three if some numbers are infinite.
    fn look(&mut self, scope: &Scope) -> Result<(Moments, Option<Bins>), Failure> {
        let mut found = Moments::default();
        let mut bins = self.bins.as_ref().map(Bins::emptied);
        if let Some(selection) = scope.selection() {
            let dtype = &selection.dtype;
            let decoder = || {
                Decoder::new(dtype).ok_or_else(|| {
                    let label = &selection.label;
                    Failure::Misuse(format!(
                        "'{label}' is of type {dtype}, which is no number: name a field of numbers"
                    ))
                })
            };
            let mut numbers = decoder()?;
            scope.visit(&mut |piece| {
                numbers.take(piece, &mut |bytes, block| {
                    if let Some(bins) = &mut bins {
                        bins.add(block);
                    }
                    found.add(dtype, bytes, block);
                });
            })?;
            if let (Some(count), None) = (self.args.histogram, &bins) {
                let mut finite = Range::default();
                let ends = [found.least().number(), found.most().number()];
                if ends.iter().flatten().all(|end| end.is_finite()) {
                    finite.add(&ends.map(Option::unwrap_or_default));
                } else {
                    let mut numbers = decoder()?;
                    scope.visit(&mut |piece| numbers.take(piece, &mut |_, block| finite.add(block)))?;
                }
                let (low, high) = finite.ends();
                let mut first = Bins::new(low, high, count as usize);
                let mut numbers = decoder()?;
                scope.visit(&mut |piece| numbers.take(piece, &mut |_, block| first.add(block)))?;
                self.bins = Some(first.emptied());
                bins = Some(first);
            }
        }
        Ok((found, bins))
    }

    fn write_line(
        &mut self,
        context: &mut Context,
        scope: &Scope,
        version: u64,
        time: Option<f64>,
        found: &Moments,
        bins: Option<&Bins>,
    ) -> Result<(), Failure> {
        if !self.headed {
            self.headed = true;
            if let Some(selection) = scope.selection() {
                let shape = scope.shape.as_ref().map_or("of all ranks".into(), |shape| format_shape(shape));
                let units = if selection.units.is_empty() { "" } else { ", " };
                writeln!(
                    context.out,
                    "{} of {}: {} {shape}{units}{}",
                    sanitize(&self.args.variable),
                    sanitize(&self.args.region),
                    sanitize(&selection.dtype.to_string()),
                    sanitize(&selection.units),
                )?;
            }
            let histogram = bins.map_or(String::new(), |bins| {
                let (first, last) = (bins.edges[0], bins.edges[bins.counts.len()]);
                format!("  {} to {}", shorten(first), shorten(last))
            });
            writeln!(
                context.out,
                "{:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>6}{histogram}",
                "VERSION", "TIME", "MIN", "MAX", "MEAN", "STD", "NANS"
            )?;
        }
        let short = |value: Value| match value {
            Value::Int(_) | Value::Uint(_) => value.to_string(),
            other => shorten(other.number().unwrap_or(f64::NAN)),
        };
        writeln!(
            context.out,
            "{version:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>6}{}",
            time.map_or("-".into(), shorten),
            short(found.least()),
            short(found.most()),
            shorten(found.mean()),
            shorten(found.deviation()),
            found.nans,
            bins.map_or(String::new(), |bins| format!("  {}", bins.draw())),
        )?;
        Ok(context.out.flush()?)
    }
}

/// The smallest and the largest of finite numbers.
struct Range {
    least: f64,
    most: f64,
}

impl Default for Range {
    fn default() -> Range {
        Range { least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Range {
    /// Takes in a block.
    fn add(&mut self, block: &[f64]) {
        for number in block.iter().filter(|number| number.is_finite()) {
            self.least = self.least.min(*number);
            self.most = self.most.max(*number);
        }
    }

    /// Where bins begin and end that hold these numbers; 0 and 1 if there are none.
    fn ends(&self) -> (f64, f64) {
        if self.least <= self.most { (self.least, self.most) } else { (0.0, 1.0) }
    }
}

/// An attribute as a number, if it is one.
fn number(value: &Scalar) -> Option<f64> {
    match value {
        Scalar::Float(value) => Some(*value),
        Scalar::Int(value) => Some(*value as f64),
        Scalar::Bool(_) | Scalar::Text(_) => None,
    }
}

/// A number in at most eleven letters.
fn shorten(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        return "nan".into();
    }
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    if !(1e-3..1e7).contains(&size) {
        return format!("{value:.4e}");
    }
    let digits = (5 - size.log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[derive(Serialize)]
struct Report<'a> {
    region: &'a str,
    version: u64,
    published_ns: u64,
    attributes: &'a Attributes,
    variable: &'a str,
    units: &'a str,
    count: u64,
    nans: u64,
    min: serde_json::Value,
    max: serde_json::Value,
    mean: serde_json::Value,
    std: serde_json::Value,
    sum: serde_json::Value,
    histogram: Option<Histogram<'a>>,
}

#[derive(Serialize)]
struct Histogram<'a> {
    edges: &'a [f64],
    counts: &'a [u64],
    below: u64,
    above: u64,
}

impl<'a> Histogram<'a> {
    fn new(bins: &'a Bins) -> Histogram<'a> {
        Histogram { edges: &bins.edges, counts: &bins.counts, below: bins.below, above: bins.above }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-0.125, "-0.125"),
            (12345.678, "12345.7"),
            (9_999_999.0, "9999999"),
            (1e7, "1.0000e7"),
            (-1.23456e-5, "-1.2346e-5"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
            (100.0, "100"),
        ] {
            assert_eq!(shorten(value), text);
            assert!(text.len() <= 11);
        }
    }

    #[test]
    fn ranges_are_two_numbers() {
        assert_eq!(parse_range("-1: 2.5"), Ok((-1.0, 2.5)));
        assert_eq!(parse_range("-1.7e308:1.7e308"), Ok((-1.7e308, 1.7e308)));
        for wrong in ["", "1", "2:1", "1:1", "a:b", "0:inf", "nan:1"] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }
}
