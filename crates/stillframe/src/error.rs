//! What can go wrong, and what to do about it.

mod conversion;
mod text;

use crate::DType;
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;
use stillframe_kernel::Failure;
use stillframe_kernel::trust::Distrust;
use stillframe_segment::{Corrupt, PAGE_BYTES};
pub use text::RanksElsewhere;
use text::{above, beyond, holdings, list, number, range, slowness, what_is_in_use, within};

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Which of three things happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// The calling program asked for something that makes no sense.
    Misuse,
    /// The machine, its limits or another process are in the way.
    Environment,
    /// Shared files hold something that no healthy producer writes.
    Corrupt,
}

/// Everything that can go wrong. No error leaves a region or a snapshot half changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that cannot be a region's or a variable's.
    #[error("'{name}' cannot name a {what}: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What it was to name.
        what: &'static str,
        /// Which rule it breaks.
        why: Cow<'static, str>,
    },
    /// An option with a value that makes no sense.
    #[error("option {option}: {why}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Versions must increase.
    #[error(
        "version {version} does not follow version {newest} of region '{region}': publish a higher number, or begin afresh if the newest is a former run's"
    )]
    NotIncreasing {
        /// The region.
        region: String,
        /// The number given.
        version: u64,
        /// The number of the newest version.
        newest: u64,
    },
    /// A variable that the region, or this version of it, does not have.
    #[error("region '{region}' has no variable '{name}'; it has {}", list(.known))]
    UnknownVariable {
        /// The region.
        region: String,
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A variable of that name exists already.
    #[error(
        "region '{region}' already has a variable '{name}': remove it first, or keep the handle of its first declaration"
    )]
    VariableExists {
        /// The region.
        region: String,
        /// The name.
        name: String,
    },
    /// The elements are of another type.
    #[error("variable '{name}' holds {found}, not {expected}")]
    WrongDType {
        /// The variable.
        name: String,
        /// What the caller asked for.
        expected: DType,
        /// What the variable holds.
        found: DType,
    },
    /// A shape that does not fit.
    #[error("variable '{name}': {why}")]
    WrongShape {
        /// The variable.
        name: String,
        /// What does not fit.
        why: String,
    },
    /// The call is for another kind of variable.
    #[error("variable '{name}' is {found}, and this call is for {expected} variables")]
    WrongKind {
        /// The variable.
        name: String,
        /// What the call is for.
        expected: &'static str,
        /// What the variable is.
        found: &'static str,
    },
    /// A range of bytes or elements that reaches past the end.
    #[error("variable '{name}': range {start}..{end} is outside its {bytes} bytes")]
    OutOfRange {
        /// The variable.
        name: String,
        /// First byte.
        start: usize,
        /// Byte after the last.
        end: usize,
        /// Bytes there are.
        bytes: usize,
    },
    /// A pinned variable was to get more memory than it has where it is.
    #[error(
        "variable '{name}' is pinned, and the {room_bytes} bytes of memory that it has cannot become {wanted_bytes} without \
         moving: let devices forget it, unpin it, resize it, and pin it again"
    )]
    IsPinned {
        /// The variable.
        name: String,
        /// How long it can become where it is.
        room_bytes: usize,
        /// How long it was to be.
        wanted_bytes: usize,
    },
    /// The two snapshots are of different regions.
    #[error("the snapshots are of different regions, '{left}' and '{right}'")]
    DifferentRegions {
        /// One region.
        left: String,
        /// The other.
        right: String,
    },
    /// The name is that of a group, whose ranks are regions.
    #[error(
        "'{region}' is a group of {ranks} ranks: open it as a group, or one of its regions '{region}/0' to '{region}/{}'",
        ranks - 1
    )]
    IsGroup {
        /// The name.
        region: String,
        /// Number of ranks.
        ranks: u32,
    },
    /// The name is not that of a group.
    #[error("'{group}' is not a group but {found}: {advice}")]
    NotGroup {
        /// The name.
        group: String,
        /// What it is.
        found: &'static str,
        /// What to do.
        advice: String,
    },
    /// The handle belongs to the process that forked this one.
    #[error("this handle of region '{region}' was made before fork: open the region again in the child")]
    Forked {
        /// The region.
        region: String,
    },
    /// A tracked variable was published from memory that is not there.
    #[error(
        "variable '{name}': there is no memory at {address:#x} for its {bytes} bytes: if its array was freed, say so \
         before the publish, or say where it is"
    )]
    NotMapped {
        /// The variable.
        name: String,
        /// Where it was said to be.
        address: usize,
        /// How long it was said to be.
        bytes: usize,
    },
    /// A variable was written while a publish that was started copied it (`STILLFRAME_CHECK=1`).
    #[error(
        "variable '{name}': bytes {} to {} of it (page {page} of its memory) were written while version {version} was \
         published in the background: nothing is published; finish the publish before the variable is written",
        .bytes.start, .bytes.end
    )]
    Written {
        /// The variable.
        name: String,
        /// The version that was started.
        version: u64,
        /// The page, counted from the one in which the variable begins.
        page: usize,
        /// The bytes of the variable that lie in it.
        bytes: std::ops::Range<usize>,
    },
    /// The process that copied for a guarded publish was killed.
    #[error(
        "region '{region}': the process that copied version {version} is gone before it was done, killed for want of \
         memory or by somebody: nothing is published, and what was written comes with the next version"
    )]
    ChildGone {
        /// The region.
        region: String,
        /// The version that was started.
        version: u64,
    },
    /// More than a reader of the region accepts.
    #[error("region '{region}': {what} would be {needed}, and readers accept at most {most}: {advice}")]
    Limit {
        /// The region.
        region: String,
        /// What there is too much of.
        what: &'static str,
        /// How much there would be.
        needed: u64,
        /// How much there may be.
        most: u64,
        /// What to do.
        advice: &'static str,
    },
    /// Another producer has the region.
    #[error("region '{region}' has a living producer (its process said it was {pid}){}", what_is_in_use(rank))]
    InUse {
        /// The region.
        region: String,
        /// What the producer wrote as its process number.
        pid: u32,
        /// Rank and number of ranks that the MPI launcher gave this process, if it asked for the region without that rank.
        rank: Option<(u32, u32)>,
    },
    /// A region is to be put where another one is, whose content would be lost.
    #[error(
        "region '{region}' is still in memory, {}: a program that creates it goes on from there; to put another version \
         in its place, ask for it to be replaced ('still restore --replace'), or remove it first ('still rm')",
        newest.map_or("though it cannot be read".into(), |newest| format!("at version {newest}"))
    )]
    Survives {
        /// The region.
        region: String,
        /// Its newest version, if it can be read.
        newest: Option<u64>,
    },
    /// Another process is putting the same region in its place.
    #[error("region '{region}' is being restored by another process: wait for that to end, or choose another name")]
    Staged {
        /// The region.
        region: String,
    },
    /// There is no such region.
    #[error("there is no region '{region}' in {}: start its producer, wait for it, or name the right directory", dir.display())]
    NoRegion {
        /// The region.
        region: String,
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// The region belongs to somebody else.
    #[error("{} may not be opened or made by this user: its owner can share it with the option 'mode' or a directory both can reach", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
    },
    /// A directory or file that somebody else made, or could change.
    #[error("{} {distrust}", path.display())]
    Untrusted {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong with it.
        distrust: Distrust,
    },
    /// Nothing was published yet.
    #[error("region '{region}' has no version yet")]
    NoVersion {
        /// The region.
        region: String,
    },
    /// The version is not, or no longer, there.
    #[error("region '{region}' does not have version {version} {}", range(.oldest, .newest))]
    VersionGone {
        /// The region.
        region: String,
        /// The number asked for.
        version: u64,
        /// Oldest version there is.
        oldest: Option<u64>,
        /// Newest version there is.
        newest: Option<u64>,
    },
    /// Nothing happened in time.
    #[error("region '{region}': waited {} ms for {what}: 'still ls' shows what there is", waited.as_millis())]
    Timeout {
        /// The region.
        region: String,
        /// What was waited for.
        what: &'static str,
        /// For how long.
        waited: Duration,
    },
    /// A rank of a group has not begun, or has no version yet.
    #[error(
        "rank {rank} of {ranks} of group '{group}' has {}: start it, or wait for it{}",
        if *begun { "no version yet" } else { "not begun" }, beyond(.elsewhere)
    )]
    RankMissing {
        /// The group.
        group: String,
        /// The rank.
        rank: u32,
        /// Number of ranks.
        ranks: u32,
        /// Whether it has begun.
        begun: bool,
        /// What the runtime of this node says of ranks on others.
        elsewhere: Option<Box<RanksElsewhere>>,
    },
    /// A rank of a group died, and what is waited for needs it.
    #[error(
        "rank {rank} of {ranks} of group '{group}' is gone: its newest is {}, and that of rank {furthest} {}; \
         what all ranks have can still be read, and its next producer goes on{}",
        number(.newest), number(.furthest_newest), beyond(.elsewhere)
    )]
    RankGone {
        /// The group.
        group: String,
        /// The rank.
        rank: u32,
        /// Number of ranks.
        ranks: u32,
        /// Its last version.
        newest: Option<u64>,
        /// The rank that is furthest.
        furthest: u32,
        /// Its newest version.
        furthest_newest: Option<u64>,
        /// What the runtime of this node says of ranks on others.
        elsewhere: Option<Box<RanksElsewhere>>,
    },
    /// All ranks of a group have a version of the same number, but of different runs: some returned to an earlier version, and
    /// others did not.
    #[error(
        "version {version} of rank {rank} and of rank {other} of group '{group}' were published by different runs, and do not \
         belong together: let all ranks return to the same version, with 'rollback' or by recovering, or begin anew with 'fresh'"
    )]
    MixedRuns {
        /// The group.
        group: String,
        /// The number.
        version: u64,
        /// A rank.
        rank: u32,
        /// A rank whose version another run published.
        other: u32,
    },
    /// All ranks of a group have versions, but none in common.
    #[error(
        "the {ranks} ranks of group '{group}' have no version in common: rank {slowest} is slowest, at {}, and rank \
         {furthest} is at {}; ranks retain versions for slower ones up to the options 'drift' and 'bound', and must \
         publish the same numbers",
        number(.slowest_newest), number(.furthest_newest)
    )]
    NoCommonVersion {
        /// The group.
        group: String,
        /// Number of ranks.
        ranks: u32,
        /// The rank that is furthest behind.
        slowest: u32,
        /// Its newest version.
        slowest_newest: Option<u64>,
        /// The rank that is furthest.
        furthest: u32,
        /// Its newest version.
        furthest_newest: Option<u64>,
    },
    /// Not all ranks of a group published in time.
    #[error(
        "waited {} ms for a version{} of group '{group}': rank {rank} of {ranks} {}, {} rank {furthest} is at {}{}",
        waited.as_millis(), above(.after), slowness(.begun, .alive, .newest),
        if newest == furthest_newest { "and" } else { "while" }, number(.furthest_newest), beyond(.elsewhere)
    )]
    SlowRank {
        /// The group.
        group: String,
        /// The rank that is furthest behind.
        rank: u32,
        /// Number of ranks.
        ranks: u32,
        /// The version above which one was waited for.
        after: Option<u64>,
        /// For how long.
        waited: Duration,
        /// Whether the rank has begun.
        begun: bool,
        /// Whether its producer lives.
        alive: bool,
        /// The rank's newest version.
        newest: Option<u64>,
        /// The rank that is furthest.
        furthest: u32,
        /// Its newest version.
        furthest_newest: Option<u64>,
        /// What the runtime of this node says of ranks on others.
        elsewhere: Option<Box<RanksElsewhere>>,
    },
    /// Nobody will publish what is waited for.
    #[error("the producer of region '{region}' is gone; its last version can still be read")]
    ProducerGone {
        /// The region.
        region: String,
    },
    /// The file system is full.
    #[error("{}", conversion::no_space_text(path, *needed_bytes, *free_bytes, *lacks_inodes))]
    NoSpace {
        /// Where.
        path: PathBuf,
        /// What is missing.
        needed_bytes: u64,
        /// What is there, if the file system says so.
        free_bytes: Option<u64>,
        /// Whether the file system has no room for one more file, whatever bytes are free.
        lacks_inodes: bool,
    },
    /// The region's own bound is reached.
    #[error(
        "region '{region}' uses {used_bytes} of its bound of {bound_bytes} bytes and needs {needed_bytes} more; \
         {held} versions are held by observers{}: raise the bound, or end those that hold ('still show' names them)",
        within(.enclaves)
    )]
    Bound {
        /// The region.
        region: String,
        /// Bytes in use.
        used_bytes: u64,
        /// Bytes needed on top.
        needed_bytes: u64,
        /// The bound.
        bound_bytes: u64,
        /// Versions that observers hold.
        held: usize,
        /// Names of other enclaves in which some of these are held.
        enclaves: Vec<String>,
    },
    /// An arena has no room left.
    #[error(
        "arena '{arena}' ({}) {shortage}{}: remove regions that nobody needs ('still rm'), let go of old snapshots, keep fewer \
         versions, or make a larger arena",
        path.display(), holdings(.holders)
    )]
    ArenaFull {
        /// The arena.
        arena: String,
        /// Where it lies.
        path: PathBuf,
        /// What is missing.
        shortage: Shortage,
        /// The regions that have most of it, and how many bytes.
        holders: Vec<(String, u64)>,
    },
    /// There is no such arena.
    #[error(
        "there is no arena '{arena}' in {}{}",
        dir.display(),
        if *half_made { ": what has its name was never finished; make it again, or remove it" } else { ": make it first, or name the right directory" }
    )]
    NoArena {
        /// The arena.
        arena: String,
        /// Where it was looked for.
        dir: PathBuf,
        /// Whether somebody began to make it.
        half_made: bool,
    },
    /// Another process is changing the regions of an arena, for much longer than that takes.
    #[error(
        "arena '{arena}': waited {} ms for another process (it said it was {pid}) to make or remove a region: if it was \
         stopped, let it go on, or end it",
        waited.as_millis()
    )]
    ArenaBusy {
        /// The arena.
        arena: String,
        /// What that process wrote as its number.
        pid: u32,
        /// For how long.
        waited: Duration,
    },
    /// All ring slots hold versions that cannot go.
    #[error(
        "region '{region}' has all {slots} versions it can have, {held} of them held by observers{}{}",
        within(.enclaves), if *held > 0 { ": end those that hold ('still show' names them)" } else { "" }
    )]
    NoSlot {
        /// The region.
        region: String,
        /// Slots of the ring.
        slots: usize,
        /// Versions that observers hold.
        held: usize,
        /// Names of other enclaves in which some of these are held.
        enclaves: Vec<String>,
    },
    /// The process has no address ranges left.
    #[error(
        "no memory mapping left ({failure}): raise vm.max_map_count or 'ulimit -v', let go of snapshots, or read chunk-wise"
    )]
    NoMappings {
        /// The call.
        failure: Failure,
    },
    /// Nobody hands out regions at this socket.
    #[error(
        "no broker answers at {}: start one there (still enclave serve --socket PATH), or correct the address",
        socket.display()
    )]
    NoBroker {
        /// The socket.
        socket: PathBuf,
    },
    /// A broker does not hand out what was asked for, or answers what no broker does.
    #[error("the broker at {} {why}", socket.display())]
    Broker {
        /// Its socket.
        socket: PathBuf,
        /// What it said or did.
        why: String,
    },
    /// The process or the machine has no file descriptors left.
    #[error("{}: no file descriptor left ({failure}): raise 'ulimit -n' or close files", path.display())]
    NoFiles {
        /// The file that was to be opened.
        path: PathBuf,
        /// The call.
        failure: Failure,
    },
    /// The system's pages are of another size than the format's.
    #[error(
        "this system has pages of {found_bytes} bytes, and Stillframe's regions are made of pages of {PAGE_BYTES}: use a kernel with those"
    )]
    ForeignPages {
        /// Bytes of a page here.
        found_bytes: usize,
    },
    /// The tracker asked for does not work here.
    #[error("the tracker {tracker} does not work here: {why}; 'still doctor' says which do")]
    NoTracker {
        /// The tracker.
        tracker: &'static str,
        /// Why not.
        why: String,
    },
    /// Any other system call that failed.
    #[error("{}: {failure}", path.display())]
    System {
        /// The file it was about.
        path: PathBuf,
        /// The call.
        failure: Failure,
    },
    /// A shared file is damaged.
    #[error("{}/{corrupt}: the region is damaged; 'still verify' says how far, 'still rm' removes it", dir.display())]
    Corrupt {
        /// The region's directory.
        dir: PathBuf,
        /// File, offset, and what was found.
        corrupt: Corrupt,
    },
}

/// What an arena has too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// Memory, or enough of it in one piece.
    #[error(
        "has {free_bytes} of its {bytes} bytes free and this needs {needed_bytes}{}",
        if free_bytes >= needed_bytes { " in one piece" } else { "" }
    )]
    Bytes {
        /// Bytes needed.
        needed_bytes: u64,
        /// Bytes that belong to no region.
        free_bytes: u64,
        /// Length of the arena.
        bytes: u64,
    },
    /// Regions.
    #[error("has all {most} regions it can have")]
    Regions {
        /// How many it can have.
        most: u32,
    },
}

impl Error {
    /// Which of three things happened.
    pub fn family(&self) -> Family {
        match self.code() {
            ..100 => Family::Misuse,
            100..200 => Family::Environment,
            _ => Family::Corrupt,
        }
    }

    /// The error's number in every language that has numbers for errors; it never changes. Misuse has those below 100,
    /// the environment those below 200, corruption those below 300.
    pub fn code(&self) -> i32 {
        match self {
            Error::BadName { .. } => 10,
            Error::BadOption { .. } => 11,
            Error::NotIncreasing { .. } => 12,
            Error::UnknownVariable { .. } => 13,
            Error::VariableExists { .. } => 14,
            Error::WrongDType { .. } => 15,
            Error::WrongShape { .. } => 16,
            Error::WrongKind { .. } => 17,
            Error::OutOfRange { .. } => 18,
            Error::DifferentRegions { .. } => 19,
            Error::Forked { .. } => 20,
            Error::NotMapped { .. } => 21,
            Error::IsGroup { .. } => 23,
            Error::NotGroup { .. } => 24,
            Error::Limit { .. } => 26,
            Error::IsPinned { .. } => 27,
            Error::Written { .. } => 28,
            Error::InUse { .. } => 100,
            Error::NoRegion { .. } => 101,
            Error::Denied { .. } => 102,
            Error::NoVersion { .. } => 103,
            Error::VersionGone { .. } => 104,
            Error::Timeout { .. } | Error::SlowRank { .. } => 105,
            Error::ProducerGone { .. } => 106,
            Error::NoSpace { .. } => 107,
            Error::Bound { .. } => 108,
            Error::NoSlot { .. } => 109,
            Error::NoMappings { .. } => 110,
            Error::NoFiles { .. } => 111,
            Error::ForeignPages { .. } => 112,
            Error::NoTracker { .. } => 113,
            Error::System { .. } => 114,
            Error::RankMissing { .. } => 115,
            Error::RankGone { .. } => 116,
            Error::NoCommonVersion { .. } => 117,
            Error::Survives { .. } => 118,
            Error::Staged { .. } => 119,
            Error::Untrusted { .. } => 120,
            Error::ArenaFull { .. } => 121,
            Error::NoArena { .. } => 122,
            Error::ArenaBusy { .. } => 123,
            Error::MixedRuns { .. } => 124,
            Error::ChildGone { .. } => 125,
            Error::NoBroker { .. } => 126,
            Error::Broker { .. } => 127,
            Error::Corrupt { .. } => 200,
        }
    }
}
