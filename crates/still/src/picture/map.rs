//! Two axes as a map of colours: rows run down, columns to the right.

use super::canvas::{Canvas, LETTER};
use super::{Caption, Range, colour, scale, visit_numbers, write_heading};
use crate::failure::Failure;
use crate::gather::Source;
use crate::selection::Selection;
use crate::slice::Axis;

/// Cells along an axis; longer axes are averaged down to that.
const CELLS_MAX: usize = 1024;
/// Small arrays are enlarged to about so many pixels.
const PIXELS_WANTED: usize = 800;
/// No side of the map is shorter than that.
const PIXELS_MIN: usize = 96;
const TOP: usize = 56;
const BOTTOM: usize = 30;
const BAR_WIDTH: usize = 18;

/// The mean of the finite values of each cell.
struct Cells {
    rows: Side,
    columns: Side,
    sums: Vec<(f64, u32)>,
}

/// How an axis is laid out in cells and pixels.
#[derive(Clone, Copy)]
struct Side {
    axis: Axis,
    /// Elements per cell.
    elements: usize,
    cells: usize,
    /// Pixels per cell.
    pixels: usize,
}

impl Side {
    fn new(axis: Axis) -> Side {
        let elements = axis.count.div_ceil(CELLS_MAX).max(1);
        Side { axis, elements, cells: axis.count.div_ceil(elements), pixels: 1 }
    }

    fn length(&self) -> usize {
        self.cells * self.pixels
    }

    /// Pixels from the edge to the middle of the element with index `index` of the variable.
    fn locate(&self, index: usize) -> usize {
        let place = (index as f64 - self.axis.start as f64) / self.axis.step as f64;
        let cell = ((place + 0.5) / self.elements as f64).clamp(0.0, self.cells as f64);
        ((cell * self.pixels as f64) as usize).min(self.length() - 1)
    }

    fn ticks(&self, apart: usize) -> Vec<usize> {
        let (first, last) = (self.axis.index(0), self.axis.index(self.axis.count - 1));
        scale::index_ticks(first.min(last), first.max(last), (self.length() / apart).clamp(1, 10))
    }
}

/// Draws the map with its scales.
pub fn draw(source: &dyn Source, selection: &Selection, caption: &Caption) -> Result<Canvas, Failure> {
    let axes = selection.kept();
    let (mut rows, mut columns) = (Side::new(axes[0]), Side::new(axes[1]));
    let pixels = (PIXELS_WANTED / rows.cells.max(columns.cells)).max(1);
    rows.pixels = pixels.max(PIXELS_MIN.div_ceil(rows.cells));
    columns.pixels = pixels.max(PIXELS_MIN.div_ceil(columns.cells));

    let mut cells = Cells { rows, columns, sums: vec![(0.0, 0); rows.cells * columns.cells] };
    let mut range = Range::EMPTY;
    visit_numbers(source, selection, &mut |[row, column], value| {
        range.add(value);
        if value.is_finite() {
            let cell = &mut cells.sums[row / rows.elements * columns.cells + column / columns.elements];
            *cell = (cell.0 + value, cell.1 + 1);
        }
    })?;

    let labels = rows.ticks(48);
    let left = 16 + labels.iter().map(|label| label.to_string().len()).max().unwrap_or(1) * LETTER;
    let (width, height) = (columns.length(), rows.length());
    let bar = left + width + 20;
    let mut canvas = Canvas::new((bar + BAR_WIDTH + 14 * LETTER).max(420), TOP + height + BOTTOM);
    write_heading(&mut canvas, selection, caption, range, left);
    paint(&mut canvas, &cells, range, left);
    for index in labels {
        let y = TOP + rows.locate(index);
        canvas.fill(left - 5, y, 4, 1, colour::INK);
        canvas.write_text_left_of(left - 7, y, &index.to_string(), colour::INK);
    }
    for index in columns.ticks(80) {
        let x = left + columns.locate(index);
        canvas.fill(x, TOP + height + 1, 1, 4, colour::INK);
        canvas.write_text_centred(x, TOP + height + 14, &index.to_string(), colour::INK);
    }
    if range.low <= range.high {
        draw_bar(&mut canvas, range, bar, height);
    }
    Ok(canvas)
}

fn paint(canvas: &mut Canvas, cells: &Cells, range: Range, left: usize) {
    for row in 0..cells.rows.cells {
        for column in 0..cells.columns.cells {
            let (sum, count) = cells.sums[row * cells.columns.cells + column];
            let colour = match count {
                0 => colour::NOTHING,
                count => colour::viridis(share(sum / f64::from(count), range)),
            };
            let (width, height) = (cells.columns.pixels, cells.rows.pixels);
            canvas.fill(left + column * width, TOP + row * height, width, height, colour);
        }
    }
    canvas.frame(left, TOP, cells.columns.length(), cells.rows.length(), colour::INK);
}

/// Where between the extremes a value lies. Halving first keeps the widest ranges from overflowing.
fn share(value: f64, range: Range) -> f64 {
    let span = range.high / 2.0 - range.low / 2.0;
    if span > 0.0 { (value / 2.0 - range.low / 2.0) / span } else { 0.5 }
}

fn draw_bar(canvas: &mut Canvas, range: Range, x: usize, height: usize) {
    for row in 0..height {
        let value = 1.0 - row as f64 / (height - 1) as f64;
        let value = if range.low < range.high { value } else { 0.5 };
        canvas.fill(x, TOP + row, BAR_WIDTH, 1, colour::viridis(value));
    }
    canvas.frame(x, TOP, BAR_WIDTH, height, colour::INK);
    let place = |value: f64| TOP + ((1.0 - share(value, range)).clamp(0.0, 1.0) * (height - 1) as f64) as usize;
    let mut label = |y: usize, text: &str| {
        canvas.fill(x + BAR_WIDTH + 1, y, 4, 1, colour::INK);
        canvas.write_text(x + BAR_WIDTH + 8, y, text, colour::INK);
    };
    if range.low == range.high {
        return label(TOP + height / 2, &scale::format_number(range.low));
    }
    // The extremes stand at the ends, and round numbers wherever they do not get in their way.
    label(TOP, &scale::format_number(range.high));
    label(TOP + height - 1, &scale::format_number(range.low));
    for (value, text) in scale::ticks(range.low, range.high, (height / 56).clamp(1, 8)) {
        let y = place(value);
        if (TOP + 16..TOP + height - 16).contains(&y) {
            label(y, &text);
        }
    }
}
