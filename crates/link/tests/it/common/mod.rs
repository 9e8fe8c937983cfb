//! What the tests share: two connected runtimes of a job, and a watchdog.
#![allow(dead_code)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stillframe_link::{Connection, Identity, Listener, Means, Options, identity};

#[path = "../../../../stillframe/tests/it/common/watchdog.rs"]
mod watchdog;

pub use watchdog::watchdog;

/// Longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(100);

/// A name of its own in shared memory.
pub fn path(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("/dev/shm/stillframe-test-{}-{number}-{name}", std::process::id()))
}

/// A certificate, whose files are gone once they are read.
pub fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let dir = path("identity");
        let identity = identity::create(&dir, "test", identity::LIFETIME).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        identity
    })
}

pub fn options(means: &Means) -> Options {
    Options { means: means.clone(), silence: LONG, patience: LONG }
}

pub fn listen(means: &Means) -> Listener {
    Listener::bind("127.0.0.1:0".parse().unwrap(), identity(), &options(means)).unwrap()
}

/// Two ends of a connection: the one that connected, the one that accepted.
pub fn pair(means: &Means) -> (Connection, Connection) {
    let listener = listen(means);
    let connects = Connection::connect(listener.address(), identity(), &options(means), LONG);
    let connects = connects.unwrap_or_else(|error| panic!("{error}; there: {:?}", listener.accept(LONG)));
    (connects, listener.accept(LONG).unwrap().unwrap())
}

/// Bytes that are different everywhere.
pub fn pattern(bytes: usize) -> Vec<u8> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        all.extend_from_slice(&word.to_le_bytes());
    }
    all.truncate(bytes);
    all
}

/// A file without a name that holds these bytes from `at` on.
pub fn file(at: u64, bytes: &[u8]) -> File {
    let path = path("file");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all_at(bytes, at).unwrap();
    file
}
