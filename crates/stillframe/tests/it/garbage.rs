//! Whatever lies in a region's files, opening, reading, checking and recovering it ends in an answer.
//!
//! A healthy region is damaged in thousands of ways, and everything an observer and the next producer can do is done to
//! each. A child process does it, so that a panic, a fatal signal and a hang are all told by the same means, with the
//! number of the damage that did it. `STILLFRAME_GARBAGE=class:number` does one damage again in this process.

use crate::bytes;
use crate::common;
use crate::damage;

use crate::common::Numbers;
use crate::damage::{Damage, Image, Trust};
use crate::tier::by_tier;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use stillframe_segment::head::{self, descriptor};
use stillframe_segment::{BLOCK_BYTES, WINDOW_PAGES, manifest, table};

/// Numbers at which arithmetic and limits break.
const NUMBERS: [u64; 10] = [0, 1, 3, 64, 512, 1 << 26, u32::MAX as u64 / 2 + 1, u32::MAX as u64, 1 << 63, u64::MAX];

/// One way to damage the region, and what may still be trusted afterwards.
struct Case<'a> {
    damages: Vec<Damage>,
    trust: Trust<'a>,
}

/// Bytes of the head that mean something while the first slots hold versions.
fn head_bytes(image: &Image) -> Vec<u64> {
    let mut bytes: Vec<usize> = (0..56).chain(head::NEWEST_AT..head::NEWEST_AT + 8).collect();
    bytes.extend(head::NOTIFICATIONS_AT..head::NOTIFICATIONS_AT + 4);
    bytes.extend(head::COUNTERS_AT..head::COUNTERS_AT + 8 * head::COUNTERS.len());
    let slots = image.descriptors().into_iter().map(|(slot, _)| slot).chain([head::SLOTS - 1]);
    for at in slots.map(head::descriptor_at) {
        bytes.extend(at..at + descriptor::SCHEMA_AT + 4);
    }
    bytes.into_iter().map(|at| at as u64).collect()
}

fn pick<T: Copy>(numbers: &mut Numbers, from: &[T]) -> T {
    from[numbers.below(from.len())]
}

fn rubbish(numbers: &mut Numbers, count: usize) -> Vec<u8> {
    (0..count).map(|_| numbers.next() as u8).collect()
}

/// Every byte of the head that is in use with its highest bit flipped, and with one of the others: in the short tier with one of both.
fn flipped_head(image: &Image, number: usize) -> Option<Case<'_>> {
    let place = number / by_tier(1, 2);
    let at = *head_bytes(image).get(place)?;
    let bits = if number.is_multiple_of(2) { 0x80 } else { 1 << (place % 7) };
    let damages = vec![Damage::Flip { file: image.file(head::FILE), at, bits }];
    Some(Case { damages, trust: Trust::Whole(&image.expected) })
}

/// Each number of the head replaced by each one that tends to break things.
fn numbered_head(image: &Image, number: usize) -> Option<Case<'_>> {
    let (place, number) = (number / NUMBERS.len(), number % NUMBERS.len());
    let bytes: Vec<u64> = head_bytes(image).into_iter().filter(|at| at % 4 == 0).collect();
    let at = bytes.get(place / 2)?;
    let size = if place % 2 == 0 { 4 } else { 8 };
    let bytes = NUMBERS[number].to_le_bytes()[..size].to_vec();
    let damages = vec![Damage::Write { file: image.file(head::FILE), at: *at, bytes }];
    Some(Case { damages, trust: Trust::Whole(&image.expected) })
}

/// Flips in what has a checksum.
fn flipped_tables(image: &Image, number: usize) -> Option<Case<'_>> {
    let mut numbers = Numbers(number as u64);
    let descriptors = image.descriptors();
    let (_, found) = descriptors[number % descriptors.len()];
    let (block, bytes) = match numbers.below(2) {
        0 => (found.manifest_block, found.manifest_bytes as usize),
        _ => (found.table_block, found.windows as usize * 4),
    };
    let at = block as u64 * BLOCK_BYTES as u64 + numbers.below(bytes) as u64;
    let damages = vec![Damage::Flip { file: image.file(table::FILE), at, bits: 1 << numbers.below(8) }];
    (number < 400).then_some(Case { damages, trust: Trust::Whole(&image.expected) })
}

/// Rubbish and numbers in manifests, window tables and sub-tables, with checksums that fit.
fn crafted_tables(image: &Image, number: usize) -> Option<Case<'_>> {
    let mut numbers = Numbers(number as u64 + 7);
    let (tables, bytes) = (image.file(table::FILE), image.bytes(table::FILE));
    let descriptors = image.descriptors();
    let mut damages = Vec::new();
    for _ in 0..=numbers.below(3) {
        let (_, found) = pick(&mut numbers, &descriptors);
        let start = |block: u32| block as usize * BLOCK_BYTES;
        let extents = start(found.manifest_block) + manifest::HEADER_BYTES;
        let extent = extents + numbers.below(6) * manifest::EXTENT_BYTES;
        let (at, size) = match numbers.below(12) {
            0 => (start(found.manifest_block) + 4 * numbers.below(4), 4),
            1 => (extent + manifest::ID_AT, 4),
            2 => (extent + manifest::ORDER_AT, 1),
            3 => (extent + manifest::NDIM_AT, 1),
            4 => (extent + manifest::PAGE_OFFSET_AT, 2),
            5 => (extent + manifest::WINDOW_AT, 4),
            6 => (extent + manifest::BYTES_AT, 8),
            7 => (extent + manifest::ALLOCATION_AT, 8),
            8 => (extent + manifest::SHAPE_AT + 8 * numbers.below(3), 8),
            9 => (start(found.manifest_block) + numbers.below(found.manifest_bytes as usize), 1),
            10 => (start(found.table_block) + 4 * numbers.below(found.windows as usize), 4),
            _ => {
                // A sub-table, if the version has one.
                let window = start(found.table_block) + 4 * numbers.below(found.windows as usize);
                let word = u32::from_le_bytes(bytes[window..window + 4].try_into().unwrap());
                if word & table::SUBTABLE == 0 {
                    continue;
                }
                (start(word & !table::SUBTABLE) + numbers.below(WINDOW_PAGES), 1)
            }
        };
        let old = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let value = match numbers.below(4) {
            0 => old ^ 1 << numbers.below(8 * size),
            1 => old.wrapping_add(numbers.below(9) as u64).wrapping_sub(4),
            2 => pick(&mut numbers, &NUMBERS) | if size == 4 && numbers.below(2) == 0 { 1 << 31 } else { 0 },
            _ => numbers.next() << 33 ^ numbers.next(),
        };
        damages.push(Damage::Write { file: tables, at: at as u64, bytes: value.to_le_bytes()[..size].to_vec() });
    }
    damages.push(Damage::Mend);
    (number < by_tier(500, 1500)).then_some(Case { damages, trust: Trust::None })
}

/// A schema with bytes flipped, numbers replaced, cut off, or given twice.
fn schemas(image: &Image, number: usize) -> Option<Case<'_>> {
    let mut numbers = Numbers(number as u64 + 11);
    let name = image.files.iter().find(|content| content.name.starts_with("schema."))?.name.clone();
    let file = image.file(&name);
    let text = image.bytes(&name);
    let mut damages = Vec::new();
    match numbers.below(3) {
        0 => {
            let at = numbers.below(text.len()) as u64;
            damages.push(Damage::Flip { file, at, bits: 1 << numbers.below(8) });
        }
        1 => {
            let digits: Vec<usize> = (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
            let at = pick(&mut numbers, &digits);
            let number = pick(&mut numbers, &NUMBERS).to_string();
            let whole = [&text[..at], number.as_bytes(), &text[at + 1..]].concat();
            damages.push(Damage::Write { file, at: 0, bytes: whole });
        }
        _ => {
            let (from, to, count) = (numbers.below(text.len()), numbers.below(text.len()), numbers.below(60));
            let part = text[from..(from + count).min(text.len())].to_vec();
            damages.push(Damage::Write { file, at: to as u64, bytes: part });
        }
    }
    (number < by_tier(300, 600)).then_some(Case { damages, trust: Trust::None })
}

/// Every file cut to many lengths, made longer, removed, or a directory instead.
fn lengths(image: &Image, number: usize) -> Option<Case<'_>> {
    const WAYS: usize = 60;
    let file = number / WAYS;
    let content = image.files.get(file)?;
    let edges = [0, 1, 4, 7, 8, 9, 27, 28, 29, 55, 63, 64, 65, 511, 512, 4095, 4096, 4097];
    let damage = match number % WAYS {
        0 => Damage::Remove { file },
        1 => Damage::Directory { file },
        2 => Damage::Length { file, bytes: content.bytes + 1 },
        3 => Damage::Length { file, bytes: content.bytes + (1 << 30) },
        4 => Damage::Length { file, bytes: 1 << 44 },
        way if way < 5 + edges.len() => Damage::Length { file, bytes: edges[way - 5] },
        way => {
            // Lengths at which a version's last pages, or its descriptor, are just missing, among others.
            let part = content.bytes * (way - 5 - edges.len()) as u64 / (WAYS - 5 - edges.len()) as u64;
            Damage::Length { file, bytes: part / 4096 * 4096 + [0, 1, 4095][way % 3] }
        }
    };
    // A plane that was cut off and made longer again by a producer may hold zeros only where no version is.
    Some(Case { damages: vec![damage], trust: Trust::Whole(&image.expected) })
}

/// Several damages of any kind at once.
fn anything(image: &Image, number: usize) -> Option<Case<'_>> {
    let mut numbers = Numbers(number as u64 + 13);
    let count = 4 + numbers.below(60);
    let mut damages = damage::spell(&rubbish(&mut numbers, count));
    if numbers.below(3) == 0 {
        let (head, spots) = (image.file(head::FILE), head_bytes(image));
        let (at, count) = (pick(&mut numbers, &spots), 1 + numbers.below(9));
        damages.push(Damage::Write { file: head, at, bytes: rubbish(&mut numbers, count) });
    }
    (number < by_tier(250, 700)).then_some(Case { damages, trust: Trust::None })
}

type Target = fn(&[u8]);
type Make = fn(&Image, usize) -> Option<Case<'_>>;

const CLASSES: [(&str, Make); 7] = [
    ("flipped_head", flipped_head),
    ("numbered_head", numbered_head),
    ("flipped_tables", flipped_tables),
    ("crafted_tables", crafted_tables),
    ("schemas", schemas),
    ("lengths", lengths),
    ("anything", anything),
];

fn endure(image: &Image, case: &Case) {
    let root = std::path::PathBuf::from(format!("/dev/shm/stillframe-garbage-{}", std::process::id()));
    let dir = image.lay(&root);
    case.damages.iter().for_each(|damage| damage.apply(&dir, &image.files));
    damage::observe(&root, case.trust);
    damage::recover(&root, case.trust);
    std::fs::remove_dir_all(&root).unwrap();
}

/// The child: does the damages of a class from a number on, and says each number before.
#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn child() {
    let class = std::env::var("STILLFRAME_GARBAGE").unwrap();
    let (class, first) = class.split_once(':').unwrap();
    let make = CLASSES.iter().find(|(name, _)| *name == class).unwrap().1;
    let only = std::env::var_os("STILLFRAME_GARBAGE_CHILD").is_none();
    let image = Image::new();
    let mut number: usize = first.parse().unwrap();
    while let Some(case) = make(&image, number) {
        writeln!(std::io::stderr(), "case {number}").unwrap();
        if only {
            writeln!(std::io::stderr(), "{:?}", case.damages).unwrap();
        }
        endure(&image, &case);
        if only {
            return;
        }
        number += 1;
    }
    writeln!(std::io::stderr(), "end").unwrap();
}

/// Failures of one class that are listed before the test gives up.
const FAILURES_MAX: usize = 20;

fn run(class: &str) {
    let mut failures: Vec<String> = Vec::new();
    let mut first = 0;
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "garbage::child", "--ignored", "--nocapture"])
            .env("STILLFRAME_GARBAGE", format!("{class}:{first}"))
            .env("STILLFRAME_GARBAGE_CHILD", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let (mut at, mut said, mut ended) = (first, Vec::new(), false);
        let hangs = loop {
            match receiver.recv_timeout(std::time::Duration::from_secs(120)) {
                Ok(line) if line == "end" => ended = true,
                Ok(line) => match line.strip_prefix("case ").and_then(|number| number.parse().ok()) {
                    Some(number) => {
                        at = number;
                        said.clear();
                    }
                    None => said.push(line),
                },
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break false,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break true,
            }
        };
        if hangs {
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        let _ = std::fs::remove_dir_all(format!("/dev/shm/stillframe-garbage-{}", child.id()));
        let _ = std::fs::remove_dir_all(format!("/dev/shm/stillframe-image-{}", child.id()));
        if ended && status.success() {
            break;
        }
        let how = if hangs { "hangs".into() } else { status.to_string() };
        failures.push(format!("STILLFRAME_GARBAGE={class}:{at} ({how})\n    {}", said.join("\n    ")));
        if failures.len() >= FAILURES_MAX {
            break;
        }
        first = at + 1;
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_flipped_byte_of_the_head_leads_to_an_answer() {
    run("flipped_head");
}

#[test]
fn every_odd_number_in_the_head_leads_to_an_answer() {
    run("numbered_head");
}

#[test]
fn flipped_bits_of_manifests_and_window_tables_are_found() {
    run("flipped_tables");
}

#[test]
fn tables_made_to_do_harm_do_none() {
    run("crafted_tables");
}

#[test]
fn damaged_schemas_lead_to_an_answer() {
    run("schemas");
}

#[test]
fn missing_files_and_files_of_any_length_lead_to_an_answer() {
    run("lengths");
}

#[test]
fn many_damages_at_once_lead_to_an_answer() {
    run("anything");
}

/// What has no bytes takes a block all the same: one behind the end would be somebody else's once the file has grown, and
/// free when the version goes.
#[test]
fn an_empty_window_table_behind_the_end_of_the_tables_is_refused() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let dir = common::Dir::new("behind");
    let mut region = dir.options().create("r").unwrap();
    region.publish(1).commit().unwrap();
    drop(region);
    let files = dir.path().join("r");
    let blocks = (std::fs::metadata(files.join(table::FILE)).unwrap().len() / BLOCK_BYTES as u64) as u32;
    let head = std::fs::File::options().read(true).write(true).open(files.join(head::FILE)).unwrap();
    let slot = (0..head::SLOTS).find(|slot| {
        let mut state = [0; 8];
        head.read_exact_at(&mut state, head::descriptor_at(*slot) as u64).unwrap();
        state[0] == 1
    });
    let at = head::descriptor_at(slot.unwrap());
    let mut windows = [0; 4];
    head.read_exact_at(&mut windows, (at + descriptor::WINDOWS_AT) as u64).unwrap();
    assert_eq!(windows, [0; 4]);
    head.write_all_at(&blocks.to_le_bytes(), (at + descriptor::TABLE_BLOCK_AT) as u64).unwrap();
    let error = dir.options().create("r").map(drop).unwrap_err();
    assert!(matches!(&error, stillframe::Error::Corrupt { corrupt, .. } if corrupt.file == table::FILE), "{error}");
    assert!(error.to_string().contains(&format!("{blocks} blocks")), "{error}");
}

/// The fuzz targets, with the bytes of a healthy region cut, flipped and thrown about.
#[test]
fn the_fuzz_targets_take_whatever_they_are_given() {
    let image = Image::new();
    let (tables, head) = (image.bytes(table::FILE), image.bytes(head::FILE));
    let schema = image.bytes("schema.1");
    let (_, found) = image.descriptors()[0];
    let part = |block: u32, bytes: usize| &tables[block as usize * BLOCK_BYTES..][..bytes];
    let windows = (found.windows as u16).to_le_bytes();
    let manifest = [&windows[..], part(found.manifest_block, found.manifest_bytes as usize)].concat();
    let entries = [&[255, 200][..], part(found.table_block, found.windows as usize * 4), &[0; 512]].concat();
    let targets: [(&[u8], Target); 4] = [
        (&head[..256], bytes::head),
        (&schema, bytes::schema),
        (&manifest, bytes::manifest),
        (&entries, bytes::tables),
    ];
    let mut numbers = Numbers(1);
    for (healthy, target) in targets {
        (0..healthy.len()).for_each(|end| target(&healthy[..end]));
        for _ in 0..5000 {
            let mut bytes = healthy.to_vec();
            for _ in 0..=numbers.below(4) {
                let at = numbers.below(bytes.len());
                let value = pick(&mut numbers, &NUMBERS) ^ u64::from(numbers.below(9) == 0);
                let size = (1 << numbers.below(4)).min(bytes.len() - at);
                bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
            }
            target(&bytes);
        }
        let count = numbers.below(2000);
        target(&rubbish(&mut numbers, count));
    }
    for _ in 0..20 {
        let count = numbers.below(80);
        damage::fuzz_region(&image, &rubbish(&mut numbers, count));
    }
}
