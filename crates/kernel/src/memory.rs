//! How much memory a process may still take: what the machine has, and what its control groups leave.

use std::fs::read_to_string;
use std::path::Path;

/// A hierarchy of control groups: where it is mounted by custom, and what its files for memory are called.
struct Hierarchy {
    root: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// Word before the bytes of `memory.stat` that hold files and can be had at once.
    cache: &'static str,
}

const UNIFIED: Hierarchy =
    Hierarchy { root: "/sys/fs/cgroup", limit: "memory.max", usage: "memory.current", cache: "inactive_file" };
const LEGACY: Hierarchy = Hierarchy {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: "total_inactive_file",
};

/// Bytes that this process can take before the machine or one of its control groups runs out, as far as they tell; `None` if
/// nothing tells.
pub fn available_bytes() -> Option<u64> {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let machine = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map(|kib| kib << 10);
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = groups.lines().filter_map(|line| {
        let mut words = line.splitn(3, ':').skip(1);
        match (words.next()?, words.next()?) {
            ("", path) => left_bytes(&UNIFIED, Path::new(UNIFIED.root), path),
            ("memory", path) => left_bytes(&LEGACY, Path::new(LEGACY.root), path),
            _ => None,
        }
    });
    left.chain(machine).min()
}

/// Whether the machine has anything in its swap space.
pub fn is_swap_used() -> bool {
    let machine = rustix::system::sysinfo();
    machine.freeswap < machine.totalswap
}

/// What the control group of this path, and those above it, leave. A container sees the path of its host's.
fn left_bytes(hierarchy: &Hierarchy, root: &Path, path: &str) -> Option<u64> {
    let own = root.join(path.trim_start_matches('/'));
    let own = if own.is_dir() { own } else { root.to_path_buf() };
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| left_in(hierarchy, group)).min()
}

fn left_in(hierarchy: &Hierarchy, group: &Path) -> Option<u64> {
    let number = |name: &str| read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let (limit, used) = (number(hierarchy.limit)?, number(hierarchy.usage)?);
    let stat = read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cache = stat.lines().find_map(|line| line.strip_prefix(hierarchy.cache)?.trim().parse::<u64>().ok());
    Some(limit.saturating_sub(used.saturating_sub(cache.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_control_group_counts_and_what_can_be_had_at_once_does_not() {
        let root = std::env::temp_dir().join(format!("stillframe-groups-{}", std::process::id()));
        let group = |path: &str, limit: &str, used: u64, cache: u64| {
            let dir = root.join(path);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("memory.max"), limit).unwrap();
            std::fs::write(dir.join("memory.current"), format!("{used}\n")).unwrap();
            std::fs::write(dir.join("memory.stat"), format!("anon 1\ninactive_file {cache}\n")).unwrap();
        };
        group("job", "1000\n", 900, 300);
        group("job/step", "max\n", 800, 0);
        group("job/step/task", "700\n", 100, 0);
        assert_eq!(left_bytes(&UNIFIED, &root, "/job/step/task"), Some(400));
        assert_eq!(left_bytes(&UNIFIED, &root, "/job/step"), Some(400));
        group("job", "100\n", 900, 300);
        assert_eq!(left_bytes(&UNIFIED, &root, "/job/step/task"), Some(0));
        assert_eq!(left_bytes(&UNIFIED, &root, "/elsewhere"), None);
        std::fs::remove_dir_all(&root).unwrap();
        assert!(available_bytes().is_some_and(|bytes| bytes > 0));
    }
}
