//! Giving regions other names, all at once.
//!
//! What is to be done is written into the header before it is begun. So whoever changes records after the death of who was
//! renaming finishes it, and a region has its old name or its new one. Those who look meanwhile may see some of the regions
//! with their new names and others with their old ones.

use super::claimed::Claimed;
use super::{Arena, Shared};
use crate::error::{Error, Result};
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use stillframe_kernel::points;
use stillframe_segment::arena::{self, Bucket, NAME_FIELD_BYTES, State, record, word_of};

impl Arena {
    /// Gives the region `from`, or all ranks of the group of this name, the name `to`. Who has it makes way, and is removed. The
    /// caller has the locks of all of them.
    ///
    /// # Errors
    /// [`Error::InUse`] if one of them is not among what the caller has locked; [`Error::BadName`] if the new name is too
    /// long. Nothing is changed then.
    pub(crate) fn rename(&self, from: &str, to: &str, moved: &[Claimed], replaced: Vec<Claimed>) -> Result<()> {
        let shared = &self.shared;
        let check_locked = |family: &[(String, u32)], locked: &[Claimed]| {
            let is_free = |number: u32| locked.iter().all(|claimed| claimed.number() != number);
            match family.iter().find(|(_, number)| is_free(*number)) {
                Some((name, number)) => {
                    let pid = shared.record(*number)?.map_or(0, |record| record.pid);
                    Err(Error::in_use(name, pid))
                }
                None => Ok(()),
            }
        };
        shared.change(|_| {
            let family = shared.family(from)?;
            check_locked(&family, moved)?;
            check_locked(&shared.family(to)?, &replaced)?;
            let names = family.iter().map(|(name, _)| renamed(name, from, to));
            if let Some(name) = names.into_iter().find(|name| !arena::is_name(name)) {
                return Err(Error::BadName { name, what: "region", why: "it is longer than 200 bytes".into() });
            }
            shared.write_name(arena::FROM_AT, from);
            shared.write_name(arena::TO_AT, to);
            shared.set_renamed(0);
            points::hit("arena.rename.begin");
            shared.map.word32(arena::PENDING_AT).store(arena::REPLACING, SeqCst);
            shared.replace()
        })?;
        points::hit("arena.rename.done");
        replaced.into_iter().try_for_each(|claimed| self.give_back_removed(claimed).map(drop))
    }
}

/// The new name of the region `from`, or of a rank of its group.
fn renamed(name: &str, from: &str, to: &str) -> String {
    format!("{to}{}", name.strip_prefix(from).unwrap_or(""))
}

impl Shared {
    fn write_name(&self, at: usize, name: &str) {
        self.map.write(at, &arena::encode_name(name));
    }

    fn read_name(&self, at: usize) -> Result<String> {
        let mut bytes = [0; NAME_FIELD_BYTES];
        self.map.read(at, &mut bytes);
        arena::decode_name(at, &bytes).map_err(|corrupt| self.corrupt(corrupt))
    }

    fn set_renamed(&self, word: u32) {
        self.map.word32(arena::RENAMED_AT).store(word, SeqCst);
    }

    /// Removes the regions whose names others get, as the header says, and renames those. The caller has the creation lock.
    pub(super) fn replace(&self) -> Result<()> {
        for (_, region) in self.family(&self.read_name(arena::TO_AT)?)? {
            self.take_name(region)?;
        }
        points::hit("arena.rename.replaced");
        self.map.word32(arena::PENDING_AT).store(arena::RENAMING, SeqCst);
        self.rename_all()
    }

    /// Renames regions as the header says, also those that another process began with. The caller has the creation lock.
    pub(super) fn rename_all(&self) -> Result<()> {
        let (from, to) = (self.read_name(arena::FROM_AT)?, self.read_name(arena::TO_AT)?);
        let renamed_word = self.map.word32(arena::RENAMED_AT).load(Acquire);
        match self.geometry.decode_pending(renamed_word) {
            Ok(arena::Pending::Nothing) => {}
            Ok(arena::Pending::Record(region)) if region < self.records_end()? => {
                let name = self.read_name(arena::NEW_NAME_AT)?;
                self.finish_renaming(region, &name)?;
            }
            _ => return Err(self.not_expected(arena::RENAMED_AT, "the number of a record + 1", renamed_word)),
        }
        for (name, region) in self.family(&from)? {
            let name = renamed(&name, &from, &to);
            self.write_name(arena::NEW_NAME_AT, &name);
            points::hit("arena.rename.noted");
            self.set_renamed(word_of(region));
            self.finish_renaming(region, &name)?;
        }
        self.map.word32(arena::PENDING_AT).store(0, SeqCst);
        Ok(())
    }

    /// Gives one region its new name, however far another process came with that.
    fn finish_renaming(&self, region: u32, name: &str) -> Result<()> {
        points::hit("arena.rename.one");
        // It was removed before its name was noted, or never was: nothing in a healthy arena says so.
        if !matches!(self.state(region), Some(State::Used | State::Renaming)) {
            let at = self.geometry.record_at(region) + record::STATE_AT;
            return Err(self.not_expected(at, "a region that is used", format!("{:?}", self.state(region))));
        }
        self.set_state(region, State::Renaming);
        points::hit("arena.rename.hidden");
        let mut bytes = [0; record::NAME_AT - record::NAME_BYTES_AT + arena::NAME_BYTES_MAX];
        bytes[..4].copy_from_slice(&(name.len() as u32).to_le_bytes());
        bytes[record::NAME_AT - record::NAME_BYTES_AT..][..name.len()].copy_from_slice(name.as_bytes());
        self.map.write(self.geometry.record_at(region) + record::NAME_BYTES_AT, &bytes);
        points::hit("arena.rename.named");
        self.list_anew(region, name)?;
        points::hit("arena.rename.listed");
        self.set_state(region, State::Used);
        self.set_renamed(0);
        Ok(())
    }

    /// Sees to it that a region is found by this name and by no other.
    fn list_anew(&self, region: u32, name: &str) -> Result<()> {
        for bucket in 0..self.geometry.buckets() {
            if self.bucket(bucket)? == Bucket::Region(region) {
                self.clear_bucket(bucket)?;
            }
        }
        for bucket in self.chain(name) {
            if !matches!(self.bucket(bucket)?, Bucket::Region(_)) {
                self.set_bucket(bucket, word_of(region));
                return Ok(());
            }
        }
        Err(self.not_expected(arena::BUCKETS_AT, "a free bucket", "none"))
    }
}
