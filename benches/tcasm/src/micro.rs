//! Table 3 and Figure 7: what writing and publishing a page costs.

use crate::memory::{PAGE_BYTES, Pages, shm_open, shm_unlink};
use crate::publisher::{Msync, Native, Publisher};
use crate::report::{Report, Row, median, seconds};
use crate::{Failure, Setting};
use std::hint::black_box;

/// The paper's numbers in microseconds per page (Table 3).
const PAPER_MSYNC: f64 = 0.98;
const PAPER_MEMCPY: f64 = 0.63;
const PAPER_COW: f64 = 2.71;
/// Slowdown of a stream of writes by copy-on-write (Figure 7a).
const PAPER_STREAM: f64 = 1.16;
/// Publishing all of the memory over copying it (Figure 7b). The curve is a line through zero.
const PAPER_WHOLE: f64 = 1.85;

/// Writes one number into each of the first pages.
fn touch(pages: &mut Pages, count: usize, value: u8) {
    let pages = black_box(pages);
    for page in 0..count {
        pages[page * PAGE_BYTES + page % PAGE_BYTES] = value;
    }
}

/// Writes integers one after the other over the first pages.
fn stream(pages: &mut Pages, count: usize, value: i32) {
    let integers = black_box(pages).integers_mut();
    for (index, integer) in integers[..count * PAGE_BYTES / size_of::<i32>()].iter_mut().enumerate() {
        *integer = value.wrapping_add(index as i32);
    }
}

/// Plain memory and another as long to copy it to.
struct Copied {
    from: Pages,
    to: Pages,
}

impl Copied {
    fn new(bytes: usize) -> Result<Copied, Failure> {
        Ok(Copied { from: Pages::plain(bytes)?, to: Pages::plain(bytes)? })
    }

    fn copy(&mut self) -> f64 {
        let Copied { from, to } = self;
        seconds(|| black_box(&mut **to).copy_from_slice(black_box(&**from)))
    }
}

/// Medians over steps that write some pages and publish them, in turns with plain memory that is written and copied whole.
#[derive(Default)]
struct Steps {
    write: f64,
    publish: f64,
    plain_write: f64,
    memcpy: f64,
}

fn measure(
    publisher: &mut dyn Publisher,
    copied: &mut Copied,
    settling: usize,
    repetitions: usize,
    write: impl Fn(&mut Pages, i32),
) -> Result<Steps, Failure> {
    let mut columns: [Vec<f64>; 4] = Default::default();
    for step in 0..settling + repetitions {
        let written = seconds(|| write(publisher.pages(), step as i32));
        let mut outcome = Ok(());
        let published = seconds(|| outcome = publisher.publish());
        outcome?;
        let plain = seconds(|| write(&mut copied.from, step as i32));
        let copy = copied.copy();
        if step >= settling {
            for (column, value) in columns.iter_mut().zip([written, published, plain, copy]) {
                column.push(value);
            }
        }
    }
    let [write, publish, plain_write, memcpy] = columns.map(|mut column| median(&mut column));
    Ok(Steps { write, publish, plain_write, memcpy })
}

/// Runs `work` with each way of publishing memory of this size.
fn each(
    setting: &Setting,
    bytes: usize,
    mut work: impl FnMut(&str, &mut dyn Publisher) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut native = Native::new(setting, bytes)?;
    native.publish()?;
    let result = work("native", &mut native);
    native.unlink()?;
    result?;
    let mut msync = Msync::new(setting, bytes)?;
    msync.publish()?;
    work("msync", &mut msync)
}

/// Medians of the first write after the first publish, when every page is armed and nothing is learned of the program yet:
/// for each way of publishing, seconds of `write` there and in plain memory.
fn first_writes(
    setting: &Setting,
    copied: &mut Copied,
    bytes: usize,
    write: impl Fn(&mut Pages),
) -> Result<[(f64, f64); 2], Failure> {
    let mut columns: [(Vec<f64>, Vec<f64>); 2] = Default::default();
    for _ in 0..setting.repetitions(5) {
        each(setting, bytes, |kind, publisher| {
            let (armed, plain) = &mut columns[usize::from(kind == "msync")];
            armed.push(seconds(|| write(publisher.pages())));
            plain.push(seconds(|| write(&mut copied.from)));
            Ok(())
        })?;
    }
    Ok(columns.map(|(mut armed, mut plain)| (median(&mut armed), median(&mut plain))))
}

/// Table 3: latency of the three operations for each page, all pages written in each step.
pub fn table3(setting: &Setting, report: &Report) -> Result<(), Failure> {
    let bytes = setting.bytes.min(64 << 20);
    let pages = bytes / PAGE_BYTES;
    let title = format!(
        "Table 3: microseconds per page, {pages} contiguous pages, median of {} repetitions",
        setting.repetitions(100)
    );
    report.title(&title, "memcpy");
    let mut copied = Copied::new(bytes)?;
    let per_page = |seconds: f64| seconds * 1e6 / pages as f64;
    let row = |what, value, baseline, paper: f64| Row {
        bench: "table3",
        at: String::new(),
        what,
        value,
        unit: "µs",
        baseline,
        paper_value: Some(paper),
        paper_ratio: Some(paper / PAPER_MEMCPY),
    };
    let mut memcpy = Vec::new();
    let firsts = first_writes(setting, &mut copied, bytes, |memory| touch(memory, pages, 7))?;
    each(setting, bytes, |kind, publisher| {
        let (armed, plain) = firsts[usize::from(kind == "msync")];
        let steps = measure(publisher, &mut copied, 10, setting.repetitions(100), |memory, step| {
            touch(memory, pages, step as u8);
        })?;
        let copy = per_page(steps.memcpy);
        memcpy.push(copy);
        let (publish, first, later) = match kind {
            "msync" => ("msync", "write: first after publish, msync", "write: each step, msync"),
            _ => ("publish, native", "write: first after publish, native", "write: each step, native"),
        };
        report.add(row(publish, per_page(steps.publish), copy, PAPER_MSYNC));
        report.add(row(first, per_page((armed - plain).max(0.0)), copy, PAPER_COW));
        report.add(row(later, per_page((steps.write - steps.plain_write).max(0.0)), copy, PAPER_COW));
        Ok(())
    })?;
    let copy = median(&mut memcpy);
    report.add(row("memcpy", copy, copy, PAPER_MEMCPY));
    let mut copies: Vec<f64> = Vec::new();
    for _ in 0..setting.repetitions(100).min(20) {
        let mut pages = KernelCow::new(setting, bytes)?;
        let plain = seconds(|| touch(&mut copied.from, bytes / PAGE_BYTES, 3));
        copies.push(per_page((seconds(|| touch(&mut pages.pages, bytes / PAGE_BYTES, 3)) - plain).max(0.0)));
    }
    report.add(row("copy-on-write of this kernel", median(&mut copies), copy, PAPER_COW));
    Ok(())
}

/// A private mapping whose pages were read, so that the kernel copies each at its first write.
struct KernelCow {
    name: String,
    pages: Pages,
}

impl KernelCow {
    fn new(setting: &Setting, bytes: usize) -> Result<KernelCow, Failure> {
        let name = setting.name("cow");
        let file = shm_open(&name, Some(bytes))?;
        let pages = Pages::private(&file, bytes)?;
        black_box(pages.iter().step_by(PAGE_BYTES).map(|byte| u64::from(*byte)).sum::<u64>());
        Ok(KernelCow { name, pages })
    }
}

impl Drop for KernelCow {
    fn drop(&mut self) {
        shm_unlink(&self.name);
    }
}

/// Figure 7a: integers written one after the other over memory that is published, and over memory that is not.
pub fn figure7a(setting: &Setting, report: &Report) -> Result<(), Failure> {
    report.title("Figure 7a: a stream of integers over published memory and plain memory, time of the writes", "plain");
    let row = |at, what, value, baseline| Row {
        bench: "figure7a",
        at,
        what,
        value: value * 1e3,
        unit: "ms",
        baseline: baseline * 1e3,
        paper_value: None,
        paper_ratio: Some(PAPER_STREAM),
    };
    let most = setting.bytes.min(256 << 20) / PAGE_BYTES;
    for pages in [most / 64, most / 16, most / 4, most] {
        let bytes = pages * PAGE_BYTES;
        let at = format!("{pages} pages");
        let mut copied = Copied::new(bytes)?;
        let firsts = first_writes(setting, &mut copied, bytes, |memory| stream(memory, pages, 7))?;
        each(setting, bytes, |kind, publisher| {
            let (first, plain) = firsts[usize::from(kind == "msync")];
            let steps = measure(publisher, &mut copied, 5, setting.repetitions(21), |memory, step| {
                stream(memory, pages, step);
            })?;
            let (once, later) = match kind {
                "msync" => ("msync: first step", "msync: each step"),
                _ => ("native: first step", "native: each step"),
            };
            report.add(row(at.clone(), once, first, plain));
            report.add(row(at.clone(), later, steps.write, steps.plain_write));
            Ok(())
        })?;
        let (mut copies, mut plains) = (Vec::new(), Vec::new());
        for _ in 0..setting.repetitions(5) {
            let mut cow = KernelCow::new(setting, bytes)?;
            copies.push(seconds(|| stream(&mut cow.pages, pages, 3)));
            plains.push(seconds(|| stream(&mut copied.from, pages, 3)));
        }
        report.add(row(at.clone(), "copy-on-write of this kernel", median(&mut copies), median(&mut plains)));
    }
    Ok(())
}

/// Figure 7b: publishing what was modified of a buffer, over copying all of it.
pub fn figure7b(setting: &Setting, report: &Report) -> Result<(), Failure> {
    let bytes = setting.bytes;
    report
        .title(&format!("Figure 7b: publish over memcpy of {} MiB, by share of pages modified", bytes >> 20), "memcpy");
    let pages = bytes / PAGE_BYTES;
    let mut copied = Copied::new(bytes)?;
    let shares: &[usize] = if setting.quick { &[10, 50, 100] } else { &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100] };
    each(setting, bytes, |kind, publisher| {
        for percent in shares {
            let modified = pages * percent / 100;
            let steps =
                measure(publisher, &mut copied, setting.repetitions(8), setting.repetitions(9), |memory, step| {
                    touch(memory, modified, step as u8);
                })?;
            let row = |what, value, paper: Option<f64>| Row {
                bench: "figure7b",
                at: format!("{percent} %"),
                what,
                value: value * 1e3,
                unit: "ms",
                baseline: steps.memcpy * 1e3,
                paper_value: None,
                paper_ratio: paper,
            };
            let (publish, whole) = match kind {
                "msync" => ("msync", "msync and what writing costs more"),
                _ => ("publish, native", "native and what writing costs more"),
            };
            report.add(row(publish, steps.publish, Some(PAPER_WHOLE * *percent as f64 / 100.0)));
            report.add(row(whole, steps.publish + (steps.write - steps.plain_write).max(0.0), None));
        }
        Ok(())
    })?;
    report.note("The paper's ratio is its line: even with memcpy at 55 %, 1.85 times it at 100 %.");
    Ok(())
}
