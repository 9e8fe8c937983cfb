//! Heat in a plate whose surroundings are an infinite sink: at each step each cell becomes the weighted average of itself
//! and its eight neighbours, and whatever lies outside is 0. Each rank has a block of the plate with a frame of ghost cells.
//! The ranks are threads here, which send each other their edges as the processes of an MPI program do.
//!
//! It goes on from what the last run left in memory or in ./checkpoints, whatever number of ranks that had.
//!
//!     heat-restart [HEIGHT [WIDTH [STEPS [NAME [RANKS]]]]]
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::time::Instant;
use stillframe::Part;
use stillframe_checkpoint::Recovery;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is simulated.
struct Run {
    name: String,
    height: usize,
    width: usize,
    steps: usize,
    ranks: usize,
}

/// The way to a neighbour and back. At the plate's edge there is none.
type Link = Option<(Sender<Vec<f64>>, Receiver<Vec<f64>>)>;

/// A rank's part of the plate, and its neighbours.
struct Block {
    rank: u32,
    top: usize,
    left: usize,
    height: usize,
    width: usize,
    above: Link,
    below: Link,
    before: Link,
    behind: Link,
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default| words.get(index).map_or(Ok(default), |word| word.parse::<usize>());
    let name = words.get(3).map_or("heat", String::as_str).to_string();
    let run =
        Run { name, height: number(0, 96)?, width: number(1, 128)?, steps: number(2, 200)?, ranks: number(4, 4)? };
    let Run { name, height, width, steps, ranks } = &run;

    // The ranks lie row by row on as square a grid as their number allows.
    let columns = (1..=*ranks).filter(|divisor| divisor * divisor <= *ranks && ranks % divisor == 0).max().unwrap_or(1);
    let rows = ranks / columns;
    let mut blocks = Vec::new();
    for (row, column) in (0..*ranks).map(|rank| (rank / columns, rank % columns)) {
        let (top, left) = (row * height / rows, column * width / columns);
        let (bottom, right) = ((row + 1) * height / rows, (column + 1) * width / columns);
        let (above, below, before, behind) = (None, None, None, None);
        let rank = blocks.len() as u32;
        blocks.push(Block { rank, top, left, height: bottom - top, width: right - left, above, below, before, behind });
    }
    for rank in 0..*ranks {
        if rank % columns + 1 < columns {
            (blocks[rank].behind, blocks[rank + 1].before) = link();
        }
        if rank + columns < *ranks {
            (blocks[rank].below, blocks[rank + columns].above) = link();
        }
    }

    let begin = Instant::now();
    let ends: Result<Vec<(f64, u64)>, Failure> = std::thread::scope(|scope| {
        let threads: Vec<_> = blocks.into_iter().map(|block| scope.spawn(|| simulate(&run, block))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a rank panicked")?).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let (heat, bits) = ends?.into_iter().fold((0.0, 0), |all, end| (all.0 + end.0, all.1 ^ end.1));
    println!(
        "{name}: {height} x {width} on {ranks} ranks, step {steps}, heat {heat:.4}, bits {bits:016x}, {seconds:.6} s"
    );
    Ok(())
}

fn link() -> (Link, Link) {
    let ((to, from), (to_other, from_other)) = (channel(), channel());
    (Some((to, from_other)), Some((to_other, from)))
}

/// All steps of one rank. Returns its heat, and the exclusive or of its cells' bits, which tells whether two runs agree to
/// the last one, however the plate is divided.
fn simulate(run: &Run, block: Block) -> Result<(f64, u64), Failure> {
    // A hot disc, and a warm bar beside it. Cell (y, x) of the block is u[(y + 1) * line + x + 1].
    let (height, width) = (run.height, run.width);
    let (h, w, line) = (block.height, block.width, block.width + 2);
    let mut u = vec![0.0_f64; (h + 2) * line];
    let mut next = u.clone();
    for (y, x) in (0..h).flat_map(|y| (0..w).map(move |x| (y, x))) {
        let (gy, gx) = (block.top + y, block.left + x);
        let (dy, dx) = (3.0 * gy as f64 - height as f64, 3.0 * gx as f64 - width as f64);
        u[(y + 1) * line + x + 1] = if 4.0 * (dx * dx + dy * dy) < (height.min(width) as f64).powi(2) {
            100.0
        } else if 2 * gx >= width && 8 * gx < 7 * width && 8 * gy >= 5 * height && 4 * gy < 3 * height {
            60.0
        } else {
            0.0
        };
    }
    let options = stillframe::Region::options().rank(block.rank, run.ranks as u32);
    let mut region = Recovery::options().region(options).checkpoints("checkpoints").open(&run.name)?;
    let tracked = region.track::<f64>("u")?;
    let part = Part { offset: vec![block.top, block.left], global_shape: vec![height + 2, width + 2] };
    region.repart(tracked.id(), &[h + 2, line], &part)?;
    if region.version().is_some() {
        region.read("u", &part.offset, &[h + 2, line], &mut u)?;
    }
    if block.rank == 0 {
        println!("{}: {}", run.name, region.origin());
    }
    for step in region.version().map_or(1, |version| version as usize + 1)..=run.steps {
        let lost = |_| format!("rank {} lost a neighbour in step {step}", block.rank);
        // Rows first; the columns then carry the corners along.
        exchange([(&block.above, line, 0), (&block.below, h * line, (h + 1) * line)], line, 1, &mut u).map_err(lost)?;
        exchange([(&block.before, 1, 0), (&block.behind, w, w + 1)], h + 2, line, &mut u).map_err(lost)?;
        for y in 1..=h {
            for x in 1..=w {
                let at = y * line + x;
                let (n, s) = (&u[at - line - 1..at - line + 2], &u[at + line - 1..at + line + 2]);
                let edges = (n[1] + s[1]) + (u[at - 1] + u[at + 1]);
                let corners = (n[0] + n[2]) + (s[0] + s[2]);
                next[at] = 0.28 * u[at] + 0.14 * edges + 0.04 * corners;
            }
        }
        std::mem::swap(&mut u, &mut next);
        region.publish(step as u64).tracked(&tracked, &u, &[h + 2, line]).commit()?;
    }

    let cells = (1..=h).flat_map(|y| &u[y * line + 1..y * line + 1 + w]);
    Ok(cells.fold((0.0, 0), |(heat, bits), cell| (heat + cell, bits ^ cell.to_bits())))
}

/// Sends the edge that begins at the first number to a neighbour, and puts what it sends to where the second number says.
fn exchange(links: [(&Link, usize, usize); 2], count: usize, stride: usize, u: &mut [f64]) -> Result<(), RecvError> {
    for (link, out, _) in links {
        if let Some((to, _)) = link {
            to.send(u[out..].iter().step_by(stride).take(count).copied().collect()).map_err(|_| RecvError)?;
        }
    }
    for (link, _, into) in links {
        if let Some((_, from)) = link {
            for (cell, value) in u[into..].iter_mut().step_by(stride).zip(from.recv()?) {
                *cell = value;
            }
        }
    }
    Ok(())
}
