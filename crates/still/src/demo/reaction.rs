//! The simulation of the demonstration: the Gray–Scott reaction in a periodic cube.
//!
//! Two substances diffuse; `v` feeds on `u`, decays, and `u` is fed from outside. From a few drops of `v` grow
//! structures that divide and fill the cube. Far from them nothing happens, and rows where nothing has happened yet are
//! neither computed nor written, so the share of pages that a step makes dirty grows with the structure.

use std::thread;

/// Rows that are computed, or left alone, together. At 128 cells per edge they make up one page.
pub const BLOCK_ROWS: usize = 8;

/// As fast as explicit steps allow: with more than about 0.14 neighbouring cells begin to alternate.
const DIFFUSION_U: f32 = 0.125;
const DIFFUSION_V: f32 = 0.0625;
/// Less of `v` than this, or of `u` that is missing, is taken for nothing, which keeps the front finite and free of
/// denormal numbers.
const TRACE: f32 = 1e-6;

/// The constants that decide what grows.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// How fast `u` is fed.
    pub feed: f32,
    /// How much faster than that `v` decays.
    pub kill: f32,
}

/// What the simulation needs besides the two arrays of concentrations, which belong to the caller.
#[derive(Clone)]
pub struct Reaction {
    cells: usize,
    recipe: Recipe,
    threads: usize,
    next_u: Vec<f32>,
    next_v: Vec<f32>,
    /// For each block of rows, whether anything has reached it; never taken back.
    active: Vec<bool>,
}

impl Reaction {
    /// Prepares a cube of `cells` per edge, a multiple of [`BLOCK_ROWS`].
    pub fn new(cells: usize, recipe: Recipe, threads: usize) -> Self {
        let volume = cells * cells * cells;
        let blocks = cells * cells / BLOCK_ROWS;
        Self {
            cells,
            recipe,
            threads,
            next_u: vec![1.0; volume],
            next_v: vec![0.0; volume],
            active: vec![false; blocks],
        }
    }

    /// Fills the arrays with `u` and a few drops of `v` around the middle.
    pub fn seed(&mut self, u: &mut [f32], v: &mut [f32]) {
        u.fill(1.0);
        v.fill(0.0);
        let n = self.cells as f32;
        let radius = (n / 24.0).max(2.5);
        for drop in DROPS {
            let centre = drop.map(|position| n * (0.5 + 0.5 * position));
            self.for_each_cell(|index, at| {
                let distance: f32 = (0..3).map(|axis| (at[axis] - centre[axis]).powi(2)).sum();
                if distance < radius * radius {
                    u[index] = 0.5;
                    v[index] = 0.25 + 0.05 * noise(index);
                }
            });
        }
        self.activate_reached(u, v);
        self.next_u.copy_from_slice(u);
        self.next_v.copy_from_slice(v);
    }

    fn for_each_cell(&self, mut visit: impl FnMut(usize, [f32; 3])) {
        let n = self.cells;
        for index in 0..n * n * n {
            visit(index, [index / (n * n), index / n % n, index % n].map(|position| position as f32));
        }
    }

    /// Lets `iterations`, an even number, go by.
    pub fn advance(&mut self, u: &mut [f32], v: &mut [f32], iterations: usize) {
        let mut next_u = std::mem::take(&mut self.next_u);
        let mut next_v = std::mem::take(&mut self.next_v);
        for _ in 0..iterations.div_ceil(2) {
            self.iterate(u, v, &mut next_u, &mut next_v);
            self.iterate(&next_u, &next_v, u, v);
        }
        (self.next_u, self.next_v) = (next_u, next_v);
    }

    fn iterate(&mut self, u: &[f32], v: &[f32], next_u: &mut [f32], next_v: &mut [f32]) {
        let mut reached = vec![false; self.active.len()];
        let layer = self.cells * self.cells;
        let blocks = self.cells / BLOCK_ROWS;
        let (mut rest_u, mut rest_v, mut rest_reached) = (next_u, next_v, &mut reached[..]);
        let this = &*self;
        thread::scope(|scope| {
            for layers in this.shares() {
                let (part_u, part_v, part_reached);
                (part_u, rest_u) = rest_u.split_at_mut(layers.len() * layer);
                (part_v, rest_v) = rest_v.split_at_mut(layers.len() * layer);
                (part_reached, rest_reached) = rest_reached.split_at_mut(layers.len() * blocks);
                scope.spawn(move || this.iterate_layers(u, v, layers.start, part_u, part_v, part_reached));
            }
        });
        self.activate_around(&reached);
    }

    /// Ranges of layers with about equally many active blocks, one for each thread.
    fn shares(&self) -> Vec<std::ops::Range<usize>> {
        let blocks = self.cells / BLOCK_ROWS;
        let total = self.active.iter().filter(|active| **active).count();
        let mut shares = Vec::new();
        let (mut start, mut done) = (0, 0);
        for (layer, layer_blocks) in self.active.chunks(blocks).enumerate() {
            done += layer_blocks.iter().filter(|active| **active).count();
            let last = layer + 1 == self.cells;
            if last || (shares.len() + 1 < self.threads && done * self.threads >= total * (shares.len() + 1)) {
                shares.push(start..layer + 1);
                start = layer + 1;
            }
        }
        shares
    }

    fn iterate_layers(
        &self,
        u: &[f32],
        v: &[f32],
        first: usize,
        next_u: &mut [f32],
        next_v: &mut [f32],
        reached: &mut [bool],
    ) {
        let n = self.cells;
        let blocks = n / BLOCK_ROWS;
        let outputs = next_u.chunks_exact_mut(n * BLOCK_ROWS).zip(next_v.chunks_exact_mut(n * BLOCK_ROWS));
        for (index, (block_u, block_v)) in outputs.enumerate() {
            let (z, block) = (first + index / blocks, index % blocks);
            if !self.active[z * blocks + block] {
                continue;
            }
            let mut any = false;
            for (row, (row_u, row_v)) in block_u.chunks_exact_mut(n).zip(block_v.chunks_exact_mut(n)).enumerate() {
                let y = block * BLOCK_ROWS + row;
                any |= self.iterate_row(&Stencil::new(u, n, z, y), &Stencil::new(v, n, z, y), row_u, row_v);
            }
            reached[index] = any;
        }
    }

    /// Computes one row and tells whether anything has reached it.
    #[inline(never)]
    fn iterate_row(&self, u: &Stencil, v: &Stencil, next_u: &mut [f32], next_v: &mut [f32]) -> bool {
        let n = next_u.len();
        let Recipe { feed, kill } = self.recipe;
        let react = |u_now: f32, u_around: f32, v_now: f32, v_around: f32| {
            let eaten = u_now * v_now * v_now;
            let u_next = u_now + DIFFUSION_U * (u_around - 6.0 * u_now) - eaten + feed * (1.0 - u_now);
            let v_next = v_now + DIFFUSION_V * (v_around - 6.0 * v_now) + eaten - (feed + kill) * v_now;
            (if u_next > 1.0 - TRACE { 1.0 } else { u_next }, if v_next < TRACE { 0.0 } else { v_next })
        };
        // The two ends see each other; the inner loop has no such exception, and the compiler makes vectors of it.
        for (x, left, right) in [(0, n - 1, 1), (n - 1, n - 2, 0)] {
            let u_around = u.beside(x) + u.row[left] + u.row[right];
            let v_around = v.beside(x) + v.row[left] + v.row[right];
            (next_u[x], next_v[x]) = react(u.row[x], u_around, v.row[x], v_around);
        }
        let (inner_u, inner_v) = (u.inner(n), v.inner(n));
        let (out_u, out_v) = (&mut next_u[1..n - 1], &mut next_v[1..n - 1]);
        for x in 0..n - 2 {
            let (u_now, u_around) = inner_u.at(x);
            let (v_now, v_around) = inner_v.at(x);
            (out_u[x], out_v[x]) = react(u_now, u_around, v_now, v_around);
        }
        let changes = next_u.iter().zip(&*next_v).map(|(u, v)| (u.to_bits() ^ 1f32.to_bits()) | v.to_bits());
        changes.fold(0, |any, bits| any | bits) != 0
    }

    fn activate_reached(&mut self, u: &[f32], v: &[f32]) {
        let rows = self.cells * BLOCK_ROWS;
        let blocks = u.chunks(rows).zip(v.chunks(rows));
        let reached: Vec<bool> =
            blocks.map(|(u, v)| u.iter().any(|u| *u != 1.0) || v.iter().any(|v| *v != 0.0)).collect();
        self.activate_around(&reached);
    }

    /// Activates the blocks that something has reached, and their neighbours, which it reaches next.
    fn activate_around(&mut self, reached: &[bool]) {
        let (n, blocks) = (self.cells, self.cells / BLOCK_ROWS);
        for index in (0..reached.len()).filter(|index| reached[*index]) {
            let (z, block) = (index / blocks, index % blocks);
            for (z, block) in [
                (z, block),
                ((z + 1) % n, block),
                ((z + n - 1) % n, block),
                (z, (block + 1) % blocks),
                (z, (block + blocks - 1) % blocks),
            ] {
                self.active[z * blocks + block] = true;
            }
        }
    }
}

/// Where the drops of `v` are, from the middle outwards in units of half an edge.
const DROPS: [[f32; 3]; 7] = [
    [0.0, 0.0, 0.0],
    [0.22, 0.10, -0.15],
    [-0.18, 0.24, 0.12],
    [0.08, -0.26, 0.20],
    [-0.24, -0.12, -0.20],
    [0.14, 0.20, 0.28],
    [-0.05, 0.05, -0.30],
];

/// A row of cells and the four rows around it.
struct Stencil<'a> {
    row: &'a [f32],
    above: &'a [f32],
    below: &'a [f32],
    front: &'a [f32],
    back: &'a [f32],
}

impl<'a> Stencil<'a> {
    fn new(field: &'a [f32], n: usize, z: usize, y: usize) -> Self {
        let row = |z: usize, y: usize| {
            let start = ((z % n) * n + y % n) * n;
            &field[start..start + n]
        };
        Self {
            row: row(z, y),
            above: row(z, y + n - 1),
            below: row(z, y + 1),
            front: row(z + n - 1, y),
            back: row(z + 1, y),
        }
    }

    fn beside(&self, x: usize) -> f32 {
        self.above[x] + self.below[x] + self.front[x] + self.back[x]
    }

    /// The rows without their ends, cut to the same length, which takes the checks out of a loop over them.
    fn inner(&self, n: usize) -> Inner<'a> {
        let cut = |row: &'a [f32]| &row[1..n - 1];
        let around = [cut(self.above), cut(self.below), cut(self.front), cut(self.back)];
        Inner { row: cut(self.row), around, left: &self.row[..n - 2], right: &self.row[2..n] }
    }
}

/// The inner cells of a row and all six neighbours of each.
struct Inner<'a> {
    row: &'a [f32],
    around: [&'a [f32]; 4],
    left: &'a [f32],
    right: &'a [f32],
}

impl Inner<'_> {
    #[inline(always)]
    fn at(&self, x: usize) -> (f32, f32) {
        let [above, below, front, back] = self.around;
        (self.row[x], above[x] + below[x] + front[x] + back[x] + self.left[x] + self.right[x])
    }
}

/// Something between -1 and 1 that differs from cell to cell.
fn noise(index: usize) -> f32 {
    let mixed = (index as u32).wrapping_mul(2_654_435_761) ^ 0x5bd1_e995;
    (mixed.wrapping_mul(mixed | 1) >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// A sum over the bits of an array, by which an observer can tell whether it reads what was published.
pub fn checksum(numbers: &[f32]) -> u64 {
    numbers.iter().fold(0, |sum: u64, number| sum.wrapping_add(u64::from(number.to_bits())))
}

/// The same as [`checksum`], on several threads.
pub fn checksum_parallel(numbers: &[f32], threads: usize) -> u64 {
    let share = numbers.len().div_ceil(threads.max(1)).max(1);
    thread::scope(|scope| {
        let workers: Vec<_> = numbers.chunks(share).map(|part| scope.spawn(move || checksum(part))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(0)).fold(0, u64::wrapping_add)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: Recipe = Recipe { feed: 0.03, kill: 0.06 };

    fn grown(threads: usize) -> (Vec<f32>, Vec<f32>) {
        let mut reaction = Reaction::new(32, RECIPE, threads);
        let (mut u, mut v) = (vec![0.0; 32768], vec![0.0; 32768]);
        reaction.seed(&mut u, &mut v);
        reaction.advance(&mut u, &mut v, 40);
        (u, v)
    }

    #[test]
    fn the_number_of_threads_does_not_change_the_result() {
        assert!(grown(1) == grown(3));
    }

    #[test]
    fn leaving_quiet_rows_alone_does_not_change_the_result() {
        let mut reaction = Reaction::new(32, RECIPE, 2);
        let (mut u, mut v) = (vec![0.0; 32768], vec![0.0; 32768]);
        reaction.seed(&mut u, &mut v);
        reaction.active.fill(true);
        reaction.advance(&mut u, &mut v, 40);
        assert!(grown(1) == (u, v));
    }

    #[test]
    fn concentrations_stay_between_none_and_all() {
        let (u, v) = grown(2);
        assert!(u.iter().all(|u| (0.0..=1.01).contains(u)));
        assert!(v.iter().all(|v| (0.0..=1.0).contains(v)));
        assert!(v.iter().any(|v| *v > 0.1));
    }

    #[test]
    fn both_checksums_agree() {
        let numbers: Vec<f32> = (0..1000).map(|number| number as f32).collect();
        assert_eq!(checksum(&numbers), checksum_parallel(&numbers, 3));
    }
}
