//! What every way for bulk keeps to, kept to over libfabric: by its providers `tcp` and `shm`, where the library is installed.

#[path = "../../link/tests/common/mod.rs"]
mod common;
#[path = "../../link/tests/contract/mod.rs"]
mod contract;

use std::sync::Arc;
use stillframe_fabric::Libfabric;
use stillframe_link::Means;

fn ways() -> Vec<Means> {
    let open = |provider| match Libfabric::open(provider) {
        Ok(fabric) => Some(Means::Fabric(Arc::new(fabric))),
        Err(error) => {
            assert!(!matches!(error, stillframe_fabric::Error::Environment { .. }), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    };
    // With both ends in one process libfabric 1.17 may crash in `shm`: `make fabric` asks for it, and processes.rs has two of them.
    let has_shm = std::env::var_os("STILLFRAME_TEST_SHM").is_some();
    ["tcp", "shm"].into_iter().filter(|provider| has_shm || *provider != "shm").filter_map(open).collect()
}
