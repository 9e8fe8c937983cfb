//! A node with groups, and others that are only played.

use crate::cluster::Cluster;
use crate::groups::Groups;
use crate::network::{Network, Nothing, Outgoing, Traffic, Transmission};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use stillframe::{Loaned, Region};
use stillframe_object::runtime::Reply;
use stillframe_object::{Description, Names};
use stillframe_roster::writer::{Node, Revision};
use stillframe_wire::group::{
    GroupGet, GroupName, GroupPiece, GroupRank, GroupRanks, GroupSent, RankTold, RankVersion, RunTold,
};
use stillframe_wire::{Message, ObjectId};

/// As long as nothing that is expected takes.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) const OWN: Node = Node(1);
pub(super) const OTHER: Node = Node(2);
pub(super) const THIRD: Node = Node(3);

/// What a variable of 8 bytes is.
pub(super) const SMALL: &str =
    r#"{"attributes":{},"variables":[{"meta":{"id":0,"name":"u","dtype":"int64","order":"c"},"shape":[1]}]}"#;

/// A variable for which nobody has room.
pub(super) const LARGE: &str = concat!(
    r#"{"attributes":{},"variables":[{"meta":{"id":0,"name":"u","dtype":"int64","order":"c"},"#,
    r#""shape":[1099511627776]}]}"#
);

/// Nodes that are only a list.
#[derive(Debug)]
pub(super) struct List(pub(super) Mutex<Vec<Node>>);

impl Cluster for List {
    fn nodes(&self) -> Vec<Node> {
        self.0.lock().unwrap().clone()
    }

    fn host(&self, _: Node) -> String {
        String::new()
    }

    fn address(&self, _: Node) -> String {
        String::new()
    }

    fn home(&self, _: ObjectId) -> Option<(Node, Revision)> {
        None
    }

    fn replaced(&self) -> Vec<(Node, Node)> {
        Vec::new()
    }

    fn lease(&self) -> Duration {
        LONG
    }

    fn names(&self) -> Arc<dyn Names> {
        Arc::new(Nameless)
    }
}

/// Who keeps no names.
#[derive(Debug)]
pub(super) struct Nameless;

impl Names for Nameless {
    fn put(&self, _: &str, description: &Description) -> stillframe_object::Result<Description> {
        Ok(description.clone())
    }

    fn get(&self, _: &str) -> stillframe_object::Result<Option<Description>> {
        Ok(None)
    }

    fn wait(&self, _: &str, _: Duration) -> stillframe_object::Result<Option<Description>> {
        Ok(None)
    }

    fn remove(&self, _: &str, _: std::num::NonZeroU64) -> stillframe_object::Result<bool> {
        Ok(false)
    }

    fn list(&self) -> stillframe_object::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// What was said, and what is to be sent when the test says so.
#[derive(Debug, Default)]
pub(super) struct Post {
    pub(super) said: Mutex<Vec<(Node, Message, Instant)>>,
    pub(super) versions: Mutex<Vec<Box<dyn Transmission>>>,
    pub(super) changed: Condvar,
}

impl Network for Post {
    fn send(&self, to: Node, messages: Vec<Message>) {
        self.said.lock().unwrap().extend(messages.into_iter().map(|message| (to, message, Instant::now())));
        self.changed.notify_all();
    }

    fn transmit(&self, _: Node, version: Box<dyn Transmission>) {
        self.versions.lock().unwrap().push(version);
    }

    fn traffic(&self, _: Node) -> Traffic {
        Traffic::default()
    }
}

impl Post {
    /// Waits until what was said has something.
    pub(super) fn wait<T>(&self, what: &str, mut find: impl FnMut(&[(Node, Message, Instant)]) -> Option<T>) -> T {
        let begin = Instant::now();
        let mut said = self.said.lock().unwrap();
        loop {
            if let Some(found) = find(&said) {
                return found;
            }
            if begin.elapsed() >= LONG {
                // Others go on to say things until all has ended.
                let all = said.clone();
                drop(said);
                panic!("{what}: {all:?}");
            }
            said = self.changed.wait_timeout(said, Duration::from_secs(1)).unwrap().0;
        }
    }

    /// The request for ranks that is the n-th one, and when it came.
    pub(super) fn get(&self, n: usize) -> (GroupGet, Instant) {
        self.wait("a version is asked for", |said| {
            let mut gets = said.iter().filter_map(|(_, message, at)| match message {
                Message::GroupGet(get) if !get.ranks.is_empty() => Some((get.clone(), *at)),
                _ => None,
            });
            gets.nth(n)
        })
    }

    pub(super) fn count(&self, message: &Message) -> usize {
        self.said.lock().unwrap().iter().filter(|(_, said, _)| said == message).count()
    }

    pub(super) fn take(&self) -> Box<dyn Transmission> {
        self.versions.lock().unwrap().remove(0)
    }
}

/// A node whose groups are tested, among others.
pub(super) struct Played {
    pub(super) dir: tempfile::TempDir,
    pub(super) groups: Arc<Groups>,
    pub(super) post: Arc<Post>,
    pub(super) cluster: Arc<List>,
    pub(super) told: Arc<Mutex<Vec<Reply>>>,
}

impl Played {
    pub(super) fn new() -> Played {
        let dir = tempfile::Builder::new().prefix("stillframe-test-groups-").tempdir_in("/dev/shm").unwrap();
        std::fs::create_dir(dir.path().join(".objects")).unwrap();
        let (post, told) = (Arc::new(Post::default()), Arc::new(Mutex::default()));
        let cluster = Arc::new(List(Mutex::new(vec![OWN, OTHER])));
        let tell = {
            let told: Arc<Mutex<Vec<Reply>>> = told.clone();
            Arc::new(move |_, reply: &Reply| told.lock().unwrap().push(reply.clone()))
        };
        let groups = Groups::new(OWN, dir.path(), cluster.clone(), post.clone(), tell);
        Played { dir, groups: Arc::new(groups), post, cluster, told }
    }

    pub(super) fn hear(&self, from: Node, message: Message) {
        self.groups.receive(from, message, &mut Nothing);
    }

    pub(super) fn is_here(&self) -> bool {
        self.told.lock().unwrap().iter().any(|reply| matches!(reply, Reply::Ranks { is_here: true, .. }))
    }

    /// The other node's ranks of a group of two, all of them.
    pub(super) fn tell_ranks(&self, version: u64) {
        self.tell_ranks_of(OTHER, &[0, 1], version);
    }

    /// A node's ranks of a group of two.
    pub(super) fn tell_ranks_of(&self, from: Node, ranks: &[u32], version: u64) {
        let rank =
            |rank: &u32| RankTold { rank: *rank, lives: true, ended: false, begun_ago_ns: 1, newest: Some(version) };
        let ranks = ranks.iter().map(rank).collect();
        let runs = vec![RunTold { run: 7, begun_ago_ns: 1, seen_ago_ns: 0 }];
        let versions = vec![RankVersion { version, run: 7 }];
        let group = "heat".into();
        self.hear(from, Message::GroupRanks(GroupRanks { group, size: 2, ranks, runs, versions }));
    }

    pub(super) fn describe(&self, fetch: u64, rank: u32, content: &str) {
        self.describe_of(OTHER, fetch, rank, content);
    }

    fn describe_of(&self, from: Node, fetch: u64, rank: u32, content: &str) {
        let rank = GroupRank { fetch, rank, published_ns: 1, content: content.into() };
        self.hear(from, Message::GroupRank(rank));
    }

    pub(super) fn send_rank(&self, fetch: u64, rank: u32, content: &str) {
        self.send_rank_of(OTHER, fetch, rank, content);
    }

    pub(super) fn send_rank_of(&self, from: Node, fetch: u64, rank: u32, content: &str) {
        self.describe_of(from, fetch, rank, content);
        let piece = GroupPiece { fetch, rank, variable: 0, offset: 0 };
        self.groups.receive(from, Message::GroupPiece(piece), &mut &[1_u8; 8][..]);
        self.hear(from, Message::GroupSent(GroupSent { fetch, rank }));
    }

    /// A program wants the group, and the other node is asked to tell of it.
    pub(super) fn want(&self) {
        self.groups.want(1, "heat").unwrap();
        self.post.wait("it is followed", |said| {
            said.iter().any(|(node, message, _)| (*node, message) == (OTHER, &follow("heat"))).then_some(())
        });
    }

    /// Nobody wants it any more, and nothing is shown of it.
    pub(super) fn close(&self) {
        self.groups.close(1);
        let brought = self.groups.state().brought.get("heat").cloned().unwrap();
        brought.wait_for_end();
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.groups.end();
    }
}

pub(super) fn name(group: &str) -> GroupName {
    GroupName { group: group.into() }
}

pub(super) fn follow(group: &str) -> Message {
    Message::GroupFollow(name(group))
}

pub(super) fn leave(group: &str) -> Message {
    Message::GroupLeave(name(group))
}

/// What was sent of versions, and what happens after the first piece.
pub(super) struct Sent<'a> {
    pub(super) all: Vec<Message>,
    pub(super) after_piece: &'a mut dyn FnMut(),
}

impl Outgoing for Sent<'_> {
    fn send(&mut self, message: Message, _: &[u8]) -> io::Result<()> {
        let is_piece = matches!(message, Message::GroupPiece(_));
        self.all.push(message);
        if is_piece {
            (self.after_piece)();
        }
        Ok(())
    }
}

pub(super) fn run(version: Box<dyn Transmission>, after_piece: &mut dyn FnMut()) -> Vec<Message> {
    let mut sent = Sent { all: Vec::new(), after_piece };
    version.run(&mut sent).unwrap();
    sent.all
}

/// A rank of this node, with three pieces in each version.
pub(super) struct Rank {
    pub(super) region: Region,
    pub(super) u: Loaned<u8>,
}

impl Rank {
    pub(super) fn begin(dir: &Path) -> Rank {
        let mut region = Region::options().dir(dir).rank(0, 1).create("heat").unwrap();
        let u = region.loaned::<u8>("u", &[9 << 20]).unwrap();
        Rank { region, u }
    }

    pub(super) fn publish(&mut self, version: u64) {
        self.region.loan(&self.u).unwrap().submit();
        self.region.publish(version).commit().unwrap();
    }
}

/// A node with a rank, followed by the other one, and a request for the version that it tells of.
pub(super) fn asked(played: &Played) -> (Rank, impl Fn(u64, &[u32]) -> Message + use<>) {
    let mut rank = Rank::begin(played.dir.path());
    rank.publish(1);
    played.hear(OTHER, follow("heat"));
    let run = played.post.wait("its ranks are told of", |said| {
        said.iter().find_map(|(_, message, _)| match message {
            Message::GroupRanks(ranks) => ranks.versions.iter().find(|one| one.version == 1).map(|one| one.run),
            _ => None,
        })
    });
    let get = move |fetch, ranks: &[u32]| {
        let (group, ranks) = ("heat".into(), ranks.to_vec());
        Message::GroupGet(GroupGet { fetch, group, version: 1, run, ranks })
    };
    (rank, get)
}

/// Waits until something is so that nobody says.
pub(super) fn wait(what: &str, mut is_so: impl FnMut() -> Option<()>) {
    let begin = Instant::now();
    while is_so().is_none() {
        assert!(begin.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}
