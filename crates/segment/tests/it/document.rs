//! `docs/format.md` says what the code says.
//!
//! The tables of the document are read and held against the constants, and the constants in the sources against the
//! tables, so that neither can change alone. What a table says of an offset and a length is also tried on bytes that the
//! code wrote.

use std::collections::BTreeMap;
use stillframe_protocol::State;
use stillframe_segment::arena::record;
use stillframe_segment::head::{self, Counter, Descriptor, descriptor};
use stillframe_segment::{BLOCK_BYTES, NESTING_MAX, PAGE_BYTES, PLANES_MAX, RANK_MAX, WINDOW_BYTES, WINDOW_PAGES};
use stillframe_segment::{Extent, Manifest, Order, arena, bell, enclave, index, lease, manifest, schema, table};

const DOCUMENT: &str = include_str!("../../../../docs/format.md");
/// Modules with their sources.
const SOURCES: [(&str, &str); 12] = [
    ("crate", include_str!("../../src/lib.rs")),
    ("arena", include_str!("../../src/arena/layout.rs")),
    ("arena", include_str!("../../src/arena/locks.rs")),
    ("arena::record", include_str!("../../src/arena/record.rs")),
    ("bell", include_str!("../../src/bell.rs")),
    ("enclave", include_str!("../../src/enclave.rs")),
    ("head", include_str!("../../src/head.rs")),
    ("index", include_str!("../../src/index.rs")),
    ("lease", include_str!("../../src/lease.rs")),
    ("manifest", include_str!("../../src/manifest.rs")),
    ("schema", include_str!("../../src/schema.rs")),
    ("table", include_str!("../../src/table.rs")),
];
/// Constants that are no part of the format but lists of what is.
const LISTS: [&str; 1] = ["head::COUNTERS"];

/// Rows of the table under the comment with this text, as cells without blanks and backquotes.
fn rows(title: &str) -> Vec<Vec<String>> {
    let comment = format!("<!-- {title} -->");
    let (_, rest) = DOCUMENT.split_once(&comment).unwrap_or_else(|| panic!("the document has no {comment}"));
    let lines = rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        let line = line.replace("\\|", "/");
        let line = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')).unwrap_or(&line);
        line.split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    lines.skip(2).map(cells).collect()
}

fn number(text: &str) -> u64 {
    match text.split_once('^') {
        Some((base, exponent)) => base.parse::<u64>().unwrap().pow(exponent.parse().unwrap()),
        None => text.parse().unwrap_or_else(|_| panic!("'{text}' is no number")),
    }
}

/// Names and values of all tables of values, and names and offsets of all tables of fields.
fn documented() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for module in ["crate", "head", "schema", "manifest", "table", "lease", "arena", "index", "enclave", "bell"] {
        for row in rows(module) {
            all.insert(format!("{module}::{}", row[0]), row[1].clone());
        }
    }
    for module in ["head", "head::descriptor", "manifest", "arena", "arena::record", "index", "enclave", "bell"] {
        for row in rows(&format!("{module} fields")) {
            let old = all.insert(format!("{module}::{}", row[2]), row[0].clone());
            assert_eq!(old, None, "{} stands in two tables", row[2]);
        }
    }
    all
}

macro_rules! constants {
    ($($module:ident :: { $($name:ident),* $(,)? })*) => {
        [$($((concat!(stringify!($module), "::", stringify!($name)), $module::$name as u64)),*),*]
    };
}

/// The constants that are numbers.
fn numbers() -> BTreeMap<String, u64> {
    let here = [
        ("crate::PAGE_BYTES", PAGE_BYTES as u64),
        ("crate::WINDOW_PAGES", WINDOW_PAGES as u64),
        ("crate::WINDOW_BYTES", WINDOW_BYTES as u64),
        ("crate::BLOCK_BYTES", BLOCK_BYTES as u64),
        ("crate::RANK_MAX", RANK_MAX as u64),
        ("crate::NESTING_MAX", NESTING_MAX as u64),
        ("crate::PLANES_MAX", PLANES_MAX as u64),
    ];
    let modules = constants! {
        head::{
            ABI, SLOTS, DESCRIPTOR_BYTES, DESCRIPTOR_WORDS, HEAD_BYTES, SEQUENCE_END, WINDOWS_MAX, MAGIC_AT, ABI_AT,
            PAGE_BYTES_AT, WINDOW_PAGES_AT, SLOTS_AT, BLOCK_BYTES_AT, KEEP_AT, CREATED_NS_AT, BOUND_BYTES_AT,
            PRODUCER_PID_AT, TRACKER_AT, RANK_AT, RANKS_AT, NEWEST_AT, TENTATIVE_AT, LAPSED_AT, NOTIFICATIONS_AT, COUNTERS_AT, BEGUN_NS_AT,
            ENDED_NS_AT, SCHEMAS_AT, IDS_AT, WAITING_NS_AT, SKIPPING_NS_AT, SKIPPING_AT, RUN_AT, RING, RANKS_MAX,
        }
        schema::{ BYTES_MAX, ID_END }
        manifest::{
            HEADER_BYTES, EXTENT_BYTES, BYTES_MAX, ALLOCATION_END, KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_TEXT, ID_AT,
            ORDER_AT, NDIM_AT, PAGE_OFFSET_AT, WINDOW_AT, ZERO_AT, BYTES_AT, ALLOCATION_AT, SHAPE_AT,
        }
        table::{ ZERO_PLANE, SUBTABLE }
        lease::{ SLOT_STRIDE, LIVENESS_AT, BESIDE_AT }
        arena::{
            ABI, CHUNK_BYTES, CHUNK_PAGES, CHUNKS_MAX, REGIONS_MAX, HEADER_BYTES, RECORD_BYTES, RECORDS_PER_BLOCK,
            NAME_BYTES_MAX, FREE, SMALL, TABLES, EMPTY, DELETED, SLOT_STRIDE, ATTACHED_AT, LEASE_REGIONS, LEASE_FILES, LIVE_AT, PRODUCER_AT, CREATE_AT, BEGIN_AT, MAGIC_AT,
            ABI_AT, PAGE_BYTES_AT, CHUNK_BYTES_AT, RECORD_BYTES_AT, SLOTS_AT, CHUNKS_AT, REGIONS_AT, BUCKETS_AT, INDEX_AT,
            CHUNK_OWNERS_AT, RECORDS_AT, PAGE_OWNERS_AT, TABLES_CHUNKS_AT, HANDED_IN_AT, CREATED_NS_AT, CRC_AT, PENDING_AT,
            RECORDS_END_AT, REMOVING_AT, CREATOR_PID_AT, RENAMED_AT, FROM_AT, TO_AT, NEW_NAME_AT, NAME_FIELD_BYTES,
            REPLACING, RENAMING,
        }
        enclave::{
            ABI, PEERS_MAX, REGIONS_MAX, NAME_BYTES_MAX, NAME_FIELD_BYTES, AREA_BYTES, MAGIC_AT, ABI_AT, NAME_LENGTH_AT,
            NAME_AT, IDENTITY_AT, ARENA_AT, BOOT_AT, CRC_AT, HEARTBEAT_AT, ADMITTED_AT, SUBJECTS_AT, NAMES_AT,
            PRODUCED_AT, AREAS_AT, RUNG_AT, SHOWN_AT, RUNNING_AT,
        }
        bell::{ BELL_BYTES, LOCK_AT, COUNT_AT, SURE_AT, REGIONS_AT }
        index::{
            INDEX_BYTES, EXTENTS_MAX, SCHEMA_BYTES, SCHEMAS_MAX, INLINE_PLANES, INLINE_WINDOWS, EXTENTS_AT, EXTENT_AT,
            SCHEMAS_AT, PLANES_AT, INLINE_AT,
        }
    };
    let nested = constants! {
        descriptor::{
            STATE_AT, VERSION_AT, MANIFEST_BLOCK_AT, MANIFEST_BYTES_AT, TABLE_BLOCK_AT, WINDOWS_AT, MANIFEST_CRC_AT,
            TABLE_CRC_AT, PUBLISHED_NS_AT, DIRTY_PAGES_AT, TOTAL_PAGES_AT, SCHEMA_AT, RUN_AT,
        }
    };
    let nested = nested.map(|(name, value)| (format!("head::{name}"), value));
    let records = constants! {
        record::{
            STATE_AT, GENERATION_AT, SPAN_AT, HEAD_PAGE_AT, PID_AT, CREATED_NS_AT, NAME_BYTES_AT, NAME_AT,
        }
    };
    let records = records.map(|(name, value)| (format!("arena::{name}"), value));
    let all = here.into_iter().chain(modules).map(|(name, value)| (name.to_string(), value));
    all.chain(nested).chain(records).collect()
}

/// The constants that are names, or numbers spelt as text.
fn texts() -> BTreeMap<String, String> {
    let spelt = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    [
        ("arena::FILE", arena::FILE.to_string()),
        ("arena::FILLING", arena::FILLING.to_string()),
        ("arena::FILLED", arena::FILLED.to_string()),
        ("arena::MAGIC", spelt(&arena::MAGIC.to_le_bytes())),
        ("arena::MAKING", spelt(&arena::MAKING.to_le_bytes())),
        ("enclave::MAGIC", spelt(&enclave::MAGIC.to_le_bytes())),
        ("enclave::AGENT", enclave::AGENT.to_string()),
        ("enclave::DOORBELL", enclave::DOORBELL.to_string()),
        ("enclave::MACHINE", enclave::MACHINE.to_string()),
        ("enclave::MACHINE_LOCK", enclave::MACHINE_LOCK.to_string()),
        ("bell::FILE", bell::FILE.to_string()),
        ("head::FILE", head::FILE.to_string()),
        ("head::MAGIC", spelt(&head::MAGIC.to_le_bytes())),
        ("schema::FILE_PREFIX", schema::FILE_PREFIX.to_string()),
        ("manifest::MAGIC", spelt(&manifest::MAGIC.to_le_bytes())),
        ("table::FILE", table::FILE.to_string()),
        ("table::PLANE_PREFIX", table::PLANE_PREFIX.to_string()),
        ("lease::FILE", lease::FILE.to_string()),
        ("lease::PRODUCER_FILE", lease::PRODUCER_FILE.to_string()),
    ]
    .map(|(name, text)| (name.to_string(), text))
    .into()
}

#[test]
fn the_document_gives_every_constant_its_value() {
    let documented = documented();
    for (name, value) in numbers() {
        let text = documented.get(&name).unwrap_or_else(|| panic!("the document does not have {name}"));
        assert_eq!(number(text), value, "{name}");
    }
    for (name, text) in texts() {
        assert_eq!(documented.get(&name), Some(&text), "{name}");
    }
    for name in documented.keys() {
        assert!(numbers().contains_key(name) || texts().contains_key(name), "no test looks at {name}");
    }
}

#[test]
fn every_public_constant_stands_in_the_document() {
    let documented = documented();
    let mut found = 0;
    for (module, source) in SOURCES {
        let mut inner = "";
        for line in source.lines() {
            if let Some(name) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(" {")) {
                inner = name;
            }
            let Some(rest) = line.trim_start().strip_prefix("pub const ").filter(|rest| !rest.starts_with("fn "))
            else {
                continue;
            };
            let name = rest.split(':').next().unwrap();
            let name = match line.starts_with(' ') {
                true => format!("{module}::{inner}::{name}"),
                false => format!("{module}::{name}"),
            };
            found += 1;
            assert!(documented.contains_key(&name) || LISTS.contains(&name.as_str()), "{name} is not in the document");
        }
    }
    assert_eq!(found, documented.len() + LISTS.len());
}

#[test]
fn fields_follow_each_other_and_end_where_the_structure_does() {
    for (module, end) in [
        ("head", head::HEAD_BYTES),
        ("head::descriptor", head::DESCRIPTOR_BYTES),
        ("manifest", manifest::EXTENT_BYTES - 8),
        ("arena", arena::HEADER_BYTES),
        ("arena::record", arena::RECORD_BYTES),
        ("index", index::INDEX_BYTES),
        ("enclave", enclave::AREA_BYTES),
        ("bell", bell::BELL_BYTES),
    ] {
        let mut last = 0;
        for row in rows(&format!("{module} fields")) {
            let (at, bytes) = (number(&row[0]), number(&row[1]));
            assert!(at >= last, "{} of {module} overlaps the field before it", row[2]);
            assert!(at.is_multiple_of(bytes.min(8)), "{} of {module} is not aligned", row[2]);
            last = at + bytes;
        }
        assert!(last <= end as u64, "{module}");
    }
    let bytes = |module: &str, name: &str| {
        let rows = rows(&format!("{module} fields"));
        rows.iter().find(|row| row[2] == name).map(|row| number(&row[1]) as usize)
    };
    assert_eq!(bytes("head", "RING"), Some(head::SLOTS * head::DESCRIPTOR_BYTES));
    assert_eq!(bytes("head", "COUNTERS_AT"), Some(head::COUNTERS.len() * 8));
    assert_eq!(bytes("manifest", "SHAPE_AT"), Some(RANK_MAX * 8));
    assert_eq!(bytes("arena::record", "NAME_AT"), Some(arena::NAME_BYTES_MAX));
    assert_eq!(head::descriptor_at(3), 4096 + 128 * 3);
}

#[test]
fn counters_and_states_have_the_numbers_of_the_document() {
    let first = |row: Vec<String>| row[..2].to_vec();
    let counter = |counter: &Counter| {
        let at = head::COUNTERS_AT + 8 * *counter as usize;
        vec![at.to_string(), format!("{counter:?}")]
    };
    let counters: Vec<Vec<String>> = rows("head counters").into_iter().map(first).collect();
    assert_eq!(counters, head::COUNTERS.iter().map(counter).collect::<Vec<_>>());
    let states: Vec<Vec<String>> = rows("states").into_iter().map(first).collect();
    let state = |state: State| vec![(state as u64).to_string(), format!("{state:?}")];
    assert_eq!(states, [State::Free, State::Live, State::Retiring].map(state));
    let states: Vec<Vec<String>> = rows("arena states").into_iter().map(first).collect();
    let known = (0..8).map_while(arena::State::decode);
    let known: Vec<Vec<String>> = known.map(|state| vec![(state as u32).to_string(), format!("{state:?}")]).collect();
    assert_eq!(states, known);
}

/// Checks that each field of a structure has its value where the document says.
fn check_fields(module: &str, structure: &[u8], mut values: BTreeMap<&str, Vec<u8>>) {
    for row in rows(&format!("{module} fields")) {
        let Some(value) = values.remove(row[2].as_str()) else { continue };
        let (at, bytes) = (number(&row[0]) as usize, number(&row[1]) as usize);
        assert_eq!(structure[at..at + bytes], value, "{} of {module}", row[2]);
    }
    assert!(values.is_empty(), "{values:?}");
}

fn word(value: usize) -> Vec<u8> {
    (value as u32).to_le_bytes().to_vec()
}

fn long(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

#[test]
fn a_head_is_written_as_the_document_says() {
    let created_ns = 0x1122_3344_5566_7788;
    let values = [
        ("MAGIC_AT", vec![0; 8]),
        ("ABI_AT", word(head::ABI as usize)),
        ("PAGE_BYTES_AT", word(PAGE_BYTES)),
        ("WINDOW_PAGES_AT", word(WINDOW_PAGES)),
        ("SLOTS_AT", word(head::SLOTS)),
        ("BLOCK_BYTES_AT", word(BLOCK_BYTES)),
        ("CREATED_NS_AT", long(created_ns)),
        ("NEWEST_AT", long(0)),
    ];
    check_fields("head", &head::encode_geometry(created_ns), values.into());
    let described = Descriptor {
        version: 1 << 40 | 1,
        manifest_block: 2,
        manifest_bytes: 3,
        table_block: 4,
        windows: 5,
        manifest_crc: 6,
        table_crc: 7,
        published_ns: 1 << 50 | 8,
        dirty_pages: 1 << 33 | 9,
        total_pages: 1 << 34 | 10,
        schema: 11,
        run: 1 << 60 | 12,
    };
    let bytes: Vec<u8> = std::iter::once(0).chain(described.encode()).flat_map(u64::to_le_bytes).collect();
    let values = [
        ("VERSION_AT", long(described.version)),
        ("MANIFEST_BLOCK_AT", word(2)),
        ("MANIFEST_BYTES_AT", word(3)),
        ("TABLE_BLOCK_AT", word(4)),
        ("WINDOWS_AT", word(5)),
        ("MANIFEST_CRC_AT", word(6)),
        ("TABLE_CRC_AT", word(7)),
        ("PUBLISHED_NS_AT", long(described.published_ns)),
        ("DIRTY_PAGES_AT", long(described.dirty_pages)),
        ("TOTAL_PAGES_AT", long(described.total_pages)),
        ("SCHEMA_AT", word(11)),
        ("RUN_AT", long(described.run)),
    ];
    check_fields("head::descriptor", &bytes, values.into());
}

#[test]
fn a_manifest_is_written_as_the_document_says() {
    let (order, shape) = (Order::Fortran, vec![3, 4]);
    let extent = Extent { variable: 1, order, shape, window: 5, page_offset: 6, bytes: 96, allocation: 7 };
    let mut bytes = Vec::new();
    Manifest::encode(&[extent], &[("pi".to_string(), 3.5.into())].into(), &mut bytes);
    assert_eq!(bytes[..16], [&b"MANI"[..], &[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]].concat());
    let (record, attribute) = bytes[manifest::HEADER_BYTES..].split_at(manifest::EXTENT_BYTES);
    let values = [
        ("ID_AT", word(1)),
        ("ORDER_AT", vec![1]),
        ("NDIM_AT", vec![2]),
        ("PAGE_OFFSET_AT", vec![6, 0]),
        ("WINDOW_AT", word(5)),
        ("ZERO_AT", word(0)),
        ("BYTES_AT", long(96)),
        ("ALLOCATION_AT", long(7)),
        ("SHAPE_AT", [3, 4, 0, 0, 0, 0, 0, 0].into_iter().flat_map(u64::to_le_bytes).collect()),
    ];
    check_fields("manifest", record, values.into());
    let spelt = [&[2, 0, 0, 0, 8, 0, 0, 0, manifest::KIND_FLOAT], &b"pi"[..], &3.5f64.to_le_bytes()].concat();
    assert_eq!(attribute, spelt);
}

#[test]
fn an_arena_is_written_as_the_document_says() {
    let geometry = arena::Geometry::new(700, 1000).unwrap();
    let header = geometry.encode(1 << 60 | 3);
    // Each table begins at a whole page behind the one before.
    let page = |at: usize| at.next_multiple_of(PAGE_BYTES);
    let index = arena::HEADER_BYTES;
    let chunks = page(index + 4 * 2048);
    let records = page(chunks + 4 * 700);
    let pages = page(records + 256 * 1000);
    let values = [
        ("MAGIC_AT", vec![0; 8]),
        ("ABI_AT", word(arena::ABI as usize)),
        ("PAGE_BYTES_AT", word(PAGE_BYTES)),
        ("CHUNK_BYTES_AT", word(arena::CHUNK_BYTES)),
        ("RECORD_BYTES_AT", word(arena::RECORD_BYTES)),
        ("SLOTS_AT", word(head::SLOTS)),
        ("CHUNKS_AT", word(700)),
        ("REGIONS_AT", word(1000)),
        ("BUCKETS_AT", word(2048)),
        ("INDEX_AT", long(index as u64)),
        ("CHUNK_OWNERS_AT", long(chunks as u64)),
        ("RECORDS_AT", long(records as u64)),
        ("PAGE_OWNERS_AT", long(pages as u64)),
        ("TABLES_CHUNKS_AT", word((pages + 4 * 512 * 700).div_ceil(arena::CHUNK_BYTES))),
        ("CREATED_NS_AT", long(1 << 60 | 3)),
        ("CRC_AT", table::checksum(&header[8..88]).to_le_bytes().to_vec()),
    ];
    check_fields("arena", &header, values.into());
    let name = "group/17".to_string();
    let (state, span) = (arena::State::Removing, 3..9);
    let region = arena::Record { state, generation: 4, head_page: Some(5), span, pid: 6, created_ns: 7, name };
    let named = [&b"group/17"[..], &[0; 208]].concat();
    let values = [
        ("STATE_AT", word(3)),
        ("GENERATION_AT", word(4)),
        ("SPAN_AT", long(9 << 32 | 3)),
        ("HEAD_PAGE_AT", word(5)),
        ("PID_AT", word(6)),
        ("CREATED_NS_AT", long(7)),
        ("NAME_BYTES_AT", word(8)),
        ("NAME_AT", named),
    ];
    check_fields("arena::record", &region.encode(), values.into());
    assert_eq!((geometry.record_at(3), geometry.page_owner_at(9)), (records + 3 * 256, pages + 4 * 9));
}

#[test]
fn the_schema_of_the_document_is_one() {
    let text = DOCUMENT.split_once("```json\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let schema = stillframe_segment::Schema::decode("schema.1", text.as_bytes()).unwrap();
    assert_eq!(schema.variables.len(), 2);
    let written: serde_json::Value = serde_json::from_slice(&schema.encode()).unwrap();
    assert_eq!(written, serde_json::from_str::<serde_json::Value>(text).unwrap());
}
