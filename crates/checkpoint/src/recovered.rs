//! What was recovered, for reading what the arrays of a program do not have by themselves.

use crate::origin::Origin;
use crate::repartition::{self, Piece};
use crate::{Checkpoint, Error, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use stillframe::{
    Attributes, Block, DType, Element, Group, Kind, ObserverOptions, Order, Part, Region, Snapshot, VariableId,
};

/// Bytes that are compared at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// What was recovered, apart from the region: it reads what the arrays of the program do not have by themselves, until the
/// first version is published.
#[derive(Debug)]
pub struct Recovered {
    pub(crate) origin: Origin,
    pub(crate) attributes: Attributes,
    pub(crate) skipped: Vec<String>,
    /// Rank and number of ranks of this run.
    pub(crate) rank: Option<(u32, u32)>,
    pub(crate) source: Source,
}

/// A variable of the recovered version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredVariable {
    /// Its name.
    pub name: String,
    /// Type of its elements.
    pub dtype: DType,
    /// Its extents: those of the global array if ranks had parts of one.
    pub shape: Vec<usize>,
}

/// Where the recovered version can be read.
#[derive(Debug)]
pub(crate) enum Source {
    Nothing,
    /// In the directory of regions, under the name that the region or group has.
    Region {
        observing: ObserverOptions,
        dir: PathBuf,
        name: String,
        version: u64,
    },
    /// Held: what a group of another number of ranks left.
    Held(Arc<[Snapshot]>),
    Files(Box<Checkpoint>),
}

/// A variable as one of the ranks stored it.
struct StoredVariable {
    rank: usize,
    dtype: DType,
    piece: Piece,
    is_part: bool,
}

/// The recovered version, opened for reading.
enum Reader<'a> {
    Memory(Vec<Snapshot>),
    Files(&'a Checkpoint),
}

impl Reader<'_> {
    fn rank(&self, rank: usize) -> Option<u32> {
        match self {
            Reader::Files(checkpoint) => checkpoint.manifest().ranks.map(|_| rank as u32),
            Reader::Memory(_) => None,
        }
    }

    /// The names of all variables that any rank stored.
    fn names(&self) -> BTreeSet<String> {
        match self {
            Reader::Memory(ranks) => ranks.iter().flat_map(Snapshot::variables).map(|v| v.name.clone()).collect(),
            Reader::Files(checkpoint) => checkpoint.manifest().variables.iter().map(|v| v.name.clone()).collect(),
        }
    }

    /// The variable of this name, as far as ranks stored it.
    fn stored(&self, name: &str) -> Result<Vec<StoredVariable>> {
        let stored = |rank: usize, dtype: &DType, order, shape: &[usize], part: Option<Part>| {
            let is_part = part.is_some();
            let part = part.unwrap_or(Part { offset: vec![0; shape.len()], global_shape: shape.to_vec() });
            // A part that reaches out of its array has no place in it.
            part.check(shape).map_err(|why| stillframe::Error::WrongShape { name: name.into(), why })?;
            Ok(StoredVariable {
                rank,
                dtype: dtype.clone(),
                piece: Piece { part, shape: shape.to_vec(), order },
                is_part,
            })
        };
        match self {
            Reader::Memory(ranks) => ranks
                .iter()
                .enumerate()
                .filter_map(|(rank, snapshot)| Some((rank, snapshot.variables().iter().find(|v| v.name == name)?)))
                .map(|(rank, view)| stored(rank, &view.dtype, view.order, &view.shape, view.part()?))
                .collect(),
            Reader::Files(checkpoint) => checkpoint
                .manifest()
                .variables
                .iter()
                .filter(|variable| variable.name == name)
                .map(|variable| {
                    let wrong = |why| stillframe::Error::WrongShape { name: name.into(), why };
                    let part = Part::of(&variable.attributes).map_err(wrong)?;
                    stored(variable.rank.unwrap_or(0) as usize, &variable.dtype, variable.order, &variable.shape, part)
                })
                .collect(),
        }
    }

    fn read(&self, name: &str, rank: usize, range: Range<usize>, out: &mut [u8]) -> Result<()> {
        match self {
            Reader::Files(checkpoint) => checkpoint.read(self.rank(rank), name, range, out),
            Reader::Memory(ranks) => {
                out.copy_from_slice(&ranks[rank].view(name)?[range]);
                Ok(())
            }
        }
    }
}

impl Recovered {
    /// What the run goes on from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The version the run goes on from; `None` if it begins with nothing.
    pub fn version(&self) -> Option<u64> {
        self.origin.version()
    }

    /// The attributes of that version: of the rank itself, or of rank 0 if the number of ranks is another one.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// What would have been newer and is damaged, in words.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Whether each rank has what it had.
    fn is_as_it_was(&self) -> bool {
        matches!(self.source, Source::Nothing | Source::Region { .. })
    }

    fn reader(&self, name: &str) -> Result<Reader<'_>> {
        Ok(match &self.source {
            Source::Nothing => return Err(Error::NothingRecovered { name: name.into() }),
            Source::Held(ranks) => Reader::Memory(ranks.to_vec()),
            Source::Files(checkpoint) => Reader::Files(checkpoint),
            Source::Region { observing, dir, name, version } => match self.rank {
                None => Reader::Memory(vec![observing.clone().open(name)?.version(*version)?]),
                Some(_) => {
                    Reader::Memory(Group::options().dir(dir).here().open(name)?.version(*version)?.ranks().to_vec())
                }
            },
        })
    }

    /// Reads a box of a variable of the recovered version into `out`, row-major: of the global array, if the variable is a
    /// part of one, from whichever ranks have it; else of the variable of this rank. For tracked arrays, and for any other
    /// number of ranks. It works until the first version is published.
    ///
    /// Where parts overlap, [`Part::owned`] says whose elements count. A variable that is no part and was stored by another
    /// number of ranks is read if it is the same on all of them.
    ///
    /// # Errors
    /// Misuse if there is no such variable, of another type, or the box reaches beyond it; [`Error::Uncovered`];
    /// [`Error::PerRank`]; [`Error::NothingRecovered`] if the run begins with nothing; those of reading a checkpoint.
    pub fn read<T: Element>(&self, name: &str, offset: &[usize], shape: &[usize], out: &mut [T]) -> Result<()> {
        self.read_bytes(name, &T::dtype(), Order::C, Some(offset), shape, bytemuck::cast_slice_mut(out))
    }

    /// As [`read`](Recovered::read), for elements of any type in any order; `out` has as many bytes as the box. Without an offset the
    /// box is all of the array.
    ///
    /// # Errors
    /// As [`read`](Recovered::read), and misuse if there is no offset and the array had another shape: a program on a coarser grid would
    /// go on with a corner of the finer one.
    pub fn read_bytes(
        &self,
        name: &str,
        dtype: &DType,
        order: Order,
        offset: Option<&[usize]>,
        shape: &[usize],
        out: &mut [u8],
    ) -> Result<()> {
        let reader = self.reader(name)?;
        let mut stored = reader.stored(name)?;
        let Some(first) = stored.first() else { return Err(self.unknown(&reader, name)) };
        if let Some(other) = stored.iter().find(|stored| stored.dtype != *dtype) {
            let (expected, found) = (dtype.clone(), other.dtype.clone());
            return Err(stillframe::Error::WrongDType { name: name.into(), expected, found }.into());
        }
        if !first.is_part {
            let rank = match (self.is_as_it_was(), self.rank) {
                (true, rank) => rank.map_or(0, |(rank, _)| rank as usize),
                (false, _) => {
                    self.check_same(&reader, name, &stored)?;
                    first.rank
                }
            };
            stored.retain(|stored| stored.rank == rank);
        } else {
            // Ranks that say nothing of where theirs lies have no place in the global array.
            let global_shape = first.piece.part.global_shape.clone();
            stored.retain(|stored| stored.is_part && stored.piece.part.global_shape == global_shape);
        }
        let Some(first) = stored.first() else { return Err(self.unknown(&reader, name)) };
        let global_shape = first.piece.part.global_shape.clone();
        let wrong = |why| Error::Engine(stillframe::Error::WrongShape { name: name.into(), why });
        if offset.is_none() && global_shape != shape {
            return Err(wrong(format!(
                "it had shape {global_shape:?} in the version that was recovered, and all of it is to be read as {shape:?}: give the \
                 offset of the box that the program wants"
            )));
        }
        let wanted = Part { offset: offset.map_or_else(|| vec![0; shape.len()], <[usize]>::to_vec), global_shape };
        wanted.check(shape).map_err(wrong)?;
        let bytes = shape.iter().product::<usize>() * dtype.bytes();
        if out.len() != bytes {
            let found = out.len();
            return Err(wrong(format!("shape {shape:?} of {dtype} is {bytes} bytes, and the memory has {found}")));
        }
        let pieces: Vec<Piece> = stored.iter().map(|stored| stored.piece.clone()).collect();
        repartition::read(name, dtype, &pieces, &Block::new(&wanted.offset, shape), order, out, |index, range, to| {
            reader.read(name, stored[index].rank, range, to)
        })
    }

    /// The type and the shape of what [`read_bytes`](Recovered::read_bytes) reads of a variable without an offset.
    ///
    /// # Errors
    /// Misuse if there is no such variable; [`Error::NothingRecovered`] if the run begins with nothing; those of reading a checkpoint.
    pub fn describe(&self, name: &str) -> Result<(DType, Vec<usize>)> {
        self.describe_in(&self.reader(name)?, name)
    }

    fn describe_in(&self, reader: &Reader, name: &str) -> Result<(DType, Vec<usize>)> {
        let stored = reader.stored(name)?;
        let own = self.rank.filter(|_| self.is_as_it_was()).map(|(rank, _)| rank as usize);
        let own = stored.iter().find(|stored| Some(stored.rank) == own && !stored.is_part);
        let found = own.or(stored.first()).ok_or_else(|| self.unknown(reader, name))?;
        Ok((found.dtype.clone(), found.piece.part.global_shape.clone()))
    }

    /// The variables of the recovered version by name, as [`describe`](Recovered::describe) tells each; of a group all that any of
    /// its ranks had. None if the run begins with nothing.
    ///
    /// # Errors
    /// Those of reading a checkpoint, or of what is in memory.
    pub fn variables(&self) -> Result<Vec<RecoveredVariable>> {
        if let Source::Nothing = self.source {
            return Ok(Vec::new());
        }
        let reader = self.reader("")?;
        let describe = |name: String| {
            self.describe_in(&reader, &name).map(|(dtype, shape)| RecoveredVariable { name, dtype, shape })
        };
        reader.names().into_iter().map(describe).collect()
    }

    fn unknown(&self, reader: &Reader, name: &str) -> Error {
        let known = reader.names().into_iter().collect();
        let region = match reader {
            Reader::Memory(ranks) => ranks.first().map_or(String::new(), |rank| rank.region().into()),
            Reader::Files(checkpoint) => checkpoint.manifest().region.clone(),
        };
        stillframe::Error::UnknownVariable { region, name: name.into(), known }.into()
    }

    /// Fails if a variable that is no part is not the same on all ranks that stored it.
    fn check_same(&self, reader: &Reader, name: &str, stored: &[StoredVariable]) -> Result<()> {
        let ranks = self.rank.map_or(1, |(_, ranks)| ranks);
        let differs = || Error::PerRank { name: name.into(), stored: stored.len() as u32, ranks };
        let Some((first, others)) = stored.split_first() else { return Ok(()) };
        let bytes = first.piece.shape.iter().product::<usize>() * first.dtype.bytes();
        let (mut left, mut right) = (vec![0; BLOCK_BYTES.min(bytes)], vec![0; BLOCK_BYTES.min(bytes)]);
        for other in others {
            if other.is_part || other.piece.shape != first.piece.shape || other.piece.order != first.piece.order {
                return Err(differs());
            }
            for start in (0..bytes).step_by(BLOCK_BYTES) {
                let end = bytes.min(start + BLOCK_BYTES);
                reader.read(name, first.rank, start..end, &mut left[..end - start])?;
                reader.read(name, other.rank, start..end, &mut right[..end - start])?;
                if left[..end - start] != right[..end - start] {
                    return Err(differs());
                }
            }
        }
        Ok(())
    }

    /// Gives a managed variable its content: its box of the global array if it is a part of one, else all of it. What it has
    /// by itself, because the run has as many ranks and the same parts, is left as it is; when the run begins with nothing, all
    /// is.
    ///
    /// # Errors
    /// As [`read`](Recovered::read), and misuse if the variable is not managed, or the global array has another shape than the
    /// recovered version's: which element goes where only the program knows, and says by [`read`](Recovered::read).
    pub fn fill(&self, region: &mut Region, id: VariableId) -> Result<()> {
        let declared = region.declared(id)?;
        let Kind::Managed { shape } = &declared.kind else {
            let found = if declared.kind == Kind::Tracked { "tracked" } else { "loaned" };
            return Err(stillframe::Error::WrongKind { name: declared.name, expected: "managed", found }.into());
        };
        if let Source::Nothing = self.source {
            return Ok(());
        }
        let name = &declared.name;
        let wrong = |why| Error::Engine(stillframe::Error::WrongShape { name: name.clone(), why });
        let part = Part::of(&declared.attributes).map_err(wrong)?;
        let reader = self.reader(name)?;
        if self.is_as_it_was() {
            let own = self.rank.map_or(0, |(rank, _)| rank as usize);
            let is_same = |stored: &StoredVariable| {
                stored.rank == own
                    && stored.dtype == declared.dtype
                    && stored.piece.order == declared.order
                    && stored.piece.shape == *shape
                    && part.as_ref().is_none_or(|part| *part == stored.piece.part || !stored.is_part)
            };
            if reader.stored(name)?.iter().any(is_same) {
                return Ok(());
            }
        }
        let stored = reader.stored(name)?;
        let part = part.unwrap_or(Part { offset: vec![0; shape.len()], global_shape: shape.clone() });
        if let Some(found) = stored.iter().find(|stored| stored.is_part).or(stored.first())
            && found.piece.part.global_shape != part.global_shape
        {
            let (declared, found) = (&part.global_shape, &found.piece.part.global_shape);
            return Err(wrong(format!(
                "the whole array has shape {declared:?}, and had {found:?} in the version that was recovered: read the box that \
                 the program wants, or declare the array as it was"
            )));
        }
        let offset = part.offset;
        drop((stored, reader));
        self.read_bytes(name, &declared.dtype, declared.order, Some(&offset), shape, region.bytes_mut(id)?)
    }
}
