//! The functions that this library stands before: the C library's, or those of another library between them.

use libc::{c_int, c_void, off_t, size_t};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A function, looked up once.
struct Next {
    name: &'static str,
    /// Its address, 0 as long as nobody looked, or [`MISSING`].
    found: AtomicUsize,
}

const MISSING: usize = 1;

impl Next {
    fn address(&self) -> Option<usize> {
        let found = match self.found.load(Ordering::Relaxed) {
            0 => self.look_up(),
            found => found,
        };
        (found != MISSING).then_some(found)
    }

    #[cold]
    fn look_up(&self) -> usize {
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast()) } as usize;
        let found = if found == 0 { MISSING } else { found };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Makes functions that call the next of their name, or do something else where there is none.
macro_rules! next {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty => $otherwise:expr;)*) => {
        mod found {
            use super::*;
            $(#[allow(non_upper_case_globals)]
            pub(super) static $name: Next =
                Next { name: concat!(stringify!($name), "\0"), found: AtomicUsize::new(0) };)*
            pub(super) static ALL: &[&Next] = &[$(&$name),*];
        }
        $(#[inline]
        #[allow(non_snake_case)]
        pub fn $name($($argument: $type),*) -> $result {
            match found::$name.address() {
                // SAFETY: the function of that name takes these arguments, also where more may follow (mremap), and
                // they are the caller's.
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
    ($number:ident $(, $argument:expr)*) => {
        // SAFETY: as of the function that has this call behind it.
        unsafe { libc::syscall(libc::$number $(, $argument as usize)*) as _ }
    };
}

extern "C" fn missing() -> c_int {
    crate::kernel::set_errno(libc::ENOSYS);
    -1
}

pub type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

next! {
    fn mmap(address: usize, bytes: size_t, protection: c_int, flags: c_int, file: c_int, offset: off_t) -> usize => kernel!(SYS_mmap, address, bytes, protection, flags, file, offset);
    fn munmap(address: usize, bytes: size_t) -> c_int => kernel!(SYS_munmap, address, bytes);
    fn mremap(address: usize, bytes: size_t, new_bytes: size_t, flags: c_int, to: *mut c_void) -> usize => kernel!(SYS_mremap, address, bytes, new_bytes, flags, to);
    fn mprotect(address: usize, bytes: size_t, protection: c_int) -> c_int => kernel!(SYS_mprotect, address, bytes, protection);
    fn pkey_mprotect(address: usize, bytes: size_t, protection: c_int, key: c_int) -> c_int => kernel!(SYS_pkey_mprotect, address, bytes, protection, key);
    fn sigaltstack(stack: *const libc::stack_t, before: *mut libc::stack_t) -> c_int => kernel!(SYS_sigaltstack, stack, before);
    fn madvise(address: usize, bytes: size_t, advice: c_int) -> c_int => kernel!(SYS_madvise, address, bytes, advice);
    fn ioctl(file: c_int, request: libc::c_ulong, argument: usize) -> c_int => kernel!(SYS_ioctl, file, request, argument);
    fn brk(address: usize) -> c_int => missing();
    fn sbrk(bytes: isize) -> usize => missing() as usize;
    fn fork() -> libc::pid_t => missing();
    fn _Fork() -> libc::pid_t => missing();
    fn pthread_create(thread: *mut libc::pthread_t, attributes: *const c_void, routine: Routine, argument: *mut c_void) -> c_int => libc::EAGAIN;
    fn malloc(bytes: size_t) -> *mut c_void => std::ptr::null_mut();
    fn calloc(count: size_t, bytes: size_t) -> *mut c_void => std::ptr::null_mut();
    fn realloc(block: *mut c_void, bytes: size_t) -> *mut c_void => std::ptr::null_mut();
    fn memalign(align: size_t, bytes: size_t) -> *mut c_void => std::ptr::null_mut();
    fn malloc_usable_size(block: *mut c_void) -> size_t => 0;
    fn free(block: *mut c_void) -> () => ();
    fn _IO_list_lock() -> () => ();
    fn _IO_list_unlock() -> () => ();
    fn _IO_list_resetlock() -> () => ();
}

static MAKECONTEXT: Next = Next { name: "makecontext\0", found: AtomicUsize::new(0) };

/// Where the function is whose arguments only its caller knows. It is the C library's, which has it wherever this library is.
pub fn makecontext_address() -> usize {
    MAKECONTEXT.address().unwrap_or(missing as *const () as usize)
}

/// Looks all of them up, so that nobody has to later, who may have a lock.
pub fn find_all() {
    found::ALL.iter().chain([&&MAKECONTEXT]).for_each(|next| {
        next.address();
    });
}

static HAS_OTHER_ALLOCATOR: AtomicBool = AtomicBool::new(false);

/// Whether the program has an allocator of its own among its libraries, or a tool that watches this one.
#[inline]
pub fn has_other_allocator() -> bool {
    HAS_OTHER_ALLOCATOR.load(Ordering::Relaxed)
}

/// Finds out about it. `is_watched`: there is a tool.
pub fn find_allocator(is_watched: bool) {
    let has = |name: &std::ffi::CStr| {
        // SAFETY: the name ends with a zero.
        !unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.is_null()
    };
    // Of jemalloc, tcmalloc, the sanitizers and oneTBB.
    let is_there = is_watched || [c"mallocx", c"tc_malloc", c"__asan_init", c"scalable_malloc"].into_iter().any(has);
    HAS_OTHER_ALLOCATOR.store(is_there, Ordering::Relaxed);
}
