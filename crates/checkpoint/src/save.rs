//! Saving one version.

use crate::base::{Base, StoredChunk};
use crate::chunks::{self, ChunkWriter, Subject};
use crate::digest;
use crate::directory::{self, Directory, Lock};
use crate::earlier::{self, Earlier};
use crate::former::{Former, checkpoint, former, good};
use crate::layout::{self, CHECKSUMS, Grid, MANIFEST, MANIFEST_CHECKSUM};
use crate::manifest::{self, Checksums, FORMAT, FORMAT_VERSION, Manifest, Variable};
use crate::partial::Partial;
use crate::read_back::{ReadBack, Rounds};
use crate::saved::{Phase, Progress, Saved};
use crate::{Checkpoint, Error, Result, SaveOptions, Store, left_over, zarr};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use stillframe::{AnySnapshot, Snapshot, inspect};
use stillframe_kernel::folder::About;
use stillframe_kernel::{Failure, points, unix_ns};

/// Writes the checkpoints of one region or group into one directory, which nobody else can write to meanwhile.
///
/// Several threads may save different versions at once.
#[derive(Debug)]
pub struct Saver {
    store: Directory,
    options: SaveOptions,
    lock: Lock,
    cleaned: Vec<String>,
    state: Mutex<State>,
    /// Held by whoever gives, takes or deletes a checkpoint's name.
    naming: Mutex<()>,
    /// Counts the calls of [`cancel`](Saver::cancel).
    cancels: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Whose checkpoints they are.
    region: Option<String>,
    /// The checkpoint that was committed last, and when its version was published.
    base: Option<(Arc<Base>, u64)>,
    rounds: Rounds,
    /// Versions that are being saved.
    saving: BTreeSet<u64>,
    /// Whether each file is brought to disk by itself, since it failed with all of the file system: perhaps for somebody else's
    /// writes, which may be lost again and again.
    syncs_singly: bool,
}

impl Saver {
    /// Takes a directory, which is made if it is not there, and cleans up what killed writers left.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody else writes into it; [`Error::ReadOnly`]; [`Error::NoLocks`].
    pub fn open(dir: impl Into<PathBuf>, options: SaveOptions) -> Result<Saver> {
        options.check()?;
        let dir = dir.into();
        directory::make(&dir)?;
        let store = Directory::open(&dir, options.guard()?)?;
        let lock = Lock::take(&store)?;
        points::hit("open.locked");
        let cleaned = left_over::clean(&store, &lock)?;
        // A writer that was killed may have given a name that is not on disk yet.
        store.sync()?;
        // Those that are damaged are no reason not to write good ones.
        let newest = Store::open(&dir)?.newest().ok();
        // What checkpoints share with it is not written again, and may not be synced again either.
        let on_disk = newest.as_ref().filter(|newest| newest.sync_copy().is_ok());
        let base = on_disk.and_then(|newest| Some((Base::of(newest).ok()?.into(), newest.manifest().published_ns)));
        let state = State {
            region: newest.as_ref().map(|newest| newest.manifest().region.clone()),
            base,
            rounds: Rounds::new(newest.as_ref().map(Checkpoint::version)),
            saving: BTreeSet::new(),
            syncs_singly: false,
        };
        let state = Mutex::new(state);
        Ok(Saver { store, options, lock, cleaned, state, naming: Mutex::default(), cancels: AtomicU64::new(0) })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.store.path()
    }

    /// The saver of the directory that has the name now, which is made again if it was removed; `None` if it is the one that
    /// this saver was opened with.
    ///
    /// # Errors
    /// [`Error::Removed`] if it would not be made on the file system that it was on, such as below the place of one that was
    /// unmounted; as [`open`](Saver::open).
    pub fn renew(&self) -> Result<Option<Saver>> {
        let own = self.store.folder().about().map_err(|error| Error::io("fstat", self.dir(), error))?.identity;
        let found = match About::at(self.dir(), false) {
            Ok(about) => Some(about.identity),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("stat", self.dir(), error)),
        };
        if found == Some(own) {
            return Ok(None);
        }
        let parent = match self.dir().parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => self.dir(),
        };
        let device = || About::at(parent, false).map(|about| about.identity.0).ok();
        if found.map(|found| found.0).or_else(device) != Some(own.0) {
            return Err(Error::Removed { dir: self.dir().to_path_buf() });
        }
        Saver::open(self.dir(), self.options.clone()).map(Some)
    }

    /// The options it was opened with.
    pub fn options(&self) -> &SaveOptions {
        &self.options
    }

    /// What killed writers had left, and was cleaned up: names in the directory.
    pub fn cleaned(&self) -> &[String] {
        &self.cleaned
    }

    /// Ends all that is being saved as soon as it can be, with [`Error::Cancelled`]. What is saved later is not concerned.
    pub fn cancel(&self) {
        self.cancels.fetch_add(1, Ordering::Relaxed);
    }

    /// Saves a version of a region or of a group. When this returns, it is on disk under its name; on an error nothing of it
    /// is there.
    ///
    /// Good checkpoints that were published before it, and whose numbers are not below its own, are an earlier run's. They go
    /// into `DIR/earlier-N` as soon as this one is safe, so that the highest number is always the newest state.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Vanished`], [`Error::NotSynced`], [`Error::ReadOnly`] if the disk or the directory is in
    /// the way; [`Error::Contradicts`] if a version of this number is there that a later run published, or that another
    /// program wrote; [`Error::OtherRegion`].
    pub fn save(&self, snapshot: impl Into<AnySnapshot>, progress: &(dyn Fn(Progress) + Sync)) -> Result<Saved> {
        let begin = Instant::now();
        let source = &snapshot.into();
        let version = source.version();
        if !self.lock.is_ours() {
            return Err(stillframe::Error::Forked { region: source.name().into() }.into());
        }
        let _claim = self.claim(source)?;
        let path = self.dir().join(layout::checkpoint_dir(version));
        if let Some(saved) = self.look_at_former(source, &path)? {
            return Ok(Saved { duration: begin.elapsed(), ..saved });
        }
        let subjects = self.subjects(source);
        let bytes = bytes_of(&subjects);
        let partial = Partial::begin(&self.store, version, bytes, self.state().syncs_singly)?;
        let aside = layout::partial_dir(version);
        let read_back = ReadBack::new(self.state().rounds, self.options.threads);
        let written = self.write(source, &partial, &subjects, &read_back, progress);
        let (files, stored) = written.inspect_err(|error| {
            if matches!(error, Error::NotSynced { .. }) && partial.is_synced_as_a_whole() {
                self.state().syncs_singly = true;
            }
            // Nothing more can be done about what cannot be removed; the next one to open the directory tries again.
            let _ = self.store.remove_all(&aside);
        })?;
        let naming = self.naming();
        let earlier = self.commit(source, &partial, &path).inspect_err(|_| {
            // An earlier run's checkpoint has its name if an exchange could not be undone, and is not to be lost.
            if let Ok(false) = earlier::recover(&self.store, &aside) {
                let _ = self.store.discard(&aside);
            }
        })?;
        points::hit("save.committed");
        let sums = partial.sums();
        let newest = self.is_newest(source.published_ns());
        self.state().rounds.record(&read_back, newest.then_some((version, &stored)));
        if newest {
            let chunks = subjects.into_iter().map(|subject| subject.variable).zip(stored);
            let base = Base::new(version, partial.tree(&path), chunks);
            self.state().base = Some((base.into(), source.published_ns()));
            directory::point_latest(&self.store, version);
        }
        let (set_aside, failed) = earlier.map_or((None, None), Earlier::set_aside);
        drop(naming);
        progress(Progress { version, phase: Phase::Committed, bytes, bytes_done: bytes });
        let (removed, trouble) = match failed {
            None => self.apply_keep(version),
            // Nor is anything deleted then: an earlier run's checkpoints are none that the keep rule is about.
            Some(error) => (Vec::new(), Some(not_moved(&error))),
        };
        let trouble =
            [changed_on_disk(&read_back.changed()), trouble].into_iter().flatten().reduce(|a, b| format!("{a}; {b}"));
        points::hit("save.end");
        Ok(Saved {
            version,
            path,
            already: false,
            bytes,
            written_bytes: sums.written_bytes,
            linked_bytes: sums.linked_bytes,
            read_back_bytes: read_back.bytes(),
            files,
            removed,
            set_aside,
            trouble,
            duration: begin.elapsed(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    fn naming(&self) -> MutexGuard<'_, ()> {
        self.naming.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Sees to it that a version is saved by one thread, and that the directory is its region's.
    fn claim(&self, source: &AnySnapshot) -> Result<Claim<'_>> {
        let (name, version) = (name_of(source), source.version());
        let mut state = self.state();
        if let Some(region) = state.region.as_ref().filter(|region| **region != name) {
            let dir = self.dir().to_path_buf();
            return Err(Error::OtherRegion { dir, expected: name, found: region.clone() });
        }
        if !state.saving.insert(version) {
            return Err(Error::Saving { version });
        }
        state.region = Some(name);
        Ok(Claim { saver: self, version })
    }

    /// What is said of a version that is safe already.
    fn look_at_former(&self, source: &AnySnapshot, path: &Path) -> Result<Option<Saved>> {
        let Former::Same(good) = former(source, &self.store)? else { return Ok(None) };
        good.sync_copy()?;
        // Whoever wrote it may have been killed before its name was on disk.
        self.store.sync()?;
        // Nor may that have come to the move of what it takes the place of.
        let _naming = self.naming();
        let earlier = Earlier::find(&self.store, source.version(), source.published_ns())?;
        if earlier.is_some() {
            directory::point_latest(&self.store, source.version());
        }
        let (set_aside, failed) = earlier.map_or((None, None), Earlier::set_aside);
        Ok(Some(Saved {
            version: source.version(),
            path: path.into(),
            already: true,
            bytes: good.manifest().bytes,
            written_bytes: 0,
            linked_bytes: good.manifest().linked_bytes,
            read_back_bytes: 0,
            files: good.manifest().files + OWN_FILES,
            removed: Vec::new(),
            set_aside,
            trouble: failed.as_ref().map(not_moved),
            duration: Duration::ZERO,
        }))
    }

    /// The variables of a version, and how they are cut.
    fn subjects<'a>(&self, source: &'a AnySnapshot) -> Vec<Subject<'a>> {
        let base = self.state().base.as_ref().map(|(base, _)| base.clone());
        let sizes = self.chunk_sizes(source);
        let mut subjects = Vec::new();
        for (rank, snapshot) in source.ranks().iter().enumerate() {
            let rank = source.is_group().then_some(rank as u32);
            for view in snapshot.variables() {
                let path = manifest::array_path(rank, &view.name);
                let cut = |bytes: &usize| Grid::new(&view.shape, view.order, view.dtype.bytes(), *bytes);
                let former = base.as_ref().and_then(|base| base.chunk_shape(&path));
                let grid = sizes.iter().map(cut).find(|grid| former == Some(grid.chunk_shape()));
                let grid = grid.unwrap_or_else(|| cut(&sizes[0]));
                let variable = Variable {
                    rank,
                    name: view.name.clone(),
                    path,
                    dtype: view.dtype.clone(),
                    order: view.order,
                    units: view.units.clone(),
                    attributes: view.attributes.clone(),
                    shape: view.shape.clone(),
                    chunk_shape: grid.chunk_shape().to_vec(),
                    codec: self.options.codec.name(),
                    // Attributes of these names that tell no part are the program's own business.
                    part: view.part().ok().flatten(),
                };
                subjects.push(Subject { snapshot, variable, grid });
            }
        }
        subjects
    }

    /// Bytes of a chunk: the size that it should have, and those that it may keep. A checkpoint whose size goes up and down
    /// around a limit would else be written whole each time.
    fn chunk_sizes(&self, source: &AnySnapshot) -> Vec<usize> {
        if let Some(bytes) = self.options.chunk_bytes {
            return vec![bytes];
        }
        let views = source.ranks().iter().flat_map(|snapshot| snapshot.variables());
        let bytes = layout::chunk_bytes(views.map(|view| view.bytes as u64).sum());
        vec![bytes, bytes * 2, bytes / 2]
    }

    /// Writes all files of a checkpoint and brings them to disk. Returns how many they are, and the chunks.
    fn write(
        &self,
        source: &AnySnapshot,
        partial: &Partial,
        subjects: &[Subject],
        read_back: &ReadBack,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<(u64, Vec<Vec<StoredChunk>>)> {
        let version = source.version();
        let bytes = bytes_of(subjects);
        let base = self.state().base.as_ref().map(|(base, _)| base.clone());
        let cancels = self.cancels.load(Ordering::Relaxed);
        let go_on = || match self.cancels.load(Ordering::Relaxed) == cancels {
            true => Ok(()),
            false => Err(Error::Cancelled { version }),
        };
        let say = |phase, bytes_done| progress(Progress { version, phase, bytes, bytes_done });
        let ranks = source.ranks();
        let count = source.is_group().then_some(ranks.len() as u32);
        partial.make_dirs(count, subjects.iter().map(|subject| subject.variable.path.as_str()))?;
        let writer = ChunkWriter::new(partial, self.options.codec, read_back);
        let stored = writer.store(subjects, base.as_deref(), self.options.threads, &|bytes_done| {
            say(Phase::Writing, bytes_done);
            go_on()
        })?;
        points::hit("save.chunks");
        let mut digests = chunks::digests(subjects, &stored);
        let mut manifest = Manifest {
            format: FORMAT.into(),
            format_version: FORMAT_VERSION,
            region: name_of(source),
            ranks: count,
            version,
            run: source.run(),
            published_ns: source.published_ns(),
            saved_ns: unix_ns(),
            attributes: source.attributes().clone(),
            rank_attributes: Vec::new(),
            rank_published_ns: Vec::new(),
            directory: partial.birth(),
            previous: base.as_ref().map(|base| base.version),
            bytes,
            linked_bytes: partial.sums().linked_bytes,
            files: 0,
            checksums: Checksums { algorithm: "xxh128".into(), file: CHECKSUMS.into(), digest: String::new() },
            variables: subjects.iter().map(|subject| subject.variable.clone()).collect(),
        };
        if count.is_some() {
            manifest.rank_attributes = ranks.iter().map(|snapshot| snapshot.attributes().clone()).collect();
            manifest.rank_published_ns = ranks.iter().map(Snapshot::published_ns).collect();
        }
        for (name, text) in zarr::files(&manifest, self.options.codec) {
            let digest = partial.put(&name, text.as_bytes())?;
            digests.insert(name, digest);
            points::hit("save.metadata");
        }
        manifest.files = digests.len() as u64;
        manifest.checksums.digest = partial.put(CHECKSUMS, digest::encode(&digests).as_bytes())?.to_string();
        points::hit("save.checksums");
        let text = manifest.encode();
        let digest = partial.put(MANIFEST, text.as_bytes())?;
        points::hit("save.manifest");
        partial.put(MANIFEST_CHECKSUM, format!("{digest}  {MANIFEST}\n").as_bytes())?;
        points::hit("save.written");
        go_on()?;
        say(Phase::Syncing, bytes);
        partial.sync()?;
        points::hit("save.synced");
        go_on()?;
        Ok((digests.len() as u64 + OWN_FILES, stored))
    }

    /// Gives a checkpoint that is on disk its name, and brings the name to disk. Returns what an earlier run left under this
    /// number and higher ones; what had this very number is set aside already.
    fn commit(&self, source: &AnySnapshot, partial: &Partial, path: &Path) -> Result<Option<Earlier>> {
        let version = partial.version();
        // A directory that was made anew may have another writer.
        if !self.lock.is_in_place() {
            return Err(partial.fail("stat", self.dir(), std::io::Error::from_raw_os_error(libc::ENOENT)));
        }
        let earlier = Earlier::find(&self.store, version, source.published_ns())?;
        let given_again = earlier.as_ref().filter(|earlier| earlier.is_given_again());
        if let Some(earlier) = given_again {
            earlier.give_way(partial.name())?;
        } else {
            // Looked at again, because others had the time to change it.
            match former(source, &self.store)? {
                Former::Nothing => {}
                Former::Damaged => directory::remove(&self.store, version)?,
                Former::Same(_) | Former::Earlier => {
                    return Err(Error::Contradicts { path: path.into(), version });
                }
            }
            earlier.as_ref().map_or(Ok(()), Earlier::announce)?;
            points::hit("save.announced");
            let renamed = self.rename(partial.name(), &layout::checkpoint_dir(version));
            renamed.map_err(|error| {
                earlier.as_ref().inspect(|earlier| earlier.leave());
                partial.fail("rename", path, error)
            })?;
        }
        points::hit("save.renamed");
        self.store.folder().sync().map_err(|source| {
            // Nobody shall take for safe what is not.
            match given_again {
                Some(earlier) => earlier.return_back(partial.name()),
                None => {
                    drop(self.rename(&layout::checkpoint_dir(version), partial.name()));
                    earlier.as_ref().inspect(|earlier| earlier.leave());
                }
            }
            let failure = Failure { call: "fsync", detail: self.dir().display().to_string(), source };
            Error::NotSynced { dir: self.dir().to_path_buf(), version, failure }
        })?;
        Ok(earlier)
    }

    fn rename(&self, name: &str, new: &str) -> std::io::Result<()> {
        self.store.folder().rename(name, self.store.folder(), new)
    }

    /// Whether a version was published after those that were saved.
    fn is_newest(&self, published_ns: u64) -> bool {
        self.state().base.as_ref().is_none_or(|(_, newest)| *newest <= published_ns)
    }

    /// Deletes what the keep rule does not want, if what was saved is good. Returns what was deleted, and what could not be
    /// done.
    fn apply_keep(&self, saved: u64) -> (Vec<u64>, Option<String>) {
        let _naming = self.naming();
        if let Err(error) = good(&self.store, saved) {
            return (
                Vec::new(),
                Some(format!("version {saved} was saved and is damaged, so no other was deleted: {error}")),
            );
        }
        let versions = match Store::open(self.dir()).and_then(|store| store.versions()) {
            Ok(versions) => versions,
            Err(error) => return (Vec::new(), Some(error.to_string())),
        };
        // Looked at anew each time, because what was good once may be damaged by now.
        let is_good = |version| good(&self.store, version).is_ok();
        let mut removable = self.options.keep.removable(&versions, saved, is_good);
        // What is newer may share files that have changed on disk, and nobody knows it yet.
        let verified = self.state().rounds.verified;
        removable.retain(|version| Some(*version) != verified);
        let mut removed = Vec::new();
        for version in removable {
            // What this program does not understand is not its to delete.
            if checkpoint(&self.store, version).is_err() || self.state().saving.contains(&version) {
                continue;
            }
            if let Err(error) = directory::remove(&self.store, version) {
                return (removed, Some(format!("version {version} could not be deleted: {error}")));
            }
            removed.push(version);
        }
        (removed, None)
    }
}

/// Files of a checkpoint that its checksums do not count: themselves, the manifest and the manifest's checksum.
const OWN_FILES: u64 = 3;

/// The name of the region or group, as it was before it was set aside: whoever restores it wants it there.
fn name_of(source: &AnySnapshot) -> String {
    inspect::aside_of(source.name()).unwrap_or_else(|| source.name().into())
}

fn bytes_of(subjects: &[Subject]) -> u64 {
    subjects.iter().map(|subject| subject.grid.bytes() as u64).sum()
}

/// What is said of files that an earlier checkpoint has, too, and that were not what had been written.
fn changed_on_disk(files: &[String]) -> Option<String> {
    let first = files.first()?;
    Some(format!(
        "{} of the files that it would share with the checkpoint before had changed on disk, and were written anew ({first}): \
         `still verify` says which older checkpoints are damaged",
        files.len()
    ))
}

fn not_moved(error: &Error) -> String {
    format!("checkpoints of an earlier run could not be moved, and the next save tries again: {error}")
}

/// A version that is being saved.
struct Claim<'a> {
    saver: &'a Saver,
    version: u64,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.saver.state().saving.remove(&self.version);
    }
}

#[cfg(test)]
mod tests;
