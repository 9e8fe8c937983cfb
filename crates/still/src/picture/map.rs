//! Two axes as a map of colours. Rows run down and columns to the right; of a Fortran-order array the first index, which runs fastest
//! in it, runs to the right, and the second one down.

use super::axes::{BOTTOM, Frame, TOP, Tick, heading_room, label_room, write_heading};
use super::sheet::{Area, Drawn, Plot, Raster};
use super::{Caption, Range, colour, heading, scale, visit_numbers};
use crate::failure::Failure;
use crate::gather::Source;
use crate::selection::Selection;
use crate::slice::Axis;
use plotters::chart::LabelAreaPosition;
use plotters::prelude::DrawingBackend;
use stillframe::Order;

/// Cells along an axis; longer axes are averaged down to that.
const CELLS_MAX: usize = 1024;
/// Small arrays are enlarged to about so many pixels.
const PIXELS_WANTED: usize = 800;
/// No side of the map is shorter than that.
const PIXELS_MIN: usize = 96;
/// No picture is narrower than that, and none is made wider than that for its heading.
const WIDTH_MIN: u32 = 460;
const WIDTH_MAX: u32 = 1600;
const BAR_WIDTH: u32 = 20;
const BAR_APART: u32 = 22;
const BAR_SHADES: usize = 256;

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

    /// Where from the edge on the middle of the element with index `index` of the variable is.
    fn locate(&self, index: usize) -> f64 {
        let place = (index as f64 - self.axis.start as f64) / self.axis.step as f64;
        ((place + 0.5) / (self.elements * self.cells) as f64).clamp(0.0, 1.0)
    }

    fn ticks(&self, apart: usize) -> Vec<Tick> {
        let (first, last) = (self.axis.index(0), self.axis.index(self.axis.count - 1));
        let wanted = (self.length() / apart).clamp(1, 10);
        let ticks = scale::index_ticks(first.min(last), first.max(last), wanted);
        ticks.into_iter().map(|index| (self.locate(index), index.to_string())).collect()
    }
}

/// A map with its scales.
pub struct Map {
    heading: [String; 2],
    size: [u32; 2],
    left: u32,
    bar: Vec<Tick>,
    x: Vec<Tick>,
    y: Vec<Tick>,
    /// The map, and the bar where there is a scale.
    rasters: Vec<Raster>,
}

impl Map {
    /// Reads the numbers.
    pub fn new(source: &dyn Source, selection: &Selection, caption: &Caption) -> Result<Map, Failure> {
        let axes = selection.kept();
        let is_turned = selection.order == Order::Fortran;
        let (down, right) = if is_turned { (axes[1], axes[0]) } else { (axes[0], axes[1]) };
        let (mut rows, mut columns) = (Side::new(down), Side::new(right));
        let pixels = (PIXELS_WANTED / rows.cells.max(columns.cells)).max(1);
        rows.pixels = pixels.max(PIXELS_MIN.div_ceil(rows.cells));
        columns.pixels = pixels.max(PIXELS_MIN.div_ceil(columns.cells));
        // The sum of the finite values of each cell, and how many they are.
        let mut cells = vec![(0.0, 0u32); rows.cells * columns.cells];
        let mut range = Range::EMPTY;
        visit_numbers(source, selection, &mut |[first, second], value| {
            let (row, column) = if is_turned { (second, first) } else { (first, second) };
            range.add(value);
            if value.is_finite() {
                let cell = &mut cells[row / rows.elements * columns.cells + column / columns.elements];
                *cell = (cell.0 + value, cell.1 + 1);
            }
        })?;
        let (low, high) = range.widened(0.0);
        let shade = |(sum, count): (f64, u32)| match count {
            0 => colour::NOTHING,
            count => colour::viridis(scale::share(sum / f64::from(count), low, high)),
        };
        let (width, height) = (columns.length() as u32, rows.length() as u32);
        let (x, mut y) = (columns.ticks(80), rows.ticks(48));
        // Rows are counted from the top.
        y.iter_mut().for_each(|tick| tick.0 = 1.0 - tick.0);
        let left = label_room(&y);
        let colours = cells.into_iter().map(shade).collect();
        let mut rasters = vec![Raster { left, top: TOP, width, height, columns: columns.cells, colours }];
        let mut bar = Vec::new();
        if !range.is_empty() {
            let ticks = scale::ticks(low, high, (height / 56).clamp(3, 8) as usize);
            bar = ticks.into_iter().map(|(value, label)| (scale::share(value, low, high), label)).collect();
            let shades = (0..BAR_SHADES).rev().map(|shade| colour::viridis(shade as f64 / (BAR_SHADES - 1) as f64));
            let left = left + width + BAR_APART;
            rasters.push(Raster { left, top: TOP, width: BAR_WIDTH, height, columns: 1, colours: shades.collect() });
        }
        let right = left + width + BAR_APART + BAR_WIDTH + label_room(&bar) + 8;
        let mut heading = heading(selection, caption, range);
        if is_turned {
            heading[1] += ", first index to the right";
        }
        let width = right.max(heading_room(left, &heading).clamp(WIDTH_MIN, WIDTH_MAX));
        Ok(Map { heading, size: [width, TOP + height + BOTTOM], left, bar, x, y, rasters })
    }
}

impl Plot for Map {
    fn size(&self) -> [u32; 2] {
        self.size
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        write_heading(area, self.left, &self.heading)?;
        let axes: [(&[Tick], &[Tick], _); 2] =
            [(&self.x, &self.y, LabelAreaPosition::Left), (&[], &self.bar, LabelAreaPosition::Right)];
        for (raster, (x, y, side)) in self.rasters.iter().zip(axes) {
            let Raster { left, top, width, height, .. } = *raster;
            Frame { left, top, width, height, x, y, side, grid: false }.draw(area)?;
        }
        Ok(())
    }

    fn rasters(&self) -> &[Raster] {
        &self.rasters
    }
}
