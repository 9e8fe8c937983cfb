//! Parts of messages.

/// What the runtime of this node says of ranks of a group that are on others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RanksElsewhere(pub String);

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

pub(super) fn what_is_in_use(rank: &Option<(u32, u32)>) -> String {
    match rank {
        None => ": end it, or choose another name".into(),
        Some(told) => format!(
            ", and this process is rank {} of {}: if the ranks publish parts of one state, each needs its own region; {}; else end \
             the producer, or choose another name",
            told.0,
            told.1,
            how_to_tell(*told)
        ),
    }
}

/// What is said where regions of ranks lie below a name, and this process is a rank that did not say which.
pub(super) fn is_forgotten(group: &str, told: (u32, u32)) -> String {
    format!(
        "regions of ranks lie below it, and this process is rank {} of {}, which did not say so: {}; else choose a name beside it, or \
         remove what a former run left ('still rm {group}')",
        told.0,
        told.1,
        how_to_tell(told)
    )
}

fn how_to_tell((rank, ranks): (u32, u32)) -> String {
    format!(
        "tell rank and number of ranks with the name (Python and Fortran: rank={rank}, ranks={ranks}; C++ and Rust: .rank({rank}, \
         {ranks}); C: stillframe_begin(name, {rank}, {ranks}), or rank and ranks of the options)"
    )
}
