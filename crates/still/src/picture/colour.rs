//! Colours of numbers.

/// Red, green and blue.
pub type Colour = [u8; 3];

pub const PAPER: Colour = [255, 255, 255];
pub const INK: Colour = [30, 30, 34];
pub const MUTED: Colour = [100, 100, 108];
pub const GRID: Colour = [228, 228, 232];
/// Where there is no finite value.
pub const NOTHING: Colour = [190, 190, 190];
/// The line of a line plot.
pub const LINE: Colour = [49, 104, 142];

/// The colour of a value between 0 and 1: dark blue over green to yellow, evenly spaced to the eye, in print and to the
/// colour-blind. A polynomial of degree six that follows the map viridis within about one percent.
pub fn viridis(value: f64) -> Colour {
    const COEFFICIENTS: [[f64; 3]; 7] = [
        [0.277_727_327, 0.005_407_345, 0.334_099_805],
        [0.105_093_043, 1.404_613_530, 1.384_590_163],
        [-0.330_861_829, 0.214_847_559, 0.095_095_163],
        [-4.634_230_499, -5.799_100_973, -19.332_440_956],
        [6.228_269_936, 14.179_933_367, 56.690_552_601],
        [4.776_384_998, -13.745_145_378, -65.353_032_633],
        [-5.435_455_856, 4.645_852_612, 26.312_435_250],
    ];
    let value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
    std::array::from_fn(|channel| {
        let shade = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficients| sum * value + coefficients[channel]);
        (shade.clamp(0.0, 1.0) * 255.0).round() as u8
    })
}

/// As the library has it.
pub fn rgb([red, green, blue]: Colour) -> plotters::style::RGBColor {
    plotters::style::RGBColor(red, green, blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_follows_viridis_and_brightens_steadily() {
        for (value, expected) in
            [(0.0, [68, 1, 84]), (0.25, [59, 82, 139]), (0.5, [33, 145, 140]), (1.0, [253, 231, 37])]
        {
            for (found, expected) in viridis(value).into_iter().zip(expected) {
                assert!(i32::from(found).abs_diff(expected) <= 6, "{value}: {found} is not {expected}");
            }
        }
        let brightness = |step: u32| {
            let [red, green, blue] = viridis(f64::from(step) / 64.0).map(f64::from);
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        assert!((0..64).all(|step| brightness(step) < brightness(step + 1)));
    }
}
