//! The library, opened at run time, and what it offers.

use super::layout::{
    API, FI_CONTEXT, FI_CONTEXT2, FI_EAGAIN, FI_ENODATA, FI_EP_RDM, FI_MR_ALLOCATED, FI_MR_LOCAL, FI_MR_PROV_KEY,
    FI_MR_VIRT_ADDR, FI_NUMERICHOST, FI_ORDER_SAS, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOURCE, FI_TAGGED,
    FI_THREAD_DOMAIN, FiFabricAttr, FiInfo, FidFabric,
};
use crate::error::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::IpAddr;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

const NAME: &CStr = c"libfabric.so.1";
/// Operations of one kind that an endpoint has under way at most. Some providers take memory for each.
pub(super) const QUEUE: usize = 64;
/// Bytes that can be sent without a completion.
pub(super) const INJECT_BYTES: usize = 32;

type GetInfo = unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const FiInfo, *mut *mut FiInfo) -> c_int;

/// The functions that libfabric has by name.
pub(crate) struct Library {
    get_info: GetInfo,
    free_info: unsafe extern "C" fn(*mut FiInfo),
    dup_info: unsafe extern "C" fn(*const FiInfo) -> *mut FiInfo,
    pub(super) fabric: unsafe extern "C" fn(*mut FiFabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// What a provider offers, the best first; never empty.
pub(super) struct Infos {
    library: &'static Library,
    first: NonNull<FiInfo>,
}

impl Drop for Infos {
    fn drop(&mut self) {
        // SAFETY: libfabric made the list, and nobody else has it.
        unsafe { (self.library.free_info)(self.first.as_ptr()) }
    }
}

/// Offers of a list.
pub(super) struct Iter<'i> {
    next: *mut FiInfo,
    of: std::marker::PhantomData<&'i Infos>,
}

impl Iterator for Iter<'_> {
    type Item = NonNull<FiInfo>;

    fn next(&mut self) -> Option<NonNull<FiInfo>> {
        let this = NonNull::new(self.next)?;
        // SAFETY: it is of a list that outlives this.
        self.next = unsafe { this.as_ref() }.next;
        Some(this)
    }
}

impl Infos {
    pub(super) fn iter(&self) -> Iter<'_> {
        Iter { next: self.first.as_ptr(), of: std::marker::PhantomData }
    }

    /// Whose offers they are, one name for each.
    fn providers(&self) -> impl Iterator<Item = String> {
        self.iter().map(|info| {
            // SAFETY: the list has all attributes, and texts end with a zero.
            unsafe { text((*info.as_ref().fabric_attr).prov_name) }
        })
    }
}

impl Library {
    /// The library, which stays open once it is.
    ///
    /// # Errors
    /// [`Error::NoLibrary`], [`Error::NoFunction`], [`Error::TooOld`].
    pub(crate) fn open() -> Result<&'static Library> {
        static LIBRARY: OnceLock<Result<Library>> = OnceLock::new();
        LIBRARY.get_or_init(Library::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Library> {
        let handle = keeping_signals(|| {
            // SAFETY: the name ends with a zero. Initialisers are called, as for every program that is linked to it.
            unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
        });
        if handle.is_null() {
            // SAFETY: the text is this thread's until the next call.
            let why = unsafe { text(libc::dlerror()) };
            return Err(Error::NoLibrary { why });
        }
        let find = |name: &'static CStr| {
            // SAFETY: the handle is open, and stays so; the name ends with a zero.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            match found.is_null() {
                true => Err(Error::NoFunction { name: name.to_str().unwrap_or("fi") }),
                false => Ok(found),
            }
        };
        let version = find(c"fi_version")?;
        // SAFETY: the headers declare the functions so.
        let library = unsafe {
            let version = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(version)();
            if version < API {
                return Err(Error::TooOld { major: version >> 16, minor: version & 0xffff });
            }
            Library {
                get_info: std::mem::transmute::<*mut c_void, GetInfo>(find(c"fi_getinfo")?),
                free_info: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut FiInfo)>(find(c"fi_freeinfo")?),
                dup_info: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const FiInfo) -> *mut FiInfo>(find(
                    c"fi_dupinfo",
                )?),
                fabric: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut FiFabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int,
                >(find(c"fi_fabric")?),
                strerror: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(find(
                    c"fi_strerror",
                )?),
            }
        };
        Ok(library)
    }

    /// The error of a call, by its code, which may be negative.
    pub(super) fn error(&self, call: &'static str, code: isize) -> Error {
        let code = i32::try_from(code.unsigned_abs()).unwrap_or(i32::MAX);
        // SAFETY: libfabric has a text for each number, that stays.
        let why = unsafe { text((self.strerror)(code)) };
        Error::Call { call, code, why }
    }

    /// What a call returned, if that is no error.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code < 0 { Err(self.error(call, code as isize)) } else { Ok(()) }
    }

    /// Whether a provider is there.
    ///
    /// # Errors
    /// [`Error::NoProvider`], [`Error::Call`].
    pub(crate) fn find(&'static self, provider: &str) -> Result<()> {
        match self.ask(Some(provider), None)? {
            Some(_) => Ok(()),
            None => Err(Error::NoProvider { provider: provider.into(), found: self.providers()? }),
        }
    }

    /// Whether a provider makes messages out of connections of TCP.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub(crate) fn is_over_tcp(&'static self, provider: &str) -> Result<bool> {
        let Some(all) = self.ask(Some(provider), None)? else { return Ok(false) };
        Ok(all.providers().any(|name| name.contains("tcp") && name.contains("ofi_rxm")))
    }

    /// What a provider offers for a node with this address.
    ///
    /// # Errors
    /// [`Error::NoProvider`], [`Error::Call`].
    pub(super) fn offers(&'static self, provider: &str, local: IpAddr) -> Result<Infos> {
        let none = |found| Error::NoProvider { provider: provider.into(), found };
        let Some(all) = self.ask(Some(provider), None)? else { return Err(none(self.providers()?)) };
        let is_ip = all.iter().any(|info| {
            // SAFETY: it is of the list `all`.
            let format = unsafe { info.as_ref() }.addr_format;
            [FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6].contains(&format)
        });
        // A fabric may have addresses of IP that are not those of TCP; then it chooses.
        let own = if is_ip { self.ask(Some(provider), Some(local))? } else { None };
        Ok(own.unwrap_or(all))
    }

    /// The providers that could be used.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub(crate) fn providers(&'static self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        if let Some(all) = self.ask(None, None)? {
            for name in all.providers() {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Ok(names)
    }

    /// Asks for endpoints of reliable datagrams, with tagged messages that keep their order.
    fn ask(&'static self, provider: Option<&str>, local: Option<IpAddr>) -> Result<Option<Infos>> {
        // SAFETY: without an argument it makes an empty one.
        let hints = NonNull::new(unsafe { (self.dup_info)(ptr::null()) });
        let hints = Infos { library: self, first: hints.ok_or(Error::NoMemory { bytes: size_of::<FiInfo>() })? };
        // SAFETY: an empty one has all attributes, and is ours alone. The text is allocated as libfabric frees it.
        unsafe {
            let info = &mut *hints.first.as_ptr();
            info.caps = FI_TAGGED;
            info.mode = FI_CONTEXT | FI_CONTEXT2;
            (*info.ep_attr).kind = FI_EP_RDM;
            (*info.tx_attr).msg_order = FI_ORDER_SAS;
            (*info.tx_attr).size = QUEUE;
            (*info.rx_attr).msg_order = FI_ORDER_SAS;
            (*info.rx_attr).size = QUEUE;
            (*info.domain_attr).threading = FI_THREAD_DOMAIN;
            (*info.domain_attr).mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
            if let Some(name) = provider.and_then(|name| CString::new(name).ok()) {
                (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
            }
        }
        let node = local.and_then(|local| CString::new(local.to_string()).ok());
        let (flags, service) =
            if node.is_some() { (FI_SOURCE | FI_NUMERICHOST, c"0".as_ptr()) } else { (0, ptr::null()) };
        let mut found = ptr::null_mut();
        // SAFETY: texts end with a zero, and all pointers are live.
        let code = unsafe {
            let node = node.as_ref().map_or(ptr::null(), |node| node.as_ptr());
            (self.get_info)(API, node, service, flags, hints.first.as_ptr(), &mut found)
        };
        match code as isize {
            0 => Ok(NonNull::new(found).map(|first| Infos { library: self, first })),
            // Some providers are not ready where there is no such network.
            code if code == -FI_ENODATA || code == -FI_EAGAIN => Ok(None),
            code => Err(self.error("fi_getinfo", code)),
        }
    }
}

/// Signals for which a library that libfabric needs (PSM) puts handlers of its own, which print and exit.
const SIGNALS: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGABRT, libc::SIGINT, libc::SIGTERM];

/// Does something, after which the process meets signals as before.
fn keeping_signals<T>(work: impl FnOnce() -> T) -> T {
    let before = SIGNALS.map(|signal| {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the structure has room for the answer, and all zeros are one, too.
        unsafe {
            let code = libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
            (signal, code == 0, action.assume_init())
        }
    });
    let done = work();
    for (signal, _, action) in before.iter().filter(|(_, is_known, _)| *is_known) {
        // SAFETY: it is what the system had said.
        let _ = unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
    }
    done
}

/// A text of C, as far as it is one.
///
/// # Safety
/// It ends with a zero, or is null.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return "unknown".into();
    }
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
