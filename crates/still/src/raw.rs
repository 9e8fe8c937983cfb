//! The files of a region, to be copied as they are.
//!
//! A region is a directory of plain files, so a copy of it is the region: in another directory of regions, on another
//! machine, at another time. Only a copy that is made while somebody publishes may be torn, and nothing would show it; so a
//! region with a producer is refused.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use serde_json::json;
use stillframe::inspect;

/// Names the directory of a region or group whose copy is the region, or refuses.
pub fn run(context: &mut Context, name: &str, json: bool) -> Verdict {
    let dir = std::path::absolute(&context.dir).map_err(|error| Failure::file(&context.dir, error))?;
    let (regions, version) = match inspect::region(&dir, name) {
        Err(stillframe::Error::IsGroup { .. }) => {
            let group = inspect::group(&dir, name)?;
            let group = group.ok_or_else(|| Failure::Problem(format!("the group {name} went away")))?;
            let version = group.versions.last().copied();
            (group.regions, version)
        }
        other => {
            let info = other?;
            let version = info.newest;
            (vec![info], version)
        }
    };
    for info in &regions {
        match &info.state {
            inspect::State::Dead => {}
            inspect::State::Live => {
                return Err(Failure::Problem(format!(
                    "process {} produces region {}, and a copy of files that it writes may be torn: copy between its \
                     steps or after its end, or take a checkpoint (`still checkpoint`), which may run beside it",
                    info.producer_pid, info.name
                )));
            }
            inspect::State::Incomplete => {
                return Err(Failure::Problem(format!("region {} was never finished, and has nothing", info.name)));
            }
            inspect::State::Unreadable(why) => {
                return Err(Failure::Problem(format!("region {} cannot be read: {why}", info.name)));
            }
        }
    }
    let Some(version) = version else {
        return Err(Failure::Problem(format!("{name} has no version yet")));
    };
    let path = dir.join(name);
    let bytes: u64 = regions.iter().map(|info| info.allocated_bytes).sum();
    if json {
        context.write_json(&json!({ "region": name, "version": version, "path": path, "bytes": bytes }))?;
        return Ok(FINE);
    }
    context.finish(&path.display().to_string())
}
