//! What this process was granted.

use crate::directory::Directory;
use crate::problem::Problem;
use crate::record::{Content, Record};
use crate::segment::check_segid;
use crate::state::State;
use stillframe_kernel::folder;

/// What a process was granted for a segment.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    pub segid: i64,
    pub writing: bool,
}

impl Access {
    /// The segment, if it is there still and this process may use it as it was granted.
    pub fn record(self, state: &State) -> Result<(Directory, Record), Problem> {
        let directory = state.directory()?.ok_or(Problem::NoSegment { segid: self.segid })?;
        let record = Record::find(&directory, self.segid, self.writing)?;
        Ok((directory, record))
    }

    /// How files with pages are opened.
    pub fn files(self) -> folder::Access {
        if self.writing { folder::Access::Write } else { folder::Access::Read }
    }
}

/// Asks for a segment.
pub fn get(state: &mut State, segid: i64, writing: bool) -> Result<i64, Problem> {
    check_segid(segid)?;
    let access = Access { segid, writing };
    let (directory, record) = access.record(state)?;
    // What cannot be attached is not granted.
    if let Content::Live { pieces } = &record.content {
        for piece in pieces {
            directory.open(&piece.file, access.files())?;
        }
    }
    state.granted_before += 1;
    let apid = state.granted_before;
    state.granted.insert(apid, access);
    Ok(apid)
}

/// What was granted under a number.
pub fn granted(state: &State, apid: i64) -> Result<Access, Problem> {
    if apid <= 0 {
        return Err(Problem::argument("apid", format!("{apid} is none: they are above 0")));
    }
    state.granted.get(&apid).copied().ok_or(Problem::NoAccess { apid })
}
