//! A mapping's part of its file as an observer sees it: what it was before the program wrote into it.

use crate::file::{View, Working};
use crate::holes;
use crate::kernel::{self, Own};
use crate::next;
use crate::observer::{self, Fresh};
use crate::report::Problem;
use std::ops::Range;
use std::os::fd::AsRawFd;

pub struct Pristine {
    pub own: Own,
    /// The bytes of it that are zeros: of holes of the file, or of a version over it.
    pub holes: Vec<Range<usize>>,
    _view: Option<View>,
}

impl Pristine {
    pub fn open(working: &Working, bytes: usize) -> Result<Pristine, Problem> {
        let file = &working.file;
        let fail = |error: std::io::Error| Problem::new(error.raw_os_error().unwrap_or(libc::EIO), error.to_string());
        let open = file.open().map_err(fail)?;
        let (flags, offset) = (libc::MAP_PRIVATE | libc::MAP_NORESERVE, working.offset);
        let address = next::mmap(0, bytes, libc::PROT_READ, flags, open.as_raw_fd(), offset as libc::off_t);
        if !kernel::is_address(address) {
            return Err(Problem::new(kernel::errno(), format!("no mapping of {bytes} bytes")));
        }
        let own = Own { address, bytes };
        let laid = observer::show(file, &Fresh { address, bytes, offset, protection: libc::PROT_READ })?;
        let (view, covered, mut holes) = match laid {
            Some(laid) => (Some(laid.view), laid.covered, laid.zeros),
            None => (None, Vec::new(), Vec::new()),
        };
        if holes::may_be_sparse(&open.metadata().map_err(fail)?) {
            holes.extend(holes::without(holes::of_file(&open, offset, bytes)?, covered));
            holes.sort_by_key(|hole| hole.start);
        }
        Ok(Pristine { own, holes, _view: view })
    }
}
