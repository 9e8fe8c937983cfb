//! What this machine and its limits allow.

use crate::working::tracker::kind::{TRACKERS, TrackerKind, is_armed_after_move};
use std::path::Path;

/// Whether a tracker works here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackerProbe {
    /// The tracker.
    pub kind: TrackerKind,
    /// Whether it works.
    pub usable: bool,
    /// What it is good for, or why it does not work.
    pub why: String,
}

/// Something about the machine that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// How it is here.
    pub value: String,
    /// Whether that is good.
    pub ok: bool,
    /// What to change if it is not.
    pub advice: String,
}

/// All there is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The kernel's release.
    pub kernel: String,
    /// The trackers, best first.
    pub trackers: Vec<TrackerProbe>,
    /// The tracker a region would use.
    pub chosen: TrackerKind,
    /// Everything else.
    pub facts: Vec<Fact>,
}

/// Tries what works, for regions in `dir`.
pub fn diagnose(dir: &Path) -> Diagnosis {
    let trackers: Vec<TrackerProbe> = TRACKERS.into_iter().map(probe).collect();
    let wanted = std::env::var("STILLFRAME_TRACKER").ok().and_then(|name| name.parse().ok());
    let best = trackers.iter().find(|probe| probe.usable).map_or(TrackerKind::FullCopy, |probe| probe.kind);
    let chosen = wanted.filter(|kind| trackers.iter().any(|probe| probe.kind == *kind && probe.usable)).unwrap_or(best);
    Diagnosis {
        kernel: read("/proc/sys/kernel/osrelease"),
        trackers,
        chosen,
        facts: [pages(), space(dir), descriptors(), mappings(), large_pages(), processors()]
            .into_iter()
            .chain(is_armed_after_move().ok().map(moved_memory))
            .collect(),
    }
}

fn probe(kind: TrackerKind) -> TrackerProbe {
    let good = match kind {
        TrackerKind::WpAsync => "exact and cheap, for managed and tracked memory alike",
        TrackerKind::SoftDirty => {
            "exact, but clears bits of the whole process at each publish; one region of a process"
        }
        TrackerKind::PrivateCow => "managed memory only, and a page fault that copies; tracked memory is compared",
        TrackerKind::FullCopy => "compares every page at each publish; always works",
    };
    match kind.probe() {
        Ok(()) => TrackerProbe { kind, usable: true, why: good.into() },
        Err(why) if kind == TrackerKind::WpAsync => {
            let advice = "needs Linux 6.7; a container's seccomp profile may forbid userfaultfd";
            TrackerProbe { kind, usable: false, why: format!("{why} ({advice})") }
        }
        Err(why) => TrackerProbe { kind, usable: false, why },
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

fn number(path: &str) -> u64 {
    read(path).parse().unwrap_or(0)
}

fn fact(name: &str, value: String, ok: bool, advice: &str) -> Fact {
    Fact { name: name.into(), value, ok, advice: if ok { String::new() } else { advice.into() } }
}

fn pages() -> Fact {
    let bytes = stillframe_kernel::system_page_bytes();
    let advice = "regions are made of pages of 4096 bytes: use a kernel with those";
    fact("page bytes", bytes.to_string(), bytes == stillframe_kernel::PAGE_BYTES, advice)
}

fn space(dir: &Path) -> Fact {
    let there = dir.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let free = std::fs::File::open(there).ok().and_then(|dir| stillframe_kernel::space::free_bytes(&dir));
    let told = free.map_or("no bound".into(), |free| format!("{} MiB free", free >> 20));
    let value = format!("{told} for {}", dir.display());
    let advice = "less than 1 GiB: a region needs up to three times its variables' size; mount a larger tmpfs \
                  (mount -o remount,size=… /dev/shm; containers: --shm-size) or set STILLFRAME_DIR";
    fact("space", value, free.is_none_or(|free| free >= 1 << 30), advice)
}

fn descriptors() -> Fact {
    let limits = read("/proc/self/limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let soft = line.split_whitespace().nth(3).and_then(|word| word.parse::<u64>().ok()).unwrap_or(u64::MAX);
    fact("open files", soft.to_string(), soft >= 256, "a region needs about a dozen: raise 'ulimit -n'")
}

fn mappings() -> Fact {
    let count = number("/proc/sys/vm/max_map_count");
    let advice = "views of scattered versions take many mappings: raise vm.max_map_count, or read chunk-wise";
    fact("mappings", count.to_string(), count >= 65_530, advice)
}

fn large_pages() -> Fact {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let ok = text.contains("[always]") || text.contains("[madvise]");
    let advice = "managed memory gets no large pages: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    fact("large pages", if text.is_empty() { "none".into() } else { text }, ok, advice)
}

fn processors() -> Fact {
    let count = stillframe_kernel::processor_count();
    fact("processors", format!("{count} for this process"), true, "")
}

fn moved_memory(armed: bool) -> Fact {
    let value =
        if armed { "stays write-protected when it moves (CVE-2025-21696)" } else { "moves without its protection" };
    let advice = "Stillframe disarms what it has not seen before, but other programs may lose writes: use Linux 6.12.11, 6.13 \
                  or later, or a kernel with the change 'mm: clear uffd-wp PTE/PMD state on mremap()'";
    fact("moved memory", value.into(), !armed, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_whose_memory_moves_armed_are_named_with_advice() {
        let (bad, good) = (moved_memory(true), moved_memory(false));
        assert!(!bad.ok && bad.value.contains("CVE-2025-21696") && bad.advice.contains("6.12.11"), "{bad:?}");
        assert!(good.ok && good.advice.is_empty(), "{good:?}");
        let facts = diagnose(Path::new("/dev/shm")).facts;
        let told = facts.iter().find(|fact| fact.name == "moved memory");
        assert_eq!(told.cloned(), is_armed_after_move().ok().map(moved_memory));
    }
}
