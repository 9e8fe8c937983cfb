//! Manifests: where each variable of a version lies, and the version's attributes.
//!
//! A manifest is a run of blocks in `tables`: a header of [`HEADER_BYTES`], a record of [`EXTENT_BYTES`] for each variable,
//! then the attributes. All numbers are little-endian.

use crate::{Corrupt, Order, PAGE_BYTES, RANK_MAX, Scalar, WINDOW_PAGES};
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// First four bytes: "MANI".
pub const MAGIC: u32 = u32::from_le_bytes(*b"MANI");
/// Bytes of the header: the magic, the number of extents, the number of attributes and a zero, 4 bytes each.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the record of one variable.
pub const EXTENT_BYTES: usize = 104;
/// Largest manifest a reader accepts.
pub const BYTES_MAX: usize = 64 << 20;
/// Serial numbers of places are below this, so that a producer can count on from any it finds.
pub const ALLOCATION_END: u64 = 1 << 63;

/// Offset in a record of the variable's id, 4 bytes.
pub const ID_AT: usize = 0;
/// Offset in a record of the order of the elements, 1 byte: 0 row-major, 1 column-major.
pub const ORDER_AT: usize = 4;
/// Offset in a record of the number of dimensions, 1 byte.
pub const NDIM_AT: usize = 5;
/// Offset in a record of the first byte's place in its page, 2 bytes.
pub const PAGE_OFFSET_AT: usize = 6;
/// Offset in a record of the first window, 4 bytes.
pub const WINDOW_AT: usize = 8;
/// Offset in a record of four zero bytes.
pub const ZERO_AT: usize = 12;
/// Offset in a record of the number of bytes, 8 bytes.
pub const BYTES_AT: usize = 16;
/// Offset in a record of the serial number of the allocation, 8 bytes: it changes when the content may differ everywhere.
pub const ALLOCATION_AT: usize = 24;
/// Offset in a record of the shape, [`RANK_MAX`] numbers of 8 bytes, unused ones zero.
pub const SHAPE_AT: usize = 32;

/// Where a variable lies in the page space of its region, in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// The variable.
    pub variable: u32,
    /// Order of the elements in this version.
    pub order: Order,
    /// Shape in this version; its product times the element size is `bytes`.
    pub shape: Vec<u64>,
    /// First window.
    pub window: u32,
    /// Offset of the first byte in the first page: that of the application's own memory for tracked variables.
    pub page_offset: u16,
    /// Number of bytes.
    pub bytes: u64,
    /// Serial number of the allocation. Two versions may be compared page by page only where it is the same.
    pub allocation: u64,
}

impl Extent {
    /// Number of pages the variable touches.
    pub fn pages(&self) -> u64 {
        (self.page_offset as u64 + self.bytes).div_ceil(PAGE_BYTES as u64)
    }

    /// Number of windows the variable touches.
    pub fn windows(&self) -> u64 {
        self.pages().div_ceil(WINDOW_PAGES as u64)
    }

    /// The windows that belong to the variable; one without bytes has one all the same.
    pub fn window_range(&self) -> std::ops::Range<u64> {
        let start = u64::from(self.window);
        start..start + self.windows().max(1)
    }
}

/// All of a version but its pages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manifest {
    /// The variables, each at its place.
    pub extents: Vec<Extent>,
    /// The version's attributes.
    pub attributes: BTreeMap<String, Scalar>,
}

/// Kind of an attribute that is a truth value: 1 byte, 0 or not.
pub const KIND_BOOL: u8 = 0;
/// Kind of an attribute that is a whole number: 8 bytes, signed.
pub const KIND_INT: u8 = 1;
/// Kind of an attribute that is a real number: 8 bytes, IEEE 754.
pub const KIND_FLOAT: u8 = 2;
/// Kind of an attribute that is text: as many bytes as it has, UTF-8.
pub const KIND_TEXT: u8 = 3;

impl Manifest {
    /// Appends the manifest's bytes to `out`.
    pub fn encode<E: Borrow<Extent>>(extents: &[E], attributes: &BTreeMap<String, Scalar>, out: &mut Vec<u8>) {
        for word in [MAGIC, extents.len() as u32, attributes.len() as u32, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for extent in extents {
            out.extend_from_slice(&record(extent.borrow()));
        }
        for (name, value) in attributes {
            let (kind, payload): (u8, Vec<u8>) = match value {
                Scalar::Bool(value) => (KIND_BOOL, vec![u8::from(*value)]),
                Scalar::Int(value) => (KIND_INT, value.to_le_bytes().to_vec()),
                Scalar::Float(value) => (KIND_FLOAT, value.to_le_bytes().to_vec()),
                Scalar::Text(value) => (KIND_TEXT, value.as_bytes().to_vec()),
            };
            out.extend_from_slice(&(name.len() as u32).to_le_bytes());
            out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            out.push(kind);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&payload);
        }
    }

    /// Reads a manifest found at byte `base` of the file called `file`, whose window table has `windows` windows.
    pub fn decode(file: &str, base: usize, bytes: &[u8], windows: u32) -> Result<Manifest, Corrupt> {
        let mut reader = Reader { file, base, bytes, at: 0 };
        let magic = reader.u32()?;
        if magic != MAGIC {
            return Err(Corrupt::new(file, base, "the magic \"MANI\" of a manifest", format!("{magic:#010x}")));
        }
        let extent_count = reader.u32()?;
        let attribute_count = reader.u32()?;
        reader.u32()?;
        let mut extents = Vec::new();
        for _ in 0..extent_count {
            extents.push(reader.extent(windows)?);
        }
        reader.check_apart(&extents)?;
        let mut attributes = BTreeMap::new();
        for _ in 0..attribute_count {
            let (name, value) = reader.attribute()?;
            attributes.insert(name, value);
        }
        Ok(Manifest { extents, attributes })
    }
}

/// The record of a variable.
fn record(extent: &Extent) -> [u8; EXTENT_BYTES] {
    let mut record = [0; EXTENT_BYTES];
    let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
    put(ID_AT, &extent.variable.to_le_bytes());
    put(ORDER_AT, &[u8::from(extent.order == Order::Fortran)]);
    put(NDIM_AT, &[extent.shape.len() as u8]);
    put(PAGE_OFFSET_AT, &extent.page_offset.to_le_bytes());
    put(WINDOW_AT, &extent.window.to_le_bytes());
    put(BYTES_AT, &extent.bytes.to_le_bytes());
    put(ALLOCATION_AT, &extent.allocation.to_le_bytes());
    for (dimension, length) in extent.shape.iter().take(RANK_MAX).enumerate() {
        put(SHAPE_AT + dimension * size_of::<u64>(), &length.to_le_bytes());
    }
    record
}

struct Reader<'a> {
    file: &'a str,
    base: usize,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, at: usize, expected: impl ToString, found: impl ToString) -> Result<T, Corrupt> {
        Err(Corrupt::new(self.file, self.base + at, expected, found))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Corrupt> {
        match self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end)) {
            Some(part) => {
                self.at += count;
                Ok(part)
            }
            None => self.fail(self.at, format!("{count} bytes of a manifest"), "its end"),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, Corrupt> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn extent(&mut self, windows: u32) -> Result<Extent, Corrupt> {
        let start = self.at;
        let variable = self.u32()?;
        let [order, ndim] = self.array()?;
        let page_offset = u16::from_le_bytes(self.array()?);
        let window = self.u32()?;
        self.u32()?;
        let bytes = self.u64()?;
        let allocation = self.u64()?;
        let mut shape = Vec::with_capacity(RANK_MAX);
        for _ in 0..RANK_MAX {
            shape.push(self.u64()?);
        }
        self.u64()?;
        let order = match order {
            0 => Order::C,
            1 => Order::Fortran,
            other => return self.fail(start + ORDER_AT, "order 0 or 1", other),
        };
        if ndim as usize > RANK_MAX {
            return self.fail(start + NDIM_AT, format!("at most {RANK_MAX} dimensions"), ndim);
        }
        shape.truncate(ndim as usize);
        if page_offset as usize >= PAGE_BYTES {
            return self.fail(start + PAGE_OFFSET_AT, "an offset inside a page", page_offset);
        }
        // The bound keeps every later sum of offsets far from overflow.
        let Some(elements) = shape.iter().try_fold(1u64, |product, n| product.checked_mul(*n)) else {
            return self.fail(start + SHAPE_AT, "a shape of fewer than 2^64 elements", format!("{shape:?}"));
        };
        if bytes > 1 << 48 || (elements == 0) != (bytes == 0) || (elements != 0 && !bytes.is_multiple_of(elements)) {
            return self.fail(start + BYTES_AT, format!("the bytes of {elements} elements"), bytes);
        }
        if allocation >= ALLOCATION_END {
            return self.fail(start + ALLOCATION_AT, format!("a serial number below {ALLOCATION_END}"), allocation);
        }
        let extent = Extent { variable, order, shape, window, page_offset, bytes, allocation };
        if extent.window_range().end > u64::from(windows) {
            return self.fail(start + WINDOW_AT, format!("a place inside {windows} windows"), window);
        }
        Ok(extent)
    }

    /// Each variable occurs once and has its windows to itself.
    fn check_apart(&self, extents: &[Extent]) -> Result<(), Corrupt> {
        if extents.len() < 2 {
            return Ok(());
        }
        let at = |index: usize, field: usize| HEADER_BYTES + index * EXTENT_BYTES + field;
        let mut order: Vec<usize> = (0..extents.len()).collect();
        order.sort_by_key(|index| extents[*index].variable);
        if let Some(pair) = order.windows(2).find(|pair| extents[pair[0]].variable == extents[pair[1]].variable) {
            return self.fail(at(pair[1], ID_AT), "a variable that did not occur before", extents[pair[1]].variable);
        }
        order.sort_by_key(|index| extents[*index].window);
        let meet = |pair: &&[usize]| extents[pair[0]].window_range().end > u64::from(extents[pair[1]].window);
        match order.windows(2).find(meet) {
            Some(pair) => self.fail(at(pair[1], WINDOW_AT), "windows of its own", extents[pair[1]].window),
            None => Ok(()),
        }
    }

    fn attribute(&mut self) -> Result<(String, Scalar), Corrupt> {
        let start = self.at;
        let name_bytes = self.u32()? as usize;
        let payload_bytes = self.u32()? as usize;
        let [kind] = self.array()?;
        let text = |reader: &Self, bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_string()),
            Err(error) => reader.fail(start, "UTF-8 text", error),
        };
        let name = self.take(name_bytes)?;
        let name = text(self, name)?;
        let payload = self.take(payload_bytes)?;
        let value = match (kind, payload.len()) {
            (KIND_BOOL, 1) => Scalar::Bool(payload[0] != 0),
            (KIND_INT, 8) => Scalar::Int(i64::from_le_bytes(payload.try_into().unwrap_or_default())),
            (KIND_FLOAT, 8) => Scalar::Float(f64::from_le_bytes(payload.try_into().unwrap_or_default())),
            (KIND_TEXT, _) => Scalar::Text(text(self, payload)?),
            _ => {
                return self.fail(
                    start,
                    "an attribute of kind 0 to 3",
                    format!("kind {kind} of {payload_bytes} bytes"),
                );
            }
        };
        Ok((name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        let extent = Extent {
            variable: 3,
            order: Order::Fortran,
            shape: vec![10, 20],
            window: 1,
            page_offset: 16,
            bytes: 1600,
            allocation: 9,
        };
        let attributes = [
            ("time".to_string(), Scalar::Float(0.5)),
            ("step".to_string(), Scalar::Int(-4)),
            ("phase".to_string(), Scalar::Text("melt".into())),
            ("last".to_string(), Scalar::Bool(true)),
        ];
        Manifest { extents: vec![extent], attributes: attributes.into() }
    }

    #[test]
    fn a_manifest_survives_its_bytes() {
        let manifest = example();
        let mut bytes = Vec::new();
        Manifest::encode(&manifest.extents, &manifest.attributes, &mut bytes);
        // One field behind the other, as the format has them.
        let fields: [&[u8]; 7] = [
            &3u32.to_le_bytes(),
            &[1, 2, 16, 0],
            &[1, 0, 0, 0],
            &[0; 4],
            &1600u64.to_le_bytes(),
            &9u64.to_le_bytes(),
            &[10, 0, 0, 0, 0, 0, 0, 0, 20],
        ];
        let record: Vec<u8> = fields.concat().into_iter().chain(std::iter::repeat(0)).take(EXTENT_BYTES).collect();
        assert_eq!(bytes[HEADER_BYTES..HEADER_BYTES + EXTENT_BYTES], record);
        assert_eq!(Manifest::decode("tables", 512, &bytes, 2), Ok(manifest));
        assert_eq!(bytes[HEADER_BYTES + EXTENT_BYTES..].len(), 4 * 9 + 4 + 8 + 4 + 8 + 5 + 4 + 4 + 1);
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_an_error_or_a_manifest() {
        let manifest = example();
        let mut bytes = Vec::new();
        Manifest::encode(&manifest.extents, &manifest.attributes, &mut bytes);
        for end in 0..bytes.len() {
            assert!(Manifest::decode("tables", 0, &bytes[..end], 2).is_err());
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[at] ^= flip;
                let _ = Manifest::decode("tables", 0, &broken, 2);
            }
        }
        assert_eq!(Manifest::decode("tables", 512, &bytes, 1).unwrap_err().offset, 512 + 16 + WINDOW_AT as u64);
    }

    #[test]
    fn variables_that_share_windows_or_a_number_are_an_error() {
        let first = example().extents.remove(0);
        let offset = |second: Extent| {
            let mut bytes = Vec::new();
            Manifest::encode(&[first.clone(), second], &BTreeMap::new(), &mut bytes);
            Manifest::decode("tables", 0, &bytes, 9).err().map(|corrupt| corrupt.offset as usize)
        };
        let second = Extent { variable: 4, window: 2, ..first.clone() };
        let at = HEADER_BYTES + EXTENT_BYTES;
        assert_eq!(offset(second.clone()), None);
        assert_eq!(offset(Extent { variable: 3, ..second.clone() }), Some(at + ID_AT));
        assert_eq!(offset(Extent { window: 1, ..second.clone() }), Some(at + WINDOW_AT));
        assert_eq!(offset(Extent { window: 9, shape: vec![0], bytes: 0, ..second.clone() }), Some(at + WINDOW_AT));
        assert_eq!(offset(Extent { allocation: ALLOCATION_END, ..second }), Some(at + ALLOCATION_AT));
    }
}
