//! A step through files in shared memory, as the paper has it.
//!
//! # Safety
//!
//! This module maps files and makes slices of them. Its invariant: a mapping is as long as its file, nobody else has the files open,
//! and no slice outlives its mapping.
#![allow(unsafe_code)]

use crate::sweep::{advance, check, compute, timed};
use crate::{Means, Result, Told};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

struct Map {
    address: *mut libc::c_void,
    bytes: usize,
}

impl Map {
    fn new(file: &File, bytes: usize, writable: bool) -> Result<Map> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: the kernel chooses the addresses.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        match address {
            libc::MAP_FAILED => Err(std::io::Error::last_os_error().into()),
            address => Ok(Map { address, bytes }),
        }
    }

    fn numbers(&self) -> &[f64] {
        // SAFETY: the mapping is of this length, page-aligned, and writing needs it exclusively.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes / 8) }
    }

    fn numbers_mut(&mut self) -> &mut [f64] {
        // SAFETY: as above; only writable mappings are asked for this.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes / 8) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it is left.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}

fn create(path: &Path, bytes: usize) -> Result<Map> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    file.set_len(bytes as u64)?;
    Map::new(&file, bytes, true)
}

pub fn step(dir: &Path, bytes: usize, number: u64, means: Means) -> Result<Told> {
    let path = |number: u64| -> PathBuf {
        dir.join(if means == Means::Turns { format!("state.{}", number % 2) } else { format!("state.{number}") })
    };
    let mut told = Told::default();
    if number == 0 {
        create(&path(0), bytes)?.numbers_mut().fill(0.0);
        return Ok(told);
    }
    let (old, new) = (path(number - 1), path(number));
    let (read, map_read) = timed(|| Map::new(&File::open(&old)?, bytes, false));
    let (write, map_write) = timed(|| create(&new, bytes));
    let (read, mut write) = (read?, write?);
    let ((), first) = timed(|| advance(read.numbers(), write.numbers_mut()));
    compute(read.numbers(), write.numbers_mut(), &mut told);
    check(write.numbers(), number)?;
    let mut unlink = 0.0;
    let mut free = |wanted: bool| -> Result<()> {
        if wanted {
            let (removed, ms) = timed(|| std::fs::remove_file(&old));
            removed?;
            unlink = ms;
        }
        Ok(())
    };
    free(means == Means::Unlinked)?;
    let ((), unmap_read) = timed(|| drop(read));
    free(means == Means::Linked)?;
    let ((), unmap_write) = timed(|| drop(write));
    let parts = [
        ("mmap", map_read + map_write),
        ("first touch", first - told.compute),
        ("munmap read", unmap_read),
        ("munmap written", unmap_write),
        ("unlink", unlink),
    ];
    told.parts.extend(parts.map(|(name, ms)| (name.into(), ms)));
    Ok(told)
}
