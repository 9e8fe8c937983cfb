//! `still drepl` as people run it: texts and raw files in a directory of each test's own.

use crate::support::{Guard, Scene, Told, files, until, wait};
use serde_json::json;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MESH: &str = "\
type Cell struct { rho float64; id int32 }
var mesh [N,4] Cell
var line [96] float64
view aos default { var mesh = mesh }
view soa { var rho [,] = mesh[,].rho; var id [,] = mesh[,].id }
view ids { var id [,] = mesh[,].id }
";

/// A scene with the text above, and `aos.raw`, where cell n has the bytes n, n+1, ...
fn scene() -> Scene {
    let scene = Scene::new();
    fs::write(scene.file("mesh.drepl"), MESH).unwrap();
    fs::write(scene.file("aos.raw"), aos()).unwrap();
    scene
}

fn aos() -> Vec<u8> {
    (0..6 * 4).flat_map(|cell| (0..12).map(move |byte| cell * 9 + byte)).collect()
}

/// The same cells field by field.
fn soa() -> Vec<u8> {
    let rho = aos().chunks(12).flat_map(|cell| cell[..8].to_vec()).collect::<Vec<_>>();
    let id = aos().chunks(12).flat_map(|cell| cell[8..].to_vec()).collect::<Vec<_>>();
    [rho, id].concat()
}

const N: [&str; 2] = ["-D", "N=6"];

fn args<'a>(command: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&["drepl", command, "mesh.drepl"][..], &N, rest].concat()
}

/// The lines that a mistake in a text is shown with, which are no complaint of one line.
fn mistakes(scene: &Scene, code: i32, args: &[&str]) -> String {
    let Told { code: found, err, out, .. } = scene.still(args);
    assert_eq!((found, out.as_str()), (code, ""), "still {args:?}: {err}");
    assert!(err.starts_with("error["), "still {args:?}: {err}");
    err
}

#[test]
fn check_says_where_variables_lie() {
    let scene = scene();
    let text = scene.ok(&args("check", &[]));
    assert!(text.starts_with("mesh.drepl: 2 objects, 3 views, 0 replicas\n"), "{text}");
    let line =
        |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(line("aos"), ["aos", "288", "mesh", "[6,4]Cell", "0", "[48,", "12]", "default"]);
    assert_eq!(line("soa"), ["soa", "288", "rho", "[6,4]float64", "0", "[32,", "8]"]);

    let told = scene.json(&args("check", &["--json"]));
    assert_eq!(told["objects"][0]["leaves"][1], json!({"name": "mesh.id", "type": "int32", "extents": [6, 4]}));
    assert_eq!(told["views"][1]["variables"][1]["offset_bytes"], 192);
    assert_eq!(told["views"][0]["parts"][1]["strides_bytes"], json!([48, 12]));
}

#[test]
fn check_says_what_holes_have_and_where_records_have_gaps() {
    let scene = scene_with(
        "type Cell struct { a float64; b int32 }\nvar m [4]Cell\nview h clipped fill -1 { var m [i:6]{a; skip 4; b}Cell = m[i] }
view n clipped fill nan { var a [i:6] = m[i].a }\nview z clipped { var b [i:6] = m[i].b }\n",
    );
    let text = scene.ok(&["drepl", "check", "mesh.drepl"]);
    assert!(text.contains("[6]struct { a float64; skip 4; b int32 }"), "{text}");
    let told = scene.json(&["drepl", "check", "mesh.drepl", "--json"]);
    let attributes: Vec<_> = (0..3).map(|view| told["views"][view]["attributes"].clone()).collect();
    assert_eq!(attributes, [json!(["clipped", "fill -1"]), json!(["clipped", "fill nan"]), json!(["clipped"])]);
    assert!(text.contains("clipped fill -1\n") && text.contains("clipped fill nan\n"), "{text}");
}

#[test]
fn every_mistake_is_shown_where_it_is() {
    let scene = Scene::new();
    fs::write(
        scene.file("wrong.drepl"),
        "var mesh [4]float64\nview v { var x = mash }\nview w { var y [i:9] = mesh[i] }\n",
    )
    .unwrap();
    let text = mistakes(&scene, 1, &["drepl", "check", "wrong.drepl"]);
    assert!(text.contains("wrong.drepl:2:18") && text.contains("did you mean `mesh`?"), "{text}");
    assert!(text.contains("error[range]") && text.contains("wrong.drepl:3:29"), "{text}");

    let told = scene.still(&["drepl", "check", "wrong.drepl", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((told.code, json["mistakes"][1]["line"].as_u64()), (1, Some(3)));

    assert!(mistakes(&scene_with(MESH), 1, &["drepl", "check", "mesh.drepl"]).contains("error[unbound]"));
    assert!(scene.complaint(1, &["drepl", "check", "nowhere.drepl"]).contains("cannot read nowhere.drepl"));
    assert!(scene.complaint(1, &["drepl", "check", "."]).contains("no regular file"));
    scene.complaint(2, &["drepl", "check", "wrong.drepl", "-D", "N"]);
    scene.complaint(2, &["drepl", "check", "wrong.drepl", "-D", "N=x"]);
}

#[test]
fn a_name_that_gets_a_number_stands_in_the_text_or_in_the_command() {
    let scene = scene();
    let complaint = scene.complaint(2, &args("check", &["-D", "M=6"]));
    assert!(complaint.contains("-D M: nothing here has this name"), "{complaint}");
    scene.ok(&args("plan", &["--view", "{ var m [i:M] = line[i+M] }", "--from", "{ var l = line }", "-D", "M=6"]));
}

fn scene_with(text: &str) -> Scene {
    let scene = Scene::new();
    fs::write(scene.file("mesh.drepl"), text).unwrap();
    scene
}

#[test]
fn a_text_may_come_from_standard_input() {
    let scene = scene();
    let mut command = scene.command(&["drepl", "check", "-", "-D", "N=2"]);
    let text = fs::File::open(scene.file("mesh.drepl")).unwrap();
    let output = wait(command.stdin(text).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("standard input: 2 objects"));
}

#[test]
fn numbers_of_another_type_are_converted_between_files() {
    let text = "var l [1000]float64\nview own { var l = l }\nview single bigendian { var s [i]float32 = l[999-i] }\n";
    let scene = scene_with(text);
    let numbers: Vec<f64> = (0..1000).map(|at| f64::from(at) / 7.0).collect();
    fs::write(scene.file("own.raw"), numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>())
        .unwrap();
    scene.ok(&["drepl", "convert", "mesh.drepl", "--from", "own=own.raw", "--to", "single=single.raw"]);
    let made = fs::read(scene.file("single.raw")).unwrap();
    let expected: Vec<u8> = numbers.iter().rev().flat_map(|number| (*number as f32).to_be_bytes()).collect();
    assert!(made == expected);

    let told = scene.json(&["drepl", "check", "mesh.drepl", "--json"]);
    assert_eq!(told["views"][1]["parts"][0]["type"], "float32");
    let told = scene.json(&["drepl", "plan", "mesh.drepl", "--view", "single", "--from", "own", "--json"]);
    assert_eq!((&told["sources"][0]["moves"], &told["sources"][0]["conversions"]), (&json!(0), &json!(1)));
    let text = scene.ok(&["drepl", "plan", "mesh.drepl", "--view", "single", "--from", "own"]);
    assert!(text.contains("4000 of 4000 bytes (3.9 KiB) from 1 source, in 0 moves and 1 conversion"), "{text}");
}

#[test]
fn plan_names_sources_moves_and_what_is_missing() {
    let scene = scene();
    let told = scene.json(&args("plan", &["--view", "aos", "--from", "ids", "--json"]));
    assert_eq!(told["moved_bytes"], 96);
    assert_eq!(told["missing"][0]["leaf"], "mesh.rho");
    assert_eq!(told["missing"][0]["elements"], json!([[0, 6, 1], [0, 4, 1]]));
    assert_eq!(told["pieces"][0]["leaf"], "mesh.id");

    let wanted = "{ var w [x:16] = line[x+8] }";
    let blocks = ["--from", "{ var b [x:12] = line[x+12*i] }", "--each", "i=0..8"];
    let text = scene.ok(&args("plan", &[&["--view", wanted][..], &blocks].concat()));
    assert!(text.contains("b i=0  line[8..12]") && text.contains("b i=1  line[12..24]"), "{text}");
    assert!(text.contains("128 of 128 bytes") && text.contains("from 2 sources"), "{text}");

    let text = scene.ok(&args("plan", &["--view", "soa", "--out", "soa.plan"]));
    assert!(text.contains("wrote soa.plan"), "the default view is the source: {text}");
    let plan = drepl::Plan::decode(&fs::read(scene.file("soa.plan")).unwrap()).unwrap();
    is_replaced(&scene, "soa.plan", &args("plan", &["--view", "aos", "--out", "soa.plan"]));
    let mut made = vec![0; 288];
    drepl::executor::Executor::new(1).run(&plan.transfers[0].1, &aos(), &mut made).unwrap();
    assert_eq!(made, soa());
}

/// A command puts a new file in the place of one, which anybody who has that open goes on reading as it was.
fn is_replaced(scene: &Scene, name: &str, command: &[&str]) {
    fs::hard_link(scene.file(name), scene.file("former")).unwrap();
    let former = fs::read(scene.file(name)).unwrap();
    scene.ok(command);
    assert!(fs::read(scene.file("former")).unwrap() == former && fs::read(scene.file(name)).unwrap() != former);
}

#[test]
fn explain_draws_sources_and_what_is_missing() {
    let scene = scene();
    let wanted = ["--view", "{ var w [x:16] = line[x+8] }", "--svg", "w.svg"];
    let blocks = ["--from", "{ var b [x:12] = line[x+12*i] }", "--each", "i=0..1"];
    let text = scene.ok(&args("explain", &[&wanted[..], &blocks].concat()));
    assert!(text.contains("  AAAAAAAA////////////////////////\n"), "{text}");
    assert!(text.contains("A  b i=0    [8..12]   4 elements\n/  missing  [12..24]  12 elements\n"), "{text}");
    let svg = fs::read_to_string(scene.file("w.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("url(#missing)") && svg.contains(">b i=0<"), "{svg}");
    assert!(svg.trim_end().ends_with("</svg>"), "{svg}");
    is_replaced(&scene, "w.svg", &args("explain", &["--view", "soa", "--svg", "w.svg"]));
    let told = scene.json(&args("explain", &[&wanted[..], &blocks, &["--json"]].concat()));
    assert_eq!(told, scene.json(&args("plan", &[&wanted[..2], &blocks, &["--json"]].concat())));
}

#[test]
fn convert_moves_every_byte_to_its_place() {
    let scene = scene();
    let text = scene.ok(&args("convert", &["--from", "aos=aos.raw", "--to", "soa=soa.raw"]));
    assert!(text.starts_with("wrote soa.raw: 288 B in "), "{text}");
    assert_eq!(fs::read(scene.file("soa.raw")).unwrap(), soa());
    // And back, over the file it was made from.
    scene.ok(&args("convert", &["--from", "soa=soa.raw", "--to", "aos=soa.raw", "--threads", "2"]));
    assert_eq!(fs::read(scene.file("soa.raw")).unwrap(), aos());
    assert_eq!(scene.still(&args("convert", &["--from", "aos=aos.raw", "--to", "soa=-"])).bytes, soa());
    std::os::unix::fs::symlink("soa.raw", scene.file("link.raw")).unwrap();
    scene.ok(&args("convert", &["--from", "aos=aos.raw", "--to", "soa=link.raw"]));
    assert_eq!(fs::read(scene.file("soa.raw")).unwrap(), soa(), "a link stays one");
    assert!(scene.file("link.raw").is_symlink());
    let part = "{ var r [i] = mesh[2*i,1].id }=r.raw";
    scene.ok(&args("convert", &["--from", "aos=aos.raw", "--to", part]));
    let ids: Vec<u8> = aos().chunks(12).skip(1).step_by(8).flat_map(|cell| cell[8..].to_vec()).collect();
    assert_eq!(fs::read(scene.file("r.raw")).unwrap(), ids);
    // Holes have what the view says, in files and elsewhere.
    let filled = "view clipped fill -7 { var r [i:4] = mesh[0,i-1].id }=";
    scene.ok(&args("convert", &["--from", "aos=aos.raw", "--to", &format!("{filled}f.raw")]));
    let mut wanted = (-7_i32).to_ne_bytes().to_vec();
    wanted.extend(aos().chunks(12).take(3).flat_map(|cell| cell[8..].to_vec()));
    assert_eq!(fs::read(scene.file("f.raw")).unwrap(), wanted);
    let output = scene.still(&args("convert", &["--from", "aos=aos.raw", "--to", &format!("{filled}-")]));
    assert_eq!(output.bytes, wanted);
}

#[test]
fn a_file_of_holes_may_be_larger_than_memory() {
    const NUMBERS: usize = 64 << 20;
    let scene = scene_with("var line [16] int32\nview l { var l = line }\n");
    fs::write(scene.file("l.raw"), [5; 64]).unwrap();
    let to = format!("view clipped fill -7 {{ var r [i:{NUMBERS}] = line[i-{}] }}=f.raw", NUMBERS - 17);
    let still = scene.command(&["drepl", "convert", "mesh.drepl", "--threads", "1", "--from", "l=l.raw", "--to", &to]);
    let mut command = Command::new("sh");
    // Of 256 MiB that are written it holds less than 160, most of which are for moving between files.
    command.args(["-c", "ulimit -d 163840 && exec \"$0\" \"$@\""]).arg(still.get_program()).args(still.get_args());
    command.current_dir(scene.file("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = wait(command.spawn().unwrap());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = fs::read(scene.file("f.raw")).unwrap();
    let (holes, elements) = bytes.split_at(4 * (NUMBERS - 17));
    assert!(holes.chunks(4).all(|hole| hole == (-7_i32).to_ne_bytes()));
    assert_eq!(elements, [&[5; 64][..], &(-7_i32).to_ne_bytes()].concat());
}

#[test]
fn blocks_of_files_become_other_blocks() {
    let scene = scene();
    let bytes: Vec<u8> = (0..=255).cycle().take(96 * 8).collect();
    for (i, block) in bytes.chunks(96).enumerate() {
        fs::write(scene.file(&format!("old-{i}.raw")), block).unwrap();
    }
    let from = ["--from", "{ var b [x:12] = line[x+12*i] }=old-{i}.raw", "--each", "i=0..8"];
    let to = ["--to", "{ var b [x:16] = line[x+16*j] }=new-{j}.raw", "--each", "j=0..6"];
    let told = scene.json(&args("convert", &[&from[..], &to, &["--json"]].concat()));
    assert_eq!(told["files"].as_array().unwrap().len(), 6);
    for (j, block) in bytes.chunks(128).enumerate() {
        assert_eq!(fs::read(scene.file(&format!("new-{j}.raw"))).unwrap(), block, "block {j}");
    }
    let to = ["--to", "{ var b [x:16] = line[x+16*j] }=new.raw", "--each", "j=0..6"];
    assert!(
        scene
            .complaint(2, &args("convert", &[&from[..], &to].concat()))
            .contains("new.raw is one file: put {j} into its name")
    );
    let from = ["--from", "{ var b [x:12] = line[x+12*i] }=old-0.raw", "--each", "i=0..8"];
    let line = scene.complaint(2, &args("convert", &[&from[..], &["--to", "{ var l = line }=line.raw"]].concat()));
    assert!(
        line.contains("--each i makes 8 fragments of { var b [x:12] = line[x+12*i] }, and old-0.raw is one file"),
        "{line}"
    );
    let same = ["--from", "aos=aos.raw", "--to", "soa=same.raw", "--to", "ids=./same.raw"];
    assert!(scene.complaint(2, &args("convert", &same)).contains("./same.raw is to be two files"));
}

#[test]
fn a_replica_has_a_file_of_its_own() {
    let scene = scene_with(&format!(
        "{MESH}replica main \"main.dat\" {{ skip 16; view aos }}\nreplica out \"../x\" {{ view ids }}\n"
    ));
    fs::write(scene.file("main.dat"), [vec![255; 16], aos()].concat()).unwrap();
    scene.ok(&args("convert", &["--from", "main", "--to", "soa=soa.raw"]));
    assert_eq!(fs::read(scene.file("soa.raw")).unwrap(), soa());
    let line = scene.complaint(2, &args("convert", &["--from", "main", "--to", "out"]));
    assert!(line.contains("not in the text's folder"), "{line}");
}

#[test]
fn convert_writes_a_whole_file_or_none() {
    let scene = scene();
    let line = scene.complaint(1, &args("convert", &["--from", "ids=aos.raw", "--to", "soa=soa.raw"]));
    assert!(line.contains("no file has mesh.rho[0..6, 0..4] of soa") && line.contains("--partial"), "{line}");
    let line = scene.complaint(1, &args("convert", &["--from", "aos=none.raw", "--to", "soa=soa.raw"]));
    assert!(line.contains("cannot read none.raw"), "{line}");
    fs::write(scene.file("short.raw"), &aos()[..100]).unwrap();
    let line = scene.complaint(1, &args("convert", &["--from", "aos=short.raw", "--to", "soa=soa.raw"]));
    assert!(line.contains("short.raw: the file has 100 bytes, and aos has 288"), "{line}");
    let line = scene.complaint(1, &args("convert", &["--from", "aos=aos.raw", "--to", "soa=no/soa.raw"]));
    assert!(line.contains("cannot write no/soa.raw"), "{line}");
    let line = scene.complaint(1, &args("convert", &["--from", "aos=aos.raw", "--to", "soa=/dev/full"]));
    assert!(line.contains("cannot write /dev/full: No space left"), "{line}");
    scene.complaint(2, &args("convert", &["--from", "aos", "--to", "soa=soa.raw"]));
    scene.complaint(2, &args("convert", &["--from", "aos=", "--to", "soa=soa.raw"]));
    scene.complaint(2, &args("convert", &["--from", "aoss=aos.raw", "--to", "soa=soa.raw"]));
    mistakes(&scene, 2, &args("convert", &["--from", "{ var q = nothing }=aos.raw", "--to", "soa=soa.raw"]));
    let left: Vec<_> = files(scene.file("mesh.drepl").parent().unwrap());
    assert_eq!(left.len(), 3, "nothing is left behind: {left:?}");

    // A file that is too long is told, and one that lacks something only with --partial.
    fs::write(scene.file("ids.raw"), [1; 100]).unwrap();
    let told = scene.still(&args("convert", &["--from", "ids=ids.raw", "--to", "soa=soa.raw", "--partial"]));
    assert!(told.err.contains("ids.raw has 4 bytes more than ids (96)"), "{}", told.err);
    assert!(told.out.contains("24 elements are in no file, and zero"), "{}", told.out);
    assert_eq!(fs::read(scene.file("soa.raw")).unwrap(), [vec![0; 192], vec![1; 96]].concat());
}

#[test]
fn a_convert_that_is_ended_leaves_the_old_file_and_nothing_else() {
    let scene = scene_with("var line [N] float64\nview l { var l = line }\nview b bigendian { var b = line }\n");
    let folder = scene.file("mesh.drepl").parent().unwrap().to_path_buf();
    // Of holes, and more of them than can be moved before the signal comes.
    const BYTES: u64 = 4 << 30;
    fs::File::create(scene.file("l.raw")).unwrap().set_len(BYTES).unwrap();
    fs::write(scene.file("b.raw"), "old").unwrap();
    let n = format!("N={}", BYTES / 8);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let still =
            scene.command(&["drepl", "convert", "mesh.drepl", "-D", &n, "--from", "l=l.raw", "--to", "b=b.raw"]);
        // Shells let jobs in the background ignore SIGINT, and what those start.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM").arg(still.get_program()).args(still.get_args()).current_dir(&folder);
        let mut child = Guard(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let open = format!("/proc/{}/fd", child.0.id());
        let is_written = |path: &PathBuf| {
            fs::read_link(path)
                .is_ok_and(|at| at.starts_with(&folder) && !at.ends_with("l.raw") && !at.ends_with("mesh.drepl"))
        };
        until("a file to be written", || files(Path::new(&open)).iter().any(is_written));
        assert!(
            Command::new("kill").arg(format!("-{signal}")).arg(child.0.id().to_string()).status().unwrap().success()
        );
        assert_eq!(child.0.wait().unwrap().signal(), Some(signal));
        let names: Vec<_> = files(&folder).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["b.raw", "l.raw", "mesh.drepl"], "after signal {signal}");
        assert_eq!(fs::read(scene.file("b.raw")).unwrap(), b"old");
    }
}

#[test]
fn a_view_that_is_unknown_is_told_with_those_there_are() {
    let scene = scene();
    let line = scene.complaint(2, &args("plan", &["--view", "soaa", "--from", "aos"]));
    assert!(line.contains("`soaa`") && line.contains("aos, soa, ids"), "{line}");
    for each in ["i", "i=3", "i=3..1", "i=0..1e9"] {
        scene.complaint(2, &args("plan", &["--view", "soa", "--each", each]));
    }
    for more in [&["--each", "k=0..2"][..], &["-D", "k=1"]] {
        scene.complaint(2, &args("plan", &[&["--view", "soa", "--each", "k=0..3"][..], more].concat()));
    }
    let many = ["--view", "soa", "--each", "i=0..1000000000", "--from", "{ var b [x:12] = line[x+i] }"];
    assert!(scene.complaint(2, &args("plan", &many)).contains("makes more than"));
}

/// They need numpy; whoever has it can hear from it that the bytes are right.
#[test]
fn the_examples_run() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    if !Command::new(&python).args(["-c", "import numpy"]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {python} has no numpy; name one that has in PYTHON");
        return;
    }
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/drepl");
    for example in ["structs", "coarse", "transpose", "halo", "repartition", "netcdf"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(&python);
        command.arg("-B").arg(format!("{examples}/{example}.py")).arg(folder.path());
        command.env("STILL", env!("CARGO_BIN_EXE_still")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = wait(command.spawn().unwrap());
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{example}: {text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("as numpy says"), "{example}: {text}");
    }
}
