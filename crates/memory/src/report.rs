//! What is said at the end of a process, if that was asked for.

use crate::count;
use crate::files::Short;
use crate::kernel::{self, Descriptor};
use crate::residence::{self, Amount};
use crate::say::{Bytes, say};
use crate::setting;
use libc::c_int;
use std::io::Write;
use std::sync::atomic::{AtomicI32, Ordering};

/// The counter's descriptor, or what the call for it failed with, below zero.
static COUNTER: AtomicI32 = AtomicI32::new(-libc::ENODATA);
/// Descriptors from here on are left alone by most programs.
const DESCRIPTOR_LEAST: c_int = 500;

/// As much of `perf_event_attr` (perf_event_open(2)) as its first version has.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    bytes: u32,
    config: u64,
    period: u64,
    sample: u64,
    format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    breakpoint_address: u64,
}

const HARDWARE_CACHE: u32 = 3;
/// Loads that miss in the TLB for data.
const DTLB_LOAD_MISSES: u64 = 3 | 1 << 16;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

/// The process that is counted, whose memory a child made by `vfork` has, too, and does not report; 0 when it has
/// reported.
static COUNTED: AtomicI32 = AtomicI32::new(0);

/// Begins to count for this process, of which a fork may be the begin.
pub fn begin_process() {
    COUNTED.store(kernel::own_pid(), Ordering::Relaxed);
}

/// Begins to count what only the processor can.
pub fn begin() {
    begin_process();
    if setting::reporter().is_none() {
        return;
    }
    let attributes = Attributes {
        kind: HARDWARE_CACHE,
        bytes: size_of::<Attributes>() as u32,
        config: DTLB_LOAD_MISSES,
        flags: INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    const CLOSE_ON_EXEC: usize = 8;
    // SAFETY: the call reads as many bytes as the attributes say that they have.
    let opened =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, 0usize, usize::MAX, usize::MAX, CLOSE_ON_EXEC) }
            as c_int;
    if opened < 0 {
        COUNTER.store(-kernel::errno(), Ordering::Relaxed);
        return;
    }
    // SAFETY: the descriptor was just opened, and is closed where there is a second one.
    let high = unsafe { libc::fcntl(opened, libc::F_DUPFD_CLOEXEC, DESCRIPTOR_LEAST) };
    if high >= 0 {
        drop(Descriptor(opened));
    }
    COUNTER.store(if high >= 0 { high } else { opened }, Ordering::Relaxed);
}

/// Says it.
pub fn end() {
    let Some(reporter) = setting::reporter() else { return };
    let pid = kernel::own_pid();
    if COUNTED.compare_exchange(pid, 0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    let pid = pid as u32;
    let most = count::POOL_MOST.load(Ordering::Relaxed);
    if pid != reporter && most == 0 && count::REFUSED.get() == 0 {
        return;
    }
    let name = Short::read(c"/proc/self/comm");
    let name = name.as_ref().map_or("?", |name| std::str::from_utf8(name.bytes()).unwrap_or("?").trim_end());
    let who = format_args!("{name} ({pid})");
    say(format_args!(
        "{who}: {} from the pool, {} of that what it was loaded with; in ordinary memory {} of the heap, \
         {} of that because the pool was empty, {} that it mapped, {} of stacks",
        Bytes(most),
        Bytes(count::LOADED.get()),
        Bytes(count::HEAP_PLAIN.get()),
        Bytes(count::REFUSED.get()),
        Bytes(count::MAPPED.get()),
        Bytes(count::STACKS.get()),
    ));
    if let Some(amounts) = residence::measure() {
        let all = amounts.iter().fold(Amount::default(), |all, amount| all.plus(*amount));
        say(format_args!("{who}: {:14} {:>14} {:>14} {:>14}", "at its end", "in a pool", "large pages", "small pages"));
        for ((_, name), amount) in residence::KINDS.iter().zip(amounts).filter(|(_, amount)| amount.all() > 0) {
            let Amount { pool, large, small, .. } = amount;
            say(format_args!(
                "{who}: {name:14} {:>10} KiB {:>10} KiB {:>10} KiB",
                pool >> 10,
                large >> 10,
                small >> 10
            ));
        }
        let tenths = all.reclaimable * 1000 / all.all().max(1);
        let (whole, tenth) = (tenths / 10, tenths % 10);
        say(format_args!(
            "{who}: the kernel could take away or split {} of it, {whole}.{tenth} %",
            Bytes(all.reclaimable)
        ));
    }
    // SAFETY: plain data, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    say(format_args!(
        "{who}: {} page faults, {} of them read from a disk",
        usage.ru_minflt + usage.ru_majflt,
        usage.ru_majflt
    ));
    match misses() {
        Ok(misses) => say(format_args!("{who}: {misses} loads missed the TLB")),
        Err(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENOSYS) => {
            say(format_args!("{who}: TLB misses not counted: the kernel has no hardware counters on this machine"));
        }
        Err(libc::EACCES | libc::EPERM) => say(format_args!(
            "{who}: TLB misses not counted: not permitted to this user (kernel.perf_event_paranoid has to be 2 or less)"
        )),
        Err(errno) => say(format_args!("{who}: TLB misses not counted (errno {errno})")),
    }
}

/// Whether a descriptor is a counter: the program may have closed all, and have its own at this number.
fn is_counter(descriptor: c_int) -> bool {
    const COUNTER: &[u8] = b"anon_inode:[perf_event]";
    let (mut path, mut target) = ([0u8; 32], [0u8; 32]);
    if write!(&mut path[..], "/proc/self/fd/{descriptor}\0").is_err() {
        return false;
    }
    // SAFETY: the path ends with a zero, and the call writes at most as many bytes as there are.
    let bytes = unsafe { libc::readlink(path.as_ptr().cast(), target.as_mut_ptr().cast(), target.len()) };
    target.get(..bytes.max(0) as usize) == Some(COUNTER)
}

fn misses() -> Result<u64, c_int> {
    let counter = COUNTER.load(Ordering::Relaxed);
    if counter < 0 {
        return Err(-counter);
    }
    if !is_counter(counter) {
        return Err(libc::EBADF);
    }
    let mut count = [0; 8];
    match Descriptor(counter).read(&mut count)? {
        8 => Ok(u64::from_ne_bytes(count)),
        _ => Err(libc::EIO),
    }
}
