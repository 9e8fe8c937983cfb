//! Sections of arrays: versions show just these elements, as they were at the publish, and copy no page of which nothing was
//! written.
#![allow(unsafe_code)]

use crate::common;

use crate::common::{Dir, Numbers, trackers, watchdog};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use stillframe::{
    Complex, DType, Declaration, Error, Kind, Order, Outcome, Published, Region, Section, Snapshot, Strided, Tracked,
    TrackerKind, VariableId, bf16, f16,
};

/// A section of a buffer of bytes, in the words of [`Strided`].
#[derive(Debug, Clone)]
struct Shape {
    /// The first element, in bytes of the buffer.
    first: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
    memory: DType,
    shown: DType,
    order: Order,
}

/// Elements of types that are rounded and of such that are not.
fn types() -> impl Strategy<Value = (DType, DType)> {
    let float = |bytes| DType::Float(bytes);
    prop_oneof![
        Just((DType::Uint(1), DType::Uint(1))),
        Just((DType::Bytes(3), DType::Bytes(3))),
        Just((float(8), float(8))),
        Just((DType::Bytes(24), DType::Bytes(24))),
        Just((float(8), float(4))),
        Just((float(8), float(2))),
        Just((float(4), DType::Bfloat16)),
        Just((DType::Complex(16), DType::Complex(8))),
    ]
}

/// Sections of arrays of up to 8 dimensions: boxes of them, every n-th element, backwards, with their axes in any order.
fn shape() -> impl Strategy<Value = Shape> {
    let counts = prop_oneof![
        3 => prop::collection::vec(prop_oneof![4 => 1..40usize, 1 => Just(0), 2 => 100..900usize], 0..3),
        2 => prop::collection::vec(1..12usize, 3..5),
        1 => prop::collection::vec(1..4usize, 5..9),
    ];
    let cuts = prop::collection::vec((0..3usize, 0..3usize, 1..4usize, any::<bool>()), 8);
    (types(), counts, cuts, any::<prop::sample::Index>(), any::<bool>(), 0..5000usize, any::<bool>()).prop_map(
        |((memory, shown), counts, cuts, turn, is_transposed, offset, is_fortran)| {
            let (mut first, mut shape, mut strides) = (offset, Vec::new(), Vec::new());
            let mut stride = memory.bytes();
            for (count, (before, after, step, backwards)) in counts.iter().zip(cuts) {
                first += before * stride;
                let reach = count.saturating_sub(1) * step * stride;
                first += if backwards { reach } else { 0 };
                let distance = (step * stride) as isize;
                shape.push(*count);
                strides.push(if backwards { -distance } else { distance });
                stride *= before + (count * step).max(1) + after;
            }
            if is_transposed && !shape.is_empty() {
                let by = turn.index(shape.len());
                shape.rotate_left(by);
                strides.rotate_left(by);
            }
            let order = if is_fortran { Order::Fortran } else { Order::C };
            Shape { first, shape, strides, memory, shown, order }
        },
    )
}

impl Shape {
    /// Bytes that a buffer needs to have.
    fn bytes(&self) -> usize {
        let reach: usize =
            self.shape.iter().zip(&self.strides).map(|(n, stride)| n.saturating_sub(1) * stride.unsigned_abs()).sum();
        self.first + reach + self.memory.bytes()
    }

    /// Where in the buffer each element lies, in the order in which they are shown.
    fn places(&self) -> Vec<usize> {
        let ndim = self.shape.len();
        let slowest_first: Vec<usize> = match self.order {
            Order::C => (0..ndim).collect(),
            Order::Fortran => (0..ndim).rev().collect(),
        };
        slowest_first.iter().fold(vec![self.first], |places, axis| {
            let along = |place: &usize| {
                let place = *place as isize;
                (0..self.shape[*axis] as isize).map(move |at| (place + at * self.strides[*axis]) as usize)
            };
            places.iter().flat_map(along).collect()
        })
    }

    /// What a version has to show.
    fn content(&self, buffer: &[u8]) -> Vec<u8> {
        let bytes = self.memory.bytes();
        let number = |place: usize| f64::from_ne_bytes(buffer[place..place + 8].try_into().unwrap());
        let single = |place: usize| f32::from_ne_bytes(buffer[place..place + 4].try_into().unwrap());
        let element = |place: usize| match (&self.memory, &self.shown) {
            (memory, shown) if memory == shown => buffer[place..place + bytes].to_vec(),
            (DType::Float(8), DType::Float(4)) => (number(place) as f32).to_ne_bytes().to_vec(),
            (DType::Float(8), _) => f16::from_f64_const(number(place)).to_ne_bytes().to_vec(),
            (DType::Float(4), _) => bf16::from_f32(single(place)).to_ne_bytes().to_vec(),
            _ => [number(place) as f32, number(place + 8) as f32].map(f32::to_ne_bytes).concat(),
        };
        self.places().into_iter().flat_map(element).collect()
    }

    fn strided<'a>(&'a self, buffer: &[u8]) -> Strided<'a> {
        let address = buffer.as_ptr().wrapping_add(self.first);
        Strided { address, shape: &self.shape, strides: &self.strides, dtype: self.memory.clone(), order: self.order }
    }
}

/// Fills elements with bytes that are numbers of a few bits, which one rounding or two round alike.
fn write(buffer: &mut [u8], at: usize, bytes: usize, stamp: u64) {
    let end = (at + bytes).min(buffer.len());
    let start = at.min(end);
    for (place, byte) in buffer[start..end].iter_mut().enumerate() {
        // Small in the upper bytes of a number wherever it begins, so that none is infinite or no number.
        *byte = ((stamp as usize + (start + place) * 7) % 61 + 4) as u8;
    }
}

fn bytes_of(snapshot: &Snapshot, name: &str) -> Vec<u8> {
    let variable = snapshot.variable(name).unwrap();
    let bytes = variable.dtype.array_bytes(&variable.shape).unwrap();
    let mut content = vec![0; bytes];
    snapshot.read(name, 0, &mut content).unwrap();
    content
}

/// What a program does between two publishes: parts of a buffer it writes, and which buffer and section it publishes.
#[derive(Debug, Clone)]
struct Turn {
    writes: Vec<(u32, usize)>,
    buffer: usize,
    section: usize,
    is_started: bool,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let write = (any::<u32>(), prop_oneof![1..9usize, 1..5000usize, 1..200_000usize]);
    let turn = (prop::collection::vec(write, 0..4), 0..2usize, prop_oneof![4 => Just(0), 1 => Just(1)], any::<bool>());
    let turn = turn.prop_map(|(writes, buffer, section, is_started)| Turn { writes, buffer, section, is_started });
    prop::collection::vec(turn, 1..12)
}

fn declare(region: &mut Region, name: &str, dtype: &DType) -> VariableId {
    region.declare(Declaration::new(name, dtype.clone(), Kind::Tracked)).unwrap()
}

/// Plays turns with two sections of two buffers, as two variables that see the same memory.
fn play(tracker: TrackerKind, sections: &[Shape; 2], turns: &[Turn]) -> Result<(), String> {
    let dir = Dir::new("sections");
    let mut region = dir.options().tracker(tracker).threads(2).create("r").unwrap();
    let dtype = &sections[0].shown;
    let ids = [declare(&mut region, "one", dtype), declare(&mut region, "two", dtype)];
    let bytes = sections.iter().map(Shape::bytes).max().unwrap();
    let mut buffers = [vec![1u8; bytes], vec![2u8; bytes]];
    let observer = dir.observe("r");
    let mut last: Option<(Snapshot, [Vec<u8>; 2])> = None;
    for (index, turn) in turns.iter().enumerate() {
        let version = index as u64 + 1;
        for (at, length) in &turn.writes {
            let at = ((u64::from(*at) * bytes as u64) >> 32) as usize;
            write(&mut buffers[turn.buffer], at, *length, version);
        }
        // The other variable shows the other section, so that both search the same pages.
        let shown = [turn.section, 1 - turn.section].map(|section| &sections[section]);
        let buffer = &buffers[turn.buffer];
        let mut publication = region.publish(version);
        for (id, section) in ids.iter().zip(shown) {
            // SAFETY: the buffer is longer than the section, and nobody writes it until the publish is finished.
            publication = unsafe { publication.section_raw(*id, &section.strided(buffer)) };
        }
        let expected = shown.map(|section| section.content(buffer));
        if turn.is_started {
            // SAFETY: sections are copied before this returns.
            unsafe { publication.start() }.map_err(|error| error.to_string())?;
            write(&mut buffers[turn.buffer], 0, bytes, version + 17);
            region.publish_finish().map_err(|error| error.to_string())?;
        } else {
            publication.commit().map_err(|error| error.to_string())?;
        }
        let snapshot = observer.newest().map_err(|error| error.to_string())?;
        for (name, expected) in ["one", "two"].into_iter().zip(&expected) {
            let found = bytes_of(&snapshot, name);
            if let Some(difference) = common::content::first_difference(&found, expected) {
                return Err(format!("version {version}, {name}: {difference}"));
            }
        }
        // What may differ from the version before has all that does.
        if let Some((before, content)) = &last {
            for ((name, old), new) in ["one", "two"].into_iter().zip(content).zip(&expected) {
                let changed = snapshot.changed(before, name).map_err(|error| error.to_string())?;
                let is_listed = |byte: &usize| changed.iter().any(|range| range.contains(byte));
                let differs = |byte: &usize| old.get(*byte) != new.get(*byte);
                if let Some(byte) = (0..new.len()).filter(differs).find(|byte| !is_listed(byte)) {
                    return Err(format!("version {version}, {name}: byte {byte} differs and is not listed"));
                }
            }
        }
        last = Some((snapshot, expected));
    }
    Ok(())
}

#[test]
fn versions_show_the_elements_of_a_section_whatever_is_written() {
    let _watchdog = watchdog(900);
    let cases = std::env::var("STILLFRAME_TEST_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for tracker in trackers() {
        let config = Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
        let mut runner = TestRunner::new(config);
        let pair = (shape(), shape()).prop_map(|(one, other)| {
            // Both are of variables of one type.
            [one.clone(), Shape { memory: one.memory.clone(), shown: one.shown.clone(), ..other }]
        });
        let result = runner
            .run(&(pair, turns()), |(sections, turns)| play(tracker, &sections, &turns).map_err(TestCaseError::fail));
        if let Err(error) = result {
            panic!("{tracker}: {error}");
        }
    }
}

const N: usize = 1026;

/// A region with the interior of an array of 1026 × 1026 numbers with ghosts around it.
struct Ghosts {
    dir: Dir,
    region: Region,
    u: Tracked<f64>,
    array: Vec<f64>,
    version: u64,
}

impl Ghosts {
    fn new(tracker: TrackerKind) -> Ghosts {
        let dir = Dir::new("ghosts");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let u = region.track("u").unwrap();
        Ghosts { dir, region, u, array: vec![0.5; N * N], version: 0 }
    }

    fn inner() -> Section {
        Section::of(&[N, N]).inside(&[1..N - 1, 1..N - 1])
    }

    fn publish(&mut self) -> Published {
        self.version += 1;
        let inner = Ghosts::inner();
        let published = self.region.publish(self.version).section(&self.u, &self.array, &inner).commit().unwrap();
        let snapshot = self.dir.observe("r").newest().unwrap();
        assert_eq!(snapshot.version(), self.version);
        assert_eq!(snapshot.variable("u").unwrap().shape, [N - 2, N - 2]);
        let expected = (1..N - 1).flat_map(|row| &self.array[row * N + 1..row * N + N - 1]);
        assert!(snapshot.slice::<f64>("u").unwrap().iter().eq(expected), "version {}", self.version);
        published
    }
}

#[test]
fn rows_that_were_not_written_and_rows_of_ghosts_are_not_copied() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let mut ghosts = Ghosts::new(tracker);
        let all = (N - 2) * (N - 2) * 8 / 4096;
        assert_eq!(ghosts.publish().copied_pages, all as u64);
        assert_eq!(ghosts.publish().copied_pages, 0);
        // Twice, because a window that was published whole is left unarmed once.
        ghosts.array[..N].fill(7.0);
        ghosts.array[(N - 1) * N..].fill(7.0);
        assert!(ghosts.publish().copied_pages <= 2, "{tracker}");
        assert_eq!(ghosts.publish().copied_pages, 0, "{tracker}");
        ghosts.array[500 * N + 1..500 * N + N - 1].fill(8.0);
        // A row of the interior is two pages of the version, and has something in three or four of the array.
        let copied = ghosts.publish().copied_pages;
        assert!((2..=6).contains(&copied), "{copied} pages with {tracker}");
        assert_eq!(ghosts.publish().copied_pages, 0, "{tracker}");
    }
}

#[test]
fn marked_bytes_are_those_that_versions_show() {
    let _watchdog = watchdog(60);
    for tracker in trackers() {
        let mut ghosts = Ghosts::new(tracker);
        ghosts.publish();
        ghosts.publish();
        ghosts.region.mark_dirty(ghosts.u.id(), 4096..4097).unwrap();
        assert_eq!(ghosts.publish().copied_pages, 1);
        let bytes = (N - 2) * (N - 2) * 8;
        let beyond = ghosts.region.mark_dirty(ghosts.u.id(), bytes..bytes + 1);
        assert!(matches!(beyond, Err(Error::OutOfRange { .. })));
    }
}

#[test]
fn buffers_that_are_swapped_keep_what_is_known_of_them() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let mut ghosts = Ghosts::new(tracker);
        let mut other = vec![0.25; N * N];
        let mut numbers = Numbers(3);
        for round in 0..20 {
            for _ in 0..3 {
                let at = numbers.below(N * N);
                ghosts.array[at] = f64::from(round);
            }
            let copied = ghosts.publish().copied_pages;
            // Those that were published whole are so once more, when they come back for the first time.
            assert!(round < 4 || copied <= 12, "{copied} pages with {tracker}");
            std::mem::swap(&mut ghosts.array, &mut other);
        }
        // As an array as a whole, and as a section of it again.
        let whole = ghosts.region.publish(100).tracked(&ghosts.u, &ghosts.array, &[N, N]).commit().unwrap();
        assert_eq!(whole.outcome, Outcome::Published);
        assert!(ghosts.dir.observe("r").newest().unwrap().slice::<f64>("u").unwrap() == ghosts.array);
        ghosts.version = 100;
        ghosts.array[N + 1] = -3.0;
        ghosts.publish();
    }
}

#[test]
fn a_section_whose_memory_is_gone_is_an_error_and_no_signal() {
    let _watchdog = watchdog(60);
    for tracker in trackers() {
        let dir = Dir::new("freed");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let id = declare(&mut region, "u", &DType::Float(8));
        let bytes = 64 << 12;
        // SAFETY: the kernel chooses an address that is free.
        let at = unsafe {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        let (shape, strides) = ([bytes / 16], [16]);
        let memory =
            Strided { address: at.cast(), shape: &shape, strides: &strides, dtype: DType::Float(8), order: Order::C };
        // SAFETY: the memory was mapped for the test.
        unsafe { region.publish(1).section_raw(id, &memory).commit() }.unwrap();
        // SAFETY: nobody refers to it.
        assert_eq!(unsafe { libc::munmap(at.wrapping_byte_add(9 << 12), 4096) }, 0);
        // SAFETY: that it can be read is what is asked for first.
        let error = unsafe { region.publish(2).section_raw(id, &memory).commit() }.unwrap_err();
        assert!(matches!(error, Error::NotMapped { .. }), "{error}");
        assert_eq!(dir.observe("r").newest().unwrap().version(), 1);
        // SAFETY: as above.
        unsafe { libc::munmap(at, bytes) };
    }
}

#[test]
fn one_that_is_freed_or_written_after_the_start_was_copied_before() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        for is_guarded in [false, true] {
            let dir = Dir::new("started");
            let mut region = dir.options().tracker(tracker).threads(2).check_writes(true).create("r").unwrap();
            let (u, plain) = (region.track::<f64>("u").unwrap(), region.track::<u64>("plain").unwrap());
            let words = vec![4u64; 100_000];
            for version in 1..4 {
                let mut array = vec![version as f64; N * N];
                let publication = region.publish(version).section(&u, &array, &Ghosts::inner());
                let publication = publication.tracked(&plain, &words, &[words.len()]);
                if is_guarded {
                    publication.start_guarded().unwrap();
                } else {
                    // SAFETY: sections are copied before this returns; the other array is not written.
                    unsafe { publication.start() }.unwrap();
                }
                array.fill(-1.0);
                drop(array);
                assert_eq!(region.publish_finish().unwrap().unwrap().version, version);
                let snapshot = dir.observe("r").newest().unwrap();
                assert!(snapshot.slice::<f64>("u").unwrap().iter().all(|number| *number == version as f64));
                assert!(snapshot.slice::<u64>("plain").unwrap() == words);
            }
        }
    }
}

#[test]
fn what_cannot_be_a_section_is_refused_and_says_why() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("refused");
    let mut region = dir.options().create("r").unwrap();
    let (u, whole) = (region.track::<f64>("u").unwrap(), region.track::<i32>("whole").unwrap());
    let array = vec![1.0f64; 100];
    let section = Section::of(&[10, 10]).every(&[3, 2]);
    let mut refused = |publish: &dyn Fn(stillframe::Publication<'_>) -> stillframe::Result<Published>| {
        let error = publish(region.publish(1)).unwrap_err();
        assert!(matches!(error, Error::WrongShape { .. }), "{error:?}");
        error.to_string()
    };
    let too_long = Section::of(&[10, 11]);
    assert!(refused(&|p| unsafe_commit(p.section(&u, unbound(&array), &too_long))).contains("[10, 11]"));
    let types = refused(&|p| unsafe_commit(p.section(&whole, unbound(&array), &section)));
    assert!(types.contains("float64 cannot be shown as int32"), "{types}");
    let twice = |p: stillframe::Publication<'_>| {
        unsafe_commit(p.section(&u, unbound(&array), &section).section(&u, unbound(&array), &section))
    };
    assert!(refused(&twice).contains("twice"));
    for (shape, strides, why) in [
        (vec![4, 4], vec![8], "2 dimensions"),
        (vec![3], vec![isize::MAX], "leaves the address space"),
        (vec![usize::MAX, 2], vec![8, 8], "too many"),
        (vec![1; 9], vec![8; 9], "9 dimensions"),
    ] {
        let memory = Strided {
            address: array.as_ptr().cast(),
            shape: &shape,
            strides: &strides,
            dtype: DType::Float(8),
            order: Order::C,
        };
        // SAFETY: nothing is read of what is refused.
        let found = refused(&|p| unsafe { p.section_raw(u.id(), &memory) }.commit());
        assert!(found.contains(why), "{found}");
    }
    // And one that reaches beyond what is there.
    let memory = Strided {
        address: array.as_ptr().cast(),
        shape: &[2, 2],
        strides: &[1 << 46, 8],
        dtype: DType::Float(8),
        order: Order::C,
    };
    // SAFETY: whether it can be read is looked for first.
    let error = unsafe { region.publish(1).section_raw(u.id(), &memory) }.commit().unwrap_err();
    assert!(matches!(error, Error::NotMapped { .. }), "{error}");
    assert_eq!(region.newest(), None);
}

/// The array of a publication that is refused need not be borrowed for long.
fn unbound(array: &[f64]) -> &'static [f64] {
    // SAFETY: the test's array outlives all publications that are given it.
    unsafe { std::slice::from_raw_parts(array.as_ptr(), array.len()) }
}

fn unsafe_commit(publication: stillframe::Publication<'_>) -> stillframe::Result<Published> {
    publication.commit()
}

#[test]
fn elements_so_far_apart_that_their_pages_are_not_watched_are_compared() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        let dir = Dir::new("sparse");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let u = region.track::<f64>("u").unwrap();
        let (rows, columns) = (600, 4096);
        let mut array = vec![1.0; rows * columns];
        let corner = Section::of(&[rows, columns]).inside(&[0..rows, 0..1]);
        for version in 1..6 {
            array[(version as usize * 101) * columns] = version as f64;
            let published = region.publish(version).section(&u, &array, &corner).commit().unwrap();
            assert!(version == 1 || published.copied_pages == 1, "{tracker}: {published:?}");
            let found = dir.observe("r").newest().unwrap().slice::<f64>("u").unwrap().to_vec();
            assert!((0..rows).all(|row| found[row] == array[row * columns]), "{tracker}");
        }
    }
}

#[test]
fn a_program_that_goes_on_reads_a_section_through_an_observer() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("again");
    let array: Vec<Complex<f64>> = (0..100).map(|number| Complex::new(f64::from(number), 0.1)).collect();
    let section = Section::of(&[100]).every(&[7]);
    let mut region = dir.options().create("r").unwrap();
    let z = region.track::<Complex<f32>>("z").unwrap();
    region.publish(1).section(&z, &array, &section).commit().unwrap();
    drop(region);
    let mut region = dir.options().create("r").unwrap();
    assert_eq!(region.recovered(), Some(1));
    let z = region.track::<Complex<f32>>("z").unwrap();
    let last = dir.observe("r").newest().unwrap().slice::<Complex<f32>>("z").unwrap().to_vec();
    assert_eq!(last[2], Complex::new(14.0, 0.1f32));
    let published = region.publish(2).section(&z, &array, &section).commit().unwrap();
    assert_eq!(published.copied_pages, 1);
    assert_eq!(dir.observe("r").newest().unwrap().slice::<Complex<f32>>("z").unwrap().to_vec(), last);
}

#[test]
fn sections_without_elements_and_without_dimensions_are_published() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("empty");
    let mut region = dir.options().create("r").unwrap();
    let (none, one) = (region.track::<f32>("none").unwrap(), region.track::<f16>("one").unwrap());
    let array = [3.0f64];
    let empty = Section::of(&[1, 1]).inside(&[1..1, 0..1]);
    region.publish(1).section(&none, &array, &empty).section(&one, &array, &Section::of(&[])).commit().unwrap();
    let snapshot = dir.observe("r").newest().unwrap();
    assert_eq!(snapshot.variable("none").unwrap().shape, [0, 1]);
    assert!(snapshot.slice::<f32>("none").unwrap().to_vec().is_empty());
    assert_eq!(snapshot.slice::<f16>("one").unwrap().to_vec(), [f16::from_f32(3.0)]);
}
