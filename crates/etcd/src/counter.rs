//! Numbers of nodes. The counter is how often its key was put, which etcd counts itself, on top of the key's value; so that many
//! who join at a time do not wait for each other.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::keys::{Keys, shown};
use crate::message::{Compare, KeyValue, PutRequest, RangeRequest, Request, TxnRequest, get, put};
use crate::values::read_counter;
use std::time::{Duration, Instant};
use stillframe_roster::writer::Node;

/// A number that no node had before.
pub(crate) async fn next(client: &Client, keys: &Keys) -> Result<Node> {
    let key = keys.counter();
    let count = Request::Put(PutRequest { key: key.clone(), ignore_value: true, ..PutRequest::default() });
    let request = TxnRequest {
        compare: vec![Compare::is_there(&key)],
        success: vec![count.into(), get(&key)],
        failure: vec![put(&key, b"0", 0), get(&key)],
    };
    let answer = client.txn(&request).await?;
    let found = answer.responses.last().and_then(|last| last.found());
    found.map_or_else(|| Err(hostile(&key, "it was put and is not there")), of)
}

/// How often it is looked whether the count has begun.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until somebody has begun the count, or for so long.
pub(crate) async fn wait(client: &Client, keys: &Keys, patience: Duration) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        let request = RangeRequest { key: keys.counter(), ..RangeRequest::default() };
        if !client.range(&request).await?.kvs.is_empty() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Sees to it that numbers up to this one are not given again.
pub(crate) async fn raise(client: &Client, keys: &Keys, node: Node) -> Result<()> {
    let key = keys.counter();
    loop {
        let found = client.range(&RangeRequest { key: key.clone(), ..RangeRequest::default() }).await?.kvs.pop();
        if let Some(kv) = &found
            && of(kv)? >= node
        {
            return Ok(());
        }
        let request = TxnRequest {
            compare: vec![Compare::unchanged(&key, found.map_or(0, |kv| kv.mod_revision))],
            success: vec![put(&key, node.0.to_string().as_bytes(), 0)],
            failure: Vec::new(),
        };
        client.txn(&request).await?;
    }
}

fn of(kv: &KeyValue) -> Result<Node> {
    let base = read_counter(&kv.value).map_err(|why| hostile(&kv.key, &why))?;
    let number = u32::try_from(kv.version).ok().and_then(|count| base.checked_add(count));
    number.map(Node).ok_or_else(|| hostile(&kv.key, "there are no more numbers of 32 bits"))
}

fn hostile(key: &[u8], why: &str) -> Error {
    Error::Hostile { key: shown(key), why: why.into() }
}
