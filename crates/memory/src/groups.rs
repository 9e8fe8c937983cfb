//! Control groups that a process is in, of both versions, and what they leave it.

use crate::files::{Room, Short, number};
use crate::kernel::memory_bytes;
use std::ffi::CStr;

/// What groups bound: the controller, and the names of its files for the most there may be and for what there is, in version 2 and in
/// version 1.
pub struct Resource<'r> {
    pub controller: &'r str,
    pub unified: [&'r str; 2],
    pub former: [&'r str; 2],
    /// What of that is given back where somebody wants it: a word of `memory.stat` in either version.
    pub reclaimable: Option<[&'r str; 2]>,
}

/// A bound of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub most: usize,
    /// How much there is, without what is given back.
    pub used: usize,
}

impl Limit {
    pub fn left(&self) -> usize {
        self.most.saturating_sub(self.used)
    }
}

/// Where groups of version 2 are mounted: alone, or beside those of version 1, which have a directory for each controller.
const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const FORMER: &str = "/sys/fs/cgroup/";

/// Calls a function with the limits of the process's group and of those that it is in, where one is bounded. Batch systems bound one further
/// up, and in a container the own one is where all are mounted.
pub fn each_limit(resource: &Resource<'_>, mut visit: impl FnMut(Limit)) {
    let Some(own) = Short::read(c"/proc/self/cgroup") else { return };
    for line in own.bytes().split(|byte| *byte == b'\n') {
        let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let is_former = controllers.split(|byte| *byte == b',').any(|name| name == resource.controller.as_bytes());
        if !is_former && !controllers.is_empty() {
            continue;
        }
        let ends = (0..=path.len()).filter(|end| *end == path.len() || path[*end] == b'/');
        for group in ends.map(|end| &path[..end]) {
            let reclaimable = |version: usize| resource.reclaimable.map(|words| words[version]);
            if is_former {
                let root = [FORMER.as_bytes(), resource.controller.as_bytes()];
                limit_of(root, group, resource.former, reclaimable(1)).into_iter().for_each(&mut visit);
            } else {
                let roots = UNIFIED.map(|root| [root.as_bytes(), b""]);
                let limits = roots.map(|root| limit_of(root, group, resource.unified, reclaimable(0)));
                limits.into_iter().flatten().for_each(&mut visit);
            }
        }
    }
}

fn limit_of(root: [&[u8]; 2], group: &[u8], files: [&str; 2], reclaimable: Option<&str>) -> Option<Limit> {
    let read = |file: &str| {
        let mut room = Room::new()?;
        let place = room.all_mut();
        let mut used = 0;
        for part in [root[0], root[1], group, b"/", file.as_bytes()] {
            place.get_mut(used..used + part.len())?.copy_from_slice(part);
            used += part.len();
        }
        place.get(used)?;
        Short::read(CStr::from_bytes_until_nul(place).ok()?)
    };
    let bytes = |file| read(file).and_then(|text| number(text.bytes()));
    // Without a bound version 1 has a number beyond all memory.
    let most = bytes(files[0]).filter(|most| *most < memory_bytes())?;
    let used = bytes(files[1])?;
    let given_back = reclaimable.and_then(|word| number(read("memory.stat")?.after(word)?));
    Some(Limit { most, used: used.saturating_sub(given_back.unwrap_or(0)) })
}
