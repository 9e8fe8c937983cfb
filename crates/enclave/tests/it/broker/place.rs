//! The directory of regions that a broker hands out, its socket, and how tests begin brokers and ask them.

use super::{LONG, as_user};
use crate::common::Dir;
use crate::enclosure::INSIDE;
use crate::helper::{Helper, start, until};
use std::fs::Permissions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Instant;
use stillframe::{Arena, Observer, Region, RegionOptions, Rule, Trust, inspect};
use stillframe_enclave::{Admission, Desk, Options, Service};
use stillframe_kernel::local;
use stillframe_segment::broker::{ANSWER_BYTES_MAX, Answer, Question};

/// A directory of regions, and beside it one for the socket.
pub struct Place {
    pub dir: Dir,
    pub arena: Option<Arena>,
}

impl Place {
    pub fn new(name: &str, in_arena: bool) -> Place {
        let dir = Dir::plain(name);
        for folder in ["regions", "sockets"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
            std::fs::set_permissions(dir.path().join(folder), Permissions::from_mode(0o755)).unwrap();
        }
        let regions = dir.path().join("regions");
        let arena = in_arena.then(|| Arena::options().dir(regions).bytes(1 << 30).create("pool").unwrap());
        Place { dir, arena }
    }

    pub fn regions(&self) -> PathBuf {
        self.dir.path().join("regions")
    }

    pub fn sockets(&self) -> PathBuf {
        self.dir.path().join("sockets")
    }

    pub fn socket(&self) -> PathBuf {
        self.sockets().join("sock")
    }

    pub fn shown(&self) -> &'static str {
        if self.arena.is_some() { "pool/r" } else { "r" }
    }

    pub fn address(&self, name: &str) -> String {
        format!("unix:{}#{name}", self.socket().display())
    }

    pub fn inside(&self, name: &str) -> String {
        format!("unix:{INSIDE}/sock#{name}")
    }

    pub fn options(&self) -> RegionOptions {
        let options = Region::options().dir(self.regions()).rule(Rule::Wait { timeout: None });
        match &self.arena {
            Some(arena) => options.arena(arena),
            None => options,
        }
    }

    pub fn start(&self, mode: &str, more: &[&str]) -> Helper {
        let (socket, regions) = (self.socket(), self.regions());
        let first = [socket.to_str().unwrap(), regions.to_str().unwrap(), mode];
        start("broker", &[&first[..], more].concat())
    }

    /// A broker that everybody may connect to.
    pub fn serve(&self) -> Helper {
        let mut broker = self.start("666", &[]);
        broker.expect("serves");
        broker
    }

    pub fn holders(&self) -> usize {
        inspect::holders(&self.regions(), self.shown()).unwrap().len()
    }

    pub fn open(&self, name: &str) -> stillframe::Result<Observer> {
        Observer::options().open(&self.address(name))
    }
}

impl Place {
    pub fn connect(&self) -> OwnedFd {
        local::connect(&self.socket(), Instant::now() + LONG).unwrap()
    }

    /// Connections of a user, each of which has asked.
    pub fn ask_as(&self, user: u32, count: usize, question: &Question) -> Vec<OwnedFd> {
        let ask = |_| {
            let socket = self.connect();
            assert!(local::send(&socket, &question.encode(), &[]).unwrap());
            socket
        };
        as_user(user, || (0..count).map(ask).collect())
    }

    /// The message that comes, and how many files with it.
    pub fn hear(&self, socket: &OwnedFd) -> (Answer, usize) {
        until("an answer", || local::wait_any(&[socket.as_fd()], Some(LONG)).unwrap()[0]);
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        let message = local::receive(socket, &mut bytes).unwrap().unwrap();
        assert!(!message.is_cut && !message.lacks_files);
        (Answer::decode(&bytes[..message.bytes]).unwrap(), message.files.len())
    }

    pub fn service<D: Desk>(&self, desk: D) -> Service<D> {
        let options = Options { socket: self.socket(), mode: 0o666, trust: Trust::Own, stays: false };
        Service::begin(&options, desk, Admission::default()).unwrap()
    }
}

/// The broker's answer, which is to come without files.
pub fn answer(socket: &OwnedFd) -> Vec<u8> {
    until("an answer", || local::wait_any(&[socket.as_fd()], Some(LONG)).unwrap()[0]);
    let mut bytes = [0; 4096];
    let message = local::receive(socket, &mut bytes).unwrap().unwrap();
    assert!(message.files.is_empty());
    bytes[..message.bytes].to_vec()
}
