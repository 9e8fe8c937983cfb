//! What is damaged.

use crate::error::{Error, Result};
use crate::observer::Observer;
use std::path::Path;
use stillframe_segment::Corrupt;

/// Looks for damage in a region: reads all that describes the versions of a region. No finding means that all of it is sound.
///
/// # Errors
/// Environment if the region cannot be opened for another reason than damage.
pub fn verify(dir: &Path, name: &str) -> Result<Vec<Corrupt>> {
    let mut findings = Vec::new();
    let observer = match Observer::options().dir(dir).open(name) {
        Ok(observer) => observer,
        Err(Error::Corrupt { corrupt, .. }) => return Ok(vec![corrupt]),
        Err(error) => return Err(error),
    };
    let mut check = |result: Result<()>| match result {
        Err(Error::Corrupt { corrupt, .. }) => {
            if !findings.contains(&corrupt) {
                findings.push(corrupt);
            }
            Ok(())
        }
        other => other,
    };
    check(observer.shared.head.check_newest().map_err(|corrupt| observer.shared.corrupt(corrupt)))?;
    for version in observer.versions().iter().filter(|version| !version.retiring) {
        match observer.version(version.version) {
            Err(Error::VersionGone { .. }) => {}
            Err(error) => check(Err(error))?,
            Ok(snapshot) => {
                for variable in snapshot.variables() {
                    check(snapshot.chunks(&variable.name).map(drop))?;
                }
            }
        }
    }
    Ok(findings)
}
