//! Doorbells: how an agent has those woken at once who wait in another enclave, and how it is told the same.
//!
//! QEMU's device `ivshmem-doorbell` lets a machine ring others, and be rung, by counters (eventfd) that a server hands out over a socket
//! ([`server`]). The agent of the host is that server, and itself one of those that can be rung, the first of them ([`AGENT`]). In the
//! machine its agent rings by a register of the device, and is rung by an interrupt ([`device`]). An agent of the same kernel can be at the
//! other end of the socket as well ([`client`]).

mod bell;
pub(crate) mod client;
pub(crate) mod device;
mod message;
pub(crate) mod server;

use crate::error::{Error, Result};
use crate::folder::check_name;
pub(crate) use bell::{Bell, Ringer};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Which of those at a server's socket its agent is.
const AGENT: u16 = 0;

/// How long nobody is told again who has just been: at most so often a producer wakes the agent, and one enclave the other.
const PAUSE: Duration = Duration::from_micros(100);

/// A doorbell between this enclave and another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doorbell {
    /// The name of the other one.
    pub peer: String,
    /// Where it is.
    pub way: Way,
}

/// Where a doorbell is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// At a socket of this agent, beside the other one's arena: the QEMU of its machine connects to it.
    Serve,
    /// In a PCI device of this machine, by its address, as `0000:00:05.0`.
    Device(String),
    /// At a socket of the other one's agent, in the same kernel.
    Socket(PathBuf),
}

/// A text that names no doorbell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is none of NAME, NAME=ADDRESS of a PCI device (as 0000:00:05.0), NAME=/PATH of a socket")]
pub struct NoDoorbell(pub String);

impl FromStr for Doorbell {
    type Err = NoDoorbell;

    fn from_str(text: &str) -> Result<Doorbell, NoDoorbell> {
        let none = || NoDoorbell(text.into());
        let (peer, way) = match text.split_once('=') {
            None => (text, Way::Serve),
            Some((peer, path)) if path.contains('/') => (peer, Way::Socket(path.into())),
            Some((peer, address)) if device::is_address(address) => (peer, Way::Device(address.into())),
            Some(_) => return Err(none()),
        };
        check_name(Path::new(""), peer).map_err(|_| none())?;
        Ok(Doorbell { peer: peer.into(), way })
    }
}

/// What an agent knows of a doorbell.
#[derive(Debug)]
pub(crate) struct Line {
    /// Which producers of this enclave ring.
    own: Arc<Bell>,
    /// On which those sleep here who wait for the other one's versions, once it has an arena.
    pub(crate) foreign: OnceLock<Arc<Bell>>,
    rings: AtomicBool,
    hears: AtomicBool,
}

impl Line {
    pub(crate) fn new(own: &Arc<Bell>) -> Line {
        Line {
            own: own.clone(),
            foreign: OnceLock::new(),
            rings: AtomicBool::new(false),
            hears: AtomicBool::new(false),
        }
    }

    /// Whether the other one is rung when something is published here.
    pub(crate) fn rings(&self) -> bool {
        self.rings.load(Acquire)
    }

    /// Whether it would be heard if the other one rang.
    pub(crate) fn hears(&self) -> bool {
        self.hears.load(Acquire)
    }

    fn set(&self, rings: bool, hears: bool) {
        self.rings.store(rings, Release);
        self.hears.store(hears, Release);
    }

    /// The other one has rung.
    fn heard(&self) {
        if let Some(bell) = self.foreign.get() {
            bell.ring();
        }
    }
}

/// Refuses doorbells to enclaves that this one does not listen to, and a second one to one of them.
pub(crate) fn check(doorbells: &[Doorbell], peers: &[String], dir: &Path) -> Result<()> {
    for (number, doorbell) in doorbells.iter().enumerate() {
        let why = match () {
            () if !peers.contains(&doorbell.peer) => "it is not among the peers",
            () if doorbells[..number].iter().any(|other| other.peer == doorbell.peer) => "it has two doorbells",
            () => continue,
        };
        return Err(Error::NotShared { path: dir.join(&doorbell.peer), why: why.into() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doorbell_is_told_by_a_text() {
        let parsed = |text: &str| text.parse::<Doorbell>().map(|doorbell| (doorbell.peer, doorbell.way));
        assert_eq!(parsed("guest"), Ok(("guest".into(), Way::Serve)));
        assert_eq!(parsed("host=0000:00:1f.7"), Ok(("host".into(), Way::Device("0000:00:1f.7".into()))));
        assert_eq!(parsed("host=./bell"), Ok(("host".into(), Way::Socket("./bell".into()))));
        for text in ["", "a b", "a/b", "=0000:00:05.0", "host=", "host=bell", "host=0000:00:05.8", "host=00:05.0"] {
            assert_eq!(text.parse::<Doorbell>(), Err(NoDoorbell(text.into())));
        }
    }

    #[test]
    fn a_doorbell_leads_to_a_peer_and_each_has_one() {
        let (peers, dir) = (["a".to_string(), "b".to_string()], Path::new("/d"));
        let check = |texts: &[&str]| {
            let doorbells: Vec<Doorbell> = texts.iter().map(|text| text.parse().unwrap()).collect();
            check(&doorbells, &peers, dir).map_err(|error| error.to_string())
        };
        check(&["a", "b=/s"]).unwrap();
        assert!(check(&["c"]).unwrap_err().contains("/d/c"));
        assert!(check(&["a", "a=/s"]).unwrap_err().contains("two"));
    }
}
