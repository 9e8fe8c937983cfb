//! One axis as a line.

use super::axes::{BOTTOM, Frame, TOP, Tick, label_room, write_heading};
use super::sheet::{Area, Drawn, Plot, Raster, SCALE};
use super::{Caption, Range, colour, heading, scale, visit_numbers};
use crate::failure::Failure;
use crate::gather::Source;
use crate::selection::Selection;
use plotters::chart::LabelAreaPosition;
use plotters::element::{Circle, PathElement};
use plotters::prelude::DrawingBackend;
use plotters::style::Color;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 440;
const RIGHT: u32 = 24;
/// Axes up to that long show where their elements are.
const MARKED_MAX: usize = 60;
/// Pixels of the drawing across a line, and from the middle of a mark to its edge.
const STROKE: u32 = 5;
const RADIUS: u32 = 6;

/// What the values of one column of pixels amount to: the first, the extremes and the last.
#[derive(Clone, Copy)]
struct Column {
    first: f64,
    low: f64,
    high: f64,
    last: f64,
}

/// A line with its scales.
pub struct Line {
    heading: [String; 2],
    count: usize,
    /// Elements that are gathered into a column.
    per_column: usize,
    columns: Vec<Option<Column>>,
    low: f64,
    high: f64,
    x: Vec<Tick>,
    y: Vec<Tick>,
}

impl Line {
    /// Reads the numbers.
    pub fn new(source: &dyn Source, selection: &Selection, caption: &Caption) -> Result<Line, Failure> {
        let axis = selection.kept()[0];
        // A long axis is gathered into twice as many columns as there are pixels; nothing the eye could see is lost.
        let per_column = axis.count.div_ceil(2 * WIDTH as usize).max(1);
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
        let (low, high) = range.widened(0.08);
        let y = scale::ticks(low, high, 6).into_iter().map(|(value, label)| (scale::share(value, low, high), label));
        let (first, last) = (axis.index(0), axis.index(axis.count - 1));
        let x = scale::index_ticks(first.min(last), first.max(last), 8).into_iter().map(|index| {
            let place = (index as f64 - axis.start as f64) / axis.step as f64;
            ((place + 0.5) / axis.count as f64, index.to_string())
        });
        let (heading, count) = (heading(selection, caption, range), axis.count);
        Ok(Line { heading, count, per_column, columns, low, high, x: x.collect(), y: y.collect() })
    }

    /// The points of each part of the line without a gap.
    fn parts(&self) -> Vec<Vec<[f64; 2]>> {
        let mut parts = vec![Vec::new()];
        for (place, column) in self.columns.iter().enumerate() {
            let x = (place * self.per_column) as f64 + (self.per_column - 1) as f64 / 2.0;
            match (column, parts.last_mut()) {
                (Some(column), Some(part)) if self.per_column == 1 => part.push([x, column.first]),
                (Some(column), Some(part)) => {
                    part.extend([column.first, column.low, column.high, column.last].map(|value| [x, value]));
                }
                // A value that is not finite interrupts the line.
                _ => parts.push(Vec::new()),
            }
        }
        parts
    }
}

impl Plot for Line {
    fn size(&self) -> [u32; 2] {
        [WIDTH, HEIGHT]
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        let left = label_room(&self.y);
        let frame = Frame {
            left,
            top: TOP,
            width: WIDTH - left - RIGHT,
            height: HEIGHT - TOP - BOTTOM,
            x: &self.x,
            y: &self.y,
            side: LabelAreaPosition::Left,
            grid: true,
        };
        write_heading(area, left, &self.heading)?;
        frame.draw(area)?;
        let colour = colour::rgb(colour::LINE);
        for part in self.parts() {
            let pixel = |[x, value]: [f64; 2]| {
                frame.pixel((x + 0.5) / self.count as f64, scale::share(value, self.low, self.high))
            };
            let pixels: Vec<(i32, i32)> = part.into_iter().map(pixel).collect();
            for pair in pixels.windows(2).filter(|pair| pair[0] != pair[1]) {
                area.draw(&PathElement::new([pair[0], pair[1]], colour.stroke_width(STROKE)))?;
            }
            // Where there are few values, or none beside them, a line alone would hide them.
            if self.count <= MARKED_MAX || pixels.len() == 1 {
                for place in pixels {
                    area.draw(&Circle::new(place, RADIUS.max(SCALE), colour.filled()))?;
                }
            }
        }
        Ok(())
    }

    fn rasters(&self) -> &[Raster] {
        &[]
    }
}
