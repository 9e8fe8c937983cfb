//! The functions behind those that this library stands in for: the C library's, or those of another library between them.
//! Libraries of MPI follow a process's memory by changing the C library's functions, so what is passed on goes through these
//! and not to the kernel past them.

use libc::{c_char, c_int, c_void, off_t, size_t};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function, looked up once.
struct Next {
    /// Its name, with a zero at the end.
    name: &'static str,
    /// Its address, 0 as long as nobody looked, or [`MISSING`].
    found: AtomicUsize,
}

const MISSING: usize = 1;

thread_local! {
    static IS_LOOKING: Cell<bool> = const { Cell::new(false) };
}

impl Next {
    fn address(&self) -> Option<usize> {
        match self.found.load(Ordering::Relaxed) {
            0 => self.look_up(),
            MISSING => None,
            found => Some(found),
        }
    }

    #[cold]
    fn look_up(&self) -> Option<usize> {
        // Who looks may allocate, and who allocates may map: that finds nothing, and goes to the kernel.
        if IS_LOOKING.try_with(|looking| looking.replace(true)) != Ok(false) {
            return None;
        }
        // SAFETY: the name is a string that ends.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast()) } as usize;
        let _ = IS_LOOKING.try_with(|looking| looking.set(false));
        self.found.store(if found == 0 { MISSING } else { found }, Ordering::Relaxed);
        (found != 0).then_some(found)
    }
}

/// Makes functions that call the next of their name, or do `else` where there is none.
macro_rules! next {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty => $otherwise:expr;)*) => {
        mod found {
            use super::*;
            $(#[allow(non_upper_case_globals)]
            pub(super) static $name: Next =
                Next { name: concat!(stringify!($name), "\0"), found: AtomicUsize::new(0) };)*
            pub(super) static ALL: &[&Next] = &[$(&$name),*];
        }
        $(pub fn $name($($argument: $type),*) -> $result {
            match found::$name.address() {
                // SAFETY: the function of that name takes these arguments, also where more may follow (mremap), and they are
                // the caller's, or name memory of this library's own.
                Some(address) => unsafe {
                    std::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> $result>(address)($($argument),*)
                },
                None => $otherwise,
            }
        })*
    };
}

/// What the kernel says.
macro_rules! kernel {
    ($number:ident, $($argument:expr),*) => {
        // SAFETY: as of the function that has this call behind it.
        unsafe { libc::syscall(libc::$number, $($argument),*) as _ }
    };
}

fn missing() -> c_int {
    // SAFETY: the C library gives each thread a valid location.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

next! {
    fn mmap(address: usize, bytes: size_t, protection: c_int, flags: c_int, file: c_int, offset: off_t) -> usize => kernel!(SYS_mmap, address, bytes, protection, flags, file, offset);
    fn mmap64(address: usize, bytes: size_t, protection: c_int, flags: c_int, file: c_int, offset: off_t) -> usize => kernel!(SYS_mmap, address, bytes, protection, flags, file, offset);
    fn munmap(address: usize, bytes: size_t) -> c_int => kernel!(SYS_munmap, address, bytes);
    fn mremap(address: usize, bytes: size_t, new_bytes: size_t, flags: c_int, to: *mut c_void) -> usize => kernel!(SYS_mremap, address, bytes, new_bytes, flags, to);
    fn mprotect(address: usize, bytes: size_t, protection: c_int) -> c_int => kernel!(SYS_mprotect, address, bytes, protection);
    fn msync(address: usize, bytes: size_t, flags: c_int) -> c_int => kernel!(SYS_msync, address, bytes, flags);
    fn unlink(path: *const c_char) -> c_int => kernel!(SYS_unlinkat, libc::AT_FDCWD, path, 0);
    fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int => kernel!(SYS_unlinkat, directory, path, flags);
    fn shm_unlink(name: *const c_char) -> c_int => missing();
    fn remove(path: *const c_char) -> c_int => missing();
}

/// Looks all of them up, so that no signal handler has to.
pub fn find_all() {
    found::ALL.iter().for_each(|next| {
        next.address();
    });
}
