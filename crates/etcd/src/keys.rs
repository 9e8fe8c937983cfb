//! What is kept under which key.

use crate::shard::{SHARDS, Shard};
use stillframe_roster::writer::Node;

/// Longest name of an object, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// Longest key that is shown in full in a message.
const SHOWN_BYTES_MAX: usize = 300;

/// A key, without the prefix of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// `object/NAME`: the description of an object.
    Object(String),
    /// `node/NUMBER`: a node, under its lease.
    Node(Node),
    /// `lost/NUMBER`: nobody has the number any more.
    Lost(Node),
    /// `home/SHARD`: which node is the home of these objects, under its lease.
    Home(Shard),
    /// `epoch`: tells one life of etcd's data from the next.
    Epoch,
    /// `counter`: how many nodes there were.
    Counter,
}

/// The keys of a job.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// The prefix with the slash behind it.
    prefix: Vec<u8>,
}

impl Keys {
    pub fn new(prefix: &str) -> Keys {
        Keys { prefix: format!("{prefix}/").into_bytes() }
    }

    fn under(&self, rest: &str) -> Vec<u8> {
        [&self.prefix, rest.as_bytes()].concat()
    }

    pub fn object(&self, name: &str) -> Vec<u8> {
        self.under(&format!("object/{name}"))
    }

    pub fn node(&self, node: Node) -> Vec<u8> {
        self.under(&format!("node/{}", node.0))
    }

    pub fn lost(&self, node: Node) -> Vec<u8> {
        self.under(&format!("lost/{}", node.0))
    }

    pub fn home(&self, shard: Shard) -> Vec<u8> {
        self.under(&format!("home/{}", shard.number()))
    }

    pub fn epoch(&self) -> Vec<u8> {
        self.under("epoch")
    }

    pub fn counter(&self) -> Vec<u8> {
        self.under("counter")
    }

    /// From the first key of the job to the one behind the last.
    pub fn all(&self) -> (Vec<u8>, Vec<u8>) {
        (self.prefix.clone(), end(&self.prefix))
    }

    /// From the first object's key to the one behind the last; the others likewise.
    pub fn objects(&self) -> (Vec<u8>, Vec<u8>) {
        self.below("object/")
    }

    pub fn nodes(&self) -> (Vec<u8>, Vec<u8>) {
        self.below("node/")
    }

    pub fn all_lost(&self) -> (Vec<u8>, Vec<u8>) {
        self.below("lost/")
    }

    pub fn homes(&self) -> (Vec<u8>, Vec<u8>) {
        self.below("home/")
    }

    fn below(&self, kind: &str) -> (Vec<u8>, Vec<u8>) {
        let first = self.under(kind);
        (first.clone(), end(&first))
    }

    /// Reads a key.
    pub fn read(&self, key: &[u8]) -> Result<Key, String> {
        read(key.strip_prefix(&self.prefix[..]).ok_or("it lacks the prefix")?)
    }
}

/// The first key behind all that begin with these bytes.
fn end(first: &[u8]) -> Vec<u8> {
    let mut end = first.to_vec();
    // The last byte is a slash.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// Reads a key, which stands behind the job's prefix.
///
/// # Errors
/// What is wrong with it.
pub fn read(key: &[u8]) -> Result<Key, String> {
    let text = std::str::from_utf8(key).map_err(|_| "it is no UTF-8")?;
    match text.split_once('/') {
        None if text == "epoch" => Ok(Key::Epoch),
        None if text == "counter" => Ok(Key::Counter),
        Some(("object", "")) => Err("the object has no name".into()),
        Some(("object", name)) if name.len() > NAME_BYTES_MAX => {
            Err(format!("the object's name has {} bytes, and at most {NAME_BYTES_MAX} are read", name.len()))
        }
        Some(("object", name)) => Ok(Key::Object(name.into())),
        Some(("node", number)) => Ok(Key::Node(Node(canonical(number)?))),
        Some(("lost", number)) => Ok(Key::Lost(Node(canonical(number)?))),
        Some(("home", number)) => {
            let shard = Shard::new(canonical(number)?);
            shard.map(Key::Home).ok_or_else(|| format!("there are only {SHARDS} shards"))
        }
        _ => Err("it is none of object/NAME, node/NUMBER, lost/NUMBER, home/SHARD, epoch, counter".into()),
    }
}

/// A number in the one form in which it is written, so that no two keys mean the same.
fn canonical(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| number.to_string() == text);
    number.ok_or_else(|| format!("'{}' is no number of 32 bits", shown(text.as_bytes())))
}

/// A key as it can be shown to people.
pub(crate) fn shown(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(&key[..key.len().min(SHOWN_BYTES_MAX)]).escape_debug().to_string();
    if key.len() > SHOWN_BYTES_MAX { format!("{text}…") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_read_as_it_was_written() {
        let keys = Keys::new("job");
        let read = |key: Vec<u8>| keys.read(&key);
        assert_eq!(read(keys.object("a/b")), Ok(Key::Object("a/b".into())));
        assert_eq!(read(keys.node(Node(u32::MAX))), Ok(Key::Node(Node(u32::MAX))));
        assert_eq!(read(keys.lost(Node(3))), Ok(Key::Lost(Node(3))));
        assert_eq!(read(keys.home(Shard::new(63).unwrap())), Ok(Key::Home(Shard::new(63).unwrap())));
        assert_eq!(read(keys.epoch()), Ok(Key::Epoch));
        assert_eq!(read(keys.counter()), Ok(Key::Counter));
        let (first, end) = keys.all();
        assert!(first < keys.object("\u{10ffff}") && keys.object("\u{10ffff}") < end);
    }

    #[test]
    fn keys_that_nobody_writes_are_refused() {
        let numbers = ["node/", "node/01", "node/+1", "node/4294967296", "lost/", "lost/01", "home/64", "home/x"];
        for key in ["", "object/", "epoch/", "x"].into_iter().chain(numbers) {
            assert!(read(key.as_bytes()).is_err(), "{key}");
        }
        assert!(read(b"object/\xff").is_err());
        assert!(read(format!("object/{}", "n".repeat(NAME_BYTES_MAX + 1)).as_bytes()).is_err());
        assert!(Keys::new("job").read(b"job2/epoch").is_err());
    }
}
