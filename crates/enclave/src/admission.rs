//! Who is served, among those whom the socket's mode lets connect.

use std::fmt;
use std::str::FromStr;
use stillframe_kernel::local::Peer;

/// Somebody who is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allow {
    /// The user with this number.
    User(u32),
    /// Whose group, the one he had when he connected, has this number.
    Group(u32),
}

/// A text that names nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAllow(pub String);

impl fmt::Display for NoAllow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is none of user:NUMBER, group:NUMBER", self.0)
    }
}

impl std::error::Error for NoAllow {}

impl FromStr for Allow {
    type Err = NoAllow;

    fn from_str(text: &str) -> Result<Allow, NoAllow> {
        let allow = match text.split_once(':') {
            Some(("user", number)) => number.parse().map(Allow::User),
            Some(("group", number)) => number.parse().map(Allow::Group),
            _ => return Err(NoAllow(text.into())),
        };
        allow.map_err(|_| NoAllow(text.into()))
    }
}

/// All who are served: everybody whom the mode lets connect, unless some are named.
#[derive(Debug, Clone, Default)]
pub struct Admission(pub Vec<Allow>);

impl Admission {
    /// Whether somebody is served.
    pub fn admits(&self, peer: &Peer) -> bool {
        let is_meant = |allow: &Allow| match allow {
            Allow::User(number) => peer.user == *number,
            Allow::Group(number) => peer.group == *number,
        };
        self.0.is_empty() || self.0.iter().any(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_is_served_and_nobody_else() {
        let peer = Peer { user: 1000, group: 50, pid: 9 };
        assert!(Admission::default().admits(&peer));
        let admission = |texts: &[&str]| Admission(texts.iter().map(|text| text.parse().unwrap()).collect());
        assert!(admission(&["user:1", "user:1000"]).admits(&peer));
        assert!(admission(&["group:50"]).admits(&peer));
        assert!(!admission(&["user:50", "group:1000"]).admits(&peer));
        for text in ["", "user", "user:", "user:-1", "any", "group:x", "user:4294967296"] {
            assert_eq!(text.parse::<Allow>(), Err(NoAllow(text.into())));
        }
    }
}
