//! Who has what of a pool, as `/proc` tells.

use crate::pool::Pool;
use crate::supply::System;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A process with pages of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub command: String,
    /// Bytes that it has.
    pub bytes: u64,
    /// The same on each memory node, where the kernel tells.
    pub by_node: BTreeMap<u32, u64>,
}

/// All of them that this user may look into, those with most first.
pub fn holders(system: &System, pool: &Pool) -> Vec<Holder> {
    let entries = fs::read_dir(system.proc()).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<Holder> =
        numbers.filter_map(|pid| holder(&system.proc().join(pid.to_string()), pid, pool)).collect();
    found.sort_by(|one, other| other.bytes.cmp(&one.bytes).then(one.pid.cmp(&other.pid)));
    found
}

fn holder(process: &Path, pid: u32, pool: &Pool) -> Option<Holder> {
    // Names of files and programs may be any bytes.
    let read = |name: &str| fs::read(process.join(name)).map(|text| String::from_utf8_lossy(&text).into_owned());
    let (bytes, begins) = mapped(&read("smaps").ok()?, pool.mount.device);
    if begins.is_empty() {
        return None;
    }
    let numa = read("numa_maps").unwrap_or_default();
    let command = read("comm").unwrap_or_default().trim_end().to_owned();
    Some(Holder { pid, command, bytes, by_node: on_nodes(&numa, &begins, pool.page().bytes()) })
}

/// Bytes of mappings on a device, and where these begin (proc_pid_smaps(5)).
fn mapped(smaps: &str, device: (u32, u32)) -> (u64, Vec<u64>) {
    let (mut bytes, mut begins, mut is_in) = (0, Vec::new(), false);
    for line in smaps.lines() {
        if let Some((begin, of)) = header(line) {
            is_in = of == device;
            begins.extend(is_in.then_some(begin));
        } else if is_in
            && let Some((name, value)) = line.split_once(':')
            && matches!(name, "Private_Hugetlb" | "Shared_Hugetlb")
        {
            let kib = value.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
            bytes += kib << 10;
        }
    }
    (bytes, begins)
}

/// The first line of a mapping: `begin-end rights offset major:minor inode path`.
fn header(line: &str) -> Option<(u64, (u32, u32))> {
    let mut words = line.split_whitespace();
    let (begin, _) = words.next()?.split_once('-')?;
    let (major, minor) = words.nth(2)?.split_once(':')?;
    let hexadecimal = |text| u32::from_str_radix(text, 16).ok();
    Some((u64::from_str_radix(begin, 16).ok()?, (hexadecimal(major)?, hexadecimal(minor)?)))
}

/// Bytes on each memory node of the mappings that begin there: lines with `N0=5`, in pages (numa(7)).
fn on_nodes(numa: &str, begins: &[u64], page_bytes: u64) -> BTreeMap<u32, u64> {
    let mut nodes = BTreeMap::new();
    for line in numa.lines() {
        let mut words = line.split(' ');
        let begin = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        if !begin.is_some_and(|begin| begins.contains(&begin)) {
            continue;
        }
        let counts = words.filter_map(|word| word.strip_prefix('N')?.split_once('='));
        for (node, count) in counts.filter_map(|(node, count)| Some((node.parse().ok()?, count.parse::<u64>().ok()?))) {
            *nodes.entry(node).or_default() += count * page_bytes;
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000400000 rw-s 00000000 00:26 1 /run/stillframe/pages/a/#12 (deleted)
Size:               4096 kB
Shared_Hugetlb:     4096 kB
Private_Hugetlb:       0 kB
7f0000600000-7f0000800000 rw-p 00000000 00:26 1 /run/stillframe/pages/a/#13 (deleted)
Private_Hugetlb:    2048 kB
7f0001000000-7f0001200000 rw-p 00000000 00:27 1 /dev/hugepages/x
Private_Hugetlb:    2048 kB
7f0002000000-7f0002001000 rw-p 00000000 00:00 0
";

    #[test]
    fn mappings_of_the_pool_are_added_up_and_others_are_not() {
        assert_eq!(mapped(SMAPS, (0, 0x26)), (6 << 20, vec![0x7f00_0000_0000, 0x7f00_0060_0000]));
        assert_eq!(mapped(SMAPS, (0, 0x27)).0, 2 << 20);
        assert_eq!(mapped(SMAPS, (0, 0x28)), (0, Vec::new()));
    }

    #[test]
    fn a_process_is_shown_whatever_bytes_its_name_and_its_files_have() {
        use crate::mounts::Mount;
        let dir = tempfile::tempdir().unwrap();
        let process = dir.path().join("7");
        fs::create_dir(&process).unwrap();
        let mut smaps = b"7e0000000000-7e0000001000 rw-s 00000000 00:19 1 /tmp/\xff\n".to_vec();
        smaps.extend(SMAPS.as_bytes());
        fs::write(process.join("smaps"), smaps).unwrap();
        fs::write(process.join("comm"), b"a\xffb\n").unwrap();
        let mount = Mount { path: "/run/a".into(), page: crate::Page::Large, device: (0, 0x26) };
        let found = holders(&System::at(dir.path(), dir.path()), &Pool { name: "a".into(), mount });
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].pid, found[0].command.as_str(), found[0].bytes), (7, "a\u{fffd}b", 6 << 20));
    }

    #[test]
    fn pages_are_on_the_nodes_that_the_kernel_says() {
        let numa =
            "7f0000000000 default file=/x huge dirty=2 N0=1 N1=1 kernelpagesize_kB=2048\n7f0001000000 default N0=9\n";
        let nodes = on_nodes(numa, &[0x7f00_0000_0000], 2 << 20);
        assert_eq!(nodes, BTreeMap::from([(0, 2 << 20), (1, 2 << 20)]));
    }
}
