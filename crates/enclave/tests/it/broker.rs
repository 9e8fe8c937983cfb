//! Observers to whom a broker hands out regions: what they see, what they cannot do, and what befalls the broker.
#![allow(unsafe_code)]

mod clients;
mod descriptors;
mod impostors;
mod kills;
mod names;
mod place;
mod queue;
mod roles;
mod sockets;
mod views;

use crate::helper::enter;
use place::Place;
use roles::*;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn helper_process() {
    enter(&[
        ("broker", be_broker),
        ("viewless", be_viewless_broker),
        ("short", be_short_broker),
        ("plain", be_plain_broker),
        ("old", be_old_broker),
        ("limited", be_limited_broker),
        ("ample", be_ample_broker),
        ("observe", observe),
        ("write", try_to_write),
        ("say", say_what_comes),
        ("few", use_all_descriptors),
    ]);
}

/// A connection whose last close waits for ever, as the other end, which comes with it, takes nothing (`SO_LINGER`).
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    while (&stream).write(&[0; 1 << 16]).is_ok() {}
    let linger = libc::linger { l_onoff: 1, l_linger: 3600 };
    // SAFETY: the descriptor is open, and the pointer is to a value of this size.
    let set = unsafe {
        let (level, name, bytes) = (libc::SOL_SOCKET, libc::SO_LINGER, size_of::<libc::linger>() as u32);
        libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const linger).cast(), bytes)
    };
    assert_eq!(set, 0);
    (stream, other)
}

/// Does something as another user, which only this thread is meanwhile.
fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the call takes numbers. Unlike libc's function it changes this thread alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) }, 0);
            act()
        });
        thread.join().unwrap()
    })
}
