//! Why the kernel gives a process no page of a pool that has some.

use crate::files::{Short, number};
use crate::groups::{self, Resource};
use crate::kernel::PAGE_BYTES;
use std::ffi::CStr;
use std::fmt::{Display, Formatter, Result, Write};

/// What bounds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Its limit on addresses.
    Addresses,
    /// Its limit on memory that it may write.
    Data,
    /// A control group that it is in.
    Group,
    /// Others have been promised the pages.
    Others,
    /// None of these.
    Unknown,
}

/// The name of a size of pages in the files of control groups.
pub struct Size(pub usize);

impl Display for Size {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self.0 {
            bytes if bytes >= 1 << 30 => write!(out, "{}GB", bytes >> 30),
            bytes if bytes >= 1 << 20 => write!(out, "{}MB", bytes >> 20),
            bytes => write!(out, "{}KB", bytes >> 10),
        }
    }
}

/// Finds out about it, for pages of this size and a pool that has so many bytes of them.
pub fn find(page_bytes: usize, free_bytes: usize) -> Bound {
    let is_reached = |limit, used: Option<usize>| {
        used.is_some_and(|used| limit_of(limit).is_some_and(|limit| limit.saturating_sub(used) < page_bytes))
    };
    if is_reached(libc::RLIMIT_AS, mapped_bytes(ALL)) {
        return Bound::Addresses;
    }
    if is_reached(libc::RLIMIT_DATA, mapped_bytes(DATA)) {
        return Bound::Data;
    }
    let is_bounded = |part: &str| left_to_groups(page_bytes, part).is_some_and(|left| left < page_bytes);
    if is_bounded("") || is_bounded(".rsvd") {
        return Bound::Group;
    }
    // A pool that has promised pages finds at least these free.
    match supply_bytes(page_bytes, "free") {
        Some(free) if free < free_bytes && supply_bytes(page_bytes, "resv") >= Some(free) => Bound::Others,
        _ => Bound::Unknown,
    }
}

fn limit_of(resource: libc::__rlimit_resource_t) -> Option<usize> {
    // SAFETY: plain data, which the call fills.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        let is_told = libc::getrlimit(resource, &mut limit) == 0 && limit.rlim_cur != libc::RLIM_INFINITY;
        is_told.then_some(limit.rlim_cur as usize)
    }
}

/// Numbers in /proc/self/statm: all that is mapped, and what of it may be written.
const ALL: usize = 0;
const DATA: usize = 5;

fn mapped_bytes(which: usize) -> Option<usize> {
    let told = Short::read(c"/proc/self/statm")?;
    Some(number(told.bytes().split(|byte| *byte == b' ').nth(which)?)? * PAGE_BYTES)
}

/// A text of some bytes, for names of files.
struct Name([u8; 96], usize);

impl Write for Name {
    fn write_str(&mut self, text: &str) -> Result {
        let place = self.0.get_mut(self.1..self.1 + text.len()).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.1 += text.len();
        Ok(())
    }
}

impl Name {
    fn new(text: impl Display) -> Option<Name> {
        let mut name = Name([0; 96], 0);
        // The last byte stays zero.
        (write!(name, "{text}").is_ok() && name.1 < name.0.len()).then_some(name)
    }

    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0[..self.1]).ok()
    }
}

fn left_to_groups(page_bytes: usize, part: &str) -> Option<usize> {
    let of = |what: &str| Name::new(format_args!("hugetlb.{}{part}.{what}", Size(page_bytes)));
    let [most, used] = [of("max")?, of("current")?];
    let [former_most, former_used] = [of("limit_in_bytes")?, of("usage_in_bytes")?];
    let resource = Resource {
        controller: "hugetlb",
        unified: [most.text()?, used.text()?],
        former: [former_most.text()?, former_used.text()?],
        reclaimable: None,
    };
    let mut left: Option<usize> = None;
    groups::each_limit(&resource, |limit| left = Some(left.unwrap_or(usize::MAX).min(limit.left())));
    left
}

/// What the kernel says of all large pages of a size.
fn supply_bytes(page_bytes: usize, what: &str) -> Option<usize> {
    let kib = page_bytes >> 10;
    let path = Name::new(format_args!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/{what}_hugepages"))?;
    let told = Short::read(CStr::from_bytes_until_nul(&path.0).ok()?)?;
    number(told.bytes())?.checked_mul(page_bytes)
}
