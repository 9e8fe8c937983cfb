//! Any bytes are decoded as what they are, or refused.

use super::*;
use crate::head::SLOTS;

/// A deterministic stream of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

fn finished(geometry: &Geometry) -> Vec<u8> {
    let mut bytes = geometry.encode(7);
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes
}

#[test]
fn a_geometry_survives_its_header() {
    for (chunks, regions) in [(2, 1), (16, 64), (512, 1000), (1 << 19, 16_000), (CHUNKS_MAX.into(), REGIONS_MAX)] {
        let geometry = Geometry::new(chunks, regions).unwrap();
        let header = finished(&geometry);
        assert_eq!(Geometry::decode(&header, geometry.bytes()), Ok(Some(geometry)));
        assert_eq!(Geometry::decode(&geometry.encode(7), geometry.bytes()), Ok(None));
        let cut = Geometry::decode(&header, geometry.bytes() - 1).unwrap_err();
        assert_eq!((cut.offset, cut.found.as_str()), (geometry.bytes() - 1, "the end of the file"));
        assert!(geometry.buckets() >= 2 * regions && geometry.buckets().is_power_of_two());
        // The tables follow each other, and end before the first chunk of the regions.
        assert!(geometry.bucket_at(geometry.buckets() - 1) < geometry.chunk_owner_at(0));
        assert!(geometry.chunk_owner_at(chunks as u32 - 1) < geometry.record_at(0));
        assert!(geometry.record_at(regions - 1) + RECORD_BYTES <= geometry.page_owner_at(0));
        let last = geometry.page_owner_at(pages_of(chunks as u32 - 1).end - 1) + 4;
        assert!(last <= geometry.free_chunks().start as usize * CHUNK_BYTES);
        assert_eq!(geometry.bucket_at(geometry.buckets()), geometry.bucket_at(0));
    }
    assert_eq!(Geometry::new(1, 1), Err(Unfit::Chunks { found: 1, least: 2 }));
    assert_eq!(Geometry::new(9, 0), Err(Unfit::Regions { found: 0 }));
    assert_eq!(Geometry::new(9, REGIONS_MAX + 1), Err(Unfit::Regions { found: REGIONS_MAX + 1 }));
    assert!(matches!(Geometry::new(u64::from(CHUNKS_MAX) + 1, 1), Err(Unfit::Chunks { .. })));
    let handed_in = Geometry::new(16, 64).unwrap().handed_in(true);
    assert_eq!(Geometry::decode(&finished(&handed_in), handed_in.bytes()), Ok(Some(handed_in)));
    let mut making = handed_in.encode(7);
    making[..8].copy_from_slice(&MAKING.to_le_bytes());
    assert_eq!(Geometry::decode(&making, handed_in.bytes()), Ok(None));
}

#[test]
fn the_tables_of_many_regions_are_few_mib() {
    let geometry = Geometry::new(1 << 15, 16_000).unwrap();
    let records = geometry.page_owner_at(0) - geometry.record_at(0);
    assert!(geometry.begin_bytes() + records < 5 << 20, "{geometry:?}");
    assert!(geometry.begin_bytes() < 512 << 10, "{geometry:?}");
}

#[test]
fn a_header_that_was_changed_anywhere_is_refused() {
    let geometry = Geometry::new(512, 1000).unwrap();
    let whole = finished(&geometry);
    for at in 0..CRC_AT + 4 {
        for bit in 0..8 {
            let mut header = whole.clone();
            header[at] ^= 1 << bit;
            let found = Geometry::decode(&header, geometry.bytes());
            assert!(matches!(&found, Err(corrupt) if corrupt.offset as usize <= CRC_AT), "byte {at}: {found:?}");
        }
    }
    for bytes in 8..HEADER_BYTES {
        assert!(Geometry::decode(&whole[..bytes], geometry.bytes()).is_err(), "{bytes} bytes");
    }
    for bytes in 0..8 {
        assert_eq!(Geometry::decode(&whole[..bytes], 0), Ok(None));
    }
}

#[test]
fn any_bytes_are_a_header_or_an_error() {
    let mut numbers = Numbers(1);
    let whole = finished(&Geometry::new(64, 100).unwrap());
    for _ in 0..20_000 {
        let mut header = whole.clone();
        for _ in 0..1 + numbers.below(4) {
            let at = 8 + numbers.below(CREATED_NS_AT - 8);
            header[at] = numbers.below(256) as u8;
        }
        // As a writer would that means harm.
        let crc = crc32fast::hash(&header[ABI_AT..CRC_AT]);
        header[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        if let Ok(Some(geometry)) = Geometry::decode(&header, u64::MAX) {
            let known = 8..TABLES_CHUNKS_AT + 4;
            assert_eq!(geometry.encode(7)[known.clone()], header[known]);
        }
    }
}

fn sample() -> Record {
    let name = "group/17".to_string();
    let (state, span) = (State::Used, 3..9);
    Record { state, generation: 4, head_page: Some(513), span, pid: 77, created_ns: 1 << 40, name }
}

#[test]
fn a_record_survives_its_bytes() {
    let geometry = Geometry::new(64, 100).unwrap();
    let longest = Record { name: "n".repeat(NAME_BYTES_MAX), head_page: None, span: 0..0, ..sample() };
    for record in [sample(), longest] {
        assert_eq!(geometry.decode_record(5, &record.encode()), Ok(record));
    }
    const { assert!(record::NAME_AT + NAME_BYTES_MAX <= RECORD_BYTES) };
    let wrong = [
        (record::STATE_AT, Record { generation: 4, ..sample() }, vec![9, 0, 0, 0]),
        (record::GENERATION_AT, Record { generation: 0, ..sample() }, vec![]),
        (record::HEAD_PAGE_AT, Record { head_page: Some(3), ..sample() }, vec![]),
        (record::HEAD_PAGE_AT, Record { head_page: Some(u32::MAX), ..sample() }, vec![]),
        (record::SPAN_AT, Record { span: 4..4, ..sample() }, vec![]),
        (record::SPAN_AT, Record { span: 0..4, ..sample() }, vec![]),
        (record::SPAN_AT, Record { span: 4..65, ..sample() }, vec![]),
        (record::NAME_BYTES_AT, sample(), vec![217, 0, 0, 0]),
        (record::NAME_AT, Record { name: String::new(), ..sample() }, vec![]),
        (record::NAME_AT, Record { name: "a\nb".into(), ..sample() }, vec![]),
    ];
    for (at, record, bytes) in wrong {
        let mut encoded = record.encode();
        encoded[at..at + bytes.len()].copy_from_slice(&bytes);
        let corrupt = geometry.decode_record(5, &encoded).unwrap_err();
        assert_eq!(corrupt.offset as usize, geometry.record_at(5) + at, "{corrupt}");
    }
}

#[test]
fn names_in_the_header_are_read_as_they_were_written() {
    for name in ["u", "heat/3", &"n".repeat(NAME_BYTES_MAX)] {
        let mut bytes = encode_name(name);
        assert_eq!(decode_name(FROM_AT, &bytes).unwrap(), name);
        bytes[3] = 1;
        assert_eq!(decode_name(FROM_AT, &bytes).unwrap_err().offset as usize, FROM_AT);
    }
    assert!(decode_name(TO_AT, &[0; NAME_FIELD_BYTES]).is_err());
}

#[test]
fn any_bytes_are_a_record_or_an_error() {
    let geometry = Geometry::new(64, 100).unwrap();
    let mut numbers = Numbers(2);
    for _ in 0..50_000 {
        let mut bytes = sample().encode();
        for _ in 0..1 + numbers.below(5) {
            let at = numbers.below(RECORD_BYTES);
            bytes[at] = numbers.below(256) as u8;
        }
        match geometry.decode_record(99, &bytes) {
            Ok(record) => {
                assert!(matches!(record.state, State::Free | State::Renaming) || is_name(&record.name));
                assert!(record.span.end <= 64 && record.span.start <= record.span.end);
                assert!(record.head_page.is_none_or(|page| chunk_of(page) < 64));
            }
            Err(corrupt) => {
                let at = geometry.record_at(99) as u64;
                assert!((at..at + RECORD_BYTES as u64).contains(&corrupt.offset), "{corrupt}");
            }
        }
    }
}

#[test]
fn words_are_checked() {
    let geometry = Geometry::new(64, 100).unwrap();
    assert_eq!(geometry.decode_bucket(1, 0), Ok(Bucket::Empty));
    assert_eq!(geometry.decode_bucket(1, DELETED), Ok(Bucket::Deleted));
    assert_eq!(geometry.decode_bucket(1, word_of(99)), Ok(Bucket::Region(99)));
    assert_eq!(geometry.decode_bucket(1, word_of(100)).unwrap_err().offset as usize, geometry.bucket_at(1));
    assert_eq!(geometry.decode_chunk_owner(0, TABLES), Ok(Owner::Tables));
    assert!(geometry.decode_chunk_owner(0, FREE).is_err());
    assert_eq!(geometry.decode_chunk_owner(1, FREE), Ok(Owner::Free));
    assert_eq!(geometry.decode_chunk_owner(1, SMALL), Ok(Owner::Small));
    assert_eq!(geometry.decode_chunk_owner(1, word_of(7)), Ok(Owner::Region(7)));
    for word in [TABLES, word_of(100)] {
        let corrupt = geometry.decode_chunk_owner(1, word).unwrap_err();
        assert_eq!(corrupt.offset as usize, geometry.chunk_owner_at(1));
    }
    assert_eq!(geometry.decode_page_owner(513, 0), Ok(None));
    assert_eq!(geometry.decode_page_owner(513, word_of(8)), Ok(Some(8)));
    assert!(geometry.decode_page_owner(513, SMALL).is_err());
    assert_eq!(geometry.decode_pending(0), Ok(Pending::Nothing));
    assert_eq!(geometry.decode_pending(100), Ok(Pending::Record(99)));
    assert!(geometry.decode_pending(101).is_err());
    assert!(geometry.check_records_end(100).is_ok() && geometry.check_records_end(101).is_err());
    assert_eq!((next_generation(0), next_generation(u32::MAX)), (1, 1));
}

#[test]
fn few_regions_have_one_file_of_leases_and_many_share_them_evenly() {
    assert_eq!([1, 256, 257, 16_000, 16_384, REGIONS_MAX].map(lease_files), [1, 1, 2, 63, 64, 64]);
    let mut counts = [0; LEASE_FILES as usize];
    for region in 0..REGIONS_MAX {
        let number = lease_number(region);
        assert!(number < lease_files(region + 1));
        counts[number as usize] += 1;
    }
    assert_eq!(counts, [REGIONS_MAX / LEASE_FILES; LEASE_FILES as usize]);
    assert_eq!([0, 1, 63].map(lease_file), ["lease", "lease.1", "lease.63"]);
}

#[test]
fn a_lock_tells_its_region_its_slot_and_when_it_was_taken() {
    for (region, slot, taken_ms) in [(0, 0, 0), (3, 1, 77), (REGIONS_MAX - 1, SLOTS - 1, SLOT_STRIDE - 2)] {
        let first = slot_at(region, slot);
        assert_eq!(decode_lock(first, first + lock_bytes(taken_ms) - 1), Some((region, slot, taken_ms)));
    }
    let (first, bytes) = slots_range(REGIONS_MAX - 1);
    assert_eq!(first + bytes, LIVE_AT);
    assert_eq!(decode_lock(1, 5), None);
    assert_eq!(decode_lock(slot_at(2, 3), slot_at(2, 4)), None);
    for at in [LIVE_AT, PRODUCER_AT, CREATE_AT, ATTACHED_AT, BEGIN_AT] {
        assert_eq!(decode_lock(at, at), None);
    }
    // All zones fit behind each other, and before the last byte that can be locked.
    let count = u64::from(REGIONS_MAX);
    assert!(LIVE_AT + count <= PRODUCER_AT && PRODUCER_AT + count <= CREATE_AT && CREATE_AT < ATTACHED_AT);
    assert!(ATTACHED_AT + count <= BEGIN_AT && BEGIN_AT < i64::MAX as u64);
    assert!(lock_bytes(u64::MAX) < SLOT_STRIDE);
}
