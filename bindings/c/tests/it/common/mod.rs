//! What the tests have in common: where the libraries are, and where regions go.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The name that programs look for when they start.
pub const SONAME: &str = "libstillframe.so.0";

/// The directory of this package.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A directory with the libraries under the names that linker and loader look for.
pub fn libraries() -> &'static Path {
    static LIBRARIES: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = LIBRARIES.get_or_init(|| {
        // Tests of a library of this kind are built without it.
        let profile = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_path_buf();
        let library = profile.join("libstillframe.so");
        assert!(library.exists(), "{} is missing: `make test-build` builds it", library.display());
        let dir = tempfile::tempdir().unwrap();
        for (library, name) in [
            ("libstillframe.so", SONAME),
            ("libstillframe.so", "libstillframe.so"),
            ("libstillframe.a", "libstillframe.a"),
        ] {
            std::os::unix::fs::symlink(profile.join(library), dir.path().join(name)).unwrap();
        }
        dir
    });
    made.path()
}

/// A directory for regions, which lie in memory.
pub fn regions() -> tempfile::TempDir {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let prefix = format!("stillframe-c-{}-{count}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in("/dev/shm").unwrap()
}
