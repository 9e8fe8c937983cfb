//! What an enclave says to others, behind the last chunk of an arena in memory that they share.
//!
//! Each enclave writes to memory of its own and reads that of the others. What stands here is the agent's: who it is, whose leases
//! count, and which versions of others' regions somebody in its enclave holds. All numbers are little-endian. Those of another enclave
//! may be anything at any time: a word is loaded once, and only compared, or taken as bits.

use crate::{Corrupt, PAGE_BYTES};

/// First eight bytes: "STILENCL". They are written last.
pub const MAGIC: u64 = u64::from_le_bytes(*b"STILENCL");
/// Version of this format. An enclave with another one is not listened to.
pub const ABI: u32 = 1;
/// Most other enclaves that one listens to.
pub const PEERS_MAX: usize = 16;
/// Most regions of an arena that is shared so.
pub const REGIONS_MAX: u32 = 1024;
/// Longest name of an enclave in bytes.
pub const NAME_BYTES_MAX: usize = 48;

/// Offset of the magic, 8 bytes.
pub const MAGIC_AT: usize = 0;
/// Offset of the format's version, 4 bytes.
pub const ABI_AT: usize = 8;
/// Offset of the length of the name, 4 bytes.
pub const NAME_LENGTH_AT: usize = 12;
/// Offset of the name.
pub const NAME_AT: usize = 16;
/// Offset of the identity of the machine that runs, 8 bytes: a random number, another one whenever it starts, or zero once it is
/// recorded that it has ended. By it leases count.
pub const IDENTITY_AT: usize = 64;
/// Offset of the identity of the arena, 8 bytes: a random number that stays as long as its content, and never zero. By it leases say
/// of what they are.
pub const ARENA_AT: usize = 72;
/// Offset of what tells one start of the machine's kernel from another, 16 bytes.
pub const BOOT_AT: usize = 80;
/// Offset of the CRC-32 of the bytes between the magic and this, 4 bytes.
pub const CRC_AT: usize = 96;
/// Offset of the agent's heartbeat, 8 bytes, *changing*: it goes up as long as the agent lives.
pub const HEARTBEAT_AT: usize = 128;
/// Offset of the identities of those enclaves whose leases count, 8 bytes each, *changing*; zero is none.
pub const ADMITTED_AT: usize = 256;
/// Offset of the identities of those arenas of whose regions [`SHOWN_AT`] tells, 8 bytes each, *changing*; zero is none.
pub const SUBJECTS_AT: usize = ADMITTED_AT + 8 * PEERS_MAX;
/// Offset of the names of those at [`ADMITTED_AT`], 64 bytes each, *changing*: a byte with the length, and the name.
pub const NAMES_AT: usize = SUBJECTS_AT + 8 * PEERS_MAX;
/// Bytes of such a name.
pub const NAME_FIELD_BYTES: usize = 64;
/// Offset of a bit for each region of this enclave's arena whose producer lives, *changing*, in words of 8 bytes.
pub const PRODUCED_AT: usize = NAMES_AT + NAME_FIELD_BYTES * PEERS_MAX;
/// Offset of the places of what those at [`ADMITTED_AT`] say, 8 bytes each, *changing*: offsets in bytes in the files of their arenas.
/// So this enclave's producers need no number that another one wrote.
pub const AREAS_AT: usize = PRODUCED_AT + REGIONS_MAX as usize / 8;
/// Offset of the identities of those enclaves which this one's agent rings when a region of its arena publishes, 8 bytes each,
/// *changing*; zero is none.
pub const RUNG_AT: usize = AREAS_AT + 8 * PEERS_MAX;
/// Offset of the words of leases, *changing*: for each subject, for each region of its arena by number, 8 bytes with a bit for each
/// slot that somebody in this enclave holds.
pub const SHOWN_AT: usize = PAGE_BYTES;
/// Length of all that.
pub const AREA_BYTES: usize = SHOWN_AT + 8 * PEERS_MAX * REGIONS_MAX as usize;

/// Name of the socket of the agent beside an arena that is another enclave's.
pub const AGENT: &str = "agent";

/// Name of the socket by which a machine has its doorbell, beside its arena.
pub const DOORBELL: &str = "doorbell";

/// Name of a file beside an enclave's arena, whose lock goes with the machine. Each start of the machine makes it anew.
pub const MACHINE: &str = "machine";

/// Byte of that file on which the machine has a write lock as long as it runs.
pub const RUNNING_AT: u64 = 0;

/// Name of the file on whose first byte has a write lock who starts the machine, or records that it has ended. It is its owner's
/// alone: a file that others may read they can lock as well.
pub const MACHINE_LOCK: &str = "machine.lock";

/// What messages call it.
const FILE: &str = "enclave";

/// Who an enclave is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enclave {
    /// Its name.
    pub name: String,
    /// Which of those that ever had the name; zero if it is recorded that its machine has ended.
    pub identity: u64,
    /// Which arena.
    pub arena: u64,
    /// Which start of its kernel.
    pub boot: [u8; 16],
}

/// Offset of the word that says whether the enclave at this place counts.
pub const fn admitted_at(place: usize) -> usize {
    ADMITTED_AT + 8 * place
}

/// Offset of the word that says of whose regions the words at this place tell.
pub const fn subject_at(place: usize) -> usize {
    SUBJECTS_AT + 8 * place
}

/// Offset of the word that says where the enclave at this place says what it says.
pub const fn area_at(place: usize) -> usize {
    AREAS_AT + 8 * place
}

/// Offset of the name of the enclave at this place.
pub const fn name_at(place: usize) -> usize {
    NAMES_AT + NAME_FIELD_BYTES * place
}

/// Offset of the word with the bit of a region whose producer lives: bit `region % 64`.
pub const fn produced_at(region: u32) -> usize {
    PRODUCED_AT + 8 * (region as usize / 64)
}

/// Offset of the word that says whether the enclave at this place is rung.
pub const fn rung_at(place: usize) -> usize {
    RUNG_AT + 8 * place
}

/// The name of an enclave, as it stands at [`name_at`].
pub fn encode_name(name: &str) -> [u8; NAME_FIELD_BYTES] {
    let mut bytes = [0; NAME_FIELD_BYTES];
    let name = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
    bytes[0] = name.len() as u8;
    bytes[1..][..name.len()].copy_from_slice(name);
    bytes
}

/// The name that stands there; `None` if it is none.
pub fn decode_name(bytes: &[u8; NAME_FIELD_BYTES]) -> Option<&str> {
    let name = bytes[1..].get(..usize::from(bytes[0]))?;
    std::str::from_utf8(name).ok().filter(|name| is_name(name))
}

/// Offset of the word of a region of the subject at this place.
pub const fn shown_at(place: usize, region: u32) -> usize {
    SHOWN_AT + 8 * (place * REGIONS_MAX as usize + region as usize)
}

/// Whether there is room for what an enclave says in a file of so many bytes, behind its arena of `arena_bytes`.
pub const fn has_room(arena_bytes: u64, file_bytes: u64) -> bool {
    match arena_bytes.checked_add(AREA_BYTES as u64) {
        Some(end) => end <= file_bytes,
        None => false,
    }
}

/// Whether a text can be the name of an enclave: it is that of a directory, too.
pub fn is_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_good)
}

impl Enclave {
    /// The bytes from the format's version to the CRC. The magic is left out: it is written when all else is there.
    pub fn encode(&self) -> [u8; CRC_AT + 4 - ABI_AT] {
        let mut bytes = [0; CRC_AT + 4];
        let name = &self.name.as_bytes()[..self.name.len().min(NAME_BYTES_MAX)];
        bytes[ABI_AT..][..4].copy_from_slice(&ABI.to_le_bytes());
        bytes[NAME_LENGTH_AT..][..4].copy_from_slice(&(name.len() as u32).to_le_bytes());
        bytes[NAME_AT..][..name.len()].copy_from_slice(name);
        bytes[IDENTITY_AT..][..8].copy_from_slice(&self.identity.to_le_bytes());
        bytes[ARENA_AT..][..8].copy_from_slice(&self.arena.to_le_bytes());
        bytes[BOOT_AT..][..16].copy_from_slice(&self.boot);
        let crc = crc32fast::hash(&bytes[ABI_AT..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        let mut own = [0; CRC_AT + 4 - ABI_AT];
        own.copy_from_slice(&bytes[ABI_AT..]);
        own
    }

    /// Who says so in an area whose words `word` loads by their offsets, with acquire ordering: the magic first, before which all else was
    /// written. `None` if nobody says so in this format.
    pub fn read(word: impl Fn(usize) -> u64) -> Option<Enclave> {
        if word(MAGIC_AT) != MAGIC {
            return None;
        }
        let mut bytes = [0; CRC_AT + 4];
        for (at, part) in bytes.chunks_mut(8).enumerate() {
            part.copy_from_slice(&word(8 * at).to_le_bytes()[..part.len()]);
        }
        Enclave::decode(&bytes).ok().flatten()
    }

    /// Who says so, by the bytes from the magic to the CRC; `None` if nobody has said anything yet.
    ///
    /// # Errors
    /// If it is another format, or garbage.
    pub fn decode(bytes: &[u8; CRC_AT + 4]) -> Result<Option<Enclave>, Corrupt> {
        let word32 = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let word64 = |at: usize| u64::from(word32(at)) | u64::from(word32(at + 4)) << 32;
        match word64(MAGIC_AT) {
            0 => return Ok(None),
            MAGIC => {}
            found => return Err(Corrupt::new(FILE, MAGIC_AT, "the magic \"STILENCL\"", format!("{found:#x}"))),
        }
        if word32(ABI_AT) != ABI {
            return Err(Corrupt::new(FILE, ABI_AT, format!("format version {ABI}"), word32(ABI_AT)));
        }
        let crc = crc32fast::hash(&bytes[ABI_AT..CRC_AT]);
        if word32(CRC_AT) != crc {
            return Err(Corrupt::new(FILE, CRC_AT, format!("the CRC {crc:#x}"), format!("{:#x}", word32(CRC_AT))));
        }
        let name = bytes[NAME_AT..IDENTITY_AT].get(..word32(NAME_LENGTH_AT) as usize).unwrap_or(&[]);
        let name = std::str::from_utf8(name).ok().filter(|name| is_name(name));
        let name = name.ok_or_else(|| Corrupt::new(FILE, NAME_AT, "the name of an enclave", "something else"))?;
        let (identity, arena) = (word64(IDENTITY_AT), word64(ARENA_AT));
        if arena == 0 {
            return Err(Corrupt::new(FILE, ARENA_AT, "the identity of an arena", arena));
        }
        let mut boot = [0; 16];
        boot.copy_from_slice(&bytes[BOOT_AT..][..16]);
        Ok(Some(Enclave { name: name.into(), identity, arena, boot }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(enclave: &Enclave) -> [u8; CRC_AT + 4] {
        let mut bytes = [0; CRC_AT + 4];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[ABI_AT..].copy_from_slice(&enclave.encode());
        bytes
    }

    #[test]
    fn an_enclave_is_told_by_what_it_wrote_and_by_nothing_else() {
        for name in ["a", "guest-1", &"x".repeat(NAME_BYTES_MAX)] {
            let enclave = Enclave { name: name.into(), identity: 7, arena: 8, boot: [9; 16] };
            let bytes = written(&enclave);
            assert_eq!(Enclave::decode(&bytes), Ok(Some(enclave)));
            assert_eq!(decode_name(&encode_name(name)), Some(name));
            let word = |at: usize| {
                let part: [u8; 8] = std::array::from_fn(|byte| bytes.get(at + byte).copied().unwrap_or(7));
                u64::from_le_bytes(part)
            };
            assert_eq!(Enclave::read(word), Enclave::decode(&bytes).unwrap());
            assert_eq!(Enclave::read(|at| if at == MAGIC_AT { 0 } else { word(at) }), None);
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut other = bytes;
                    other[at] ^= 1 << bit;
                    assert!(Enclave::decode(&other).is_err(), "bit {bit} of byte {at}");
                }
            }
        }
        assert_eq!(Enclave::decode(&[0; CRC_AT + 4]), Ok(None));
        assert_eq!([[0; 64], [255; 64], [1; 64]].map(|bytes| decode_name(&bytes).is_some()), [false; 3]);
    }

    #[test]
    fn what_has_a_good_sum_is_checked_as_well() {
        for (name, arena) in [("", 1), ("a/b", 1), ("..", 1), ("a\u{e9}", 1), ("a", 0)] {
            let enclave = Enclave { name: name.into(), identity: 1, arena, boot: [0; 16] };
            assert!(Enclave::decode(&written(&enclave)).is_err(), "{name}");
        }
    }

    #[test]
    fn no_two_words_have_one_place() {
        const {
            assert!(produced_at(REGIONS_MAX - 1) + 8 == AREAS_AT && area_at(PEERS_MAX) == RUNG_AT);
            assert!(rung_at(PEERS_MAX) <= SHOWN_AT);
            assert!(NAME_BYTES_MAX < NAME_FIELD_BYTES);
            assert!(NAME_AT + NAME_BYTES_MAX <= IDENTITY_AT && AREA_BYTES.is_multiple_of(PAGE_BYTES));
        }
        assert_eq!(shown_at(PEERS_MAX - 1, REGIONS_MAX - 1) + 8, AREA_BYTES);
        assert_eq!(shown_at(1, 0), shown_at(0, REGIONS_MAX - 1) + 8);
    }
}
