//! Ranks of a group of regions: who has which, and their versions on the way to another node.

use crate::{
    bounds::{NAME_BYTES_MAX, RANKS_MAX, TEXT_BYTES_MAX},
    fault::Fault,
    item::{Item, records},
    reader::Reader,
    writer::Writer,
};

/// Asks a node to tell of its ranks of a group from now on, or to do so no more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupName {
    /// The group.
    pub group: String,
}

/// What a node says of its ranks, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRanks {
    /// The group.
    pub group: String,
    /// How many ranks all nodes together have; 0 if this one has none.
    pub size: u32,
    /// Its ranks of the run that began last, by their numbers.
    pub ranks: Vec<RankTold>,
    /// Runs of which it has versions or ranks, by their numbers.
    pub runs: Vec<RunTold>,
    /// Versions that all of these ranks have, ascending, each of one run.
    pub versions: Vec<RankVersion>,
}

records! {
    /// A rank, as its node knows it.
    RankTold, 15 {
        /// Which.
        rank: u32,
        /// Whether its producer lives.
        lives: bool,
        /// Whether its producer ended by itself.
        ended: bool,
        /// Since when the producer is there, in nanoseconds before this was said.
        begun_ago_ns: u64,
        /// Its newest version.
        newest: Option<u64>,
    }

    /// From when to when a run was seen on a node. Times are counted back from when this was said, for clocks need not agree.
    RunTold, 24 {
        /// Which.
        run: u64,
        /// Nanoseconds since it was first seen.
        begun_ago_ns: u64,
        /// Nanoseconds since it was last seen: 0 while a rank of it lives.
        seen_ago_ns: u64,
    }

    /// A version that all ranks of a node have.
    RankVersion, 16 {
        /// Its number.
        version: u64,
        /// The run that published it.
        run: u64,
    }

    /// Bytes of a variable: those of the frame's bulk.
    GroupPiece, 24 {
        /// For which request.
        fetch: u64,
        /// Of which rank.
        rank: u32,
        /// Of which of its variables, in the order of their declarations.
        variable: u32,
        /// Where the bytes begin in the variable.
        offset: u64,
    }

    /// Asks a node which groups it has ranks of.
    GroupList, 8 {
        /// How the answer is known.
        number: u64,
    }

    /// All of a rank's version was sent.
    GroupSent, 12 {
        /// For which request.
        fetch: u64,
        /// Which rank.
        rank: u32,
    }
}

/// Asks for a version of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupGet {
    /// How both sides call it from now on: the asking side has no other of this number.
    pub fetch: u64,
    /// The group.
    pub group: String,
    /// Which version.
    pub version: u64,
    /// The run that published it.
    pub run: u64,
    /// Of which of the node's ranks, ascending. Of none, if what was asked for with this number is called off.
    pub ranks: Vec<u32>,
}

/// What a version of a rank consists of. Its bytes follow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupRank {
    /// For which request.
    pub fetch: u64,
    /// Of which rank.
    pub rank: u32,
    /// When it was published, in nanoseconds since 1970.
    pub published_ns: u64,
    /// Attributes of the version, and declarations and shapes of its variables, in JSON.
    pub content: String,
}

/// A version of a rank cannot be had. Others may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupLost {
    /// For which request.
    pub fetch: u64,
    /// Which rank.
    pub rank: u32,
    /// Why, for people.
    pub why: String,
}

/// All groups of which a node has ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListed {
    /// What was asked.
    pub number: u64,
    /// How its ranks of each are.
    pub groups: Vec<GroupRanks>,
}

impl Item for GroupListed {
    const LEAST_BYTES: usize = 12;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.number);
        to.item(&self.groups);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { number: from.item()?, groups: from.item()? })
    }
}

fn read_group(from: &mut Reader<'_>) -> Result<String, Fault> {
    from.text("a group", 1, NAME_BYTES_MAX)
}

impl Item for GroupName {
    const LEAST_BYTES: usize = 5;

    fn write(&self, to: &mut Writer<'_>) {
        to.text(&self.group);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { group: read_group(from)? })
    }
}

impl Item for GroupRanks {
    const LEAST_BYTES: usize = 21;

    fn write(&self, to: &mut Writer<'_>) {
        to.text(&self.group);
        to.item(&self.size);
        to.item(&self.ranks);
        to.item(&self.runs);
        to.item(&self.versions);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let group = read_group(from)?;
        let offset = from.at();
        let size: u32 = from.item()?;
        let most = RANKS_MAX;
        if size > most {
            let (found, most) = (u64::from(size), u64::from(most));
            return Err(Fault::Bound { kind: from.kind(), offset, what: "ranks", found, most });
        }
        let offset = from.at();
        let ranks: Vec<RankTold> = from.ascending(|told: &RankTold| told.rank, "ranks do not ascend")?;
        from.check(ranks.last().is_none_or(|last| last.rank < size), offset, "a rank is not below their number")?;
        let both = |told: &RankTold| told.lives && told.ended;
        from.check(!ranks.iter().any(both), offset, "a rank that lives has ended")?;
        let runs = from.ascending(|told: &RunTold| told.run, "runs do not ascend")?;
        let versions = from.ascending(|told: &RankVersion| told.version, "versions do not ascend")?;
        Ok(Self { group, size, ranks, runs, versions })
    }
}

impl Item for GroupGet {
    const LEAST_BYTES: usize = 33;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.fetch);
        to.text(&self.group);
        to.item(&self.version);
        to.item(&self.run);
        to.item(&self.ranks);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (fetch, group) = (from.item()?, read_group(from)?);
        let (version, run) = (from.item()?, from.item()?);
        Ok(Self { fetch, group, version, run, ranks: from.ascending(|rank: &u32| *rank, "ranks do not ascend")? })
    }
}

impl Item for GroupRank {
    const LEAST_BYTES: usize = 24;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.fetch);
        to.item(&self.rank);
        to.item(&self.published_ns);
        to.text(&self.content);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (fetch, rank, published_ns) = (from.item()?, from.item()?, from.item()?);
        Ok(Self { fetch, rank, published_ns, content: from.text("a version's content", 0, TEXT_BYTES_MAX)? })
    }
}

impl Item for GroupLost {
    const LEAST_BYTES: usize = 16;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.fetch);
        to.item(&self.rank);
        to.text(&self.why);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (fetch, rank) = (from.item()?, from.item()?);
        Ok(Self { fetch, rank, why: from.text("a reason", 0, NAME_BYTES_MAX)? })
    }
}
