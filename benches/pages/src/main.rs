//! What pages of each kind cost a program: the first touch of each, and how much of that is zeroing; the same all at once; misses of
//! the translation buffers; and that small pages are made into a large one while they are used. One kind for each call, as JSON, for
//! `run.py`, which has something compete for the memory meanwhile.

mod figures;
mod memory;

use clap::{Parser, Subcommand};
use figures::Figures;
use memory::{HUGE_BYTES, Kind, LARGE_BYTES, Memory, SMALL_BYTES, faults, now_ns};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What pages of each kind cost a program.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
    /// MiB of memory that are measured.
    #[arg(long, default_value_t = 1024, global = true)]
    mib: usize,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The first touch of each page, one after the other; all at once; and the zeros alone.
    Faults {
        /// Of which pages the memory is.
        kind: Kind,
    },
    /// Reads at random places, each of which depends on the one before.
    Misses {
        /// Of which pages the memory is.
        kind: Kind,
        /// Thousands of reads.
        #[arg(long, default_value_t = 4000)]
        kilo: usize,
    },
    /// Small pages are made into large ones, while a thread writes into them.
    Merges,
}

/// The first touch of each page.
fn measure_faults(kind: Kind, bytes: usize) -> std::io::Result<serde_json::Value> {
    let mut memory = Memory::new(kind, bytes)?;
    let (before, begin) = (faults(), now_ns());
    // Of large pages there may be none just now; then the next small page is touched, too.
    let step = if kind == Kind::Thp { SMALL_BYTES } else { kind.page_bytes() };
    let mut times = Vec::with_capacity(memory.bytes() / step);
    for offset in (0..memory.bytes()).step_by(step) {
        let begin = now_ns();
        memory.touch(offset);
        times.push(now_ns() - begin);
    }
    let (touched_ns, faulted) = (now_ns() - begin, faults() - before);
    // What was touched already takes no longer than the clock.
    let count = times.len().min(faulted as usize);
    times.sort_unstable_by(|one, other| other.cmp(one));
    let (touches, pages) = (times.len(), memory.bytes() / kind.page_bytes());
    let mut longest = times;
    longest.truncate(count);
    let large = longest.iter().filter(|time| kind == Kind::Thp && **time >= LARGE_FAULT_NS).count();
    let begin = now_ns();
    memory.fill(0);
    let zeros_ns = now_ns() - begin;
    drop(memory);
    let at_once = Memory::new(kind, bytes)?;
    let begin = now_ns();
    at_once.populate()?;
    let populated_ns = now_ns() - begin;
    Ok(serde_json::json!({
        "kind": kind, "bytes": bytes, "pages": pages, "touches": touches, "faults": faulted, "large_faults": large,
        "fault": Figures::of(longest), "touched_ns": touched_ns, "populated_ns": populated_ns, "zeros_ns": zeros_ns,
    }))
}

/// A fault that takes longer has zeroed a large page, mostly: 2 MiB take 100 µs at 20 GB/s.
const LARGE_FAULT_NS: u64 = 30_000;

/// Reads at random places.
fn measure_misses(kind: Kind, bytes: usize, reads: usize) -> std::io::Result<serde_json::Value> {
    let mut memory = Memory::new(kind, bytes)?;
    memory.populate()?;
    // Each line leads to another, in one round through all of them: Sattolo's way to shuffle.
    let lines = memory.bytes() / 64;
    (0..lines).for_each(|line| memory.put(line * 8, line as u64));
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for line in (1..lines).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = (state % line as u64) as usize;
        let (one, two) = (memory.number(line * 8), memory.number(other * 8));
        memory.put(line * 8, two);
        memory.put(other * 8, one);
    }
    let (mut line, begin) = (0, now_ns());
    for _ in 0..reads {
        line = memory.number(line as usize * 8);
    }
    let took_ns = now_ns() - begin;
    std::hint::black_box(line);
    Ok(serde_json::json!({ "kind": kind, "bytes": bytes, "reads": reads, "read_ns": took_ns as f64 / reads as f64 }))
}

/// Collapses of windows that a thread writes into, and how long that thread stood still at most.
fn measure_merges(bytes: usize) -> std::io::Result<serde_json::Value> {
    let memory = Memory::new(Kind::Small, bytes)?;
    memory.populate()?;
    memory.allow_large()?;
    let is_over = AtomicBool::new(false);
    let (merges, stalls, failed) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let (mut stalls, mut at, mut last) = (Vec::new(), 0, now_ns());
            while !is_over.load(Ordering::Relaxed) {
                memory.shared(at).store(1, Ordering::Relaxed);
                at = (at + SMALL_BYTES) % memory.bytes();
                let now = now_ns();
                if now - last > STALL_NS {
                    stalls.push(now - last);
                }
                last = now;
            }
            stalls
        });
        let (mut merges, mut failed) = (Vec::new(), 0);
        for offset in (0..memory.bytes()).step_by(LARGE_BYTES) {
            let begin = now_ns();
            match memory.collapse(offset) {
                Ok(()) => merges.push(now_ns() - begin),
                Err(_) => failed += 1,
            }
        }
        std::thread::sleep(Duration::from_millis(10));
        is_over.store(true, Ordering::Relaxed);
        (merges, writing.join().unwrap_or_default(), failed)
    });
    Ok(serde_json::json!({
        "bytes": bytes, "failed": failed, "merge": Figures::of(merges), "stall": Figures::of(stalls),
    }))
}

/// A writer that needs longer for one byte stood still.
const STALL_NS: u64 = 5_000;

fn main() -> std::process::ExitCode {
    let Args { what, mib } = Args::parse();
    let bytes = mib << 20;
    let measured = match what {
        What::Faults { kind } => measure_faults(kind, bytes),
        What::Misses { kind, kilo } => measure_misses(kind, bytes, kilo * 1000),
        What::Merges => measure_merges(bytes),
    };
    match measured {
        Ok(figures) => println!("{figures}"),
        Err(error) => {
            eprintln!(
                "pages-bench: {error}; reserved pages come from /sys/kernel/mm/hugepages ({HUGE_BYTES} bytes are a page of 1 GiB)"
            );
            return std::process::ExitCode::FAILURE;
        }
    }
    std::process::ExitCode::SUCCESS
}
