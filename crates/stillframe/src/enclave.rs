//! What a broker hands out of a directory of regions, to observers that do not see the directory: in another container, or another
//! user's.
//!
//! `stillframe-enclave` has the socket; here is what is answered. Each file is opened for who asked, to read, through a
//! [view of the directory](stillframe_kernel::view) in which nothing can be written. So no descriptor that goes out can be written
//! to, nor be opened once more to write, whoever has it. Where no such view can be made, nobody is served, unless it was said that
//! whoever is served may write as far as the modes of the files let him. Who that is, nobody can tell beforehand: a process
//! may connect as one user, and be another when it has the descriptors.

use crate::error::{Error, Result};
use crate::inspect::region::{Links, find_in};
use crate::place::arena::Arena;
use crate::place::broker::socket_in;
use crate::place::directory::Directory;
use crate::place::files::{Files, Located, Root};
use crate::place::names::{self, is_for_observers, is_numbered};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stillframe_kernel::folder::{About, Folder};
use stillframe_kernel::local::FILES_MAX;
use stillframe_kernel::trust::{Guard, Trust};
use stillframe_kernel::view;
use stillframe_segment::broker::{ANSWER_BYTES_MAX, Answer, Identity, Question};
use stillframe_segment::{arena, enclave, head, lease, schema, table};

/// Schemas that go with a region at once. Others are asked for.
const SCHEMAS: usize = 4;

/// How often a region may be made anew while its files are opened before it is no coincidence.
const ATTEMPTS: usize = 10;

/// Ranges of ranks in one answer, of at most 22 bytes each.
const RANGES_MAX: usize = 1200;

/// How long a list of all names is good: to walk through a large directory for each question would hold others up.
const LISTED: Duration = Duration::from_millis(100);

/// How long it is believed that the system makes no read-only views.
const PLAIN: Duration = Duration::from_secs(1);

/// A directory of regions that is handed out.
#[derive(Debug)]
pub struct Handout {
    dir: PathBuf,
    guard: Guard,
    only: Vec<String>,
    /// Whether it was said that whatever lies in the directory is meant to.
    trusts_all: bool,
    accepts_plain: bool,
    seen: Mutex<Option<Arc<Seen>>>,
}

/// The directory as it is now.
#[derive(Debug)]
struct Seen {
    identity: Identity,
    root: Root,
    /// Why it is not read-only, and until when that is believed.
    is_plain: Option<(String, Instant)>,
    /// What was found in it, and when.
    listed: Mutex<Option<(Instant, Arc<Listed>)>>,
}

/// Names, and whether each is an arena's.
type Listed = Vec<(String, bool)>;

/// An answer, and the files that go with it.
#[derive(Debug)]
pub struct Reply {
    /// The message.
    pub bytes: Vec<u8>,
    /// The files.
    pub files: Vec<File>,
}

impl Handout {
    /// Hands out what lies in a directory, or, if any are named, these regions, groups and arenas alone, with what lies below them.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the directory is a broker's, [`Error::BadName`].
    pub fn new(dir: &Path, trust: Option<Trust>, only: &[String]) -> Result<Handout> {
        if socket_in(dir).is_some() {
            return Err(Error::only_to_look(dir));
        }
        for name in only {
            names::region_dir(dir, name)?;
        }
        let guard = names::looking(dir, trust)?;
        let trusts_all = names::trust(trust)? == Some(Trust::Any);
        let only = only.to_vec();
        Ok(Handout { dir: dir.into(), guard, only, trusts_all, accepts_plain: false, seen: Mutex::default() })
    }

    /// Serves also where no read-only view can be made: whoever is served may write as far as the modes of the files let him.
    pub fn accept_plain(self, accepts_plain: bool) -> Handout {
        Handout { accepts_plain, ..self }
    }

    /// Why what is handed out is not read-only by itself, so that nobody is served, unless that is
    /// [accepted](Handout::accept_plain); `None` if it is, or there is no directory yet.
    ///
    /// # Errors
    /// [`Error::Untrusted`] and others of a directory that cannot be opened.
    pub fn is_plain(&self) -> Result<Option<String>> {
        Ok(self.seen()?.and_then(|seen| seen.is_plain.as_ref().map(|(why, _)| why.clone())))
    }

    /// The directory as it is now; `None` if there is none.
    fn seen(&self) -> Result<Option<Arc<Seen>>> {
        let folder = match self.guard.open_root(&self.dir) {
            Ok(folder) => folder,
            Err(refused) if refused.is_missing() => return Ok(None),
            Err(refused) => return Err(Error::refused(&self.dir, refused)),
        };
        let about = folder.about().map_err(|error| Error::io("fstat", &self.dir, error))?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_believed = |seen: &&Arc<Seen>| {
            let is_over = seen.is_plain.as_ref().is_some_and(|(_, until)| *until <= Instant::now());
            seen.identity == about.identity && !is_over
        };
        if let Some(seen) = seen.as_ref().filter(is_believed) {
            return Ok(Some(seen.clone()));
        }
        let made = Arc::new(self.see(folder, &about));
        *seen = Some(made.clone());
        Ok(Some(made))
    }

    fn see(&self, folder: Folder, about: &About) -> Seen {
        let (folder, is_plain) = match view::read_only(&self.dir, about) {
            Ok(folder) => (folder, None),
            Err(failure) => {
                // What is short now may not be when the next one asks.
                let is_lasting = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EINVAL].contains(&failure.errno());
                let until = Instant::now() + if is_lasting { PLAIN } else { Duration::ZERO };
                (folder, Some((failure.to_string(), until)))
            }
        };
        let root = Root::Directory(Directory::over(folder, &self.dir, self.guard));
        Seen { identity: about.identity, root, is_plain, listed: Mutex::default() }
    }

    fn is_handed_out(&self, name: &str) -> bool {
        let is_below =
            |only: &String| name.strip_prefix(&**only).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.only.is_empty() || self.only.iter().any(is_below)
    }

    /// What is answered to a message.
    pub fn answer(&self, bytes: &[u8]) -> Reply {
        let (answer, files) = match Question::decode(bytes) {
            Err(garbled) => (Answer::Refused { why: format!("that is no question: {garbled}") }, Vec::new()),
            Ok(question) => self.answer_question(&question).unwrap_or_else(|error| {
                let answer = match error {
                    Error::NoRegion { .. } | Error::NoArena { .. } | Error::BadName { .. } => Answer::Missing,
                    error => Answer::Refused { why: error.to_string() },
                };
                (answer, Vec::new())
            }),
        };
        Reply { bytes: answer.encode(), files }
    }

    fn answer_question(&self, question: &Question) -> Result<(Answer, Vec<File>)> {
        let missing = || Ok((Answer::Missing, Vec::new()));
        let Some(seen) = self.seen()? else { return missing() };
        if let Some((why, _)) = seen.is_plain.as_ref().filter(|_| !self.accepts_plain) {
            let why = format!("whoever is served might write: no read-only view can be made ({why})");
            return Err(Error::BadOption { option: "view", why });
        }
        match question {
            // The name of an arena that is the directory itself is empty.
            Question::More { name, .. } if name.is_empty() && !self.only.is_empty() => missing(),
            Question::More { name, .. } if !name.is_empty() && !self.is_found(name)? => missing(),
            Question::Open { name } | Question::Ranks { name, .. } if !self.is_found(name)? => missing(),
            Question::Open { name } => {
                for _ in 0..ATTEMPTS {
                    if let Some(opened) = self.open(&seen, name)? {
                        return Ok(opened);
                    }
                }
                missing()
            }
            Question::More { name, identity, files } => self.more(&seen, name, *identity, files),
            Question::Ranks { name, after } => {
                let ranks = match Arena::of_region(&seen.root, name)? {
                    Some((arena, group)) => arena.ranks_below(&group)?,
                    None => seen.root.ranks_below(name)?,
                };
                let ranks = &ranks[ranks.partition_point(|rank| after.is_some_and(|after| *rank <= after))..];
                Ok((some_ranks(ranks), Vec::new()))
            }
            Question::Names { after } => self.names(&seen, after),
            Question::Show { .. } => {
                let why = "shows no leases to other enclaves".into();
                Err(Error::Broker { socket: self.dir.clone(), why })
            }
        }
    }

    /// Whether there may be something of this name for who asks.
    fn is_found(&self, name: &str) -> Result<bool> {
        names::region_dir(&self.dir, name)?;
        Ok(self.is_handed_out(name))
    }

    /// The files of a region or arena; `None` if it was replaced meanwhile.
    fn open(&self, seen: &Seen, name: &str) -> Result<Option<(Answer, Vec<File>)>> {
        let (files, first, wanted, leads) = match seen.root.locate(name)? {
            None => return Ok(Some((Answer::Missing, Vec::new()))),
            Some(Located::Region { files, .. }) => {
                let names = names_of_region(&files);
                (files, head::FILE, names, None)
            }
            Some(Located::Arena { files, leads, .. }) => {
                // Who has an arena sees all of its regions.
                if !self.is_handed_out(&leads) {
                    return Ok(Some((Answer::Missing, Vec::new())));
                }
                // Whoever has no directory asks no agent, and locks of this kernel are none to the producers there.
                if is_foreign(&files) {
                    let why = format!("'{leads}' is another enclave's: open its regions in the directory itself");
                    return Ok(Some((Answer::Refused { why }, Vec::new())));
                }
                (files, arena::FILE, vec![arena::FILE.into(), lease::FILE.into()], Some(leads))
            }
        };
        let (names, opened) = self.take(&files, &wanted)?;
        let identity = names.first().filter(|name| *name == first).and_then(|_| About::of(&opened[0]).ok());
        // What was opened by name after the first file is this region's only if that one is still there.
        if !identity.is_some_and(|about| files.is(first, about.identity)) {
            return Ok(None);
        }
        let answer = match leads {
            Some(leads) => Answer::Arena { leads, files: names },
            None => Answer::Region { files: names },
        };
        Ok(Some((answer, opened)))
    }

    /// Further files of a region or arena that is still this one.
    fn more(&self, seen: &Seen, name: &str, identity: Identity, wanted: &[String]) -> Result<(Answer, Vec<File>)> {
        let Root::Directory(root) = &seen.root else { return Ok((Answer::Missing, Vec::new())) };
        let directory = if name.is_empty() { Some(root.clone()) } else { root.below(name)? };
        let gone = || Ok((Answer::Gone, Vec::new()));
        let Some(directory) = directory else { return gone() };
        let first = if Arena::is_in(&directory) { arena::FILE } else { head::FILE };
        let files = Files::from(directory);
        let (names, opened) = self.take(&files, wanted)?;
        if is_foreign(&files) || !files.is(first, identity) {
            return gone();
        }
        Ok((Answer::More { files: names }, opened))
    }

    /// Opens those of some files that are there.
    fn take(&self, files: &Files, wanted: &[String]) -> Result<(Vec<String>, Vec<File>)> {
        let owner = match files.directory() {
            Some(directory) if !self.trusts_all => {
                let about = directory.folder().about();
                Some(about.map_err(|error| Error::io("fstat", directory.path(), error))?.owner)
            }
            _ => None,
        };
        let (mut names, mut opened): (Vec<String>, Vec<File>) = (Vec::new(), Vec::new());
        for name in wanted.iter().filter(|name| is_for_observers(name)).take(FILES_MAX) {
            // Who names one many times gets it once: each that goes out is open until it is taken.
            if names.contains(name) {
                continue;
            }
            if let Some((file, about)) = files.file(name)? {
                check_owner(name, &about, owner)?;
                names.push(name.clone());
                opened.push(file);
            }
        }
        Ok((names, opened))
    }

    /// All names that are handed out, and whether each is an arena's, in their order, as they were a moment ago.
    fn listed(&self, seen: &Seen, root: &Directory) -> Result<Arc<Listed>> {
        let mut known = seen.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, listed)) = known.as_ref().filter(|(at, _)| at.elapsed() < LISTED) {
            return Ok(listed.clone());
        }
        let found = find_in(root, Links::Ignored)?;
        let all = found.regions.into_iter().map(|name| (name, false));
        let all = all.chain(found.arenas.into_iter().map(|name| (name, true)));
        let is_name = |name: &str| names::region_dir(&self.dir, name).is_ok() && self.is_handed_out(name);
        let mut all: Listed = all.filter(|(name, _)| is_name(name)).collect();
        all.sort();
        all.dedup();
        let listed = Arc::new(all);
        // A walk may take longer than its result is good for, which those behind who asked are to have all the same.
        *known = Some((Instant::now(), listed.clone()));
        Ok(listed)
    }

    fn names(&self, seen: &Seen, after: &str) -> Result<(Answer, Vec<File>)> {
        let Root::Directory(root) = &seen.root else { return Ok((Answer::Missing, Vec::new())) };
        let all = self.listed(seen, root)?;
        let all = &all[all.partition_point(|(name, _)| &**name <= after)..];
        let (mut regions, mut arenas, mut next, mut bytes) = (Vec::new(), Vec::new(), None, 0);
        for (name, is_arena) in all {
            bytes += name.len() + "\nregion ".len();
            // What is asked on from is repeated, and the first line has some bytes.
            if bytes > ANSWER_BYTES_MAX - 1024 {
                let last: [Option<&String>; 2] = [regions.last(), arenas.last()];
                next = last.into_iter().flatten().max().cloned();
                break;
            }
            if *is_arena { &mut arenas } else { &mut regions }.push(name.clone());
        }
        Ok((Answer::Names { regions, arenas, next }, Vec::new()))
    }
}

impl Reply {
    /// That somebody is not served, and why.
    pub fn refusal(why: String) -> Reply {
        Reply { bytes: Answer::Refused { why }.encode(), files: Vec::new() }
    }

    /// The files, to be sent.
    pub fn descriptors(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
        self.files.iter().map(AsFd::as_fd).collect()
    }
}

/// The files that who looks at a region needs, the head first, then what every version needs, then planes by their numbers.
fn names_of_region(files: &Files) -> Vec<String> {
    let texts = files.directory().map(Directory::texts).unwrap_or_default();
    let numbered = |prefix: &str| {
        let number = |name: &String| name.strip_prefix(prefix)?.parse::<u32>().ok();
        let mut found: Vec<(u32, String)> = texts
            .iter()
            .filter(|name| is_numbered(name))
            .filter_map(|name| Some((number(name)?, name.clone())))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name)
    };
    let all = [head::FILE, table::FILE, lease::FILE].map(String::from).into_iter();
    let schemas: Vec<String> = numbered(schema::FILE_PREFIX).collect();
    let newest = schemas.into_iter().rev().take(SCHEMAS);
    all.chain(newest).chain(numbered(table::PLANE_PREFIX)).take(FILES_MAX).collect()
}

/// Refuses a file that lies among a user's files and is another's, or has further names elsewhere: who may put a name into a directory may
/// put one there for a file that is not meant to be handed out.
fn check_owner(name: &str, about: &About, expected: Option<u32>) -> Result<()> {
    let Some(expected) = expected.filter(|expected| about.owner != *expected || about.links > 1) else { return Ok(()) };
    let what = match about.owner == expected {
        true => format!("has {} names (hard links)", about.links),
        false => format!("belongs to user {}, and its directory to user {expected}", about.owner),
    };
    let why = format!("'{name}' {what}: it is handed out only with STILLFRAME_TRUST=any for who hands out");
    Err(Error::BadOption { option: "trust", why })
}

/// Numbers that ascend, as ranges.
fn ranges(numbers: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    ranges
}

/// As many ranks as an answer has room for.
fn some_ranks(ranks: &[u32]) -> Answer {
    let mut ranges = ranges(ranks);
    let is_whole = ranges.len() <= RANGES_MAX;
    ranges.truncate(RANGES_MAX);
    let next = ranges.last().map(|(_, last)| *last).filter(|_| !is_whole);
    Answer::Ranks { ranges, next }
}

/// Whether the files are those of another enclave's arena, which has the socket of this one's agent beside it.
fn is_foreign(files: &Files) -> bool {
    files.directory().is_some_and(|directory| directory.has(enclave::AGENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_observers_read_is_handed_out() {
        for name in ["head", "tables", "lease", "plane.0", "plane.253", "schema.12", "arena", "lease.3"] {
            assert!(is_for_observers(name), "{name}");
        }
        for name in ["lease.producer", "../head", "plane.x", "schema.sql", "", "/etc/passwd", "lease.0", "."] {
            assert!(!is_for_observers(name), "{name}");
        }
    }

    #[test]
    fn only_what_is_named_is_handed_out_and_what_lies_below() {
        let only = ["run/plate".to_string(), "pool".to_string()];
        let handout = Handout::new(Path::new("/dev/shm/none"), None, &only).unwrap();
        for (name, is) in
            [("run/plate", true), ("run/plate/0", true), ("run/plate2", false), ("run", false), ("pool/u", true)]
        {
            assert_eq!(handout.is_handed_out(name), is, "{name}");
        }
        assert!(Handout::new(Path::new("unix:/run/s"), None, &[]).is_err());
    }

    #[test]
    fn ranks_are_told_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), [(0, 2), (5, 5), (7, 8)]);
        let far: Vec<u32> = (0..5000).map(|rank| u32::MAX - 10_000 + rank * 2).collect();
        let answer = some_ranks(&far);
        assert!(answer.encode().len() <= ANSWER_BYTES_MAX);
        assert!(matches!(answer, Answer::Ranks { ranges, next } if next == Some(ranges[RANGES_MAX - 1].1)));
        assert!(matches!(some_ranks(&far[..RANGES_MAX]), Answer::Ranks { next: None, .. }));
    }
}
