//! What publishing costs a solver that rewrites all its vectors in each iteration: conjugate gradients for a matrix with 27
//! entries in a row, as HPCG has it, stored by rows.

use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::Result;
use measure::{median, seconds};
use serde_json::json;
use std::hint::black_box;
use stillframe::{Region, Tracked};

/// Points of the grid in one direction.
const SIDE: usize = 96;
const QUICK_SIDE: usize = 32;

/// Iterations whose time is taken at once. After them the solver begins anew, before it has converged.
const BLOCK: usize = 10;

/// A sparse matrix, row by row.
struct Matrix {
    begins: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Matrix {
    /// A point and its 26 neighbours: 26 for itself and -1 for each of them.
    fn new(side: usize) -> Matrix {
        let mut matrix = Matrix { begins: vec![0], columns: Vec::new(), values: Vec::new() };
        let near = |at: usize| at.saturating_sub(1)..(at + 2).min(side);
        for row in 0..side * side * side {
            let (z, y, x) = (row / side / side, row / side % side, row % side);
            for (z, y) in near(z).flat_map(|z| near(y).map(move |y| (z, y))) {
                for column in near(x).map(|x| (z * side + y) * side + x) {
                    matrix.columns.push(column as u32);
                    matrix.values.push(if column == row { 26.0 } else { -1.0 });
                }
            }
            matrix.begins.push(matrix.columns.len() as u32);
        }
        matrix
    }

    /// The product with `vector`, and the product of both.
    fn multiply(&self, vector: &[f64], product: &mut [f64]) -> f64 {
        let mut total = 0.0;
        for (row, (product, begin)) in product.iter_mut().zip(&self.begins).enumerate() {
            let entries = *begin as usize..self.begins[row + 1] as usize;
            let entries = self.columns[entries.clone()].iter().zip(&self.values[entries]);
            *product = entries.map(|(column, value)| value * vector[*column as usize]).sum();
            total += *product * vector[row];
        }
        total
    }
}

/// The solver's vectors. The product is written in turns to two, so that the last one may be read while the next is made.
struct Vectors {
    solution: Vec<f64>,
    residual: Vec<f64>,
    direction: Vec<f64>,
    products: [Vec<f64>; 2],
    square: f64,
}

impl Vectors {
    fn new(points: usize) -> Vectors {
        let zeros = || vec![0.0; points];
        Vectors { solution: zeros(), residual: zeros(), direction: zeros(), products: [zeros(), zeros()], square: 0.0 }
    }

    fn begin(&mut self) {
        self.solution.fill(0.0);
        for (point, residual) in self.residual.iter_mut().enumerate() {
            *residual = 1.0 + (point % 7) as f64;
        }
        self.direction.copy_from_slice(&self.residual);
        self.square = self.residual.iter().map(|value| value * value).sum();
    }

    /// What follows the product of an iteration: step along the direction, and choose the next one.
    fn advance(&mut self, product: usize, curvature: f64) {
        let step = self.square / curvature;
        let mut square = 0.0;
        let vectors =
            self.solution.iter_mut().zip(&mut self.residual).zip(&self.direction).zip(&self.products[product]);
        for (((solution, residual), direction), product) in vectors {
            *solution += step * direction;
            *residual -= step * product;
            square += *residual * *residual;
        }
        let beta = square / self.square;
        for (direction, residual) in self.direction.iter_mut().zip(&self.residual) {
            *direction = residual + beta * *direction;
        }
        self.square = square;
    }
}

/// How an iteration's vectors are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Not,
    Publish,
    Background,
}

const WAYS: [Way; 3] = [Way::Not, Way::Publish, Way::Background];

struct Solver<'a> {
    matrix: &'a Matrix,
    vectors: Vectors,
    region: Region,
    tracked: [Tracked<f64>; 4],
    version: u64,
    way: Way,
}

impl Solver<'_> {
    fn new<'a>(setting: &Setting, matrix: &'a Matrix, way: Way) -> Result<Solver<'a>> {
        let mut region = Region::options().dir(setting.root()).threads(2).create(&format!("solver-{way:?}"))?;
        let tracked = [region.track("x")?, region.track("r")?, region.track("p")?, region.track("q")?];
        let vectors = Vectors::new(matrix.begins.len() - 1);
        Ok(Solver { matrix, vectors, region, tracked, version: 0, way })
    }

    fn iterate(&mut self) -> Result<()> {
        let Solver { matrix, vectors, region, tracked, version, way } = self;
        let Vectors { solution, residual, direction, products, .. } = vectors;
        let [old, new] = {
            let [even, odd] = products;
            if version.is_multiple_of(2) { [even, odd] } else { [odd, even] }
        };
        let mut multiply = || matrix.multiply(direction, new);
        let curvature = match way {
            Way::Not => multiply(),
            way => {
                let shape = [solution.len()];
                let mut publication = region.publish(*version + 1);
                let arrays = [&*solution, &*residual, &*direction, &*old];
                for (tracked, array) in tracked.iter().zip(arrays) {
                    publication = publication.tracked(tracked, array, &shape);
                }
                match way {
                    Way::Background => publication.commit_while(multiply)?.0,
                    _ => {
                        publication.commit()?;
                        multiply()
                    }
                }
            }
        };
        let new = if version.is_multiple_of(2) { 1 } else { 0 };
        vectors.advance(new, curvature);
        *version += 1;
        Ok(())
    }

    /// Seconds that an iteration takes.
    fn block(&mut self) -> Result<f64> {
        self.vectors.begin();
        let mut outcome = Ok(());
        let elapsed = seconds(|| outcome = (0..BLOCK).try_for_each(|_| self.iterate()));
        black_box(self.vectors.square);
        outcome.map(|()| elapsed / BLOCK as f64)
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let side = setting.repetitions(SIDE, QUICK_SIDE);
    let matrix = Matrix::new(side);
    let mut solvers = WAYS.map(|way| Solver::new(setting, &matrix, way)).into_iter().collect::<Result<Vec<_>>>()?;
    let mut times = vec![Vec::new(); WAYS.len()];
    let warming = 3;
    for round in 0..warming + setting.repetitions(21, 3) {
        for (solver, times) in solvers.iter_mut().zip(&mut times) {
            let elapsed = solver.block()?;
            if round >= warming {
                times.push(elapsed);
            }
        }
    }
    let (plain, published) = times.split_at_mut(1);
    let plain_ms = median(&mut plain[0].clone()) * 1e3;
    for (way, times) in ["publish", "publish_start"].into_iter().zip(published) {
        let mut ratios: Vec<f64> = times.iter().zip(&plain[0]).map(|(time, plain)| time / plain).collect();
        let case = json!({"points": side * side * side, "published": way});
        let row = Row::new("solver", case, median(&mut times.clone()) * 1e3, "ms", plain_ms);
        let detail = json!({"ratio_min": ratios.iter().copied().fold(f64::INFINITY, f64::min),
                            "ratio_max": ratios.iter().copied().fold(0.0, f64::max)});
        report.add(Row { ratio: median(&mut ratios), ..row.with(detail) })?;
    }
    solvers.into_iter().try_for_each(|solver| Ok(solver.region.unlink()?))
}
