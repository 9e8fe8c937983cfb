//! Arrays as text, the way numpy prints them: aligned, and of long axes only the ends.

use crate::csv::{field_names, flatten};
use crate::failure::Failure;
use crate::gather::{Block, Source};
use crate::selection::Selection;
use crate::table::{Align, Table, sanitize};
use crate::value::Value;
use std::io::Write;
use stillframe::DType;

/// Arrays with more elements than this are abbreviated.
const COUNT_MAX: usize = 1000;
/// Tables of records with more rows than this are abbreviated.
const ROWS_MAX: usize = 24;
/// How many elements an abbreviated axis shows at either end.
const EDGE: usize = 3;
/// Digits behind the decimal point.
const PRECISION: usize = 8;
/// Columns of a line.
const WIDTH: usize = 75;

/// What is shown of a selection: of one with many elements, those at either end of each axis.
pub fn shown(selection: &Selection) -> Selection {
    let (most, edge) = match selection.dtype {
        DType::Record { .. } if selection.kept().len() == 1 => (ROWS_MAX, ROWS_MAX / 3),
        DType::Record { .. } => (ROWS_MAX, EDGE),
        _ => (COUNT_MAX, EDGE),
    };
    if selection.count() > most { selection.abbreviate(edge) } else { selection.clone() }
}

/// Writes what `selection` holds. Only what is shown is read.
pub fn write(source: &dyn Source, selection: &Selection, out: &mut dyn Write) -> Result<(), Failure> {
    if let DType::Record { .. } = selection.dtype {
        return write_records(source, selection, out);
    }
    let shown = shown(selection);
    let block = Block::load(source, &shown)?;
    if block.shape.is_empty() {
        return Ok(writeln!(out, "{}", sanitize(&block.at(&[]).to_string()))?);
    }
    if block.count() == 0 {
        return Ok(writeln!(out, "[]")?);
    }
    let values: Vec<Value> = block.indices().map(|index| block.at(&index)).collect();
    let gaps: Vec<Option<usize>> = shown.kept().iter().map(|axis| axis.gap.map(|gap| gap.0)).collect();
    let layout = Layout { words: format_column(&values), shape: &block.shape, gaps: &gaps };
    Ok(writeln!(out, "{}", layout.nest(0, 0, " ", WIDTH))?)
}

struct Layout<'a> {
    words: Vec<String>,
    shape: &'a [usize],
    /// For each axis, after how many elements something was left out.
    gaps: &'a [Option<usize>],
}

impl Layout<'_> {
    /// The brackets of `axis` whose first word is number `first`, on lines that begin with `indent`.
    fn nest(&self, axis: usize, first: usize, indent: &str, width: usize) -> String {
        let length = self.shape[axis];
        let below: usize = self.shape[axis + 1..].iter().product();
        let inner_indent = format!("{indent} ");
        let mut text = String::new();
        if axis + 1 == self.shape.len() {
            let mut line = indent.to_string();
            for place in 0..length {
                if self.gaps[axis] == Some(place) {
                    extend_line(&mut text, &mut line, "...", width - 1, indent);
                    line.push(' ');
                }
                extend_line(&mut text, &mut line, &self.words[first + place], width - 1, indent);
                if place + 1 < length {
                    line.push(' ');
                }
            }
            text.push_str(&line);
        } else {
            let separator = "\n".repeat(self.shape.len() - axis - 1);
            for place in 0..length {
                if self.gaps[axis] == Some(place) {
                    text.extend([indent, "...", &separator]);
                }
                let nested = self.nest(axis + 1, first + place * below, &inner_indent, width.saturating_sub(1));
                text.extend([indent, &nested]);
                if place + 1 < length {
                    text.push_str(&separator);
                }
            }
        }
        format!("[{}]", &text[indent.len()..])
    }
}

fn extend_line(text: &mut String, line: &mut String, word: &str, width: usize, indent: &str) {
    let wraps = line.chars().count() + word.chars().count() > width && line.len() > indent.len();
    if wraps {
        text.extend([line.trim_end(), "\n"]);
        *line = indent.to_string();
    }
    line.push_str(word);
}

/// The values as texts that line up under each other.
pub fn format_column(values: &[Value]) -> Vec<String> {
    match values.first() {
        Some(Value::Float32(_) | Value::Float64(_)) => {
            let numbers: Vec<Number> = values.iter().map(|value| Number::of(value, 0)).collect();
            format_floats(&numbers, false)
        }
        Some(Value::Complex32(_) | Value::Complex64(_)) => {
            let real: Vec<Number> = values.iter().map(|value| Number::of(value, 0)).collect();
            let imaginary: Vec<Number> = values.iter().map(|value| Number::of(value, 1)).collect();
            let pairs = format_floats(&real, false).into_iter().zip(format_floats(&imaginary, true));
            pairs
                .map(|(real, imaginary)| {
                    let digits = imaginary.trim_end();
                    format!("{real}{digits}j{}", &imaginary[digits.len()..])
                })
                .collect()
        }
        Some(Value::Int(_) | Value::Uint(_) | Value::Bool(_)) => {
            let words: Vec<String> = values.iter().map(Value::to_string).collect();
            let least = if matches!(values[0], Value::Bool(_)) { 5 } else { 0 };
            let width = words.iter().map(String::len).max().unwrap_or(0).max(least);
            words.into_iter().map(|word| format!("{word:>width$}")).collect()
        }
        _ => values.iter().map(|value| format!("'{}'", sanitize(&value.to_string()))).collect(),
    }
}

/// A number in its own precision, since the shortest text that reads back depends on it.
#[derive(Debug, Clone, Copy)]
enum Number {
    Single(f32),
    Double(f64),
}

impl Number {
    fn of(value: &Value, part: usize) -> Number {
        match value {
            Value::Float32(value) => Number::Single(*value),
            Value::Float64(value) => Number::Double(*value),
            Value::Complex32(parts) => Number::Single(parts[part]),
            Value::Complex64(parts) => Number::Double(parts[part]),
            other => Number::Double(other.number().unwrap_or(f64::NAN)),
        }
    }

    fn double(self) -> f64 {
        match self {
            Number::Single(value) => value.into(),
            Number::Double(value) => value,
        }
    }

    /// Digits before and behind the point, without trailing zeros.
    fn positional(self, plus: bool) -> (String, String) {
        let shortest = match self {
            Number::Single(value) => value.to_string(),
            Number::Double(value) => value.to_string(),
        };
        let (_, digits) = shortest.split_once('.').unwrap_or((&shortest, ""));
        let text = if digits.len() > PRECISION { format!("{:.PRECISION$}", self.double()) } else { shortest };
        let (whole, digits) = text.split_once('.').unwrap_or((&text, ""));
        (self.sign(plus, whole), digits.trim_end_matches('0').to_string())
    }

    /// Digits before and behind the point, and the exponent with its sign.
    fn scientific(self, plus: bool) -> (String, String, String) {
        let shortest = match self {
            Number::Single(value) => format!("{value:e}"),
            Number::Double(value) => format!("{value:e}"),
        };
        let split = |text: &str| {
            let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
            let (whole, digits) = digits.split_once('.').unwrap_or((digits, ""));
            (whole.to_string(), digits.to_string(), exponent.to_string())
        };
        let (whole, digits, exponent) = match split(&shortest) {
            (_, digits, _) if digits.len() > PRECISION => split(&format!("{:.PRECISION$e}", self.double())),
            parts => parts,
        };
        let exponent = match exponent.strip_prefix('-') {
            Some(number) => format!("-{number:0>2}"),
            None => format!("+{exponent:0>2}"),
        };
        (self.sign(plus, &whole), digits.trim_end_matches('0').to_string(), exponent)
    }

    fn sign(self, plus: bool, whole: &str) -> String {
        if plus && !whole.starts_with('-') { format!("+{whole}") } else { whole.into() }
    }
}

fn longest<'a>(words: impl Iterator<Item = &'a String>) -> usize {
    words.map(String::len).max().unwrap_or(0)
}

fn format_floats(numbers: &[Number], plus: bool) -> Vec<String> {
    let finite: Vec<Number> = numbers.iter().copied().filter(|number| number.double().is_finite()).collect();
    let sizes = || finite.iter().map(|number| number.double().abs()).filter(|size| *size != 0.0);
    let (largest, smallest) = (sizes().fold(0.0, f64::max), sizes().fold(f64::INFINITY, f64::min));
    // Compared in the numbers' own precision, in which 0.0001 is not less than itself; single precision has six digits.
    let scientific = match finite.first() {
        Some(Number::Single(_)) => {
            let (largest, smallest) = (largest as f32, smallest as f32);
            largest >= 1e6 || smallest < 1e-4 || largest / smallest > 1000.0
        }
        _ => largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000.0,
    };
    let special = |number: &Number| match number.double() {
        value if value.is_nan() => format!("{}nan", if plus { "+" } else { "" }),
        value if value > 0.0 => format!("{}inf", if plus { "+" } else { "" }),
        _ => "-inf".into(),
    };
    // Left of the point, right of it, and whatever follows.
    let (mut left, right);
    let words: Vec<String> = if finite.is_empty() {
        (left, right) = (0, 0);
        Vec::new()
    } else if scientific {
        let parts: Vec<_> = finite.iter().map(|number| number.scientific(plus)).collect();
        let digits = longest(parts.iter().map(|part| &part.1));
        let exponent = longest(parts.iter().map(|part| &part.2)) - 1;
        left = longest(parts.iter().map(|part| &part.0));
        right = exponent + 2 + digits;
        let word = |(whole, tail, power): &(String, String, String)| {
            format!("{whole}.{tail:0<digits$}e{}{:0>exponent$}", &power[..1], &power[1..])
        };
        parts.iter().map(word).collect()
    } else {
        let parts: Vec<_> = finite.iter().map(|number| number.positional(plus)).collect();
        left = longest(parts.iter().map(|part| &part.0));
        right = longest(parts.iter().map(|part| &part.1));
        parts.iter().map(|(whole, tail)| format!("{whole}.{tail:<right$}")).collect()
    };
    for number in numbers.iter().filter(|number| !number.double().is_finite()) {
        left = left.max(special(number).len().saturating_sub(right + 1));
    }
    let width = left + right + 1;
    let mut words = words.into_iter();
    numbers
        .iter()
        .map(|number| match number.double().is_finite() {
            true => format!("{:>width$}", words.next().unwrap_or_default()),
            false => format!("{:>width$}", special(number)),
        })
        .collect()
}

/// Records as a table: the element's index in the variable, then one column per field.
fn write_records(source: &dyn Source, selection: &Selection, out: &mut dyn Write) -> Result<(), Failure> {
    let shown = shown(selection);
    let block = Block::load(source, &shown)?;
    let axes = shown.kept();
    let names: Vec<String> = field_names(&selection.dtype, "").iter().map(|name| sanitize(name)).collect();
    let mut columns: Vec<Vec<Value>> = vec![Vec::new(); names.len()];
    for index in block.indices() {
        let mut column = columns.iter_mut();
        flatten(block.at(&index), &mut |value| column.next().into_iter().for_each(|column| column.push(value.clone())));
    }
    let words: Vec<Vec<String>> = columns.iter().map(|values| format_column(values)).collect();
    let places: Vec<String> = (0..axes.len()).map(|axis| format!("i{axis}")).collect();
    let heading: Vec<_> = places.iter().chain(&names).map(|name| (name.as_str(), Align::Right)).collect();
    let mut table = Table::new(&heading);
    for (row, index) in block.indices().enumerate() {
        // A gap lies before this row when the axis that just moved on stepped over one.
        let moved = index.iter().rposition(|place| *place != 0);
        if moved.is_some_and(|axis| axes[axis].gap.is_some_and(|gap| gap.0 == index[axis])) {
            table.push(vec!["...".into(); heading.len()]);
        }
        let mut cells: Vec<String> =
            index.iter().zip(&axes).map(|(place, axis)| axis.index(*place).to_string()).collect();
        cells.extend(words.iter().map(|column| column[row].clone()));
        table.push(cells);
    }
    Ok(table.write(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::tests::{Memory, selection};
    use stillframe::Order;

    fn text(bytes: Vec<u8>, selection: &Selection) -> String {
        let mut out = Vec::new();
        write(&Memory::new(bytes), selection, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn floats(values: &[f64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        text(bytes, &selection(DType::Float(8), Order::C, &[values.len()], &[]))
    }

    /// Expected texts were printed by numpy 2.
    #[test]
    fn floats_look_as_in_numpy() {
        assert_eq!(floats(&[1.0, 2.5, 3.25]), "[1.   2.5  3.25]\n");
        assert_eq!(floats(&[1e10, 1.0, -2.0]), "[ 1.e+10  1.e+00 -2.e+00]\n");
        assert_eq!(floats(&[f64::NAN, 1.5, f64::NEG_INFINITY]), "[ nan  1.5 -inf]\n");
        assert_eq!(floats(&[1.0 / 3.0, 2.0 / 3.0]), "[0.33333333 0.66666667]\n");
        assert_eq!(floats(&[1e-5, 1.0]), "[1.e-05 1.e+00]\n");
        assert_eq!(floats(&[f64::NAN]), "[nan]\n");
        assert_eq!(floats(&[0.0, -0.0]), "[ 0. -0.]\n");
        assert_eq!(floats(&[]), "[]\n");
    }

    #[test]
    fn long_arrays_show_only_their_ends_and_read_no_more() {
        let memory = Memory::new((0..4_000_000u32).flat_map(u32::to_ne_bytes).collect());
        let wanted = selection(DType::Uint(4), Order::C, &[2000, 2000], &[]);
        let mut out = Vec::new();
        write(&memory, &wanted, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("[[      0       1       2 ...    1997    1998    1999]\n ["), "{text}");
        assert!(text.contains("\n ...\n"), "{text}");
        let read: usize = memory.reads.borrow().iter().map(|(_, bytes)| bytes).sum();
        assert!(read <= 12 * 4096, "{read} bytes were read");
    }

    #[test]
    fn records_are_a_table() {
        let record = DType::packed([("id", DType::Uint(1)), ("on", DType::Bool)]).unwrap();
        let bytes = (0..100u8).flat_map(|id| [id, id % 2]).collect();
        let text = text(bytes, &selection(record, Order::C, &[100], &[]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], [" i0   id     on", "  0    0  False"]);
        assert_eq!(lines[9], "...  ...    ...");
        assert_eq!(lines[17], " 99   99   True");
    }

    /// Whoever has numpy hears from itself that both print the same.
    #[test]
    fn numpy_prints_the_same_text() {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
        let run = |code: &str| std::process::Command::new(&python).args(["-c", code]).output();
        if !run("import numpy").is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: {python} has no numpy; name one that has in PYTHON");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut seed = 1u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut mine = Vec::new();
        for round in 0..120 {
            let shape: &[usize] =
                [&[5][..], &[40], &[2000], &[3, 4], &[30, 50], &[2, 3, 4], &[12, 11, 10], &[1, 7, 1, 3]][round % 8];
            let count: usize = shape.iter().product();
            let magnitude = 10f64.powi((random() * 24.0) as i32 - 12);
            // Older releases of numpy draw the line for large single-precision numbers elsewhere: stay below it.
            let magnitude = if round / 8 % 5 == 1 { magnitude.min(1e5) } else { magnitude };
            let digits = 10f64.powi((random() * 10.0) as i32);
            let mut number = || match (random() * 60.0) as u32 {
                0 if round % 3 == 0 => f64::NAN,
                1 if round % 5 == 0 => f64::NEG_INFINITY,
                2 => 0.0,
                _ => ((random() - 0.4) * digits).round() / digits * magnitude,
            };
            let (dtype, bytes): (DType, Vec<u8>) = match round / 8 % 5 {
                0 => (DType::Float(8), (0..count).flat_map(|_| number().to_ne_bytes()).collect()),
                1 => (DType::Float(4), (0..count).flat_map(|_| (number() as f32).to_ne_bytes()).collect()),
                2 => (DType::Complex(16), (0..2 * count).flat_map(|_| number().to_ne_bytes()).collect()),
                3 => (DType::Int(8), (0..count).flat_map(|_| (number() as i64).to_ne_bytes()).collect()),
                _ => (DType::Bool, (0..count).map(|_| u8::from(number() > 0.0)).collect()),
            };
            let order = if round % 2 == 0 { Order::C } else { Order::Fortran };
            let wanted = selection(dtype, order, shape, &[]);
            let mut file = std::fs::File::create(folder.path().join(format!("{round}.npy"))).unwrap();
            crate::npy::write(&Memory::new(bytes.clone()), &wanted, &mut file).unwrap();
            mine.push(text(bytes, &wanted));
        }
        let code = "import numpy\nfor i in range(120): print(numpy.load(f'{i}.npy'), end='\\n\\0')";
        let output = std::process::Command::new(&python).args(["-c", code]).current_dir(&folder).output().unwrap();
        let theirs = String::from_utf8(output.stdout).unwrap();
        assert_eq!(theirs.matches('\0').count(), mine.len());
        for (round, (mine, theirs)) in mine.iter().zip(theirs.split('\0')).enumerate() {
            // Where two shortest texts are equally near to a single-precision number, either may be printed.
            let numbers = |text: &str| -> Vec<String> {
                let words = text.split([' ', '[', ']', '\n']).filter(|word| !word.is_empty());
                words.map(|word| word.parse::<f32>().map_or(word.into(), |number| number.to_string())).collect()
            };
            let same = round / 8 % 5 == 1 && mine.len() == theirs.len() && numbers(mine) == numbers(theirs);
            assert!(mine == theirs || same, "round {round}:\n{mine}\n{theirs}");
        }
    }
}
