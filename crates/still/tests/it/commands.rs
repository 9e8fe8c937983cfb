//! The real program against regions of a real producer, each test in a directory of its own.

use crate::support::{Guard, Scene, files, until, wait};
use bytemuck::{Pod, Zeroable};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stillframe::inspect::xpmem;
use stillframe::{
    Array, Attributes, DType, Declaration, Element, Kind, Observer, Order, Outcome, Region, Rule, VariableId,
};
use stillframe_kernel::lock::{self, Kind as LockKind};

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Cell {
    rho: f64,
    id: i32,
    tag: [u8; 4],
}

impl Element for Cell {
    fn dtype() -> DType {
        DType::packed([("rho", DType::Float(8)), ("id", DType::Int(4)), ("tag", DType::Bytes(4))]).unwrap()
    }
}

/// Fills a managed variable for which there is no typed handle.
#[allow(unsafe_code)]
fn fill(region: &mut Region, id: VariableId, bytes: &[u8]) {
    let (start, length) = region.managed_bytes(id).unwrap();
    assert_eq!(length, bytes.len());
    // SAFETY: the region owns `length` bytes at `start`, it is borrowed mutably here, and both ranges are of that length.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, length) };
}

/// A region with one variable of every sort, published as version 7.
fn museum(scene: &Scene) -> Region {
    let (mut region, u) = scene.region("museum", &[40, 30]);
    region.slice_mut(&u).iter_mut().enumerate().for_each(|(place, value)| *value = place as f64 / 2.0);
    let cells = region.array::<Cell>("cells", &[10]).unwrap();
    for (place, cell) in region.slice_mut(&cells).iter_mut().enumerate() {
        *cell = Cell { rho: place as f64 * 0.5, id: place as i32, tag: *b"ab\0\0" };
    }
    let kind = Kind::Managed { shape: vec![2, 3] };
    let fortran = Declaration {
        order: Order::Fortran,
        units: "K".into(),
        attributes: Attributes::from([("long_name".into(), "temperature".into())]),
        ..Declaration::new("t", DType::Float(4), kind)
    };
    let t = region.declare(fortran).unwrap();
    let values: Vec<u8> = (0..6).flat_map(|place| (place as f32).to_ne_bytes()).collect();
    fill(&mut region, t, &values);
    let flags = region.declare(Declaration::new("flags", DType::Bool, Kind::Managed { shape: vec![4] })).unwrap();
    fill(&mut region, flags, &[1, 0, 0, 1]);
    let cube = region.array::<i16>("cube", &[3, 4, 5]).unwrap();
    region.slice_mut(&cube).iter_mut().enumerate().for_each(|(place, value)| *value = place as i16);
    region.publish(7).attr("time", 3.5).commit().unwrap();
    region
}

#[test]
fn ls_tells_the_living_from_the_dead() {
    let scene = Scene::new();
    assert!(scene.ok(&["ls"]).starts_with("no regions in "), "a directory that is not there is empty");
    let (mut live, _) = scene.region("live", &[100]);
    live.publish(5).commit().unwrap();
    let (mut dead, _) = scene.region("dead", &[100]);
    dead.publish(3).commit().unwrap();
    dead.close().unwrap();
    let (_fresh, _) = scene.region("fresh", &[100]);

    let listed = scene.json(&["ls", "--json"]);
    let told =
        |key: &str| listed["regions"].as_array().unwrap().iter().map(|region| region[key].clone()).collect::<Vec<_>>();
    assert_eq!(told("name"), ["dead", "fresh", "live"]);
    assert_eq!(told("newest"), [serde_json::json!(3), serde_json::json!(null), serde_json::json!(5)]);
    let states = told("state");
    assert_eq!((&states[0], &states[2]), (&"dead".into(), &"live".into()));
    assert_eq!(listed["regions"][2]["producer_pid"], std::process::id());

    let table = scene.ok(&["ls"]);
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.lines().nth(3).unwrap().contains(&std::process::id().to_string()), "{table}");
}

#[test]
fn show_names_variables_versions_and_holders() {
    let scene = Scene::new();
    let mut region = museum(&scene);
    let observer = Observer::options().dir(scene.dir()).open("museum").unwrap();
    let _held = observer.version(7).unwrap();
    region.publish(8).attr("time", 4.0).commit().unwrap();

    let shown = scene.json(&["show", "museum", "--json"]);
    assert_eq!(shown["region"]["state"], "live");
    assert_eq!(shown["version"]["version"], 8);
    assert_eq!(shown["version"]["attributes"]["time"], 4.0);
    let variables = shown["variables"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["u", "cells", "t", "flags", "cube"]);
    assert_eq!(variables[2]["order"], "fortran");
    assert_eq!(variables[2]["units"], "K");
    assert_eq!(variables[2]["attributes"]["long_name"], "temperature");
    assert_eq!(variables[1]["dtype"]["fields"][0]["name"], "rho");
    assert_eq!(variables[0]["bytes"], 40 * 30 * 8);
    // Programs that other tests of this process start have what it has open, until they are other programs.
    let holders = shown["holders"].as_array().unwrap();
    let own: Vec<_> = holders.iter().filter(|holder| holder["pid"] == std::process::id()).collect();
    assert_eq!(own.len(), 1, "{holders:?}");
    assert_eq!((&own[0]["version"], &own[0]["stopped"]), (&7.into(), &false.into()));

    assert_eq!(scene.json(&["show", "museum", "--json", "--version", "7"])["version"]["attributes"]["time"], 3.5);
    let text = scene.ok(&["show", "museum"]);
    for part in ["museum: live", "version 8", "(40, 30)", "Fortran", "float32", "long_name=temperature", "holders"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    scene.complaint(1, &["show", "museum", "--version", "1"]);
    scene.complaint(1, &["show", "nobody"]);
}

#[test]
fn show_knows_a_region_without_versions() {
    let scene = Scene::new();
    let (_region, _) = scene.region("fresh", &[10]);
    assert!(scene.ok(&["show", "fresh"]).contains("no version was published yet"));
    assert!(scene.json(&["show", "fresh", "--json"])["version"].is_null());
    scene.complaint(1, &["get", "fresh", "u"]);
}

#[test]
fn get_prints_what_the_slice_selects() {
    let scene = Scene::new();
    let _region = museum(&scene);
    assert_eq!(scene.ok(&["get", "museum", "u[1, -1]"]), "29.5\n");
    assert_eq!(scene.ok(&["get", "museum", "cells.id[3]"]), "3\n");
    assert_eq!(scene.ok(&["get", "museum", "cells.tag[0]"]), "ab\n");
    assert_eq!(scene.ok(&["get", "museum", "flags[0]"]), "True\n");
    let text = scene.ok(&["get", "museum", "t"]);
    assert_eq!(text, "t of museum, version 7: float32 (2, 3) K\n[[0. 2. 4.]\n [1. 3. 5.]]\n");
    let text = scene.ok(&["get", "museum", "cube[::2, 1, ::-2]"]);
    assert_eq!(text.split_once('\n').unwrap().1, "[[ 9  7  5]\n [49 47 45]]\n");
    let values = scene.json(&["get", "museum", "cells[8:]", "--json"])["values"].clone();
    assert_eq!(values[1], serde_json::json!({ "rho": 4.5, "id": 9, "tag": "ab" }));
    assert!(scene.ok(&["get", "museum", "u"]).contains("..."), "long arrays are abbreviated");
}

#[test]
fn get_says_what_is_wrong_with_a_slice() {
    let scene = Scene::new();
    let _region = museum(&scene);
    for (selection, part) in [
        ("u[40]", "-40 to 39"),
        ("u[0, 0, 0]", "(40, 30)"),
        ("u[", "bracket"),
        ("u[::0]", "step"),
        ("u[0][1]", "'u[0, 1]'"),
        ("v", "it has u, cells, t, flags, cube"),
        ("cells.x", "no field 'x'"),
    ] {
        let complaint = scene.complaint(2, &["get", "museum", selection]);
        assert!(complaint.contains(part), "{part} is missing in {complaint}");
    }
    assert!(scene.complaint(2, &["get", "museum", "cube", "-o", "cube.png"]).contains("'cube[0, ...]'"));
    assert!(scene.complaint(2, &["get", "museum", "cells", "-o", "cells.png"]).contains("'cells.rho'"));
    assert!(scene.complaint(2, &["get", "museum", "u", "-o", "u.tif"]).contains(".npy, .csv, .png or .svg"));
    scene.complaint(1, &["get", "museum", "u", "-o", "no/such/folder/u.npy"]);
    scene.complaint(1, &["get", "museum", "u", "--version", "6"]);
    scene.complaint(1, &["get", "nobody", "u"]);
    assert!(!scene.file("cube.png").exists(), "what is refused writes nothing");
}

#[test]
fn get_writes_npy_csv_and_png() {
    let scene = Scene::new();
    let _region = museum(&scene);
    scene.ok(&["get", "museum", "u[:2]", "-o", "u.npy"]);
    let bytes = std::fs::read(scene.file("u.npy")).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
    let header = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let text = String::from_utf8_lossy(&bytes[10..10 + header]).into_owned();
    assert!(text.contains("'descr': '<f8'") && text.contains("'shape': (2, 30)"), "{text}");
    let values: Vec<f64> = bytes[10 + header..].chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
    assert_eq!(values, (0..60).map(|place| place as f64 / 2.0).collect::<Vec<_>>());
    let piped = scene.still(&["get", "museum", "u[:2]", "-o", "-", "--format", "npy"]);
    assert_eq!(piped.bytes, bytes);

    scene.ok(&["get", "museum", "t", "-o", "t.csv"]);
    assert_eq!(std::fs::read_to_string(scene.file("t.csv")).unwrap(), "0.0,2.0,4.0\n1.0,3.0,5.0\n");
    scene.ok(&["get", "museum", "cells[9:]", "-o", "cells.csv"]);
    assert_eq!(std::fs::read_to_string(scene.file("cells.csv")).unwrap(), "i0,rho,id,tag\n9,4.5,9,ab\n");

    for (selection, name) in
        [("u", "map.png"), ("u[3]", "line.png"), ("cells.rho", "field.png"), ("cube[0]", "cube.png")]
    {
        scene.ok(&["get", "museum", selection, "-o", name]);
        let file = std::io::BufReader::new(std::fs::File::open(scene.file(name)).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert!(pixels.chunks(3).any(|pixel| pixel != [255, 255, 255]), "{name} is empty");
    }
    scene.ok(&["get", "museum", "u", "-o", "map.svg"]);
    assert!(std::fs::read_to_string(scene.file("map.svg")).unwrap().starts_with("<svg "));
}

/// With numpy at hand, it is the judge of the files; without, the test says that it was left out.
#[test]
fn numpy_reads_the_files_of_get() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    if !Command::new(&python).args(["-c", "import numpy"]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {python} has no numpy; name one that has in PYTHON");
        return;
    }
    let scene = Scene::new();
    let _region = museum(&scene);
    let selections = [
        ("u[::-3, 1:20:4]", "numpy.arange(1200).reshape(40, 30)[::-3, 1:20:4] / 2"),
        ("t", "numpy.arange(6, dtype='f4').reshape(2, 3, order='F')"),
        ("cube[..., 0]", "numpy.arange(60, dtype='i2').reshape(3, 4, 5)[..., 0]"),
        ("flags", "numpy.array([True, False, False, True])"),
        ("cells.rho[::2]", "numpy.arange(10)[::2] / 2"),
        ("cells.tag[:2]", "numpy.array([b'ab', b'ab'], dtype='S4')"),
        ("cells[2]", "numpy.array((1.0, 2, b'ab'), dtype=[('rho', 'f8'), ('id', 'i4'), ('tag', 'S4')])"),
    ];
    for (place, (selection, expected)) in selections.iter().enumerate() {
        let name = format!("{place}.npy");
        scene.ok(&["get", "museum", selection, "-o", &name]);
        let code = format!(
            "import numpy\ngot, want = numpy.load('{name}'), {expected}\n\
             assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all(), (got, want)"
        );
        let output = Command::new(&python).args(["-c", &code]).current_dir(scene.file("")).output().unwrap();
        assert!(output.status.success(), "{selection}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // Text looks as numpy's own.
    for (selection, expected) in [
        ("u[:3]", "numpy.arange(90).reshape(3, 30) / 2"),
        ("cube", "numpy.arange(60, dtype='i2').reshape(3, 4, 5)"),
        ("u", "numpy.arange(1200).reshape(40, 30) / 2"),
        ("flags", "numpy.array([True, False, False, True])"),
    ] {
        let code = format!("import numpy; print({expected})");
        let output = Command::new(&python).args(["-c", &code]).output().unwrap();
        let printed = scene.ok(&["get", "museum", selection]);
        assert_eq!(printed.split_once('\n').unwrap().1, String::from_utf8_lossy(&output.stdout), "{selection}");
    }
}

#[test]
fn what_get_takes_is_of_one_version_while_the_producer_goes_on() {
    let scene = Scene::new();
    let (mut region, u) = scene.region("busy", &[64 * 1024]);
    region.publish(1).commit().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopped = &stop;
        let looks = scope.spawn(|| {
            let look = |_| {
                let values = scene.json(&["get", "busy", "u[::7]", "--json"]);
                let version = values["version"].as_f64().unwrap();
                let all = values["values"].as_array().unwrap().iter().all(|value| value.as_f64() == Some(version));
                (version, all || version == 1.0)
            };
            let looks: Vec<_> = (0..10).map(look).collect();
            stopped.store(true, Ordering::Relaxed);
            looks
        });
        let mut version = 1;
        while !stop.load(Ordering::Relaxed) && !looks.is_finished() {
            version += 1;
            region.slice_mut(&u).fill(version as f64);
            region.publish(version).commit().unwrap();
        }
        let looks = looks.join().unwrap();
        assert!(looks.iter().all(|look| look.1), "{looks:?}");
        assert!(looks[0].0 < looks[9].0, "{looks:?}");
    });
}

#[test]
fn watch_counts_what_happens_in_an_interval() {
    let scene = Scene::new();
    let (mut region, u) = scene.region("busy", &[100_000]);
    region.publish(1).commit().unwrap();
    let mut command = scene.command(&["watch", "busy", "--json", "--interval", "0.3"]);
    let mut child = Guard(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    // Until the lines were read, however long the command takes to begin.
    let watched = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&watched);
    let publish = std::thread::spawn(move || {
        for version in (2..).take_while(|_| !stop.load(Ordering::Relaxed)) {
            region.slice_mut(&u)[version as usize % 100_000] = 1.0;
            region.publish(version).commit().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        region
    });
    // In some interval the publisher may get no processor.
    let mut samples: Vec<serde_json::Value> = Vec::new();
    let is_busy = |sample: &serde_json::Value| {
        let number = |name: &str| sample["regions"][0][name].as_f64().unwrap_or_default();
        number("publish_rate_hz") > 1.0 && number("publish_ms") > 0.0
    };
    for line in lines {
        samples.push(serde_json::from_str(&line.unwrap()).unwrap());
        if samples.len() >= 2 && samples.iter().any(is_busy) {
            break;
        }
    }
    watched.store(true, Ordering::Relaxed);
    assert!(samples.iter().any(is_busy), "{samples:?}");
    assert!(samples[1]["regions"][0]["plane_bytes"].as_u64().unwrap() > 0, "{samples:?}");
    // The pipe is closed here: the command ends by itself, and well.
    until("the end of watch", || child.0.try_wait().unwrap().is_some());
    assert!(child.0.wait().unwrap().success());
    drop(publish.join().unwrap());

    let frame = scene.ok(&["watch", "--once", "--interval", "0.05"]);
    assert!(frame.contains("1 region in") && frame.contains("busy") && frame.contains("holders: nobody"), "{frame}");
    assert!(!scene.dir().join(".objects").exists(), "who watches makes nothing");
    scene.complaint(2, &["watch"]);
    scene.complaint(2, &["watch", "--interval", "0"]);
    scene.complaint(1, &["watch", "nobody", "--once", "--interval", "0.05"]);
}

#[test]
fn a_stopped_holder_is_marked() {
    let scene = Scene::new();
    let (mut region, _) = scene.region("held", &[1 << 20]);
    region.publish(1).commit().unwrap();
    // Nobody reads its output, so it holds its version until it is ended.
    let mut command = scene.command(&["get", "held", "u", "-o", "-", "--format", "npy"]);
    let holder = Guard(command.stdout(Stdio::piped()).spawn().unwrap());
    let pid = holder.0.id();
    let held = |key: &str| scene.json(&["show", "held", "--json"])["holders"][0][key].clone();
    until("the hold", || held("pid") == pid);
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
    signal("-STOP");
    until("the stop", || held("stopped") == true);
    let frame = scene.ok(&["watch", "held", "--once", "--interval", "0.05"]);
    assert!(frame.contains("stopped") && frame.contains(&pid.to_string()), "{frame}");
    drop(holder);
    until("the release", || scene.json(&["show", "held", "--json"])["holders"] == serde_json::json!([]));
}

#[test]
fn rm_leaves_the_living_alone() {
    let scene = Scene::new();
    let (mut region, _) = scene.region("one", &[1000]);
    region.publish(1).commit().unwrap();
    assert!(scene.complaint(1, &["rm", "one"]).contains("living producer"));
    assert_eq!(scene.json(&["ls", "--json"])["regions"][0]["state"], "live");
    region.close().unwrap();
    assert!(scene.ok(&["rm", "one"]).starts_with("removed one, "));
    assert!(files(&scene.dir()).is_empty(), "{:?}", files(&scene.dir()));
    scene.complaint(1, &["rm", "one"]);

    let (mut region, _) = scene.region("one", &[1000]);
    region.publish(1).commit().unwrap();
    assert_eq!(scene.json(&["rm", "one", "--force", "--json"])["region"], "one");
    assert!(files(&scene.dir()).is_empty(), "{:?}", files(&scene.dir()));
}

#[test]
fn gc_takes_what_nobody_needs() {
    let scene = Scene::new();
    let (mut live, _) = scene.region("live", &[1000]);
    live.publish(1).commit().unwrap();
    for name in ["dead", "held"] {
        let (mut region, _) = scene.region(name, &[1000]);
        region.publish(1).commit().unwrap();
        region.close().unwrap();
    }
    let held = Observer::options().dir(scene.dir()).open("held").unwrap().newest().unwrap();
    let foreseen = scene.json(&["gc", "--dry-run", "--json"]);
    assert_eq!(foreseen["regions"][0]["region"], "dead", "{foreseen}");
    assert_eq!(foreseen["regions"].as_array().unwrap().len(), 1, "{foreseen}");
    assert_eq!(scene.json(&["ls", "--json"])["regions"].as_array().unwrap().len(), 3);
    assert!(scene.ok(&["gc"]).starts_with("removed dead, "));
    let names = || {
        let listed = scene.json(&["ls", "--json"]);
        listed["regions"].as_array().unwrap().iter().map(|region| region["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["held", "live"]);
    drop(held);
    scene.ok(&["gc"]);
    assert_eq!(names(), ["live"]);
    assert!(scene.ok(&["gc"]).starts_with("nothing to remove"));
}

#[test]
fn what_killed_programs_of_xpmem_left_goes_and_what_living_ones_have_stays() {
    let scene = Scene::new();
    let (mut region, _) = scene.region("live", &[10]);
    region.publish(1).commit().unwrap();
    // Of each of three processes, of which the last removed a part before it was killed.
    let [dead, living, partly] = [0x1f2e_3d4c, 0x7000_0001, 0x0000_0abc];
    let make = |name: String| {
        let file = std::fs::File::create_new(scene.dir().join(name)).unwrap();
        file.set_len(4096).unwrap();
        file
    };
    let own = [dead, living, partly].map(|process| make(xpmem::process_file(process)));
    for process in [dead, living, partly] {
        std::fs::write(scene.dir().join(format!("{}-1.pages", xpmem::process_file(process))), [1; 10_000]).unwrap();
        make(format!("{}00000001", xpmem::process_file(process)));
    }
    std::fs::remove_file(scene.dir().join(xpmem::process_file(partly))).unwrap();
    assert!(lock::try_lock(&own[1], LockKind::Write, 0, 1).unwrap());
    let hidden = || -> Vec<String> {
        let names = files(&scene.dir()).into_iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_string());
        names.filter(|name| name.starts_with(".xpmem-")).collect()
    };
    assert_eq!(hidden().len(), 8);
    let collected = serde_json::json!([
        {"region": ".xpmem-00000abc", "freed_bytes": 12288, "error": null},
        {"region": ".xpmem-1f2e3d4c", "freed_bytes": 12288, "error": null},
    ]);
    assert_eq!(scene.json(&["gc", "--dry-run", "--json"])["regions"], collected);
    assert_eq!(hidden().len(), 8);
    assert_eq!(scene.json(&["gc", "--json"])["regions"], collected);
    let names = ["", "-1.pages", "00000001"].map(|end| format!(".xpmem-70000001{end}"));
    assert_eq!(hidden(), names);
    assert!(scene.ok(&["gc"]).starts_with("nothing to remove"));
    drop(own);
    assert_eq!(scene.ok(&["gc"]), "removed .xpmem-70000001, 12.0 KiB\n");
    assert_eq!(hidden(), [""; 0]);
    assert!(scene.ok(&["ls"]).contains("live"));
}

#[test]
fn verify_names_file_and_offset() {
    let scene = Scene::new();
    let region = museum(&scene);
    assert_eq!(scene.ok(&["verify", "museum"]), "museum is healthy\n");
    region.close().unwrap();
    assert_eq!(scene.json(&["verify", "museum", "--json"])["findings"], serde_json::json!([]));
    let schema = files(&scene.dir().join("museum"))
        .into_iter()
        .rev()
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("schema")));
    std::fs::write(schema.unwrap(), "{ \"variables\": [ { ").unwrap();
    let told = scene.still(&["verify", "museum"]);
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(told.out.contains("schema") && told.out.contains("offset"), "{}", told.out);
    let told = scene.still(&["verify", "museum", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert!(found["findings"][0]["file"].as_str().unwrap().contains("schema"), "{found}");
    assert!(found["findings"][0]["offset"].is_u64() && found["findings"][0]["expected"].is_string());
}

#[test]
fn doctor_names_the_tracker_a_region_will_use() {
    let scene = Scene::new();
    let told = scene.still(&["doctor", "--json"]);
    assert!(told.code <= 1, "{}", told.err);
    let diagnosis: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let (region, _) = scene.region("one", &[10]);
    assert_eq!(diagnosis["chosen"], region.tracker().to_string());
    let advice = diagnosis["facts"].as_array().unwrap().iter().any(|fact| fact["ok"] == false);
    assert_eq!(told.code == 1, advice);
    let text = scene.still(&["doctor"]).out;
    assert!(text.contains(&format!("{} will be used", region.tracker())), "{text}");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let scene = Scene::new();
    let _region = museum(&scene);
    let (mut big, _) = scene.region("big", &[1 << 20]);
    big.publish(1).commit().unwrap();
    for args in [&["ls"][..], &["show", "museum"], &["--help"], &["get", "big", "u", "-o", "-", "--format", "csv"]] {
        let mut command = scene.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0];
        if args[0] == "get" {
            child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        }
        drop(child.stdout.take());
        let output = wait(child);
        assert_eq!(output.status.code(), Some(0), "still {args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "still {args:?}");
    }
}

#[test]
fn every_command_teaches_with_an_example() {
    let scene = Scene::new();
    for command in ["ls", "show", "get", "watch", "rm", "gc", "verify", "doctor"] {
        let help = scene.ok(&[command, "--help"]);
        assert!(help.contains("Example") && help.contains(&format!("  still {command}")), "{help}");
        assert!(help.contains("--json") && help.contains("Exit codes: 0"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{command}: a line is too long");
    }
    assert_eq!(scene.ok(&["help", "get"]), scene.ok(&["get", "--help"]));
    assert!(scene.ok(&["help"]).contains("Commands:"));
    assert!(scene.complaint(2, &["shw"]).contains("'show'"));
    assert!(!scene.complaint(2, &["nosuch"]).contains("tip"));
    assert!(!scene.complaint(2, &["watch", "--interval", "-1"]).contains("-- -1"));
    scene.complaint(2, &["get"]);
    scene.complaint(2, &["ls", "--nonsense"]);
    assert_eq!(scene.still(&[]).code, 2);
}

#[test]
fn the_directory_is_taken_from_the_command_line_first() {
    let scene = Scene::new();
    let (mut region, _) = scene.region("one", &[10]);
    region.publish(1).commit().unwrap();
    let other = scene.file("other");
    assert!(scene.ok(&["ls", "--dir", other.to_str().unwrap()]).starts_with("no regions in "));
    assert!(scene.ok(&["--dir", scene.dir().to_str().unwrap(), "ls"]).contains("one"));
}

/// The whole life of a region whose producer is killed: it is dead, whole, and goes when told to.
#[test]
fn the_last_version_outlives_its_producer() {
    let scene = Scene::new();
    let (mut region, u) = scene.region("one", &[1000]);
    region.slice_mut(&u).fill(1.5);
    region.publish(11).commit().unwrap();
    drop(region);
    assert_eq!(scene.json(&["ls", "--json"])["regions"][0]["state"], "dead");
    assert_eq!(scene.ok(&["get", "one", "u[999]"]), "1.5\n");
    scene.ok(&["verify", "one"]);
    scene.ok(&["rm", "one"]);
}

fn rank(scene: &Scene, rank: u32, ranks: u32) -> (Region, Array<f64>) {
    let mut region = Region::options().dir(scene.dir()).rank(rank, ranks).create("heat").unwrap();
    let array = region.array::<f64>("u", &[20, 10]).unwrap();
    (region, array)
}

#[test]
fn a_group_is_one_line_and_names_who_is_dead_slow_or_missing() {
    let scene = Scene::new();
    let (mut alone, _) = scene.region("alone", &[10]);
    alone.publish(1).commit().unwrap();
    let mut ranks: Vec<Region> = (0..3).map(|number| rank(&scene, number, 4).0).collect();
    for (number, last) in [(0, 9), (1, 5), (2, 6)] {
        for version in 1..=last {
            ranks[number].publish(version).commit().unwrap();
        }
    }
    let table = scene.ok(&["ls"]);
    assert_eq!(table.lines().count(), 5, "{table}");
    let line = table.lines().nth(2).unwrap();
    for part in ["heat ", "3/4 live", " - ", "4 ranks"] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
    assert!(table.contains("heat: rank 3 has not begun"), "{table}");
    assert!(table.contains("heat: rank 1 is slowest, at 5 while rank 0 is at 9"), "{table}");

    let mut last = rank(&scene, 3, 4).0;
    for version in 1..=4 {
        last.publish(version).commit().unwrap();
    }
    drop(last);
    let table = scene.ok(&["ls", "--ranks"]);
    assert!(table.contains("heat: rank 3 is dead, at 4 while rank 0 is at 9"), "{table}");
    assert_eq!(table.lines().filter(|line| line.contains(" live ")).count(), 5, "{table}");
    let listed = scene.json(&["ls", "--json"]);
    let group = &listed["groups"][0];
    assert_eq!((&group["name"], &group["state"], &group["newest"]), (&"heat".into(), &"partial".into(), &4.into()));
    assert_eq!(group["ranks"][3]["state"], "dead");
    assert_eq!((&group["ranks"][1]["behind"], &group["ranks"][1]["newest"]), (&4.into(), &5.into()));
    assert_eq!(listed["regions"].as_array().unwrap().len(), 5);
    assert_eq!((&listed["regions"][1]["rank"], &listed["regions"][1]["ranks"]), (&0.into(), &4.into()));
    assert_eq!(listed["regions"][0]["ranks"], serde_json::json!(null));
}

#[test]
fn of_a_group_of_one_rank_no_other_is_named() {
    let scene = Scene::new();
    let (mut region, _) = rank(&scene, 0, 1);
    region.publish(1).commit().unwrap();
    let shown = scene.ok(&["show", "heat"]);
    assert!(shown.contains("group of 1 rank,") && shown.contains("version 1") && !shown.contains("rank 1"), "{shown}");
}

#[test]
fn commands_know_groups() {
    let scene = Scene::new();
    let mut ranks: Vec<_> = (0..3).map(|number| rank(&scene, number, 3)).collect();
    for version in 1u32..=4 {
        for (number, (region, array)) in ranks.iter_mut().enumerate() {
            region.slice_mut(array).fill(f64::from(version) + number as f64 / 10.0);
            region.publish(version.into()).attr("time", f64::from(version)).commit().unwrap();
        }
    }
    ranks[0].0.publish(5).commit().unwrap();
    let shown = scene.ok(&["show", "heat"]);
    for part in
        ["heat: group of 3 ranks, live", "all ranks have: 4", "version 4", "(20, 10)", "RANK", "time = 4", "heat/1"]
    {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    let shown = scene.json(&["show", "heat", "--json"]);
    assert_eq!(shown["version"]["version"], 4);
    assert_eq!(shown["variables"].as_array().unwrap().len(), 3);
    assert_eq!(shown["variables"][2][0]["name"], "u");
    assert_eq!(shown["group"]["ranks"][0]["behind"], 0);
    let complaint = scene.complaint(1, &["show", "heat", "--version", "5"]);
    assert!(complaint.contains("'heat/1' does not have version 5"), "{complaint}");
    assert!(scene.ok(&["show", "heat/2"]).starts_with("heat/2: live"));

    assert_eq!(scene.ok(&["get", "heat/2", "u[3, 4]"]).trim(), "4.2");
    let complaint = scene.complaint(2, &["get", "heat", "u[3, 4]"]);
    assert!(complaint.contains("group of 3 ranks") && complaint.contains("'heat/0' to 'heat/2'"), "{complaint}");
    let watched: serde_json::Value =
        serde_json::from_str(&scene.ok(&["watch", "heat", "--once", "--json", "--interval", "0.05"])).unwrap();
    let names: Vec<_> = watched["regions"].as_array().unwrap().iter().map(|region| region["name"].clone()).collect();
    assert_eq!(names, ["heat/0", "heat/1", "heat/2"]);
    assert_eq!(scene.ok(&["verify", "heat"]), "heat is healthy\n");

    // A rank that is gone stays while others of its group live: its last version is part of the group's.
    drop(ranks.pop());
    assert!(scene.ok(&["gc"]).starts_with("nothing to remove"));
    assert!(scene.complaint(1, &["rm", "heat"]).contains("'heat/0' has a living producer"));
    assert_eq!(scene.json(&["ls", "--json"])["groups"][0]["newest"], 4);
    drop(ranks);
    let swept = scene.json(&["gc", "--dry-run", "--json"]);
    assert_eq!(swept["regions"].as_array().unwrap().len(), 3);
    assert!(scene.ok(&["rm", "heat"]).starts_with("removed heat, "));
    assert_eq!(files(&scene.dir()), Vec::<std::path::PathBuf>::new());
    scene.complaint(1, &["rm", "heat"]);
}

#[test]
fn verify_names_the_rank_whose_files_are_damaged() {
    let scene = Scene::new();
    for number in 0..2 {
        rank(&scene, number, 2).0.publish(1).commit().unwrap();
    }
    assert_eq!(scene.ok(&["verify", "heat"]), "heat is healthy\n");
    let tables = scene.dir().join("heat/1/tables");
    let bytes = std::fs::read(&tables).unwrap();
    std::fs::write(&tables, vec![0x5a; bytes.len()]).unwrap();
    let told = scene.still(&["verify", "heat"]);
    assert_eq!(told.code, 1);
    assert!(told.out.contains("heat/1/tables, offset "), "{}{}", told.out, told.err);
}

/// A region without room: the older of its two versions is held, several times, by a command that is stopped.
fn crowded(scene: &Scene, rule: Rule) -> (Region, Array<f64>, Guard) {
    const COUNT: usize = 1 << 20;
    let options = Region::options().dir(scene.dir()).rule(rule).bound_bytes(2 * 8 * COUNT as u64);
    let mut region = options.create("crowded").unwrap();
    let u = region.array::<f64>("u", &[COUNT]).unwrap();
    region.slice_mut(&u).fill(1.0);
    region.publish(1).commit().unwrap();
    let mut command = scene.command(&["get", "crowded", "u", "-o", "-", "--format", "npy"]);
    let holder = Guard(command.stdout(Stdio::piped()).spawn().unwrap());
    until("the hold", || !scene.json(&["show", "crowded", "--json"])["holders"].as_array().unwrap().is_empty());
    assert!(Command::new("kill").args(["-STOP", &holder.0.id().to_string()]).status().unwrap().success());
    region.slice_mut(&u).fill(2.0);
    region.publish(2).commit().unwrap();
    region.slice_mut(&u).fill(3.0);
    (region, u, holder)
}

/// Each of the commands that show regions names this, and who is in the way.
fn check_shown(scene: &Scene, state: &str, note: &str, pid: u32) {
    let frame = scene.ok(&["watch", "--once", "--interval", "0.05"]);
    for text in [scene.ok(&["ls"]), scene.ok(&["show", "crowded"]), frame] {
        assert!(text.contains(state) && text.contains(note), "{text}");
        assert!(text.contains(&format!(": still ({pid}, stopped) holds version 1")), "{text}");
    }
}

#[test]
fn a_producer_that_waits_is_shown_with_whom_it_waits_for() {
    let scene = Scene::new();
    let (mut region, _, holder) = crowded(&scene, Rule::Wait { timeout: None });
    assert!(!scene.ok(&["ls"]).contains("waiting"));
    let publish = std::thread::spawn(move || {
        region.publish(3).commit().unwrap();
        region
    });
    let listed = || scene.json(&["ls", "--json"])["regions"][0].clone();
    until("the wait", || listed()["waiting_ns"].is_u64());
    let waits = listed();
    assert_eq!((&waits["state"], &waits["skipping"], &waits["skipping_ns"]), (&"live".into(), &0.into(), &().into()));
    let blocker = &waits["blockers"][0];
    assert_eq!((&blocker["pid"], &blocker["stopped"]), (&holder.0.id().into(), &true.into()), "{waits}");
    assert_eq!((&blocker["version"], &blocker["versions"]), (&1.into(), &1.into()), "{waits}");
    assert_eq!(scene.json(&["show", "crowded", "--json"])["region"]["waiting_ns"], waits["waiting_ns"]);
    let watched = scene.json(&["watch", "--json", "--once", "--interval", "0.05"]);
    assert_eq!(watched["regions"][0]["waiting_ns"], waits["waiting_ns"]);
    check_shown(&scene, "waiting", "its producer has been waiting for room for ", holder.0.id());
    drop(holder);
    drop(publish.join().unwrap());
    let ended = listed();
    assert_eq!((&ended["waiting_ns"], &ended["blockers"]), (&().into(), &serde_json::json!([])));
}

#[test]
fn versions_that_are_left_out_are_shown_and_counted() {
    let scene = Scene::new();
    let limit = std::time::Duration::from_millis(1);
    let (mut region, _, holder) = crowded(&scene, Rule::WaitThenSkip { limit });
    for version in 3..10 {
        assert_eq!(region.publish(version).commit().unwrap().outcome, Outcome::Skipped);
    }
    let listed = || scene.json(&["ls", "--json"])["regions"][0].clone();
    let skips = listed();
    assert_eq!((&skips["skipping"], &skips["waiting_ns"], &skips["newest"]), (&7.into(), &().into(), &2.into()));
    assert!(skips["skipping_ns"].is_u64() && skips["blockers"][0]["pid"] == holder.0.id(), "{skips}");
    check_shown(&scene, "skipping", "7 versions left out for want of room in the last ", holder.0.id());
    drop(holder);
    region.publish(10).commit().unwrap();
    assert_eq!((&listed()["skipping"], &listed()["skipping_ns"]), (&0.into(), &().into()));
    assert!(!scene.ok(&["ls"]).contains("skipping"));
}

#[test]
fn a_process_that_holds_many_versions_is_one_line() {
    let scene = Scene::new();
    let (mut region, u) = scene.region("held", &[1000]);
    let observer = Observer::options().dir(scene.dir()).open("held").unwrap();
    let held: Vec<_> = (1..=60)
        .map(|version| {
            region.slice_mut(&u)[0] = version as f64;
            region.publish(version).commit().unwrap();
            observer.newest().unwrap()
        })
        .collect();
    let shown = scene.json(&["show", "held", "--json"]);
    let [holder] = &shown["holders"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!((&holder["pid"], &holder["version"]), (&std::process::id().into(), &1.into()));
    assert_eq!(holder["versions"], 60);
    let text = scene.ok(&["show", "held"]);
    assert!(text.contains("1 and 59 more"), "{text}");
    let pid = std::process::id().to_string();
    let holders = text.split("\nholders").nth(1).unwrap();
    assert_eq!(holders.lines().filter(|line| line.contains(&pid)).count(), 1, "{text}");
    drop(held);
}

/// Ends a region's producer as if it had been killed.
fn kill(scene: &Scene, region: Region) {
    let head = scene.dir().join(region.name()).join("head");
    region.close().unwrap();
    let head = std::fs::File::options().write(true).open(head).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&head, &[0; 8], 264).unwrap();
}

#[test]
fn what_was_set_aside_is_seen_saved_and_collected() {
    let scene = Scene::new();
    let (mut first, u) = scene.region("heat", &[100]);
    first.slice_mut(&u).fill(7.0);
    first.publish(7).commit().unwrap();
    kill(&scene, first);
    let mut second = Region::options().dir(scene.dir()).fresh(true).create("heat").unwrap();
    second.publish(1).commit().unwrap();

    let listed = scene.ok(&["ls"]);
    assert!(listed.contains("heat~1: left by a run of heat that did not end by itself"), "{listed}");
    let names: Vec<_> =
        scene.json(&["ls", "--json"])["regions"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
    assert_eq!(names, ["heat", "heat~1"]);
    assert_eq!(scene.ok(&["get", "heat~1", "u[0]"]).trim(), "7.0");
    assert!(scene.ok(&["show", "heat~1"]).contains("version 7"));
    scene.ok(&["verify", "heat~1"]);
    let store = scene.file("ckpt");
    let store = store.to_str().unwrap();
    assert_eq!(scene.still(&["checkpoint", "heat~1", "--to", store]).code, 0);

    assert!(scene.ok(&["gc", "--dry-run"]).contains("would remove heat~1"));
    assert!(scene.ok(&["gc"]).contains("removed heat~1"));
    assert!(!scene.ok(&["ls"]).contains('~'));
    // What was saved is the run's, and goes back under its name.
    second.unlink().unwrap();
    scene.ok(&["restore", store]);
    assert_eq!(scene.ok(&["get", "heat", "u[0]"]).trim(), "7.0");
}

#[test]
fn a_file_that_was_there_stays_until_the_new_one_is_whole() {
    let scene = Scene::new();
    let (mut region, _) = scene.region("heat", &[100_000]);
    region.publish(1).commit().unwrap();
    std::fs::write(scene.file("u.npy"), "the old one").unwrap();
    std::os::unix::fs::symlink("u.npy", scene.file("link.npy")).unwrap();
    let still = env!("CARGO_BIN_EXE_still");
    let mut command = std::process::Command::new("sh");
    // Files may be shorter than the array: the command ends in the middle of it.
    command.args(["-c", "ulimit -f 100; exec \"$0\" get heat u -o link.npy", still]);
    let status = command.env("STILLFRAME_DIR", scene.dir()).current_dir(scene.file("")).status().unwrap();
    assert!(!status.success());
    assert_eq!(std::fs::read_to_string(scene.file("u.npy")).unwrap(), "the old one");
    scene.ok(&["get", "heat", "u", "-o", "link.npy"]);
    assert_eq!(std::fs::metadata(scene.file("u.npy")).unwrap().len(), 128 + 800_000);
    assert!(std::fs::symlink_metadata(scene.file("link.npy")).unwrap().is_symlink());
}
