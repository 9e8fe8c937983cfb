//! The doorbell in a machine: a device of QEMU, `ivshmem-doorbell`.
//!
//! To ring takes no driver: a program writes to a register, which `/sys` lets it map. To be rung takes one that hands out interrupts, which
//! `vfio-pci` does. Without it the machine's observers look by themselves.

use super::{AGENT, Line, PAUSE, Ringer};
use crate::error::{Error, Result};
use crate::socket::system;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use stillframe_kernel::local;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::vfio::Interrupt;
use stillframe_kernel::{Failure, PAGE_BYTES};

/// Where the kernel tells of PCI devices.
const DEVICES: &str = "/sys/bus/pci/devices";
/// Who made the device, and which it is (docs/specs/ivshmem-spec of QEMU).
const KIND: [(&str, u32); 2] = [("vendor", 0x1af4), ("device", 0x1110)];
/// Offset of the register that tells the number of this machine among those that are connected.
const OWN_ID_AT: usize = 8;
/// Offset of the register that rings: the number of whom in the upper half, and which of his counters in the lower.
const DOORBELL_AT: usize = 12;
const REGISTERS_BYTES: usize = 256;

/// Whether a text is the address of a PCI device, as the kernel writes it: DDDD:BB:DD.F.
pub(super) fn is_address(text: &str) -> bool {
    let is_like = |(found, form): (u8, u8)| match form {
        b'x' => found.is_ascii_digit() || (b'a'..=b'f').contains(&found),
        b'7' => (b'0'..=b'7').contains(&found),
        _ => found == form,
    };
    let form = b"xxxx:xx:xx.7";
    text.len() == form.len() && text.bytes().zip(*form).all(is_like)
}

/// The device.
#[derive(Debug)]
pub(crate) struct Device {
    path: PathBuf,
    registers: Arc<Mapping>,
    /// Where in the mapping they begin.
    at: usize,
    interrupt: Option<Interrupt>,
}

impl Device {
    /// # Errors
    /// [`Error::NotShared`] if it is another device, or has no doorbell; others of the calls.
    pub(crate) fn open(address: &str) -> Result<Device> {
        Device::open_in(Path::new(DEVICES), address)
    }

    fn open_in(devices: &Path, address: &str) -> Result<Device> {
        let path = devices.join(address);
        let not = |why: &str| Error::NotShared { path: path.clone(), why: why.into() };
        let text = |name: &str| fs::read_to_string(path.join(name)).map_err(|error| system(&path, "read", error));
        for (name, expected) in KIND {
            let found = text(name)?;
            if hexadecimal(found.trim()) != Some(u64::from(expected)) {
                return Err(not(&format!(
                    "its {name} is {}, and that of an ivshmem device {expected:#06x}",
                    found.trim()
                )));
            }
        }
        // The kernel maps whole pages, of which the registers may be any part.
        let first = text("resource")?.split_whitespace().next().and_then(hexadecimal);
        let at = first.ok_or_else(|| not("it tells no address of its registers"))? as usize % PAGE_BYTES;
        if at + REGISTERS_BYTES > PAGE_BYTES || !at.is_multiple_of(8) {
            return Err(not("its registers do not lie in one page"));
        }
        // Interrupts first: whoever hands them out may have to begin with the device anew.
        let interrupt = Interrupt::of(&path).map_err(|failure| Error::System { path: path.clone(), failure })?;
        let file = File::options().read(true).write(true).open(path.join("resource0"));
        let file = file.map_err(|error| system(&path.join("resource0"), "open", error))?;
        let registers = Mapping::shared(&file, 0, PAGE_BYTES, true);
        let registers = registers.map_err(|failure| Error::System { path: path.join("resource0"), failure })?;
        let own = registers.word32(at + OWN_ID_AT).load(Relaxed);
        if !(1..=u32::from(u16::MAX)).contains(&own) {
            return Err(not("it has no doorbell of an agent: QEMU makes one by -device ivshmem-doorbell"));
        }
        Ok(Device { path, registers: registers.into(), at, interrupt })
    }

    /// Whether this machine can be rung.
    pub(crate) fn hears(&self) -> bool {
        self.interrupt.is_some()
    }

    /// Rings, and listens, until something comes by `stop`.
    pub(crate) fn serve(&self, stop: BorrowedFd<'_>, line: &Line) -> Result<()> {
        let (registers, at) = (self.registers.clone(), self.at + DOORBELL_AT);
        let ring = move || {
            registers.word32(at).store(u32::from(AGENT) << 16, SeqCst);
            Ok(())
        };
        let _ringer = Ringer::start(&line.own, ring).map_err(|error| system(&self.path, "pthread_create", error))?;
        line.set(true, self.hears());
        let done = self.listen(stop, line).map_err(|failure| Error::System { path: self.path.clone(), failure });
        line.set(false, false);
        done
    }

    fn listen(&self, stop: BorrowedFd<'_>, line: &Line) -> Result<(), Failure> {
        let event = self.interrupt.as_ref().map(Interrupt::event);
        loop {
            let watched: Vec<_> = [stop].into_iter().chain(event.map(AsFd::as_fd)).collect();
            if local::wait_any(&watched, None)?[0] {
                return Ok(());
            }
            if let Some(event) = event
                && event.take()?
            {
                line.heard();
                std::thread::sleep(PAUSE);
            }
        }
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// A directory like that of a device, with this number of its own; its registers begin in the middle of a page.
    fn device(name: &str, vendor: &str, own: i32) -> PathBuf {
        let path = PathBuf::from(format!("/dev/shm/stillframe-test-device-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("vendor"), vendor).unwrap();
        fs::write(path.join("device"), "0x1110\n").unwrap();
        fs::write(path.join("resource"), "0x00000000febf1100 0x00000000febf11ff 0x40200\n").unwrap();
        let registers = File::create(path.join("resource0")).unwrap();
        registers.set_len(PAGE_BYTES as u64).unwrap();
        registers.write_all_at(&own.to_le_bytes(), 0x100 + OWN_ID_AT as u64).unwrap();
        registers.write_all_at(&[0xff; 4], 0x100 + DOORBELL_AT as u64).unwrap();
        path
    }

    #[test]
    fn a_device_is_told_by_its_kind_and_its_own_number() {
        let open = |name: &str, vendor: &str, own: i32| {
            let path = device(name, vendor, own);
            let opened = Device::open_in(path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
            fs::remove_dir_all(&path).unwrap();
            opened.map(|opened| (opened.at, opened.hears())).map_err(|error| error.to_string())
        };
        assert_eq!(open("fine", "0x1af4\n", 3), Ok((0x100, false)));
        assert!(open("other", "0x8086\n", 3).unwrap_err().contains("0x8086"));
        // It has none, or does not know it yet.
        for own in [0, -1, 65536] {
            assert!(open("without", "0x1af4\n", own).unwrap_err().contains("no doorbell"));
        }
        assert!(Device::open_in(Path::new("/dev/shm"), "0000:00:05.0").is_err());
    }
}
