//! Reading many keys, a page after the other, all as they were at one revision.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::keys::shown;
use crate::message::{KeyValue, RangeRequest};

/// Keys of a page with their values, and of one without.
const VALUES: i64 = 256;
const KEYS: i64 = 4096;

/// What is still to be read.
#[derive(Debug)]
pub(crate) struct Pages {
    next: Vec<u8>,
    end: Vec<u8>,
    limit: i64,
    keys_only: bool,
    /// The revision that is read; 0 before the first page: the newest.
    pub revision: i64,
    is_done: bool,
}

impl Pages {
    pub fn new((next, end): (Vec<u8>, Vec<u8>), revision: i64, keys_only: bool) -> Pages {
        let limit = if keys_only { KEYS } else { VALUES };
        Pages { next, end, limit, keys_only, revision, is_done: false }
    }

    /// The next page; `None` behind the last.
    pub async fn next(&mut self, client: &Client) -> Result<Option<Vec<KeyValue>>> {
        while !self.is_done {
            let Pages { next, end, limit, keys_only, revision, .. } = self;
            let (key, range_end) = (next.clone(), end.clone());
            let request = RangeRequest { key, range_end, limit: *limit, revision: *revision, keys_only: *keys_only };
            let page = match client.range(&request).await {
                // Long values: fewer of them.
                Err(error) if error.is_too_long() && *limit > 1 => {
                    *limit = (*limit / 4).max(1);
                    continue;
                }
                page => page?,
            };
            if *revision == 0 {
                *revision = page.header.as_ref().map_or(0, |header| header.revision);
            }
            if let Some(last) = page.kvs.last() {
                // The key behind it.
                let behind = [&last.key[..], &[0]].concat();
                if behind <= self.next {
                    let why = "etcd gave a key that it was not asked for";
                    return Err(Error::Hostile { key: shown(&last.key), why: why.into() });
                }
                self.next = behind;
            }
            self.is_done = !page.more || page.kvs.is_empty();
            return Ok(Some(page.kvs));
        }
        Ok(None)
    }
}
