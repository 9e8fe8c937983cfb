//! Damaged checkpoints: each damage is named, nothing half-restored is seen, and the checkpoint before is used.

use crate::damage;
use crate::reading;

use crate::damage::{Damage, Files};
use crate::reading::{Numbers, Place, Version, watchdog};
use crate::tier::by_tier;
use stillframe_checkpoint::{Checkpoint, Codec, Error, RestoreOptions, Store, layout, restore_newest};

/// A store with versions 10 and 20, of which the files of the second are damaged.
struct Image {
    place: Place,
    files: Files,
    versions: [Version; 2],
}

impl Image {
    fn new(name: &str) -> Image {
        Image::of(name, Codec::Plain)
    }

    fn of(name: &str, codec: Codec) -> Image {
        let place = Place::new(name);
        let versions = [10, 20].map(Version::example);
        for version in &versions {
            version.publish(place.options().fresh(true), "heat");
            let snapshot = place.newest("heat");
            reading::save(&place.store(), &snapshot, 20_000, codec);
        }
        stillframe::inspect::remove(&place.shm(), "heat", false).unwrap();
        let files = damage::take(&place.store().join(layout::checkpoint_dir(20)));
        Image { place, files, versions }
    }

    fn path(&self) -> std::path::PathBuf {
        self.place.store().join(layout::checkpoint_dir(20))
    }

    fn apply(&self, damages: &[Damage]) {
        damage::lay(&self.files, &self.path());
        damages.iter().for_each(|damage| damage.apply(&self.path(), &self.files));
    }

    /// What is said of the damaged checkpoint.
    fn findings(&self) -> Vec<String> {
        let checkpoint = Store::open(self.place.store()).unwrap().version(20);
        match checkpoint.and_then(|checkpoint| checkpoint.verify(2, &|_| {})) {
            Err(error) => vec![error.to_string()],
            Ok(damages) => damages.iter().map(ToString::to_string).collect(),
        }
    }

    /// Restores what can be, and returns its version and what is said of the one that was skipped.
    fn restore(&self) -> Result<(u64, Vec<String>), Error> {
        let restored = restore_newest(self.place.store(), self.place.options(), "heat");
        let restored = match restored {
            Ok(restored) => restored,
            Err(error) => {
                assert!(self.place.names().is_empty(), "left {:?} after {error}", self.place.names());
                return Err(error);
            }
        };
        let found = Version::of(&self.place.newest("heat"));
        stillframe::inspect::remove(&self.place.shm(), "heat", false).unwrap();
        assert!(self.place.names().is_empty());
        assert!(restored.version != 10 || found == self.versions[0]);
        assert!(restored.version != 20 || found == self.versions[1] || restored.skipped.is_empty());
        Ok((restored.version, restored.skipped.iter().map(ToString::to_string).collect()))
    }

    /// Damages of files of one kind are named with every file by who looks at all, and with any by who stops at the first;
    /// whether the checkpoint can still be restored depends on the kind.
    fn endure(&self, files: &[&str], damages: &[Damage]) {
        let file = files[0];
        self.apply(damages);
        let findings = self.findings();
        assert!(!findings.is_empty(), "nothing is said of {damages:?}");
        // The manifest and its checksum are told from each other by nobody if they do not fit.
        let names = |text: &String, file: &str| {
            text.contains(file) || file.starts_with("manifest") && text.contains("manifest")
        };
        for file in files {
            assert!(findings.iter().any(|text| names(text, file)), "{damages:?}: {findings:?}");
        }
        let (version, skipped) = self.restore().unwrap();
        if file.ends_with(layout::METADATA) {
            // It is for other tools; what a program goes on with is whole.
            assert_eq!((version, &skipped[..]), (20, &[][..]), "{damages:?}");
            return;
        }
        assert_eq!((version, skipped.len()), (10, 1), "{damages:?}");
        assert!(files.iter().any(|file| names(&skipped[0], file)), "{damages:?}: {skipped:?}");
        if file.contains("/c.") {
            let variable = format!("of variable '{}'", file.split('/').next().unwrap());
            assert!(skipped[0].contains(&variable) && skipped[0].contains("chunk ["), "{skipped:?}");
        }
    }
}

const CODECS: [Codec; 3] = [Codec::Plain, Codec::Zstd { level: 1 }, Codec::Lz4];

#[test]
fn an_undamaged_checkpoint_has_no_findings() {
    let image = Image::new("whole");
    image.apply(&[]);
    assert!(image.findings().is_empty());
    assert_eq!(image.restore().unwrap(), (20, vec![]));
    // Making all checksums anew changes nothing, or the tests that do would be worth nothing.
    image.apply(&[Damage::Mend]);
    assert!(image.findings().is_empty());
    assert_eq!(image.restore().unwrap(), (20, vec![]));
}

#[test]
fn every_kind_of_damage_of_every_file_is_named() {
    let _watchdog = watchdog(300);
    for codec in CODECS {
        every_kind(&Image::of("kinds", codec));
    }
}

fn every_kind(image: &Image) {
    for (path, bytes) in &image.files {
        let file = || path.clone();
        let length = bytes.len() as u64;
        let mut kinds = vec![
            Damage::Remove { file: file() },
            Damage::Directory { file: file() },
            Damage::Link { file: file() },
            Damage::Pipe { file: file() },
            Damage::Length { file: file(), bytes: length + 1 },
            Damage::Length { file: file(), bytes: length + 4096 },
            Damage::Length { file: file(), bytes: 1 << 42 },
            Damage::Length { file: file(), bytes: length - 1 },
            Damage::Length { file: file(), bytes: length / 2 },
            Damage::Length { file: file(), bytes: 0 },
            Damage::Content { file: file(), bytes: vec![0xff; bytes.len()] },
        ];
        if path.ends_with(layout::METADATA) {
            // Four tebibytes are hashed for as long as that takes.
            kinds.remove(6);
        }
        for kind in kinds {
            image.endure(&[path], &[kind]);
        }
    }
}

#[test]
fn flipped_bits_are_found_wherever_they_are() {
    let _watchdog = watchdog(300);
    let mut numbers = Numbers(1);
    for codec in CODECS {
        let image = Image::of("flips", codec);
        let files: Vec<&String> = image.files.keys().collect();
        for number in 0..by_tier(150, 500) {
            let file = files[number % files.len()].clone();
            let (at, bit) = (numbers.below(image.files[&file].len()), numbers.below(8) as u8);
            image.endure(&[&file.clone()], &[Damage::Flip { file, at, bit }]);
        }
    }
}

#[test]
fn chunks_that_changed_places_are_found() {
    let image = Image::new("swap");
    let chunks: Vec<&String> = image.files.keys().filter(|path| path.starts_with("u/c.")).collect();
    assert!(chunks.len() > 3);
    for pair in chunks.windows(2) {
        image.endure(&[pair[0], pair[1]], &[Damage::Swap { left: pair[0].clone(), right: pair[1].clone() }]);
    }
}

#[test]
fn files_that_are_not_the_checkpoints_are_named_and_do_no_harm() {
    let image = Image::new("strangers");
    for file in ["notes.txt", "u/c.9.9.9", "w/c.0", "u/.hidden", "deep/er/and/deeper/file"] {
        image.apply(&[Damage::Stranger { file: file.into() }]);
        let findings = image.findings();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains(file.split('/').next().unwrap()) && findings[0].contains("no file of this"));
        assert_eq!(image.restore().unwrap(), (20, vec![]));
    }
}

fn edited(image: &Image, from: &str, to: &str) -> Vec<Damage> {
    edited_all(image, &[(from, to)])
}

fn edited_all(image: &Image, edits: &[(&str, &str)]) -> Vec<Damage> {
    let text = String::from_utf8(image.files[layout::MANIFEST].clone()).unwrap();
    let edit = |text: String, (from, to): &(&str, &str)| {
        assert!(text.contains(from), "{text}");
        text.replacen(from, to, 1)
    };
    let bytes = edits.iter().fold(text, edit).into_bytes();
    vec![Damage::Content { file: layout::MANIFEST.into(), bytes }, Damage::Mend]
}

#[test]
fn a_manifest_of_another_format_is_named_and_the_checkpoint_before_is_used() {
    let image = Image::new("format");
    for (from, to) in [("\"format_version\": 1", "\"format_version\": 2"), ("stillframe-checkpoint", "something-else")]
    {
        for mended in [true, false] {
            let mut damages = edited(&image, from, to);
            damages.truncate(if mended { 2 } else { 1 });
            image.apply(&damages);
            let error = Checkpoint::open(image.path()).unwrap_err();
            assert!(matches!(&error, Error::ForeignFormat { .. }), "{error}");
            let (version, skipped) = image.restore().unwrap();
            assert_eq!(version, 10);
            assert!(skipped[0].contains("is of format"), "{skipped:?}");
        }
    }
}

#[test]
fn manifests_made_to_do_harm_do_none() {
    let image = Image::new("harm");
    let edits = [
        ("\"version\": 20", "\"version\": 21"),
        ("\"path\": \"u\"", "\"path\": \"../v000000000010.zarr/u\""),
        ("\"path\": \"u\"", "\"path\": \"/etc\""),
        ("\"name\": \"u\"", "\"name\": \"../u\""),
        ("\"name\": \"u\"", "\"name\": \"v\""),
        ("\"ranks\": null", "\"ranks\": 0"),
        ("\"ranks\": null", "\"ranks\": 4000000000"),
        ("\"dtype\": \"float64\"", "\"dtype\": \"float63\""),
        ("\"dtype\": \"float64\"", "\"dtype\": \"bytes4294967295\""),
        ("\"codec\": \"bytes\"", "\"codec\": \"blosc\""),
        ("        70,", "        18446744073709551615,"),
        ("        70,", "        1152921504606846976,"),
        ("        70,", "        -1,"),
        ("        70,", "        7e1,"),
        ("        70,", "        7000000000,"),
        ("        70,", "        7,"),
        ("        12,", "        0,"),
        ("        12,", "        1000000000000,"),
        ("        12,", "        1,"),
        ("        12,", "        13,"),
        ("xxh128\"", "crc32\""),
        ("checksums.xxh128\"", "../outside\""),
        ("\"part\": null", "\"part\": {\"offset\": [1], \"global_shape\": [2, 3]}"),
    ];
    for (from, to) in edits {
        image.apply(&edited(&image, from, to));
        assert!(!image.findings().is_empty(), "{to}");
        damage::read_all(&image.path());
        let (version, skipped) = image.restore().unwrap();
        assert_eq!((version, skipped.len()), (10, 1), "{to}");
    }
}

#[test]
fn shapes_of_more_dimensions_than_a_region_can_have_are_refused() {
    let image = Image::new("dimensions");
    let ones = "1, ".repeat(stillframe::RANK_MAX);
    let edits =
        [("\"shape\": [", format!("\"shape\": [{ones}")), ("\"chunk_shape\": [", format!("\"chunk_shape\": [{ones}"))];
    image.apply(&edited_all(&image, &edits.each_ref().map(|(from, to)| (*from, to.as_str()))));
    let refused = Checkpoint::open(image.path()).unwrap_err().to_string();
    assert!(refused.contains("dimensions are more than 8"), "{refused}");
    let (version, skipped) = image.restore().unwrap();
    assert_eq!((version, skipped.len()), (10, 1));
}

#[test]
fn chunks_as_large_as_memory_are_refused_before_there_is_memory_for_them() {
    let image = Image::of("large", Codec::Zstd { level: 1 });
    // One chunk of 19 GB, in as many files as there were.
    image.apply(&edited_all(&image, &[("        70,", "        70000000,"), ("        12,", "        70000000,")]));
    let refused = Checkpoint::open(image.path()).unwrap_err().to_string();
    assert!(
        refused.contains("the chunks of variable 'u' have ") && refused.contains("may have 1073741824"),
        "{refused}"
    );
    assert_eq!(image.restore().unwrap().0, 10);
}

#[test]
fn checksums_that_were_edited_are_found() {
    let image = Image::new("checksums");
    let text = String::from_utf8(image.files[layout::CHECKSUMS].clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let chunk = lines.iter().position(|line| line.ends_with("u/c.1.0.0")).unwrap();
    let join = |lines: Vec<&str>| format!("{}\n", lines.join("\n"));
    let edit = |to: &str| {
        let mut lines = lines.clone();
        lines[chunk] = to;
        join(lines)
    };
    let all = [
        edit("0123456789abcdef0123456789abcdef  u/c.1.0.0"),
        edit("u/c.1.0.0"),
        edit("0123456789abcdef0123456789abcdef  ../../../../etc/passwd"),
        join(lines[..chunk].to_vec()),
        join([&lines[..], &lines[chunk..]].concat()),
        String::new(),
        "\0".repeat(100),
    ];
    for list in all {
        // With the manifest as it was, and with one that believes the list.
        image.endure(
            &[layout::CHECKSUMS],
            &[Damage::Content { file: layout::CHECKSUMS.into(), bytes: list.clone().into() }],
        );
        let old = stillframe_checkpoint::Digest::of(text.as_bytes()).to_string();
        let new = stillframe_checkpoint::Digest::of(list.as_bytes()).to_string();
        let manifest = String::from_utf8(image.files[layout::MANIFEST].clone()).unwrap().replace(&old, &new);
        let line = format!("{}  {}\n", stillframe_checkpoint::Digest::of(manifest.as_bytes()), layout::MANIFEST);
        image.apply(&[
            Damage::Content { file: layout::CHECKSUMS.into(), bytes: list.clone().into() },
            Damage::Content { file: layout::MANIFEST.into(), bytes: manifest.into() },
            Damage::Content { file: layout::MANIFEST_CHECKSUM.into(), bytes: line.into() },
        ]);
        assert!(!image.findings().is_empty(), "{list}");
        assert!(image.findings().iter().all(|text| !text.contains("root:")));
        let (version, skipped) = image.restore().unwrap();
        assert_eq!((version, skipped.len()), (10, 1), "{list}");
    }
}

/// Numbers that sizes are not.
const NUMBERS: [u64; 12] =
    [0, 1, 2, 3, 255, 65_536, u32::MAX as u64, 1 << 32, 1 << 40, 1 << 62, i64::MAX as u64, u64::MAX];

#[test]
fn random_damages_that_claim_to_be_none_lead_to_an_answer() {
    let _watchdog = watchdog(500);
    for codec in CODECS {
        random_damages(&Image::of("random", codec));
    }
}

fn random_damages(image: &Image) {
    let manifest = &image.files[layout::MANIFEST];
    let files: Vec<&String> = image.files.keys().collect();
    let mut numbers = Numbers(7);
    for _ in 0..800 {
        let mut damages = Vec::new();
        for _ in 0..=numbers.below(3) {
            let file = files[numbers.below(files.len())].clone();
            let at = numbers.below(image.files[&file].len());
            damages.push(match numbers.below(4) {
                0 => Damage::Flip { file, at, bit: numbers.below(8) as u8 },
                1 => Damage::Write { file, at, bytes: (0..numbers.below(40)).map(|_| numbers.next() as u8).collect() },
                2 => Damage::Length { file, bytes: numbers.below(30_000) as u64 },
                _ => {
                    let digits: Vec<usize> = (0..manifest.len()).filter(|at| manifest[*at].is_ascii_digit()).collect();
                    let at = digits[numbers.below(digits.len())];
                    let number = NUMBERS[numbers.below(NUMBERS.len())].to_string();
                    let bytes = [&manifest[..at], number.as_bytes(), &manifest[at + 1..]].concat();
                    Damage::Content { file: layout::MANIFEST.into(), bytes }
                }
            });
        }
        damages.push(Damage::Mend);
        image.apply(&damages);
        damage::read_all(&image.path());
        if let Err(error) = image.restore() {
            assert!(matches!(error, Error::Engine(_)), "{damages:?}: {error}");
        }
    }
}

/// The fuzz target of whole checkpoints.
#[test]
fn the_fuzz_target_of_checkpoints_takes_whatever_it_is_given() {
    let _watchdog = watchdog(300);
    let image = damage::Image::new();
    let mut numbers = Numbers(11);
    damage::fuzz_checkpoint(&image, &[]);
    for _ in 0..500 {
        let bytes: Vec<u8> = (0..numbers.below(40)).map(|_| numbers.next() as u8).collect();
        damage::fuzz_checkpoint(&image, &bytes);
    }
}

/// The fuzz target of manifests, with a healthy one cut, flipped and thrown about.
#[test]
fn the_fuzz_target_of_manifests_takes_whatever_it_is_given() {
    let image = Image::new("fuzz");
    let manifest = &image.files[layout::MANIFEST];
    (0..manifest.len()).for_each(|end| damage::fuzz_manifest(&manifest[..end]));
    damage::fuzz_manifest(manifest);
    let mut numbers = Numbers(3);
    for _ in 0..20_000 {
        let mut bytes = manifest.clone();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(bytes.len());
            match numbers.below(3) {
                0 => bytes[at] ^= 1 << numbers.below(8),
                1 => {
                    let number = NUMBERS[numbers.below(NUMBERS.len())].to_string();
                    let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
                    let at = digits[numbers.below(digits.len())];
                    drop(bytes.splice(at..at + 1, number.into_bytes()));
                }
                _ => {
                    let (from, count) = (numbers.below(bytes.len()), numbers.below(80));
                    let part = bytes[from..(from + count).min(bytes.len())].to_vec();
                    drop(bytes.splice(at..at, part));
                }
            }
        }
        damage::fuzz_manifest(&bytes);
    }
}

#[test]
fn a_store_lists_what_is_damaged_beside_what_is_not() {
    let image = Image::new("list");
    image.apply(&edited(&image, "\"format_version\": 1", "\"format_version\": 2"));
    let entries: Vec<_> = Store::open(image.place.store()).unwrap().entries().unwrap().collect();
    assert_eq!(entries.iter().map(|entry| entry.version).collect::<Vec<_>>(), [10, 20]);
    assert!(entries[0].checkpoint.is_ok());
    assert!(matches!(entries[1].checkpoint, Err(Error::ForeignFormat { .. })));
    // In the place of a checkpoint there may be anything.
    std::fs::remove_dir_all(image.path()).unwrap();
    std::os::unix::fs::symlink("/etc", image.path()).unwrap();
    let store = Store::open(image.place.store()).unwrap();
    assert!(store.version(20).unwrap_err().to_string().contains("no directory"));
    let mut skipped = Vec::new();
    assert_eq!(store.newest_naming(&mut skipped).unwrap().version(), 10);
    assert_eq!(skipped.len(), 1);
    // Asked for by its version, a damaged one is an error and nothing else is taken in its place.
    let error = RestoreOptions::new().version(Some(20));
    let error = error.restore_newest(image.place.store(), &image.place.options(), "heat", &|_| {}).unwrap_err();
    assert!(matches!(&error, Error::Damaged { .. }), "{error}");
    assert!(image.place.names().is_empty());
}

#[test]
fn what_checkpoints_share_is_damaged_in_all_of_them() {
    let place = Place::new("shared");
    for number in [1, 2] {
        let mut version = Version::example(7);
        version.number = number;
        version.publish(place.options().fresh(true), "heat");
        reading::save(&place.store(), place.newest("heat"), 20_000, Codec::Plain);
    }
    let store = Store::open(place.store()).unwrap();
    assert!(store.version(2).unwrap().manifest().linked_bytes > 0);
    // As a disk does it, in the file that both have.
    let chunk = place.store().join("v000000000002.zarr/u/c.1.0.0");
    // Nobody is to write it, but a disk does.
    std::fs::set_permissions(&chunk, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&std::fs::File::options().write(true).open(chunk).unwrap(), &[1, 2, 3], 5)
        .unwrap();
    for version in [1, 2] {
        let damages = store.version(version).unwrap().verify(2, &|_| {}).unwrap();
        assert_eq!(damages.iter().map(|damage| damage.chunk.clone()).collect::<Vec<_>>(), [Some(vec![1, 0, 0])]);
    }
    let error = restore_newest(place.store(), place.options(), "new").unwrap_err();
    assert!(matches!(&error, Error::NoCheckpoint { skipped, .. } if skipped.len() == 2), "{error}");
}
