//! Connections between processes of one kernel by which open files go (unix(7), `SCM_RIGHTS`).
//!
//! A connection keeps the bounds of messages (`SOCK_SEQPACKET`), so that nobody has to put together what came in parts. One by which other
//! programs speak is a stream ([`Kind::Stream`]).
//!
//! Files go from who listens to who connects. close(2) may wait for long: for what a socket has still to send (`SO_LINGER`), for a file
//! system that is in no hurry. So a listener takes no files from anybody, where the kernel knows how to refuse them.
//!
//! # Safety
//!
//! All calls are `rustix`'s, and safe, but for those for which it has no words: [`peer`], of a process whose number is 0, that a socket
//! takes no files, and [`is_taken`]. They give the kernel a pointer to a value that lives through the call, and its size.

use crate::folder::{About, Folder, Form};
use crate::{Failure, points};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most files that go with one message, a few below what the kernel takes (`SCM_MAX_FD`).
pub const FILES_MAX: usize = 250;

/// How what is sent comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As the messages that were sent.
    Messages,
    /// As a stream of bytes. A file comes with the first byte of what it was sent with, or before it.
    Stream,
}

/// Who is at the other end of a connection, as the kernel noted it when the connection was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Number of its user, as this process's user namespace tells it; 65534 for one that it does not know.
    pub user: u32,
    /// Number of its group.
    pub group: u32,
    /// Number of the process, 0 if it is in a PID namespace that this one does not see. It may have ended, and be another's by now:
    /// good for messages only.
    pub pid: i32,
}

/// What came in one message.
#[derive(Debug)]
pub struct Message {
    /// How many bytes; 0 when the other end is closed.
    pub bytes: usize,
    /// The files, none of which programs inherit that are started.
    pub files: Vec<File>,
    /// Whether there was no room for all bytes.
    pub is_cut: bool,
    /// Whether files are missing: this process has no descriptors left for them.
    pub lacks_files: bool,
}

/// A socket to which others connect.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// Whether nobody can send files to it, or to a connection that comes of it. Otherwise they are to be expected, and a close of
    /// them, or of a connection in which they are, may wait for long.
    pub refuses_files: bool,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> OwnedFd {
        listener.socket
    }
}

/// Has the kernel refuse the files that somebody would send to a socket; `false` if it cannot (it is older than Linux 6.16).
fn refuse_files(socket: &OwnedFd) -> bool {
    // `libc` does not have the name yet.
    const SO_PASSRIGHTS: i32 = 83;
    let (no, bytes) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the descriptor is open, and the pointer is to a value of this size.
    unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const no).cast(), bytes) == 0 }
}

pub(crate) fn socket(kind: Kind) -> Result<OwnedFd, Failure> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let form = match kind {
        Kind::Messages => SocketType::SEQPACKET,
        Kind::Stream => SocketType::STREAM,
    };
    let made = net::socket_with(AddressFamily::UNIX, form, flags, None);
    made.map_err(|error| Failure::of("socket", "AF_UNIX", error))
}

/// The address of a name in a directory that is open. The path of a socket may have 107 bytes only; this one has few.
fn address(folder: BorrowedFd<'_>, name: &str) -> Result<SocketAddrUnix, Failure> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    SocketAddrUnix::new(&path).map_err(|error| Failure::of("bind", name, error))
}

/// Connects to whoever listens for messages at a path, or gives up at `deadline`.
///
/// # Errors
/// As connect(2): `ENOENT` and `ECONNREFUSED` if nobody listens; `ETIMEDOUT`.
pub fn connect(path: &Path, deadline: Instant) -> Result<OwnedFd, Failure> {
    connect_as(Kind::Messages, path, deadline)
}

/// As [`connect`], to whoever listens for connections of this kind.
///
/// # Errors
/// As [`connect`]; `EPROTOTYPE` if somebody listens for others.
pub fn connect_as(kind: Kind, path: &Path, deadline: Instant) -> Result<OwnedFd, Failure> {
    let socket = socket(kind)?;
    connect_socket(&socket, path, deadline)?;
    Ok(socket)
}

/// Connects a socket that nobody has connected.
pub(crate) fn connect_socket(socket: impl AsFd, path: &Path, deadline: Instant) -> Result<(), Failure> {
    let fail = |error| Failure::of("connect", path.display().to_string(), error);
    let direct = SocketAddrUnix::new(path);
    // A path that is too long for an address is reached by its directory.
    let (address, _folder) = match (direct, path.parent(), path.file_name()) {
        (Ok(address), ..) => (address, None),
        (Err(_), Some(parent), Some(name)) => {
            let open = |error: io::Error| Failure { call: "open", detail: parent.display().to_string(), source: error };
            let folder = Folder::open(parent, true).map_err(open)?;
            (address(folder.as_fd(), &name.to_string_lossy())?, Some(folder))
        }
        (Err(error), ..) => return Err(fail(error)),
    };
    let mut pause = Duration::from_micros(50);
    loop {
        match net::connect(&socket, &address) {
            // Others are in the queue, and nothing can be waited for.
            Err(Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(pause),
            Err(Errno::AGAIN) => return Err(fail(Errno::TIMEDOUT)),
            Err(Errno::INTR) => {}
            done => return done.map_err(fail),
        }
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Listens under a name in a directory, in the place of a socket that may have the name. Until it listens, and has this mode, it has the
/// name `made_as`.
///
/// # Errors
/// As bind(2), chmod(2), listen(2) and rename(2).
pub fn listen(
    kind: Kind,
    folder: &Folder,
    name: &str,
    made_as: &str,
    mode: u32,
    queue: i32,
) -> Result<Listener, Failure> {
    let socket = socket(kind)?;
    let listener = Listener { refuses_files: refuse_files(&socket), socket };
    let fail = |call| move |error: io::Error| Failure { call, detail: name.into(), source: error };
    match folder.remove_file(made_as) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail("unlink")(error)),
        _ => {}
    }
    let own = address(folder.as_fd(), made_as)?;
    net::bind(&listener.socket, &own).map_err(|error| Failure::of("bind", name, error))?;
    points::hit("broker.bound");
    folder.permit_name(made_as, mode).map_err(fail("chmod"))?;
    net::listen(&listener.socket, queue).map_err(|error| Failure::of("listen", name, error))?;
    folder.rename(made_as, folder, name).map_err(fail("rename"))?;
    Ok(listener)
}

/// Whether a name in a directory is a socket's, and what is known of it; `None` if nothing has the name.
pub fn about_socket(folder: &Folder, name: &str) -> Option<(bool, About)> {
    let about = folder.about_name(name).ok()?;
    Some((about.form == Form::Other, about))
}

/// Takes the next connection; `None` if nobody waits for one.
///
/// # Errors
/// As accept(2).
pub fn accept(listener: impl AsFd) -> Result<Option<OwnedFd>, Failure> {
    match retry_on_intr(|| net::accept_with(&listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)) {
        Ok(socket) => Ok(Some(socket)),
        // Somebody came, and went before it was his turn.
        Err(Errno::AGAIN | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(Failure::of("accept4", "", error)),
    }
}

/// Who is at the other end.
///
/// # Errors
/// As getsockopt(2).
pub fn peer(socket: impl AsFd) -> Result<Peer, Failure> {
    let mut told = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    let (number, into) = (socket.as_fd().as_raw_fd(), (&raw mut told).cast());
    // SAFETY: the descriptor is open, and the pointers are to a value of this size and to the size.
    match unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut bytes) } {
        0 => Ok(Peer { user: told.uid, group: told.gid, pid: told.pid }),
        _ => Err(Failure::last("getsockopt", "SO_PEERCRED")),
    }
}

/// Sees to it that whoever listens at the other end of a connection is one whom this process believes anyway: of its own user or root, or
/// of the user to whom the directory belongs in which the socket lies.
///
/// # Errors
/// `EACCES` with who it is; as getsockopt(2) and stat(2).
pub fn check_listener(socket: impl AsFd, dir: &Path) -> io::Result<()> {
    let peer = peer(socket).map_err(|failure| failure.source)?;
    let owner = std::fs::metadata(dir)?.uid();
    if [0, crate::user_id(), owner].contains(&peer.user) {
        return Ok(());
    }
    let why = format!(
        "user {} listens there, and not user {}, root or user {owner}, whose directory it is: see what process {} is, and who may \
         write to the directory",
        peer.user,
        crate::user_id(),
        peer.pid,
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Sends a message with files; `false` if there is no room for it now.
///
/// # Errors
/// As sendmsg(2), and never a signal.
pub fn send(socket: impl AsFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<bool, Failure> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Failure::of("sendmsg", format!("{} files", files.len()), Errno::TOOMANYREFS));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match retry_on_intr(|| net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, flags)) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(Failure::of("sendmsg", format!("{} bytes", bytes.len()), error)),
    }
}

/// Takes the message that has come; `None` if none has. It waits for nobody, so that it may be called where no thread is to fork.
///
/// # Errors
/// As recvmsg(2).
pub fn receive(socket: impl AsFd, into: &mut [u8]) -> Result<Option<Message>, Failure> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX + 3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = retry_on_intr(|| net::recvmsg(&socket, &mut [IoSliceMut::new(into)], &mut ancillary, flags));
    let got = match got {
        Ok(got) => got,
        Err(Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(Failure::of("recvmsg", "", error)),
    };
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights.map(File::from));
        }
    }
    let [is_cut, lacks_files] = [ReturnFlags::TRUNC, ReturnFlags::CTRUNC].map(|flag| got.flags.contains(flag));
    Ok(Some(Message { bytes: got.bytes, files, is_cut, lacks_files }))
}

/// Whether the message that has come brings files, which stay where they are; `false` if none has come.
///
/// # Errors
/// As recvmsg(2).
pub fn brings_files(socket: impl AsFd) -> Result<bool, Failure> {
    // With no room for files the kernel says that it left some out.
    let (mut byte, mut no_room) = ([0; 1], RecvAncillaryBuffer::new(&mut []));
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match retry_on_intr(|| net::recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut no_room, flags)) {
        Ok(got) => Ok(got.flags.contains(ReturnFlags::CTRUNC)),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(Failure::of("recvmsg", "", error)),
    }
}

/// Ends a connection in both directions. What was sent can still be taken, and nothing more can be sent.
pub fn end(socket: impl AsFd) {
    // One that the other side has ended is ended.
    let _ = net::shutdown(socket, net::Shutdown::Both);
}

/// What a look at a socket shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sign {
    /// Something has come, or somebody who wants to connect.
    pub came: bool,
    /// The other end sends nothing more, or is closed.
    pub ended: bool,
}

impl Sign {
    /// Whether there is any.
    pub fn is_any(self) -> bool {
        self.came || self.ended
    }
}

/// Sleeps until there is a sign of one of these, or until `limit`. That something has come is a sign of those alone of which it is wanted.
///
/// # Errors
/// As poll(2).
pub fn watch(sockets: &[(BorrowedFd<'_>, bool)], limit: Option<Duration>) -> Result<Vec<Sign>, Failure> {
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let flags = |wants: bool| if wants { PollFlags::IN | PollFlags::RDHUP } else { PollFlags::RDHUP };
    let mut polled: Vec<PollFd<'_>> =
        sockets.iter().map(|(socket, wants)| PollFd::from_borrowed_fd(*socket, flags(*wants))).collect();
    let sign = |polled: &PollFd<'_>| {
        let events = polled.revents();
        let ended = events.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR | PollFlags::NVAL);
        Sign { came: events.contains(PollFlags::IN), ended }
    };
    match poll(&mut polled, limit.as_ref()) {
        Ok(_) => Ok(polled.iter().map(sign).collect()),
        Err(Errno::INTR) => Ok(vec![Sign::default(); sockets.len()]),
        Err(error) => Err(Failure::of("poll", format!("{} sockets", sockets.len()), error)),
    }
}

/// Sleeps until something has come by one of these, or the other end is closed, or until `limit`; which have something.
///
/// # Errors
/// As poll(2).
pub fn wait_any(sockets: &[BorrowedFd<'_>], limit: Option<Duration>) -> Result<Vec<bool>, Failure> {
    let wanted: Vec<_> = sockets.iter().map(|socket| (*socket, true)).collect();
    Ok(watch(&wanted, limit)?.into_iter().map(Sign::is_any).collect())
}

/// Whether the other end has taken all that was sent to it.
pub fn is_taken(socket: impl AsFd) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the pointer is to a number that lives through the call. For sockets the request is `SIOCOUTQ`.
    let told = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    told != 0 || bytes == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::FileExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn files_go_with_a_message_under_a_path_of_any_length() {
        let long = "long".repeat(50);
        let path = PathBuf::from(format!("/dev/shm/stillframe-local-{}-{long}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let folder = Folder::open(&path, false).unwrap();
        assert_eq!(connect(&path.join("s"), soon()).unwrap_err().errno(), libc::ENOENT);
        let listener = listen(Kind::Messages, &folder, "s", ".s.new", 0o600, 8).unwrap();
        let (is_socket, about) = about_socket(&folder, "s").unwrap();
        assert!(is_socket && about.mode == 0o600 && !folder.has(".s.new"));
        assert!(accept(&listener).unwrap().is_none());
        let one = connect(&path.join("s"), soon()).unwrap();
        let two = accept(&listener).unwrap().unwrap();
        let own = Peer { user: crate::user_id(), group: peer(&one).unwrap().group, pid: std::process::id() as i32 };
        assert_eq!((peer(&one).unwrap(), peer(&two).unwrap()), (own, own));
        let mut bytes = [0; 16];
        assert!(receive(&two, &mut bytes).unwrap().is_none());
        std::fs::write(path.join("file"), "content").unwrap();
        let files: Vec<File> = (0..FILES_MAX).map(|_| File::open(path.join("file")).unwrap()).collect();
        let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        assert!(send(&two, b"hello", &borrowed).unwrap());
        assert_eq!(wait_any(&[one.as_fd()], None).unwrap(), [true]);
        assert!(brings_files(&one).unwrap() && !is_taken(&two));
        let message = receive(&one, &mut bytes).unwrap().unwrap();
        assert_eq!((message.bytes, message.files.len(), message.is_cut), (5, FILES_MAX, false));
        assert!(is_taken(&two));
        let mut content = [0; 7];
        message.files[FILES_MAX - 1].read_exact_at(&mut content, 0).unwrap();
        assert_eq!(&content, b"content");
        match listener.refuses_files {
            true => assert_eq!(send(&one, b"hello", &borrowed[..1]).unwrap_err().errno(), libc::EPERM),
            false => eprintln!("skipped: this kernel refuses no files"),
        }
        assert!(send(&one, &[7; 40], &[]).unwrap());
        assert!(!brings_files(&two).unwrap());
        let message = receive(&two, &mut bytes).unwrap().unwrap();
        assert!(message.is_cut && !message.lacks_files);
        drop(one);
        assert_eq!(receive(&two, &mut bytes).unwrap().unwrap().bytes, 0);
        // Who connects takes what was sent to him before the end.
        let one = connect(&path.join("s"), soon()).unwrap();
        let two = accept(&listener).unwrap().unwrap();
        assert!(send(&two, b"last", &[]).unwrap());
        end(&two);
        assert_eq!(receive(&one, &mut bytes).unwrap().unwrap().bytes, 4);
        assert_eq!(receive(&one, &mut bytes).unwrap().unwrap().bytes, 0);
        drop(listener);
        assert_eq!(connect(&path.join("s"), soon()).unwrap_err().errno(), libc::ECONNREFUSED);
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn somebody_who_listens_in_the_place_of_the_owner_is_not_believed() {
        let path = PathBuf::from(format!("/dev/shm/stillframe-local-{}-owner", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let folder = Folder::open(&path, false).unwrap();
        let _own = listen(Kind::Stream, &folder, "own", ".s.new", 0o600, 8).unwrap();
        check_listener(connect_as(Kind::Stream, &path.join("own"), soon()).unwrap(), &path).unwrap();

        // Of another user: only root makes such processes.
        if crate::user_id() == 0 {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
            let listens = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(1, flush=True); \
                           sys.stdin.read()";
            let mut other = Command::new("python3")
                .args(["-c", listens, path.join("other").to_str().unwrap()])
                .uid(65534)
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            let error =
                check_listener(connect_as(Kind::Stream, &path.join("other"), soon()).unwrap(), &path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(error.to_string().contains("user 65534 listens there"), "{error}");
            drop(other.stdin.take());
            other.wait().unwrap();
        }
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn what_comes_by_a_stream_has_each_file_with_its_own_bytes() {
        let path = PathBuf::from(format!("/dev/shm/stillframe-local-{}-stream", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let folder = Folder::open(&path, false).unwrap();
        let listener = listen(Kind::Stream, &folder, "s", ".s.new", 0o600, 8).unwrap();
        assert_eq!(connect(&path.join("s"), soon()).unwrap_err().errno(), libc::EPROTOTYPE);
        let one = connect_as(Kind::Stream, &path.join("s"), soon()).unwrap();
        let two = accept(&listener).unwrap().unwrap();
        let file = File::open(&path).unwrap();
        for number in 0..4u64 {
            let files = [file.as_fd()];
            assert!(send(&two, &number.to_le_bytes(), if number == 2 { &files } else { &[] }).unwrap());
        }
        assert!(!is_taken(&two));
        for number in 0..4u64 {
            let mut bytes = [0; 8];
            let message = receive(&one, &mut bytes).unwrap().unwrap();
            assert_eq!((message.bytes, u64::from_le_bytes(bytes)), (8, number));
            assert_eq!(message.files.len(), usize::from(number == 2));
        }
        assert!(is_taken(&two));
        drop(two);
        assert_eq!(receive(&one, &mut [0; 8]).unwrap().unwrap().bytes, 0);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
