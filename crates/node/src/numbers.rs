//! The numbers of nodes that this machine has heard of, where its next runtime finds them: an etcd whose data are in memory loses its
//! count with them, and a number that is given twice would be taken for a node that is gone.
//!
//! Beside them lies a number by chance, by which others tell a runtime that was started again from one whose machine lost its memory;
//! and the epoch of etcd's data in which all objects of the directory were, by which the next runtime tells objects that were removed from
//! those that etcd has lost, or never had.

use crate::error::{Error, Result};
use crate::peers::{Peers, PeersFile};
use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stillframe_etcd::NodeInfo;
use stillframe_etcd::values::FORMER_MAX;
use stillframe_roster::writer::Node;

/// In the directory of objects: the number that this machine had last, the highest one that it has heard of, the directory's own, and
/// the epoch of etcd's data. A second line has the number of the job, and those that the machine had in it before its last one, the newest
/// last: a directory may be left of a job that was killed, in which other nodes had the numbers. A third line has the ids of objects of this node
/// alone.
const FILE: &str = "runtime.node";

/// Numbers, and their file.
#[derive(Debug)]
pub struct Numbers {
    path: PathBuf,
    job: u64,
    memory: u64,
    noted: Mutex<Option<Noted>>,
    peers: Mutex<PeersFile>,
}

/// The highest number that is believed: what a file says that is damaged is not to use up all there are.
pub(crate) const NUMBER_MAX: u32 = 3 << 30;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Noted {
    /// None of a machine that has left.
    own: Option<Node>,
    highest: Node,
    /// Those before.
    former: Vec<Node>,
    /// In which all objects of the directory were in etcd; none if some may never have been.
    epoch: Option<u64>,
    /// Objects of this node alone: others have another one of the name, or removed it, and a program of this node has written it.
    kept: BTreeSet<u64>,
}

impl Numbers {
    /// Those that the former runtime of these regions wrote down; of another job than this one only the directory's own number and the highest.
    pub(crate) fn open(regions: &Path, job: u64) -> Numbers {
        let path = regions.join(".objects").join(FILE);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let memory = read_memory(&text);
        // The keys of the standard library's hasher are random numbers of the system.
        let memory = memory.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Numbers { path, job, memory, noted: Mutex::new(read(&text, job)), peers: Mutex::new(PeersFile::new(regions)) }
    }

    /// The number of this directory, which is another one when what lay in memory was lost.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Writes the directory's number down, for the next runtime: others are told of it before this machine is a node.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn keep_memory(&self) -> Result<()> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        if read_memory(&text) == Some(self.memory) {
            // What keeps the file from being written is found before the machine is a node: homes that begin wait for all nodes.
            return self.replace(&text);
        }
        let mut noted = self.noted();
        match noted.clone() {
            Some(known) => self.write(&mut noted, known),
            // No number of a node is known, not even the highest.
            None => self.replace(&format!("- - {}\n", self.memory)),
        }
    }

    /// The number that this machine had last.
    pub(crate) fn former(&self) -> Option<Node> {
        self.noted().as_ref().and_then(|noted| noted.own)
    }

    /// All numbers that this machine had, the newest last; none after it has left.
    pub(crate) fn all_former(&self) -> Vec<Node> {
        let all = |noted: &Noted| noted.former.iter().copied().chain(noted.own).collect();
        let mut all: Vec<Node> = self.noted().as_ref().map(all).unwrap_or_default();
        all.drain(..all.len().saturating_sub(FORMER_MAX));
        all
    }

    /// The highest number that it has heard of.
    pub(crate) fn highest(&self) -> Option<Node> {
        self.noted().as_ref().map(|noted| noted.highest)
    }

    /// The epoch of etcd's data in which all objects of the directory were.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.noted().as_ref().and_then(|noted| noted.epoch)
    }

    /// etcd has all objects of the directory in this epoch, or may not have all in any.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn note_epoch(&self, epoch: Option<u64>) -> Result<()> {
        let mut noted = self.noted();
        match noted.clone() {
            Some(known) if known.epoch != epoch => self.write(&mut noted, Noted { epoch, ..known }),
            _ => Ok(()),
        }
    }

    /// Objects that are of this node alone until somebody removes them here, by their ids.
    pub(crate) fn kept(&self) -> BTreeSet<u64> {
        self.noted().as_ref().map(|noted| noted.kept.clone()).unwrap_or_default()
    }

    /// These objects are of this node alone.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn note_kept(&self, kept: BTreeSet<u64>) -> Result<()> {
        let mut noted = self.noted();
        match noted.clone() {
            Some(known) if known.kept != kept => self.write(&mut noted, Noted { kept, ..known }),
            _ => Ok(()),
        }
    }

    /// This machine has this number from now on.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn join(&self, own: Node) -> Result<()> {
        let former = self.all_former();
        let mut noted = self.noted();
        let known = noted.clone().unwrap_or(Noted {
            own: None,
            highest: own,
            former: Vec::new(),
            epoch: None,
            kept: BTreeSet::new(),
        });
        self.write(&mut noted, Noted { own: Some(own), highest: known.highest.max(own), former, ..known })
    }

    /// There is a node of this number.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn note(&self, node: Node) -> Result<()> {
        let mut noted = self.noted();
        match noted.clone() {
            Some(known) if node > known.highest => self.write(&mut noted, Noted { highest: node, ..known }),
            _ => Ok(()),
        }
    }

    /// The other nodes of the job that the former runtime knew.
    pub(crate) fn peers(&self) -> Option<Peers> {
        let mut peers = self.peers_file().read().filter(|peers| peers.job == self.job)?;
        // What this machine was itself it is now.
        peers.nodes.retain(|(_, info)| info.memory != self.memory);
        Some(peers)
    }

    /// These are the nodes now, by etcd's data of this epoch, and those of them that are still missing in it.
    pub(crate) fn note_peers(&self, epoch: u64, nodes: Vec<(Node, NodeInfo)>, missing: BTreeSet<Node>) {
        let nodes = nodes.into_iter().map(|(node, info)| (node.0, info)).collect();
        let missing = missing.into_iter().map(|node| node.0).collect();
        self.peers_file().write(Peers { job: self.job, epoch, nodes, missing });
    }

    fn peers_file(&self) -> MutexGuard<'_, PeersFile> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are other machines: the numbers that this one had in a former run are not its own any more. Where its last one is among them
    /// it knows nothing of the present run.
    pub(crate) fn forget(&self, others: &BTreeSet<Node>) {
        if self.former().is_some_and(|own| others.contains(&own)) {
            return self.leave();
        }
        let mut noted = self.noted();
        if let Some(known) = noted.clone().filter(|known| known.former.iter().any(|node| others.contains(node))) {
            let former = known.former.iter().copied().filter(|node| !others.contains(node)).collect();
            let _ = self.write(&mut noted, Noted { former, ..known });
        }
    }

    /// This machine leaves the job. If it comes back nobody has its number.
    pub(crate) fn leave(&self) {
        self.peers_file().remove();
        // In another run of the job these numbers may be other machines'.
        let mut noted = self.noted();
        if let Some(known) = noted.clone() {
            let _ = self.write(&mut noted, Noted { own: None, former: Vec::new(), ..known });
        }
    }

    /// As long as this lives, nobody takes note of a number.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.noted()
    }

    fn noted(&self) -> MutexGuard<'_, Option<Noted>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, noted: &mut Option<Noted>, new: Noted) -> Result<()> {
        let own = new.own.map_or_else(|| "-".into(), |own| own.0.to_string());
        let epoch = new.epoch.map_or_else(String::new, |epoch| format!(" {epoch}"));
        let former: Vec<String> = new.former.iter().map(|node| node.0.to_string()).collect();
        let kept: Vec<String> = new.kept.iter().map(u64::to_string).collect();
        let (former, kept) = (former.join(" "), kept.join(" "));
        let text = format!("{own} {} {}{epoch}\n{} {former}\n{kept}\n", new.highest.0, self.memory, self.job);
        self.replace(&text)?;
        *noted = Some(new);
        Ok(())
    }

    /// Replaces the file. A runtime that is killed meanwhile leaves what was there.
    fn replace(&self, text: &str) -> Result<()> {
        let part = self.path.with_extension("part");
        fs::write(&part, text).map_err(Error::io("write", &part))?;
        fs::rename(&part, &self.path).map_err(Error::io("rename", &self.path))
    }
}

/// Reads the directory's number.
fn read_memory(text: &str) -> Option<u64> {
    text.lines().next()?.split_whitespace().nth(2)?.parse().ok()
}

fn read(text: &str, job: u64) -> Option<Noted> {
    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or_default().split_whitespace();
    let (mut words, mut second, third) = (line(), line(), line());
    let number = |word: &str| word.parse().ok().filter(|number| *number <= NUMBER_MAX).map(Node);
    let own = match words.next()? {
        "-" => None,
        word => Some(number(word)?),
    };
    let highest = words.next().and_then(number).into_iter().chain(own).max()?;
    // Behind the directory's own.
    let epoch = words.nth(1).and_then(|word| word.parse().ok());
    if second.next().is_some_and(|other| other.parse() != Ok(job)) {
        return Some(Noted { own: None, highest, former: Vec::new(), epoch: None, kept: BTreeSet::new() });
    }
    let kept = third.map_while(|word| word.parse().ok()).collect();
    let former = if own.is_some() { second.map_while(number).collect() } else { Vec::new() };
    Some(Noted { own, highest, former, epoch, kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_runtime_heard_of_the_next_one_knows() {
        let regions = tempfile::tempdir().unwrap();
        fs::create_dir(regions.path().join(".objects")).unwrap();
        let first = Numbers::open(regions.path(), 1);
        assert_eq!((first.former(), first.highest()), (None, None));
        first.note(Node(9)).unwrap();
        assert_eq!(first.highest(), None, "it is no node yet");
        first.join(Node(3)).unwrap();
        first.note(Node(7)).unwrap();
        first.note(Node(5)).unwrap();
        let second = Numbers::open(regions.path(), 1);
        assert_eq!((second.former(), second.highest()), (Some(Node(3)), Some(Node(7))));
        second.note_epoch(Some(5)).unwrap();
        second.join(Node(8)).unwrap();
        second.note(Node(8)).unwrap();
        let third = Numbers::open(regions.path(), 1);
        assert_eq!((third.former(), third.highest()), (Some(Node(8)), Some(Node(8))));
        assert_eq!(third.all_former(), [Node(3), Node(8)]);
        (9..90).for_each(|number| third.join(Node(number)).unwrap());
        let kept: Vec<Node> = (90 - FORMER_MAX as u32..90).map(Node).collect();
        assert_eq!((third.all_former(), Numbers::open(regions.path(), 1).all_former()), (kept.clone(), kept));
        let oldest = third.all_former()[0];
        third.forget(&BTreeSet::from([oldest, Node(1000)]));
        assert!(
            !third.all_former().contains(&oldest) && third.former() == Some(Node(89)),
            "others are what it was once"
        );
        third.leave();
        let fourth = Numbers::open(regions.path(), 1);
        assert_eq!((fourth.former(), fourth.highest()), (None, Some(Node(89))));
        assert_eq!(fourth.all_former(), [], "they are lost, and others were told so");
        assert_eq!([&first, &third, &fourth].map(Numbers::epoch), [None, Some(5), Some(5)]);
        fourth.note_epoch(None).unwrap();
        assert_eq!(Numbers::open(regions.path(), 1).epoch(), None);
        for one in [&second, &third, &fourth] {
            assert_eq!(one.memory(), first.memory());
        }
        fs::remove_file(&fourth.path).unwrap();
        assert_ne!(Numbers::open(regions.path(), 1).memory(), first.memory());
    }

    #[test]
    fn a_runtime_that_was_killed_before_it_was_a_node_leaves_the_number_of_its_directory() {
        let regions = tempfile::tempdir().unwrap();
        fs::create_dir(regions.path().join(".objects")).unwrap();
        let first = Numbers::open(regions.path(), 1);
        first.keep_memory().unwrap();
        let second = Numbers::open(regions.path(), 1);
        assert_eq!(second.memory(), first.memory());
        assert_eq!((second.former(), second.highest(), second.epoch()), (None, None, None), "it was no node");
        second.join(Node(3)).unwrap();
        second.note_epoch(Some(9)).unwrap();
        let third = Numbers::open(regions.path(), 1);
        third.keep_memory().unwrap();
        let fourth = Numbers::open(regions.path(), 1);
        assert_eq!((fourth.memory(), fourth.former(), fourth.epoch()), (first.memory(), Some(Node(3)), Some(9)));
    }

    fn read_own(text: &str) -> Option<Noted> {
        read(text, 1)
    }

    #[test]
    fn what_a_directory_was_in_another_job_it_is_not_in_this_one() {
        let regions = tempfile::tempdir().unwrap();
        fs::create_dir(regions.path().join(".objects")).unwrap();
        let first = Numbers::open(regions.path(), 1);
        first.join(Node(3)).unwrap();
        first.join(Node(5)).unwrap();
        first.note_epoch(Some(9)).unwrap();
        first.note_kept(BTreeSet::from([4, u64::MAX])).unwrap();
        assert_eq!(Numbers::open(regions.path(), 1).kept(), BTreeSet::from([4, u64::MAX]));
        first.note_peers(9, Vec::new(), BTreeSet::new());
        let other = Numbers::open(regions.path(), 2);
        assert_eq!((other.former(), other.all_former(), other.epoch(), other.peers()), (None, Vec::new(), None, None));
        assert_eq!(other.kept(), BTreeSet::new());
        assert_eq!((other.highest(), other.memory()), (Some(Node(5)), first.memory()));
        other.join(Node(7)).unwrap();
        assert_eq!(Numbers::open(regions.path(), 2).all_former(), [Node(7)]);
        other.forget(&BTreeSet::from([Node(6), Node(8)]));
        assert_eq!(other.former(), Some(Node(7)));
        other.forget(&BTreeSet::from([Node(7)]));
        assert_eq!((other.former(), other.highest()), (None, Some(Node(7))));
        assert_eq!(Numbers::open(regions.path(), 1).all_former(), []);
    }

    #[test]
    fn a_file_of_one_number_one_of_two_and_one_of_none() {
        let noted = |own: Option<u32>, highest| {
            let (former, kept) = (Vec::new(), BTreeSet::new());
            Some(Noted { own: own.map(Node), highest: Node(highest), former, epoch: None, kept })
        };
        assert_eq!(read_own("4"), noted(Some(4), 4));
        assert_eq!(read_own("4 2"), noted(Some(4), 4));
        assert_eq!(read_own("4 x"), noted(Some(4), 4));
        assert_eq!(read_own("4 4294967295"), noted(Some(4), 4), "nobody could join any more");
        assert_eq!(read_own("- 7\n"), noted(None, 7));
        assert_eq!(read_own("4 7 12\n"), noted(Some(4), 7), "of a runtime that knew of no epoch");
        assert_eq!(read_own("4 7 12 13\n").and_then(|noted| noted.epoch), Some(13));
        for none in ["", "-", "-1 3", "x", "4294967295 5"] {
            assert_eq!(read_own(none), None, "{none}");
        }
    }
}
