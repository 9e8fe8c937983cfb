//! Whatever bytes a description is made of, decoding it ends in an answer that keeps the format's promises.
//!
//! Healthy descriptions are damaged in memory, many thousands of times, with numbers that follow from a seed.

use crate::bytes;

use crate::bytes::{Believed, MEND, Tables, description, spell};
use std::cell::Cell;
use std::collections::BTreeMap;
use stillframe_segment::description::{Blocks, READ_EASY, find_variables};
use stillframe_segment::head::{Descriptor, WINDOWS_MAX, descriptor};
use stillframe_segment::table::{self, Entry, ZERO_PLANE};
use stillframe_segment::{
    BLOCK_BYTES, Corrupt, DType, Description, Extent, Manifest, Order, Scalar, Schema, Variable, WINDOW_BYTES,
    WINDOW_PAGES, manifest,
};

/// Numbers at which arithmetic and limits break.
const NUMBERS: [u64; 10] = [0, 1, 3, 64, 512, 1 << 26, u32::MAX as u64 / 2 + 1, u32::MAX as u64, 1 << 63, u64::MAX];

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick(&mut self) -> u64 {
        match self.below(3) {
            0 => self.next() << 33 ^ self.next(),
            1 => self.below(1000) as u64,
            _ => NUMBERS[self.below(NUMBERS.len())].wrapping_sub(u64::from(self.below(4) == 0)),
        }
    }
}

/// A version's description, healthy or not.
#[derive(Clone)]
struct Sample {
    descriptor: Descriptor,
    schema: Vec<u8>,
    tables: Vec<u8>,
}

fn variable(id: u32, name: &str, dtype: DType) -> Variable {
    let attributes = BTreeMap::from([("scale".to_string(), Scalar::Float(2.0))]);
    Variable { id, name: name.into(), dtype, order: Order::C, units: "m".into(), attributes }
}

fn extent(variable: u32, window: u32, shape: &[u64], element: u64) -> Extent {
    let bytes = shape.iter().product::<u64>() * element;
    Extent { variable, order: Order::Fortran, shape: shape.into(), window, page_offset: 0, bytes, allocation: 9 }
}

/// A bit of everything: records, an array over two windows, one without elements, attributes of every kind, windows of
/// one plane, of several and of none.
fn healthy() -> Sample {
    let record = DType::packed([("mass", DType::Float(8)), ("name", DType::Bytes(4))]).unwrap();
    let wide = WINDOW_BYTES as u64 / 8 + 7;
    let variables =
        vec![variable(2, "wide", DType::Float(8)), variable(7, "records", record), variable(8, "empty", DType::Bool)];
    let extents =
        [extent(7, 0, &[3, 5], 12), Extent { page_offset: 24, ..extent(2, 1, &[wide], 8) }, extent(8, 3, &[4, 0], 1)];
    let attributes = BTreeMap::from([
        ("last".to_string(), Scalar::Bool(true)),
        ("phase".to_string(), Scalar::Text("melt".into())),
        ("step".to_string(), Scalar::Int(-4)),
        ("time".to_string(), Scalar::Float(0.5)),
    ]);
    let subtable: Vec<u8> = (0..WINDOW_PAGES).map(|page| if page % 7 == 0 { ZERO_PLANE } else { 2 }).collect();
    let entries = [Entry::Mixed(0), Entry::Uniform(1), Entry::Mixed(3), Entry::Uniform(ZERO_PLANE)];
    lay(Schema { variables }.encode(), &extents, &attributes, &entries, &subtable)
}

/// Sub-tables in blocks 0 and 3, the window table in block 1, another of nobody's in 2, the manifest from 4 on.
fn lay(
    schema: Vec<u8>,
    extents: &[Extent],
    attributes: &BTreeMap<String, Scalar>,
    entries: &[Entry],
    subtable: &[u8],
) -> Sample {
    let words: Vec<u8> = entries.iter().flat_map(|entry| entry.encode().to_le_bytes()).collect();
    let mut manifest = Vec::new();
    Manifest::encode(extents, attributes, &mut manifest);
    let descriptor = Descriptor {
        version: 41,
        manifest_block: 4,
        manifest_bytes: manifest.len() as u32,
        table_block: 1,
        windows: entries.len() as u32,
        manifest_crc: table::checksum(&manifest),
        table_crc: table::checksum(&words),
        published_ns: 1,
        dirty_pages: 2,
        total_pages: 3,
        schema: 1,
        run: 4,
    };
    let mut tables = vec![0; (4 + manifest.len().div_ceil(BLOCK_BYTES) + 2) * BLOCK_BYTES];
    for (block, part) in [(0, subtable), (1, &words), (3, subtable), (4, &manifest)] {
        tables[block * BLOCK_BYTES..][..part.len()].copy_from_slice(part);
    }
    Sample { descriptor, schema, tables }
}

fn write(bytes: &mut [u8], at: usize, size: usize, value: u64) {
    if let Some(part) = bytes.get_mut(at..) {
        let size = size.min(part.len());
        part[..size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

impl Sample {
    fn spelled(&self, flags: u8) -> Vec<u8> {
        spell(flags, &self.descriptor, &self.schema, &self.tables)
    }

    /// Damages one thing: a field, or anything at all.
    fn damage(&mut self, numbers: &mut Numbers) {
        let manifest_at = self.descriptor.manifest_block as usize % 8 * BLOCK_BYTES;
        let extent = manifest_at + manifest::HEADER_BYTES + numbers.below(4) * manifest::EXTENT_BYTES;
        let value = numbers.pick();
        let (at, size) = match numbers.below(18) {
            0 => (manifest_at + 4 * numbers.below(4), 4),
            1 => (extent + manifest::ID_AT, 4),
            2 => (extent + manifest::ORDER_AT, 1),
            3 => (extent + manifest::NDIM_AT, 1),
            4 => (extent + manifest::PAGE_OFFSET_AT, 2),
            5 => (extent + manifest::WINDOW_AT, 4),
            6 => (extent + manifest::BYTES_AT, 8),
            7 => (extent + manifest::ALLOCATION_AT, 8),
            8 => (extent + manifest::SHAPE_AT + 8 * numbers.below(9), 8),
            9 => (manifest_at + manifest::HEADER_BYTES + 3 * manifest::EXTENT_BYTES + numbers.below(99), 1),
            10 => (BLOCK_BYTES + 4 * numbers.below(4), 4),
            11 => {
                // A sub-table in a block that may be there.
                let word = Entry::Mixed(numbers.below(9) as u32).encode();
                return write(&mut self.tables, BLOCK_BYTES + 4 * numbers.below(4), 4, word.into());
            }
            12 => ([0, 3][numbers.below(2)] * BLOCK_BYTES + numbers.below(WINDOW_PAGES), 1),
            13 => return self.damage_descriptor(numbers, value),
            14 => return self.damage_schema(numbers, value),
            15 => return self.tables.truncate(numbers.below(self.tables.len() + 1)),
            16 => {
                // A part of it somewhere else.
                let (from, to) = (numbers.below(self.tables.len()), numbers.below(self.tables.len()));
                let count = numbers.below(600).min(self.tables.len() - from.max(to));
                return self.tables.copy_within(from..from + count, to);
            }
            _ => (numbers.below(self.tables.len()), 1 << numbers.below(4)),
        };
        write(&mut self.tables, at, size, value);
    }

    fn damage_descriptor(&mut self, numbers: &mut Numbers, value: u64) {
        let mut words = self.descriptor.encode().map(u64::to_le_bytes).concat();
        let at = match numbers.below(3) {
            0 => descriptor::WINDOWS_AT - 8,
            1 => descriptor::MANIFEST_BYTES_AT - 8,
            _ => 4 * numbers.below(words.len() / 4),
        };
        write(&mut words, at, 4, value);
        let (words, _) = words.as_chunks();
        self.descriptor = Descriptor::decode(std::array::from_fn(|word| u64::from_le_bytes(words[word])));
    }

    fn damage_schema(&mut self, numbers: &mut Numbers, value: u64) {
        let length = self.schema.len();
        let at = numbers.below(length);
        match numbers.below(4) {
            0 => write(&mut self.schema, at, 1, value),
            1 => self.schema.truncate(at),
            2 => {
                let from = numbers.below(length);
                let count = numbers.below(60).min(length - from.max(at));
                self.schema.copy_within(from..from + count, at);
            }
            _ => {
                if let Some(digit) = (at..length).find(|at| self.schema[*at].is_ascii_digit()) {
                    self.schema.splice(digit..=digit, value.to_string().into_bytes());
                }
            }
        }
    }
}

#[test]
fn a_healthy_description_is_believed() {
    let whole =
        Believed { manifest: true, entries: true, subtables: 2, refused_subtables: 0, schema: true, variables: true };
    assert_eq!(description(&healthy().spelled(0)), whole);
    assert_eq!(description(&healthy().spelled(MEND)), whole);
}

#[test]
fn damaged_descriptions_are_refused_or_keep_the_promises() {
    let healthy = healthy();
    let whole = description(&healthy.spelled(0));
    let mut numbers = Numbers(1);
    let (mut unchanged, mut accepted) = (0, 0);
    let mut refused = [0; 4];
    const TRIES: usize = 60_000;
    for number in 0..TRIES {
        let mut sample = healthy.clone();
        for _ in 0..=numbers.below(3) {
            if !sample.tables.is_empty() && !sample.schema.is_empty() {
                sample.damage(&mut numbers);
            }
        }
        let mends = number % 8 != 0;
        let found = description(&sample.spelled(if mends { MEND } else { 0 }));
        unchanged += usize::from(found == whole);
        accepted += usize::from(found.variables && found.entries && mends);
        let parts = [found.manifest, found.entries, found.refused_subtables == 0, found.variables || !found.schema];
        refused.iter_mut().zip(parts).for_each(|(refused, is_fine)| *refused += usize::from(!is_fine));
    }
    // Numbers of a kind that is never seen would say that the damage does not reach the check.
    assert!(accepted > TRIES / 20 && unchanged < TRIES, "{accepted} accepted, {unchanged} as healthy");
    assert!(refused.iter().all(|count| *count > TRIES / 1000), "{refused:?} of {TRIES} refused");
}

#[test]
fn bytes_of_every_length_and_kind_are_refused_or_keep_the_promises() {
    let whole = healthy().spelled(MEND);
    for end in 0..=whole.len() {
        description(&whole[..end]);
    }
    let mut numbers = Numbers(2);
    for _ in 0..20_000 {
        let mut input = whole.clone();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(input.len());
            let size = 1 << numbers.below(4);
            let value = numbers.pick();
            write(&mut input, at, size, value);
        }
        description(&input);
        let count = numbers.below(300);
        let rubbish: Vec<u8> = (0..count).map(|_| numbers.next() as u8).collect();
        description(&rubbish);
        bytes::head(&rubbish);
        bytes::schema(&rubbish);
        bytes::manifest(&rubbish);
        bytes::tables(&rubbish);
    }
}

/// Every flipped bit of what has a checksum is found by it.
#[test]
fn flipped_bits_do_not_fit_their_checksum() {
    let healthy = healthy();
    let parts = [(4, healthy.descriptor.manifest_bytes as usize), (1, 4 * healthy.descriptor.windows as usize)];
    for (block, count) in parts {
        for bit in 0..8 * count {
            let mut sample = healthy.clone();
            sample.tables[block * BLOCK_BYTES + bit / 8] ^= 1 << (bit % 8);
            let tables = Tables(&sample.tables);
            let found = Description::new(&tables, sample.descriptor, 0).unwrap();
            let corrupt = if block == 4 { found.manifest().unwrap_err() } else { found.entries().unwrap_err() };
            assert_eq!((corrupt.file.as_str(), corrupt.offset), (table::FILE, (block * BLOCK_BYTES) as u64));
            assert!(corrupt.expected.contains("checksum"), "{corrupt}");
        }
    }
}

/// Counts how often it is asked how long it is, and for how many bytes.
struct Counted<'a> {
    tables: Tables<'a>,
    counts: Cell<usize>,
    bytes: Cell<usize>,
}

impl<'a> Counted<'a> {
    fn new(tables: &'a [u8]) -> Self {
        Counted { tables: Tables(tables), counts: Cell::new(0), bytes: Cell::new(0) }
    }
}

impl Blocks for Counted<'_> {
    type Error = Corrupt;

    fn count(&self) -> Result<u32, Corrupt> {
        self.counts.set(self.counts.get() + 1);
        self.tables.count()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Corrupt> {
        self.bytes.set(self.bytes.get() + out.len());
        self.tables.read(offset, out)
    }

    fn corrupt(&self, corrupt: Corrupt) -> Corrupt {
        corrupt
    }

    fn no_memory(&self, bytes: usize) -> Corrupt {
        panic!("there is no memory for {bytes} bytes")
    }
}

#[test]
fn only_what_is_asked_for_is_read() {
    let sample = healthy();
    let counted = Counted::new(&sample.tables);
    let found = Description::new(&counted, sample.descriptor, 0).unwrap();
    assert_eq!(counted.bytes.get(), 0);
    found.manifest().unwrap();
    assert_eq!((counted.bytes.get(), counted.counts.get()), (sample.descriptor.manifest_bytes as usize, 0));
    found.entries().unwrap();
    // Sub-tables have to be among the file's blocks, and are read by whoever needs them.
    assert_eq!((counted.bytes.get(), counted.counts.get()), (sample.descriptor.manifest_bytes as usize + 16, 1));
    let uniform = [Entry::Uniform(0); 4];
    let plain = lay(Vec::new(), &[], &BTreeMap::new(), &uniform, &[]);
    let counted = Counted::new(&plain.tables);
    assert_eq!(Description::new(&counted, plain.descriptor, 0).unwrap().entries(), Ok(uniform.to_vec()));
    assert_eq!(counted.counts.get(), 0);
}

/// Tables of which some bytes were read before, and that are known to have had so many blocks once.
struct Known<'a> {
    counted: Counted<'a>,
    at_hand: std::ops::Range<usize>,
    blocks: u32,
}

impl Blocks for Known<'_> {
    type Error = Corrupt;

    fn count(&self) -> Result<u32, Corrupt> {
        self.counted.count()
    }

    fn count_beyond(&self, block: u32) -> Result<u32, Corrupt> {
        if self.blocks > block { Ok(self.blocks) } else { self.count() }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Corrupt> {
        self.counted.read(offset, out)
    }

    fn at_hand(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let start = (offset as usize).checked_sub(self.at_hand.start)?;
        self.counted.tables.0.get(self.at_hand.clone())?.get(start..start + bytes)
    }

    fn corrupt(&self, corrupt: Corrupt) -> Corrupt {
        corrupt
    }

    fn no_memory(&self, bytes: usize) -> Corrupt {
        panic!("there is no memory for {bytes} bytes")
    }
}

#[test]
fn what_is_at_hand_is_not_read_again_and_is_checked_all_the_same() {
    let sample = healthy();
    let Descriptor { manifest_block, manifest_bytes, .. } = sample.descriptor;
    let manifest =
        manifest_block as usize * BLOCK_BYTES..manifest_block as usize * BLOCK_BYTES + manifest_bytes as usize;
    let tables = Tables(&sample.tables);
    let whole = Description::new(&tables, sample.descriptor, 0).unwrap();
    let (expected, entries) = (whole.manifest().unwrap(), whole.entries().unwrap());
    // All of it, all but the manifest's last byte, and nothing that is asked for.
    for (at_hand, read) in [
        (0..sample.tables.len(), 0),
        (0..manifest.end - 1, manifest.len()),
        (manifest.start + 1..sample.tables.len(), manifest.len() + 16),
    ] {
        let known = Known { counted: Counted::new(&sample.tables), at_hand, blocks: u32::MAX };
        let found = Description::new(&known, sample.descriptor, 0).unwrap();
        assert_eq!((found.manifest(), found.entries()), (Ok(expected.clone()), Ok(entries.clone())));
        assert_eq!((known.counted.bytes.get(), known.counted.counts.get()), (read, 0));
    }
    let mut damaged = sample.tables.clone();
    damaged[manifest.start + 5] ^= 1;
    let known = Known { counted: Counted::new(&damaged), at_hand: 0..damaged.len(), blocks: 1 };
    let found = Description::new(&known, sample.descriptor, 0).unwrap();
    assert!(found.manifest().unwrap_err().expected.contains("checksum"));
    // Blocks that are not known to be there are counted.
    assert_eq!((found.entries(), known.counted.counts.get()), (Ok(entries), 1));
}

#[test]
fn no_memory_is_taken_for_bytes_that_are_not_there() {
    let healthy = healthy();
    let counted = Counted::new(&healthy.tables);
    let descriptor =
        Descriptor { manifest_bytes: manifest::BYTES_MAX as u32, windows: WINDOWS_MAX, ..healthy.descriptor };
    let found = Description::new(&counted, descriptor, 0).unwrap();
    for corrupt in [found.check_manifest().unwrap_err(), found.manifest().unwrap_err(), found.entries().unwrap_err()] {
        assert_eq!(corrupt.file, table::FILE);
        assert!(corrupt.found.starts_with("the end of the file"), "{corrupt}");
    }
    assert_eq!(counted.bytes.get(), 0);
}

#[test]
fn a_description_larger_than_what_is_read_at_once_is_believed_to_its_last_byte() {
    let text = "x".repeat(READ_EASY + 5);
    let attributes = BTreeMap::from([("text".to_string(), Scalar::Text(text))]);
    let sample = lay(Vec::new(), &[], &attributes, &[], &[]);
    let found = |bytes: &[u8]| Description::new(&Tables(bytes), sample.descriptor, 0).unwrap().manifest();
    assert_eq!(found(&sample.tables).unwrap().attributes, attributes);
    let end = 4 * BLOCK_BYTES + sample.descriptor.manifest_bytes as usize;
    assert!(found(&sample.tables[..end / BLOCK_BYTES * BLOCK_BYTES]).is_err());
}

#[test]
fn variables_are_those_of_the_schema_and_errors_name_their_place() {
    let sample = healthy();
    let schema = Schema::decode("schema.1", &sample.schema).unwrap();
    let tables = Tables(&sample.tables);
    let manifest = Description::new(&tables, sample.descriptor, 0).unwrap().manifest().unwrap();
    let names = |manifest: &Manifest| -> Result<Vec<String>, Corrupt> {
        let variables = find_variables(manifest, sample.descriptor.manifest_block, &schema)?;
        Ok(variables.iter().map(|variable| variable.name.clone()).collect())
    };
    assert_eq!(names(&manifest).unwrap(), ["records", "wide", "empty"]);
    let at = |index: usize, field: usize| {
        (4 * BLOCK_BYTES + manifest::HEADER_BYTES + index * manifest::EXTENT_BYTES + field) as u64
    };
    let mut strange = manifest.clone();
    strange.extents[1].variable = 3;
    assert_eq!(names(&strange).unwrap_err().offset, at(1, manifest::ID_AT));
    let mut short = manifest;
    short.extents[0].bytes -= 15;
    assert_eq!(names(&short).unwrap_err().offset, at(0, manifest::BYTES_AT));
}

#[test]
fn arrays_that_cannot_be_say_why() {
    let number = DType::Float(8);
    assert_eq!(number.array_bytes(&[]), Ok(8));
    assert_eq!(number.array_bytes(&[3, 0, usize::MAX]), Ok(0));
    assert_eq!(number.array_bytes(&[1; 9]).unwrap_err().to_string(), "9 dimensions are more than 8");
    for shape in [vec![usize::MAX, 2], vec![1 << 44]] {
        let why = number.array_bytes(&shape).unwrap_err().to_string();
        assert_eq!(why, format!("{shape:?} elements of float64 are too many"));
    }
    assert!(number.array_bytes(&[1 << 43]).is_ok());
}
