//! A healthy region as bytes, ways to damage it, and everything a user can do with what is left.
//!
//! `fuzz_region` is also the body of a fuzz target in `fuzz/`, which gives it other bytes.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stillframe::{DType, Declaration, Distrust, Error, Kind, Observer, Order, Region, Snapshot, inspect};
use stillframe_segment::head::{self, Descriptor, descriptor};
use stillframe_segment::{BLOCK_BYTES, Corrupt, PAGE_BYTES, table};

/// The region's name in every directory.
pub const NAME: &str = "healthy";
/// Elements of the variable that reaches into a second window.
const WIDE: usize = 512 * 513 + 7;
/// Versions in the image; all of them are kept.
pub const VERSIONS: u64 = 3;

/// A file as the runs of pages that hold anything.
#[derive(Clone)]
pub struct Content {
    pub name: String,
    pub bytes: u64,
    runs: Vec<(u64, Vec<u8>)>,
}

/// Content of the variables of each version.
pub type Expected = BTreeMap<(u64, String), Vec<u8>>;

/// A region whose producer is gone.
pub struct Image {
    pub files: Vec<Content>,
    pub expected: Expected,
}

fn in_memory(name: &str) -> PathBuf {
    PathBuf::from(format!("/dev/shm/stillframe-{name}-{}", std::process::id()))
}

fn options(root: &Path) -> stillframe::RegionOptions {
    Region::options().dir(root).keep(VERSIONS as usize).threads(1)
}

fn record() -> DType {
    DType::packed([("mass", DType::Float(8)), ("kind", DType::Int(4)), ("name", DType::Bytes(4))]).unwrap()
}

impl Image {
    /// Publishes a few versions with a bit of everything and takes the files.
    pub fn new() -> Image {
        let root = in_memory("image");
        let _ = std::fs::remove_dir_all(&root);
        let mut region = options(&root).create(NAME).unwrap();
        let small = region.array::<f64>("small", &[20, 30]).unwrap();
        let wide = region.array::<f64>("wide", &[WIDE]).unwrap();
        let loaned = region.loaned::<u16>("loaned", &[100]).unwrap();
        let tracked = region.track::<i32>("tracked").unwrap();
        let mut records = Declaration::new("records", record(), Kind::Managed { shape: vec![10] });
        records.units = "kg".into();
        records.order = Order::Fortran;
        records.attributes.insert("note".into(), "a record".into());
        let records = region.declare(records).unwrap();
        let empty = region.array::<u8>("empty", &[0, 4]).unwrap();
        assert!(region.slice(&empty).is_empty());
        let memory: Vec<i32> = (0..3000).collect();
        for version in 1..=VERSIONS {
            region.slice_mut(&small).fill(version as f64);
            let step = if version == 1 { 1 } else { 5000 };
            region.slice_mut(&wide).iter_mut().step_by(step).for_each(|element| *element = version as f64 + 0.5);
            let (address, bytes) = region.managed_bytes(records).unwrap();
            #[allow(unsafe_code)]
            // SAFETY: the memory is the region's own, and nobody else knows of it.
            unsafe {
                address.write_bytes(version as u8, bytes);
            }
            let mut loan = region.loan(&loaned).unwrap();
            loan.fill(version as u16);
            loan.submit();
            let publish =
                region.publish(version).tracked(&tracked, &memory[version as usize..2000], &[2000 - version as usize]);
            publish.attr("time", 0.25).attr("step", 7).attr("phase", "melt").attr("last", true).commit().unwrap();
        }
        drop(region);
        let observer = Observer::options().dir(&root).open(NAME).unwrap();
        let mut expected = Expected::new();
        for version in 1..=VERSIONS {
            let snapshot = observer.version(version).unwrap();
            for variable in snapshot.variables() {
                expected.insert((version, variable.name.clone()), snapshot.view(&variable.name).unwrap().to_vec());
            }
        }
        let mut files: Vec<Content> = std::fs::read_dir(root.join(NAME))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let all = std::fs::read(&path).unwrap();
                let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
                for (index, page) in all.chunks(PAGE_BYTES).enumerate() {
                    let at = (index * PAGE_BYTES) as u64;
                    match runs.last_mut() {
                        _ if page.iter().all(|byte| *byte == 0) => {}
                        Some((start, run)) if *start + run.len() as u64 == at => run.extend_from_slice(page),
                        _ => runs.push((at, page.to_vec())),
                    }
                }
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                Content { name, bytes: all.len() as u64, runs }
            })
            .collect();
        files.sort_by(|left, right| left.name.cmp(&right.name));
        std::fs::remove_dir_all(&root).unwrap();
        Image { files, expected }
    }

    /// Lays the healthy files into a directory, in place of whatever is there.
    pub fn lay(&self, root: &Path) -> PathBuf {
        let dir = root.join(NAME);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        for content in &self.files {
            let file = std::fs::File::create(dir.join(&content.name)).unwrap();
            file.set_len(content.bytes).unwrap();
            for (at, run) in &content.runs {
                file.write_all_at(run, *at).unwrap();
            }
        }
        dir
    }

    pub fn file(&self, name: &str) -> usize {
        self.files.iter().position(|content| content.name == name).unwrap()
    }

    /// The bytes of a small file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let content = &self.files[self.file(name)];
        let mut all = vec![0; content.bytes as usize];
        for (at, run) in &content.runs {
            all[*at as usize..*at as usize + run.len()].copy_from_slice(run);
        }
        all
    }

    /// Slots that hold versions, with their descriptors.
    pub fn descriptors(&self) -> Vec<(usize, Descriptor)> {
        let bytes = self.bytes(head::FILE);
        let slots = (0..head::SLOTS).map(|slot| (slot, slot_words(&bytes, slot)));
        slots.filter(|(_, words)| words[0] & 0xff == 1).map(|(slot, words)| (slot, decode(&words))).collect()
    }
}

fn slot_words(head: &[u8], slot: usize) -> [u64; head::DESCRIPTOR_WORDS + 1] {
    let at = head::descriptor_at(slot);
    std::array::from_fn(|word| {
        let bytes = head.get(at + 8 * word..at + 8 * word + 8).unwrap_or(&[0; 8]);
        u64::from_le_bytes(bytes.try_into().unwrap())
    })
}

fn decode(words: &[u64; head::DESCRIPTOR_WORDS + 1]) -> Descriptor {
    Descriptor::decode(words[1..].try_into().unwrap())
}

/// One thing that goes wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// Other bytes at an offset.
    Write { file: usize, at: u64, bytes: Vec<u8> },
    /// Bits turned over at an offset.
    Flip { file: usize, at: u64, bits: u8 },
    /// Another length.
    Length { file: usize, bytes: u64 },
    /// No such file.
    Remove { file: usize },
    /// A directory in its place.
    Directory { file: usize },
    /// Checksums that fit what is there now, as somebody who means harm would leave them.
    Mend,
}

/// Longest file damage makes, so that a region of rubbish does not take the machine's memory.
const LENGTH_MAX: u64 = 1 << 44;

impl Damage {
    pub fn apply(&self, dir: &Path, files: &[Content]) {
        let path = |file: &usize| dir.join(&files[*file % files.len()].name);
        let open = |file: &usize| std::fs::File::options().read(true).write(true).open(path(file)).ok();
        match self {
            Damage::Write { file, at, bytes } => {
                if let Some(file) = open(file) {
                    let _ = file.write_all_at(bytes, (*at).min(LENGTH_MAX));
                }
            }
            Damage::Flip { file, at, bits } => {
                let mut byte = [0];
                if let Some(file) = open(file)
                    && file.read_exact_at(&mut byte, *at).is_ok()
                {
                    let _ = file.write_all_at(&[byte[0] ^ bits], *at);
                }
            }
            Damage::Length { file, bytes } => {
                if let Some(file) = open(file) {
                    let _ = file.set_len((*bytes).min(LENGTH_MAX));
                }
            }
            Damage::Remove { file } => {
                let _ = std::fs::remove_file(path(file));
            }
            Damage::Directory { file } => {
                if std::fs::remove_file(path(file)).is_ok() {
                    std::fs::create_dir(path(file)).unwrap();
                }
            }
            Damage::Mend => mend(dir),
        }
    }
}

/// Writes the checksums that fit the manifests and window tables as they are.
fn mend(dir: &Path) {
    let open = |name: &str| std::fs::File::options().read(true).write(true).open(dir.join(name));
    let (Ok(file), Ok(tables)) = (open(head::FILE), open(table::FILE)) else { return };
    let mut all = vec![0; head::HEAD_BYTES];
    if file.read_at(&mut all, 0).is_err() {
        return;
    }
    for slot in 0..head::SLOTS {
        let words = slot_words(&all, slot);
        if words[0] & 0xff == 0 {
            continue;
        }
        let found = decode(&words);
        let parts = [
            (found.manifest_block, found.manifest_bytes as usize, descriptor::MANIFEST_CRC_AT),
            (found.table_block, found.windows as usize * 4, descriptor::TABLE_CRC_AT),
        ];
        for (block, bytes, at) in parts {
            let mut part = vec![0; bytes.min(1 << 20)];
            if tables.read_exact_at(&mut part, u64::from(block) * BLOCK_BYTES as u64).is_ok() {
                let crc = table::checksum(&part).to_le_bytes();
                let _ = file.write_all_at(&crc, (head::descriptor_at(slot) + at) as u64);
            }
        }
    }
}

/// Damage as a fuzzer spells it: a byte that says which, then its numbers.
pub fn spell(bytes: &[u8]) -> Vec<Damage> {
    let mut rest = bytes.iter().copied();
    let mut next = || rest.next();
    let mut number = |count: usize| -> Option<u64> {
        (0..count).try_fold(0, |sum, index| Some(sum | u64::from(next()?) << (8 * index)))
    };
    let mut all = Vec::new();
    while let Some(kind) = number(1) {
        let mut one = || {
            let file = number(1)? as usize;
            Some(match kind % 8 {
                0 => Damage::Length { file, bytes: number(6)? },
                1 => Damage::Length { file, bytes: number(2)? },
                2 => Damage::Remove { file },
                3 => Damage::Mend,
                4 => Damage::Flip { file, at: number(3)?, bits: number(1)? as u8 },
                5 => Damage::Write { file, at: number(3)?, bytes: number(4)?.to_le_bytes()[..4].to_vec() },
                6 => Damage::Write { file, at: number(3)?, bytes: number(8)?.to_le_bytes().to_vec() },
                _ => {
                    let (at, count) = (number(3)?, number(1)? as usize);
                    Damage::Write { file, at, bytes: (0..count).map_while(|_| number(1)).map(|n| n as u8).collect() }
                }
            })
        };
        let Some(damage) = one() else { break };
        all.push(damage);
        if all.len() >= 64 {
            break;
        }
    }
    all
}

/// What can be said of the content that a damaged region may still show.
#[derive(Clone, Copy)]
pub enum Trust<'a> {
    /// Whatever is shown is what one of the versions had.
    Whole(&'a Expected),
    /// Bytes without a checksum were changed.
    None,
}

impl Trust<'_> {
    fn check(&self, name: &str, bytes: &[u8]) {
        let Trust::Whole(expected) = self else { return };
        let known = expected.iter().any(|((_, known), content)| known == name && content == bytes);
        assert!(known, "'{name}' has {} bytes that no version had", bytes.len());
    }
}

/// An error of damage or of absence; nothing is the caller's fault.
fn check_error(error: &Error) {
    let text = error.to_string();
    match error {
        Error::Corrupt { dir, corrupt } => check_corrupt(dir, corrupt),
        Error::NoRegion { .. }
        | Error::NoVersion { .. }
        | Error::VersionGone { .. }
        | Error::Timeout { .. }
        | Error::ProducerGone { .. }
        | Error::NoMappings { .. }
        | Error::NoSpace { .. } => {}
        // A directory in the place of a file.
        Error::Untrusted { distrust, .. } => assert!(matches!(distrust, Distrust::Form { .. }), "{text}"),
        // A file too long to be mapped.
        Error::System { path, failure } => {
            let expected = [libc_errno::EOVERFLOW, libc_errno::EINVAL, libc_errno::EFBIG];
            assert!(expected.contains(&failure.errno()), "{}: {text}", path.display());
        }
        other => panic!("{other:?}"),
    }
}

mod libc_errno {
    pub const EINVAL: i32 = 22;
    pub const EFBIG: i32 = 27;
    pub const EOVERFLOW: i32 = 75;
}

fn check_corrupt(dir: &Path, corrupt: &Corrupt) {
    assert!(dir.ends_with(NAME));
    let known = ["head", "tables", "lease", "schema.", "plane."].iter().any(|name| corrupt.file.starts_with(name));
    assert!(known, "{corrupt:?}");
    assert!(!corrupt.expected.is_empty() && !corrupt.found.is_empty(), "{corrupt:?}");
}

fn known<T>(result: Result<T, Error>) -> Option<T> {
    result.inspect_err(check_error).ok()
}

/// Does everything an observer can do.
pub fn observe(root: &Path, trust: Trust) {
    let findings = known(inspect::verify(root, NAME));
    if let Some(findings) = &findings {
        findings.iter().for_each(|corrupt| check_corrupt(&root.join(NAME), corrupt));
    }
    known(inspect::region(root, NAME));
    let Some(observer) = known(Observer::options().dir(root).open(NAME)) else { return };
    let none = Some(Duration::ZERO);
    let mut snapshots = Vec::new();
    let newest = observer.newest();
    if let Err(error @ Error::Corrupt { .. }) = &newest {
        assert!(findings.is_some_and(|findings| !findings.is_empty()), "verify does not find {error}");
    }
    snapshots.extend(known(newest));
    snapshots.extend(known(observer.next_after(None, none)));
    snapshots.extend(known(observer.newest_after(Some(0), none)));
    snapshots.extend(known(observer.newest_after(Some(VERSIONS), none)));
    for info in observer.versions() {
        snapshots.extend(known(observer.version(info.version)));
    }
    for (index, snapshot) in snapshots.iter().enumerate() {
        if snapshots[..index].iter().all(|other| other.version() != snapshot.version()) {
            read(snapshot, trust);
        }
        for other in &snapshots {
            for variable in snapshot.variables() {
                let ranges = known(snapshot.changed(other, &variable.name)).unwrap_or_default();
                assert!(ranges.iter().all(|range| range.start < range.end && range.end <= variable.bytes));
            }
        }
    }
}

/// Bytes of a variable that are looked at.
const LOOK_MAX: usize = 64 << 20;

fn read(snapshot: &Snapshot, trust: Trust) {
    for variable in snapshot.variables() {
        let name = &variable.name;
        assert_eq!(variable.strides().len(), variable.shape.len());
        let mut end = 0;
        let mut bytes = Vec::new();
        if let Some(chunks) = known(snapshot.chunks(name)) {
            for chunk in chunks {
                assert_eq!(chunk.offset, end);
                end += chunk.bytes.len();
                bytes.extend_from_slice(chunk.bytes);
                if end > LOOK_MAX {
                    break;
                }
            }
            assert_eq!(end.min(LOOK_MAX), variable.bytes.min(LOOK_MAX).max(end.min(LOOK_MAX)));
            if end == variable.bytes {
                trust.check(name, &bytes);
            }
        }
        if let Some(view) = known(snapshot.view(name)) {
            assert_eq!(view.len(), variable.bytes);
            if end == view.len() {
                assert!(bytes == *view, "'{name}' read in chunks and at once");
            }
        }
        let mut some = vec![0; variable.bytes.min(5000)];
        known(snapshot.read(name, variable.bytes - some.len(), &mut some));
        if let Err(error) = snapshot.slice::<f64>(name)
            && !matches!(error, Error::WrongDType { .. } | Error::WrongShape { .. })
        {
            check_error(&error);
        }
    }
    let _ = snapshot.attributes().values().map(|value| value.to_string()).collect::<Vec<_>>();
}

/// Takes the region over, as the next producer does, and publishes.
pub fn recover(root: &Path, trust: Trust) {
    let Some(mut region) = known(options(root).create(NAME)) else { return };
    let recovered = region.recovered();
    let small = region.array::<f64>("small", &[20, 30]);
    let wide = region.array::<f64>("wide", &[WIDE]);
    let loaned = region.loaned::<u16>("loaned", &[100]);
    let tracked = region.track::<i32>("tracked");
    let records = Declaration::new("records", record(), Kind::Managed { shape: vec![10] });
    known(region.declare(records));
    let (Some(small), Some(wide), Some(loaned), Some(tracked)) =
        (known(small), known(wide), known(loaned), known(tracked))
    else {
        return;
    };
    let content = |slice: &[f64]| bytemuck::cast_slice::<f64, u8>(slice).to_vec();
    if recovered.is_some() {
        // A variable that the newest version lacks begins with zeros.
        for (name, slice) in [("small", region.slice(&small)), ("wide", region.slice(&wide))] {
            if slice.iter().any(|element| *element != 0.0) {
                trust.check(name, &content(slice));
            }
        }
    }
    let Some(version) = recovered.unwrap_or(0).checked_add(1) else { return };
    region.slice_mut(&small)[3] = 3.25;
    region.slice_mut(&wide)[WIDE - 1] = 4.25;
    let wide_content = content(region.slice(&wide));
    if let Some(mut loan) = known(region.loan(&loaned)) {
        loan.fill(5);
        loan.submit();
    }
    let memory = [1i32, 2, 3];
    if known(region.publish(version).tracked(&tracked, &memory, &[3]).commit()).is_none() {
        return;
    }
    // What a producer published itself is beyond doubt again.
    let observer = Observer::options().dir(root).open(NAME).unwrap();
    let snapshot = observer.newest().unwrap();
    assert_eq!(snapshot.version(), version);
    assert_eq!(snapshot.slice::<f64>("small").unwrap()[3], 3.25);
    assert!(content(snapshot.slice::<f64>("wide").unwrap()) == wide_content, "the content just published");
    assert_eq!(snapshot.slice::<u16>("loaned").unwrap(), [5; 100]);
    assert_eq!(snapshot.slice::<i32>("tracked").unwrap(), memory);
    for next in 1..4 {
        let Some(version) = version.checked_add(next) else { return };
        region.slice_mut(&small)[4] = next as f64;
        known(region.publish(version).commit());
    }
}

/// Fuzz entry: a region damaged as the bytes spell.
pub fn fuzz_region(image: &Image, bytes: &[u8]) {
    let root = in_memory("fuzz");
    let dir = image.lay(&root);
    let damages = spell(bytes);
    damages.iter().for_each(|damage| damage.apply(&dir, &image.files));
    observe(&root, Trust::None);
    recover(&root, Trust::None);
    let _ = std::fs::remove_dir_all(&root);
}
