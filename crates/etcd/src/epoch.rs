//! The lives of etcd's data, so that what is counted never goes back when the data are lost.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::keys::{Keys, shown};
use crate::message::{Compare, KeyValue, RangeRequest, TxnRequest, put};
use crate::values::{Epoch, read_epoch, write_epoch};
use std::hash::{BuildHasher, Hasher, RandomState};

/// A number by chance.
pub(crate) fn random() -> u64 {
    // The keys of the standard library's hasher are random numbers of the system.
    RandomState::new().build_hasher().finish()
}

/// The epoch of now and the revision at which it was read. If there is none, it begins: with terms above `highest`, and above all that
/// a life before can have given, as long as clocks go on and etcd makes less than a million revisions a second.
pub(crate) async fn ensure(client: &Client, keys: &Keys, highest: u64) -> Result<(Epoch, u64)> {
    loop {
        let (found, revision) = look(client, keys).await?;
        if let Some(kv) = found {
            return Ok((read(&kv)?, revision));
        }
        let epoch = Epoch { base: base(highest), id: random() };
        client.txn(&TxnRequest::put_new(&keys.epoch(), &write_epoch(&epoch), 0)).await?;
    }
}

/// Raises the base of the epoch, if terms could be below `highest`.
pub(crate) async fn raise(client: &Client, keys: &Keys, highest: u64) -> Result<Epoch> {
    loop {
        let (epoch, _) = ensure(client, keys, highest).await?;
        if epoch.base >= highest {
            return Ok(epoch);
        }
        let Some(kv) = look(client, keys).await?.0 else { continue };
        let raised = Epoch { base: base(highest), ..read(&kv)? };
        let request = TxnRequest {
            compare: vec![Compare::unchanged(&kv.key, kv.mod_revision)],
            success: vec![put(&kv.key, &write_epoch(&raised), 0)],
            failure: Vec::new(),
        };
        client.txn(&request).await?;
    }
}

/// The key of the epoch, and the revision of etcd's data.
pub(crate) async fn look(client: &Client, keys: &Keys) -> Result<(Option<KeyValue>, u64)> {
    let mut answer = client.range(&RangeRequest { key: keys.epoch(), ..RangeRequest::default() }).await?;
    let revision = answer.header.map_or(0, |header| header.revision);
    Ok((answer.kvs.pop(), u64::try_from(revision).unwrap_or(0)))
}

pub(crate) fn read(kv: &KeyValue) -> Result<Epoch> {
    read_epoch(&kv.value).map_err(|why| Error::Hostile { key: shown(&kv.key), why })
}

fn base(highest: u64) -> u64 {
    (stillframe_kernel::unix_ns() / 1000).max(highest.saturating_add(1))
}
