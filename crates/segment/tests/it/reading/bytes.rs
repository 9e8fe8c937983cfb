//! What decoding does with bytes that nobody meant, without files: whatever is accepted keeps the format's promises.
//!
//! The functions here are also the bodies of fuzz targets in `fuzz/`, which give them other bytes.
#![allow(dead_code)]

use stillframe_segment::description::{self, Blocks, READ_EASY};
use stillframe_segment::head::{self, Descriptor};
use stillframe_segment::table::{self, Entry};
use stillframe_segment::{BLOCK_BYTES, Corrupt, Description, Manifest, PLANES_MAX, Schema, WINDOW_PAGES, schema};

/// The beginning of a head, and its descriptors.
pub fn head(bytes: &[u8]) {
    if let Err(corrupt) = head::check_geometry(bytes) {
        assert_eq!(corrupt.file, head::FILE);
        assert!(corrupt.offset < 64);
    }
    let mut words = [0; head::DESCRIPTOR_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().unwrap());
    }
    let decoded = Descriptor::decode(words);
    assert_eq!(Descriptor::decode(decoded.encode()), decoded);
}

/// A schema's text.
pub fn schema(bytes: &[u8]) {
    match Schema::decode("schema.1", bytes) {
        Ok(schema) => assert_eq!(Schema::decode("schema.1", &schema.encode()), Ok(schema)),
        Err(corrupt) => assert!(corrupt.offset <= bytes.len() as u64, "{corrupt:?}"),
    }
}

/// A number of windows and a manifest.
pub fn manifest(bytes: &[u8]) {
    let Some((windows, bytes)) = bytes.split_first_chunk::<2>() else { return };
    let windows = u32::from(u16::from_le_bytes(*windows));
    match Manifest::decode(table::FILE, BLOCK_BYTES, bytes, windows) {
        Ok(manifest) => check_manifest(&manifest, bytes.len(), windows),
        Err(corrupt) => assert!(corrupt.offset <= (BLOCK_BYTES + bytes.len()) as u64, "{corrupt:?}"),
    }
}

/// A window table and a sub-table.
pub fn tables(bytes: &[u8]) {
    let [blocks, planes] = [0, 1].map(|index| bytes.get(index).copied().unwrap_or(0));
    let bytes = bytes.get(2..).unwrap_or(&[]);
    for (index, word) in bytes.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes(word.try_into().unwrap());
        match Entry::decode(word, index * 4, blocks.into(), planes.into()) {
            Ok(entry) => assert_eq!(entry.encode(), word),
            Err(corrupt) => assert_eq!(corrupt.offset, index as u64 * 4),
        }
    }
    if let Some(subtable) = bytes.first_chunk::<WINDOW_PAGES>() {
        let bad =
            |plane: &u8| *plane != table::ZERO_PLANE && usize::from(*plane) >= usize::from(planes).min(PLANES_MAX);
        match table::check_subtable(3, subtable, planes.into()) {
            Ok(()) => assert!(!subtable.iter().any(bad)),
            Err(corrupt) => assert!(bad(&subtable[corrupt.offset as usize - 3 * BLOCK_BYTES])),
        }
    }
}

/// A `tables` file in memory.
pub struct Tables<'a>(pub &'a [u8]);

impl Blocks for Tables<'_> {
    type Error = Corrupt;

    fn count(&self) -> Result<u32, Corrupt> {
        Ok((self.0.len() / BLOCK_BYTES) as u32)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Corrupt> {
        assert!(out.len() <= READ_EASY.max(self.0.len()), "{} bytes taken for {}", out.len(), self.0.len());
        let part = self.0.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(part.ok_or_else(|| description::missing(offset, out.len(), self.count().unwrap()))?);
        Ok(())
    }

    fn corrupt(&self, corrupt: Corrupt) -> Corrupt {
        corrupt
    }

    fn no_memory(&self, bytes: usize) -> Corrupt {
        panic!("there is no memory for {bytes} bytes")
    }
}

/// Slot of the ring in which the descriptor is said to lie.
const SLOT: usize = 5;
/// Bytes of an encoded descriptor.
pub const DESCRIPTOR_BYTES: usize = 8 * head::DESCRIPTOR_WORDS;
/// Checksums are made to fit what is there, as somebody who means harm would leave them.
pub const MEND: u8 = 1;

/// A version's description, as [`description`] takes it.
pub fn spell(flags: u8, descriptor: &Descriptor, schema: &[u8], tables: &[u8]) -> Vec<u8> {
    let words = descriptor.encode().map(u64::to_le_bytes).concat();
    [&[flags], &words[..], &(schema.len() as u16).to_le_bytes(), schema, tables].concat()
}

/// How far a description was believed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Believed {
    pub manifest: bool,
    pub entries: bool,
    /// Sub-tables, and how many were refused.
    pub subtables: usize,
    pub refused_subtables: usize,
    pub schema: bool,
    pub variables: bool,
}

fn refuse<T>(result: Result<T, Corrupt>) -> Option<T> {
    result
        .inspect_err(|corrupt| {
            let descriptor = head::descriptor_at(SLOT) as u64;
            let known = match corrupt.file.as_str() {
                head::FILE => (descriptor..descriptor + head::DESCRIPTOR_BYTES as u64).contains(&corrupt.offset),
                table::FILE => corrupt.offset < (u64::from(u32::MAX) + 1) * BLOCK_BYTES as u64,
                file => file == "schema.1",
            };
            assert!(known && !corrupt.expected.is_empty() && !corrupt.found.is_empty(), "{corrupt:?}");
        })
        .ok()
}

/// A version's description: a byte of flags, a descriptor, a schema with its length before it, and a `tables` file. It is
/// read as an observer and the next producer read it.
pub fn description(bytes: &[u8]) -> Believed {
    let mut believed = Believed::default();
    let Some(([flags], bytes)) = bytes.split_first_chunk::<1>() else { return believed };
    let Some((words, bytes)) = bytes.split_first_chunk::<DESCRIPTOR_BYTES>() else { return believed };
    let Some((length, bytes)) = bytes.split_first_chunk::<2>() else { return believed };
    let length = usize::from(u16::from_le_bytes(*length)).min(bytes.len());
    let (text, bytes) = bytes.split_at(length);
    let (words, _) = words.as_chunks();
    let mut found = Descriptor::decode(std::array::from_fn(|word| u64::from_le_bytes(words[word])));
    let part = |block: u32, count: usize| {
        let start = block as usize * BLOCK_BYTES;
        bytes.get(start..start + count)
    };
    let (manifest_part, table_part) = (
        part(found.manifest_block, found.manifest_bytes as usize),
        part(found.table_block, found.windows as usize * 4),
    );
    if flags & MEND != 0 {
        found.manifest_crc = manifest_part.map_or(0, table::checksum);
        found.table_crc = table_part.map_or(0, table::checksum);
    }
    let tables = Tables(bytes);
    let blocks = tables.count().unwrap();
    let Some(description) = refuse(Description::new(&tables, found, SLOT)) else { return believed };
    let checked = refuse(description.check_manifest());
    let manifest = refuse(description.manifest());
    assert!(checked.is_some() || manifest.is_none());
    let entries = refuse(description.entries());
    if let Some(entries) = &entries {
        believed.entries = true;
        let (words, _) = table_part.unwrap().as_chunks();
        assert_eq!(entries.len(), found.windows as usize);
        assert!(entries.iter().map(|entry| entry.encode().to_le_bytes()).eq(words.iter().copied()));
        for entry in entries {
            match *entry {
                Entry::Uniform(plane) => assert!(table::is_plane(plane, PLANES_MAX)),
                Entry::Mixed(block) => {
                    assert!(block < blocks);
                    believed.subtables += 1;
                    let at = u64::from(block) * BLOCK_BYTES as u64;
                    match description::read_subtable(&tables, block) {
                        Ok(planes) => assert!(planes.iter().all(|plane| table::is_plane(*plane, PLANES_MAX))),
                        Err(corrupt) => {
                            believed.refused_subtables += 1;
                            assert!((at..at + WINDOW_PAGES as u64).contains(&corrupt.offset), "{corrupt:?}");
                        }
                    }
                }
            }
        }
    }
    let Some(manifest) = manifest else { return believed };
    believed.manifest = true;
    check_manifest(&manifest, manifest_part.unwrap().len(), found.windows);
    let Some(schema) = refuse(Schema::decode("schema.1", text)) else { return believed };
    believed.schema = true;
    let Some(variables) = refuse(description::find_variables(&manifest, found.manifest_block, &schema)) else {
        return believed;
    };
    believed.variables = true;
    assert_eq!(variables.len(), manifest.extents.len());
    for (variable, extent) in variables.iter().zip(&manifest.extents) {
        assert_eq!(variable.id, extent.variable);
        assert!(variable.id < schema::ID_END);
        let elements: u128 = extent.shape.iter().map(|n| u128::from(*n)).product();
        assert_eq!(elements * variable.dtype.bytes() as u128, u128::from(extent.bytes));
        // What an observer follows from page to page.
        if let Some(entries) = &entries {
            let first = extent.window as usize;
            assert!(entries.get(first..first + extent.windows() as usize).is_some());
        }
    }
    believed
}

/// What was accepted lies in its windows, takes no more than it was given, and reads back as itself.
fn check_manifest(manifest: &Manifest, bytes: usize, windows: u32) {
    for extent in &manifest.extents {
        assert!(u64::from(extent.window) + extent.windows() <= u64::from(windows));
        assert!(extent.pages() <= extent.windows() * WINDOW_PAGES as u64);
    }
    let mut again = Vec::new();
    Manifest::encode(&manifest.extents, &manifest.attributes, &mut again);
    assert!(again.len() <= bytes);
    let decoded = Manifest::decode(table::FILE, BLOCK_BYTES, &again, windows).unwrap();
    // Compared as bytes, because a number that is none differs from itself.
    let mut twice = Vec::new();
    Manifest::encode(&decoded.extents, &decoded.attributes, &mut twice);
    assert_eq!(again, twice);
}
