//! Bulk over TCP, inside TLS and beside it.

mod common;
mod contract;

use stillframe_link::Means;

fn ways() -> Vec<Means> {
    vec![Means::Tls, Means::Plain]
}
