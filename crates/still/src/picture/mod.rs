//! Pictures of arrays: a line for one axis, a map of colours for two.

mod axes;
mod colour;
mod line;
mod map;
mod scale;
mod sheet;

use crate::failure::Failure;
use crate::gather::Source;
use crate::selection::Selection;
use crate::slice::format_shape;
use crate::table::sanitize;
use crate::value::decode;
use line::Line;
use map::Map;
pub use sheet::Format;
use std::io::Write;
use stillframe::{DType, Order};

/// What stands above the picture besides the selection itself.
pub struct Caption {
    /// The region the data come from.
    pub region: String,
    /// The version they belong to.
    pub version: u64,
}

/// Draws the selection and writes it.
pub fn write(
    source: &dyn Source,
    selection: &Selection,
    caption: &Caption,
    format: Format,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if axes(selection)? == 1 {
        sheet::write(&Line::new(source, selection, caption)?, format, out)
    } else {
        sheet::write(&Map::new(source, selection, caption)?, format, out)
    }
}

/// How many axes a selection has that makes a picture.
fn axes(selection: &Selection) -> Result<usize, Failure> {
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
        0 => refuse("it is a single value, leave out -o to print it".into()),
        axes @ 1..=2 => Ok(axes),
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

    /// Whether no value has a place on the scale.
    fn is_empty(&self) -> bool {
        self.low > self.high
    }

    /// The extremes in words, in as many digits as tell them apart.
    fn describe(&self) -> String {
        let [low, high] = [self.low, self.high].map(scale::format_number);
        match self.low < self.high {
            _ if self.is_empty() => String::new(),
            true if low != high => format!(", {low} to {high}"),
            true => format!(", {} to {}", self.low, self.high),
            false => format!(", all {low}"),
        }
    }

    /// Where a scale begins and ends, with that share of its length as room at both ends. Where all values are equal it goes
    /// from a little below to a little above.
    fn widened(&self, share: f64) -> (f64, f64) {
        if self.is_empty() {
            return (0.0, 1.0);
        }
        // Halving first keeps the widest ranges from overflowing.
        let half = self.high / 2.0 - self.low / 2.0;
        let room = match half > 0.0 {
            true => half * share,
            false if self.low == 0.0 => 1.0,
            false => (self.low.abs() * 0.05).max(f64::MIN_POSITIVE * 1e20),
        };
        ((self.low - room).max(f64::MIN), (self.high + room).min(f64::MAX))
    }
}

/// What is shown, and in the second line its version, type and range.
fn heading(selection: &Selection, caption: &Caption, range: Range) -> [String; 2] {
    let complex = matches!(selection.dtype, DType::Complex(_));
    let name = if complex { format!("|{}|", selection.label) } else { selection.label.clone() };
    let units = if selection.units.is_empty() { String::new() } else { format!(" ({})", selection.units) };
    let mut about = format!(
        "{}, version {}, {} {}",
        caption.region,
        caption.version,
        selection.dtype,
        format_shape(&selection.shape())
    );
    about += &range.describe();
    if range.odd > 0 {
        about += &format!(", {} not finite", range.odd);
    }
    [sanitize(&format!("{name}{units}")), sanitize(&about)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::tests::{Memory, selection};
    use crate::picture::colour::Colour;
    use crate::tier::by_tier;

    /// A picture as a viewer has it.
    struct Seen {
        width: usize,
        height: usize,
        pixels: Vec<Colour>,
    }

    fn written(
        shape: &[usize],
        order: Order,
        value: impl Fn(usize) -> f32,
        format: Format,
    ) -> Result<Vec<u8>, Failure> {
        let count: usize = shape.iter().product();
        let memory = Memory::new((0..count).flat_map(|place| value(place).to_ne_bytes()).collect());
        let caption = Caption { region: "heat".into(), version: 7 };
        let mut file = Vec::new();
        write(&memory, &selection(DType::Float(4), order, shape, &[]), &caption, format, &mut file).map(|()| file)
    }

    fn picture(shape: &[usize], order: Order, value: impl Fn(usize) -> f32) -> Result<Seen, Failure> {
        let file = written(shape, order, value, Format::Png)?;
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let pixels = bytes.chunks_exact(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Ok(Seen { width: info.width as usize, height: info.height as usize, pixels })
    }

    /// The texts of a picture of shapes.
    fn texts(shape: &[usize], value: impl Fn(usize) -> f32) -> Vec<String> {
        let file = String::from_utf8(written(shape, Order::C, value, Format::Svg).unwrap()).unwrap();
        let texts = file.split("<text").skip(1).map(|text| text.split(['>', '<']).nth(1).unwrap().trim().to_owned());
        texts.collect()
    }

    #[test]
    fn a_picture_of_shapes_has_the_same_texts_and_cells_as_an_image() {
        let file = String::from_utf8(written(&[3, 4], Order::C, |place| place as f32, Format::Svg).unwrap()).unwrap();
        assert!(file.starts_with("<svg width=") && file.trim_end().ends_with("</svg>"), "{file}");
        assert_eq!(file.matches("<image").count(), 2, "the map and the bar");
        let texts = texts(&[3, 4], |place| place as f32);
        assert_eq!(texts[..2], ["u", "heat, version 7, float32 (3, 4), 0 to 11"]);
        for label in ["0", "2", "10"] {
            assert!(texts.iter().any(|text| text == label), "{texts:?}");
        }
    }

    #[test]
    fn a_bar_tells_apart_what_is_nearly_equal_and_what_is_equal() {
        for (value, labels) in [
            ((|_| 100.0) as fn(usize) -> f32, ["96", "100", "104"]),
            (|_| 0.0, ["-1.0", "heat, version 7, float32 (12, 12), all 0", "1.0"]),
            (
                |place| if place == 0 { 1.0 } else { 1.0 + f32::EPSILON },
                ["1.00000002e0", "1.00000006e0", "1.00000010e0"],
            ),
        ] {
            let texts = texts(&[12, 12], value);
            for label in labels {
                assert!(texts.iter().any(|text| text == label), "{label}: {texts:?}");
            }
        }
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
            let values: [fn(usize) -> f32; 4] =
                [|place| place as f32, |_| 1.0, |_| f32::NAN, |place| if place == 0 { f32::MAX } else { f32::MIN }];
            // What takes longest is drawn once in the short tier.
            let is_large = shape.iter().product::<usize>() > 1000;
            for value in values.into_iter().take(if is_large { by_tier(1, 4) } else { 4 }) {
                for order in by_tier(&[Order::C][..], &[Order::C, Order::Fortran]) {
                    let canvas = picture(shape, *order, value).unwrap();
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
        let caption = Caption { region: "r".into(), version: 1 };
        write(&memory, &wanted, &caption, Format::Png, &mut file).unwrap();
        let reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        assert!(reader.info().width > 100);
    }

    /// Rows, columns and colours of a map, row by row.
    fn cells(shape: &[usize], order: Order, value: impl Fn(usize) -> f32) -> (usize, usize, Vec<Colour>) {
        let count: usize = shape.iter().product();
        let memory = Memory::new((0..count).flat_map(|place| value(place).to_ne_bytes()).collect());
        let caption = Caption { region: "heat".into(), version: 7 };
        let map = Map::new(&memory, &selection(DType::Float(4), order, shape, &[]), &caption).unwrap();
        let raster = &sheet::Plot::rasters(&map)[0];
        (raster.colours.len() / raster.columns, raster.columns, raster.colours.clone())
    }

    #[test]
    fn rows_run_down_and_columns_to_the_right() {
        let (rows, columns, colours) = cells(&[2, 3], Order::C, |place| f32::from(place == 2));
        assert_eq!((rows, columns), (2, 3));
        let is_high: Vec<bool> = colours.iter().map(|colour| *colour == colour::viridis(1.0)).collect();
        assert_eq!(is_high, [false, false, true, false, false, false], "[0, 2] is the upper right");
    }

    #[test]
    fn what_runs_fastest_runs_to_the_right() {
        // The same numbers one behind the other: of a plate that a C program calls [y, x], and a Fortran program (x, y).
        for shape in [[2, 3], [1, 5], [40, 1], [30, 2000]] {
            let c = cells(&shape, Order::C, |place| place as f32);
            let fortran = cells(&[shape[1], shape[0]], Order::Fortran, |place| place as f32);
            assert!(c == fortran, "{shape:?}");
        }
        let file = String::from_utf8(written(&[3, 2], Order::Fortran, |place| place as f32, Format::Svg).unwrap());
        assert!(file.unwrap().contains("float32 (3, 2), 0 to 5, first index to the right"));
    }

    #[test]
    fn no_heading_is_cut_off_where_a_wider_picture_has_room_for_it() {
        let caption = Caption { region: "the-rod-of-the-northern-reactor".into(), version: 123_456_789 };
        let said = |shape: &[usize], order: Order, region: &str| {
            let count: usize = shape.iter().product();
            let bytes = (0..count).flat_map(|place| (place as f32).to_ne_bytes()).collect();
            let caption = Caption { region: region.into(), ..caption };
            let mut file = Vec::new();
            let selection = selection(DType::Float(4), order, shape, &[]);
            write(&Memory::new(bytes), &selection, &caption, Format::Svg, &mut file).unwrap();
            String::from_utf8(file).unwrap()
        };
        for shape in [&[200, 3][..], &[3, 200], &[2, 2], &[50]] {
            for order in [Order::C, Order::Fortran] {
                let file = said(shape, order, &caption.region);
                assert!(
                    file.contains("the-rod-of-the-northern-reactor, version 123456789") && !file.contains('…'),
                    "{shape:?}"
                );
            }
        }
        // A name without end makes no picture without end.
        let file = said(&[2, 2], Order::C, &"x".repeat(400));
        assert!(file.contains('…') && file.starts_with("<svg width=\"1600\""), "{}", &file[..60]);
    }
}
