//! A picture under construction: pixels, boxes, text and smooth lines.

use super::colour::{Colour, INK, PAPER, blend};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle, iso_8859_1::FONT_7X13, iso_8859_1::FONT_9X15_BOLD};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::prelude::*;
use embedded_graphics::text::{Baseline, Text};

/// Width in pixels of a letter of ordinary text.
pub const LETTER: usize = 7;

/// A picture of that many pixels, rows from the top.
pub struct Canvas {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<Colour>,
}

impl Canvas {
    /// An empty sheet.
    pub fn new(width: usize, height: usize) -> Canvas {
        Canvas { width, height, pixels: vec![PAPER; width * height] }
    }

    /// Colours a pixel; outside of the sheet nothing happens.
    pub fn set(&mut self, x: usize, y: usize, colour: Colour) {
        if x < self.width && y < self.height {
            self.pixels[y * self.width + x] = colour;
        }
    }

    /// Fills a box whose upper left corner is at `x`, `y`.
    pub fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Colour) {
        for row in y..y + height {
            for column in x..x + width {
                self.set(column, row, colour);
            }
        }
    }

    /// Draws the edge of a box just outside of it.
    pub fn frame(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Colour) {
        self.fill(x - 1, y - 1, width + 2, 1, colour);
        self.fill(x - 1, y + height, width + 2, 1, colour);
        self.fill(x - 1, y - 1, 1, height + 2, colour);
        self.fill(x + width, y - 1, 1, height + 2, colour);
    }

    /// Writes text whose vertical middle is `y`.
    pub fn write_text(&mut self, x: usize, y: usize, text: &str, colour: Colour) {
        self.write(x, y, text, colour, &FONT_7X13);
    }

    /// Writes text that ends before `x`.
    pub fn write_text_left_of(&mut self, x: usize, y: usize, text: &str, colour: Colour) {
        self.write_text(x.saturating_sub(text.chars().count() * LETTER), y, text, colour);
    }

    /// Writes text centred at `x`.
    pub fn write_text_centred(&mut self, x: usize, y: usize, text: &str, colour: Colour) {
        self.write_text(x.saturating_sub(text.chars().count() * LETTER / 2), y, text, colour);
    }

    /// Writes the heading.
    pub fn write_title(&mut self, x: usize, y: usize, text: &str) {
        self.write(x, y, text, INK, &FONT_9X15_BOLD);
    }

    fn write(&mut self, x: usize, y: usize, text: &str, colour: Colour, font: &MonoFont) {
        let fits = self.width.saturating_sub(x + 4) / font.character_size.width as usize;
        let mut text = text.to_string();
        if text.chars().count() > fits {
            text = text.chars().take(fits.saturating_sub(3)).chain("...".chars()).collect();
        }
        let [red, green, blue] = colour;
        let style = MonoTextStyle::new(font, Rgb888::new(red, green, blue));
        let place = Point::new(x as i32, y as i32);
        // Drawing on this canvas cannot fail, its error type has no values.
        let Ok(_) = Text::with_baseline(&text, place, style, Baseline::Middle).draw(self);
    }

    /// Draws lines through `points` with soft edges, inside of the box `clip` (left, top, right, bottom).
    pub fn draw_lines(&mut self, points: &[[f64; 2]], clip: [usize; 4], colour: Colour) {
        // Coverage is collected first, so that joints do not come out darker than the rest.
        let [left, top, right, bottom] = clip;
        let width = right.saturating_sub(left);
        let mut coverage = vec![0.0f32; width * bottom.saturating_sub(top)];
        let half_width = 0.8;
        for pair in points.windows(2) {
            let ([x0, y0], [x1, y1]) = (pair[0], pair[1]);
            let reach = half_width + 1.0;
            let columns = span(x0.min(x1) - reach, x0.max(x1) + reach, left, right);
            let rows = span(y0.min(y1) - reach, y0.max(y1) + reach, top, bottom);
            let (dx, dy) = (x1 - x0, y1 - y0);
            let length = dx * dx + dy * dy;
            for y in rows {
                for x in columns.clone() {
                    let (px, py) = (x as f64 + 0.5 - x0, y as f64 + 0.5 - y0);
                    let along = if length > 0.0 { ((px * dx + py * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
                    let distance = (px - along * dx).hypot(py - along * dy);
                    let share = (half_width + 0.5 - distance).clamp(0.0, 1.0) as f32;
                    let cell = &mut coverage[(y - top) * width + x - left];
                    *cell = cell.max(share);
                }
            }
        }
        for (place, share) in coverage.into_iter().enumerate().filter(|(_, share)| *share > 0.0) {
            let at = (top + place / width) * self.width + left + place % width;
            self.pixels[at] = blend(self.pixels[at], colour, share.into());
        }
    }
}

fn span(low: f64, high: f64, first: usize, end: usize) -> std::ops::Range<usize> {
    let low = (low.floor().max(first as f64)) as usize;
    let high = (high.ceil().min(end as f64)).max(0.0) as usize;
    low..high.max(low)
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = std::convert::Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Self::Error> {
        for Pixel(place, colour) in pixels {
            if let (Ok(x), Ok(y)) = (usize::try_from(place.x), usize::try_from(place.y)) {
                self.set(x, y, [colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.width as u32, self.height as u32)
    }
}
