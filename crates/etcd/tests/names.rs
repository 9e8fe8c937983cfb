//! Names in etcd do what every keeper has to do, and believe nothing that is damaged.

mod common;
#[path = "../../object/tests/contract/mod.rs"]
mod contract;

use common::{open, start, watchdog};
use contract::Keeper;
use std::sync::Arc;
use stillframe_object::Names;

fn in_etcd(_: &str) -> Keeper {
    let child = start();
    let handles = (0..4).map(|_| Arc::new(open(&child).names()) as Arc<dyn Names>).collect();
    Keeper { handles, place: Box::new(child) }
}

contract!(in_etcd);
