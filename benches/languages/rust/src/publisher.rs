//! The publisher in Rust. See `../../run.py` for what it has to do.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;
use stillframe::{Array, Published, Region, Tracked};

const PAGE_BYTES: usize = 4096;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Page-aligned, populated memory from the ordinary allocator.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
}

impl Memory {
    fn new(bytes: usize) -> Memory {
        let mut bytes = vec![0; bytes + PAGE_BYTES];
        bytes.fill(1);
        Memory { start: bytes.as_ptr().align_offset(PAGE_BYTES), bytes }
    }

    fn get(&mut self) -> &mut [u8] {
        let end = self.start + self.bytes.len() - PAGE_BYTES;
        &mut self.bytes[self.start..end]
    }
}

enum Variable {
    Managed(Array<u8>),
    Tracked(Tracked<u8>, Memory),
}

struct Subject {
    region: Region,
    variable: Variable,
}

impl Subject {
    fn create(dir: &str, name: &str, kind: &str, bytes: usize, threads: usize) -> Result<Subject> {
        let options = Region::options().dir(dir).keep(1);
        let options = if threads > 0 { options.threads(threads) } else { options };
        let mut region = options.create(name)?;
        let variable = match kind {
            "managed" => Variable::Managed(region.array("data", &[bytes])?),
            _ => Variable::Tracked(region.track("data")?, Memory::new(bytes)),
        };
        Ok(Subject { region, variable })
    }

    fn memory(&mut self) -> &mut [u8] {
        match &mut self.variable {
            Variable::Managed(array) => self.region.slice_mut(array),
            Variable::Tracked(_, memory) => memory.get(),
        }
    }

    fn publish(&mut self, version: u64) -> Result<Published> {
        let publication = self.region.publish(version);
        Ok(match &mut self.variable {
            Variable::Managed(_) => publication.commit()?,
            Variable::Tracked(variable, memory) => {
                let memory = memory.get();
                publication.tracked(variable, memory, &[memory.len()]).commit()?
            }
        })
    }
}

/// The finishing steps of splitmix64.
fn hash(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn choose_pages(random: bool, share: f64, total: usize, step: u64) -> Vec<u32> {
    let seed = if random { step + 1 } else { 0 };
    let threshold = (share * (1u64 << 32) as f64) as u64;
    (0..total as u32).filter(|page| hash(seed << 32 | u64::from(*page)) >> 32 < threshold).collect()
}

fn write_pages(memory: &mut [u8], pages: &[u32], value: u8) {
    for page in pages {
        let start = *page as usize * PAGE_BYTES;
        memory[start..start + PAGE_BYTES].fill(value);
    }
}

fn copy_ns(target: &mut [u8], source: &[u8]) -> u64 {
    let begin = Instant::now();
    black_box(&mut *target).copy_from_slice(black_box(source));
    let ns = begin.elapsed().as_nanos() as u64;
    black_box(&*target);
    ns
}

fn answer(numbers: &[u64]) -> Result<()> {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    println!("{}", numbers.join(" "));
    Ok(std::io::stdout().flush()?)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, name, bench, kind, bytes, threads, pattern, share] = &arguments[..] else {
        return Err("DIR REGION BENCH KIND BYTES THREADS PATTERN SHARE".into());
    };
    let (bytes, share): (usize, f64) = (bytes.parse()?, share.parse()?);
    let mut subject = Subject::create(dir, name, kind, bytes, threads.parse()?)?;
    let (mut source, mut target) = (Memory::new(bytes), Memory::new(bytes));
    subject.memory().fill(1);
    let mut version = 0;
    for line in std::io::stdin().lines() {
        let line = line?;
        let numbers = line.split_whitespace().map(str::parse).collect::<std::result::Result<Vec<u64>, _>>()?;
        if bench == "rate" {
            let count = numbers[0];
            let begin = Instant::now();
            for _ in 0..count {
                version += 1;
                black_box(subject.memory()).fill(version as u8);
                subject.publish(version)?;
            }
            let publish_ns = begin.elapsed().as_nanos() as u64;
            let memcpy_ns = (0..count).map(|_| copy_ns(target.get(), source.get())).sum();
            answer(&[publish_ns, memcpy_ns])?;
        } else {
            let (step, measured) = (numbers[0], numbers[1] != 0);
            let pages = choose_pages(pattern == "random", share, bytes / PAGE_BYTES, step);
            let begin = Instant::now();
            write_pages(black_box(subject.memory()), &pages, step as u8);
            let written = Instant::now();
            let published = subject.publish(step + 1)?;
            let (write_ns, publish_ns) = ((written - begin).as_nanos() as u64, written.elapsed().as_nanos() as u64);
            let (mut plain_ns, mut memcpy_ns) = (0, 0);
            if measured {
                let begin = Instant::now();
                write_pages(black_box(source.get()), &pages, step as u8);
                plain_ns = begin.elapsed().as_nanos() as u64;
                memcpy_ns = copy_ns(target.get(), source.get());
            }
            let counts = [pages.len() as u64, published.dirty_pages, published.copied_pages];
            answer(&[&[write_ns, publish_ns, plain_ns, memcpy_ns][..], &counts].concat())?;
        }
    }
    Ok(subject.region.unlink()?)
}
