//! `still enclave serve`, and the other commands through it; and what they say of regions of machines that share memory.

use crate::support::{Guard, Scene, apart_from_pools, until, wait};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::RwLockWriteGuard;
use stillframe::Region;

/// A broker that has said that it serves.
fn serve(scene: &Scene, more: &[&str]) -> Guard {
    let socket = scene.file("sock");
    let words = [&["enclave", "serve", "--socket", socket.to_str().unwrap()], more].concat();
    let mut child = scene.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said = format!("handing out {} at {}\n", scene.dir().display(), socket.display());
    assert_eq!(line, said);
    Guard(child)
}

fn end(mut broker: Guard) {
    let id = broker.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(broker.0.wait().unwrap().success());
}

#[test]
fn commands_look_at_what_a_broker_hands_out() {
    let scene = Scene::new();
    let (mut region, array) = scene.region("run/plate", &[4, 5]);
    for version in 1..=3 {
        region.slice_mut(&array).fill(version as f64);
        region.publish(version).commit().unwrap();
    }
    let broker = serve(&scene, &[]);
    let dir = format!("unix:{}", scene.file("sock").display());
    let address = format!("{dir}#run/plate");
    let list = scene.json(&["--dir", &dir, "ls", "--json"]);
    assert_eq!(list["regions"][0]["name"], "run/plate");
    assert_eq!((&list["regions"][0]["state"], &list["regions"][0]["newest"]), (&"live".into(), &3.into()));
    let by_path = scene.ok(&["get", "run/plate", "u"]);
    assert_eq!(scene.ok(&["--dir", &dir, "get", "run/plate", "u"]), by_path);
    assert_eq!(scene.ok(&["get", &address, "u"]).replace(&format!("{dir}#"), ""), by_path);
    assert!(scene.ok(&["show", &address]).contains("version 3"));
    assert!(scene.ok(&["stats", &address, "u", "--once"]).contains('3'));
    scene.ok(&["verify", &address]);
    scene.ok(&["get", &address, "u", "-o", scene.file("u.npy").to_str().unwrap()]);
    assert!(scene.file("u.npy").exists());
    for words in [&["rm", "run/plate"][..], &["gc"]] {
        let said = scene.complaint(2, &[&["--dir", &dir], words].concat());
        assert!(said.contains("hands out regions to look at"), "{said}");
    }
    let said = scene.complaint(1, &["get", &format!("{dir}#none"), "u"]);
    assert!(said.contains("no region 'none'"), "{said}");
    end(broker);
    assert!(!scene.file("sock").exists() && !scene.file(".sock.lock").exists());
    let said = scene.complaint(1, &["get", &address, "u"]);
    assert!(said.contains("no broker answers"), "{said}");
}

#[test]
fn what_makes_no_sense_is_refused_and_a_second_broker_too() {
    let scene = Scene::new();
    let (mut region, _) = scene.region("a", &[4]);
    region.publish(1).commit().unwrap();
    let socket = scene.file("sock").display().to_string();
    for (code, words) in
        [(2, &["--mode", "9"][..]), (2, &["--mode", "1777"]), (2, &["--allow", "everybody"]), (2, &["../x"])]
    {
        scene.complaint(code, &[&["enclave", "serve", "--socket", &socket], words].concat());
    }
    scene.complaint(1, &["enclave", "serve", "--socket", &format!("{socket}/nowhere/sock")]);
    scene.complaint(2, &["--dir", "unix:/run/x", "enclave", "serve", "--socket", &socket]);
    let broker = serve(&scene, &["--mode", "0660", "a"]);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    let said = scene.complaint(1, &["enclave", "serve", "--socket", &socket]);
    assert!(said.contains("is in use"), "{said}");
    // One that was killed is followed by the next.
    drop(broker);
    until("the broker to be gone", || scene.still(&["get", &format!("unix:{socket}#a"), "u"]).code == 1);
    let broker = serve(&scene, &[]);
    scene.ok(&["get", &format!("unix:{socket}#a"), "u"]);
    end(broker);
}

const NAMES: [&str; 2] = ["host", "guest"];

/// A directory of regions of another enclave on this kernel: it has locks of its own, and what runs there has the arenas of the scene's
/// directory in it.
struct Other<'a> {
    scene: &'a Scene,
    dir: PathBuf,
    _apart: RwLockWriteGuard<'static, ()>,
}

impl Other<'_> {
    /// `None` where no process may have mounts of its own.
    fn new(scene: &Scene) -> Option<Other<'_>> {
        let other = Other { scene, dir: scene.file("guest-regions"), _apart: apart_from_pools() };
        for file in NAMES.iter().flat_map(|name| [&scene.dir(), &other.dir].map(|dir| dir.join(name).join("arena"))) {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::File::create(file).unwrap().set_len(64 << 20).unwrap();
        }
        if other
            .command(&["--version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|done| done.success())
        {
            return Some(other);
        }
        eprintln!("skipped: no process may have mounts of its own here");
        None
    }

    fn command(&self, args: &[&str]) -> Command {
        let binds = NAMES.map(|name| {
            let [from, to] = [&self.scene.dir(), &self.dir].map(|dir| dir.join(name).join("arena"));
            format!("mount --bind '{}' '{}' && ", from.display(), to.display())
        });
        let still = self.scene.command(args);
        let mut command = Command::new("unshare");
        let user: &[&str] = if stillframe_kernel::user_id() == 0 { &[] } else { &["-r"] };
        command.args(user).args([
            "-m",
            "--propagation",
            "private",
            "sh",
            "-c",
            &(binds.concat() + "exec \"$@\""),
            "sh",
        ]);
        command.arg(still.get_program()).args(still.get_args()).env("STILLFRAME_DIR", &self.dir);
        command.env_remove("STILLFRAME_TRACKER").stdin(Stdio::null());
        command
    }

    /// Runs a command to its end, and returns its code and what it said.
    fn still(&self, args: &[&str]) -> (i32, String) {
        let done = wait(self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        (done.status.code().unwrap(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
    }

    /// Both agents, which have said that they run.
    fn agents(&self) -> [Guard; 2] {
        let args = |own: usize| ["enclave", "agent", NAMES[own], "--peer", NAMES[1 - own]];
        [self.scene.command(&args(0)), self.command(&args(1))].map(|mut command| {
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert!(line.starts_with("agent of "), "{line}");
            Guard(child)
        })
    }
}

#[test]
fn commands_say_in_which_enclave_regions_are_produced_and_held() {
    let scene = Scene::new();
    let Some(other) = Other::new(&scene) else { return };
    let _agents = other.agents();
    let (mut beside, _) = scene.region("beside", &[10]);
    beside.publish(1).commit().unwrap();
    let (mut region, u) = scene.region("host/plate", &[1 << 20]);
    region.slice_mut(&u).fill(1.0);
    region.publish(1).commit().unwrap();
    let ranks = [0, 1].map(|rank| {
        let mut region = Region::options().dir(scene.dir()).rank(rank, 2).create("host/group").unwrap();
        region.publish(1).commit().unwrap();
        region
    });
    let store = scene.file("store").display().to_string();
    assert_eq!(scene.still(&["checkpoint", "host/plate", "--once", "--to", &store]).code, 0);
    let told = other.still(&["restore", &store, "--as", "guest/plate"]);
    assert_eq!(told.0, 0, "{}", told.1);

    until("both enclaves to list both", || {
        let (code, list) = other.still(&["ls"]);
        code == 0 && list.contains("host/plate   live") && scene.ok(&["ls"]).contains("guest/plate  dead")
    });
    let list = scene.ok(&["ls"]);
    let begins = ["REGION", "beside", "guest/plate", "host/group", "host/plate"];
    let ends = ["AGE  ENCLAVE", "", "  guest", "  host (own)", "  host (own)"];
    assert_eq!(list.lines().count(), begins.len(), "{list}");
    for (line, (begin, end)) in list.lines().zip(begins.into_iter().zip(ends)) {
        assert!(line.starts_with(begin) && line.ends_with(end), "{list}");
        assert!(begin != "beside" || !line.contains("host") && !line.contains("guest"), "{list}");
    }
    let listed = scene.json(&["ls", "--json"])["regions"].clone();
    assert!(listed[0].get("enclave").is_none(), "{listed}");
    assert_eq!(listed[1]["enclave"], serde_json::json!({"name": "guest", "is_own": false}));
    for own in [2, 3, 4] {
        assert_eq!(listed[own]["enclave"], serde_json::json!({"name": "host", "is_own": true}), "{listed}");
    }
    let list = other.still(&["ls"]).1;
    assert_eq!(list.lines().filter(|line| line.starts_with("host/") && line.ends_with("  host")).count(), 2, "{list}");
    assert!(list.contains("  guest (own)\n"), "{list}");
    let shown = other.still(&["show", "host/group"]).1;
    assert!(shown.starts_with("host/group: group of 2 ranks, live, enclave host, in "), "{shown}");

    // It writes more than a pipe takes, and holds the version.
    let holder =
        other.command(&["get", "host/plate", "u", "-o", "-", "--format", "npy"]).stdout(Stdio::piped()).spawn();
    let holder = Guard(holder.unwrap());
    until("the hold", || scene.json(&["show", "host/plate", "--json"])["holders"][0]["enclave"] == "guest");
    let shown = scene.json(&["show", "host/plate", "--json"]);
    let expected = serde_json::json!([{"pid": null, "enclave": "guest", "command": null, "state": "?", "stopped": false,
        "version": 1, "versions": 1, "age_ms": null}]);
    assert_eq!((&shown["holders"], &shown["region"]["enclave"]["is_own"]), (&expected, &true.into()));
    let text = scene.ok(&["show", "host/plate"]);
    assert!(
        text.starts_with("host/plate: live, producer ") && text.contains(", enclave host (own), tracker"),
        "{text}"
    );
    assert!(text.contains("\nholders\n") && text.contains("held in enclave guest\n"), "{text}");
    let frame = scene.ok(&["watch", "host/plate", "--once", "--interval", "0.05"]);
    assert!(frame.contains("held in enclave guest\n"), "{frame}");
    let text = other.still(&["show", "host/plate"]).1;
    assert!(text.contains(", enclave host, tracker") && text.contains("\nholders in this enclave\n"), "{text}");
    // Another user than root has each command in a user namespace of its own, and these see nothing of each other.
    let is_root = stillframe_kernel::user_id() == 0;
    let seen = if is_root { holder.0.id().to_string() } else { "(out of sight)".into() };
    assert!(text.contains(&seen), "{text}");
    drop(holder);
    until("the end of the hold", || scene.ok(&["show", "host/plate"]).contains("holders: nobody"));

    // Each enclave removes what is its own.
    region.close().unwrap();
    drop(ranks);
    until("the end to be seen", || !other.still(&["ls"]).1.contains("live"));
    let (code, text) = other.still(&["rm", "host/plate", "--force"]);
    assert!(code == 2 && text.contains("'host' is the arena of another enclave"), "{code}: {text}");
    let (code, text) = other.still(&["gc"]);
    assert!(code == 0 && text.starts_with("removed guest/plate, ") && text.lines().count() == 1, "{code}: {text}");
    let text = scene.ok(&["gc"]);
    assert!(text.contains("removed host/plate, ") && text.lines().count() == 3, "{text}");
    let list = scene.ok(&["ls"]);
    assert!(!list.contains("ENCLAVE") && list.contains("beside"), "{list}");
}
