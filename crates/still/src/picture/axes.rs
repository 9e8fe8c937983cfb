//! The axes of a plot, its frame and its heading.

use super::colour::{GRID, INK, MUTED, rgb};
use super::sheet::{Area, Drawn, FAMILY, SCALE, TEXT, TITLE, text_width};
use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::{PathElement, Text};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont};
use std::ops::Range;

/// Length of the marks at ticks.
pub const MARK: u32 = 4;
/// Room for the heading, and for the labels below.
pub const TOP: u32 = 58;
pub const BOTTOM: u32 = 32;

/// The library takes the middle of a label for higher than it is.
const LABEL_LOWER: u32 = 2;

/// Where along an axis, from 0 at its begin to 1, a label stands.
pub type Tick = (f64, String);

/// How much room labels need beside their axis.
pub fn label_room(ticks: &[Tick]) -> u32 {
    ticks.iter().map(|tick| text_width(&tick.1, TEXT)).max().unwrap_or(0) + MARK + 10
}

/// A box with axes.
pub struct Frame<'a> {
    /// Its left upper corner.
    pub left: u32,
    pub top: u32,
    pub width: u32,
    pub height: u32,
    /// Ticks from the left to the right, and from the bottom to the top.
    pub x: &'a [Tick],
    pub y: &'a [Tick],
    /// The side of the vertical labels.
    pub side: LabelAreaPosition,
    /// Whether lines go from the ticks through the box.
    pub grid: bool,
}

impl Frame<'_> {
    /// Draws the axes and the frame.
    pub fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        let (width, height) = area.dim_in_pixel();
        let (right, bottom) = ((self.left + self.width) * SCALE, (self.top + self.height) * SCALE);
        let is_left = matches!(self.side, LabelAreaPosition::Left);
        let (before, behind) = (self.left * SCALE, width - right);
        let mut builder = ChartBuilder::on(area);
        builder.margin_top(self.top * SCALE).set_label_area_size(LabelAreaPosition::Bottom, height - bottom);
        builder.set_label_area_size(self.side, if is_left { before } else { behind });
        if is_left {
            builder.margin_right(behind)
        } else {
            builder.margin_left(before)
        };
        let mut chart = builder.build_cartesian_2d(Axis(self.x), Axis(self.y))?;
        let mut mesh = chart.configure_mesh();
        mesh.set_all_tick_mark_size(MARK * SCALE)
            .y_label_offset(LABEL_LOWER * SCALE)
            .axis_style(rgb(INK).stroke_width(SCALE))
            .light_line_style(plotters::style::TRANSPARENT)
            .bold_line_style(rgb(GRID).stroke_width(SCALE))
            .label_style((FAMILY, TEXT * SCALE).into_font().color(&rgb(INK)));
        if !self.grid {
            mesh.disable_mesh();
        }
        mesh.draw()?;
        // Just outside of the box, half of the line's width away.
        let half = SCALE as i32 / 2 + 1;
        let (left, top) = ((self.left * SCALE) as i32 - half, (self.top * SCALE) as i32 - half);
        let (right, bottom) = (right as i32 + half - 1, bottom as i32 + half - 1);
        for [from, to] in [
            [(left, top), (right, top)],
            [(right, top), (right, bottom)],
            [(right, bottom), (left, bottom)],
            [(left, bottom), (left, top)],
        ] {
            area.draw(&PathElement::new([from, to], rgb(INK).stroke_width(SCALE)))?;
        }
        Ok(())
    }

    /// The pixel of a place in the box, both from 0 to 1, the second from the bottom.
    pub fn pixel(&self, x: f64, y: f64) -> (i32, i32) {
        let along =
            |start: u32, length: u32, share: f64| (SCALE as f64 * (start as f64 + share * length as f64)) as i32;
        (along(self.left, self.width, x), along(self.top, self.height, 1.0 - y))
    }
}

/// An axis from 0 to 1 with these ticks.
struct Axis<'a>(&'a [Tick]);

impl Ranged for Axis<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        first + (place * f64::from(last - first)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.0.iter().map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<f64> {
        0.0..1.0
    }
}

impl ValueFormatter<f64> for Axis<'_> {
    fn format_ext(&self, place: &f64) -> String {
        self.0.iter().find(|tick| tick.0 == *place).map_or(String::new(), |tick| tick.1.clone())
    }
}

/// Room to the right of a heading.
const BEHIND: u32 = 6;

/// How wide a picture is in which a heading from `left` on has room.
pub fn heading_room(left: u32, [title, about]: &[String; 2]) -> u32 {
    left + text_width(title, TITLE).max(text_width(about, TEXT - 1)) + BEHIND
}

/// Writes what is shown, and below it what is to be known of it.
pub fn write_heading<B: DrawingBackend>(area: &Area<B>, left: u32, [title, about]: &[String; 2]) -> Drawn<B> {
    let room = (area.dim_in_pixel().0 / SCALE).saturating_sub(left + BEHIND);
    let (ink, muted) = (rgb(INK), rgb(MUTED));
    let font = (FAMILY, TITLE * SCALE).into_font().color(&ink);
    let place = |y: u32| ((left * SCALE) as i32, (y * SCALE) as i32);
    let pos = Pos::new(HPos::Left, VPos::Center);
    area.draw(&Text::new(shorten(title, TITLE, room), place(18), font.pos(pos)))?;
    let font = (FAMILY, (TEXT - 1) * SCALE).into_font().color(&muted);
    area.draw(&Text::new(shorten(about, TEXT - 1, room), place(38), font.pos(pos)))
}

/// As much of a text as there is room for.
fn shorten(text: &str, size: u32, room: u32) -> String {
    if text_width(text, size) <= room {
        return text.into();
    }
    let mut shown: String = text.into();
    while !shown.is_empty() && text_width(&shown, size) + text_width("…", size) > room {
        shown.pop();
    }
    shown + "…"
}
