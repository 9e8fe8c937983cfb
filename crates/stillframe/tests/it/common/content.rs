//! What versions have to show, beside what they do.

use std::collections::BTreeMap;
use stillframe::Snapshot;

/// The variables of a version, as bytes.
pub type Content = BTreeMap<&'static str, Vec<u8>>;

/// What differs first, in words; `None` if nothing does.
pub fn first_difference(found: &[u8], expected: &[u8]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} bytes instead of {}", found.len(), expected.len()));
    }
    let at = super::difference_at(found, expected)?;
    let count = found.iter().zip(expected).filter(|(found, expected)| found != expected).count();
    let (found, expected) = (found[at], expected[at]);
    Some(format!("byte {at} (page {}) is {found}, not {expected}; {count} bytes differ", at / 4096))
}

/// Whether a version shows just this.
pub fn check_version(snapshot: &Snapshot, content: &Content) -> Result<(), String> {
    let version = snapshot.version();
    let names: Vec<String> = snapshot.variables().iter().map(|variable| variable.name.clone()).collect();
    if names.len() != content.len() {
        return Err(format!("version {version} has {names:?}, not {:?}", content.keys()));
    }
    for (name, expected) in content {
        let found = snapshot.slice::<u8>(name).map_err(|error| error.to_string())?;
        if let Some(difference) = first_difference(found, expected) {
            return Err(format!("{name} of version {version}: {difference}"));
        }
    }
    Ok(())
}
