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
            eprintln!("skipped: {error}");
            None
        }
    };
    ["tcp", "shm"].into_iter().filter_map(open).collect()
}
