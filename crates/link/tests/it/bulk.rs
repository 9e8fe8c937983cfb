//! Bulk over TCP, inside TLS and beside it.

use stillframe_link::Means;

pub(crate) fn ways() -> Vec<Means> {
    vec![Means::Tls, Means::Plain]
}
