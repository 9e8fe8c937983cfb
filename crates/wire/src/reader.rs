//! Bytes into values, none of which is believed before it was looked at.

use std::{collections::BTreeSet, sync::Arc};

use stillframe_roster::writer::{Elements, Node};

use crate::{
    bounds::{COMPARISONS_MAX, MEMORY_FACTOR},
    fault::Fault,
    item::Item,
    kind::Kind,
    writer::Writer,
};

/// Takes values from a body, from its begin on.
///
/// Memory is accounted for before it is taken: in all never more than [`MEMORY_FACTOR`] bytes for each of the body. What a sound
/// message takes stays far below, for every item has a least length on the wire. So only numbers that lie are stopped by it.
pub(crate) struct Reader<'a> {
    kind: Kind,
    bytes: &'a [u8],
    at: usize,
    memory_bytes: usize,
    /// Comparisons of boxes that may still be made.
    pub(crate) comparisons: u64,
    /// What was written out before, for what names it.
    pub(crate) sets: Vec<Elements>,
    pub(crate) nodes: Vec<Arc<BTreeSet<Node>>>,
    /// Made at most once: without elements, without nodes.
    pub(crate) no_elements: Option<Elements>,
    pub(crate) no_nodes: Option<Arc<BTreeSet<Node>>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(kind: Kind, bytes: &'a [u8]) -> Self {
        Self {
            kind,
            bytes,
            at: 0,
            memory_bytes: bytes.len() * MEMORY_FACTOR,
            comparisons: COMPARISONS_MAX,
            sets: Vec::new(),
            nodes: Vec::new(),
            no_elements: None,
            no_nodes: None,
        }
    }

    /// Of which message.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The offset of what is read next.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn invalid(&self, offset: usize, what: &'static str) -> Fault {
        Fault::Invalid { kind: self.kind, offset, what }
    }

    /// A fault unless it holds. `offset` is of what is wrong.
    pub(crate) fn check(&self, holds: bool, offset: usize, what: &'static str) -> Result<(), Fault> {
        if holds { Ok(()) } else { Err(self.invalid(offset, what)) }
    }

    pub(crate) fn end(self) -> Result<(), Fault> {
        match self.left() {
            0 => Ok(()),
            bytes => Err(Fault::Rest { kind: self.kind, offset: self.at, bytes }),
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.at..];
        let missing = count.saturating_sub(rest.len());
        let taken = rest.get(..count).ok_or(Fault::Short { kind: self.kind, offset: self.at, missing })?;
        self.at += count;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Fault> {
        match self.bytes[self.at..].first_chunk() {
            Some(chunk) => {
                self.at += COUNT;
                Ok(*chunk)
            }
            None => {
                let missing = COUNT - self.left();
                Err(Fault::Short { kind: self.kind, offset: self.at, missing })
            }
        }
    }

    #[inline]
    pub(crate) fn item<T: Item>(&mut self) -> Result<T, Fault> {
        T::read(self)
    }

    /// A number of items that follow, each of at least so many bytes.
    pub(crate) fn count(&mut self, least_bytes: usize) -> Result<usize, Fault> {
        let offset = self.at;
        let count = self.item::<u32>()? as usize;
        let wanted = count.saturating_mul(least_bytes);
        match wanted.saturating_sub(self.left()) {
            0 => Ok(count),
            missing => Err(Fault::Short { kind: self.kind, offset, missing }),
        }
    }

    /// Accounts for memory that will be taken. `offset` is of the number that asks for it.
    pub(crate) fn charge(&mut self, bytes: usize, offset: usize) -> Result<(), Fault> {
        self.memory_bytes =
            self.memory_bytes.checked_sub(bytes).ok_or(Fault::Memory { kind: self.kind, offset, bytes })?;
        Ok(())
    }

    /// Memory that was charged is free again.
    pub(crate) fn refund(&mut self, bytes: usize) {
        self.memory_bytes += bytes;
    }

    /// A fault unless an item, which was read from the bytes between two offsets, has just these. It has to name nothing that was written
    /// out before.
    pub(crate) fn again(
        &mut self,
        begin: usize,
        end: usize,
        item: &impl Item,
        what: &'static str,
    ) -> Result<(), Fault> {
        let read = &self.bytes[begin..end];
        self.charge(read.len(), begin)?;
        let mut again = Vec::new();
        again.try_reserve_exact(read.len()).map_err(|_| Fault::Memory {
            kind: self.kind,
            offset: begin,
            bytes: read.len(),
        })?;
        item.write(&mut Writer::new(&mut again));
        self.refund(read.len());
        self.check(again == read, begin, what)
    }

    /// An empty list with room for so many.
    pub(crate) fn room<T>(&mut self, count: usize, offset: usize) -> Result<Vec<T>, Fault> {
        let bytes = count.saturating_mul(size_of::<T>());
        self.charge(bytes, offset)?;
        let mut list = Vec::new();
        list.try_reserve_exact(count).map_err(|_| Fault::Memory { kind: self.kind, offset, bytes })?;
        Ok(list)
    }

    /// A list that begins with its number of items.
    pub(crate) fn list<T: Item>(&mut self) -> Result<Vec<T>, Fault> {
        let offset = self.at;
        let count = self.count(T::LEAST_BYTES)?;
        let mut list = self.room(count, offset)?;
        for _ in 0..count {
            list.push(self.item()?);
        }
        Ok(list)
    }

    /// A list whose items ascend, each by what `key` makes of it; `what` says so if they do not.
    pub(crate) fn ascending<T: Item, K: PartialOrd>(
        &mut self,
        key: impl Fn(&T) -> K,
        what: &'static str,
    ) -> Result<Vec<T>, Fault> {
        let offset = self.at;
        let list = self.list()?;
        self.check(list.windows(2).all(|two| key(&two[0]) < key(&two[1])), offset, what)?;
        Ok(list)
    }

    /// A text of at most so many bytes, and at least so many.
    pub(crate) fn text(&mut self, what: &'static str, least: usize, most: usize) -> Result<String, Fault> {
        let offset = self.at;
        let count = self.item::<u32>()? as usize;
        if count > most {
            return Err(Fault::Bound { kind: self.kind, offset, what, found: count as u64, most: most as u64 });
        }
        self.check(count >= least, offset, "a name is empty")?;
        let begin = self.at;
        let bytes = self.take(count)?;
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let offset = begin + error.valid_up_to();
            self.invalid(offset, "a text is not UTF-8")
        })?;
        self.charge(count, offset)?;
        Ok(text.into())
    }
}
