//! The beginning of a conversation: each side says what it is, and by one rule both find out whether they can talk.
//!
//! The form of [`Hello`] and [`Refuse`] never changes, whatever the protocol: they are read before one is agreed on. What a later
//! protocol has to say besides is said in messages of its own.

use std::fmt;

use stillframe_roster::writer::Node;

use crate::{bounds::NAME_BYTES_MAX, fault::Fault, item::Item, reader::Reader, writer::Writer};

/// The protocol of this version.
pub const PROTOCOL: u16 = 12;

/// Protocols that a runtime speaks: all from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocols {
    /// The oldest.
    pub least: u16,
    /// The newest.
    pub most: u16,
}

impl Protocols {
    /// Those that this version speaks.
    pub const OWN: Self = Self { least: PROTOCOL, most: PROTOCOL };
}

impl fmt::Display for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most { write!(f, "{}", self.least) } else { write!(f, "{} to {}", self.least, self.most) }
    }
}

/// The first message of each side.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hello {
    /// What it speaks.
    pub protocols: Protocols,
    /// The job that it belongs to.
    pub job: String,
    /// Its number.
    pub node: Node,
    /// Its host, for people.
    pub name: String,
    /// A number that the runtime chose at random when it began, and told who keeps the names: it tells one start of a runtime from every
    /// other, whatever their numbers and addresses.
    pub incarnation: u128,
    /// The format of its regions.
    pub abi: u32,
}

/// The last message to one that cannot be talked to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Refuse {
    /// Why, for people: at most [`NAME_BYTES_MAX`] bytes.
    pub why: String,
}

/// The protocol of two runtimes: the newest that both speak. Both come to the same, each from its side.
///
/// # Errors
///
/// [`Fault::Protocols`], [`Fault::Job`], [`Fault::Node`] and [`Fault::Abi`], which is what the side that finds out sends in
/// [`Refuse`].
pub fn agree(own: &Hello, theirs: &Hello) -> Result<u16, Fault> {
    let least = own.protocols.least.max(theirs.protocols.least);
    let most = own.protocols.most.min(theirs.protocols.most);
    if least > most {
        return Err(Fault::Protocols { own: own.protocols, theirs: theirs.protocols });
    }
    if own.job != theirs.job {
        return Err(Fault::Job { own: own.job.clone(), theirs: theirs.job.clone() });
    }
    if own.node == theirs.node {
        return Err(Fault::Node { node: own.node, own: own.name.clone(), theirs: theirs.name.clone() });
    }
    if own.abi != theirs.abi {
        return Err(Fault::Abi { own: own.abi, theirs: theirs.abi });
    }
    Ok(most)
}

impl Item for Hello {
    const LEAST_BYTES: usize = 36;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.protocols.least);
        to.item(&self.protocols.most);
        to.item(&self.node);
        to.item(&self.abi);
        to.item(&self.incarnation);
        to.text(&self.job);
        to.text(&self.name);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        let protocols = Protocols { least: from.item()?, most: from.item()? };
        from.check(protocols.least <= protocols.most, offset, "the oldest protocol is newer than the newest")?;
        Ok(Self {
            protocols,
            node: from.item()?,
            abi: from.item()?,
            incarnation: from.item()?,
            job: from.text("a job's name", 0, NAME_BYTES_MAX)?,
            name: from.text("a host's name", 0, NAME_BYTES_MAX)?,
        })
    }
}

impl Item for Refuse {
    const LEAST_BYTES: usize = 4;

    fn write(&self, to: &mut Writer<'_>) {
        to.text(&self.why);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { why: from.text("a reason", 0, NAME_BYTES_MAX)? })
    }
}
