//! What is told to others of a segment: a file of JSON with the segment's number in its name, and with the mode of its permit.

use crate::directory::{self, Directory};
use crate::memory::PAGE_BYTES;
use crate::problem::Problem;
use crate::process;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use stillframe_kernel::folder::Access;

/// Longest record that is read.
const RECORD_BYTES_MAX: u64 = 4 << 20;

/// A segment, as others know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub bytes: u64,
    /// When it was made, in nanoseconds since the machine started: nobody sets that clock.
    pub made_ns: u64,
    pub content: Content,
}

/// What a segment shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Memory of its maker.
    Live { pieces: Vec<Piece> },
    /// Bytes of a variable in one version of a region, from an offset on.
    Version { region: String, version: u64, variable: String, offset: u64 },
}

/// Pages that lie side by side in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
}

impl Record {
    /// Shows the record to all whom a mode lets read it.
    pub fn write(&self, directory: &Directory, segid: i64, mode: u32) -> Result<(), Problem> {
        let Some(maker) = process::maker_of(segid) else { return Err(Problem::NoSegment { segid }) };
        let (new, name) = (directory::new_file(maker), directory::record_file(segid));
        let failed = |call| move |error| Problem::file(call, directory::path().join(directory::new_file(maker)), error);
        directory.remove(&new)?;
        let written = directory.create(&new).and_then(|mut file| {
            let text = serde_json::to_vec(self).map_err(|error| failed("write")(error.into()))?;
            file.write_all(&text).map_err(failed("write"))?;
            directory.permit(&new, mode)?;
            directory.folder.rename_new(&new, &directory.folder, &name).map_err(failed("rename"))
        });
        if written.is_err() {
            let _ = directory.remove(&new);
        }
        written
    }

    /// The record of a segment whose maker lives. With `writing` the permit has to let this process write memory of the maker;
    /// a version is nobody's to write, and needs no such permit.
    pub fn find(directory: &Directory, segid: i64, writing: bool) -> Result<Record, Problem> {
        let missing = || Problem::NoSegment { segid };
        let maker = process::maker_of(segid).ok_or_else(missing)?;
        if !process::is_alive(directory, maker)? {
            return Err(missing());
        }
        let record = Record::read(directory, segid, maker)?.ok_or_else(missing)?;
        if writing && matches!(record.content, Content::Live { .. }) {
            match directory.open(&directory::record_file(segid), Access::Write) {
                Err(problem) if problem.is_missing() => return Err(missing()),
                opened => opened?,
            };
        }
        Ok(record)
    }

    /// The record of a segment; `None` if there is none.
    pub fn read(directory: &Directory, segid: i64, maker: u32) -> Result<Option<Record>, Problem> {
        let name = directory::record_file(segid);
        let (file, about) = match directory.open(&name, Access::Read) {
            Err(problem) if problem.is_missing() => return Ok(None),
            opened => opened?,
        };
        let damaged = |why: String| Problem::Damaged { path: directory::path().join(&name), why };
        if about.bytes > RECORD_BYTES_MAX {
            return Err(damaged(format!("it has {} bytes, and {RECORD_BYTES_MAX} are the most", about.bytes)));
        }
        let mut text = Vec::new();
        let read = file.take(RECORD_BYTES_MAX).read_to_end(&mut text);
        read.map_err(|error| Problem::file("read", directory::path().join(&name), error))?;
        let record: Record = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        record.check(maker).map_err(damaged)?;
        Ok(Some(record))
    }

    /// Refuses what no maker writes.
    fn check(&self, maker: u32) -> Result<(), String> {
        let is_whole = |number: u64| number.is_multiple_of(PAGE_BYTES as u64) && i64::try_from(number).is_ok();
        if self.bytes == 0 || !is_whole(self.bytes) || usize::try_from(self.bytes).is_err() {
            return Err(format!("it tells of {} bytes, which are no whole pages", self.bytes));
        }
        match &self.content {
            Content::Live { pieces } => {
                let mut bytes = 0u64;
                for piece in pieces {
                    if !directory::is_pages_file_of(&piece.file, maker) {
                        return Err(format!("'{}' is no file with pages of its maker", piece.file));
                    }
                    let end = piece.offset.checked_add(piece.bytes);
                    if piece.bytes == 0 || ![piece.offset, piece.bytes].into_iter().all(is_whole) || end.is_none() {
                        return Err(format!("{} bytes at {} are no whole pages", piece.bytes, piece.offset));
                    }
                    bytes = bytes.saturating_add(piece.bytes);
                }
                match bytes == self.bytes {
                    true => Ok(()),
                    false => Err(format!("its pieces have {bytes} bytes, and it tells of {}", self.bytes)),
                }
            }
            Content::Version { offset, region, .. } => match is_whole(*offset)
                && *region == directory::region_name(maker)
            {
                true => Ok(()),
                false => Err(format!("it tells of offset {offset} in region '{region}', which cannot be its maker's")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(pieces: &[(&str, u64, u64)], bytes: u64) -> Record {
        let pieces =
            pieces.iter().map(|(file, offset, bytes)| Piece { file: (*file).into(), offset: *offset, bytes: *bytes });
        Record { name: None, bytes, made_ns: 1, content: Content::Live { pieces: pieces.collect() } }
    }

    #[test]
    fn what_a_maker_writes_is_read_as_it_was() {
        let records = [
            live(&[(".xpmem-0000000a-1.pages", 4096, 8192), (".xpmem-0000000a-2.pages", 0, 4096)], 12288),
            Record {
                name: Some("a/b".into()),
                bytes: 4096,
                made_ns: 7,
                content: Content::Version {
                    region: "xasm-0000000a".into(),
                    version: 3,
                    variable: "u".into(),
                    offset: 4096,
                },
            },
        ];
        for record in records {
            let text = serde_json::to_vec(&record).unwrap();
            let read: Record = serde_json::from_slice(&text).unwrap();
            assert_eq!(read, record);
            assert_eq!(read.check(10), Ok(()));
            assert!(read.check(11).is_err(), "it is another maker's");
        }
    }

    #[test]
    fn what_no_maker_writes_is_refused() {
        let own = ".xpmem-0000000a-1.pages";
        let all = u64::MAX - 4095;
        for (pieces, bytes) in [
            (&[][..], 0),
            (&[], 4096),
            (&[(own, 0, 4096)], 8192),
            (&[(own, 1, 4096)], 4096),
            (&[(own, 0, 0), (own, 0, 4096)], 4096),
            (&[(own, 0, 100)], 100),
            (&[(own, all, 4096)], 4096),
            (&[(own, 0, all), (own, 0, 8192)], 4096),
            (&[("../head", 0, 4096)], 4096),
            (&[(".xpmem-0000000a", 0, 4096)], 4096),
            (&[(".xpmem-0000000a-1/../x.pages", 0, 4096)], 4096),
            (&[("plane.0", 0, 4096)], 4096),
        ] {
            assert!(live(pieces, bytes).check(10).is_err(), "{pieces:?} of {bytes}");
        }
    }
}
