//! Names of regions, of their files, and of what lies beside them.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use stillframe_kernel::trust::{Guard, Purpose, Trust};
use stillframe_segment::{arena, head, lease, schema, table};

/// The directory that holds regions: `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`.
pub fn root() -> PathBuf {
    match std::env::var_os("STILLFRAME_DIR") {
        Some(dir) if !dir.is_empty() => dir.into(),
        _ => root_of(stillframe_kernel::user_id()),
    }
}

fn root_of(user: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/stillframe-{user}"))
}

/// Whose directories and files are believed: what the option says, else `$STILLFRAME_TRUST`; `None` if nothing does.
pub(crate) fn trust(option: Option<Trust>) -> Result<Option<Trust>> {
    match std::env::var("STILLFRAME_TRUST") {
        Ok(text) if option.is_none() && !text.is_empty() => Ok(Some(text.parse()?)),
        _ => Ok(option),
    }
}

/// How somebody looks at what lies in a directory. Who names one that is not his own by default has said whose it is: what
/// its files tell is checked in any case.
pub(crate) fn looking(dir: &Path, option: Option<Trust>) -> Result<Guard> {
    Ok(Guard::new(trust_to_look(dir, option)?, Purpose::Look))
}

/// Whose directories and files are believed by who looks at what lies in a directory.
///
/// # Errors
/// [`Error::BadOption`] if `$STILLFRAME_TRUST` says nothing of the kind.
pub fn trust_to_look(dir: &Path, option: Option<Trust>) -> Result<Trust> {
    let by_dir = if dir == root_of(stillframe_kernel::user_id()) { Trust::Own } else { Trust::Any };
    Ok(trust(option)?.unwrap_or(by_dir))
}

/// Whose directories and files are believed by who writes.
///
/// # Errors
/// As [`trust_to_look`].
pub fn trust_to_write(option: Option<Trust>) -> Result<Trust> {
    Ok(trust(option)?.unwrap_or_default())
}

/// Ends the name of what a run that did not end by itself left, once it is set aside: of a region, or of a group. Regions that
/// are made have no such name.
pub(crate) const ASIDE: &str = "~1";

/// Checks the name of a region that is made, and returns its directory.
pub(crate) fn new_region_dir(root: &Path, name: &str) -> Result<PathBuf> {
    let dir = region_dir(root, name)?;
    match name.contains(ASIDE) {
        true => {
            let why = "it is that of what a run that did not end by itself left; rename its directory to go on from it";
            Err(Error::BadName { name: name.into(), what: "region", why: why.into() })
        }
        false => Ok(dir),
    }
}

/// The name that a region or group had before it was set aside; `None` if this is not such a name.
pub fn aside_of(name: &str) -> Option<String> {
    if let Some(former) = name.strip_suffix(ASIDE) {
        return Some(former.into());
    }
    let (group, rank) = name.rsplit_once('/')?;
    Some(format!("{}/{rank}", group.strip_suffix(ASIDE)?))
}

/// Checks a region's name and returns its directory.
pub(crate) fn region_dir(root: &Path, name: &str) -> Result<PathBuf> {
    let given = name;
    let former = aside_of(name);
    let name = former.as_deref().unwrap_or(name);
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > 200 {
        "it is longer than 200 bytes"
    } else if name.starts_with(['.', '/']) || name.ends_with('/') {
        "it starts with '.' or '/', or ends with '/'"
    } else if name.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        "a part of it is empty or starts with '.'"
    } else if name.split('/').any(is_own_file) {
        "a part of it is what a region calls its own files: head, tables, lease, lease.producer, plane.N or schema.N"
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c)) {
        "only letters, digits, '.', '_', '-' and '/' are allowed"
    } else {
        return Ok(root.join(given));
    };
    Err(Error::BadName { name: given.into(), what: "region", why: why.into() })
}

/// Refuses what cannot be the name of a region.
///
/// # Errors
/// [`Error::BadName`].
pub fn check_name(name: &str) -> Result<()> {
    new_region_dir(Path::new(""), name).map(drop)
}

/// Whether a region calls one of its files so.
pub(crate) fn is_own_file(name: &str) -> bool {
    let numbered = [table::PLANE_PREFIX, schema::FILE_PREFIX];
    [head::FILE, table::FILE, lease::FILE, lease::PRODUCER_FILE].contains(&name)
        || numbered.iter().any(|prefix| name.starts_with(prefix))
}

/// Begins the names of an arena's regions that nobody is shown yet.
const STAGED: &str = ".staged/";

/// What a region of an arena, a group or a rank is called as long as it is hidden.
pub(crate) fn hidden_name(name: &str) -> String {
    format!("{STAGED}{name}")
}

/// What it is called when it is hidden no more.
pub(crate) fn shown_name(name: &str) -> &str {
    name.strip_prefix(STAGED).unwrap_or(name)
}

/// What a group of an arena, or a rank of it, is called while one with another number of ranks begins under its name.
pub(crate) fn former_name(name: &str) -> String {
    format!(".former/{name}")
}

/// The name of a region that is a rank of a group.
pub(crate) fn rank_name(group: &str, rank: u32) -> String {
    format!("{group}/{rank}")
}

/// The group that a name is of, if it ends as that of a rank does; else the name.
pub(crate) fn group_of(name: &str) -> &str {
    match name.rsplit_once('/') {
        Some((group, rank)) if rank_of(rank).is_some() => group,
        _ => name,
    }
}

/// The rank of which this is the last part of the region's name; `None` if it is of none.
pub(crate) fn rank_of(part: &str) -> Option<u32> {
    let rank = part.parse::<u32>().ok()?;
    (rank < head::RANKS_MAX && part == rank.to_string()).then_some(rank)
}

/// Why no region can have a name below which others lie.
pub(crate) const ABOVE_OTHERS: &str = "other regions lie below it; choose a name beside them";

/// Why none can have the name of a group.
pub(crate) const ABOVE_RANKS: &str = "regions of ranks lie below it; choose a name beside them";

/// The error that other regions lie below a name.
pub(crate) fn above_others(name: &str) -> Error {
    Error::BadName { name: name.into(), what: "region", why: ABOVE_OTHERS.into() }
}

/// The error that regions of ranks lie below a name.
pub(crate) fn above_ranks(name: &str) -> Error {
    Error::BadName { name: name.into(), what: "region", why: ABOVE_RANKS.into() }
}

/// The error that a name lies inside the region `above`. Where it is that of a rank, and the region has the name of its group, some
/// process of the program did not say which rank it is.
pub(crate) fn inside(name: &str, above: &str) -> Error {
    let why = match group_of(name) {
        group if group == above && group != name => in_place_of_group(above).into(),
        _ => "it lies inside another region; choose a name beside it".into(),
    };
    Error::BadName { name: name.into(), what: "region", why }
}

fn in_place_of_group(group: &str) -> String {
    format!(
        "it is that of a rank of the group '{group}', and '{group}' is a region by itself, of a process that did not say which rank it \
         is: each rank has to tell rank and number of ranks with the name, or none has; end that process and remove its region ('still \
         rm {group}'), or choose another name"
    )
}

/// An error of a place that knows regions by names of its own, with those by which users know them.
pub(crate) fn with_shown_names(error: Error, shown: impl Fn(&str) -> String) -> Error {
    match error {
        Error::BadName { name, what: "region", why } => {
            let group = group_of(&name);
            let why = match group != name && why == in_place_of_group(group) {
                true => in_place_of_group(&shown(group)).into(),
                false => why,
            };
            Error::BadName { name: shown(&name), what: "region", why }
        }
        error => error,
    }
}

pub(crate) fn plane_file(plane: usize) -> String {
    format!("{}{plane}", table::PLANE_PREFIX)
}

pub(crate) fn schema_file(number: u32) -> String {
    format!("{}{number}", schema::FILE_PREFIX)
}

/// Whether a file is one of those that a region has several of, rather than somebody's `schema.sql`.
pub(crate) fn is_numbered(name: &str) -> bool {
    let number = name.strip_prefix("schema.").or_else(|| name.strip_prefix("plane."));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether an observer has a use for a file of this name. The file with the locks of producers is not one.
pub(crate) fn is_for_observers(name: &str) -> bool {
    let is_one = [head::FILE, table::FILE, arena::FILE].contains(&name) || is_numbered(name);
    is_one || (arena::is_lease_file(name) && name != lease::PRODUCER_FILE)
}
