//! Parts of messages.

use super::RanksElsewhere;

pub(super) fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// The regions that are named in a message.
const HOLDERS_SHOWN: usize = 4;

pub(super) fn holdings(holders: &[(String, u64)]) -> String {
    let shown = holders.iter().take(HOLDERS_SHOWN).map(|(name, bytes)| format!("; '{name}' has {bytes}"));
    let rest = match holders.len().saturating_sub(HOLDERS_SHOWN) {
        0 => String::new(),
        rest => {
            format!("; {rest} others have {}", holders[HOLDERS_SHOWN..].iter().map(|(_, bytes)| bytes).sum::<u64>())
        }
    };
    shown.chain([rest]).collect()
}

pub(super) fn range(oldest: &Option<u64>, newest: &Option<u64>) -> String {
    match (oldest, newest) {
        (Some(oldest), Some(newest)) => format!("(oldest {oldest}, newest {newest})"),
        _ => "(it has none)".into(),
    }
}

pub(super) fn number(version: &Option<u64>) -> String {
    version.map_or("no version".into(), |version| format!("version {version}"))
}

pub(super) fn above(version: &Option<u64>) -> String {
    version.map_or(String::new(), |version| format!(" above {version}"))
}

pub(super) fn beyond(elsewhere: &Option<Box<RanksElsewhere>>) -> String {
    elsewhere.as_ref().map_or(String::new(), |said| format!("; {}", said.0))
}

pub(super) fn within(enclaves: &[String]) -> String {
    match enclaves {
        [] => String::new(),
        [enclave] => format!(", some of them in enclave {enclave}"),
        _ => format!(", some of them in enclaves {}", enclaves.join(", ")),
    }
}

pub(super) fn slowness(begun: &bool, alive: &bool, newest: &Option<u64>) -> String {
    if !begun {
        return "has not begun".into();
    }
    format!("is slowest, at {} with its producer {}", number(newest), if *alive { "alive" } else { "gone" })
}
