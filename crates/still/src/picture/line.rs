//! One axis as a line.

use super::canvas::{Canvas, LETTER};
use super::{Caption, Range, colour, scale, visit_numbers, write_heading};
use crate::failure::Failure;
use crate::gather::Source;
use crate::selection::Selection;

const WIDTH: usize = 960;
const HEIGHT: usize = 440;
const TOP: usize = 56;
const BOTTOM: usize = 34;
const RIGHT: usize = 24;

/// What the values of one column of pixels amount to: the first, the extremes and the last.
#[derive(Clone, Copy)]
struct Column {
    first: f64,
    low: f64,
    high: f64,
    last: f64,
}

/// Draws the line with its scales.
pub fn draw(source: &dyn Source, selection: &Selection, caption: &Caption) -> Result<Canvas, Failure> {
    let axis = selection.kept()[0];
    // A long axis is gathered into twice as many columns as there are pixels; nothing the eye could see is lost.
    let per_column = axis.count.div_ceil(2 * WIDTH).max(1);
    let mut columns: Vec<Option<Column>> = vec![None; axis.count.div_ceil(per_column)];
    let mut range = Range::EMPTY;
    visit_numbers(source, selection, &mut |[_, place], value| {
        range.add(value);
        if value.is_finite() {
            let column = &mut columns[place / per_column];
            let old = column.unwrap_or(Column { first: value, low: value, high: value, last: value });
            *column = Some(Column { low: old.low.min(value), high: old.high.max(value), last: value, ..old });
        }
    })?;

    let (low, high) = widen(range);
    let ticks = scale::ticks(low, high, 6);
    let left = 18 + ticks.iter().map(|tick| tick.1.len()).max().unwrap_or(1) * LETTER;
    let (width, height) = (WIDTH - left - RIGHT, HEIGHT - TOP - BOTTOM);
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    write_heading(&mut canvas, selection, caption, range, left);

    let x_of = |place: f64| left as f64 + (place + 0.5) / axis.count as f64 * width as f64;
    // Halving first keeps the widest ranges from overflowing.
    let y_of = |value: f64| TOP as f64 + (1.0 - (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)) * height as f64;
    for (value, label) in ticks {
        let y = y_of(value).round().clamp(TOP as f64, (TOP + height - 1) as f64) as usize;
        canvas.fill(left, y, width, 1, colour::GRID);
        canvas.fill(left - 5, y, 4, 1, colour::INK);
        canvas.write_text_left_of(left - 7, y, &label, colour::INK);
    }
    let (first, last) = (axis.index(0), axis.index(axis.count - 1));
    for index in scale::index_ticks(first.min(last), first.max(last), 8) {
        let place = (index as f64 - axis.start as f64) / axis.step as f64;
        let x = (x_of(place) as usize).clamp(left, left + width - 1);
        canvas.fill(x, TOP, 1, height, colour::GRID);
        canvas.fill(x, TOP + height + 1, 1, 4, colour::INK);
        canvas.write_text_centred(x, TOP + height + 14, &index.to_string(), colour::INK);
    }

    let clip = [left, TOP, left + width, TOP + height];
    let mut points: Vec<[f64; 2]> = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        let x = x_of((place * per_column) as f64 + (per_column - 1) as f64 / 2.0);
        match column {
            // A value that is not finite interrupts the line.
            None => canvas.draw_lines(&std::mem::take(&mut points), clip, colour::LINE),
            Some(column) if per_column == 1 => points.push([x, y_of(column.first)]),
            Some(column) => {
                points.extend([column.first, column.low, column.high, column.last].map(|value| [x, y_of(value)]));
            }
        }
    }
    canvas.draw_lines(&points, clip, colour::LINE);
    // Where there are few values, or none beside them, a line alone would hide them.
    let lonely = |place: usize| {
        let there =
            |place: Option<usize>| place.and_then(|place| columns.get(place)).is_some_and(|column| column.is_some());
        !there(place.checked_sub(1)) && !there(Some(place + 1))
    };
    for (place, column) in columns.iter().enumerate() {
        if let Some(column) = column.filter(|_| per_column == 1 && (axis.count <= 60 || lonely(place))) {
            let (x, y) = (x_of(place as f64), y_of(column.first));
            canvas.draw_lines(&[[x - 1.0, y], [x + 1.0, y]], clip, colour::LINE);
            canvas.draw_lines(&[[x, y - 1.0], [x, y + 1.0]], clip, colour::LINE);
        }
    }
    canvas.frame(left, TOP, width, height, colour::INK);
    Ok(canvas)
}

/// The range of the vertical scale: that of the values with a little room, and never empty.
fn widen(range: Range) -> (f64, f64) {
    if range.low > range.high {
        return (0.0, 1.0);
    }
    let room = (range.high / 2.0 - range.low / 2.0) * 0.08;
    let room = if room > 0.0 {
        room
    } else {
        (range.low.abs() * 0.05).max(f64::MIN_POSITIVE * 1e20).max(1e-3 * f64::from(range.low == 0.0))
    };
    ((range.low - room).max(f64::MIN), (range.high + room).min(f64::MAX))
}
