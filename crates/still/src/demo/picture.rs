//! Pictures of a cube of numbers: its surface in space, a slice through it, and a projection of the whole.

use super::palette::{Colour, bytes, fire, mix, reef};
use crate::trial::{Error, Result};
use std::f32::consts::TAU;
use std::path::Path;

/// Cells per edge of a brick, whose highest value is known so that rays can leap over empty ones.
const BRICK_CELLS: usize = 8;
/// Pixels between the three parts of a frame.
const GAP: usize = 2;
const BACKGROUND: [Colour; 2] = [[0.035, 0.045, 0.085], [0.085, 0.105, 0.165]];

/// An image of three bytes per pixel.
pub struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    fn new(width: usize, height: usize) -> Self {
        Self { width, height, pixels: vec![0; width * height * 3] }
    }

    fn set(&mut self, x: usize, y: usize, colour: Colour) {
        let start = (y * self.width + x) * 3;
        self.pixels[start..start + 3].copy_from_slice(&bytes(colour));
    }

    /// Writes the picture as a PNG file that appears under its name only when it is complete.
    pub fn save(&self, path: &Path) -> Result<()> {
        let part = path.with_extension("part");
        let failed = |source| Error::System { call: format!("write {}", part.display()), source };
        let file = std::fs::File::create(&part).map_err(failed)?;
        let mut encoder = png::Encoder::new(std::io::BufWriter::new(file), self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let written = encoder.write_header().and_then(|mut writer| {
            writer.write_image_data(&self.pixels)?;
            writer.finish()
        });
        written.map_err(|error| failed(std::io::Error::other(error)))?;
        std::fs::rename(&part, path).map_err(failed)
    }
}

/// A cube of numbers, seen.
pub struct Cube<'a> {
    cells: usize,
    values: &'a [f32],
    bricks: Vec<f32>,
    top: f32,
}

impl<'a> Cube<'a> {
    /// Looks at `cells`³ numbers in C order.
    pub fn new(cells: usize, values: &'a [f32]) -> Self {
        let edge = cells.div_ceil(BRICK_CELLS);
        let mut bricks = vec![0f32; edge * edge * edge];
        for (row, numbers) in values.chunks_exact(cells).enumerate() {
            let first = (row / cells / BRICK_CELLS * edge + row % cells / BRICK_CELLS) * edge;
            for (brick, numbers) in bricks[first..first + edge].iter_mut().zip(numbers.chunks(BRICK_CELLS)) {
                *brick = numbers.iter().fold(*brick, |most, number| most.max(*number));
            }
        }
        let top = bricks.iter().fold(1e-6f32, |most, brick| most.max(*brick));
        Self { cells, values, bricks, top }
    }

    /// The picture of a frame: the surface at `turn` turns around the vertical axis, beside slice and projection.
    pub fn frame(&self, height: usize, turn: f32) -> Picture {
        let side = height / 2;
        let mut picture = Picture::new(height + side, height);
        self.draw_surface(&mut picture, height, turn);
        self.draw_slice(&mut picture, [height + GAP, 0], side - GAP);
        self.draw_projection(&mut picture, [height + GAP, side], height - side - GAP);
        picture
    }

    fn draw_slice(&self, picture: &mut Picture, corner: [usize; 2], side: usize) {
        let scale = (self.cells as f32 - 1.01) / side as f32;
        let middle = self.cells as f32 / 2.0;
        for y in 0..side {
            for x in 0..side {
                let value = self.sample([middle, y as f32 * scale, x as f32 * scale]);
                picture.set(corner[0] + x, corner[1] + y, fire(value / (self.top * 0.95)));
            }
        }
    }

    /// The highest values along one axis, dimmer the further back they are.
    fn draw_projection(&self, picture: &mut Picture, corner: [usize; 2], side: usize) {
        let n = self.cells;
        let mut most = vec![0f32; n * n];
        for (depth, layer) in self.values.chunks_exact(n * n).enumerate() {
            let clarity = 1.0 - 0.75 * depth as f32 / n as f32;
            for (most, value) in most.iter_mut().zip(layer) {
                *most = most.max(*value * clarity);
            }
        }
        let flat = Cube { cells: n, values: &most, bricks: Vec::new(), top: self.top };
        let scale = (n as f32 - 1.01) / side as f32;
        for y in 0..side {
            for x in 0..side {
                let value = flat.sample_plane(0, y as f32 * scale, x as f32 * scale);
                picture.set(corner[0] + x, corner[1] + y, fire((value / self.top).powf(1.3)));
            }
        }
    }

    fn draw_surface(&self, picture: &mut Picture, side: usize, turn: f32) {
        let camera = Camera::new(self.cells as f32, turn);
        let level = self.top * 0.5;
        for y in 0..side {
            for x in 0..side {
                let across = (x as f32 + 0.5) / side as f32 * 2.0 - 1.0;
                let down = (y as f32 + 0.5) / side as f32 * 2.0 - 1.0;
                let background = mix(BACKGROUND[1], BACKGROUND[0], (across * across + down * down).min(1.6) / 1.6);
                let (from, along) = camera.ray(across, down);
                let colour = match self.hit(from, along, level) {
                    Some((point, depth)) => mix(self.shade(point, along, camera.light()), background, depth),
                    None => background,
                };
                picture.set(x, y, colour);
            }
        }
    }

    /// Where a ray first meets the surface on which values equal `level`, and how deep in the cube from 0 to 1.
    fn hit(&self, from: Point, along: Point, level: f32) -> Option<(Point, f32)> {
        let edge = self.cells as f32 - 1.001;
        let (mut near, mut far) = (0f32, f32::INFINITY);
        for axis in 0..3 {
            let (a, b) = (-from[axis] / along[axis], (edge - from[axis]) / along[axis]);
            near = near.max(a.min(b));
            far = far.min(a.max(b));
        }
        let at = |distance: f32| std::array::from_fn(|axis| (from[axis] + along[axis] * distance).clamp(0.0, edge));
        let (mut distance, mut last) = (near, near);
        while distance < far {
            let point: Point = at(distance);
            if self.brick(point) < level {
                last = distance;
                distance += BRICK_CELLS as f32 * 0.25;
                continue;
            }
            if self.sample(point) >= level {
                if distance == near {
                    return Some((point, 0.0));
                }
                let (mut before, mut after) = (last, distance);
                for _ in 0..6 {
                    let middle = (before + after) / 2.0;
                    if self.sample(at(middle)) >= level { after = middle } else { before = middle }
                }
                let depth = (after - near.max(camera_distance(edge) - edge)) / (edge * 2.0);
                return Some((at(after), depth.clamp(0.0, 1.0) * 0.9));
            }
            last = distance;
            distance += 0.8;
        }
        None
    }

    /// The colour of the surface at `point`: two lights, a bright rim, and dark hollows.
    fn shade(&self, point: Point, along: Point, light: Point) -> Colour {
        let slope = |axis: usize| {
            let step = |by: f32| std::array::from_fn(|other| point[other] + if other == axis { by } else { 0.0 });
            self.sample(step(-1.2)) - self.sample(step(1.2))
        };
        let normal = unit([slope(0), slope(1), slope(2)]);
        let facing = -dot(normal, along);
        let normal = if facing < 0.0 { normal.map(|part| -part) } else { normal };
        let hollow: f32 = [2.0, 4.0, 7.0]
            .iter()
            .map(|reach| {
                let value = self.sample(std::array::from_fn(|axis| point[axis] + normal[axis] * reach));
                (value / self.top).min(1.0) / 3.0
            })
            .sum();
        let direct = dot(normal, light).max(0.0);
        let halfway = unit(std::array::from_fn(|axis| light[axis] - along[axis]));
        let gloss = dot(normal, halfway).max(0.0).powi(40);
        let rim = (1.0 - facing.abs()).powi(3);
        let middle = self.cells as f32 / 2.0;
        let radius = point.iter().map(|part| (part - middle).powi(2)).sum::<f32>().sqrt() / (middle * 1.25);
        let open = (1.0 - 1.1 * hollow).clamp(0.15, 1.0);
        let base = reef(radius);
        let brightness = (0.27 + 0.95 * direct) * open;
        std::array::from_fn(|part| {
            base[part] * brightness + 0.35 * gloss * open + [0.10, 0.16, 0.26][part] * rim * open
        })
    }

    fn brick(&self, point: Point) -> f32 {
        let edge = self.cells.div_ceil(BRICK_CELLS);
        let [z, y, x] = point.map(|part| part as usize / BRICK_CELLS);
        // A value between two cells may belong to two bricks, and the further one is reached with the next step.
        self.bricks[(z * edge + y) * edge + x]
    }

    /// The value at any point, from the eight cells around it; nothing outside.
    fn sample(&self, point: Point) -> f32 {
        let edge = self.cells as f32 - 1.001;
        if point.iter().any(|part| !(0.0..=edge).contains(part)) {
            return 0.0;
        }
        let layer = point[0] as usize;
        let share = point[0] - layer as f32;
        let near = self.sample_plane(layer, point[1], point[2]);
        let far = self.sample_plane(layer + 1, point[1], point[2]);
        near + (far - near) * share
    }

    /// The value in a layer, from the four cells around it.
    fn sample_plane(&self, layer: usize, y: f32, x: f32) -> f32 {
        let n = self.cells;
        let (row, column) = ((y as usize).min(n - 2), (x as usize).min(n - 2));
        let (down, across) = (y - row as f32, x - column as f32);
        let start = (layer * n + row) * n + column;
        let (upper, lower) = (&self.values[start..start + 2], &self.values[start + n..start + n + 2]);
        let above = upper[0] + (upper[1] - upper[0]) * across;
        let below = lower[0] + (lower[1] - lower[0]) * across;
        above + (below - above) * down
    }
}

/// A place or a direction: z, y and x, in cells.
type Point = [f32; 3];

/// From where the cube is seen.
struct Camera {
    eye: Point,
    right: Point,
    down: Point,
    forward: Point,
}

fn camera_distance(cells: f32) -> f32 {
    cells * 2.35
}

impl Camera {
    fn new(cells: f32, turn: f32) -> Self {
        let (sin, cos) = (turn * TAU).sin_cos();
        let forward = unit([0.90 * cos, 0.42, 0.90 * sin]);
        let right = unit([-sin, 0.0, cos]);
        let down = cross(right, forward);
        let down = if down[1] < 0.0 { down.map(|part| -part) } else { down };
        let eye = std::array::from_fn(|axis| cells / 2.0 - forward[axis] * camera_distance(cells));
        Self { eye, right, down, forward }
    }

    /// The ray through a point of the picture; both coordinates go from -1 to 1.
    fn ray(&self, across: f32, down: f32) -> (Point, Point) {
        let width = 0.345;
        let along = |axis: usize| self.forward[axis] + (self.right[axis] * across + self.down[axis] * down) * width;
        (self.eye, unit([along(0), along(1), along(2)]))
    }

    /// Where the light comes from: over the left shoulder.
    fn light(&self) -> Point {
        unit(std::array::from_fn(|axis| -self.forward[axis] * 0.7 - self.right[axis] * 0.5 - self.down[axis] * 0.75))
    }
}

fn dot(a: Point, b: Point) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Point, b: Point) -> Point {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn unit(vector: Point) -> Point {
    let length = dot(vector, vector).sqrt().max(1e-12);
    vector.map(|part| part / length)
}
