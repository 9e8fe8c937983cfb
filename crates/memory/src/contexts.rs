//! Stacks that the program gives to handlers of signals and to fibers.

use crate::kernel::quietly;
use crate::next;
use crate::stacks;
use crate::windows;
use libc::c_int;

/// See sigaltstack(2). The kernel writes to such a stack, and would not wait while a large page is cut.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(stack: *const libc::stack_t, before: *mut libc::stack_t) -> c_int {
    // What cannot be read the kernel refuses.
    if let Some(stack) = stacks::read_given(stack as usize)
        && stack.ss_flags & libc::SS_DISABLE == 0
    {
        stand_on(&stack);
    }
    next::sigaltstack(stack, before)
}

/// Has somebody stand on ordinary memory, if that can be.
fn stand_on(stack: &libc::stack_t) {
    let _ = quietly(|| windows::soften(stack.ss_sp as usize, stack.ss_size));
}

/// See makecontext(3): how many arguments there are the call says itself, so all of them pass by.
///
/// # Safety
/// As of the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn makecontext() {
    // The first six arguments are in registers, the seventh and so on behind the address that this returns to. With eight
    // words pushed the stack is as it has to be at a call.
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "call {prepare}",
        "mov r11, rax",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp r11",
        prepare = sym prepare_context,
    )
}

/// The same for another processor: the first eight arguments are in registers.
///
/// # Safety
/// As of the C library's.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn makecontext() {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-80]!",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "bl {prepare}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x2, x3, [sp, #32]",
        "ldp x4, x5, [sp, #48]",
        "ldp x6, x7, [sp, #64]",
        "ldp x29, x30, [sp], #80",
        "br x16",
        prepare = sym prepare_context,
    )
}

/// Has a fiber stand on ordinary memory: the kernel writes there when a signal comes, and would not wait while a large page is
/// cut. Gives the function that makes it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
extern "C" fn prepare_context(context: *const libc::ucontext_t) -> usize {
    // SAFETY: the caller of makecontext(3) gives one.
    stand_on(unsafe { &(*context).uc_stack });
    next::makecontext_address()
}
