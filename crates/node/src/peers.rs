//! The other nodes of the job, written down where the next runtime of this machine finds them: an etcd whose data are in memory loses its
//! nodes with them, and a home that began without those which are not back yet would give out versions that they have once more.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use stillframe_etcd::NodeInfo;

/// In the directory of objects.
const FILE: &str = "runtime.peers";

/// More than the nodes of the largest job take.
const BYTES_MAX: u64 = 64 << 20;

/// What the file says, as JSON.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peers {
    /// Whose nodes they are: a directory may be left of a job that was killed.
    pub(crate) job: u64,
    /// The epoch of etcd's data by which they were nodes.
    pub(crate) epoch: u64,
    pub(crate) nodes: Vec<(u32, NodeInfo)>,
    /// Those of them that had not come back by then, since the data of another epoch were lost.
    pub(crate) missing: Vec<u32>,
}

/// The file, and what it says.
#[derive(Debug)]
pub(crate) struct PeersFile {
    path: PathBuf,
    written: Peers,
}

impl PeersFile {
    /// That of the runtime of these regions.
    pub(crate) fn new(regions: &Path) -> PeersFile {
        PeersFile { path: regions.join(".objects").join(FILE), written: Peers::default() }
    }

    /// What the former runtime wrote; `None` where there was none, or the file holds something else.
    pub(crate) fn read(&self) -> Option<Peers> {
        if fs::metadata(&self.path).ok()?.len() > BYTES_MAX {
            return None;
        }
        serde_json::from_slice(&fs::read(&self.path).ok()?).ok()
    }

    /// Writes who the nodes are now, if they are others than the last time. What cannot be written is not there at all, rather than old: it is
    /// tried again the next time.
    pub(crate) fn write(&mut self, peers: Peers) {
        if peers == self.written {
            return;
        }
        let part = self.path.with_extension("peers.part");
        let text = serde_json::to_vec(&peers).unwrap_or_default();
        // A runtime that is killed meanwhile leaves what was there.
        match fs::write(&part, text).and_then(|()| fs::rename(&part, &self.path)) {
            Ok(()) => self.written = peers,
            Err(_) => {
                self.remove();
                self.written = Peers::default();
            }
        }
    }

    /// Removes it: this machine leaves the job.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_runtime_wrote_the_next_one_reads() {
        let regions = tempfile::tempdir().unwrap();
        fs::create_dir(regions.path().join(".objects")).unwrap();
        let mut file = PeersFile::new(regions.path());
        assert_eq!(file.read(), None);
        let info = |name: &str| NodeInfo {
            name: name.into(),
            address: "127.0.0.1:1".into(),
            incarnation: 3,
            memory: u64::MAX,
            former: vec![1],
        };
        let peers = |nodes| Peers { job: 1, epoch: 7, nodes, missing: vec![3] };
        file.write(peers(vec![(2, info("b")), (3, info("c"))]));
        file.write(peers(vec![(3, info("c"))]));
        let read = PeersFile::new(regions.path()).read();
        assert_eq!(read, Some(peers(vec![(3, info("c"))])));
        // As where there is no room.
        let part = file.path.with_extension("peers.part");
        fs::create_dir(&part).unwrap();
        file.write(peers(Vec::new()));
        assert_eq!(file.read(), None, "an old one would be believed");
        fs::remove_dir(&part).unwrap();
        file.write(peers(Vec::new()));
        assert_eq!(file.read(), Some(peers(Vec::new())));
        for wrong in ["", "{}", "[1]"] {
            fs::write(&file.path, wrong).unwrap();
            assert_eq!(file.read(), None, "{wrong}");
        }
        file.remove();
        assert_eq!(file.read(), None);
    }
}
