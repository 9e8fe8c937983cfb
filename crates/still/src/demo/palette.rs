//! Colours for numbers.

/// A colour as three parts between 0 and 1.
pub type Colour = [f32; 3];

/// Dark blue over violet and orange to pale yellow: equal steps of a number look like equal steps.
const FIRE: [Colour; 8] = [
    [0.015, 0.018, 0.045],
    [0.120, 0.060, 0.290],
    [0.340, 0.070, 0.430],
    [0.570, 0.150, 0.400],
    [0.800, 0.260, 0.300],
    [0.950, 0.460, 0.180],
    [0.990, 0.720, 0.250],
    [0.990, 0.970, 0.740],
];

/// Deep blue over turquoise to sand and coral, for surfaces.
const REEF: [Colour; 6] = [
    [0.95, 0.42, 0.28],
    [0.98, 0.70, 0.36],
    [0.93, 0.86, 0.60],
    [0.36, 0.76, 0.70],
    [0.16, 0.52, 0.74],
    [0.40, 0.37, 0.78],
];

/// The colour of heat for a number between 0 and 1.
pub fn fire(value: f32) -> Colour {
    between(&FIRE, value)
}

/// The colour of a surface for a number between 0 and 1.
pub fn reef(value: f32) -> Colour {
    between(&REEF, value)
}

fn between(colours: &[Colour], value: f32) -> Colour {
    let place = value.clamp(0.0, 1.0) * (colours.len() - 1) as f32;
    let index = (place as usize).min(colours.len() - 2);
    mix(colours[index], colours[index + 1], place - index as f32)
}

/// `share` of the way from one colour to the other.
pub fn mix(from: Colour, to: Colour, share: f32) -> Colour {
    std::array::from_fn(|part| from[part] + (to[part] - from[part]) * share)
}

/// The colour as bytes of an image.
pub fn bytes(colour: Colour) -> [u8; 3] {
    colour.map(|part| (part.clamp(0.0, 1.0) * 255.0 + 0.5) as u8)
}
