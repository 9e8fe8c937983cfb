//! The functions that this library stands before: the C library's, or those of another library between them.

use libc::{c_char, c_int, c_uint, c_void, off_t, size_t};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

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
    fn setrlimit(resource: c_uint, limit: *const libc::rlimit) -> c_int => kernel!(SYS_setrlimit, resource, limit);
    fn prlimit(process: libc::pid_t, resource: c_uint, limit: *const libc::rlimit, former: *mut libc::rlimit) -> c_int => kernel!(SYS_prlimit64, process, resource, limit, former);
    fn brk(address: usize) -> c_int => missing();
    fn sbrk(bytes: isize) -> usize => missing() as usize;
    fn fork() -> libc::pid_t => missing();
    fn _Fork() -> libc::pid_t => missing();
    fn pthread_create(thread: *mut libc::pthread_t, attributes: *const c_void, routine: Routine, argument: *mut c_void) -> c_int => libc::EAGAIN;
    fn malloc(bytes: size_t) -> *mut c_void => std::ptr::null_mut();
    fn calloc(count: size_t, bytes: size_t) -> *mut c_void => std::ptr::null_mut();
    fn realloc(block: *mut c_void, bytes: size_t) -> *mut c_void => std::ptr::null_mut();
    fn reallocarray(block: *mut c_void, count: size_t, bytes: size_t) -> *mut c_void => std::ptr::null_mut();
    fn memalign(align: size_t, bytes: size_t) -> *mut c_void => std::ptr::null_mut();
    fn malloc_usable_size(block: *mut c_void) -> size_t => 0;
    fn free(block: *mut c_void) -> () => ();
    fn _IO_list_lock() -> () => ();
    fn _IO_list_unlock() -> () => ();
    fn _IO_list_resetlock() -> () => ();
}

static MAKECONTEXT: Next = Next { name: "makecontext\0", found: AtomicUsize::new(0) };
static DLOPEN: Next = Next { name: "dlopen\0", found: AtomicUsize::new(0) };

extern "C" fn no_dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    std::ptr::null_mut()
}

/// Where the function is that has to see who calls it: libraries are looked for where the caller's are.
pub fn dlopen_address() -> usize {
    DLOPEN.address().unwrap_or(no_dlopen as *const () as usize)
}

/// Where the function is whose arguments only its caller knows. It is the C library's, which has it wherever this library is.
pub fn makecontext_address() -> usize {
    MAKECONTEXT.address().unwrap_or(missing as *const () as usize)
}

/// Looks all of them up, so that nobody has to later, who may have a lock.
pub fn find_all() {
    found::ALL.iter().chain([&&MAKECONTEXT, &&DLOPEN]).for_each(|next| {
        next.address();
    });
}

static HAS_OTHER_ALLOCATOR: AtomicBool = AtomicBool::new(false);

/// The functions that give blocks, a bit for each.
pub const MALLOC: u32 = 1 << 0;
pub const CALLOC: u32 = 1 << 1;
pub const REALLOCARRAY: u32 = 1 << 2;
pub const POSIX_MEMALIGN: u32 = 1 << 3;
pub const MEMALIGN: u32 = 1 << 4;
pub const ALIGNED_ALLOC: u32 = 1 << 5;
pub const VALLOC: u32 = 1 << 6;
pub const PVALLOC: u32 = 1 << 7;

const GIVERS: [(u32, &std::ffi::CStr); 8] = [
    (MALLOC, c"malloc"),
    (CALLOC, c"calloc"),
    (REALLOCARRAY, c"reallocarray"),
    (POSIX_MEMALIGN, c"posix_memalign"),
    (MEMALIGN, c"memalign"),
    (ALIGNED_ALLOC, c"aligned_alloc"),
    (VALLOC, c"valloc"),
    (PVALLOC, c"pvalloc"),
];

/// Those that leave blocks to others.
static PASSED_ON: AtomicU32 = AtomicU32::new(0);

/// Whether a function leaves its blocks to the next library: all of them where there is another allocator. Where the program has a `free` of its
/// own, those that the program has not: what it frees need not come here. Those that it has come here by its own, if at all, and so do its frees.
#[inline]
pub fn is_passed_on(function: u32) -> bool {
    PASSED_ON.load(Ordering::Relaxed) & function != 0
}

/// Whether the program has an allocator of its own among its libraries, or a tool that watches this one.
#[inline]
pub fn has_other_allocator() -> bool {
    HAS_OTHER_ALLOCATOR.load(Ordering::Relaxed)
}

unsafe extern "C" {
    fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *const c_void, flags: c_int) -> c_int;
}
const RTLD_DL_SYMENT: c_int = 1;

/// The object that an address lies in, by where it begins, and whether a symbol there is defined in it. Programs at fixed addresses that take the
/// address of a function of a library have a jump of their own there, whose symbol is undefined.
fn object_of(address: *const c_void) -> Option<(usize, bool)> {
    let mut symbol: *const c_void = std::ptr::null();
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the call writes what is known of an address, and the symbol there lives as long as its object.
    unsafe {
        if dladdr1(address, info.as_mut_ptr(), &mut symbol, RTLD_DL_SYMENT) == 0 {
            return None;
        }
        let is_defined = !symbol.is_null() && (*symbol.cast::<libc::Elf64_Sym>()).st_shndx != 0;
        Some((info.assume_init().dli_fbase as usize, is_defined))
    }
}

/// Whether a function of this name comes first that is not this library's, which mostly is the program's own.
fn is_others(name: &std::ffi::CStr) -> bool {
    // SAFETY: the name ends with a zero.
    let found = object_of(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    // What other libraries see of an exported function may be another's.
    let own = object_of(is_others as *const c_void);
    found.is_some_and(|(object, is_defined)| is_defined && own.is_some_and(|(own, _)| own != object))
}

// A look for a function that is missing would leave the C library an error to free, by the `free` of the program, which may just look for another.
// These are found when this library is loaded, and are 0 where nobody has them: of jemalloc, tcmalloc, the sanitizers, and of what replaces the C
// library's by oneTBB's.
std::arch::global_asm!(
    ".weak mallocx",
    ".weak tc_malloc",
    ".weak __asan_init",
    ".weak __TBB_malloc_proxy",
    ".pushsection .data.rel.ro.stillframe_allocators, \"aw\"",
    ".balign 8",
    ".globl stillframe_allocators",
    ".hidden stillframe_allocators",
    "stillframe_allocators:",
    ".quad mallocx",
    ".quad tc_malloc",
    ".quad __asan_init",
    ".quad __TBB_malloc_proxy",
    ".popsection",
);

unsafe extern "C" {
    static stillframe_allocators: [usize; 4];
}

/// Finds out about it. `is_watched`: there is a tool.
pub fn find_allocator(is_watched: bool) {
    // SAFETY: written before this library begins, and never again.
    let is_there = is_watched || unsafe { stillframe_allocators }.iter().any(|address| *address != 0);
    HAS_OTHER_ALLOCATOR.store(is_there, Ordering::Relaxed);
    let frees = is_others(c"free");
    let passed_on = GIVERS.iter().filter(|(_, name)| is_there || frees && !is_others(name));
    PASSED_ON.store(passed_on.map(|(function, _)| function).sum(), Ordering::Relaxed);
}
