//! Checksums: XXH3 with 128 bits, as `xxhsum -H2` prints and checks them.

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use stillframe::PAGE_BYTES;
use stillframe_kernel::copy::prefetch;
use twox_hash::XxHash3_128;

/// Bytes that are read and summed at a time: few enough to stay in the processor's cache.
const BLOCK_BYTES: usize = 1 << 18;

/// The checksum of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub u128);

impl Digest {
    /// The checksum of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut digester = Digester::new();
        digester.update(bytes);
        digester.finish()
    }

    /// Reads 32 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Digest> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hex { u128::from_str_radix(text, 16).ok().map(Digest) } else { None }
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A checksum of bytes that come in pieces.
#[derive(Clone, Default)]
pub struct Digester(XxHash3_128);

impl Digester {
    /// A checksum of nothing yet.
    pub fn new() -> Digester {
        Digester::default()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut pages = bytes.chunks(PAGE_BYTES).peekable();
        while let Some(page) = pages.next() {
            // Processors fetch ahead by themselves, but not over the end of a page; without this, summing waits for memory
            // nearly half of its time.
            pages.peek().copied().inspect(|next| prefetch(next));
            self.0.write(page);
        }
    }

    /// The checksum of all that was taken.
    pub fn finish(&self) -> Digest {
        Digest(self.0.finish_128())
    }
}

/// Reads the begin of a file of this length to `out`, sums all of it, and returns the checksum.
pub(crate) fn read_plain(file: &File, length: usize, out: &mut [u8]) -> io::Result<Digest> {
    let mut digester = Digester::new();
    let mut at = 0;
    for block in out.chunks_mut(BLOCK_BYTES) {
        file.read_exact_at(block, at as u64)?;
        digester.update(block);
        at += block.len();
    }
    if at < length {
        let mut block = vec![0; BLOCK_BYTES.min(length - at)];
        while at < length {
            let count = block.len().min(length - at);
            file.read_exact_at(&mut block[..count], at as u64)?;
            digester.update(&block[..count]);
            at += count;
        }
    }
    Ok(digester.finish())
}

/// The checksums of a checkpoint's files, by their paths in it.
pub type Digests = BTreeMap<String, Digest>;

/// The text of the checksum file.
pub(crate) fn encode(digests: &Digests) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(digests.len() * 48);
    for (path, digest) in digests {
        let _ = writeln!(text, "{digest}  {path}");
    }
    text
}

/// Reads the text of the checksum file at `file`.
///
/// # Errors
/// [`Error::Damaged`] with the number of the line.
pub fn decode(file: &Path, text: &str) -> Result<Digests> {
    let mut digests = Digests::new();
    for (index, line) in text.lines().enumerate() {
        let parsed = line.split_once("  ").and_then(|(hex, path)| Some((Digest::from_hex(hex)?, path)));
        let fresh = parsed.filter(|(_, path)| !path.is_empty() && !digests.contains_key(*path));
        let Some((digest, path)) = fresh else {
            let why = format!("line {} is no checksum and path of its own", index + 1);
            return Err(Error::Damaged { path: file.into(), why });
        };
        digests.insert(path.into(), digest);
    }
    Ok(digests)
}
