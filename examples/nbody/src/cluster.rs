//! How it begins: two Plummer spheres in equilibrium that fall towards each other.

use std::f64::consts::PI;

/// A deterministic stream of numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    /// A number from 0 to 1, without both.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A vector of this length in any direction.
    fn direction(&mut self, length: f64) -> [f64; 3] {
        let (z, angle) = (2.0 * self.next() - 1.0, 2.0 * PI * self.next());
        let flat = (1.0 - z * z).sqrt();
        [length * flat * angle.cos(), length * flat * angle.sin(), length * z]
    }
}

/// Length scale of a cluster.
const SCALE: f64 = 0.4;
/// Where the first cluster begins and how fast it moves; the second does the opposite.
const PLACE: [f64; 3] = [1.5, 0.4, 0.0];
const SPEED: [f64; 3] = [-0.25, 0.0, 0.05];

/// Fills positions, velocities and masses. Masses add up to 1; the first half of the stars is one cluster.
pub fn collision(seed: u64, x: &mut [f64], v: &mut [f64], m: &mut [f64]) {
    let mut numbers = Numbers(seed);
    let bodies = m.len();
    m.fill(1.0 / bodies as f64);
    for (index, (x, v)) in x.as_chunks_mut::<3>().0.iter_mut().zip(v.as_chunks_mut::<3>().0).enumerate() {
        let side = if index < bodies / 2 { 1.0 } else { -1.0 };
        let (place, speed) = star(&mut numbers);
        for axis in 0..3 {
            x[axis] = side * PLACE[axis] + place[axis];
            v[axis] = side * SPEED[axis] + speed[axis];
        }
    }
}

/// A star of a Plummer sphere of mass 1/2: its place by the mass inside it, its speed by rejection (Aarseth, Hénon and
/// Wielen 1974).
fn star(numbers: &mut Numbers) -> ([f64; 3], [f64; 3]) {
    // The outermost hundredth would be far away.
    let inside = 0.99 * numbers.next();
    let radius = SCALE / (inside.powf(-2.0 / 3.0) - 1.0).sqrt();
    let share = loop {
        let (share, height) = (numbers.next(), 0.1 * numbers.next());
        if height < share * share * (1.0 - share * share).powf(3.5) {
            break share;
        }
    };
    let escape = (2.0 * 0.5 / (radius * radius + SCALE * SCALE).sqrt()).sqrt();
    (numbers.direction(radius), numbers.direction(share * escape))
}
