//! The messages of etcd's interface that are used here, with the numbers of its fields (`rpc.proto` and `kv.proto` of etcd 3.4).
//! Written by hand, so that nobody needs a compiler for them to build this.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    #[prost(int64, tag = "4")]
    pub revision: i64,
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub lease: i64,
    #[prost(bool, tag = "5")]
    pub ignore_value: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteResponse {
    #[prost(int64, tag = "2")]
    pub deleted: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3, 4")]
    pub request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRequest),
    #[prost(message, tag = "4")]
    Txn(TxnRequest),
}

impl From<Request> for RequestOp {
    fn from(request: Request) -> Self {
        RequestOp { request: Some(request) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "Response", tags = "1, 2, 3, 4")]
    pub response: Option<Response>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteResponse),
    #[prost(message, tag = "4")]
    Txn(TxnResponse),
}

impl ResponseOp {
    /// The one key and value that a range of one key gave, if any.
    pub fn found(&self) -> Option<&KeyValue> {
        match &self.response {
            Some(Response::Range(range)) => range.kvs.first(),
            _ => None,
        }
    }
}

/// A comparison of a key's revision, equal or greater; etcd compares other things, too.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    /// 0: equal; 1: greater.
    #[prost(int32, tag = "1")]
    pub result: i32,
    /// 1: the create revision; 2: the revision of the last change; 4: the lease.
    #[prost(int32, tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "Compared", tags = "5, 6, 8")]
    pub compared: Option<Compared>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Compared {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(int64, tag = "8")]
    Lease(i64),
}

impl Compare {
    /// That the key was made at this revision; 0: that it is not there.
    pub fn created(key: &[u8], revision: i64) -> Compare {
        Compare { result: 0, target: 1, key: key.to_vec(), compared: Some(Compared::CreateRevision(revision)) }
    }

    /// That the key is there.
    pub fn is_there(key: &[u8]) -> Compare {
        Compare { result: 1, target: 1, key: key.to_vec(), compared: Some(Compared::CreateRevision(0)) }
    }

    /// That the key goes with this lease.
    pub fn leased(key: &[u8], lease: i64) -> Compare {
        Compare { result: 0, target: 4, key: key.to_vec(), compared: Some(Compared::Lease(lease)) }
    }

    /// That nobody changed the key since this revision.
    pub fn unchanged(key: &[u8], revision: i64) -> Compare {
        Compare { result: 0, target: 2, key: key.to_vec(), compared: Some(Compared::ModRevision(revision)) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

impl TxnRequest {
    /// Puts a key that is not there; else reads it.
    pub fn put_new(key: &[u8], value: &[u8], lease: i64) -> TxnRequest {
        TxnRequest {
            compare: vec![Compare::created(key, 0)],
            success: vec![put(key, value, lease)],
            failure: vec![get(key)],
        }
    }
}

pub(crate) fn put(key: &[u8], value: &[u8], lease: i64) -> RequestOp {
    Request::Put(PutRequest { key: key.to_vec(), value: value.to_vec(), lease, ignore_value: false }).into()
}

pub(crate) fn get(key: &[u8]) -> RequestOp {
    Request::Range(RangeRequest { key: key.to_vec(), ..RangeRequest::default() }).into()
}

pub(crate) fn delete(key: &[u8]) -> RequestOp {
    Request::Delete(DeleteRequest { key: key.to_vec() }).into()
}

pub(crate) fn txn(request: TxnRequest) -> RequestOp {
    Request::Txn(request).into()
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub id: i64,
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseRevokeResponse {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseKeepAliveRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseKeepAliveResponse {
    /// Seconds that it has from now on; 0: there is no such lease any more.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreate>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    /// Whether one revision's events may come in several answers.
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<KeyEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyEvent {
    /// 0: put; 1: deleted.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactResponse {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<EtcdMember>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EtcdMember {
    #[prost(string, tag = "2")]
    pub name: String,
}
