//! Figure 8: a producer that writes numbers and an observer that sums them, put together in several ways.

use crate::memory::{Pages, Queue, as_doubles, shm_open, shm_unlink};
use crate::publisher::{Msync, Native, Publisher};
use crate::report::{Report, Row, median};
use crate::{Failure, Setting};
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use stillframe::Observer;

/// How the two are put together.
const KINDS: [&str; 5] = ["msync", "native", "mmap", "func", "file"];
/// How long either may keep the other waiting.
const PATIENCE: Duration = Duration::from_secs(120);

fn write(memory: &mut Pages, step: usize) {
    for number in black_box(memory).doubles_mut() {
        *number = step as f64;
    }
}

fn sum(numbers: &[f64]) -> f64 {
    black_box(numbers).iter().sum()
}

/// The observer's process.
struct Other {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Other {
    fn start(setting: &Setting, kind: &str, bytes: usize, steps: usize) -> Result<Other, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--observe", kind, &setting.name(kind), &bytes.to_string(), &steps.to_string()]);
        command.arg("--files").arg(&setting.files);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let lines = child.stdout.take().map(BufReader::new).ok_or("a child without output")?;
        Ok(Other { child, lines })
    }

    /// Waits until it says the next thing, which is to be this.
    fn expect(&mut self, word: &str) -> Result<(), Failure> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        if line.trim_end() == word { Ok(()) } else { Err(format!("the observer said '{line}', not {word}").into()) }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn file_of(setting: &Setting) -> PathBuf {
    setting.files.join(setting.name("file")[1..].to_string() + ".dat")
}

/// Seconds from the first write until both are done.
fn run(setting: &Setting, kind: &str, bytes: usize, steps: usize) -> Result<f64, Failure> {
    let timed = |other: &mut Other, mut step: Box<dyn FnMut(usize) -> Result<(), Failure> + '_>| {
        other.expect("ready")?;
        let begin = Instant::now();
        for number in 1..=steps {
            step(number)?;
        }
        other.expect("done")?;
        Ok::<f64, Failure>(begin.elapsed().as_secs_f64())
    };
    match kind {
        "msync" | "native" => {
            let mut msync = if kind == "msync" { Some(Msync::new(setting, bytes)?) } else { None };
            let mut native = if kind == "native" { Some(Native::new(setting, bytes)?) } else { None };
            let seconds = {
                let publisher: &mut dyn Publisher = match (&mut msync, &mut native) {
                    (Some(msync), _) => msync,
                    (_, Some(native)) => native,
                    _ => return Err("there is nothing to publish".into()),
                };
                publisher.publish()?;
                let mut other = Other::start(setting, kind, bytes, steps)?;
                timed(
                    &mut other,
                    Box::new(|step| {
                        write(publisher.pages(), step);
                        publisher.publish()
                    }),
                )?
            };
            native.map_or(Ok(()), Native::unlink)?;
            Ok(seconds)
        }
        "mmap" => {
            let file = shm_open(&setting.name(kind), Some(Queue::bytes(bytes)))?;
            let mut queue = Queue::create(&file, bytes)?;
            let mut memory = Pages::plain(bytes)?;
            let mut other = Other::start(setting, kind, bytes, steps)?;
            let step = |step| {
                write(&mut memory, step);
                Ok(queue.fill(|slot| {
                    slot.copy_from_slice(&memory);
                    Ok(())
                })?)
            };
            let seconds = timed(&mut other, Box::new(step));
            shm_unlink(&setting.name(kind));
            seconds
        }
        "file" => {
            let shared = shm_open(&setting.name(kind), Some(Queue::bytes(0)))?;
            let mut queue = Queue::create(&shared, 0)?;
            let path = file_of(setting);
            let file = File::create(&path)?;
            file.set_len(2 * bytes as u64)?;
            let mut memory = Pages::plain(bytes)?;
            let mut other = Other::start(setting, kind, bytes, steps)?;
            let step = |step: usize| {
                write(&mut memory, step);
                Ok(queue.fill(|_| file.write_all_at(&memory, (step % 2 * bytes) as u64))?)
            };
            let seconds = timed(&mut other, Box::new(step));
            shm_unlink(&setting.name(kind));
            std::fs::remove_file(path)?;
            seconds
        }
        _ => {
            let mut memory = Pages::plain(bytes)?;
            let begin = Instant::now();
            for step in 1..=steps {
                write(&mut memory, step);
                if kind == "func" {
                    black_box(sum(memory.doubles()));
                }
            }
            Ok(begin.elapsed().as_secs_f64())
        }
    }
}

/// The part of the observer's process: `kind name bytes steps`.
pub fn observe(files: PathBuf, words: &[String]) -> Result<(), Failure> {
    let [kind, name, bytes, steps] = words else { return Err("--observe takes four words".into()) };
    let (bytes, steps): (usize, usize) = (bytes.parse()?, steps.parse()?);
    let mut total = 0.0;
    match kind.as_str() {
        "msync" => {
            let file = shm_open(name, None)?;
            println!("ready");
            let (mut seen, begin) = (0.0, Instant::now());
            while seen < steps as f64 {
                let view = Pages::view(&file, bytes)?;
                if view.doubles()[0] == seen {
                    if begin.elapsed() > PATIENCE {
                        return Err("nothing is published".into());
                    }
                    drop(view);
                    std::thread::sleep(Duration::from_micros(20));
                    continue;
                }
                total += sum(view.doubles());
                seen = view.doubles()[0];
            }
        }
        "native" => {
            let observer = Observer::open(&name[1..])?;
            let mut seen = Some(observer.newest()?.version());
            let last = seen.unwrap_or(0) + steps as u64;
            println!("ready");
            while seen < Some(last) {
                let snapshot = observer.newest_after(seen, Some(PATIENCE))?;
                total += sum(as_doubles(snapshot.slice::<u8>("data")?));
                seen = Some(snapshot.version());
            }
        }
        "mmap" => {
            let file = shm_open(name, None)?;
            let mut queue = Queue::open(&file, bytes)?;
            println!("ready");
            for _ in 0..steps {
                queue.drain(|slot| {
                    total += sum(as_doubles(slot));
                    Ok(())
                })?;
            }
        }
        _ => {
            let mut queue = Queue::open(&shm_open(name, None)?, 0)?;
            let file = File::open(files.join(name[1..].to_string() + ".dat"))?;
            let mut memory = Pages::plain(bytes)?;
            println!("ready");
            for step in 1..=steps {
                queue.drain(|_| {
                    file.read_exact_at(&mut memory, (step % 2 * bytes) as u64)?;
                    total += sum(memory.doubles());
                    Ok(())
                })?;
            }
        }
    }
    black_box(total);
    println!("done");
    Ok(())
}

pub fn figure8(setting: &Setting, report: &Report) -> Result<(), Failure> {
    report.title("Figure 8: completion of producer and observer over a producer that does not share", "alone");
    let sizes: &[usize] = if setting.quick { &[1, 4] } else { &[1, 4, 16, 64, 256] };
    for mebibytes in sizes.iter().filter(|size| **size << 20 <= setting.bytes) {
        let bytes = mebibytes << 20;
        let steps = if setting.quick { 5 } else { (4096 / mebibytes).clamp(10, 400) };
        let mut columns: Vec<Vec<f64>> = vec![Vec::new(); KINDS.len() + 1];
        for _ in 0..setting.repetitions(5) {
            for (index, kind) in KINDS.iter().chain(&["alone"]).enumerate() {
                columns[index].push(run(setting, kind, bytes, steps)? / steps as f64 * 1e3);
            }
        }
        let mut medians: Vec<f64> = columns.iter_mut().map(|column| median(column)).collect();
        let alone = medians.pop().unwrap_or(f64::NAN);
        for (kind, value) in KINDS.iter().zip(medians) {
            report.add(Row {
                bench: "figure8",
                at: format!("{mebibytes} MiB"),
                what: kind,
                value,
                unit: "ms",
                baseline: alone,
                paper_value: None,
                paper_ratio: None,
            });
        }
    }
    report.note("Each step's time. msync and native never wait for the observer; mmap and file wait for a free slot.");
    report
        .note("The paper has a plot without numbers: TCASM ahead of mmap by fractions of a percent, more so the more");
    report.note("data there is, and ahead of the file by seconds.");
    Ok(())
}
