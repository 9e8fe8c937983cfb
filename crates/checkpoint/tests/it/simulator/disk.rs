//! A disk beside the file system: what of the files and names there would be left if the machine stopped now.
//!
//! What is assumed of file systems is what ext4, XFS and Btrfs promise, and no more than POSIX where they differ:
//!
//! * A name that was given, changed or taken away may be on disk or not until its directory was synced, whatever became of
//!   others before or after it; what happens to one name happens in order.
//! * A rename is one change, in one directory or in two, and so is an exchange: all of it is on disk or nothing.
//! * A file's content is on disk when the file was synced. Before that it may be all, a part, zeros or garbage of its length.
//!   Its name is another matter.
//! * If a sync fails, any of what it was for may have reached the disk. Content that did not may never reach it, although a later
//!   sync succeeds: the kernel takes it for written. Names are not forgotten.

use crate::reading::Numbers;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The names of all directories. Directories and files are known by their inodes.
type Tree = BTreeMap<u64, BTreeMap<Rc<str>, u64>>;

/// What a name leads to from then on, if to anything.
pub type Naming = (u64, Rc<str>, Option<u64>);

#[derive(Debug, Clone, Copy, Default)]
struct Content {
    /// How many files were made before it. Inodes tell nothing of that.
    serial: usize,
    /// How often it was written to.
    writes: usize,
    is_synced: bool,
    /// A sync of it failed, and what was written will never be on disk.
    is_lost: bool,
}

/// The disk of a directory.
#[derive(Debug, Clone)]
pub struct Disk {
    root: u64,
    /// Whether names are on disk as soon as they are given, as servers of NFS promise.
    is_named_at_once: bool,
    durable: Tree,
    seen: Tree,
    files: BTreeMap<u64, Content>,
    /// Changes of names that may not be on disk, each of one or two names.
    pending: Vec<Vec<Naming>>,
    /// Whose the directories are that checkpoints are in.
    owners: BTreeMap<u64, usize>,
}

/// Which of the changes that are not on disk for certain are.
#[derive(Debug, Clone, Copy)]
enum Loss {
    None,
    All,
    /// All but the first ones, as where changes go to disk in order.
    Rest(usize),
    /// All but one.
    Others(usize),
    One(usize),
    Each,
}

impl Disk {
    /// An empty directory that is on disk.
    pub fn new(dir: &Path, is_named_at_once: bool) -> Disk {
        let root = inode(dir);
        let empty = Tree::from([(root, BTreeMap::new())]);
        Disk {
            root,
            is_named_at_once,
            durable: empty.clone(),
            seen: empty,
            files: BTreeMap::new(),
            pending: Vec::new(),
            owners: BTreeMap::new(),
        }
    }

    pub fn is_file(&self, inode: u64) -> bool {
        self.files.contains_key(&inode)
    }

    /// What has a name now.
    pub fn find(&self, folder: u64, name: &str) -> Option<u64> {
        self.seen.get(&folder)?.get(name).copied()
    }

    /// The names in the top directory, with the owners of those directories that have one.
    pub fn top(&self) -> impl Iterator<Item = (&str, Option<usize>)> {
        let names = self.seen.get(&self.root).into_iter().flatten();
        names.map(|(name, inode)| (&**name, self.owners.get(inode).copied()))
    }

    pub fn make_folder(&mut self, folder: u64, name: &str, inode: u64) {
        self.seen.insert(inode, BTreeMap::new());
        self.change(vec![(folder, name.into(), Some(inode))]);
    }

    pub fn own(&mut self, inode: u64, owner: usize) {
        self.owners.insert(inode, owner);
    }

    pub fn make_file(&mut self, folder: u64, name: &str, inode: u64) {
        let serial = self.files.len();
        self.files.entry(inode).or_insert(Content { serial, ..Content::default() });
        self.change(vec![(folder, name.into(), Some(inode))]);
    }

    pub fn write(&mut self, inode: u64) {
        self.files.get_mut(&inode).into_iter().for_each(|content| content.writes += 1);
    }

    /// What tells the files below a path from all others, with what they have: inodes, and how often they were written to.
    pub fn print(&self, path: &Path) -> Option<u64> {
        let below = path.iter().try_fold(self.root, |folder, name| self.find(folder, name.to_str()?))?;
        let mut hasher = DefaultHasher::new();
        self.hash(below, &mut hasher);
        Some(hasher.finish())
    }

    fn hash(&self, inode: u64, hasher: &mut DefaultHasher) {
        match self.files.get(&inode) {
            Some(content) => (inode, content.writes).hash(hasher),
            None => {
                for (name, below) in &self.seen[&inode] {
                    name.hash(hasher);
                    self.hash(*below, hasher);
                }
                // Where the directory ends.
                0u64.hash(hasher);
            }
        }
    }

    /// Names change, at once.
    pub fn change(&mut self, change: Vec<Naming>) {
        apply(&mut self.seen, &change);
        match self.is_named_at_once {
            true => apply(&mut self.durable, &change),
            false => self.pending.push(change),
        }
    }

    /// A file's content, or a directory's names, are on disk.
    pub fn sync(&mut self, inode: u64) {
        if let Some(content) = self.files.get_mut(&inode) {
            content.is_synced |= !content.is_lost;
            return;
        }
        // From the last on: what comes before a change of the same name is on disk, too.
        let mut names: BTreeSet<(u64, Rc<str>)> = BTreeSet::new();
        let mut synced = Vec::new();
        let mut left = Vec::new();
        for change in std::mem::take(&mut self.pending).into_iter().rev() {
            let is_part = |(folder, name, _): &Naming| *folder == inode || names.contains(&(*folder, name.clone()));
            match change.iter().any(is_part) {
                true => {
                    names.extend(change.iter().map(|(folder, name, _)| (*folder, name.clone())));
                    synced.push(change);
                }
                false => left.push(change),
            }
        }
        synced.iter().rev().for_each(|change| apply(&mut self.durable, change));
        left.reverse();
        self.pending = left;
    }

    pub fn sync_all(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, &change);
        }
        self.files.values_mut().for_each(|content| content.is_synced |= !content.is_lost);
    }

    /// A sync of one file, or of all, has failed.
    pub fn fail_sync(&mut self, inode: Option<u64>, numbers: &mut Numbers) {
        let mut files: Vec<(&u64, &mut Content)> = self.files.iter_mut().collect();
        // The same numbers make the same run.
        files.sort_by_key(|(_, content)| content.serial);
        for (file, content) in files {
            if !content.is_synced && inode.is_none_or(|inode| inode == *file) {
                content.is_lost |= numbers.below(2) == 0;
            }
        }
    }

    /// Who reads a file next has what is on disk.
    pub fn forget(&mut self, file: &File) {
        let inode = file.metadata().unwrap().ino();
        let Some(content) = self.files.get_mut(&inode).filter(|content| content.is_lost) else { return };
        // The mode lets nobody write, who is not root.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let bytes = file.metadata().unwrap().len();
        fs::write(&path, vec![0; bytes as usize]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        *content = Content { is_synced: true, is_lost: false, writes: content.writes + 1, ..*content };
    }

    /// The names after a loss.
    fn survivors(&self, numbers: &mut Numbers) -> (Tree, Loss) {
        let count = self.pending.len();
        let loss = match numbers.below(6) {
            _ if count == 0 => Loss::None,
            0 => Loss::None,
            1 => Loss::All,
            2 => Loss::Rest(numbers.below(count)),
            3 => Loss::Others(numbers.below(count)),
            4 => Loss::One(numbers.below(count)),
            _ => Loss::Each,
        };
        let mut tree = self.durable.clone();
        let mut lost: BTreeSet<(u64, &str)> = BTreeSet::new();
        for (at, change) in self.pending.iter().enumerate() {
            let stays = match loss {
                Loss::None => true,
                Loss::All => false,
                Loss::Rest(first) => at < first,
                Loss::Others(one) => at == one,
                Loss::One(one) => at != one,
                Loss::Each => numbers.below(2) == 0,
            };
            if stays && !change.iter().any(|(folder, name, _)| lost.contains(&(*folder, name))) {
                apply(&mut tree, change);
            } else {
                lost.extend(change.iter().map(|(folder, name, _)| (*folder, &**name)));
            }
        }
        (tree, loss)
    }

    /// Makes a directory as it may be after the machine stopped, and returns its disk. `from` is this disk's own directory, and
    /// `attic` has what was removed from there, by inodes.
    pub fn crash(&self, from: &Path, attic: &Path, to: &Path, numbers: &mut Numbers) -> (Disk, String) {
        let (tree, loss) = self.survivors(numbers);
        let mut paths = BTreeMap::new();
        self.paths(self.root, from.into(), &mut paths);
        let share = [0, 1, 2, 8][numbers.below(4)];
        let mut copy = Copy {
            disk: self,
            tree: &tree,
            paths,
            attic,
            share,
            numbers,
            made: BTreeMap::new(),
            said: format!("{loss:?}"),
        };
        fs::create_dir(to).unwrap();
        let mut disk = Disk::new(to, self.is_named_at_once);
        copy.fill(self.root, to, &mut disk);
        let said = copy.said;
        disk.sync_all();
        (disk, said)
    }

    fn paths(&self, folder: u64, path: PathBuf, paths: &mut BTreeMap<u64, PathBuf>) {
        for (name, inode) in &self.seen[&folder] {
            let below = path.join(&**name);
            match self.is_file(*inode) {
                true => drop(paths.insert(*inode, below)),
                false => self.paths(*inode, below, paths),
            }
        }
    }
}

/// A directory that is made as another may be on disk.
struct Copy<'a> {
    disk: &'a Disk,
    tree: &'a Tree,
    /// Where the files are that have a name still.
    paths: BTreeMap<u64, PathBuf>,
    attic: &'a Path,
    /// One in so many of the files that were not synced is damaged; 0 for none.
    share: usize,
    numbers: &'a mut Numbers,
    /// Files that were made, by the inodes they had.
    made: BTreeMap<u64, PathBuf>,
    said: String,
}

impl Copy<'_> {
    /// Copies a directory. Files that were not synced in time may have any content, others are the same files.
    fn fill(&mut self, from: u64, to: &Path, disk: &mut Disk) {
        let folder = inode(to);
        for (name, node) in self.tree.get(&from).into_iter().flatten() {
            let path = to.join(&**name);
            let Some(content) = self.disk.files.get(node) else {
                fs::create_dir(&path).unwrap();
                disk.make_folder(folder, name, inode(&path));
                self.disk.owners.get(node).inspect(|owner| disk.own(inode(&path), **owner));
                self.fill(*node, &path, disk);
                continue;
            };
            let is_doubtful = !content.is_synced && !self.made.contains_key(node);
            if is_doubtful && self.is_hit() {
                self.damage(*node, &path);
            } else {
                let known = self.made.get(node).or(self.paths.get(node)).cloned();
                let source = known.unwrap_or_else(|| self.attic.join(node.to_string()));
                fs::hard_link(&source, &path).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
                // It has one content, whatever its names.
                self.made.entry(*node).or_insert_with(|| path.clone());
            }
            disk.make_file(folder, name, inode(&path));
        }
    }

    fn is_hit(&mut self) -> bool {
        match self.share {
            0 => false,
            share => self.numbers.below(share) == 0,
        }
    }

    fn damage(&mut self, node: u64, path: &Path) {
        let source = self.paths.get(&node).cloned().unwrap_or_else(|| self.attic.join(node.to_string()));
        let mut content = fs::read(source).unwrap();
        match self.numbers.below(4) {
            0 => content.clear(),
            1 => content.truncate(content.len() / 2),
            2 => content.fill(0),
            _ => content.iter_mut().for_each(|byte| *byte ^= 0x55),
        }
        self.said += &format!(" {}", path.file_name().unwrap_or_default().display());
        fs::write(path, content).unwrap();
        self.made.insert(node, path.into());
    }
}

fn apply(tree: &mut Tree, change: &[Naming]) {
    for (folder, name, inode) in change {
        let names = tree.entry(*folder).or_default();
        match inode {
            Some(inode) => names.insert(name.clone(), *inode),
            None => names.remove(name),
        };
    }
}

pub fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}
