//! System calls that fail, as in a container that refuses them (seccomp(2)).
#![allow(unsafe_code)]

/// Has a system call of this thread fail with `errno` from now on, if its second argument is `second` or none is given.
/// `false`: this kernel has no such filters.
pub fn refuse(call: libc::c_long, second: Option<u32>, errno: i32) -> bool {
    let code = |class: u32, size: u32, mode: u32| (class | size | mode) as u16;
    let load =
        |at: u32| libc::sock_filter { code: code(libc::BPF_LD, libc::BPF_W, libc::BPF_ABS), jt: 0, jf: 0, k: at };
    let unless =
        |k: u32, jf: u8| libc::sock_filter { code: code(libc::BPF_JMP, libc::BPF_JEQ, libc::BPF_K), jt: 0, jf, k };
    let answer = |k: u32| libc::sock_filter { code: code(libc::BPF_RET, 0, libc::BPF_K), jt: 0, jf: 0, k };
    let is_second = [load(std::mem::offset_of!(libc::seccomp_data, args) as u32 + 8), unless(second.unwrap_or(0), 1)];
    let is_second = if second.is_some() { &is_second[..] } else { &[] };
    let mut filter = vec![load(std::mem::offset_of!(libc::seccomp_data, nr) as u32)];
    filter.push(unless(call as u32, is_second.len() as u8 + 1));
    filter.extend(is_second);
    filter.push(answer(libc::SECCOMP_RET_ERRNO | errno as u32));
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the calls take numbers, and a program that lives through the second one.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    }
}
