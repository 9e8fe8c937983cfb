//! Interrupts of a PCI device, told by a counter: the driver `vfio-pci` hands them to programs (vfio.rst in the kernel's documentation).
//!
//! # Safety
//!
//! `libc` and `rustix` have no words for these requests. Each `ioctl` gets a number, a descriptor, or a pointer to a value that lives
//! through the call and has the size that is told in it. No memory is mapped, and none given to the device.

use crate::Failure;
use crate::event::Event;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The requests, as linux/vfio.h numbers them: none of them says its size.
const fn request(number: u64) -> u64 {
    (b';' as u64) << 8 | (100 + number)
}
const GET_API_VERSION: u64 = request(0);
const SET_IOMMU: u64 = request(2);
const GROUP_GET_STATUS: u64 = request(3);
const GROUP_SET_CONTAINER: u64 = request(4);
const GROUP_GET_DEVICE_FD: u64 = request(6);
const DEVICE_GET_REGION_INFO: u64 = request(8);
const DEVICE_SET_IRQS: u64 = request(10);

const API_VERSION: i32 = 0;
/// How memory is translated for devices that programs have. None is given to this one.
const TYPE1_IOMMU: usize = 1;
const GROUP_IS_VIABLE: u32 = 1;
const CONFIG_REGION: u32 = 7;
const MSIX: u32 = 2;
/// "Here is an eventfd", and "which is told each interrupt".
const EVENTFD_FOR_TRIGGER: u32 = 1 << 2 | 1 << 5;

/// Offset of the command register in a device's configuration, and the bit by which it may send interrupts as messages.
const COMMAND_AT: u64 = 4;
const BUS_MASTER: u16 = 1 << 2;

#[repr(C)]
struct GroupStatus {
    bytes: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct RegionInfo {
    bytes: u32,
    flags: u32,
    index: u32,
    capabilities_at: u32,
    size: u64,
    offset: u64,
}

#[repr(C)]
struct SetIrqs {
    bytes: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    eventfd: i32,
}

/// The first interrupt of a device.
#[derive(Debug)]
pub struct Interrupt {
    event: Event,
    // In this order they are closed.
    device: File,
    _group: File,
    _container: File,
}

/// # Safety
/// `argument` is what the request takes: a number, or the address of a value of its type that lives through the call.
unsafe fn ioctl(file: &File, name: &'static str, request: u64, argument: usize) -> Result<i32, Failure> {
    // SAFETY: the descriptor is open, and the caller vouches for the argument.
    match unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) } {
        -1 => Err(Failure::last("ioctl", name)),
        done => Ok(done),
    }
}

fn unfit(name: &'static str, kind: io::ErrorKind, why: &str) -> Failure {
    Failure { call: "ioctl", detail: name.into(), source: io::Error::new(kind, why.to_string()) }
}

fn open(path: &Path) -> Result<File, Failure> {
    let opened = File::options().read(true).write(true).open(path);
    opened.map_err(|source| Failure { call: "open", detail: path.display().to_string(), source })
}

/// The group of a device that `vfio-pci` has; `None` if another driver has it, or none.
fn group(device: &Path) -> Option<PathBuf> {
    if std::fs::read_link(device.join("driver")).ok()?.file_name()? != "vfio-pci" {
        return None;
    }
    Some(Path::new("/dev/vfio").join(std::fs::read_link(device.join("iommu_group")).ok()?.file_name()?))
}

impl Interrupt {
    /// Has the kernel tell the first interrupt of a device, whose directory this is in `/sys/bus/pci/devices`; `None` if `vfio-pci` is
    /// not its driver.
    ///
    /// # Errors
    /// Those of the calls: `EBUSY` if another process has the device, `EPERM` of `VFIO_SET_IOMMU` if nothing translates its interrupts.
    pub fn of(device: &Path) -> Result<Option<Interrupt>, Failure> {
        let Some(group) = group(device) else { return Ok(None) };
        let address = device.file_name().map_or_else(Vec::new, |name| name.as_encoded_bytes().to_vec());
        // A name with a zero in it is that of no device, as is the empty one.
        let address = CString::new(address).unwrap_or_default();
        let container = open(Path::new("/dev/vfio/vfio"))?;
        // SAFETY: the request takes nothing.
        if unsafe { ioctl(&container, "VFIO_GET_API_VERSION", GET_API_VERSION, 0) }? != API_VERSION {
            return Err(unfit("VFIO_GET_API_VERSION", io::ErrorKind::Unsupported, "another version"));
        }
        let group = open(&group)?;
        let mut status = GroupStatus { bytes: size_of::<GroupStatus>() as u32, flags: 0 };
        // SAFETY: the request takes this structure.
        unsafe { ioctl(&group, "VFIO_GROUP_GET_STATUS", GROUP_GET_STATUS, (&raw mut status) as usize) }?;
        if status.flags & GROUP_IS_VIABLE == 0 {
            let why = "other devices of its group have other drivers";
            return Err(unfit("VFIO_GROUP_GET_STATUS", io::ErrorKind::ResourceBusy, why));
        }
        let number = container.as_raw_fd();
        // SAFETY: the request takes the address of a descriptor's number.
        unsafe { ioctl(&group, "VFIO_GROUP_SET_CONTAINER", GROUP_SET_CONTAINER, (&raw const number) as usize) }?;
        // SAFETY: the request takes a number.
        unsafe { ioctl(&container, "VFIO_SET_IOMMU", SET_IOMMU, TYPE1_IOMMU) }?;
        // SAFETY: the request takes the address of a text that ends.
        let device =
            unsafe { ioctl(&group, "VFIO_GROUP_GET_DEVICE_FD", GROUP_GET_DEVICE_FD, address.as_ptr() as usize) }?;
        // SAFETY: the kernel has just made it, for nobody else.
        let device = File::from(unsafe { OwnedFd::from_raw_fd(device) });
        let event = Event::new()?;
        let mut irqs = SetIrqs {
            bytes: size_of::<SetIrqs>() as u32,
            flags: EVENTFD_FOR_TRIGGER,
            index: MSIX,
            start: 0,
            count: 1,
            eventfd: event.as_fd().as_raw_fd(),
        };
        // SAFETY: the request takes this structure.
        unsafe { ioctl(&device, "VFIO_DEVICE_SET_IRQS", DEVICE_SET_IRQS, (&raw mut irqs) as usize) }?;
        let interrupt = Interrupt { event, device, _group: group, _container: container };
        interrupt.let_send()?;
        Ok(Some(interrupt))
    }

    /// Lets the device send interrupts: they are writes of its own to memory, which the driver forbids at first.
    fn let_send(&self) -> Result<(), Failure> {
        let device = &self.device;
        let mut info =
            RegionInfo { bytes: size_of::<RegionInfo>() as u32, index: CONFIG_REGION, ..RegionInfo::default() };
        // SAFETY: the request takes this structure.
        unsafe { ioctl(device, "VFIO_DEVICE_GET_REGION_INFO", DEVICE_GET_REGION_INFO, (&raw mut info) as usize) }?;
        let fail = |call| move |source| Failure { call, detail: "the command register".into(), source };
        let (at, mut command) = (info.offset + COMMAND_AT, [0; 2]);
        device.read_exact_at(&mut command, at).map_err(fail("pread"))?;
        let command = u16::from_le_bytes(command) | BUS_MASTER;
        device.write_all_at(&command.to_le_bytes(), at).map_err(fail("pwrite"))
    }

    /// Rung by each interrupt.
    pub fn event(&self) -> &Event {
        &self.event
    }
}
