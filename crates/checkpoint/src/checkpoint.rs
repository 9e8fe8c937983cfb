//! One checkpoint, opened.

use crate::damage::{Damage, Fault};
use crate::digest::{self, Digests, read_plain};
use crate::layout::{self, CHUNK_BYTES_LIMIT, Grid};
use crate::manifest::{CodecName, Manifest, Variable};
use crate::tree::Tree;
use crate::{Digest, Error, Result, codec};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use stillframe::Attributes;
use stillframe_kernel::folder::Folder;

/// Longest manifest that is read: some 400 bytes for each variable of each rank.
const MANIFEST_MAX: u64 = 1 << 29;
/// Longest list of checksums that is read: some 80 bytes for each chunk.
const CHECKSUMS_MAX: u64 = 1 << 32;

/// A checkpoint: a version of a region or group, in files. It can be read from several threads.
///
/// Opening reads the manifest and checks it; chunks are checked when they are read. What it reads lies in the checkpoint's
/// directory, whatever the names in its files and whatever links there are.
#[derive(Debug)]
pub struct Checkpoint {
    tree: Tree,
    manifest: Manifest,
    grids: Vec<Grid>,
    digests: OnceLock<Digests>,
    /// The chunk that was read last for a part of it: parts are often asked for one after the other.
    last: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    variable: usize,
    chunk: usize,
    bytes: Vec<u8>,
}

/// Memory that a thread uses for chunk after chunk.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    encoded: Vec<u8>,
    decoded: Vec<u8>,
}

impl Checkpoint {
    /// Opens the checkpoint in a directory: one of a store, or a copy of one, made with `cp -r` or whatever else.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is none; [`Error::ForeignFormat`] if it was written by another Stillframe;
    /// [`Error::Damaged`] if its manifest is not what was written; [`Error::Unreadable`].
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint> {
        Checkpoint::read_from(Tree::open(path.as_ref())?)
    }

    /// Opens the checkpoint that has this name in a directory that is open: no link, which may lead anywhere.
    ///
    /// # Errors
    /// As [`open`](Checkpoint::open); [`Error::Damaged`] if the name is not that of a directory.
    pub(crate) fn open_in(folder: &Folder, dir: &Path, name: &str) -> Result<Checkpoint> {
        let path = dir.join(name);
        match folder.folder(name) {
            Ok(folder) => Checkpoint::read_from(Tree::of(folder, &path)),
            Err(error) if [Some(libc::ELOOP), Some(libc::ENOTDIR)].contains(&error.raw_os_error()) => {
                Err(Error::Damaged { path, why: "it is no directory, where a checkpoint has to be".into() })
            }
            Err(error) => Err(Error::reading("open", &path, error)),
        }
    }

    /// As [`open_in`](Checkpoint::open_in), of a version in its store.
    ///
    /// # Errors
    /// As [`open_in`](Checkpoint::open_in); [`Error::Damaged`] if it is another version's.
    pub(crate) fn open_version(store: &Folder, dir: &Path, version: u64) -> Result<Checkpoint> {
        Checkpoint::open_named(store, dir, version, &layout::checkpoint_dir(version))
    }

    /// As [`open_version`](Checkpoint::open_version), under another name.
    ///
    /// # Errors
    /// As [`open_version`](Checkpoint::open_version).
    pub(crate) fn open_named(store: &Folder, dir: &Path, version: u64, name: &str) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::open_in(store, dir, name)?;
        match checkpoint.version() {
            found if found == version => Ok(checkpoint),
            found => {
                let why = format!("its manifest is that of version {found}");
                Err(Error::Damaged { path: checkpoint.path().into(), why })
            }
        }
    }

    fn read_from(tree: Tree) -> Result<Checkpoint> {
        let path = tree.path();
        let text = match read_whole(&tree, layout::MANIFEST, MANIFEST_MAX) {
            Err(damage) if damage.fault == Fault::Missing && tree.file(layout::METADATA).is_err() => {
                return Err(Error::NoStore {
                    path: path.into(),
                    why: "has no manifest, so it is no checkpoint".into(),
                });
            }
            other => other.map_err(|damage| damage.of(path))?,
        };
        // Another format may check itself in another way.
        let file = path.join(layout::MANIFEST);
        let decoded = Manifest::decode(&file, &text);
        if !matches!(decoded, Err(Error::ForeignFormat { .. })) {
            check_manifest(&tree, &text).map_err(|damage| damage.of(path))?;
        }
        let manifest = decoded?;
        if manifest.ranks == Some(0) {
            return Err(Error::Damaged { path: file, why: "it tells of a group without ranks".into() });
        }
        let damaged = |why: String| Error::Damaged { path: file.clone(), why };
        let grid = |variable: &Variable| {
            let grid = variable.grid().map_err(damaged)?;
            let is_longer = |(chunk, extent): (&usize, &usize)| chunk > &(*extent).max(1);
            match grid.chunk_shape().iter().zip(grid.shape()).any(is_longer) {
                true => Err(damaged(format!("the chunks of variable '{}' are larger than it is", variable.name))),
                // A file of a few bytes may unpack to any number of them, which somebody would have memory for.
                false if grid.chunk_bytes() > CHUNK_BYTES_LIMIT.max(variable.dtype.bytes()) => {
                    let (bytes, name) = (grid.chunk_bytes(), &variable.name);
                    Err(damaged(format!(
                        "the chunks of variable '{name}' have {bytes} bytes, and may have {CHUNK_BYTES_LIMIT}"
                    )))
                }
                false => Ok(grid),
            }
        };
        let grids = manifest.variables.iter().map(grid).collect::<Result<Vec<Grid>>>()?;
        Ok(Checkpoint { tree, manifest, grids, digests: OnceLock::new(), last: Mutex::new(None) })
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.manifest.version
    }

    /// The directory, as it was named.
    pub fn path(&self) -> &Path {
        self.tree.path()
    }

    /// All that its manifest tells.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The version's attributes; of a group, those of rank 0.
    pub fn attributes(&self) -> &Attributes {
        &self.manifest.attributes
    }

    /// A variable; of a group, with its rank.
    ///
    /// # Errors
    /// Misuse if there is none of this name.
    pub fn variable(&self, rank: Option<u32>, name: &str) -> Result<&Variable> {
        self.find(rank, name).map(|index| &self.manifest.variables[index])
    }

    fn find(&self, rank: Option<u32>, name: &str) -> Result<usize> {
        let variables = &self.manifest.variables;
        variables.iter().position(|variable| variable.rank == rank && variable.name == name).ok_or_else(|| {
            let rank_name = |rank| format!("{}/{rank}", self.manifest.region);
            let known = variables.iter().filter(|variable| variable.rank == rank);
            Error::Engine(stillframe::Error::UnknownVariable {
                region: rank.map_or(self.manifest.region.clone(), rank_name),
                name: name.into(),
                known: known.map(|variable| variable.name.clone()).collect(),
            })
        })
    }

    /// Reads bytes of a variable, in the order in which it has its elements. Every chunk that has some of them is checked,
    /// whole, before any of them is returned.
    ///
    /// # Errors
    /// Misuse if there is no such variable, or `out` is not as long as the range, or that reaches past the variable;
    /// [`Error::Damaged`] with the chunk.
    pub fn read(&self, rank: Option<u32>, name: &str, bytes: Range<usize>, out: &mut [u8]) -> Result<()> {
        let index = self.find(rank, name)?;
        let grid = &self.grids[index];
        if bytes.start > bytes.end || bytes.end > grid.bytes() || bytes.len() != out.len() {
            let (start, end, bytes) = (bytes.start, bytes.end, grid.bytes());
            return Err(Error::Engine(stillframe::Error::OutOfRange { name: name.into(), start, end, bytes }));
        }
        self.digests()?;
        let mut scratch = Scratch::default();
        let mut out = out;
        for chunk in grid.covering(bytes.clone()) {
            let range = grid.range(chunk);
            let wanted = range.start.max(bytes.start)..range.end.min(bytes.end);
            let (part, rest) = out.split_at_mut(wanted.len());
            out = rest;
            if wanted == range {
                self.read_chunk(index, chunk, part, &mut scratch).map_err(|damage| damage.of(self.path()))?;
                continue;
            }
            let mut last = self.last.lock().unwrap_or_else(|poison| poison.into_inner());
            let is_kept = |kept: &Kept| (kept.variable, kept.chunk) == (index, chunk);
            if !last.as_ref().is_some_and(is_kept) {
                let mut content = last.take().map_or(Vec::new(), |kept| kept.bytes);
                self.check_chunk_length(index, chunk).map_err(|damage| damage.of(self.path()))?;
                content.clear();
                content.try_reserve_exact(range.len()).map_err(|_| {
                    let source = io::Error::from_raw_os_error(libc::ENOMEM);
                    Error::reading("malloc", &self.path().join(self.chunk_path(index, chunk)), source)
                })?;
                content.resize(range.len(), 0);
                self.read_chunk(index, chunk, &mut content, &mut scratch).map_err(|damage| damage.of(self.path()))?;
                *last = Some(Kept { variable: index, chunk, bytes: content });
            }
            if let Some(kept) = last.as_ref() {
                part.copy_from_slice(&kept.bytes[wanted.start - range.start..wanted.end - range.start]);
            }
        }
        Ok(())
    }

    /// Whether all files are there and as long as they have to be, without reading the chunks.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the first that is not, or with the list of checksums.
    pub fn check(&self) -> Result<()> {
        let damaged = |damage: Box<Damage>| damage.of(self.path());
        self.check_counts().map_err(damaged)?;
        for (index, grid) in self.grids.iter().enumerate() {
            for chunk in 0..grid.chunks() {
                self.chunk_digest(index, chunk).map_err(damaged)?;
                self.check_chunk_length(index, chunk).map_err(damaged)?;
            }
        }
        Ok(())
    }

    /// The checksums of its files.
    pub(crate) fn digests(&self) -> Result<&Digests> {
        self.load_digests().map_err(|damage| damage.of(self.path()))
    }

    pub(crate) fn load_digests(&self) -> Result<&Digests, Box<Damage>> {
        if let Some(digests) = self.digests.get() {
            return Ok(digests);
        }
        let file = layout::CHECKSUMS;
        let damage = |fault| Damage::file(file, fault);
        let text = read_whole(&self.tree, file, CHECKSUMS_MAX)?;
        let (found, hex) = (Digest::of(&text), &self.manifest.checksums.digest);
        match Digest::from_hex(hex) {
            Some(expected) if expected == found => {}
            Some(expected) => return Err(damage(Fault::Changed { expected, found })),
            None => {
                let why = format!("'{hex}' is no checksum of {file}");
                return Err(Damage::file(layout::MANIFEST, Fault::Senseless { why }));
            }
        }
        let senseless = |why| damage(Fault::Senseless { why });
        let text = std::str::from_utf8(&text).map_err(|error| senseless(error.to_string()))?;
        let digests = digest::decode(Path::new(file), text).map_err(|error| match error {
            Error::Damaged { why, .. } => senseless(why),
            other => senseless(other.to_string()),
        })?;
        Ok(self.digests.get_or_init(|| digests))
    }

    /// Whether there can be as many chunks as the manifest says, so that they may be gone through one by one.
    pub(crate) fn check_counts(&self) -> Result<(), Box<Damage>> {
        let files = self.load_digests()?.len();
        let chunks = self.grids.iter().try_fold(0usize, |all, grid| all.checked_add(grid.chunks()));
        match chunks.filter(|chunks| *chunks <= files) {
            Some(_) => Ok(()),
            None => {
                let why = format!("it tells of more chunks than there are checksums, {files}");
                Err(Damage::file(layout::MANIFEST, Fault::Senseless { why }))
            }
        }
    }

    /// Brings it to disk if it is a copy: whoever made that need not have done so. What was saved here was synced before it got
    /// its name.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a file is missing; [`Error::Unreadable`].
    pub(crate) fn sync_copy(&self) -> Result<()> {
        let own = self.tree.birth();
        if own.is_some() && own == self.manifest.directory {
            return Ok(());
        }
        let digests = self.digests()?;
        let files = digests.keys().map(String::as_str);
        let synced =
            self.tree.sync_files(files.chain([layout::MANIFEST, layout::MANIFEST_CHECKSUM, layout::CHECKSUMS]));
        synced.map_err(|(path, error)| match error.kind() {
            io::ErrorKind::NotFound => Error::Damaged { path, why: "it is missing".into() },
            _ => Error::reading("fsync", &path, error),
        })
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn grids(&self) -> &[Grid] {
        &self.grids
    }

    pub(crate) fn chunk_path(&self, variable: usize, chunk: usize) -> String {
        self.manifest.variables[variable].chunk_path(&self.grids[variable], chunk)
    }

    fn chunk_damage(&self, variable: usize, chunk: usize, fault: Fault) -> Box<Damage> {
        Damage::chunk(&self.manifest.variables[variable], &self.grids[variable], chunk, fault)
    }

    fn chunk_digest(&self, variable: usize, chunk: usize) -> Result<Digest, Box<Damage>> {
        let digest = self.load_digests()?.get(&self.chunk_path(variable, chunk)).copied();
        digest.ok_or_else(|| self.chunk_damage(variable, chunk, Fault::Unlisted))
    }

    fn check_chunk_length(&self, variable: usize, chunk: usize) -> Result<(), Box<Damage>> {
        self.open_chunk(variable, chunk).map(drop).map_err(|fault| self.chunk_damage(variable, chunk, fault))
    }

    /// A chunk's file and its length.
    fn open_chunk(&self, variable: usize, chunk: usize) -> Result<(File, usize), Fault> {
        let (file, metadata) = self.tree.file(&self.chunk_path(variable, chunk)).map_err(|error| Fault::io(&error))?;
        let (whole, found) = (self.grids[variable].chunk_bytes() as u64, metadata.len());
        let fault = match self.manifest.variables[variable].codec {
            CodecName::Bytes => Fault::length(whole, found),
            // What cannot be made smaller grows by a little.
            _ => Fault::length(whole + whole / 8 + (1 << 16), found)
                .filter(|fault| matches!(fault, Fault::TooLong { .. })),
        };
        match fault {
            Some(fault) => Err(fault),
            None => Ok((file, found as usize)),
        }
    }

    /// Reads a chunk's part of a variable to `out`, which is as long as that, and checks all of the chunk. On an error what
    /// `out` holds is unspecified.
    pub(crate) fn read_chunk(
        &self,
        variable: usize,
        chunk: usize,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), Box<Damage>> {
        let expected = self.chunk_digest(variable, chunk)?;
        let fault = |fault| self.chunk_damage(variable, chunk, fault);
        let (file, length) = self.open_chunk(variable, chunk).map_err(fault)?;
        let codec = self.manifest.variables[variable].codec;
        let found = match codec {
            CodecName::Bytes => read_plain(&file, length, out),
            _ => read_all(&file, length, &mut scratch.encoded),
        };
        let found = found.map_err(|error| fault(Fault::io(&error)))?;
        if found != expected {
            return Err(fault(Fault::Changed { expected, found }));
        }
        if codec == CodecName::Bytes {
            return Ok(());
        }
        let whole = self.grids[variable].chunk_bytes();
        let decode = |to: &mut [u8]| {
            codec::decode(codec, &scratch.encoded, to)
                .map_err(|error| fault(Fault::Senseless { why: error.to_string() }))
        };
        if whole == out.len() {
            return decode(out);
        }
        scratch.decoded.clear();
        let no_memory = |_| fault(Fault::Unreadable { errno: libc::ENOMEM });
        scratch.decoded.try_reserve_exact(whole).map_err(no_memory)?;
        scratch.decoded.resize(whole, 0);
        decode(&mut scratch.decoded)?;
        out.copy_from_slice(&scratch.decoded[..out.len()]);
        Ok(())
    }

    /// The checksum of a file that is no chunk.
    pub(crate) fn check_file(&self, path: &str, expected: Digest) -> Result<(), Box<Damage>> {
        let fault = |fault| Damage::file(path, fault);
        let (file, metadata) = self.tree.file(path).map_err(|error| fault(Fault::io(&error)))?;
        let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let found = read_plain(&file, length, &mut []).map_err(|error| fault(Fault::io(&error)))?;
        if found == expected { Ok(()) } else { Err(fault(Fault::Changed { expected, found })) }
    }

    /// The checksum of a chunk, without keeping its content.
    pub(crate) fn check_chunk(&self, variable: usize, chunk: usize, scratch: &mut Scratch) -> Result<(), Box<Damage>> {
        let codec = self.manifest.variables[variable].codec;
        if codec == CodecName::Bytes {
            return self.read_chunk(variable, chunk, &mut [], scratch);
        }
        // What cannot be decoded is damaged, whatever its checksum.
        let fault = |fault| self.chunk_damage(variable, chunk, fault);
        let mut content = std::mem::take(&mut scratch.decoded);
        let whole = self.grids[variable].chunk_bytes();
        self.open_chunk(variable, chunk).map_err(fault)?;
        content.clear();
        content.try_reserve_exact(whole).map_err(|_| fault(Fault::Unreadable { errno: libc::ENOMEM }))?;
        content.resize(whole, 0);
        let result = self.read_chunk(variable, chunk, &mut content, scratch);
        scratch.decoded = content;
        result
    }
}

/// Checks the manifest against the line of its checksum.
fn check_manifest(tree: &Tree, text: &[u8]) -> Result<(), Box<Damage>> {
    let file = layout::MANIFEST_CHECKSUM;
    let line = read_whole(tree, file, 4096)?;
    let found = Digest::of(text);
    if line == format!("{found}  {}\n", layout::MANIFEST).as_bytes() {
        return Ok(());
    }
    let digits = line.get(..32).and_then(|digits| std::str::from_utf8(digits).ok());
    match digits.and_then(Digest::from_hex) {
        Some(expected) if expected != found => Err(Damage::file(layout::MANIFEST, Fault::Changed { expected, found })),
        _ => {
            let why = format!("it is no line with a checksum of {}", layout::MANIFEST);
            Err(Damage::file(file, Fault::Senseless { why }))
        }
    }
}

/// The content of a file that is not larger than `most`.
fn read_whole(tree: &Tree, path: &str, most: u64) -> Result<Vec<u8>, Box<Damage>> {
    let read = || {
        let (file, metadata) = tree.file(path).map_err(|error| Fault::io(&error))?;
        if metadata.len() > most {
            return Err(Fault::TooLong { expected: most, found: metadata.len() });
        }
        let mut bytes = Vec::new();
        read_all(&file, metadata.len() as usize, &mut bytes).map_err(|error| Fault::io(&error))?;
        Ok(bytes)
    };
    read().map_err(|fault| Damage::file(path, fault))
}

/// Reads a file of this length, and returns its checksum.
fn read_all(file: &File, length: usize, bytes: &mut Vec<u8>) -> io::Result<Digest> {
    bytes.clear();
    bytes.try_reserve_exact(length).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    bytes.resize(length, 0);
    read_plain(file, length, bytes)
}
