//! Objects over several nodes: each is a directory with a runtime of its own, in this process.

use crate::common::{until, watchdog};
use crate::places::Nodes;
use std::fmt::Debug;
use std::time::{Duration, Instant};
use stillframe_object::{Error, Object, ReadFragment, WriteFragment};
use stillframe_wire::ObjectId;

const LONG: Duration = Duration::from_secs(60);

/// Calls until the error is the one that is expected: a call with a short limit may end before the other nodes have answered. Nothing but
/// a limit may be reached before.
fn failing<T: Debug>(is_expected: impl Fn(&Error) -> bool, mut call: impl FnMut() -> Result<T, Error>) {
    let begin = Instant::now();
    loop {
        let error = call().unwrap_err();
        if is_expected(&error) {
            return;
        }
        assert!(error.is_timeout() && begin.elapsed() < LONG, "{error}");
    }
}

#[test]
fn a_reader_has_elements_of_writers_of_two_other_nodes() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("two", 3);
    let object = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let mut left = object.write("{ var v [x:4] = u[x] }").rank(0).attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut right = there.write("{ var v [x:4] = u[x+4] }").rank(1).attach().unwrap();
    for version in 1..=20_u64 {
        left.variable_mut::<i32>("v").unwrap().copy_from_slice(&[0, 1, 2, 3].map(|x| x + 100 * version as i32));
        right.variable_mut::<i32>("v").unwrap().copy_from_slice(&[4, 5, 6, 7].map(|x| x + 100 * version as i32));
        left.publish(version).unwrap();
        right.publish(version).unwrap();
    }
    let reading = nodes.objects(2).wait("u", LONG).unwrap();
    let mut all = reading.read("{ var v = u }").attach().unwrap();
    all.reattach(20, LONG).unwrap();
    let wanted: Vec<i32> = (0..8).map(|x| x + 2000).collect();
    assert_eq!(all.variable::<i32>("v").unwrap(), wanted);
    // A version can be read before this node hears that it is complete.
    assert_eq!(reading.wait_newer(19, LONG).unwrap(), 20);
}

#[test]
fn ghosts_are_exchanged_between_nodes_version_by_version() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("ghosts", 2);
    nodes.objects(0).create("u", "var u [8] int64").create().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..2_usize {
            let objects = nodes.objects(rank);
            scope.spawn(move || {
                let object = objects.wait("u", LONG).unwrap();
                let begin = 4 * rank as i64;
                let mut own =
                    object.write("{ var v [x:4] = u[x+b] }").bind("b", begin).rank(rank as u32).attach().unwrap();
                let ghost = if rank == 0 { 4 } else { 3 };
                let mut ghost = object.read("{ var g [x:1] = u[x+b] }").bind("b", ghost).attach().unwrap();
                let mut seen = 0;
                for version in 1..=50_u64 {
                    own.variable_mut::<i64>("v").unwrap().fill(version as i64 * 10 + rank as i64 + seen % 7);
                    let sent = version as i64 * 10 + rank as i64 + seen % 7;
                    own.publish(version).unwrap();
                    ghost.reattach(version, LONG).unwrap();
                    let got = ghost.variable::<i64>("g").unwrap()[0];
                    assert_eq!(got / 10, version as i64 + (got % 10) / 10, "rank {rank}, version {version}");
                    assert_eq!(got - got % 10, version as i64 * 10, "rank {rank} sent {sent}");
                    seen = got;
                }
            });
        }
    });
}

#[test]
fn holes_of_what_comes_from_another_node_are_as_the_text_says() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("holes", 2);
    let here = nodes.objects(0).create("u", "var u [4] int64").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut reader = there.read("view g clipped fill -1 { var g [x:6] = u[x-1] }").attach().unwrap();
    for version in 1..=9_u64 {
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
        reader.reattach(version, LONG).unwrap();
        let value = version as i64;
        assert_eq!(reader.variable::<i64>("g").unwrap(), [-1, value, value, value, value, -1]);
    }
}

#[test]
fn versions_of_another_node_are_read_in_any_order() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("order", 2);
    let here = nodes.objects(0).create("u", "var u [8] int64").create().unwrap();
    let mut writer = here.write("{ var v = u }").keep(10).attach().unwrap();
    for version in 1..=5 {
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
    }
    let mut reader = nodes.objects(1).wait("u", LONG).unwrap().read("{ var v = u }").attach().unwrap();
    for version in [5, 3, 4, 1, 5] {
        reader.reattach(version, LONG).unwrap();
        assert_eq!(reader.variable::<i64>("v").unwrap(), [version as i64; 8]);
    }
}

#[test]
fn writers_of_two_nodes_that_want_the_same_elements_are_not_both_attached() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("overlap", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let first = here.write("{ var v [x:5] = u[x] }").rank(3).attach().unwrap();
    let text = "{ var v [x:5] = u[x+3] }";
    let refused = |error: &Error| matches!(error, Error::Overlap { .. } | Error::NotAccepted { .. });
    failing(refused, || there.write(text).wait(Duration::from_millis(300)).attach());
    drop(first);
    there.write(text).wait(LONG).attach().unwrap();
}

/// What is sent in many pieces: as it lies, with gaps, in another order, and out of records whose size divides no piece.
#[test]
fn large_fragments_come_whole_in_any_layout() {
    const N: usize = 1200;
    let _watchdog = watchdog(240);
    let nodes = Nodes::new("large", 3);
    let text = "type Cell struct { a float64; b [3]float32; c uint8 }\nvar u [n,n] float64\nvar r [n,n]Cell";
    let here = nodes.objects(0).create("u", text).bind("n", N as i64).create().unwrap();
    let other = nodes.objects(1).wait("u", LONG).unwrap();
    let there = nodes.objects(2).wait("u", LONG).unwrap();
    let written = "view w packed { var u [x:rows,y:n] = u[x+first,y]; var r [x:rows,y:n] = r[x+first,y] }";
    let writer = |object: &Object, first: usize| {
        let options = object.write(written).bind("rows", N as i64 / 2).bind("first", first as i64);
        options.attach().unwrap()
    };
    let mut writers = [(writer(&here, 0), 0), (writer(&other, N / 2), N / 2)];
    let mut all = there.read("{ var u = u }").attach().unwrap();
    let mut some = there.read("{ var u [x,y] = u[2*x,4*y] }").attach().unwrap();
    let mut turned = there.read("view t columnmajor { var u [x,y] = u[x,y] }").attach().unwrap();
    let mut fields = there.read("{ var a [,] = r[,].a; var c [,] = r[,].c }").attach().unwrap();
    let value = |version: u64, x: usize, y: usize| version as f64 * 1e8 + (x * N + y) as f64;
    for version in 1..=3 {
        for (fragment, first) in &mut writers {
            for (at, number) in fragment.variable_mut::<f64>("u").unwrap().iter_mut().enumerate() {
                *number = value(version, *first + at / N, at % N);
            }
            let records = &mut fragment.bytes_mut().unwrap()[N * N / 2 * 8..];
            let bytes = records.len() / (N * N / 2);
            for (at, record) in records.chunks_exact_mut(bytes).enumerate() {
                let a = value(version, *first + at / N, at % N);
                record[..8].copy_from_slice(&a.to_ne_bytes());
                record[20] = at as u8 ^ version as u8;
            }
            fragment.publish(version).unwrap();
        }
        for fragment in [&mut all, &mut some, &mut turned, &mut fields] {
            fragment.reattach(version, LONG).unwrap();
        }
        let (u, s, t) = [&all, &some, &turned].map(|one| one.variable::<f64>("u").unwrap()).into();
        let (a, c) = (fields.variable::<f64>("a").unwrap(), fields.variable::<u8>("c").unwrap());
        for (x, y) in (0..N * N).map(|at| (at / N, at % N)) {
            let is = value(version, x, y);
            assert!(u[x * N + y] == is && t[y * N + x] == is && a[x * N + y] == is, "version {version} at {x}, {y}");
            assert!(!(x % 2 == 0 && y % 4 == 0) || s[x / 2 * (N / 4) + y / 4] == is, "version {version} at {x}, {y}");
            let at = x % (N / 2) * N + y;
            assert!(c[x * N + y] == at as u8 ^ version as u8, "version {version} at {x}, {y}");
        }
    }
}

/// Numbers are converted where they come from. They lie in records of 21 bytes, and what is sent at once begins and ends within them.
#[test]
fn numbers_of_another_node_are_converted_on_the_way() {
    const N: usize = 200_000;
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("converted", 2);
    let text = "var u [n] struct { a float64; b [3]float32; c uint8 }";
    let here = nodes.objects(0).create("u", text).bind("n", N as i64).create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut writer = here.write("view w packed { var u = u }").attach().unwrap();
    let mut single = there.read("{ var a [i]float32 = u[i].a; var c = u.c }").attach().unwrap();
    let mut double =
        there.read("view t bigendian { var b [k,i]float64 = u[N-1-i].b[k] }").bind("N", N as i64).attach().unwrap();
    for version in 1..=2_u64 {
        let (a, b) =
            (|at: usize| (at as f64 + version as f64 / 3.0) * 0.1, |at: usize| at as f32 / 7.0 + version as f32);
        let records = writer.bytes_mut().unwrap();
        for (at, record) in records.chunks_exact_mut(21).enumerate() {
            record[..8].copy_from_slice(&a(at).to_ne_bytes());
            (0..3).for_each(|k| record[8 + 4 * k..][..4].copy_from_slice(&b(3 * at + k).to_ne_bytes()));
            record[20] = at as u8;
        }
        writer.publish(version).unwrap();
        single.reattach(version, LONG).unwrap();
        double.reattach(version, LONG).unwrap();
        let (numbers, beside) = (single.variable::<f32>("a").unwrap(), single.variable::<u8>("c").unwrap());
        let swapped = double.bytes();
        for at in 0..N {
            assert_eq!((numbers[at], beside[at]), (a(at) as f32, at as u8), "version {version} at {at}");
            for k in 0..3 {
                let bytes = &swapped[8 * (k * N + N - 1 - at)..][..8];
                let number = f64::from_be_bytes(bytes.try_into().unwrap());
                assert_eq!(number, f64::from(b(3 * at + k)), "version {version} at {at}, {k}");
            }
        }
    }
}

#[test]
fn what_was_published_while_no_home_acted_is_complete_when_one_does() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("homeless", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    for version in [1, 3, 5] {
        writer.publish(version).unwrap();
        all.reattach(version, LONG).unwrap();
        nodes.set_homeless(true);
        writer.publish(version + 1).unwrap();
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| all.reattach(version + 1, LONG));
            // Both runtimes have done by then what they can.
            std::thread::sleep(Duration::from_millis(200));
            nodes.set_homeless(false);
            reading.join().unwrap().unwrap();
        });
        assert_eq!(there.wait_newer(version, LONG).unwrap(), version + 1);
    }
}

#[test]
fn what_a_reader_waits_for_is_named_with_its_node() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("names", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let _writer = here.write("{ var v = u }").rank(3).attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    let names_it = |error: &Error| {
        let text = error.to_string();
        error.is_timeout() && text.contains("rank 3") && text.contains("on node 1")
    };
    failing(names_it, || all.reattach(1, Duration::from_millis(500)));
}

/// An object whose home is the second of three nodes, where its upper half is written; the lower half is written on the first, and the
/// third one reads all. Both published version 1, and the lower half version 2.
fn lower_half_ahead(nodes: &Nodes, is_wanted: impl Fn(ObjectId) -> bool) -> ([WriteFragment; 2], ReadFragment) {
    let objects = nodes.objects(0);
    let created = (0..).map(|number| format!("u{number}")).find_map(|name| {
        let object = objects.create(&name, "var u [8] int32").create().unwrap();
        let id = ObjectId(object.description().id);
        (nodes.home(id) == 1 && is_wanted(id)).then_some((name, object))
    });
    let (name, here) = created.unwrap();
    let (there, other) = (nodes.objects(1).wait(&name, LONG).unwrap(), nodes.objects(2).wait(&name, LONG).unwrap());
    let mut lower = here.write("{ var v [x:4] = u[x] }").rank(0).attach().unwrap();
    let mut upper = there.write("{ var v [x:4] = u[x+4] }").rank(1).attach().unwrap();
    let mut all = other.read("{ var v = u }").attach().unwrap();
    lower.publish(1).unwrap();
    upper.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    lower.publish(2).unwrap();
    ([lower, upper], all)
}

#[test]
fn elements_of_a_node_that_is_lost_are_named_also_if_the_home_was_there() {
    let _watchdog = watchdog(60);
    let mut nodes = Nodes::new("lost", 3);
    let (_writers, mut all) = lower_half_ahead(&nodes, |_| true);
    let of_node = format!("on node {}", nodes.number(1).0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| all.reattach(2, LONG).unwrap_err());
        std::thread::sleep(Duration::from_millis(300));
        nodes.stop(1);
        nodes.lose(1);
        let error = waiting.join().unwrap();
        let text = error.to_string();
        assert!(matches!(error, Error::LostElsewhere { version: 2, .. }), "{text}");
        for words in ["u[4..8]", "rank 1", &of_node, "lost"] {
            assert!(text.contains(words), "{text}");
        }
    });
}

/// The next home may tell its roster, without them, before a node hears that theirs is lost.
#[test]
fn elements_of_a_node_that_was_lost_with_its_home_are_named_whoever_tells_it_first() {
    let _watchdog = watchdog(120);
    for next_home in [0, 2] {
        let mut nodes = Nodes::new("first", 3);
        let is_next = |id: ObjectId| next_home == if id.0.get().is_multiple_of(2) { 0 } else { 2 };
        let (_writers, mut all) = lower_half_ahead(&nodes, is_next);
        let mut waits_for = |what: &str| {
            loop {
                let waiting = all.reattach(2, Duration::from_millis(50)).unwrap_err();
                assert!(waiting.is_timeout(), "{waiting}");
                if waiting.to_string().contains(what) {
                    break;
                }
            }
        };
        waits_for("rank 1");
        nodes.stop(1);
        nodes.end_lease(1);
        nodes.tell_lost(0, 1);
        waits_for("nobody has attached");
        nodes.tell_lost(2, 1);
        let error = all.reattach(2, LONG).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::LostElsewhere { version: 2, .. }) && text.contains("rank 1"), "{text}");
    }
}

#[test]
fn publishing_goes_on_without_a_runtime_and_readers_go_on_when_it_is_back() {
    let _watchdog = watchdog(60);
    let mut nodes = Nodes::new("restart", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    writer.variable_mut::<i32>("v").unwrap().fill(1);
    writer.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    for node in 0..2 {
        nodes.stop(node);
        let version = 2 * (node as u64 + 1);
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32);
        writer.publish(version).unwrap();
        nodes.start(node);
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32 + 1);
        writer.publish(version + 1).unwrap();
        all.reattach(version + 1, LONG).unwrap();
        assert_eq!(all.variable::<i32>("v").unwrap(), [version as i32 + 1; 8]);
    }
}

#[test]
fn of_a_large_fragment_only_what_changed_is_sent() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("changed", 2);
    const LENGTH: usize = 1 << 20;
    let here = nodes.objects(0).create("u", "var u [1048576] int64").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    // As it lies, every second element, and in another order of bytes.
    let texts = ["{ var v = u }", "{ var v [x:524288] = u[2*x] }", "view b bigendian { var v = u }"];
    // Each version is asked for before it is published, when the one before still is there.
    let mut readers: Vec<_> = texts.iter().map(|text| there.read(text).prefetch().attach().unwrap()).collect();
    let mut first_bytes = 0;
    let mut wanted: Vec<i64> = (0..LENGTH as i64).collect();
    for version in 1..=20_u64 {
        let first = (version as usize * 777_777) % (LENGTH - 5000);
        let changed = if version == 1 { 0..LENGTH } else { first..first + version as usize * 200 };
        for place in changed.clone() {
            wanted[place] = version as i64 * 10_000_000 + place as i64;
        }
        writer.variable_mut::<i64>("v").unwrap()[changed.clone()].copy_from_slice(&wanted[changed]);
        writer.publish(version).unwrap();
        for (text, reader) in texts.iter().zip(&mut readers) {
            reader.reattach(version, LONG).unwrap();
            let got = reader.bytes().chunks_exact(8);
            let is_big = text.contains("bigendian");
            let read = |bytes: &[u8]| match is_big {
                true => i64::from_be_bytes(bytes.try_into().unwrap()),
                false => i64::from_le_bytes(bytes.try_into().unwrap()),
            };
            let step = if text.contains("2*x") { 2 } else { 1 };
            assert!(got.map(read).eq(wanted.iter().copied().step_by(step)), "version {version} of {text}");
        }
        first_bytes = if version == 1 { nodes.sent_bytes() } else { first_bytes };
    }
    let more_bytes = nodes.sent_bytes() - first_bytes;
    assert!(
        more_bytes < 19 * first_bytes / 2,
        "{first_bytes} bytes were sent of version 1, {more_bytes} of the 19 others"
    );
}

/// Whoever comes later, goes back, or leaves while it is brought: each has all of it, and it crosses the network once for all who read on.
#[test]
fn a_fragment_comes_once_however_many_programs_of_a_node_read_it() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("shared", 3);
    const LENGTH: usize = 200_000;
    let text = "var u [400000] int64";
    let here = nodes.objects(0).create("u", text).create().unwrap();
    let other = nodes.objects(1).wait("u", LONG).unwrap();
    let part = |object: &Object, first: usize| {
        object.write("{ var v [x:200000] = u[x+first] }").bind("first", first as i64).keep(8).attach().unwrap()
    };
    let mut writers = [part(&here, 0), part(&other, LENGTH)];
    let mut publish = |version: u64| {
        for (at, writer) in writers.iter_mut().enumerate() {
            for (place, number) in writer.variable_mut::<i64>("v").unwrap().iter_mut().enumerate() {
                *number = (version as usize * 1_000_000 + at * LENGTH + place) as i64;
            }
            writer.publish(version).unwrap();
        }
    };
    let check = |numbers: &[i64], version: u64, step: usize| {
        let wanted = (0..2 * LENGTH).step_by(step).map(|at| (version as usize * 1_000_000 + at) as i64);
        assert!(numbers.iter().copied().eq(wanted), "version {version}, every {step}");
    };
    publish(1);
    let there = nodes.objects(2).wait("u", LONG).unwrap();
    let read = |version: u64| {
        let mut reader = there.read("{ var v = u }").attach().unwrap();
        reader.reattach(version, LONG).unwrap();
        check(reader.variable::<i64>("v").unwrap(), version, 1);
        reader
    };
    let first = read(1);
    let once_bytes = nodes.sent_bytes();
    assert!(once_bytes >= 16 * LENGTH as u64);
    drop((read(1), read(1)));
    assert_eq!(nodes.sent_bytes(), once_bytes, "a reader that came later was sent it once more");
    // Another fragment is another one.
    let mut half = there.read("{ var v [x:200000] = u[2*x] }").attach().unwrap();
    half.reattach(1, LONG).unwrap();
    check(half.variable::<i64>("v").unwrap(), 1, 2);
    drop((first, half));

    let mut readers: Vec<_> = (0..4).map(|_| read(1)).collect();
    for version in 2..=9 {
        publish(version);
        let before = nodes.sent_bytes();
        // All at once, and one of them has enough.
        std::thread::scope(|scope| {
            for (at, reader) in readers.iter_mut().enumerate() {
                let check = &check;
                scope.spawn(move || {
                    let limit = if at as u64 == version % 4 { Duration::ZERO } else { LONG };
                    if reader.reattach(version, limit).is_ok() {
                        check(reader.variable::<i64>("v").unwrap(), version, 1);
                    } else {
                        assert!(limit.is_zero());
                    }
                });
            }
        });
        let bytes = nodes.sent_bytes() - before;
        // Who gives up while it is brought may let it be brought to another one from the beginning.
        assert!(bytes <= 2 * 16 * LENGTH as u64, "version {version} took {bytes} bytes");
    }
}

#[test]
fn the_next_version_is_there_before_it_is_asked_for() {
    let _watchdog = watchdog(60);
    let mut nodes = Nodes::new("prefetch", 2);
    let here = nodes.objects(0).create("u", "var u [1000] int64").create().unwrap();
    let mut writer = here.write("{ var v = u }").keep(32).attach().unwrap();
    let mut publish = |version: u64| {
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
    };
    let mut reader = nodes.objects(1).wait("u", LONG).unwrap().read("{ var v = u }").prefetch().attach().unwrap();
    let mut read = |version: u64| {
        reader.reattach(version, LONG).unwrap();
        assert!(reader.variable::<i64>("v").unwrap().iter().all(|number| *number == version as i64));
    };
    (1..=3).for_each(|version| publish(10 * version));
    read(10);
    read(20);
    // The runtime has asked for version 30 by itself: once it has it, the writer's node need not be there.
    let began = std::time::Instant::now();
    while nodes.filled(1, "u") != Some(30) {
        assert!(began.elapsed() < LONG, "version 30 was not fetched");
        std::thread::sleep(Duration::from_millis(1));
    }
    nodes.stop(0);
    read(30);
}

#[test]
fn what_programs_read_of_other_nodes_has_a_bound() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("bound", 2);
    let here = nodes.objects(0).create("u", "var u [4,1048576] int64").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    until("it is complete", || there.newest().unwrap() == 1);
    // 48 of 128 MiB each: three versions of 16 MiB.
    let text = "{ var v [x:2,y:1048576] = u[x+1,y] }";
    let mut readers: Vec<_> = (0..3).map(|_| there.read(text).attach().unwrap()).collect();
    readers[0].reattach(1, LONG).unwrap();
    readers[1].reattach(1, LONG).unwrap();
    let refused = readers[2].reattach(1, Duration::from_millis(100)).unwrap_err();
    let (taken, bound) = (96 << 20, 128 << 20);
    assert!(
        matches!(refused, Error::NoMemory { bytes, taken_bytes, bound_bytes, .. }
            if (bytes, taken_bytes, bound_bytes) == (48 << 20, taken, bound)),
        "{refused:?}"
    );
    assert!(refused.is_timeout() && refused.to_string().contains("--memory-mib"), "{refused}");
    // Once it was given back nobody has to wait for it.
    readers.remove(0).give_back().unwrap();
    readers[1].reattach(1, Duration::ZERO).unwrap();
}
