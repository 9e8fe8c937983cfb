//! Gravity among all pairs of stars, and the leapfrog that moves them. The constant of gravity is 1.

/// Length below which the force of two stars on each other is softened (Plummer).
pub const SOFTENING: f64 = 0.05;

/// What the stars do to each other.
pub struct Force {
    /// Acceleration of each star: three numbers for each.
    pub acceleration: Vec<f64>,
    /// Potential energy of all.
    pub potential: f64,
    /// Distance of the two stars that are closest to each other.
    pub closest: f64,
}

impl Force {
    /// The force at positions `x`, three numbers for each of the masses `m`. Pairs are added in one order, so that the
    /// result depends on nothing but positions and masses.
    pub fn of(x: &[f64], m: &[f64]) -> Force {
        let mut force = Force { acceleration: vec![0.0; x.len()], potential: 0.0, closest: f64::INFINITY };
        let (x, _) = x.as_chunks::<3>();
        let (acceleration, _) = force.acceleration.as_chunks_mut::<3>();
        for (i, (xi, mi)) in x.iter().zip(m).enumerate() {
            let mut sum = [0.0; 3];
            let (mut potential, mut closest) = (0.0, f64::INFINITY);
            let others = x[i + 1..].iter().zip(&m[i + 1..]).zip(&mut acceleration[i + 1..]);
            for ((xj, mj), aj) in others {
                let d = [xj[0] - xi[0], xj[1] - xi[1], xj[2] - xi[2]];
                let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                let inverse = 1.0 / (square + SOFTENING * SOFTENING).sqrt();
                let cube = inverse * inverse * inverse;
                for axis in 0..3 {
                    sum[axis] += mj * cube * d[axis];
                    aj[axis] -= mi * cube * d[axis];
                }
                potential -= mj * inverse;
                closest = f64::min(closest, square);
            }
            for axis in 0..3 {
                acceleration[i][axis] += sum[axis];
            }
            force.potential += mi * potential;
            force.closest = force.closest.min(closest);
        }
        force.closest = force.closest.sqrt();
        force
    }
}

/// Energy of motion.
pub fn kinetic_energy(v: &[f64], m: &[f64]) -> f64 {
    let square = |v: &[f64; 3]| v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
    v.as_chunks::<3>().0.iter().zip(m).map(|(v, m)| 0.5 * m * square(v)).sum()
}

/// A step of length `dt` from positions and velocities to new ones: half a kick, a drift, half a kick. Returns the force at
/// the new positions.
pub fn leapfrog(x: &[f64], v: &[f64], m: &[f64], dt: f64, new_x: &mut [f64], new_v: &mut [f64]) -> Force {
    let before = Force::of(x, m);
    for (index, (new_x, new_v)) in new_x.iter_mut().zip(new_v.iter_mut()).enumerate() {
        *new_v = v[index] + 0.5 * dt * before.acceleration[index];
        *new_x = x[index] + dt * *new_v;
    }
    let after = Force::of(new_x, m);
    for (new_v, acceleration) in new_v.iter_mut().zip(&after.acceleration) {
        *new_v += 0.5 * dt * acceleration;
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stars_on_a_circle_stay_on_it() {
        let (m, distance) = ([0.5, 0.5], 2.0);
        // The softened force of one on the other is met by the motion around the middle.
        let pull: f64 = 0.5 * distance / (distance * distance + SOFTENING * SOFTENING).powf(1.5);
        let speed = (pull * distance / 2.0).sqrt();
        let (mut x, mut v) = (vec![1.0, 0.0, 0.0, -1.0, 0.0, 0.0], vec![0.0, speed, 0.0, 0.0, -speed, 0.0]);
        for _ in 0..1000 {
            let (mut new_x, mut new_v) = (vec![0.0; 6], vec![0.0; 6]);
            let force = leapfrog(&x, &v, &m, 0.01, &mut new_x, &mut new_v);
            assert!((force.closest - 2.0).abs() < 1e-4, "{}", force.closest);
            (x, v) = (new_x, new_v);
        }
        assert!((kinetic_energy(&v, &m) - speed * speed / 2.0).abs() < 1e-5);
        // A thousand steps are a good way round.
        assert!((x[0] - 1.0).abs() > 0.1);
    }
}
