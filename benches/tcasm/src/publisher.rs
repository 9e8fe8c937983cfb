//! The two ways of publishing that are measured.

use crate::memory::{Pages, shm_open, shm_unlink};
use crate::{Failure, Setting};
use stillframe::{Region, Tracked};

/// Memory that can be published.
pub trait Publisher {
    fn pages(&mut self) -> &mut Pages;
    fn publish(&mut self) -> Result<(), Failure>;
}

/// By the paper's calls, through the preloaded library.
pub struct Msync {
    name: String,
    pages: Pages,
}

impl Msync {
    pub fn new(setting: &Setting, bytes: usize) -> Result<Msync, Failure> {
        let name = setting.name("msync");
        shm_unlink(&name);
        let file = shm_open(&name, Some(bytes))?;
        let mut pages = Pages::private(&file, bytes)?;
        pages.fill(1);
        Ok(Msync { name, pages })
    }
}

impl Publisher for Msync {
    fn pages(&mut self) -> &mut Pages {
        &mut self.pages
    }

    fn publish(&mut self) -> Result<(), Failure> {
        Ok(self.pages.msync()?)
    }
}

impl Drop for Msync {
    fn drop(&mut self) {
        shm_unlink(&self.name);
    }
}

/// By the Rust interface, from an array of the program's own.
pub struct Native {
    region: Region,
    tracked: Tracked<u8>,
    pages: Pages,
    version: u64,
}

impl Native {
    pub fn new(setting: &Setting, bytes: usize) -> Result<Native, Failure> {
        let mut region = Region::options().create(&setting.name("native")[1..])?;
        let tracked = region.track("data")?;
        let version = region.newest().unwrap_or(0);
        Ok(Native { region, tracked, pages: Pages::plain(bytes)?, version })
    }

    /// Removes the region.
    pub fn unlink(self) -> Result<(), Failure> {
        Ok(self.region.unlink()?)
    }
}

impl Publisher for Native {
    fn pages(&mut self) -> &mut Pages {
        &mut self.pages
    }

    fn publish(&mut self) -> Result<(), Failure> {
        self.version += 1;
        let publication = self.region.publish(self.version);
        publication.tracked(&self.tracked, &self.pages[..], &[self.pages.len()]).commit()?;
        Ok(())
    }
}
