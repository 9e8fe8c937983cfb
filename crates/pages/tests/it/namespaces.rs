//! Pools that are mounted in other mount namespaces, too.

use crate::support::{MIB, Made, apart, give_back_unused, is_free, own, until};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use stillframe_pages::reserve::give_back;
use stillframe_pages::supply::System;
use stillframe_pages::{Error, Pool};

/// A process in a mount namespace of its own, which ends when this is dropped or, should the test be killed, by itself.
struct Apart(std::process::Child);

impl Apart {
    /// Runs a script of the shell there, and waits for its first line. Of all pools only this one is there, so that others are given
    /// back as ever.
    fn new(pool: &Pool, script: &str) -> Option<Apart> {
        let alone = "for path in /run/stillframe/pages/*/; do [ $path = $0/ ] || umount $path; done 2>/dev/null";
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", &format!("{alone}; {script}")]);
        command.arg(&pool.mount.path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let apart = Apart(child);
        (line == "there\n").then_some(apart)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn a_pool_that_is_used_in_another_mount_namespace_is_not_given_back() {
    let _apart = apart();
    let system = System::default();
    let Some(made) = Made::new("apart", 8 * MIB, own()) else { return };
    let pool = &made.0;
    // A program there has the pool's memory, and nothing of it is open here.
    let script = "import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_TMPFILE, 0o600)
os.ftruncate(file, 4 << 20)
memory = mmap.mmap(file, 4 << 20)
memory[0] = 1
os.close(file)
print('there', flush=True)
sys.stdin.read()";
    let line = format!("exec timeout 600 python3 -c \"{script}\" $0");
    let Some(inside) = Apart::new(pool, &line) else {
        eprintln!("skipped: no mount namespace, or no Python");
        return;
    };
    match give_back(&system, &pool.name, false) {
        Err(Error::Busy { holders, .. }) => assert!(holders.contains("python3"), "{holders}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(Pool::find(&system, &pool.name).unwrap(), *pool);
    drop(inside);
    is_free(pool, 8 * MIB);
    give_back_unused(&pool.name, false).unwrap();
}

#[test]
fn pages_that_another_mount_namespace_keeps_are_said_and_go_back_when_it_ends() {
    let _apart = apart();
    let system = System::default();
    let surplus = || {
        let text = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages").unwrap();
        text.trim().parse::<u64>().unwrap()
    };
    let Some(made) = Made::new("kept", 64 * MIB, own()) else { return };
    let Some(inside) = Apart::new(&made.0, "echo there; exec timeout 600 cat") else {
        eprintln!("skipped: no mount namespace");
        return;
    };
    let note = fs::read_to_string(made.0.mount.path.with_extension("gathered")).unwrap();
    let before = surplus();
    match give_back(&system, &made.0.name, false) {
        Err(Error::Kept { count, .. }) => assert!(count > 0),
        // What it had was spare before, and is again.
        Ok(()) if note.contains("\"parts\":[]") => eprintln!("nothing was gathered for it"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(Pool::find(&system, &made.0.name), Err(Error::NoPool { .. })));
    assert!(!made.0.mount.path.exists());
    drop(inside);
    // Others may do the same meanwhile, and the kernel ends a namespace when it comes to it.
    until("the end of the pages", || surplus() <= before);
}
