//! What every way for bulk keeps to, kept to over libfabric: by its providers `tcp` and `shm`, where the library is installed.

use std::sync::Arc;
use stillframe_fabric::Libfabric;
use stillframe_link::Means;

pub(crate) fn ways() -> Vec<Means> {
    let open = |provider| match Libfabric::open(provider) {
        Ok(fabric) => Some(Means::Fabric(Arc::new(fabric))),
        Err(error) => {
            assert!(!matches!(error, stillframe_fabric::Error::Environment { .. }), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    };
    // With both ends in one process libfabric 1.17 may crash: `make fabric` asks for that, and processes.rs has two of them.
    if std::env::var_os("STILLFRAME_TEST_FABRIC").is_none() {
        eprintln!("skipped: make fabric runs this");
        return Vec::new();
    }
    ["tcp", "shm"].into_iter().filter_map(open).collect()
}
