//! A plot as a file: drawn once as shapes, which a PNG has as pixels.

use super::colour::{Colour, PAPER};
use crate::failure::Failure;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::prelude::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::{FontStyle, IntoFont, register_font};
use std::io::Write;

/// How many times as large everything is drawn: the mean of that many pixels, both ways, gives lines and letters smooth edges.
pub const SCALE: u32 = 3;

/// Height of ordinary text and of the title, as the library counts it: 1.24 times the size of the font.
pub const TEXT: u32 = 16;
pub const TITLE: u32 = 19;

/// The only family: it is in the program, and pictures of shapes call it by a name that every viewer knows.
pub const FAMILY: &str = "sans-serif";

/// The sheet that is drawn on.
pub type Area<B> = DrawingArea<B, Shift>;

/// What became of drawing.
pub type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// What is drawn.
pub trait Plot {
    /// Width and height in pixels.
    fn size(&self) -> [u32; 2];

    /// Draws all that is lines and text, [`SCALE`] times as large.
    fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B>;

    /// What is made of cells.
    fn rasters(&self) -> &[Raster];
}

/// Cells of colours that fill a box.
pub struct Raster {
    pub left: u32,
    pub top: u32,
    pub width: u32,
    pub height: u32,
    pub columns: usize,
    /// Row by row.
    pub colours: Vec<Colour>,
}

impl Raster {
    fn rows(&self) -> usize {
        self.colours.len() / self.columns
    }

    fn at(&self, x: u32, y: u32) -> Colour {
        let column = x as usize * self.columns / self.width as usize;
        self.colours[y as usize * self.rows() / self.height as usize * self.columns + column]
    }
}

/// The file formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Png,
    Svg,
}

/// Writes a plot as a file.
pub fn write(plot: &impl Plot, format: Format, out: &mut dyn Write) -> Result<(), Failure> {
    match format {
        Format::Png => encode(plot.size(), &pixels(plot)?, out),
        Format::Svg => Ok(out.write_all(shapes(plot)?.as_bytes())?),
    }
}

/// How wide text is.
pub fn text_width(text: &str, size: u32) -> u32 {
    prepare_font();
    let layout = (FAMILY, size * SCALE).into_font().layout_box(text);
    layout.map_or(0, |((left, _), (right, _))| (right - left).unsigned_abs().div_ceil(SCALE))
}

/// Makes the font known to the library, which looks for fonts by name.
fn prepare_font() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // It is a good font, so that this does not fail; without it drawing text is an error.
        let _ = register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular());
    });
}

fn undrawable(error: impl std::fmt::Display) -> Failure {
    Failure::Problem(format!("cannot draw the picture: {error}"))
}

/// The picture row by row.
pub fn pixels(plot: &impl Plot) -> Result<Vec<Colour>, Failure> {
    prepare_font();
    let [width, height] = plot.size();
    let mut large = [PAPER[0]].repeat((width * SCALE * height * SCALE * 3) as usize);
    let area = BitMapBackend::with_buffer(&mut large, (width * SCALE, height * SCALE)).into_drawing_area();
    plot.draw(&area).map_err(undrawable)?;
    area.present().map_err(undrawable)?;
    drop(area);
    let mut pixels = shrink(&large, width as usize);
    for raster in plot.rasters() {
        for y in 0..raster.height {
            for x in 0..raster.width {
                pixels[((raster.top + y) * width + raster.left + x) as usize] = raster.at(x, y);
            }
        }
    }
    Ok(pixels)
}

/// The mean of each square of pixels, in rows of `width`.
fn shrink(large: &[u8], width: usize) -> Vec<Colour> {
    let scale = SCALE as usize;
    let mut pixels = Vec::with_capacity(large.len() / (3 * scale * scale));
    for rows in large.chunks_exact(3 * scale * scale * width) {
        pixels.extend((0..width).map(|x| {
            let mut sums = [0u32; 3];
            for row in rows.chunks_exact(3 * scale * width) {
                for pixel in row[3 * scale * x..3 * scale * (x + 1)].chunks_exact(3) {
                    sums.iter_mut().zip(pixel).for_each(|(sum, channel)| *sum += u32::from(*channel));
                }
            }
            sums.map(|sum| (sum / (SCALE * SCALE)) as u8)
        }));
    }
    pixels
}

fn encode([width, height]: [u32; 2], pixels: &[Colour], out: &mut dyn Write) -> Result<(), Failure> {
    let mut encoder = png::Encoder::new(out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(pixels.as_flattened())?;
        writer.finish()
    });
    written.map_err(|error| match error {
        png::EncodingError::IoError(error) => Failure::Output(error),
        other => undrawable(other),
    })
}

/// The picture as text: what is drawn, and cells as images in it.
fn shapes(plot: &impl Plot) -> Result<String, Failure> {
    prepare_font();
    let [width, height] = plot.size();
    let (large, mut text) = ((width * SCALE, height * SCALE), String::new());
    let area = SVGBackend::with_string(&mut text, large).into_drawing_area();
    area.fill(&super::colour::rgb(PAPER)).map_err(undrawable)?;
    plot.draw(&area).map_err(undrawable)?;
    area.present().map_err(undrawable)?;
    drop(area);
    // Viewers show it as large as a picture of pixels.
    let size = |(width, height): (u32, u32)| format!("width=\"{width}\" height=\"{height}\"");
    let text = text.replacen(&size(large), &size((width, height)), 1);
    let mut images = String::new();
    for raster in plot.rasters() {
        let mut file = Vec::new();
        encode([raster.columns as u32, raster.rows() as u32], &raster.colours, &mut file)?;
        let box_of = [("x", raster.left), ("y", raster.top), ("width", raster.width), ("height", raster.height)];
        let place: String = box_of.iter().map(|(name, value)| format!(" {name}=\"{}\"", value * SCALE)).collect();
        let data = BASE64_STANDARD.encode(file);
        images += &format!(
            "<image{place} preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" \
             href=\"data:image/png;base64,{data}\"/>\n"
        );
    }
    Ok(text.replace("</svg>", &(images + "</svg>")))
}
