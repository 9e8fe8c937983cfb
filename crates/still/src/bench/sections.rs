//! What it costs to publish a section of an array, or numbers rounded to fewer bits, relative to publishing a contiguous array.

use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::Result;
use measure::{Memory, PAGE_BYTES, median, seconds};
use serde_json::{Value, json};
use stillframe::{Element, Region, Section, Tracked, bf16, f16};

/// Bytes of a row of the arrays, ghosts included, about: no power of two, as rows of a simulation are not.
const ROW_BYTES: usize = 40_000;

/// A region with one variable of elements `T`, and the array of numbers of 8 bytes of which it shows a section.
struct Program<T> {
    region: Region,
    variable: Tracked<T>,
    memory: Memory,
    /// Numbers of the array.
    numbers: usize,
    section: Section,
    version: u64,
}

impl<T: Element> Program<T> {
    fn new(setting: &Setting, name: &str, shape: &[usize], section: Section) -> Result<Program<T>> {
        let mut region = Region::options().dir(setting.root()).keep(1).create(name)?;
        let (variable, numbers) = (region.track("data")?, shape.iter().product::<usize>());
        let memory = Memory::new((numbers * 8).next_multiple_of(PAGE_BYTES));
        Ok(Program { region, variable, memory, numbers, section, version: 0 })
    }

    /// Writes all of the array, and says how many seconds its publish takes.
    fn publish(&mut self) -> Result<f64> {
        let Program { region, variable, memory, numbers, section, version } = self;
        *version += 1;
        let elements: &mut [f64] = &mut bytemuck::cast_slice_mut(memory)[..*numbers];
        for (index, number) in elements.iter_mut().enumerate() {
            *number = (*version + (index & 0xff) as u64) as f64 * 0.37;
        }
        let mut published = None;
        let time = seconds(|| published = Some(region.publish(*version).section(variable, elements, section).commit()));
        published.transpose()?;
        Ok(time)
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let columns = ROW_BYTES / 8;
    let rows = (setting.region_bytes / ROW_BYTES).max(8);
    let array = [rows, columns];
    let (inner, inner_shape) = (Section::of(&array).inside(&[1..rows - 1, 1..columns - 1]), [rows - 2, columns - 2]);
    let row = compare::<f64>(setting, &array, inner, &inner_shape)?;
    add(report, json!({"section": "interior", "dtype": "float64"}), row)?;
    let (every, every_shape) = (Section::of(&array).every(&[2, 2]), [rows.div_ceil(2), columns / 2]);
    add(
        report,
        json!({"section": "every 2nd", "dtype": "float64"}),
        compare::<f64>(setting, &array, every, &every_shape)?,
    )?;
    let whole = || Section::of(&array);
    let case = |dtype: &str| json!({"section": "all", "dtype": dtype});
    add(report, case("float32"), compare::<f32>(setting, &array, whole(), &array)?)?;
    add(report, case("float16"), compare::<f16>(setting, &array, whole(), &array)?)?;
    add(report, case("bfloat16"), compare::<bf16>(setting, &array, whole(), &array)?)
}

/// Seconds of publishes, and of such of a contiguous array of numbers of 8 bytes with this shape, which take turns with them.
fn compare<T: Element>(
    setting: &Setting,
    array: &[usize],
    section: Section,
    contiguous: &[usize],
) -> Result<Vec<(f64, f64)>> {
    let mut subject: Program<T> = Program::new(setting, "section", array, section)?;
    let mut plain: Program<f64> = Program::new(setting, "contiguous", contiguous, Section::of(contiguous))?;
    // The first publishes make planes, and learn which pages are written every time.
    let settling = setting.repetitions(20, 8);
    let mut times = Vec::new();
    for round in 0..settling + setting.repetitions(31, 7) {
        let pair = (subject.publish()?, plain.publish()?);
        if round >= settling {
            times.push(pair);
        }
    }
    subject.region.unlink()?;
    plain.region.unlink()?;
    Ok(times)
}

fn add(report: &mut Report, case: Value, times: Vec<(f64, f64)>) -> Result<()> {
    let mut ratios: Vec<f64> = times.iter().map(|(subject, plain)| subject / plain).collect();
    let (mut subject, mut plain): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
    let row = Row::new("sections", case, median(&mut subject) * 1e3, "ms", median(&mut plain) * 1e3);
    report.add(Row { ratio: median(&mut ratios), ..row })
}
