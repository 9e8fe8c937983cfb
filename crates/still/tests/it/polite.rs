//! What a person waits for in front of a terminal comes as from any other program; what goes on beyond it steps back.
#![allow(unsafe_code)]

use crate::refuse::refuse;
use crate::support::{Scene, wait};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// Whether a command, or what it becomes, asks the kernel for the idle class. It is refused (seccomp(2)), which is said.
fn steps_back(scene: &Scene, args: &[&str]) -> bool {
    let mut command = scene.as_it_is(args);
    // SAFETY: the filter is made and set in the child alone, which takes no lock that another thread may have but the allocator's,
    // and that one forks well.
    unsafe {
        command.pre_exec(|| match refuse(libc::SYS_sched_setscheduler, None, libc::EPERM) {
            true => Ok(()),
            false => Err(std::io::Error::last_os_error()),
        })
    };
    let done = wait(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("still starts"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "still {args:?}: {said}");
    said.contains("not as politely as it was asked to")
}

#[test]
fn what_is_small_is_shown_without_stepping_back() {
    let scene = Scene::new();
    let (mut region, u) = scene.region("small", &[1 << 16]);
    region.slice_mut(&u).fill(1.0);
    region.publish(1).commit().unwrap();
    let looks: [&[&str]; 7] = [
        &["ls"],
        &["show", "small"],
        &["get", "small", "u"],
        &["get", "small", "u", "-o", "u.npy"],
        &["stats", "small", "u", "--once"],
        &["watch", "small", "--once", "--interval", "0.05"],
        &["watch", "--once", "--interval", "0.05"],
    ];
    for args in looks {
        assert!(!steps_back(&scene, args), "{args:?}");
    }
    drop(region);
    assert!(steps_back(&scene, &["stats", "small", "u"]), "what follows a region steps back");
}

#[test]
fn an_export_steps_back_behind_its_first_bytes() {
    if !Path::new(env!("CARGO_BIN_EXE_still")).with_file_name("still-export").exists() {
        eprintln!("left out: still-export is not built");
        return;
    }
    let scene = Scene::new();
    for (name, elements, is_large) in [("small", 1 << 17, false), ("large", 1 << 19, true)] {
        let (mut region, u) = scene.region(name, &[elements]);
        region.slice_mut(&u).fill(1.0);
        region.publish(1).commit().unwrap();
        for file in ["u.h5", "u.nc"] {
            assert_eq!(steps_back(&scene, &["export", name, "-o", file]), is_large, "{name} to {file}");
            assert!(!steps_back(&scene, &["export", name, "-o", file, "--impolite"]), "{name} to {file}");
        }
    }
}
