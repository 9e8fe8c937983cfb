//! What helper processes do: brokers, and clients of brokers.

use super::LONG;
use crate::common::refuse::refuse;
use crate::helper::{check_play, say, wait_for_word};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use stillframe::enclave::Handout;
use stillframe::{Error, Observer, Trust};
use stillframe_enclave::{Admission, Options, Service};

/// A broker: until its input ends.
pub fn be_broker(arguments: &[String]) {
    serve_with(arguments, |handout| handout);
}

pub fn serve_with(arguments: &[String], change: impl FnOnce(Handout) -> Handout) {
    let [socket, dir, mode, rest @ ..] = arguments else { panic!("broker SOCKET DIR MODE [allow] [name]...") };
    let (allowed, only): (Vec<&String>, Vec<&String>) = rest.iter().partition(|word| word.contains(':'));
    let only: Vec<String> = only.into_iter().cloned().collect();
    let handout = change(Handout::new(Path::new(dir), None, &only).unwrap());
    let mode = u32::from_str_radix(mode, 8).unwrap();
    let options = Options { socket: socket.into(), mode, trust: Trust::Own, stays: false };
    let admission = Admission(allowed.iter().map(|allow| allow.parse().unwrap()).collect());
    let service = match Service::begin(&options, handout, admission) {
        Ok(service) => service,
        Err(error) => return say(&error.to_string()),
    };
    say(if service.desk().is_plain().unwrap().is_some() { "plain" } else { "serves" });
    service.serve(std::io::stdin().as_fd()).unwrap();
}

/// A broker that can make no read-only view, as in a container without privileges: the kernel refuses (seccomp(2)).
pub fn be_viewless_broker(arguments: &[String]) {
    assert!(refuse(libc::SYS_open_tree, None, libc::EPERM));
    be_broker(arguments);
}

/// The same, which was told to serve all the same.
pub fn be_plain_broker(arguments: &[String]) {
    assert!(refuse(libc::SYS_open_tree, None, libc::EPERM));
    serve_with(arguments, |handout| handout.accept_plain(true));
}

/// A broker that has no descriptor left for a read-only view when it begins.
pub fn be_short_broker(arguments: &[String]) {
    let limit = |current: u64| {
        let limit = libc::rlimit { rlim_cur: current, rlim_max: 1024 };
        // SAFETY: the pointer is to a value that lives through the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    };
    serve_with(arguments, |handout| {
        let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd() as u64;
        // One for the directory, and none for the view.
        limit(next + 1);
        assert!(handout.is_plain().unwrap().is_some_and(|why| why.contains("Too many open files")));
        limit(1024);
        handout
    });
}

/// A broker whose kernel cannot refuse the files that clients send.
pub fn be_old_broker(arguments: &[String]) {
    assert!(refuse(libc::SYS_setsockopt, Some(libc::SOL_SOCKET as u32), libc::ENOPROTOOPT));
    be_broker(arguments);
}

/// A broker that may have as many files open as this machine allows.
pub fn be_ample_broker(arguments: &[String]) {
    stillframe_kernel::descriptors::raise_limit();
    be_broker(arguments);
}

/// A broker that may have few files open.
pub fn be_limited_broker(arguments: &[String]) {
    let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
    // SAFETY: the pointer is to a value that lives through the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    be_broker(arguments);
}

/// Observes by an address: holds a version until told, then follows some, then holds one to the end.
pub fn observe(arguments: &[String]) {
    let [address] = arguments else { panic!("observe ADDRESS") };
    let observer = Observer::options().wait(LONG).open(address).unwrap();
    let mut held = observer.newest().unwrap();
    check_play(&held);
    say("holds");
    wait_for_word();
    check_play(&held);
    for _ in 0..20 {
        held = observer.newest_after(Some(held.version()), Some(LONG)).unwrap();
        check_play(&held);
    }
    assert!(observer.producer_alive() && observer.is_current());
    say("followed");
    wait_for_word();
    drop(held);
}

/// Tries whatever could write, by each descriptor that this process has of the region's files.
pub fn try_to_write(arguments: &[String]) {
    let [address] = arguments else { panic!("write ADDRESS") };
    let observer = Observer::options().open(address).unwrap();
    let held = observer.newest().unwrap();
    check_play(&held);
    let mut tried = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let leads_to = std::fs::read_link(entry.path()).unwrap_or_default();
        let is_of_region = |name: &str| {
            ["head", "tables", "lease", "arena", "plane.", "schema."].iter().any(|own| name.starts_with(own))
        };
        if !leads_to.file_name().is_some_and(|name| is_of_region(&name.to_string_lossy())) {
            continue;
        }
        tried += 1;
        let number: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
        let refused = |what: &str, done: i64| {
            assert_eq!(done, -1, "{what} of {}", leads_to.display());
        };
        let text = std::ffi::CString::new(format!("/proc/self/fd/{number}")).unwrap();
        // SAFETY: the descriptor is open, pointers are to memory that lives through the calls, and none of them is to succeed.
        unsafe {
            for flags in [libc::O_RDWR, libc::O_WRONLY, libc::O_RDWR | libc::O_TRUNC] {
                refused("open", libc::open(text.as_ptr(), flags).into());
            }
            refused("truncate", libc::truncate(text.as_ptr(), 0).into());
            refused("chmod", libc::chmod(text.as_ptr(), 0o666).into());
            refused("pwrite", libc::pwrite(number, text.as_ptr().cast(), 1, 0) as i64);
            refused("ftruncate", libc::ftruncate(number, 0).into());
            refused("fallocate", libc::fallocate(number, 0, 0, 4096).into());
            refused("fchmod", libc::fchmod(number, 0o666).into());
            refused("fchown", libc::fchown(number, libc::getuid(), libc::getgid()).into());
            refused("futimens", libc::futimens(number, std::ptr::null()).into());
            let shared =
                libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, number, 0);
            refused("mmap", if shared == libc::MAP_FAILED { -1 } else { 0 });
            let read = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, number, 0);
            if read != libc::MAP_FAILED {
                refused("mprotect", libc::mprotect(read, 4096, libc::PROT_READ | libc::PROT_WRITE).into());
                refused("MADV_REMOVE", libc::madvise(read, 4096, libc::MADV_REMOVE).into());
                libc::munmap(read, 4096);
            }
            // A flag of the opening cannot make it writable.
            libc::fcntl(number, libc::F_SETFL, libc::O_RDWR);
            assert_eq!(libc::fcntl(number, libc::F_GETFL) & libc::O_ACCMODE, libc::O_RDONLY);
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = libc::F_WRLCK as _;
            lock.l_len = 1;
            refused("a write lock", libc::fcntl(number, libc::F_OFD_SETLK, &lock).into());
        }
    }
    say(&format!("tried {}", if tried >= 2 { "all".into() } else { tried.to_string() }));
    wait_for_word();
}

/// Says what comes of opening, again and again.
pub fn say_what_comes(arguments: &[String]) {
    let [address] = arguments else { panic!("say ADDRESS") };
    loop {
        match Observer::options().open(address).and_then(|observer| observer.newest()) {
            Ok(snapshot) => say(&format!("version {}", snapshot.version())),
            Err(error) => say(&error.to_string()),
        }
        wait_for_word();
    }
}

/// Opens with fewer and fewer descriptors left: an error each time, and nothing that is left open.
pub fn use_all_descriptors(arguments: &[String]) {
    let [address] = arguments else { panic!("few ADDRESS") };
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    drop(Observer::options().open(address).unwrap());
    let before = open();
    let mut failed = 0;
    for more in 0..14 {
        let limit = libc::rlimit { rlim_cur: before - 1 + more, rlim_max: 1024 };
        // SAFETY: the pointer is to a value that lives through the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        match Observer::options().open(address) {
            Ok(observer) => drop(observer.newest().map(|snapshot| check_play(&snapshot))),
            Err(Error::NoFiles { .. }) => failed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let all = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &all) }, 0);
    assert!(failed > 2, "{failed}");
    assert_eq!(open(), before);
    say("few");
}
