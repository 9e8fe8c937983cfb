//! Creates that are gathered: what arrives during a round trip goes to etcd in one transaction.
//!
//! Each member of a transaction is one of its own within it, so that a key that is there already fails no other member.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::keys::shown;
use crate::message::{KeyValue, Response, TxnRequest, txn};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use tokio::sync::{Semaphore, mpsc};

/// Members of a transaction; etcd's default is to take at most 128.
const MEMBERS_MAX: usize = 100;

/// Bytes of a transaction's keys and values. etcd's default limit is half as much again, and one value may have nearly that.
const BYTES_MAX: usize = 1 << 20;

/// Transactions that are on their way at a time.
const FLIGHTS: usize = 2;

/// A key to be put if it is not there.
#[derive(Debug)]
pub(crate) struct Create {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// Who asks, and how it is told there.
    pub number: usize,
    pub answer: SyncSender<(usize, Result<Created>)>,
}

/// What has become of it.
#[derive(Debug, Clone)]
pub(crate) enum Created {
    /// It was put.
    New,
    /// There was one already.
    There(KeyValue),
}

/// Those who want the same key: the first one's value is put, if any.
type Members = Vec<(Vec<u8>, Vec<Create>)>;

/// Takes creates for as long as anybody can send some.
pub(crate) async fn run(client: Arc<Client>, mut creates: mpsc::UnboundedReceiver<Create>) {
    let permits = Arc::new(Semaphore::new(FLIGHTS));
    let mut arrived = Vec::new();
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let wanted = MEMBERS_MAX - arrived.len();
        if arrived.is_empty() && creates.recv_many(&mut arrived, wanted).await == 0 {
            return;
        }
        let members = select(&mut arrived);
        let client = client.clone();
        tokio::spawn(async move {
            put(&client, members).await;
            drop(permit);
        });
    }
}

/// Takes out the first ones that fit into one transaction.
fn select(arrived: &mut Vec<Create>) -> Members {
    let (mut members, mut positions, mut bytes, mut count) = (Members::new(), HashMap::new(), 0, 0);
    for create in arrived.iter() {
        bytes += create.key.len() * 2 + create.value.len();
        if count > 0 && bytes > BYTES_MAX {
            break;
        }
        count += 1;
    }
    for create in arrived.drain(..count) {
        let position = *positions.entry(create.key.clone()).or_insert(members.len());
        if position == members.len() {
            members.push((create.key.clone(), Vec::new()));
        }
        members[position].1.push(create);
    }
    members
}

/// Puts all; where that is refused, one by one, so that nobody suffers from another's.
async fn put(client: &Client, members: Members) {
    let requests: Vec<TxnRequest> = members
        .iter()
        .map(|(key, wanted)| TxnRequest::put_new(key, wanted.first().map_or(&[][..], |create| &create.value), 0))
        .collect();
    match together(client, &requests).await {
        Ok(created) => members.into_iter().zip(created).for_each(|((_, wanted), created)| answer(wanted, Ok(created))),
        Err(error) if error.is_timeout() || members.len() == 1 => {
            members.into_iter().for_each(|(_, wanted)| answer(wanted, Err(error.clone())));
        }
        Err(_) => {
            for ((_, wanted), request) in members.into_iter().zip(requests) {
                let alone = together(client, &[request]).await;
                answer(wanted, alone.and_then(|mut created| created.pop().ok_or_else(|| unlike("nothing"))));
            }
        }
    }
}

async fn together(client: &Client, requests: &[TxnRequest]) -> Result<Vec<Created>> {
    let success = requests.iter().cloned().map(txn).collect();
    let response = client.txn(&TxnRequest { success, ..TxnRequest::default() }).await?;
    if response.responses.len() != requests.len() {
        return Err(unlike(&format!("{} answers for {} members", response.responses.len(), requests.len())));
    }
    let one = |(answer, request): (crate::message::ResponseOp, &TxnRequest)| match answer.response {
        Some(Response::Txn(one)) if one.succeeded => Ok(Created::New),
        Some(Response::Txn(one)) => {
            let found = one.responses.first().and_then(|answer| answer.found());
            let key = request.compare.first().map_or(&[][..], |compare| &compare.key);
            match found {
                Some(kv) if kv.key == key => Ok(Created::There(kv.clone())),
                _ => Err(unlike(&format!("another key than '{}'", shown(key)))),
            }
        }
        _ => Err(unlike("no transaction")),
    };
    response.responses.into_iter().zip(requests).map(one).collect()
}

fn unlike(what: &str) -> Error {
    Error::Unfit { what: "what was to be created".into(), why: format!("etcd answered with {what}") }
}

/// Tells all who wanted this key. Whoever came behind the first finds the first one's there.
fn answer(wanted: Vec<Create>, created: Result<Created>) {
    let first = wanted.first().map(|first| (first.key.clone(), first.value.clone()));
    for (position, create) in wanted.into_iter().enumerate() {
        let told = match (&created, &first) {
            (Ok(Created::New), Some((key, value))) if position > 0 => {
                let (key, value) = (key.clone(), value.clone());
                Ok(Created::There(KeyValue { key, value, ..KeyValue::default() }))
            }
            _ => created.clone(),
        };
        // Whoever asked may have given up.
        let _ = create.answer.try_send((create.number, told));
    }
}
