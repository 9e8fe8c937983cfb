//! Peers of the job that lie, over real endpoints.

use crate::fi::{Endpoint, Event};
use crate::libfabric::{FabricEnd, Libfabric};
use crate::message::{self, Address, CHUNK_BYTES, HEAD_BYTES, Head, Pass, WINDOW};
use std::fmt;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use stillframe_link::{
    Bulk, BulkReceiver, BulkSender, Connection, Deadline, End, Error, Fabric, Identity, Incoming, Listener, Means,
    Options, Outgoing, Place, Result, Source, identity,
};

const LONG: Duration = Duration::from_secs(60);

/// A message that is none, with the pass of its receiver.
type Lied = fn(&Pass) -> Vec<u8>;

/// What a peer makes of a chunk of these bytes, and of a grant.
#[derive(Clone, Copy)]
enum Lie {
    Chunk(Lied),
    Grant(Lied),
    Address(fn(Address) -> Vec<u8>),
}

struct Liar {
    inner: Libfabric,
    lie: Lie,
}

impl fmt::Debug for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Liar")
    }
}

impl Fabric for Liar {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn open(&self, place: &Place) -> Result<Box<dyn End>> {
        let end = self.inner.ends(place).unwrap();
        let address = match self.lie {
            Lie::Address(lie) => lie(end.own.clone()),
            _ => end.own.encode(),
        };
        Ok(Box::new(LyingEnd { end, address, lie: self.lie }))
    }
}

struct LyingEnd {
    end: FabricEnd,
    address: Vec<u8>,
    lie: Lie,
}

impl End for LyingEnd {
    fn address(&self) -> &[u8] {
        &self.address
    }

    fn join(self: Box<Self>, theirs: &[u8]) -> Result<Box<dyn Bulk>> {
        let FabricEnd { own, mut receives, mut sends, .. } = self.end;
        let theirs = Address::decode(theirs).unwrap();
        let joined = receives.set_peer(&theirs.sends).and_then(|()| sends.set_peer(&theirs.receives));
        // Whoever did not take this side's address is gone by now.
        joined.map_err(|error| Error::NoMemory { what: error.to_string() })?;
        Ok(Box::new(LyingBulk { own, theirs, receives, sends, lie: self.lie }))
    }
}

struct LyingBulk {
    own: Address,
    theirs: Address,
    receives: Endpoint,
    sends: Endpoint,
    lie: Lie,
}

impl Bulk for LyingBulk {
    fn ender(&self) -> Arc<dyn Fn() + Send + Sync> {
        Arc::new(|| ())
    }

    fn split(self: Box<Self>) -> (Box<dyn BulkSender>, Box<dyn BulkReceiver>) {
        let LyingBulk { own, theirs, receives, sends, lie } = *self;
        let sender = LyingSender { endpoint: sends, own: own.grants, theirs: theirs.chunks, lie };
        (Box::new(sender), Box::new(LyingReceiver { endpoint: receives, theirs: theirs.grants, lie }))
    }
}

struct LyingSender {
    endpoint: Endpoint,
    own: Pass,
    theirs: Pass,
    lie: Lie,
}

fn wait_for(endpoint: &mut Endpoint) -> Event {
    loop {
        match endpoint.poll().unwrap() {
            Some(event) => return event,
            None => thread::sleep(Duration::from_micros(100)),
        }
    }
}

impl BulkSender for LyingSender {
    fn send(&mut self, stream: &mut Outgoing, source: Source<'_>, _: Deadline) -> Result<u64> {
        let Lie::Chunk(lie) = self.lie else { return Ok(source.bytes()) };
        let message = lie(&self.theirs);
        let grants = self.endpoint.add(1, 24).unwrap();
        assert!(self.endpoint.receive(grants.start, self.own.tag).unwrap());
        assert!(matches!(wait_for(&mut self.endpoint), Event::Received { .. }));
        let slots = self.endpoint.add(1, message.len()).unwrap();
        self.endpoint.bytes_mut(slots.start).unwrap().copy_from_slice(&message);
        while !self.endpoint.send(slots.start, message.len(), self.theirs.tag).unwrap() {
            let _ = self.endpoint.poll().unwrap();
        }
        // What became of it, the other side says.
        let line = stream.line();
        while !line.has_hung_up() {
            let _ = self.endpoint.poll();
            thread::sleep(Duration::from_millis(1));
        }
        Ok(source.bytes())
    }
}

struct LyingReceiver {
    endpoint: Endpoint,
    theirs: Pass,
    lie: Lie,
}

impl BulkReceiver for LyingReceiver {
    fn receive(&mut self, stream: &mut Incoming, into: &mut [IoSliceMut<'_>], deadline: Deadline) -> Result<u64> {
        self.skip(stream, into.iter().map(|piece| piece.len() as u64).sum(), deadline)
    }

    fn skip(&mut self, stream: &mut Incoming, _: u64, _: Deadline) -> Result<u64> {
        if let Lie::Grant(lie) = self.lie {
            while !self.endpoint.inject(&lie(&self.theirs), self.theirs.tag).unwrap() {
                let _ = self.endpoint.poll().unwrap();
            }
        }
        let line = stream.line();
        while !line.has_hung_up() {
            let _ = self.endpoint.poll();
            thread::sleep(Duration::from_millis(1));
        }
        Ok(0)
    }
}

fn chunk(number: u64, says: usize, bytes: usize, pass: &Pass) -> Vec<u8> {
    let mut message = Head { number, bytes: says, is_last: true }.encode(pass).to_vec();
    message.resize(HEAD_BYTES + bytes, 1);
    message
}

fn identity() -> Identity {
    let dir =
        std::env::temp_dir().join(format!("stillframe-test-liar-{}-{:?}", std::process::id(), thread::current().id()));
    let identity = identity::create(&dir, "liar", identity::LIFETIME).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    identity
}

fn options(fabric: Arc<dyn Fabric>) -> Options {
    Options { means: Means::Fabric(fabric), silence: LONG, patience: LONG }
}

/// Providers that are here.
fn providers() -> Vec<&'static str> {
    let is_here = |provider: &&str| match Libfabric::open(provider) {
        Ok(_) => true,
        Err(error) => {
            assert!(!matches!(error, crate::Error::Environment { .. }), "{error}");
            eprintln!("skipped: {error}");
            false
        }
    };
    // Both ends are in this process: see `make fabric`.
    if std::env::var_os("STILLFRAME_TEST_FABRIC").is_none() {
        eprintln!("skipped: make fabric runs this");
        return Vec::new();
    }
    ["tcp", "shm"].into_iter().filter(is_here).collect()
}

/// A liar that connected, and an honest side that accepted.
fn pair(provider: &str, lie: Lie) -> (Result<Connection>, Result<Option<Connection>>) {
    let identity = identity();
    let honest = options(Arc::new(Libfabric::open(provider).unwrap()));
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &identity, &honest).unwrap();
    let liar = options(Arc::new(Liar { inner: Libfabric::open(provider).unwrap(), lie }));
    let connects = Connection::connect(listener.address(), &identity, &liar, LONG);
    (connects, listener.accept(LONG))
}

fn check_malformed(error: Error, says: &str) {
    let Error::Malformed { what, .. } = &error else { panic!("{says}: {error}") };
    assert!(what.contains(says), "{what} does not say {says}");
}

#[test]
fn who_sends_a_chunk_that_is_a_lie_is_cut_off() {
    let lies: [(&str, Lied); 9] = [
        ("length", |pass| chunk(0, 1000, 999, pass)),
        ("length", |pass| chunk(0, 1000, 1001, pass)),
        ("length", |pass| chunk(0, 0, 0, pass)),
        ("length", |pass| chunk(0, u32::MAX as usize, 10, pass)),
        ("too long", |pass| chunk(0, CHUNK_BYTES, CHUNK_BYTES + 1, pass)),
        ("without a head", |pass| chunk(0, 10, 10, pass)[..31].to_vec()),
        ("token", |pass| chunk(0, 10, 10, &Pass { token: [0; 16], ..*pass })),
        ("not granted", |pass| chunk(WINDOW, 10, 10, pass)),
        ("not granted", |pass| chunk(u64::MAX, 10, 10, pass)),
    ];
    for provider in providers() {
        for (says, lie) in lies {
            // `shm` leaves such a message where it is, so that only a deadline ends it.
            if (provider, says) == ("shm", "too long") {
                continue;
            }
            let (liar, honest) = pair(provider, Lie::Chunk(lie));
            let (sender, _keep) = liar.unwrap().split();
            let (_own, mut receiver) = honest.unwrap().unwrap().split();
            thread::scope(|scope| {
                scope.spawn(|| sender.send(1, &[], Source::Bytes(&[1; 1000]), LONG));
                let mut frame = receiver.next(LONG).unwrap().unwrap();
                check_malformed(frame.read(&mut [0; 1000], LONG).unwrap_err(), says);
            });
        }
    }
}

#[test]
fn who_grants_what_nobody_has_is_cut_off() {
    let lies: [(&str, Lied); 4] = [
        ("more chunks", |pass| message::encode_grant(WINDOW + 1, pass).to_vec()),
        ("more chunks", |pass| message::encode_grant(u64::MAX, pass).to_vec()),
        ("token", |pass| message::encode_grant(1, &Pass { token: [0; 16], ..*pass }).to_vec()),
        ("too", |pass| [message::encode_grant(1, pass).as_slice(), &[0; 8]].concat()),
    ];
    for provider in providers() {
        for (says, lie) in lies {
            let (liar, honest) = pair(provider, Lie::Grant(lie));
            let (_keep, mut receiver) = liar.unwrap().split();
            let (sender, _own) = honest.unwrap().unwrap().split();
            thread::scope(|scope| {
                scope.spawn(move || receiver.next(LONG).unwrap().unwrap().read(&mut [0; 100], LONG));
                let much = vec![1; 8 << 20];
                check_malformed(sender.send(1, &[], Source::Bytes(&much), LONG).unwrap_err(), says);
            });
        }
    }
}

#[test]
fn who_says_an_address_that_is_none_is_not_joined() {
    let lies: [fn(Address) -> Vec<u8>; 6] = [
        |_| Vec::new(),
        |address| address.encode()[..20].to_vec(),
        |address| Address { receives: Vec::new(), ..address }.encode(),
        |address| Address { sends: vec![0xff; 500], ..address }.encode(),
        |address| Address { receives: vec![b'a'; 600], ..address }.encode(),
        |address| [address.encode(), vec![0]].concat(),
    ];
    for provider in providers() {
        for lie in lies {
            let (_liar, honest) = pair(provider, Lie::Address(lie));
            check_malformed(honest.unwrap_err(), "address");
        }
    }
}
