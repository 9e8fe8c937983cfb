//! Descriptions: what a version says of itself, in the blocks of `tables` to which its descriptor points.
//!
//! Observers and the next producer read descriptions here, each with a way of its own to the bytes, so that both accept the
//! same ones. A part is read when it is asked for.

use crate::head::Descriptor;
use crate::table::{self, Entry};
use crate::{BLOCK_BYTES, Corrupt, Manifest, PLANES_MAX, Schema, Variable, WINDOW_PAGES, manifest};
use std::borrow::Cow;

/// The blocks of a `tables` file, however their bytes are read.
pub trait Blocks {
    /// Why bytes could not be read, or are not believed.
    type Error;

    /// Number of whole blocks. It is asked for only where it decides, because it may cost a system call.
    fn count(&self) -> Result<u32, Self::Error>;

    /// As [`count`](Blocks::count), but any lower number that is above `block` will do: where the file was once so long, it need
    /// not be asked for again.
    ///
    /// # Errors
    /// As [`count`](Blocks::count).
    fn count_beyond(&self, _block: u32) -> Result<u32, Self::Error> {
        self.count()
    }

    /// Fills `out` from byte `offset` of the file on.
    ///
    /// # Errors
    /// [`missing`] if the file has fewer bytes.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Self::Error>;

    /// Bytes from byte `offset` of the file on, if they were read already.
    fn at_hand(&self, _offset: u64, _bytes: usize) -> Option<&[u8]> {
        None
    }

    /// The error that tells of damage.
    fn corrupt(&self, corrupt: Corrupt) -> Self::Error;

    /// The error that there is no memory for this many bytes of a description. What says how many they are is not to be
    /// trusted, so that this may happen on any machine.
    fn no_memory(&self, bytes: usize) -> Self::Error;
}

/// Bytes that are read without asking first whether there are so many.
pub const READ_EASY: usize = 1 << 20;

/// Names bytes that are behind the end of a `tables` file of `count` blocks.
pub fn missing(offset: u64, bytes: usize, count: u32) -> Corrupt {
    Corrupt::new(
        table::FILE,
        offset as usize,
        format!("{bytes} bytes"),
        format!("the end of the file's {count} blocks"),
    )
}

/// The description of one version.
#[derive(Debug)]
pub struct Description<'a, B> {
    blocks: &'a B,
    descriptor: Descriptor,
}

impl<'a, B: Blocks> Description<'a, B> {
    /// The one to which the descriptor in ring slot `slot` points.
    ///
    /// # Errors
    /// What is wrong with the descriptor.
    pub fn new(blocks: &'a B, descriptor: Descriptor, slot: usize) -> Result<Self, B::Error> {
        descriptor.check(slot).map_err(|corrupt| blocks.corrupt(corrupt))?;
        Ok(Description { blocks, descriptor })
    }

    /// Checks that the manifest is there as it was published, without decoding it.
    ///
    /// # Errors
    /// Bytes that are missing or do not fit their checksum.
    pub fn check_manifest(&self) -> Result<(), B::Error> {
        self.manifest_bytes().map(drop)
    }

    /// The manifest.
    ///
    /// # Errors
    /// As [`check_manifest`](Description::check_manifest), and bytes that are no manifest.
    pub fn manifest(&self) -> Result<Manifest, B::Error> {
        let base = self.descriptor.manifest_block as usize * BLOCK_BYTES;
        Manifest::decode(table::FILE, base, &self.manifest_bytes()?, self.descriptor.windows)
            .map_err(|corrupt| self.blocks.corrupt(corrupt))
    }

    /// The window table: an entry for each window.
    ///
    /// # Errors
    /// Bytes that are missing or do not fit their checksum, and entries that name no plane and no block.
    pub fn entries(&self) -> Result<Vec<Entry>, B::Error> {
        let Descriptor { table_block, windows, table_crc, .. } = self.descriptor;
        let bytes = self.part(table_block, windows as usize * 4, table_crc, "a window table")?;
        let (words, _) = bytes.as_chunks();
        let words = words.iter().map(|word| u32::from_le_bytes(*word));
        let last = words.clone().filter(|word| word & table::SUBTABLE != 0).map(|word| word & !table::SUBTABLE).max();
        let count = last.map_or(Ok(0), |block| self.blocks.count_beyond(block))?;
        let base = table_block as usize * BLOCK_BYTES;
        let decode = |(index, word)| Entry::decode(word, base + 4 * index, count, PLANES_MAX);
        let mut entries = Vec::new();
        let reserved = entries.try_reserve_exact(words.len());
        reserved.map_err(|_| self.blocks.no_memory(words.len() * size_of::<Entry>()))?;
        for entry in words.enumerate().map(decode) {
            entries.push(entry.map_err(|corrupt| self.blocks.corrupt(corrupt))?);
        }
        Ok(entries)
    }

    fn manifest_bytes(&self) -> Result<Cow<'a, [u8]>, B::Error> {
        let Descriptor { manifest_block, manifest_bytes, manifest_crc, .. } = self.descriptor;
        self.part(manifest_block, manifest_bytes as usize, manifest_crc, "a manifest")
    }

    fn part(&self, block: u32, bytes: usize, crc: u32, what: &str) -> Result<Cow<'a, [u8]>, B::Error> {
        let offset = u64::from(block) * BLOCK_BYTES as u64;
        // Before much memory is taken for a number that may be anything.
        if bytes > READ_EASY {
            let count = self.blocks.count()?;
            if offset + bytes as u64 > u64::from(count) * BLOCK_BYTES as u64 {
                return Err(self.blocks.corrupt(missing(offset, bytes, count)));
            }
        }
        let part = match self.blocks.at_hand(offset, bytes) {
            Some(part) => Cow::Borrowed(part),
            None => {
                let mut buffer = Vec::new();
                buffer.try_reserve_exact(bytes).map_err(|_| self.blocks.no_memory(bytes))?;
                buffer.resize(bytes, 0);
                self.blocks.read(offset, &mut buffer)?;
                Cow::Owned(buffer)
            }
        };
        let found = table::checksum(&part);
        if found != crc {
            let expected = format!("{what} with checksum {crc:#010x}");
            return Err(self.blocks.corrupt(Corrupt::new(
                table::FILE,
                offset as usize,
                expected,
                format!("{found:#010x}"),
            )));
        }
        Ok(part)
    }
}

/// The plane of each page of a window, from the sub-table in `block`.
///
/// # Errors
/// Bytes that are missing or name no plane.
pub fn read_subtable<B: Blocks>(blocks: &B, block: u32) -> Result<[u8; WINDOW_PAGES], B::Error> {
    let mut subtable = [0; WINDOW_PAGES];
    blocks.read(u64::from(block) * BLOCK_BYTES as u64, &mut subtable)?;
    table::check_subtable(block, &subtable, PLANES_MAX).map_err(|corrupt| blocks.corrupt(corrupt))?;
    Ok(subtable)
}

/// What the schema says of each variable of the manifest in `block`, in the manifest's order.
///
/// # Errors
/// A variable that the schema lacks, or whose bytes are not those of its shape and type.
pub fn find_variables<'a>(manifest: &Manifest, block: u32, schema: &'a Schema) -> Result<Vec<&'a Variable>, Corrupt> {
    let base = block as usize * BLOCK_BYTES + manifest::HEADER_BYTES;
    let find = |(index, extent): (usize, &manifest::Extent)| {
        let at = base + index * manifest::EXTENT_BYTES;
        let variable = schema.variables.iter().find(|variable| variable.id == extent.variable);
        let variable =
            variable.ok_or_else(|| Corrupt::new(table::FILE, at, "a variable of the schema", extent.variable))?;
        let shape: Vec<usize> = extent.shape.iter().map(|n| *n as usize).collect();
        if variable.dtype.array_bytes(&shape) != Ok(extent.bytes as usize) {
            let expected = format!("the bytes of {shape:?} elements of {}", variable.dtype);
            return Err(Corrupt::new(table::FILE, at + manifest::BYTES_AT, expected, extent.bytes));
        }
        Ok(variable)
    };
    manifest.extents.iter().enumerate().map(find).collect()
}
