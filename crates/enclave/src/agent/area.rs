//! What an enclave says behind its arena (`stillframe_segment::enclave`), mapped.

use crate::error::{Error, Result};
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicU64, fence};
use stillframe_kernel::folder::{Access, Folder};
use stillframe_kernel::map::Mapping;
use stillframe_kernel::space;
use stillframe_kernel::trust::Guard;
use stillframe_protocol::shown::{Show, Shown};
use stillframe_segment::arena::{self, Geometry};
use stillframe_segment::enclave::{self, Enclave};

/// An area, of this enclave or of another one.
#[derive(Debug)]
pub(super) struct Area {
    map: Mapping,
    pub(super) geometry: Geometry,
    /// Of the arena's file.
    pub(super) identity: (u64, u64),
}

impl Area {
    /// That behind the arena in a directory; `None` if there is no finished arena, or no room behind it, or no
    /// memory for what was not written there.
    pub(super) fn open(folder: &Folder, path: &Path, guard: Guard, is_writing: bool) -> Result<Option<Area>> {
        let path = path.join(arena::FILE);
        let access = if is_writing { Access::Write } else { Access::Read };
        let (file, about) = match guard.open(folder, arena::FILE, access) {
            Ok(opened) => opened,
            Err(refused) if refused.is_missing() => return Ok(None),
            Err(refused) => return Err(crate::socket::explain(&path, refused)),
        };
        let mut header = vec![0; arena::HEADER_BYTES];
        let length = space::read_begin(&file, &mut header);
        let length = length.map_err(|error| crate::socket::system(&path, "read", error))?;
        let garbled = |why: String| Error::NotShared { path: path.clone(), why };
        let geometry = Geometry::decode(&header[..length], about.bytes);
        let Some(geometry) = geometry.map_err(|corrupt| garbled(corrupt.to_string()))? else { return Ok(None) };
        if geometry.regions() > enclave::REGIONS_MAX {
            let most = enclave::REGIONS_MAX;
            return Err(garbled(format!("it is for {} regions, and at most {most} are shared so", geometry.regions())));
        }
        if !enclave::has_room(geometry.bytes(), about.bytes) {
            return Ok(None);
        }
        let map = Mapping::shared(&file, geometry.bytes(), enclave::AREA_BYTES, is_writing);
        let map = map.map_err(|failure| Error::System { path, failure })?;
        // Where an enclave has written nothing, looking takes memory. It is looked again when there may be some.
        let has_memory = map.take_to_read(0, enclave::AREA_BYTES).is_ok();
        Ok(has_memory.then_some(Area { map, geometry, identity: about.identity }))
    }

    /// The arena itself, to be looked at.
    ///
    /// # Errors
    /// That it is another one by now; others of the file.
    pub(super) fn open_arena(&self, folder: &Folder, path: &Path, guard: Guard) -> Result<Mapping> {
        let path = path.join(arena::FILE);
        let opened = guard.open(folder, arena::FILE, Access::Read);
        let (file, about) = opened.map_err(|refused| crate::socket::explain(&path, refused))?;
        if about.identity != self.identity {
            return Err(Error::NotShared { path, why: "it was replaced just now".into() });
        }
        let map = Mapping::shared(&file, 0, self.geometry.bytes() as usize, false);
        map.map_err(|failure| Error::System { path, failure })
    }

    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        self.map.word64(offset)
    }

    pub(super) fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Acquire)
    }

    /// Who is said to be the enclave; `None` if nobody has said so, or not in this format.
    pub(super) fn said(&self) -> Option<Enclave> {
        Enclave::read(|offset| self.load(offset))
    }

    /// Says who this enclave is.
    pub(super) fn say(&self, own: &Enclave) {
        self.word(enclave::MAGIC_AT).store(0, Release);
        self.map.write(enclave::ABI_AT, &own.encode());
        self.word(enclave::MAGIC_AT).store(enclave::MAGIC, Release);
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        self.map.write(offset, bytes);
    }

    /// The name of the enclave that has a place here; `None` if none has.
    pub(super) fn name_at(&self, place: usize) -> Option<String> {
        let mut bytes = [0; enclave::NAME_FIELD_BYTES];
        self.map.read(enclave::name_at(place), &mut bytes);
        enclave::decode_name(&bytes).map(String::from)
    }

    /// The regions of which something is shown at a place, each with its word.
    pub(super) fn shown(&self, place: usize) -> impl Iterator<Item = (u32, u64)> {
        let word = move |region| self.load(enclave::shown_at(place, region));
        (0..enclave::REGIONS_MAX).map(move |region| (region, word(region))).filter(|(_, word)| *word != 0)
    }

    /// Whether an enclave counts for whose area this is. That is so under its own name alone: any other enclave may say that it
    /// has the same identity, and then its words would be looked at.
    pub(super) fn admits(&self, said: &Enclave) -> bool {
        let is_it = |place: &usize| self.load(enclave::admitted_at(*place)) == said.identity;
        let is_named = |place: &usize| self.name_at(*place).as_ref() == Some(&said.name);
        (0..enclave::PEERS_MAX).filter(is_it).filter(is_named).any(|place| {
            // The place may have been given to another one meanwhile, with its name.
            fence(Acquire);
            is_it(&place)
        })
    }

    /// Whether whose area this is rings the enclave of an identity.
    pub(super) fn rings(&self, identity: u64) -> bool {
        (0..enclave::PEERS_MAX).any(|place| self.load(enclave::rung_at(place)) == identity)
    }
}

/// What this enclave shows another one of one of its regions.
pub(super) struct Words<'a> {
    pub(super) own: &'a Area,
    pub(super) peer: &'a Area,
    pub(super) place: usize,
    pub(super) region: u32,
    /// Who this enclave is.
    pub(super) said: &'a Enclave,
}

impl Words<'_> {
    fn word(&self) -> &AtomicU64 {
        self.own.word(enclave::shown_at(self.place, self.region))
    }
}

impl Shown for Words<'_> {
    fn is_shown(&self, slot: usize) -> bool {
        self.word().load(Acquire) >> slot & 1 == 1
    }

    fn is_admitted(&self) -> bool {
        self.peer.admits(self.said)
    }
}

impl Show for Words<'_> {
    fn show(&self, slot: usize) {
        self.word().fetch_or(1 << slot, AcqRel);
    }

    fn hide(&self, slot: usize) {
        self.word().fetch_and(!(1 << slot), AcqRel);
    }
}
