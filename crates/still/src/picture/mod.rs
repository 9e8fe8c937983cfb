//! Pictures of arrays: a line for one axis, a map of colours for two.

mod canvas;
mod colour;
mod line;
mod map;
mod scale;

use crate::failure::Failure;
use crate::gather::Source;
use crate::selection::Selection;
use crate::slice::format_shape;
use crate::value::decode;
use canvas::Canvas;
use std::io::Write;
use stillframe::{DType, Order};

/// What stands above the picture besides the selection itself.
pub struct Caption {
    /// The region the data come from.
    pub region: String,
    /// The version they belong to.
    pub version: u64,
}

/// Draws the selection and writes it as PNG.
pub fn write(
    source: &dyn Source,
    selection: &Selection,
    caption: &Caption,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let canvas = draw(source, selection, caption)?;
    let mut encoder = png::Encoder::new(&mut *out, canvas.width as u32, canvas.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(canvas.pixels.as_flattened())?;
        writer.finish()
    });
    written.map_err(|error| match error {
        png::EncodingError::IoError(error) => Failure::Output(error),
        other => Failure::Problem(format!("cannot encode the picture: {other}")),
    })
}

fn draw(source: &dyn Source, selection: &Selection, caption: &Caption) -> Result<Canvas, Failure> {
    let refuse = |why: String| Err(Failure::Misuse(format!("'{}' makes no picture: {why}", selection.label)));
    match &selection.dtype {
        DType::Record { fields, .. } => {
            let first = fields.first().map_or("FIELD", |field| field.name.as_str());
            return refuse(format!(
                "its elements are records, choose a field such as '{}.{first}'",
                selection.variable
            ));
        }
        DType::Bytes(_) => return refuse("its elements are bytes, not numbers".into()),
        _ => {}
    }
    let shape = selection.shape();
    if selection.count() == 0 {
        return refuse(format!("it selects nothing, the shape is {}", format_shape(&shape)));
    }
    match shape.len() {
        1 => line::draw(source, selection, caption),
        2 => map::draw(source, selection, caption),
        0 => refuse("it is a single value, leave out -o to print it".into()),
        axes => {
            let fixed = vec!["0"; axes - 2].join(", ");
            let hint = format!("'{}[{fixed}, ...]'", selection.label.split('[').next().unwrap_or_default());
            refuse(format!("it has {axes} axes {}, slice it down to two, such as {hint}", format_shape(&shape)))
        }
    }
}

/// Hands every number of the selection to `visit`, with its place along the kept axes (0 for an axis that is missing).
fn visit_numbers(
    source: &dyn Source,
    selection: &Selection,
    visit: &mut dyn FnMut([usize; 2], f64),
) -> Result<(), Failure> {
    let shape = selection.shape();
    let (rows, columns) = match *shape.as_slice() {
        [columns] => (1, columns),
        [rows, columns] => (rows, columns),
        _ => return Ok(()),
    };
    let mut place = 0;
    source.stream(selection, &mut |piece| {
        // Pieces are a power of two long, and so are all numbers: none is cut in two.
        for bytes in piece.chunks_exact(selection.dtype.bytes()) {
            let at = match selection.order {
                Order::C => [place / columns, place % columns],
                Order::Fortran => [place % rows, place / rows],
            };
            visit(at, decode(&selection.dtype, bytes).number().unwrap_or(f64::NAN));
            place += 1;
        }
        Ok(())
    })
}

/// The extremes of what was drawn, and how many values had no place on the scale.
#[derive(Debug, Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
    odd: usize,
}

impl Range {
    const EMPTY: Range = Range { low: f64::INFINITY, high: f64::NEG_INFINITY, odd: 0 };

    fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
        } else {
            self.odd += 1;
        }
    }
}

/// Writes the heading: what is shown, and in the second line its version, type and range.
fn write_heading(canvas: &mut Canvas, selection: &Selection, caption: &Caption, range: Range, left: usize) {
    let complex = matches!(selection.dtype, DType::Complex(_));
    let name = if complex { format!("|{}|", selection.label) } else { selection.label.clone() };
    let units = if selection.units.is_empty() { String::new() } else { format!(" ({})", selection.units) };
    canvas.write_title(left, 18, &format!("{name}{units}"));
    let mut about = format!(
        "{}, version {}, {} {}",
        caption.region,
        caption.version,
        selection.dtype,
        format_shape(&selection.shape())
    );
    if range.low <= range.high {
        about += &format!(", {} to {}", scale::format_number(range.low), scale::format_number(range.high));
    }
    if range.odd > 0 {
        about += &format!(", {} not finite", range.odd);
    }
    canvas.write_text(left, 35, &about, colour::MUTED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::tests::{Memory, selection};

    fn picture(shape: &[usize], order: Order, value: impl Fn(usize) -> f32) -> Result<Canvas, Failure> {
        let count: usize = shape.iter().product();
        let memory = Memory::new((0..count).flat_map(|place| value(place).to_ne_bytes()).collect());
        let caption = Caption { region: "heat".into(), version: 7 };
        draw(&memory, &selection(DType::Float(4), order, shape, &[]), &caption)
    }

    #[test]
    fn three_axes_are_refused_with_a_hint() {
        let error = picture(&[2, 2, 2], Order::C, |_| 0.0).err().unwrap();
        assert!(error.to_string().contains("'u[0, ...]'"), "{error}");
        assert_eq!(error.exit_code(), crate::failure::MISUSE);
        assert!(picture(&[], Order::C, |_| 0.0).is_err());
        assert!(picture(&[0, 3], Order::C, |_| 0.0).is_err());
    }

    #[test]
    fn any_shape_and_any_value_makes_a_picture() {
        for shape in [&[1][..], &[2], &[5000], &[1, 1], &[1, 3000], &[3000, 1], &[5, 7], &[1500, 1300]] {
            for value in
                [|_| 1.0, |place| place as f32, |_| f32::NAN, |place| if place == 0 { f32::MAX } else { f32::MIN }]
            {
                for order in [Order::C, Order::Fortran] {
                    let canvas = picture(shape, order, value).unwrap();
                    assert_eq!(canvas.pixels.len(), canvas.width * canvas.height);
                    assert!(
                        canvas.width <= 1600 && canvas.height <= 1600,
                        "{shape:?}: {} {}",
                        canvas.width,
                        canvas.height
                    );
                }
            }
        }
    }

    #[test]
    fn the_file_is_a_png_that_reads_back() {
        let memory = Memory::new((0..12u8).collect());
        let wanted = selection(DType::Uint(1), Order::C, &[3, 4], &[]);
        let mut file = Vec::new();
        write(&memory, &wanted, &Caption { region: "r".into(), version: 1 }, &mut file).unwrap();
        let reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        assert!(reader.info().width > 100);
    }

    #[test]
    fn rows_run_down_and_columns_to_the_right() {
        // Only the element [0, 1] is high, so the brightest cell is the upper right one.
        let canvas = picture(&[2, 2], Order::C, |place| if place == 1 { 1.0 } else { 0.0 }).unwrap();
        let other = picture(&[2, 2], Order::Fortran, |place| if place == 2 { 1.0 } else { 0.0 }).unwrap();
        assert_eq!(canvas.pixels, other.pixels);
        let high = colour::viridis(1.0);
        let cells: Vec<usize> = (0..canvas.pixels.len()).filter(|at| canvas.pixels[*at] == high).collect();
        let rows = cells.iter().map(|at| at / canvas.width);
        assert!(rows.max().unwrap() < canvas.height * 6 / 10);
    }
}
