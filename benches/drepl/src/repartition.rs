//! An array in 64 blocks into the same array in 48, beside a memcpy of it.

use drepl::{
    executor::Executor,
    transfer::{Axis, Move, Transfer},
};
use serde_json::{Value, json};

use crate::{Result, loops, median, quantile, system};

/// Where each of `parts` parts of `n` cells begins, and where the last ends.
fn cuts(n: usize, parts: usize) -> Vec<usize> {
    (0..=parts).map(|part| part * n / parts).collect()
}

/// Blocks of an array: along each axis where they begin, and where each lies in a buffer that holds one after another.
struct Blocks {
    ranges: Vec<[std::ops::Range<usize>; 3]>,
    offsets: Vec<usize>,
}

impl Blocks {
    fn new(n: usize, parts: [usize; 3]) -> Blocks {
        let mut blocks = Blocks { ranges: Vec::new(), offsets: vec![0] };
        let [k, j, i] = parts.map(|parts| cuts(n, parts));
        for k in k.windows(2) {
            for j in j.windows(2) {
                for i in i.windows(2) {
                    let ranges = [k[0]..k[1], j[0]..j[1], i[0]..i[1]];
                    let cells: usize = ranges.iter().map(ExactSizeIterator::len).product();
                    blocks.offsets.push(blocks.offsets[blocks.offsets.len() - 1] + cells);
                    blocks.ranges.push(ranges);
                }
            }
        }
        blocks
    }
}

/// For each destination block the transfers from each source block that it overlaps.
fn plan(sources: &Blocks, wanted: &Blocks) -> Result<Vec<Vec<(usize, Transfer)>>> {
    let mut plans = Vec::new();
    for want in &wanted.ranges {
        let mut transfers = Vec::new();
        for (at, have) in sources.ranges.iter().enumerate() {
            let shared: Vec<_> = want.iter().zip(have).map(|(a, b)| a.start.max(b.start)..a.end.min(b.end)).collect();
            if shared.iter().any(|range| range.start >= range.end) {
                continue;
            }
            // Bytes from a cell to the next along each axis of a block, and to the first shared one.
            let place = |block: &[std::ops::Range<usize>; 3]| {
                let steps = [8 * block[1].len() * block[2].len(), 8 * block[2].len(), 8];
                let first: usize = (0..3).map(|axis| (shared[axis].start - block[axis].start) * steps[axis]).sum();
                (first as u64, steps)
            };
            let ((from, from_steps), (to, to_steps)) = (place(have), place(want));
            let axes = (0..3)
                .map(|axis| Axis {
                    count: shared[axis].len() as u64,
                    from_bytes: from_steps[axis] as i64,
                    to_bytes: to_steps[axis] as i64,
                })
                .collect();
            transfers.push((at, Transfer::new(vec![Move { from, to, run_bytes: 8, swap_bytes: 1, axes }])?));
        }
        plans.push(transfers);
    }
    Ok(plans)
}

pub fn measure(executor: &Executor, edge: usize, rounds: usize) -> Result<Value> {
    let sources = Blocks::new(edge, [4, 4, 4]);
    let wanted = Blocks::new(edge, [4, 4, 3]);
    let cells = edge.pow(3);
    let mut from = system::array(cells, |_| 0.0);
    for (ranges, offset) in sources.ranges.iter().zip(&sources.offsets) {
        let all = cell_numbers(ranges, edge);
        from[*offset..].iter_mut().zip(all).for_each(|(cell, value)| *cell = value as f64);
    }
    let mut to = system::array(cells, |_| -1.0);
    let plans = plan(&sources, &wanted)?;
    let repartition = |to: &mut [f64]| -> Result<()> {
        for (at, transfers) in plans.iter().enumerate() {
            let pairs: Vec<(&Transfer, &[u8])> = transfers
                .iter()
                .map(|(block, transfer)| {
                    (transfer, loops::bytes(&from[sources.offsets[*block]..sources.offsets[block + 1]]))
                })
                .collect();
            let block = &mut to[wanted.offsets[at]..wanted.offsets[at + 1]];
            executor.run_all(&pairs, loops::bytes_mut(block))?;
        }
        Ok(())
    };
    repartition(&mut to)?;
    for (ranges, offset) in wanted.ranges.iter().zip(&wanted.offsets) {
        let all = cell_numbers(ranges, edge);
        let right = to[*offset..].iter().zip(all).all(|(cell, value)| *cell == value as f64);
        if !right {
            return Err("repartition: a block holds other cells than it should".into());
        }
    }
    let (mut ours, mut memcpy) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begin = system::seconds();
        repartition(&mut to)?;
        ours.push(system::seconds() - begin);
        let begin = system::seconds();
        to.copy_from_slice(&from);
        memcpy.push(system::seconds() - begin);
    }
    let ratios: Vec<f64> = ours.iter().zip(&memcpy).map(|(ours, memcpy)| ours / memcpy).collect();
    Ok(json!({
        "bench": "repartition",
        "case": { "kind": "repartition 64 to 48", "kib": (cells * 8) >> 10 },
        "value": median(&ours) * 1e6,
        "unit": "us",
        "baseline": median(&memcpy) * 1e6,
        "ratio": median(&ratios),
        "detail": {
            "ratio_low": quantile(&ratios, 0.1),
            "ratio_high": quantile(&ratios, 0.9),
            "bytes": cells * 8,
            "rounds": ours.len(),
        },
    }))
}

/// The number of each cell of a block within the whole array, row by row.
fn cell_numbers([k, j, i]: &[std::ops::Range<usize>; 3], edge: usize) -> impl Iterator<Item = usize> {
    let rows = k.clone().flat_map(move |k| j.clone().map(move |j| (k * edge + j) * edge));
    rows.flat_map(move |row| i.clone().map(move |i| row + i))
}
