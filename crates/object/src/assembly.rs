//! An object's versions as one region: each of its variables whole, in memory of this process.
//!
//! So whatever works with regions works with objects: checkpoints, exports, analysis. The region lies in an arena without a
//! name, which nobody finds who is not given it, and whose memory goes with the process.

use crate::description::Description;
use crate::error::{Error, Result};
use crate::layout;
use crate::object::Object;
use crate::read::ReadFragment;
use crate::runtime;
use crate::waiting::HEARD;
use drepl::Schema;
use drepl::dataset::LeafId;
use std::time::Duration;
use stillframe::{Arena, Attributes, DType, Declaration, Kind, Observer, Order, Outcome, Region, Snapshot, VariableId};
use stillframe_kernel::folder;

/// The version's attribute with the text of its object.
pub const TEXT: &str = "object";

/// The version's attribute with the numbers of the names that the text leaves open, as JSON.
pub const BINDINGS: &str = "object_bindings";

/// The version's attribute with the object's initial version, if that is not 0: an integer, or its digits where it is above 2^63 - 1.
pub const INITIAL: &str = "object_initial";

/// What the arena is called: the region is `object/NAME`.
pub const ARENA: &str = "object";

/// Addresses beside those of the variables.
const SPARE_BYTES: u64 = 64 << 20;

/// A variable of the region, and the fragment that fills it.
#[derive(Debug)]
struct Part {
    id: VariableId,
    fragment: ReadFragment,
}

/// An object whose versions are put together in a region.
#[derive(Debug)]
pub struct Assembly {
    region: Region,
    arena: Arena,
    attributes: Attributes,
    parts: Vec<Part>,
}

/// A variable of an object, or a field of one, as regions have it.
struct Leaf {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
}

fn leaves(schema: &Schema) -> impl Iterator<Item = Leaf> {
    let dataset = schema.dataset();
    dataset.leaves().iter().enumerate().map(|(number, leaf)| Leaf {
        name: dataset.leaf_name(LeafId(number as u32)),
        dtype: layout::dtype(leaf.primitive),
        shape: leaf.extents.iter().map(|extent| *extent as usize).collect(),
    })
}

impl Assembly {
    /// How many bytes all elements of a version take.
    pub fn version_bytes(object: &Object) -> u64 {
        let leaves = object.schema().dataset().leaves();
        leaves.iter().map(|leaf| leaf.elements() * leaf.primitive.size_bytes()).sum()
    }

    /// A region without a version, with room for `versions` of them at a time. Records become one variable for each of
    /// their fields, called `mesh.rho`.
    ///
    /// # Errors
    /// Environment if there is no memory for it.
    pub fn new(object: &Object, versions: usize) -> Result<Assembly> {
        let dataset = object.schema().dataset();
        let bytes = Assembly::version_bytes(object);
        // Each variable takes whole windows.
        let windows = (dataset.leaves().len() as u64 + 1) * (2 << 20);
        let length = (bytes + windows).saturating_mul(versions as u64 + 2).saturating_add(SPARE_BYTES);
        let file = folder::memory_file("stillframe-object").map_err(|error| Error::io("memfd_create", ARENA, error))?;
        let arena = Arena::options().bytes(length).regions(4).from_descriptor(file.into(), ARENA)?;
        let mut region = Region::options().arena(&arena).keep(versions).create(object.name())?;
        let mut parts = Vec::new();
        for Leaf { name, dtype, shape } in leaves(object.schema()) {
            let declaration = Declaration::new(&name, dtype, Kind::Loaned { shape });
            let id = region.declare(declaration)?;
            let fragment = object.read(&format!("{{ var v = {name} }}")).attach()?;
            parts.push(Part { id, fragment });
        }
        let description = object.description();
        let mut attributes = Attributes::new();
        attributes.insert(TEXT.into(), description.text.clone().into());
        if !description.bindings.is_empty() {
            let bindings = serde_json::to_string(&description.bindings).unwrap_or_default();
            attributes.insert(BINDINGS.into(), bindings.into());
        }
        match i64::try_from(description.initial) {
            Ok(0) => {}
            Ok(initial) => _ = attributes.insert(INITIAL.into(), initial.into()),
            // Integers of attributes have a sign.
            Err(_) => _ = attributes.insert(INITIAL.into(), description.initial.to_string().into()),
        }
        Ok(Assembly { region, arena, attributes, parts })
    }

    /// The arena in which the region lies, for who observes it: by the object's name.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The newest version that was put together.
    pub fn newest(&self) -> Option<u64> {
        self.region.newest()
    }

    /// Puts a version together and publishes it: waits at most so long until all of it was published.
    ///
    /// # Errors
    /// As [`ReadFragment::reattach`]; those of a publish. Then there is no new version.
    pub fn take(&mut self, version: u64, timeout: Duration) -> Result<()> {
        self.take_if(version, timeout, |_, _| true).map(drop)
    }

    /// As [`take`](Assembly::take), if that is wanted of a version that was published at this time, in nanoseconds since 1970, and
    /// has these attributes; whether it was. It is asked before anything is copied.
    ///
    /// # Errors
    /// As [`take`](Assembly::take).
    pub fn take_if(
        &mut self,
        version: u64,
        timeout: Duration,
        is_wanted: impl FnOnce(u64, &Attributes) -> bool,
    ) -> Result<bool> {
        let deadline = crate::waiting::Deadline::after(timeout);
        let mut published_ns = 0;
        let mut holds = Vec::with_capacity(self.parts.len());
        for part in &mut self.parts {
            let (hold, part_ns) = part.fragment.hold_at(version, deadline.left())?;
            published_ns = published_ns.max(part_ns);
            holds.push(hold);
        }
        if !is_wanted(published_ns, &self.attributes) {
            return Ok(false);
        }
        let mut loans = Vec::with_capacity(self.parts.len());
        for part in &mut self.parts {
            let mut loan = self.region.loan_bytes(part.id)?;
            part.fragment.fill(version, deadline.left(), &mut loan)?;
            loans.push(loan);
        }
        loans.into_iter().for_each(|loan| loan.submit());
        let mut publication = self.region.publish(version);
        if published_ns > 0 {
            publication = publication.published_ns(published_ns);
        }
        for (name, value) in &self.attributes {
            publication = publication.attr(name, value.clone());
        }
        match publication.commit()?.outcome {
            Outcome::Published => Ok(true),
            Outcome::Skipped => {
                let (name, why) = (self.region.name().into(), "there is no room for the version".into());
                Err(Error::Plan { name, why, is_timeout: true })
            }
        }
    }

    /// Looks at the region.
    ///
    /// # Errors
    /// Those of an observer.
    pub fn observe(&self) -> Result<Observer> {
        let name = self.region.name();
        let own = name.strip_prefix(ARENA).and_then(|name| name.strip_prefix('/')).unwrap_or(name);
        Ok(Observer::options().arena(&self.arena).open(own)?)
    }
}

/// Whether a version could be [adopted](Object::adopt) by an object that is described so and has no other: for who removes one
/// in its favour.
///
/// # Errors
/// [`Error::Text`]; [`Error::Variable`] if a variable is missing or has another shape or type; [`Error::NotIncreasing`] if it is not
/// above the initial version.
pub fn check(name: &str, description: &Description, snapshot: &Snapshot) -> Result<()> {
    check_variables(name, &description.schema(name)?, snapshot)?;
    let (version, newest) = (snapshot.version(), description.initial);
    match version {
        u64::MAX => Err(Error::GreatestNumber { name: name.into() }),
        _ if version <= newest => Err(Error::NotIncreasing { name: name.into(), version, newest }),
        _ => Ok(()),
    }
}

fn check_variables(object: &str, schema: &Schema, snapshot: &Snapshot) -> Result<()> {
    for Leaf { name, dtype, shape } in leaves(schema) {
        let found = snapshot.variable(&name)?;
        let is_ordered = found.order == Order::C || shape.len() < 2;
        if found.dtype != dtype || found.shape != shape || !is_ordered {
            let found = format!("'{name}' of {} with shape {:?}", found.dtype, found.shape);
            return Err(Error::Variable { name: object.into(), found, wanted: format!("{dtype} with {shape:?}") });
        }
    }
    Ok(())
}

impl Object {
    /// Publishes a version that was put together earlier, as one that was restored from a checkpoint: one fragment with all
    /// elements, which is detached again, so that any number of writers attach at it.
    ///
    /// # Errors
    /// [`Error::Variable`] if a variable is missing or has another shape or type; [`Error::Survives`] if anybody has written the object, whose
    /// versions stay as they are; [`Error::NoRuntime`] if this node's runtime has ended, which would tell the others of it, and may be started
    /// again; as [`attach`](crate::WriteOptions::attach) and [`publish`](crate::WriteFragment::publish).
    pub fn adopt(&self, snapshot: &Snapshot) -> Result<()> {
        check_variables(self.name(), self.schema(), snapshot)?;
        let leaves: Vec<Leaf> = leaves(self.schema()).collect();
        let mut text = String::from("{ ");
        for (number, Leaf { name, .. }) in leaves.iter().enumerate() {
            text.push_str(&format!("var v{number} = {name}; "));
        }
        text.push('}');
        self.check_runtime()?;
        let mut fragment = self.write(&text).first().wait(Duration::ZERO).attach()?;
        // Who attached without a runtime does not know whether the fragment counts.
        self.check_runtime()?;
        let places: Vec<usize> =
            fragment.fragment().variables().iter().map(|variable| variable.offset_bytes as usize).collect();
        for (Leaf { name, .. }, at) in leaves.iter().zip(places) {
            let bytes = snapshot.variable(name)?.bytes;
            snapshot.read(name, 0, &mut fragment.bytes_mut()?[at..at + bytes])?;
        }
        // Whoever saves it once more finds that it is the version that was saved.
        fragment.publish_of(snapshot.version(), Some(snapshot.published_ns()))?;
        fragment.detach()?;
        // Who comes next begins with the newest complete version.
        match self.check_runtime()? {
            true => self.wait_for(snapshot.version(), HEARD),
            false => Ok(()),
        }
    }

    /// Whether this node has a runtime, which runs.
    fn check_runtime(&self) -> Result<bool> {
        let directory = &self.shared().site.directory;
        let is_expected = runtime::is_expected(directory)?;
        if is_expected && !runtime::is_running(directory)? {
            let why = format!("nobody says whether what is put into object '{}' is complete", self.name());
            return Err(runtime::failed(directory, why));
        }
        Ok(is_expected)
    }
}
