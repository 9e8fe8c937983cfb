//! The sizes of large pages.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A size of large pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Page {
    /// 2 MiB.
    #[serde(rename = "2M")]
    Large,
    /// 1 GiB.
    #[serde(rename = "1G")]
    Gigantic,
}

impl Page {
    /// All of them, the smallest first.
    pub const ALL: [Page; 2] = [Page::Large, Page::Gigantic];

    /// Its bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Page::Large => 2 << 20,
            Page::Gigantic => 1 << 30,
        }
    }

    /// How many hold so many bytes.
    pub fn count(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.bytes())
    }

    /// The one of so many bytes, if there is one.
    pub fn of_bytes(bytes: u64) -> Option<Page> {
        Page::ALL.into_iter().find(|page| page.bytes() == bytes)
    }

    /// What the kernel calls it in `/sys`.
    pub(crate) fn folder(self) -> String {
        format!("hugepages-{}kB", self.bytes() >> 10)
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Page::Large => "2M",
            Page::Gigantic => "1G",
        })
    }
}

impl FromStr for Page {
    type Err = String;

    fn from_str(text: &str) -> Result<Page, String> {
        let found = Page::ALL.into_iter().find(|page| page.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is no size of large pages: it is 2M or 1G"))
    }
}
