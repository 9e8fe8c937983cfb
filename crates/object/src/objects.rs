//! The objects of a directory: creating, finding and removing them.

use crate::bell::Bell;
use crate::description::Description;
use crate::directory::{Directory, random_number};
use crate::error::{Error, Result};
use crate::hints::Hints;
use crate::interrupt::Interrupt;
use crate::names::Names;
use crate::names::directory::DirectoryNames;
use crate::names::node::NodeNames;
use crate::object::Object;
use crate::runtime::{self, GroupSummary, NodeSummary};
use crate::shared::{self, Shared, Site};
use crate::waiting::Deadline;
use drepl::Schema;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use stillframe::{Trust, inspect};

/// Options for opening the objects of a directory.
#[derive(Debug, Clone)]
pub struct ObjectsOptions {
    dir: PathBuf,
    mode: u32,
    trust: Option<Trust>,
    interrupt: Interrupt,
    arena_bytes: u64,
    arena_fragments: u32,
    is_runtime: bool,
}

/// Length of the arena with the regions of all fragments: addresses, not memory.
const ARENA_BYTES: u64 = 1 << 40;

/// Fragments that there can be at a time.
const ARENA_REGIONS: u32 = 1 << 16;

impl ObjectsOptions {
    /// The directory of regions; by default `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    /// Access mode of what is made; 0o700 by default. With 0o750 the group may read, with 0o770 it may also create and write.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Whose directories and files are taken for good; else `$STILLFRAME_TRUST` says so, as for regions
    /// ([`stillframe::RegionOptions::trust`], and to look [`stillframe::ObserverOptions::trust`]).
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = Some(trust);
        self
    }

    /// Length of the arena in which all fragments lie; 1 TiB of addresses by default. An arena that is there stays what it is.
    pub fn arena_bytes(mut self, bytes: u64) -> Self {
        self.arena_bytes = bytes;
        self
    }

    /// Fragments that there can be at a time; 65 536 by default. An arena that is there stays what it is.
    pub fn arena_fragments(mut self, fragments: u32) -> Self {
        self.arena_fragments = fragments;
        self
    }

    /// What a thread that waits asks every few milliseconds: if it says true, the wait ends with [`Error::Interrupted`]. For
    /// bindings of languages that look for signals themselves.
    pub fn interrupt(mut self, asks: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.interrupt = Interrupt::new(asks);
        self
    }

    /// For the runtime of this node: names are those of the directory, whoever else keeps them.
    pub fn as_runtime(mut self) -> Self {
        self.is_runtime = true;
        self
    }

    /// Opens the objects of the directory, to create, write and read.
    ///
    /// # Errors
    /// [`Error::Untrusted`] if somebody else made what is there; [`Error::Region`] with the engine's `NoSpace` if the file system is
    /// full; those of the system.
    pub fn open(self) -> Result<Objects> {
        let trust = inspect::trust_to_write(self.trust)?;
        let directory = Directory::make(&self.dir, self.mode, trust)?;
        let missing = || Error::io("open", self.dir.join(".objects"), std::io::ErrorKind::NotFound.into());
        let bell = Bell::open(&directory)?.ok_or_else(missing)?;
        self.with(directory, bell, trust)
    }

    /// Opens the objects of the directory to read them only, which takes no right to write. `None` if nobody ever created any.
    ///
    /// # Errors
    /// As [`open`](ObjectsOptions::open).
    pub fn look(self) -> Result<Option<Objects>> {
        let trust = inspect::trust_to_look(&self.dir, self.trust)?;
        let Some(directory) = Directory::look(&self.dir, trust)? else { return Ok(None) };
        let Some(bell) = Bell::open(&directory)? else { return Ok(None) };
        self.with(directory, bell, trust).map(Some)
    }

    fn with(self, directory: Directory, bell: Bell, trust: Trust) -> Result<Objects> {
        let names: Arc<dyn Names> = match self.is_runtime {
            true => Arc::new(DirectoryNames::new(directory.clone(), bell.clone())),
            false => node_names(&directory, &bell, &self.interrupt),
        };
        let mut site = Site::new(directory, bell, trust, self.mode, self.arena_bytes, self.arena_fragments)?;
        (site.interrupt, site.asked_trust) = (self.interrupt, self.trust);
        Ok(Objects { site: Arc::new(site), names, has_own_names: true })
    }
}

/// The objects of a directory. Copies are the same.
#[derive(Debug, Clone)]
pub struct Objects {
    pub(crate) site: Arc<Site>,
    pub(crate) names: Arc<dyn Names>,
    /// Whether they are those of the directory, and not somebody else's.
    pub(crate) has_own_names: bool,
}

fn node_names(directory: &Directory, bell: &Bell, interrupt: &Interrupt) -> Arc<dyn Names> {
    let local = DirectoryNames::new(directory.clone(), bell.clone());
    Arc::new(NodeNames::new(directory.clone(), local, interrupt.clone()))
}

/// Options for creating an object; see [`Objects::create`].
#[derive(Debug)]
pub struct CreateOptions<'a> {
    objects: &'a Objects,
    name: String,
    text: String,
    bindings: BTreeMap<String, i64>,
    initial: u64,
}

impl CreateOptions<'_> {
    /// The number of a name that the text leaves open.
    pub fn bind(mut self, name: &str, value: i64) -> Self {
        self.bindings.insert(name.into(), value);
        self
    }

    /// The version that exists at once and is zeros; 0 by default.
    pub fn initial(mut self, version: u64) -> Self {
        self.initial = version;
        self
    }

    /// Creates the object, or finds the one that is there and the same. When it returns everybody finds it.
    ///
    /// # Errors
    /// [`Error::OtherText`] if there is one with another text, bindings or initial version; [`Error::Text`] with all
    /// mistakes; as [`open`](ObjectsOptions::open).
    pub fn create(self) -> Result<Object> {
        self.create_or_find().map(|(object, _)| object)
    }

    /// As [`create`](CreateOptions::create), and whether the object was not there before.
    ///
    /// # Errors
    /// As [`create`](CreateOptions::create).
    pub fn create_or_find(self) -> Result<(Object, bool)> {
        let CreateOptions { objects, name, text, bindings, initial } = self;
        check_new_name(&*objects.names, &name)?;
        let id = NonZeroU64::new(random_number()).unwrap_or(NonZeroU64::MIN);
        let asked = Description { text, bindings, initial, id };
        // Mistakes are told before anybody else sees the object.
        let schema = asked.schema(&name)?;
        let there = objects.names.put(&name, &asked)?;
        if !there.is_same(&asked) {
            return Err(Error::OtherText { name, there: there.shown(), asked: asked.shown() });
        }
        let is_new = there.id == id;
        // What is there says the same.
        Ok((objects.object(&name, there, schema), is_new))
    }
}

/// The number of a fragment that takes most digits.
const LONGEST_NUMBER: u32 = u32::MAX;

/// Refuses names of objects whose fragments could not have names, or that a fragment of another object has: either would keep the other from
/// being attached.
fn check_new_name(names: &dyn Names, name: &str) -> Result<()> {
    inspect::check_name(name)?;
    let refused = |why: String| {
        let (name, why) = (name.into(), why.into());
        Err(stillframe::Error::BadName { name, what: "object", why }.into())
    };
    for (at, _) in name.match_indices('/') {
        let (above, below) = (&name[..at], &name[at + 1..]);
        let part = below.split('/').next().unwrap_or(below);
        if shared::is_fragment(part) && names.get(above)?.is_some() && names.get(name)?.is_none() {
            return refused(format!(
                "there is an object '{above}', of which a fragment may be called '{above}/{part}': put another letter before '{part}'"
            ));
        }
    }
    match inspect::check_name(&format!("{name}/{LONGEST_NUMBER}")) {
        Ok(()) => Ok(()),
        Err(stillframe::Error::BadName { .. }) => {
            refused("with the number of a fragment, which takes up to 11 bytes, it is longer than 200 bytes".into())
        }
        Err(error) => Err(error.into()),
    }
}

impl Objects {
    /// Options for opening the objects of a directory.
    pub fn options() -> ObjectsOptions {
        let (arena_bytes, arena_fragments) = (ARENA_BYTES, ARENA_REGIONS);
        let (trust, interrupt) = (None, Interrupt::default());
        let (dir, mode, is_runtime) = (inspect::root(), 0o700, false);
        ObjectsOptions { dir, mode, trust, interrupt, arena_bytes, arena_fragments, is_runtime }
    }

    /// The nodes that have these objects together; `None` where they are one machine's, or its runtime does not run.
    ///
    /// # Errors
    /// [`Error::NoRuntime`] if it runs and does not answer.
    pub fn nodes(&self) -> Result<Option<Vec<NodeSummary>>> {
        runtime::nodes(&self.site.directory)
    }

    /// The groups of regions that the nodes have; `None` as for [`nodes`](Objects::nodes). A node that does not answer within a second
    /// is left out.
    ///
    /// # Errors
    /// As [`nodes`](Objects::nodes).
    pub fn groups(&self) -> Result<Option<Vec<GroupSummary>>> {
        runtime::groups(&self.site.directory)
    }

    /// Opens the objects of the default directory.
    ///
    /// # Errors
    /// As [`ObjectsOptions::open`].
    pub fn open() -> Result<Objects> {
        Objects::options().open()
    }

    /// The same, with names that somebody else keeps.
    pub fn with_names(self, names: Arc<dyn Names>) -> Objects {
        Objects { names, has_own_names: false, ..self }
    }

    /// What keeps the names.
    pub fn names(&self) -> &dyn Names {
        &*self.names
    }

    /// Which objects have news, for the runtime of this node.
    pub fn hints(&self) -> &Hints {
        &self.site.hints
    }

    /// The directory of regions.
    pub fn dir(&self) -> &Path {
        &self.site.directory.dir
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.site.directory
    }

    /// Creates an object: a name, and a text in the layout language that declares its variables, as
    /// `var grid [length,height] float64`.
    pub fn create(&self, name: &str, text: &str) -> CreateOptions<'_> {
        CreateOptions { objects: self, name: name.into(), text: text.into(), bindings: BTreeMap::new(), initial: 0 }
    }

    /// An object that is there.
    ///
    /// # Errors
    /// [`Error::NoObject`].
    pub fn object_named(&self, name: &str) -> Result<Object> {
        self.wait(name, Duration::ZERO)
    }

    /// An object that is there, or that comes within that time. Where this node has a runtime, the rest of the time is for it to hear what
    /// is complete on other nodes: when it has not, the object is what this node knows of it.
    ///
    /// # Errors
    /// [`Error::NoObject`]; that of a name that cannot be an object's.
    pub fn wait(&self, name: &str, timeout: Duration) -> Result<Object> {
        // A name that no object has could be that of another one's file.
        inspect::check_name(name)?;
        let deadline = Deadline::after(timeout);
        let found = if timeout.is_zero() { self.names.get(name)? } else { self.names.wait(name, timeout)? };
        let missing = || Error::NoObject { name: name.into(), dir: self.dir().into(), waited: timeout };
        let description = found.ok_or_else(missing)?;
        let schema = description.schema(name)?;
        let object = self.object(name, description, schema);
        object.wait_heard(deadline.left())?;
        Ok(object)
    }

    /// An object as its description says, whether this node has its name or not: for a runtime of which others want to know what it has
    /// of the object, and which cannot keep the name.
    ///
    /// # Errors
    /// [`Error::Text`]; that of a name that cannot be an object's.
    pub fn object_described(&self, name: &str, description: &Description) -> Result<Object> {
        inspect::check_name(name)?;
        let schema = description.schema(name)?;
        Ok(self.object(name, description.clone(), schema))
    }

    fn object(&self, name: &str, description: Description, schema: Schema) -> Object {
        Object::new(Shared::new(&self.site, &self.names, name, description, schema))
    }

    /// All names of objects, sorted.
    ///
    /// # Errors
    /// Those of what keeps the names.
    pub fn list(&self) -> Result<Vec<String>> {
        self.names.list()
    }

    /// The same for who changes something; see [`Site::writing`].
    pub(crate) fn writing(&self) -> Result<Objects> {
        if self.site.directory.is_writing() {
            return Ok(self.clone());
        }
        let site = self.site.writing()?;
        let names = match self.has_own_names {
            true => node_names(&site.directory, &site.bell, &site.interrupt),
            false => self.names.clone(),
        };
        Ok(Objects { site, names, has_own_names: self.has_own_names })
    }

    /// Removes what a runtime of this directory that was killed had filled with versions of other nodes: it takes memory, and no program that
    /// begins to read finds it. For a runtime, which holds the lock of runtimes.
    ///
    /// # Errors
    /// Those of the directory.
    pub fn remove_filled(&self) -> Result<()> {
        shared::remove_filled(&self.site)
    }
}
