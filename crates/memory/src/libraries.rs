//! Libraries that the program opens.

use crate::next;
use libc::c_int;

/// See dlopen(3): but for `RTLD_DEEPBIND`, by which a library frees with the C library's `free` what `strdup` and its like have of the `malloc`
/// that stands before it. The function itself is jumped to, as it looks for libraries where those of its caller are.
///
/// # Safety
/// As of the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen() {
    // With three words pushed the stack is as it has to be at a call.
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rax",
        "mov edi, esi",
        "call {prepare}",
        "pop rcx",
        "pop rsi",
        "pop rdi",
        "mov esi, edx",
        "jmp rax",
        prepare = sym prepare,
    )
}

/// The same for another processor.
///
/// # Safety
/// As of the C library's.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen() {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "mov w0, w1",
        "bl {prepare}",
        "mov x16, x0",
        "mov x17, x1",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "mov w1, w17",
        "br x16",
        prepare = sym prepare,
    )
}

/// What opens a library, and how: both are returned in registers.
#[repr(C)]
struct Opening {
    function: usize,
    mode: usize,
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
extern "C" fn prepare(mode: c_int) -> Opening {
    let left_out = if next::has_other_allocator() { 0 } else { libc::RTLD_DEEPBIND };
    Opening { function: next::dlopen_address(), mode: (mode & !left_out) as usize }
}
