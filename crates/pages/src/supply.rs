//! How many large pages there are, as `/sys` tells and is told (Documentation/admin-guide/mm/hugetlbpage.rst).

use crate::error::{Error, Result};
use crate::page::Page;
use rustix::thread::CpuSet;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// How often the kernel is asked for pages once more, while it still finds some.
const TRIES: usize = 8;

/// How often numbers are read once more that others change meanwhile.
const TRIES_TO_READ: usize = 100;

/// Large pages of one size, of the machine or of one of its memory nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Supply {
    /// Their size.
    pub page: Page,
    /// The memory node; `None` of all together.
    pub node: Option<u32>,
    /// Pages that there are.
    pub total: u64,
    /// Pages that nobody has.
    pub free: u64,
    /// Pages of those that are promised to somebody; `None` where the kernel does not say, as of one node.
    pub promised: Option<u64>,
}

impl Supply {
    /// Pages that can still be had.
    pub fn spare(&self) -> u64 {
        self.free.saturating_sub(self.promised.unwrap_or(0))
    }
}

/// The files of the kernel, or others in their place.
#[derive(Debug, Clone)]
pub struct System {
    sys: PathBuf,
    proc: PathBuf,
}

impl Default for System {
    fn default() -> System {
        System { sys: "/sys".into(), proc: "/proc".into() }
    }
}

fn number(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
    let parsed =
        text.trim().parse::<u64>().map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error));
    parsed.map_err(Error::io("read", path))
}

impl System {
    /// Files in other places, for tests.
    pub fn at(sys: impl Into<PathBuf>, proc: impl Into<PathBuf>) -> System {
        System { sys: sys.into(), proc: proc.into() }
    }

    pub(crate) fn proc(&self) -> &Path {
        &self.proc
    }

    fn folder(&self, page: Page, node: Option<u32>) -> PathBuf {
        let all = match node {
            Some(node) => self.sys.join(format!("devices/system/node/node{node}/hugepages")),
            None => self.sys.join("kernel/mm/hugepages"),
        };
        all.join(page.folder())
    }

    /// The memory nodes, ascending; none where the kernel knows of no such.
    pub fn nodes(&self) -> Vec<u32> {
        let entries = fs::read_dir(self.sys.join("devices/system/node")).into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok();
        let mut nodes: Vec<u32> = entries.filter_map(number).collect();
        nodes.sort_unstable();
        nodes
    }

    /// How many pages of a size there are.
    ///
    /// # Errors
    /// [`Error::NoSuchPage`]; those of the files.
    pub fn supply(&self, page: Page, node: Option<u32>) -> Result<Supply> {
        let folder = self.folder(page, node);
        if !folder.is_dir() {
            return Err(Error::NoSuchPage { page, path: folder });
        }
        let of = |name: &str| number(&folder.join(name));
        let promised = || if node.is_none() { of("resv_hugepages").map(Some) } else { Ok(None) };
        let mut supply = Supply { page, node, total: 0, free: 0, promised: promised()? };
        // A page that becomes free again is promised again at that moment: numbers of two moments would have pages that
        // nobody can have.
        for _ in 0..TRIES_TO_READ {
            (supply.total, supply.free) = (of("nr_hugepages")?, of("free_hugepages")?);
            let now = promised()?;
            if now == supply.promised {
                break;
            }
            supply.promised = now;
        }
        Ok(supply)
    }

    /// How many pages of a size each memory node has.
    pub(crate) fn by_node(&self, page: Page) -> Vec<(u32, u64)> {
        let total = |node: u32| Some((node, self.supply(page, Some(node)).ok()?.total));
        self.nodes().into_iter().filter_map(total).collect()
    }

    /// The processors of a memory node, if it has any.
    pub(crate) fn processors(&self, node: Option<u32>) -> Option<CpuSet> {
        let path = self.sys.join(format!("devices/system/node/node{}/cpulist", node?));
        processors(&fs::read_to_string(path).ok()?)
    }

    /// Has the kernel gather more pages, all of them or none. Where it finds fewer it is let move what is in use, and asked again,
    /// as long as `go_on` says so: a signal has it come back early.
    ///
    /// # Errors
    /// [`Error::TooFew`]; [`Error::NotPermitted`]; those of the files.
    pub fn gather(&self, page: Page, node: Option<u32>, count: u64, mut go_on: impl FnMut() -> bool) -> Result<()> {
        let path = self.folder(page, node).join("nr_hugepages");
        let before = number(&path)?;
        // Else the kernel would take what other programs need before it finds that it is too little.
        let possible = self.available_bytes()? / page.bytes();
        if count > possible {
            return Err(Error::TooFew { page, wanted: count, found: possible });
        }
        let mut found = 0;
        for _ in 0..TRIES {
            self.set(&path, before + count)?;
            let now = number(&path)?.saturating_sub(before);
            if now >= count {
                return Ok(());
            }
            if !go_on() || now <= found && found > 0 {
                break;
            }
            found = now;
            // It may be that nobody may do that: then the kernel does it for each page, as far as it goes.
            let _ = fs::write(self.proc.join("sys/vm/compact_memory"), "1");
        }
        self.set(&path, before)?;
        Err(Error::TooFew { page, wanted: count, found })
    }

    /// Gives pages back to the kernel. Those that somebody still has it takes when he lets them go.
    ///
    /// # Errors
    /// [`Error::NotPermitted`]; those of the files.
    pub fn scatter(&self, page: Page, node: Option<u32>, count: u64) -> Result<()> {
        let before = self.lasting(page, node)?;
        self.set(&self.folder(page, node).join("nr_hugepages"), before.saturating_sub(count))
    }

    /// Pages that are there until they are given back.
    ///
    /// # Errors
    /// Those of the files.
    pub(crate) fn lasting(&self, page: Page, node: Option<u32>) -> Result<u64> {
        let total = number(&self.folder(page, node).join("nr_hugepages"))?;
        Ok(total.saturating_sub(self.surplus(page, node)))
    }

    /// Pages that are there only until somebody lets them go.
    pub(crate) fn surplus(&self, page: Page, node: Option<u32>) -> u64 {
        number(&self.folder(page, node).join("surplus_hugepages")).unwrap_or(0)
    }

    /// Memory that lies together in pieces of 2 MiB or more just now: so much can be had in large pages without moving anything
    /// (proc_buddyinfo(5)).
    ///
    /// # Errors
    /// Those of the file.
    pub fn together_bytes(&self) -> Result<u64> {
        let path = self.proc.join("buddyinfo");
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        Ok(text.lines().map(together).sum())
    }

    /// Memory that programs could have without anything being swapped, as the kernel estimates it.
    fn available_bytes(&self) -> Result<u64> {
        let path = self.proc.join("meminfo");
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        // A kernel that does not say lets everything be tried.
        Ok(kib.map_or(u64::MAX, |kib| kib << 10))
    }

    fn set(&self, path: &Path, count: u64) -> Result<()> {
        fs::write(path, count.to_string()).map_err(Error::io("write", path))
    }
}

/// Of a line `Node 0, zone Normal COUNT…`: the counts are of free pieces of 4 KiB, 8 KiB and so on.
fn together(line: &str) -> u64 {
    let counts = line.split_once("zone").map_or("", |(_, rest)| rest).split_whitespace().skip(1);
    let large = counts.enumerate().filter(|(order, _)| 4096_u64 << order >= Page::Large.bytes());
    large.map(|(order, count)| count.parse::<u64>().unwrap_or(0) * (4096 << order)).sum()
}

/// Of a list such as `0-3,8`.
fn processors(list: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for range in list.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first..=last).filter(|number| *number < CpuSet::MAX_CPU).for_each(|number| set.set(number));
    }
    (set.count() > 0).then_some(set)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine that has so many pages.
    pub(crate) fn machine_with(total: u64) -> (tempfile::TempDir, System) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("kernel/mm/hugepages/hugepages-2048kB");
        fs::create_dir_all(&folder).unwrap();
        for (name, count) in [("nr_hugepages", total), ("free_hugepages", total), ("resv_hugepages", 0)] {
            fs::write(folder.join(name), count.to_string()).unwrap();
        }
        let system = System::at(dir.path(), dir.path());
        (dir, system)
    }

    #[test]
    fn free_pieces_count_that_are_as_large_as_a_large_page() {
        let line =
            "Node 0, zone   Normal   5213  25163  13157   6233   3096   1578   1169    660    327      2      3 ";
        assert_eq!(together(line), (2 * 2 + 3 * 4) << 20);
        assert_eq!(together("Node 0, zone      DMA      0      0"), 0);
        assert_eq!(together(""), 0);
    }

    #[test]
    fn processors_of_a_node_are_numbers_and_ranges() {
        let found = processors("0-2,8\n").unwrap();
        assert_eq!((0..CpuSet::MAX_CPU).filter(|number| found.is_set(*number)).collect::<Vec<_>>(), [0, 1, 2, 8]);
        assert!(processors("\n").is_none(), "a node of memory alone");
        assert!(processors("x").is_none());
    }

    /// A machine of files, with two memory nodes. What is written there is what there is.
    fn machine() -> (tempfile::TempDir, System) {
        let dir = tempfile::tempdir().unwrap();
        let places = ["kernel/mm", "devices/system/node/node0", "devices/system/node/node1"];
        for place in places {
            let folder = dir.path().join(place).join("hugepages/hugepages-2048kB");
            fs::create_dir_all(&folder).unwrap();
            for (name, count) in [("nr_hugepages", "12"), ("free_hugepages", "9"), ("resv_hugepages", "4")] {
                fs::write(folder.join(name), format!("{count}\n")).unwrap();
            }
        }
        fs::create_dir(dir.path().join("proc")).unwrap();
        fs::write(dir.path().join("proc/meminfo"), "MemTotal: 9000000 kB\nMemAvailable:    204800 kB\n").unwrap();
        let system = System::at(dir.path(), dir.path().join("proc"));
        (dir, system)
    }

    #[test]
    fn what_is_promised_is_not_to_be_had() {
        let (_dir, system) = machine();
        let supply = system.supply(Page::Large, None).unwrap();
        assert_eq!((supply.total, supply.free, supply.promised, supply.spare()), (12, 9, Some(4), 5));
        assert_eq!(system.supply(Page::Large, Some(1)).unwrap().promised, None);
        assert!(matches!(system.supply(Page::Gigantic, None), Err(Error::NoSuchPage { .. })));
        assert_eq!(system.nodes(), [0, 1]);
    }

    #[test]
    fn pages_are_gathered_beside_those_that_there_are_and_given_back() {
        let (_dir, system) = machine();
        system.gather(Page::Large, None, 30, || true).unwrap();
        assert_eq!(system.supply(Page::Large, None).unwrap().total, 42);
        system.scatter(Page::Large, None, 30).unwrap();
        assert_eq!(system.supply(Page::Large, None).unwrap().total, 12);
        system.gather(Page::Large, Some(1), 1, || true).unwrap();
        assert_eq!(system.supply(Page::Large, Some(1)).unwrap().total, 13);
        // The kernel counts those in that go by themselves.
        let folder = system.folder(Page::Large, Some(1));
        fs::write(folder.join("surplus_hugepages"), "3").unwrap();
        system.scatter(Page::Large, Some(1), 4).unwrap();
        assert_eq!(system.supply(Page::Large, Some(1)).unwrap().total, 6);
        match system.gather(Page::Large, None, 101, || true) {
            Err(Error::TooFew { wanted: 101, found: 100, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(system.supply(Page::Large, None).unwrap().total, 12, "nothing was asked for");
    }
}
