//! Pinned variables: a device that was told of their memory reads and writes the pages that the program and the versions
//! show, whatever the region does meanwhile.
//!
//! Two devices stand in for a network card or a GPU, for any user: a pipe that `vmsplice` gave pages reads them as they are
//! whenever it is looked into, and io_uring writes into buffers that were registered with it. Both keep the pages and ask the
//! page table no more.
#![allow(unsafe_code)]

use crate::common::{Dir, Numbers, difference_at, trackers, watchdog};
use crate::device::{Ring, Viewer};
use crate::tier::by_tier;
use stillframe::{
    Array, Declaration, Element, Error, Family, Kind, Observer, Outcome, Part, Published, Region, RegionOptions, Rule,
    Tracked, TrackerKind, VariableId,
};

const PAGE: usize = 4096;
const PAGE_WORDS: usize = PAGE / 8;
/// Two windows and a bit.
const PAGES: usize = 1200;
/// In each window a page that is written at every step, one that is written now and then, and some that are cold.
const HOT: [usize; 3] = [3, 700, 1199];
const SAMPLE: [usize; 8] = [0, 3, 100, 511, 512, 700, 1100, 1199];
/// Publishes after which windows that are cold have been demoted, more than once judged.
const COOLING: u64 = 45;

/// Trackers that take memory of a variable which is not pinned away from a device, sooner or later.
fn is_moving(tracker: TrackerKind) -> bool {
    tracker != TrackerKind::FullCopy
}

fn managed(name: &str) -> Declaration {
    Declaration::new(name, u64::dtype(), Kind::Managed { shape: vec![PAGES * PAGE_WORDS] })
}

fn words(region: &mut Region, id: VariableId) -> &mut [u64] {
    bytemuck::cast_slice_mut(region.bytes_mut(id).unwrap())
}

fn view(region: &Region, id: VariableId) -> Viewer {
    let (address, bytes) = region.managed_bytes(id).unwrap();
    assert_eq!(bytes, PAGES * PAGE);
    Viewer::new(&SAMPLE.map(|page| address as usize + page * PAGE))
}

/// What the device sees, against what the program has there.
fn sees(viewer: &Viewer, region: &mut Region, id: VariableId) -> bool {
    let bytes = region.bytes_mut(id).unwrap();
    let expected: Vec<u8> = SAMPLE.iter().flat_map(|page| bytes[page * PAGE..][..PAGE].to_vec()).collect();
    viewer.look() == expected
}

/// Writes what is hot, and sometimes what is cold, publishes, and looks at the version.
fn step(region: &mut Region, observer: &mut Option<Observer>, dir: &Dir, ids: &[VariableId]) -> Published {
    let version = region.newest().unwrap_or(0) + 1;
    for id in ids {
        let words = words(region, *id);
        HOT.iter().for_each(|page| words[page * PAGE_WORDS + 7] = version);
        if version.is_multiple_of(40) {
            SAMPLE.iter().for_each(|page| words[page * PAGE_WORDS + 9] = version);
        }
    }
    let published = region.publish(version).commit().unwrap();
    check(region, observer.get_or_insert_with(|| dir.observe("r")), ids);
    published
}

fn check(region: &mut Region, observer: &Observer, ids: &[VariableId]) {
    let snapshot = observer.newest().unwrap();
    assert_eq!(Some(snapshot.version()), region.newest());
    for id in ids {
        let name = region.declared(*id).unwrap().name;
        let tracker = region.tracker();
        let found = snapshot.slice::<u64>(&name).unwrap();
        let wrong = difference_at(found, words(region, *id));
        assert_eq!(wrong, None, "{tracker}: word of '{name}' in version {}", snapshot.version());
    }
}

/// Leaves a region whose pages lie here and there in its planes.
fn leave_scattered(options: RegionOptions, ids: &[&str]) {
    let mut region = options.create("r").unwrap();
    let arrays: Vec<Array<u64>> = ids.iter().map(|name| region.array(name, &[PAGES * PAGE_WORDS]).unwrap()).collect();
    for version in 1..=5 {
        for array in &arrays {
            let every = if version == 1 { 1 } else { 7 + version as usize };
            let pages = region.slice_mut(array).chunks_mut(PAGE_WORDS).enumerate();
            pages
                .filter(|(page, _)| page % every == 0)
                .for_each(|(page, words)| words.fill(version * 10_000 + page as u64));
        }
        region.publish(version).commit().unwrap();
    }
}

#[test]
fn what_is_written_to_a_pinned_variable_reaches_a_device_that_knows_its_memory() {
    let _watchdog = watchdog(600);
    for tracker in trackers() {
        for (large_pages, is_recovered) in [(false, false), (true, false), (false, true), (true, true)] {
            let dir = Dir::new("pinned");
            let options = || dir.options().tracker(tracker).large_pages(large_pages);
            if is_recovered {
                leave_scattered(options(), &["pinned", "plain"]);
            }
            let mut region = options().create("r").unwrap();
            assert_eq!(region.recovered().is_some(), is_recovered);
            let pinned = region.declare(managed("pinned").pinned()).unwrap();
            let plain = region.declare(managed("plain")).unwrap();
            assert!(region.declared(pinned).unwrap().pinned && !region.declared(plain).unwrap().pinned);
            if !is_recovered {
                for id in [pinned, plain] {
                    let pages = words(&mut region, id).chunks_mut(PAGE_WORDS).enumerate();
                    pages.for_each(|(page, words)| words.fill(10_000 + page as u64));
                }
            }
            let (pinned_viewer, plain_viewer) = (view(&region, pinned), view(&region, plain));
            let mut observer = None;
            for _ in 0..COOLING {
                step(&mut region, &mut observer, &dir, &[pinned, plain]);
                let newest = region.newest();
                let what = format!("{tracker}, large_pages {large_pages}, recovered {is_recovered}, {newest:?}");
                assert!(sees(&pinned_viewer, &mut region, pinned), "{what}");
            }
            if !is_recovered {
                // The device can tell: what is not pinned goes away from under it.
                assert_eq!(sees(&plain_viewer, &mut region, plain), !is_moving(tracker), "{tracker}");
            }
        }
    }
}

#[test]
fn a_variable_pinned_later_stays_from_then_on_and_keeps_what_was_written() {
    let _watchdog = watchdog(600);
    for tracker in trackers() {
        let dir = Dir::new("pinned-later");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let id = region.declare(managed("u")).unwrap();
        words(&mut region, id).chunks_mut(PAGE_WORDS).enumerate().for_each(|(page, words)| words.fill(page as u64 + 1));
        let mut observer = None;
        let whole = (PAGES * PAGE) as u64;
        let rest = |region: &mut Region, observer: &mut Option<Observer>| {
            for _ in 0..COOLING {
                step(region, observer, &dir, &[id]);
            }
            region.statistics().working_bytes
        };
        let shared_bytes = rest(&mut region, &mut observer);
        assert_eq!(shared_bytes < whole, is_moving(tracker), "{tracker}: {shared_bytes} bytes");
        // Written, but not yet published: pages that showed a plane, pages that did not, and one that is zeros again.
        let before = words(&mut region, id).to_vec();
        for page in [0, 3, 100, 1000] {
            words(&mut region, id)[page * PAGE_WORDS + 1] = 77;
        }
        words(&mut region, id)[200 * PAGE_WORDS..201 * PAGE_WORDS].fill(0);
        let expected = words(&mut region, id).to_vec();
        assert_ne!(expected, before);
        let address = region.managed_bytes(id).unwrap();
        region.pin(id).unwrap();
        region.pin(id).unwrap();
        assert!(region.declared(id).unwrap().pinned);
        assert_eq!(region.managed_bytes(id).unwrap(), address);
        assert!(words(&mut region, id) == expected, "{tracker}: pinning changes the content");
        let viewer = view(&region, id);
        for round in 0..3 {
            assert!(rest(&mut region, &mut observer) >= whole, "{tracker}: part of a pinned variable is shared");
            assert!(sees(&viewer, &mut region, id), "{tracker}, round {round}");
        }
        assert!(
            step(&mut region, &mut observer, &dir, &[id]).copied_pages < 100,
            "{tracker}: most of it was not written"
        );
        region.unpin(id).unwrap();
        assert!(!region.declared(id).unwrap().pinned);
        assert_eq!(
            rest(&mut region, &mut observer) < whole,
            is_moving(tracker),
            "{tracker}: cold memory exists once again"
        );
    }
}

#[test]
fn a_recovered_variable_that_is_pinned_is_copied_once_and_not_published_again() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let dir = Dir::new("pinned-recovered");
        leave_scattered(dir.options().tracker(tracker), &["u"]);
        let expected = dir.observe("r").newest().unwrap().slice::<u64>("u").unwrap().to_vec();
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let id = region.declare(managed("u").pinned()).unwrap();
        assert!(words(&mut region, id) == expected, "{tracker}");
        let copied_pages = region.publish(6).commit().unwrap().copied_pages;
        // Soft-dirty bits tell copying from nothing else that was written.
        assert!(copied_pages == 0 || tracker == TrackerKind::SoftDirty, "{tracker}: {copied_pages}");
        assert!(region.statistics().working_bytes >= (PAGES * PAGE) as u64);
        check(&mut region, &dir.observe("r"), &[id]);
    }
}

#[test]
fn a_publish_that_found_no_room_loses_nothing_when_a_variable_is_pinned_after_it() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let dir = Dir::new("pinned-room");
        // Two versions that have nothing in common, and a bit.
        let bound = (2 * PAGES * PAGE + (1 << 20)) as u64;
        let mut region = dir.options().tracker(tracker).rule(Rule::Skip).bound_bytes(bound).create("r").unwrap();
        let id = region.declare(managed("u")).unwrap();
        words(&mut region, id).fill(1);
        let mut observer = None;
        for _ in 0..COOLING {
            step(&mut region, &mut observer, &dir, &[id]);
        }
        let held = dir.observe("r").newest().unwrap();
        let mut outcome = Outcome::Published;
        let mut version = region.newest().unwrap();
        for value in [5, 6] {
            version += 1;
            words(&mut region, id).iter_mut().step_by(PAGE_WORDS).for_each(|word| *word = value);
            outcome = region.publish(version).commit().unwrap().outcome;
        }
        assert_eq!(outcome, Outcome::Skipped, "{tracker}");
        region.pin(id).unwrap();
        drop(held);
        assert_eq!(region.publish(version).commit().unwrap().outcome, Outcome::Published, "{tracker}");
        check(&mut region, observer.as_ref().unwrap(), &[id]);
    }
}

#[test]
fn what_a_device_writes_into_pinned_memory_is_in_the_version_if_it_was_said() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let dir = Dir::new("pinned-device");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let id = region.declare(managed("u")).unwrap();
        words(&mut region, id).chunks_mut(PAGE_WORDS).enumerate().for_each(|(page, words)| words.fill(page as u64));
        let mut observer = None;
        for _ in 0..COOLING {
            step(&mut region, &mut observer, &dir, &[id]);
        }
        region.pin(id).unwrap();
        let (address, _) = region.managed_bytes(id).unwrap();
        // As much as users may lock without asking for more.
        let first = 480;
        let mut ring = match Ring::new(address as usize + first * PAGE, 64 * PAGE) {
            Ok(ring) => ring,
            Err(error) => return eprintln!("skipped: io_uring with registered buffers does not work here: {error}"),
        };
        for round in 0..COOLING {
            step(&mut region, &mut observer, &dir, &[id]);
            let (page, word) = (first + round as usize % 60, 1_000_000 + round);
            ring.write((page - first) * PAGE + 64, &word.to_ne_bytes());
            assert_eq!(
                words(&mut region, id)[page * PAGE_WORDS + 8],
                word,
                "{tracker}: the program sees the device's page"
            );
            region.mark_dirty(id, page * PAGE + 64..page * PAGE + 72).unwrap();
        }
        step(&mut region, &mut observer, &dir, &[id]);
    }
}

#[test]
fn a_pinned_variable_is_resized_where_it_is_or_not_at_all() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let dir = Dir::new("pinned-length");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let part = |rows: usize| Part { offset: vec![0, 0], global_shape: vec![rows, 512] };
        let kind = Kind::Managed { shape: vec![PAGES, 512] };
        let u = region.declare(Declaration::new("u", u64::dtype(), kind).part(part(PAGES)).pinned()).unwrap();
        words(&mut region, u).iter_mut().enumerate().for_each(|(index, word)| *word = index as u64 + 1);
        let (viewer, address) = (view(&region, u), region.managed_bytes(u).unwrap().0);
        let mut observer = None;
        // Three windows of 512 pages are as far as it can grow.
        for rows in [PAGES + 1, 1536, 1100, 0, 600, PAGES] {
            region.repart(u, &[rows, 512], &part(rows)).unwrap();
            assert_eq!(region.managed_bytes(u).unwrap(), (address, rows * PAGE));
            for wanted in [1537, 100_000] {
                let error = region.repart(u, &[wanted, 512], &part(wanted)).unwrap_err();
                assert!(
                    matches!(&error, Error::IsPinned { name, room_bytes: 6_291_456, .. } if name == "u"),
                    "{error}"
                );
                assert_eq!((error.family(), error.code()), (Family::Misuse, 27));
                let text = error.to_string();
                assert!(text.contains(&format!("{}", wanted * PAGE)) && text.contains("unpin"), "{text}");
                assert_eq!(region.managed_bytes(u).unwrap(), (address, rows * PAGE));
                assert_eq!(region.declared(u).unwrap().kind, Kind::Managed { shape: vec![rows, 512] });
            }
            let version = region.newest().unwrap_or(0) + 1;
            region.publish(version).commit().unwrap();
            check(&mut region, observer.get_or_insert_with(|| dir.observe("r")), &[u]);
        }
        // What was cut off and came back is zeros, in the pages that the device knows.
        words(&mut region, u).iter_mut().for_each(|word| *word += 9);
        assert!(sees(&viewer, &mut region, u), "{tracker}");
        region.unpin(u).unwrap();
        region.repart(u, &[1537, 512], &part(1537)).unwrap();
        region.pin(u).unwrap();
        region.publish(100).commit().unwrap();
        check(&mut region, observer.as_ref().unwrap(), &[u]);
    }
}

#[test]
fn memory_that_is_not_the_regions_is_never_moved_and_loans_cannot_be_pinned() {
    let dir = Dir::new("pinned-kinds");
    let mut region = dir.options().create("r").unwrap();
    let tracked: Tracked<u64> = region.track("t").unwrap();
    region.pin(tracked.id()).unwrap();
    region.declare(Declaration::new("s", u64::dtype(), Kind::Tracked).pinned()).unwrap();
    let memory = vec![1u64; 1000];
    region.publish(1).tracked(&tracked, &memory, &[1000]).commit().unwrap();
    region.pin(tracked.id()).unwrap();
    region.unpin(tracked.id()).unwrap();
    let is_refusal = |error: &Error| matches!(error, Error::WrongKind { found: "loaned", .. });
    let loaned = region.loaned::<u64>("l", &[10]).unwrap();
    let error = region.pin(loaned.id()).unwrap_err();
    assert!(is_refusal(&error), "{error}");
    let kind = Kind::Loaned { shape: vec![10] };
    let error = region.declare(Declaration::new("m", u64::dtype(), kind.clone()).pinned()).unwrap_err();
    assert!(is_refusal(&error), "{error}");
    region.declare(Declaration::new("m", u64::dtype(), kind)).unwrap();
    region.remove("m").unwrap();
    let gone = region.declare(managed("gone")).unwrap();
    region.remove("gone").unwrap();
    assert!(matches!(region.pin(gone), Err(Error::UnknownVariable { .. })));
    assert!(matches!(region.unpin(gone), Err(Error::UnknownVariable { .. })));
}

/// Pins and lets go at random among writes, quiet stretches, resizes, versions that fail and restarts, with a copy beside.
#[test]
fn pinning_at_any_time_loses_nothing() {
    let _watchdog = watchdog(600);
    for tracker in trackers() {
        for seed in 0..by_tier(1, 2) {
            let numbers = &mut Numbers(seed);
            let dir = Dir::new("pinned-random");
            let options = || dir.options().tracker(tracker).rule(Rule::Fail).bound_bytes(24 << 20);
            let mut region = options().create("r").unwrap();
            let mut length = PAGES * PAGE_WORDS;
            let declaration = |length: usize, pinned: bool| {
                let kind = Kind::Managed { shape: vec![length] };
                Declaration { pinned, ..Declaration::new("u", u64::dtype(), kind) }
            };
            let mut id = region.declare(declaration(length, false)).unwrap();
            let mut viewer: Option<(Viewer, Vec<usize>)> = None;
            let mut held = Vec::new();
            let (mut copy, mut version) = (vec![0u64; length], 0);
            for round in 0..200 {
                let quiet = round % 100 > 30;
                for _ in 0..if quiet { 1 } else { numbers.below(300) } {
                    let at = if quiet { 5 } else { numbers.below(length) };
                    copy[at] = numbers.next();
                    words(&mut region, id)[at] = copy[at];
                }
                let pinned = viewer.is_some();
                match numbers.below(if quiet { 60 } else { 12 }) {
                    0 if pinned => {
                        viewer = None;
                        region.unpin(id).unwrap();
                    }
                    0 | 1 if !pinned => {
                        region.pin(id).unwrap();
                        let pages: Vec<usize> = (0..8).map(|_| numbers.below(length / PAGE_WORDS)).collect();
                        // A page that was never written has no memory yet that a device could keep.
                        pages.iter().for_each(|page| {
                            copy[page * PAGE_WORDS] |= 1;
                            words(&mut region, id)[page * PAGE_WORDS] |= 1;
                        });
                        let address = region.managed_bytes(id).unwrap().0 as usize;
                        let addresses: Vec<usize> = pages.iter().map(|page| address + page * PAGE).collect();
                        viewer = Some((Viewer::new(&addresses), pages));
                    }
                    2 if pinned => {
                        let wanted = (length + numbers.below(300_000)).saturating_sub(150_000);
                        let wanted = wanted.clamp(100 * PAGE_WORDS, 2000 * PAGE_WORDS);
                        match region.resize(id, &[wanted]) {
                            Ok(()) => {
                                copy.resize(wanted, 0);
                                length = wanted;
                            }
                            Err(Error::IsPinned { .. }) => assert!(wanted > 1024 * PAGE_WORDS),
                            Err(error) => panic!("{error}"),
                        }
                    }
                    3 if region.newest() == Some(version) && held.is_empty() => {
                        let pinned = numbers.below(2) == 0;
                        (viewer, copy) = (None, dir.observe("r").newest().unwrap().slice("u").unwrap().to_vec());
                        drop(region);
                        region = options().create("r").unwrap();
                        id = region.declare(declaration(length, pinned)).unwrap();
                        region.unpin(id).unwrap();
                    }
                    4 if held.len() < 3 && version > 0 => held.push(dir.observe("r").newest().unwrap()),
                    5 => held.clear(),
                    _ => {}
                }
                version += 1;
                let what = format!("{tracker}, seed {seed}, version {version}");
                match region.publish(version).commit() {
                    Ok(_) => {
                        let snapshot = dir.observe("r").newest().unwrap();
                        let found = snapshot.slice::<u64>("u").unwrap();
                        assert_eq!(difference_at(found, &copy), None, "{what}: word in the version");
                    }
                    Err(Error::Bound { .. }) => held.clear(),
                    Err(error) => panic!("{what}: {error}"),
                }
                let wrong = difference_at(words(&mut region, id), &copy);
                assert_eq!(wrong, None, "{what}: word in the working memory");
                if let Some((viewer, pages)) = &viewer {
                    for (page, found) in pages.iter().zip(viewer.look().chunks(PAGE)) {
                        let words = copy.get(page * PAGE_WORDS..(page + 1) * PAGE_WORDS);
                        let is_seen = words.is_none_or(|words| found == bytemuck::cast_slice::<u64, u8>(words));
                        assert!(is_seen, "{what}: page {page}");
                    }
                }
            }
        }
    }
}
