//! The regions of a directory or of an arena, as those see them who do not produce them: other ranks of a group, who removes
//! regions, and who puts others in their place.

use crate::error::{Error, Result};
use crate::place::arena::{Arena, Attached, Claimed, Found};
use crate::place::directory::{self, Directory, Unopened};
use crate::place::names;
use crate::store::head::Head;
use crate::store::lease::LeaseFile;
use crate::store::ownership::{self, Obstacle};
use std::path::Path;
use stillframe_kernel::space::read_begin;
use stillframe_protocol::Newest;
use stillframe_segment::{head, lease};

/// All regions that lie together.
#[derive(Debug, Clone)]
pub(crate) enum Regions {
    /// Each has a directory of its own in this one.
    Directory(Directory),
    /// All lie in one arena.
    /// Names of those in an arena have a prefix for who looks from outside.
    Arena { arena: Arena, prefix: String },
}

/// One of them.
#[derive(Debug)]
pub(crate) enum Site {
    Directory { directory: Directory, name: String },
    Arena { arena: Arena, found: Found, name: String, _attached: Attached },
}

/// One of them with the lock of its producer, who is not alive then.
pub(crate) enum Locked {
    Directory { directory: Directory, name: String, _leases: Box<LeaseFile> },
    Arena(Claimed),
}

/// What the head of a region says of its last producer.
pub(crate) enum Ending {
    /// There is no version, or no finished head.
    Empty,
    /// It ended by itself; with the newest version, if that can be told.
    Good(Option<u64>),
    /// It did not, or the head is none that can be read; with the newest version.
    Bad(Option<u64>),
}

impl Regions {
    /// For messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Regions::Directory(root) => root.path(),
            Regions::Arena { arena, .. } => arena.path(),
        }
    }

    /// A name as observers know it.
    pub(crate) fn shown(&self, name: &str) -> String {
        match self {
            Regions::Directory(_) => name.into(),
            Regions::Arena { prefix, .. } => format!("{prefix}{name}"),
        }
    }

    /// The same regions for who does not write to them, whatever their modes are.
    pub(crate) fn looked_at(&self) -> Regions {
        match self {
            Regions::Directory(root) => Regions::Directory(root.guarded(root.guard().looking())),
            Regions::Arena { .. } => self.clone(),
        }
    }

    /// The ranks of a group that have a region, ascending.
    pub(crate) fn ranks_below(&self, group: &str) -> Result<Vec<u32>> {
        match self {
            Regions::Directory(root) => directory::ranks_below(root, group),
            Regions::Arena { arena, .. } => arena.ranks_below(group),
        }
    }

    /// What has this name; `None` if nothing has. In a directory that may be anything.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Site>> {
        let named = name.to_string();
        Ok(match self {
            Regions::Directory(root) => root.below(name)?.map(|directory| Site::Directory { directory, name: named }),
            Regions::Arena { arena, .. } => {
                let Some(found) = arena.find(name)? else { return Ok(None) };
                let attached = arena.leases(name, &found).attach()?;
                attached.map(|_attached| Site::Arena { arena: arena.clone(), found, name: named, _attached })
            }
        })
    }

    /// Takes the producer's lock of a region if nobody has it. Whoever produces and whoever removes does this first, so that
    /// only one of them goes on.
    pub(crate) fn try_lock(&self, name: &str) -> Result<Result<Locked, Obstacle>> {
        match self {
            Regions::Directory(root) => Ok(ownership::try_lock(root, name, 0o600)?
                .map(|(directory, leases)| Locked::Directory { directory, name: name.into(), _leases: leases.into() })),
            Regions::Arena { arena, .. } => Ok(match arena.try_claim(name)? {
                None => Err(Obstacle::NoDirectory),
                Some(Some(claimed)) => Ok(Locked::Arena(claimed)),
                Some(None) => Err(Obstacle::Held),
            }),
        }
    }

    /// Locks the region of this name, and those of its ranks.
    ///
    /// # Errors
    /// [`Error::InUse`] if somebody produces one of them.
    pub(crate) fn lock_all(&self, name: &str) -> Result<Vec<Locked>> {
        let mut locked = Vec::new();
        self.lock_rest(name, &mut locked)?;
        Ok(locked)
    }

    /// As [`lock_all`](Regions::lock_all), as far as they are not locked yet.
    pub(crate) fn lock_rest(&self, name: &str, locked: &mut Vec<Locked>) -> Result<()> {
        let mut found: Vec<String> = Vec::new();
        if self.find(name)?.is_some_and(|site| site.is_region()) {
            found.push(name.into());
        }
        found.extend(self.ranks_below(name)?.into_iter().map(|rank| names::rank_name(name, rank)));
        found.retain(|name| locked.iter().all(|locked| locked.name() != name));
        for region in found {
            match self.try_lock(&region)? {
                Ok(one) => locked.push(one),
                Err(Obstacle::Held) => {
                    let pid = self.find(&region)?.map_or(0, |site| site.producer_pid());
                    return Err(Error::in_use(self.shown(&region), pid));
                }
                Err(Obstacle::Removed | Obstacle::NoDirectory) => {}
            }
        }
        Ok(())
    }

    /// Gives a region of an arena, or all ranks of a group, another name in one step; who has that makes way.
    pub(crate) fn rename(&self, from: &str, to: &str, moved: Vec<Locked>, replaced: Vec<Locked>) -> Result<()> {
        let claims = |locked: Vec<Locked>| locked.into_iter().filter_map(Locked::claimed).collect::<Vec<_>>();
        match self {
            Regions::Arena { arena, .. } => arena.rename(from, to, &claims(moved), claims(replaced)),
            Regions::Directory(root) => Err(Error::NoRegion { region: from.into(), dir: root.path().into() }),
        }
    }

    /// Removes a region.
    pub(crate) fn remove(&self, locked: Locked) -> Result<()> {
        match (self, locked) {
            (Regions::Directory(root), Locked::Directory { directory, name, _leases }) => {
                ownership::remove(root, &directory, &name)
            }
            (Regions::Arena { arena, .. }, Locked::Arena(claimed)) => arena.remove(claimed).map(drop),
            // A region is removed where it was locked.
            (_, locked) => Err(Error::NoRegion { region: locked.name().into(), dir: self.path().into() }),
        }
    }
}

impl Locked {
    pub(crate) fn name(&self) -> &str {
        match self {
            Locked::Directory { name, .. } => name,
            Locked::Arena(claimed) => claimed.name(),
        }
    }

    /// The lock of a region of an arena.
    pub(crate) fn claimed(self) -> Option<Claimed> {
        match self {
            Locked::Directory { .. } => None,
            Locked::Arena(claimed) => Some(claimed),
        }
    }
}

impl Site {
    /// Whether it looks like a region.
    pub(crate) fn is_region(&self) -> bool {
        match self {
            Site::Directory { directory, .. } => directory.has(lease::FILE) || directory.has(head::FILE),
            Site::Arena { .. } => true,
        }
    }

    /// Tells the region from others that have its name later; `None` before it has a head.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        match self {
            Site::Directory { directory, .. } => directory.about(head::FILE).map(|about| about.identity),
            Site::Arena { found, .. } => found.head_at.map(|_| (found.number.into(), found.generation.into())),
        }
    }

    /// Whether a producer lives; what cannot be asked counts as living.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Site::Directory { directory, name } => match LeaseFile::open(&directory.clone().into(), name) {
                Ok(leases) => leases.is_produced().unwrap_or(true),
                Err(unopened) => !matches!(unopened, Unopened::Missing),
            },
            Site::Arena { arena, found, name, .. } => arena.leases(name, found).is_produced().unwrap_or(true),
        }
    }

    /// The head, if it can be believed: what is wrong with one that cannot be, its own producer and observers say.
    pub(crate) fn head(&self) -> Option<Head> {
        match self {
            Site::Directory { directory, .. } => {
                let (file, _) = directory.file(head::FILE).ok()??;
                Head::open(&file, directory.path()).ok()?
            }
            Site::Arena { arena, found, .. } => {
                let head = arena.head(found).ok()??;
                let mut begin = [0; 64];
                head.read(0, &mut begin);
                (head::check_geometry(&begin) == Ok(true)).then(|| Head::at(head))
            }
        }
    }

    /// The first bytes of the head, finished or not, as far as there are any; `None` if they cannot be read.
    pub(crate) fn head_bytes(&self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        match self {
            Site::Directory { directory, .. } => {
                let length = match directory.file(head::FILE).ok()? {
                    Some((file, _)) => read_begin(&file, &mut bytes).ok()?,
                    None => 0,
                };
                bytes.truncate(length);
            }
            Site::Arena { arena, found, .. } => match arena.head(found).ok()? {
                Some(head) => head.read(0, &mut bytes),
                None => bytes.clear(),
            },
        }
        Some(bytes)
    }

    /// A number in the head, whether that is finished or not; 0 if there is none.
    pub(crate) fn head_word(&self, at: usize) -> u32 {
        let bytes = self.head_bytes(at + 4).unwrap_or_default();
        bytes.get(at..).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    /// What the head says of the last producer.
    pub(crate) fn ending(&self) -> Ending {
        // Whoever put a head there that cannot be read: what lies beside it may be worth something.
        let Some(bytes) = self.head_bytes(head::HEAD_BYTES) else { return Ending::Bad(None) };
        match head::check_geometry(&bytes) {
            Ok(true) if bytes.len() == head::HEAD_BYTES => {}
            Ok(false) => return Ending::Empty,
            // One that was cut was whole once, and its versions may still be there.
            _ => return Ending::Bad(None),
        }
        let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let newest = Newest(word(head::NEWEST_AT));
        let slot = Some(newest.slot()).filter(|slot| *slot < head::SLOTS);
        let number = slot.map(|slot| word(head::descriptor_at(slot) + head::descriptor::VERSION_AT));
        match (newest.sequence(), word(head::ENDED_NS_AT)) {
            (0, _) => Ending::Empty,
            (_, 0) => Ending::Bad(number),
            _ => Ending::Good(number),
        }
    }

    /// What the last producer wrote as its process number; 0 if there is none.
    pub(crate) fn producer_pid(&self) -> u32 {
        self.head_word(head::PRODUCER_PID_AT)
    }

    /// Whether the region is the one that was found; in a directory what was opened stays.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Site::Directory { .. } => true,
            Site::Arena { arena, found, name, .. } => arena.leases(name, found).is_current(),
        }
    }

    /// Bytes that it takes.
    pub(crate) fn allocated_bytes(&self) -> Result<u64> {
        match self {
            Site::Directory { directory, .. } => Ok(directory.folder().allocated_bytes()),
            Site::Arena { arena, found, .. } => arena.bytes_of(found),
        }
    }
}
