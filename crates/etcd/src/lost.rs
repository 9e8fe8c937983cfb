//! Marks of numbers whose nodes were lost: nobody has such a number any more, in the data of etcd that begin anew either.

use crate::client::Client;
use crate::error::Result;
use crate::keys::Keys;
use crate::message::{Compare, KeyValue, Response, ResponseOp, TxnRequest, delete, get, put, txn};
use stillframe_roster::writer::Node;

/// Marks of one transaction; etcd takes 128 operations.
const TOGETHER: usize = 100;

/// What is done with a number that a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmarked {
    /// It stays: the node was only missing, and has come back.
    Missing,
    /// It is taken from the node: others were told that it is lost.
    Told,
}

/// Puts marks for numbers. Whoever finds one for its own number is no node any more.
pub(crate) async fn mark(client: &Client, keys: &Keys, numbers: &[(Node, Unmarked)]) -> Result<()> {
    for some in numbers.chunks(TOGETHER) {
        let one = |(node, _): &(Node, Unmarked)| {
            let (key, mark) = (keys.node(*node), keys.lost(*node));
            txn(TxnRequest {
                compare: vec![Compare::created(&key, 0), Compare::created(&mark, 0)],
                success: vec![put(&mark, b"{}", 0)],
                failure: vec![get(&key)],
            })
        };
        let success = some.iter().map(one).collect();
        let answer = client.txn(&TxnRequest { compare: Vec::new(), success, failure: Vec::new() }).await?;
        for ((node, unmarked), answer) in some.iter().zip(&answer.responses) {
            if let Some(kv) = there(answer).filter(|_| *unmarked == Unmarked::Told) {
                expel(client, keys, *node, kv).await?;
            }
        }
    }
    Ok(())
}

/// The node that has the number that was to be marked, if any.
fn there(answer: &ResponseOp) -> Option<&KeyValue> {
    match &answer.response {
        Some(Response::Txn(one)) => one.responses.first().and_then(ResponseOp::found),
        _ => None,
    }
}

/// Takes its number from a node, and all that it holds.
async fn expel(client: &Client, keys: &Keys, node: Node, kv: &KeyValue) -> Result<()> {
    let request = TxnRequest {
        compare: vec![Compare::created(&kv.key, kv.create_revision)],
        success: vec![put(&keys.lost(node), b"{}", 0), delete(&kv.key)],
        failure: Vec::new(),
    };
    // Where another was quicker, the lease may have ended already.
    if client.txn(&request).await?.succeeded && kv.lease != 0 {
        let _ = client.revoke(kv.lease).await;
    }
    Ok(())
}
