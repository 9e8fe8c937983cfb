//! The large pages of the machine, which one test process at a time has.

use std::fs::File;
use std::sync::OnceLock;

/// Has this process alone the large pages of the machine, of all that test, until it ends: also those of another clone take pages that they find
/// free, and mount namespaces keep the pools of others.
pub fn lock_machine() {
    static LOCK: OnceLock<Option<File>> = OnceLock::new();
    LOCK.get_or_init(|| {
        let file = File::open("/proc/sys/vm/nr_hugepages").ok()?;
        file.lock().ok().map(|()| file)
    });
}
