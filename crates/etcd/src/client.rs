//! Calls to etcd: which address is asked, for how long, and what becomes of a failure.

use crate::error::{
    DENIED, EXHAUSTED, Error, INVALID, NOT_FOUND, OUT_OF_RANGE, Result, UNAUTHENTICATED, UNIMPLEMENTED,
};
use crate::message::{
    CompactRequest, CompactResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, MemberListRequest, MemberListResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse, WatchRequest, WatchResponse,
};
use crate::options::Options;
use prost::Message;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// The longest answer that is read. etcd's default limit for one value is 1.5 MiB.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The longest time that one attempt takes before the next address, or a new connection, is tried.
const ATTEMPT: Duration = Duration::from_secs(2);

/// How long to wait before all addresses are tried once more; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Something that etcd can be asked.
struct Call {
    name: &'static str,
    path: &'static str,
}

const RANGE: Call = Call { name: "range", path: "/etcdserverpb.KV/Range" };
const TXN: Call = Call { name: "txn", path: "/etcdserverpb.KV/Txn" };
const PUT: Call = Call { name: "put", path: "/etcdserverpb.KV/Put" };
const COMPACT: Call = Call { name: "compact", path: "/etcdserverpb.KV/Compact" };
const MEMBERS: Call = Call { name: "member list", path: "/etcdserverpb.Cluster/MemberList" };
const WATCH: Call = Call { name: "watch", path: "/etcdserverpb.Watch/Watch" };
const GRANT: Call = Call { name: "lease grant", path: "/etcdserverpb.Lease/LeaseGrant" };
const REVOKE: Call = Call { name: "lease revoke", path: "/etcdserverpb.Lease/LeaseRevoke" };
const KEEP_ALIVE: Call = Call { name: "lease keep-alive", path: "/etcdserverpb.Lease/LeaseKeepAlive" };

/// The address that is asked now, and the connection to it.
#[derive(Debug, Default)]
struct Current {
    position: usize,
    channel: Option<Channel>,
    /// Which connection this is, so that two that fail by the same one do not both go on to the next.
    generation: u64,
}

/// Speaks to etcd, always from within the reactor's thread.
#[derive(Debug)]
pub(crate) struct Client {
    endpoints: Vec<(String, Endpoint)>,
    current: Mutex<Current>,
    /// Changes with the connection that new calls use. Whoever waits on an older one may wait in vain.
    connection: watch::Sender<u64>,
    /// How long a call may take.
    pub deadline: Duration,
}

impl Client {
    pub fn new(options: &Options) -> Result<Client> {
        let endpoints = options.endpoints()?;
        Ok(Client {
            endpoints,
            current: Mutex::default(),
            connection: watch::Sender::new(0),
            deadline: options.deadline,
        })
    }

    /// All addresses, for messages.
    pub fn shown(&self) -> String {
        let names: Vec<&str> = self.endpoints.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    }

    fn channel(&self) -> (&str, u64, Channel) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, endpoint) = &self.endpoints[current.position];
        let channel = current.channel.get_or_insert_with(|| endpoint.connect_lazy()).clone();
        (name, current.generation, channel)
    }

    /// Goes on to the next address, unless somebody did already.
    fn go_on(&self, generation: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.generation == generation {
            let position = (current.position + 1) % self.endpoints.len();
            *current = Current { position, channel: None, generation: generation + 1 };
            self.connection.send_replace(generation + 1);
        }
    }

    /// Tells when the connection of now is given up.
    pub fn connection(&self) -> watch::Receiver<u64> {
        self.connection.subscribe()
    }

    async fn call<Q, R>(&self, call: Call, request: &Q, deadline: Duration) -> Result<R>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.attempt(&call, deadline, |mut grpc| {
            let (request, path) = (Request::new(request.clone()), PathAndQuery::from_static(call.path));
            async move {
                grpc.ready().await.map_err(|error| Status::unavailable(chain(&error)))?;
                Ok(grpc.unary(request, path, ProstCodec::<Q, R>::default()).await?.into_inner())
            }
        })
        .await
    }

    /// Tries one address after the other until one answers, or the deadline has passed. What is asked may have been done
    /// although no answer came: so nothing is asked whose doing twice were another thing than once.
    async fn attempt<T, A: Future<Output = Result<T, Status>>>(
        &self,
        call: &Call,
        deadline: Duration,
        ask: impl Fn(Grpc<Channel>) -> A,
    ) -> Result<T> {
        let (begin, mut tried, mut pause) = (Instant::now(), 0, PAUSE_MIN);
        loop {
            let (endpoint, generation, channel) = self.channel();
            let left = deadline.saturating_sub(begin.elapsed());
            let grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
            let last = match timeout(left.min(ATTEMPT), ask(grpc)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) if is_final(&status) => return Err(refused(endpoint, call.name, &status)),
                Ok(Err(status)) => chain(&status),
                Err(_) => format!("nothing for {} ms", left.min(ATTEMPT).as_millis()),
            };
            let last = format!("{endpoint}: {last}");
            self.go_on(generation);
            tried += 1;
            if begin.elapsed() + pause >= deadline {
                let (endpoints, waited) = (self.shown(), begin.elapsed());
                return Err(Error::Unreachable { call: call.name, endpoints, waited, last });
            }
            if tried % self.endpoints.len() == 0 {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    pub async fn range(&self, request: &RangeRequest) -> Result<RangeResponse> {
        self.call(RANGE, request, self.deadline).await
    }

    pub async fn range_within(&self, request: &RangeRequest, deadline: Duration) -> Result<RangeResponse> {
        self.call(RANGE, request, deadline).await
    }

    pub async fn txn(&self, request: &TxnRequest) -> Result<TxnResponse> {
        self.call(TXN, request, self.deadline).await
    }

    pub async fn put(&self, request: &PutRequest) -> Result<()> {
        let answer: Result<PutResponse> = self.call(PUT, request, self.deadline).await;
        answer.map(drop)
    }

    /// Names of the etcds that form the one that is asked.
    pub async fn members(&self, deadline: Duration) -> Result<Vec<String>> {
        let answer: MemberListResponse = self.call(MEMBERS, &MemberListRequest {}, deadline).await?;
        Ok(answer.members.into_iter().map(|member| member.name).collect())
    }

    pub async fn compact(&self, revision: i64) -> Result<()> {
        let answer: Result<CompactResponse> = self.call(COMPACT, &CompactRequest { revision }, self.deadline).await;
        answer.map(drop)
    }

    pub async fn grant(&self, seconds: i64) -> Result<LeaseGrantResponse> {
        self.call(GRANT, &LeaseGrantRequest { ttl: seconds }, self.deadline).await
    }

    pub async fn revoke(&self, id: i64) -> Result<()> {
        let answer: Result<LeaseRevokeResponse> = self.call(REVOKE, &LeaseRevokeRequest { id }, self.deadline).await;
        answer.map(drop)
    }

    /// Keeps a lease alive; how many seconds it has from now on, 0 if it has ended.
    pub async fn keep_alive(&self, id: i64, deadline: Duration) -> Result<i64> {
        let request = LeaseKeepAliveRequest { id };
        let mut answers = self.stream::<_, LeaseKeepAliveResponse>(KEEP_ALIVE, &request, deadline).await?;
        let (name, generation) = (KEEP_ALIVE.name, self.channel().1);
        match timeout(deadline, answers.message()).await {
            Ok(Ok(Some(answer))) => Ok(answer.ttl),
            Ok(Err(status)) if is_final(&status) => Err(refused(&self.shown(), name, &status)),
            failed => {
                // The connection may be one that nothing comes out of any more.
                self.go_on(generation);
                let last = match failed {
                    Ok(Err(status)) => chain(&status),
                    // As one may that ends: it says nothing of the lease, of which another one, or the next stream, does.
                    Ok(Ok(_)) => "it ended the stream without an answer".into(),
                    Err(_) => "no answer".into(),
                };
                Err(Error::Unreachable { call: name, endpoints: self.shown(), waited: deadline, last })
            }
        }
    }

    /// Begins to watch. The stream is one of answers that come as long as the connection stays.
    pub async fn watch(&self, request: &WatchRequest) -> Result<Streaming<WatchResponse>> {
        self.stream(WATCH, request, self.deadline).await
    }

    /// Asks one thing of a call that takes many, and leaves the way for more open.
    async fn stream<Q, R>(&self, call: Call, request: &Q, deadline: Duration) -> Result<Streaming<R>>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.attempt(&call, deadline, |mut grpc| {
            let requests = Request::new(tokio_stream::once(request.clone()));
            let path = PathAndQuery::from_static(call.path);
            async move {
                grpc.ready().await.map_err(|error| Status::unavailable(chain(&error)))?;
                Ok(grpc.streaming(requests, path, ProstCodec::<Q, R>::default()).await?.into_inner())
            }
        })
        .await
    }

    /// What a stream's end means.
    pub fn ended(&self, status: &Status) -> Error {
        if is_final(status) {
            return refused(&self.shown(), WATCH.name, status);
        }
        let (endpoints, waited) = (self.shown(), Duration::ZERO);
        Error::Unreachable { call: WATCH.name, endpoints, waited, last: chain(status) }
    }
}

/// Whether asking another member, or once more, would be told the same.
fn is_final(status: &Status) -> bool {
    let finals =
        [INVALID, NOT_FOUND, DENIED, EXHAUSTED, tonic::Code::FailedPrecondition as i32, OUT_OF_RANGE, UNIMPLEMENTED];
    finals.contains(&(status.code() as i32)) || status.code() as i32 == UNAUTHENTICATED
}

fn refused(endpoint: &str, call: &'static str, status: &Status) -> Error {
    Error::Refused { endpoint: endpoint.into(), call, code: status.code() as i32, message: status.message().into() }
}

/// An error with all that caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let said = source.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests;
