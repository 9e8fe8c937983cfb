//! Schemas that lie in the tables, as those of an arena's regions do.

use crate::place::arena::index::SchemaEntry;
use stillframe_segment::description::{self, Blocks};
use stillframe_segment::{BLOCK_BYTES, Corrupt, schema, table};

/// Reads the text of a schema.
pub(crate) fn read_entry<B: Blocks>(blocks: &B, entry: Option<SchemaEntry>) -> Result<Vec<u8>, B::Error> {
    let Some(SchemaEntry { block, bytes, crc, .. }) = entry else { return Ok(Vec::new()) };
    let offset = u64::from(block) * BLOCK_BYTES as u64;
    let most = u64::from(blocks.count()?) * BLOCK_BYTES as u64;
    if bytes as usize > schema::BYTES_MAX || offset + u64::from(bytes) > most {
        return Err(blocks.corrupt(description::missing(offset, bytes as usize, blocks.count()?)));
    }
    let mut text = vec![0; bytes as usize];
    blocks.read(offset, &mut text)?;
    match table::checksum(&text) {
        found if found == crc => Ok(text),
        found => {
            let (expected, found) = (format!("a schema with checksum {crc:#010x}"), format!("{found:#010x}"));
            Err(blocks.corrupt(Corrupt::new(table::FILE, offset as usize, expected, found)))
        }
    }
}
