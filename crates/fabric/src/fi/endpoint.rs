//! An endpoint, which sends messages to one peer and receives messages of one tag, out of and into slots of memory of its own.

use super::layout::{
    FI_ADDR_STR, FI_ADDR_UNSPEC, FI_AV_TABLE, FI_CQ_FORMAT_TAGGED, FI_EAGAIN, FI_EAVAIL, FI_ENABLE, FI_ETRUNC,
    FI_MR_LOCAL, FI_RECV, FI_SEND, FI_WAIT_NONE, FiAvAttr, FiContext2, FiCqAttr, FiCqErrEntry, FiCqTaggedEntry, FiInfo,
    Fid, FidAv, FidCq, FidDomain, FidEp, FidFabric, FidMr,
};
use super::library::{INJECT_BYTES, Library, QUEUE};
use super::neighbours;
use crate::error::{Error, Result};
use std::alloc::{self, Layout};
use std::ffi::{c_int, c_void};
use std::net::IpAddr;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;

/// Bytes of an address at most.
const ADDRESS_BYTES_MAX: usize = 512;
const PAGE_BYTES: usize = 4096;

/// Numbers of the slots of a pool.
pub(crate) type Slots = Range<usize>;

/// What happened to a slot, which is here again.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message of so many bytes is in it.
    Received { slot: usize, bytes: usize },
    /// What was in it was sent.
    Sent { slot: usize },
    /// A message came that is longer than the slot.
    TooLong,
    /// It was neither sent nor received.
    Failed { error: Error },
}

/// Where a slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Here,
    Receives,
    Sends,
}

/// Slots of the same length, one after the other in one range of memory.
struct Pool {
    begin: NonNull<u8>,
    layout: Layout,
    slot_bytes: usize,
    slots: Slots,
    /// One for each slot. libfabric has pointers to them, so that they are never moved.
    contexts: NonNull<[FiContext2]>,
    registration: Option<NonNull<FidMr>>,
    /// How libfabric calls that registration.
    descriptor: *mut c_void,
}

impl Pool {
    fn slot(&self, slot: usize) -> Option<usize> {
        self.slots.contains(&slot).then(|| slot - self.slots.start)
    }

    fn free(&mut self) {
        // SAFETY: both were allocated so in `add`, and the endpoint frees a pool once.
        unsafe {
            alloc::dealloc(self.begin.as_ptr(), self.layout);
            drop(Box::from_raw(self.contexts.as_ptr()));
        }
    }
}

/// Objects of libfabric, each made from those before it.
#[derive(Default)]
struct Objects {
    fabric: Option<NonNull<FidFabric>>,
    domain: Option<NonNull<FidDomain>>,
    queue: Option<NonNull<FidCq>>,
    peers: Option<NonNull<FidAv>>,
    endpoint: Option<NonNull<FidEp>>,
}

/// All that is to be closed and freed, which is done when this is dropped.
#[derive(Default)]
pub(super) struct Made {
    objects: Objects,
    pools: Vec<Pool>,
}

// SAFETY: libfabric's objects are bound to no thread, and this is used by one at a time.
unsafe impl Send for Made {}

/// An endpoint.
pub(crate) struct Endpoint {
    library: &'static Library,
    made: Made,
    needs_registration: bool,
    is_text: bool,
    address: Vec<u8>,
    peer: u64,
    /// The address of the peer, if it is of this process.
    reached: Option<Vec<u8>>,
    states: Vec<State>,
}

// SAFETY: as above; descriptors are passed on to libfabric only.
unsafe impl Send for Endpoint {}

/// An object that a call made.
fn made<T>(object: *mut T) -> Result<NonNull<T>> {
    NonNull::new(object).ok_or(Error::Unfit { what: "a call of libfabric made nothing, and said nothing" })
}

/// Closes an object; whether that is done.
///
/// # Safety
/// It begins with a `Fid`, is live, and used no more.
unsafe fn close<T>(object: NonNull<T>) -> bool {
    let fid = object.cast::<Fid>().as_ptr();
    // SAFETY: the caller says so, and every object has this function.
    unsafe { ((*(*fid).ops).close)(fid) == 0 }
}

impl Endpoint {
    /// Opens an endpoint of a provider, on the network of this node's address if the provider knows such. Its messages have up to
    /// `message_bytes`.
    ///
    /// # Errors
    /// [`Error::NoProvider`], [`Error::Call`], [`Error::Unfit`].
    pub(crate) fn open(
        library: &'static Library,
        provider: &str,
        local: IpAddr,
        message_bytes: usize,
    ) -> Result<Endpoint> {
        let offers = library.offers(provider, local)?;
        let is_fit = |info: &NonNull<FiInfo>| {
            // SAFETY: it is of the list `offers`, whose members have all attributes.
            unsafe {
                let info = info.as_ref();
                (*info.tx_attr).inject_size >= INJECT_BYTES && (*info.ep_attr).max_msg_size >= message_bytes
            }
        };
        let chosen = offers.iter().find(is_fit);
        let chosen = chosen.ok_or(Error::Unfit { what: "its messages are too short for this use" })?;
        // SAFETY: as above.
        let (needs_registration, is_text) = unsafe {
            let info = chosen.as_ref();
            ((*info.domain_attr).mr_mode & FI_MR_LOCAL != 0, info.addr_format == FI_ADDR_STR)
        };
        let mut this = Endpoint {
            library,
            made: Made::default(),
            needs_registration,
            is_text,
            address: Vec::new(),
            peer: FI_ADDR_UNSPEC,
            reached: None,
            states: Vec::new(),
        };
        this.make(chosen)?;
        this.address = this.own_address()?;
        if is_text {
            neighbours::enter(&this.address);
        }
        Ok(this)
    }

    /// Makes the objects, as one of the offers says. What is made is closed when this is dropped.
    fn make(&mut self, info: NonNull<FiInfo>) -> Result<()> {
        let library = self.library;
        let info = info.as_ptr();
        // SAFETY: the offer is live, and so is every object that was made before. Attributes are whole, and read only during the call.
        unsafe {
            let mut fabric = ptr::null_mut();
            let code = (library.fabric)((*info).fabric_attr, &mut fabric, ptr::null_mut());
            library.check("fi_fabric", code)?;
            let fabric = made(fabric)?;
            self.made.objects.fabric = Some(fabric);

            let mut domain = ptr::null_mut();
            let code = ((*fabric.as_ref().ops).domain)(fabric.as_ptr(), info, &mut domain, ptr::null_mut());
            library.check("fi_domain", code)?;
            let domain = made(domain)?;
            self.made.objects.domain = Some(domain);

            let mut queue = ptr::null_mut();
            let mut attributes = FiCqAttr {
                size: 4 * QUEUE,
                flags: 0,
                format: FI_CQ_FORMAT_TAGGED,
                wait_obj: FI_WAIT_NONE,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: ptr::null_mut(),
            };
            let operations = &*domain.as_ref().ops;
            let code = (operations.cq_open)(domain.as_ptr(), &mut attributes, &mut queue, ptr::null_mut());
            library.check("fi_cq_open", code)?;
            let queue = made(queue)?;
            self.made.objects.queue = Some(queue);

            let mut peers = ptr::null_mut();
            let mut attributes = FiAvAttr {
                kind: FI_AV_TABLE,
                rx_ctx_bits: 0,
                count: 1,
                ep_per_node: 0,
                name: ptr::null(),
                map_addr: ptr::null_mut(),
                flags: 0,
            };
            let code = (operations.av_open)(domain.as_ptr(), &mut attributes, &mut peers, ptr::null_mut());
            library.check("fi_av_open", code)?;
            let peers = made(peers)?;
            self.made.objects.peers = Some(peers);

            let mut endpoint = ptr::null_mut();
            let code = (operations.endpoint)(domain.as_ptr(), info, &mut endpoint, ptr::null_mut());
            library.check("fi_endpoint", code)?;
            let endpoint = made(endpoint)?;
            self.made.objects.endpoint = Some(endpoint);

            let fid = endpoint.cast::<Fid>().as_ptr();
            let table = &*(*fid).ops;
            library.check("fi_ep_bind", (table.bind)(fid, queue.cast().as_ptr(), FI_SEND | FI_RECV))?;
            library.check("fi_ep_bind", (table.bind)(fid, peers.cast().as_ptr(), 0))?;
            library.check("fi_enable", (table.control)(fid, FI_ENABLE, ptr::null_mut()))
        }
    }

    fn endpoint(&self) -> Result<NonNull<FidEp>> {
        self.made.objects.endpoint.ok_or(Error::Unfit { what: "there is no endpoint" })
    }

    fn own_address(&self) -> Result<Vec<u8>> {
        let endpoint = self.endpoint()?;
        let mut bytes = vec![0; ADDRESS_BYTES_MAX];
        let mut count = bytes.len();
        let fid = endpoint.cast::<Fid>().as_ptr();
        // SAFETY: the endpoint is live and enabled; the buffer has `count` bytes.
        let code = unsafe { ((*endpoint.as_ref().cm).getname)(fid, bytes.as_mut_ptr().cast(), &mut count) };
        self.library.check("fi_getname", code)?;
        if count > bytes.len() {
            return Err(Error::Unfit { what: "an endpoint's address is too long" });
        }
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Where it is.
    pub(crate) fn address(&self) -> &[u8] {
        &self.address
    }

    /// Says whom it sends to, once.
    ///
    /// # Errors
    /// [`Error::Address`] if these bytes, which anybody may have made, are no address of this provider; [`Error::Call`].
    pub(crate) fn set_peer(&mut self, address: &[u8]) -> Result<()> {
        check_address(address, &self.address, self.is_text)?;
        let peers = self.made.objects.peers.ok_or(Error::Unfit { what: "there is no endpoint" })?;
        // Readable as far as a provider may read.
        let mut bytes = [0; ADDRESS_BYTES_MAX + 1];
        bytes[..address.len()].copy_from_slice(address);
        let mut peer = FI_ADDR_UNSPEC;
        let mut insert = || {
            // SAFETY: the object is live. The address has the form of this endpoint's own, of which the provider reads one.
            let count = unsafe {
                let insert = (*peers.as_ref().ops).insert;
                insert(peers.as_ptr(), bytes.as_ptr().cast(), 1, &mut peer, 0, ptr::null_mut())
            };
            self.library.check("fi_av_insert", count)?;
            match count == 1 && peer != FI_ADDR_UNSPEC {
                true => Ok(()),
                false => Err(Error::Address { why: "no such place is reached" }),
            }
        };
        if !self.is_text {
            insert()?;
        } else if neighbours::reach(address, &self.address, insert)? {
            self.reached = Some(address.to_vec());
        }
        self.peer = peer;
        Ok(())
    }

    /// Adds slots of so many bytes.
    ///
    /// # Errors
    /// [`Error::NoMemory`], and [`Error::Call`] where it cannot be registered.
    pub(crate) fn add(&mut self, count: usize, slot_bytes: usize) -> Result<Slots> {
        let bytes = count.saturating_mul(slot_bytes);
        let no_memory = Error::NoMemory { bytes };
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).map_err(|_| no_memory.clone())?;
        if bytes == 0 {
            return Err(no_memory);
        }
        // SAFETY: the layout is not empty.
        let begin = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or(no_memory)?;
        let contexts = vec![FiContext2 { internal: [ptr::null_mut(); 8] }; count].into_boxed_slice();
        let contexts = NonNull::from(Box::leak(contexts));
        let slots = self.states.len()..self.states.len() + count;
        let mut pool = Pool {
            begin,
            layout,
            slot_bytes,
            slots: slots.clone(),
            contexts,
            registration: None,
            descriptor: ptr::null_mut(),
        };
        if self.needs_registration {
            match self.register(begin, bytes) {
                // SAFETY: the registration is live.
                Ok(registration) => unsafe {
                    pool.descriptor = registration.as_ref().mem_desc;
                    pool.registration = Some(registration);
                },
                Err(error) => {
                    pool.free();
                    return Err(error);
                }
            }
        }
        self.made.pools.push(pool);
        self.states.resize(slots.end, State::Here);
        Ok(slots)
    }

    fn register(&self, begin: NonNull<u8>, bytes: usize) -> Result<NonNull<FidMr>> {
        let domain = self.made.objects.domain.ok_or(Error::Unfit { what: "there is no endpoint" })?;
        let mut registration = ptr::null_mut();
        let key = self.made.pools.len() as u64;
        // SAFETY: the domain is live, and the memory is there until the registration was closed. It is for this side's own sends and
        // receives, and no peer can reach it.
        let code = unsafe {
            let register = (*domain.as_ref().mr).reg;
            let fid = domain.cast::<Fid>().as_ptr();
            let access = FI_SEND | FI_RECV;
            register(fid, begin.as_ptr().cast(), bytes, access, 0, key, 0, &mut registration, ptr::null_mut())
        };
        self.library.check("fi_mr_reg", code)?;
        made(registration)
    }

    /// A slot that is here: its bytes, their number, its context, its registration.
    fn here(&self, slot: usize) -> Result<(NonNull<u8>, usize, *mut c_void, *mut c_void)> {
        let is_here = self.states.get(slot) == Some(&State::Here);
        let found = self.made.pools.iter().find_map(|pool| Some((pool, pool.slot(slot)?)));
        let Some((pool, index)) = found.filter(|_| is_here) else {
            return Err(Error::Unfit { what: "a slot was used that libfabric has" });
        };
        // SAFETY: the slot is one of the pool's, and lies in its memory; so does its context.
        unsafe {
            let bytes = pool.begin.add(index * pool.slot_bytes);
            let context = pool.contexts.cast::<FiContext2>().add(index).as_ptr().cast();
            Ok((bytes, pool.slot_bytes, context, pool.descriptor))
        }
    }

    /// The bytes of a slot that is here.
    ///
    /// # Errors
    /// [`Error::Unfit`]: it is with libfabric.
    pub(crate) fn bytes(&self, slot: usize) -> Result<&[u8]> {
        let (begin, bytes, ..) = self.here(slot)?;
        // SAFETY: the memory is initialised, lives as long as this, and libfabric does not have it.
        Ok(unsafe { slice::from_raw_parts(begin.as_ptr(), bytes) })
    }

    /// The bytes of a slot that is here, to be written.
    ///
    /// # Errors
    /// As [`bytes`](Endpoint::bytes).
    pub(crate) fn bytes_mut(&mut self, slot: usize) -> Result<&mut [u8]> {
        let (begin, bytes, ..) = self.here(slot)?;
        // SAFETY: as above, and nobody else has a reference.
        Ok(unsafe { slice::from_raw_parts_mut(begin.as_ptr(), bytes) })
    }

    /// Lets a message with a tag come into a slot; `false` if that has to be tried again after [`poll`](Endpoint::poll).
    ///
    /// # Errors
    /// [`Error::Call`], [`Error::Unfit`].
    pub(crate) fn receive(&mut self, slot: usize, tag: u64) -> Result<bool> {
        let (begin, bytes, context, descriptor) = self.here(slot)?;
        let endpoint = self.endpoint()?;
        // SAFETY: the slot and its context stay where they are, and are not touched until the completion.
        let code = unsafe {
            let receive = (*endpoint.as_ref().tagged).recv;
            receive(endpoint.as_ptr(), begin.as_ptr().cast(), bytes, descriptor, FI_ADDR_UNSPEC, tag, 0, context)
        };
        self.taken(slot, State::Receives, "fi_trecv", code)
    }

    /// Sends the first bytes of a slot to the peer; `false` if that has to be tried again after [`poll`](Endpoint::poll).
    ///
    /// # Errors
    /// [`Error::Call`], [`Error::Unfit`].
    pub(crate) fn send(&mut self, slot: usize, bytes: usize, tag: u64) -> Result<bool> {
        let (begin, slot_bytes, context, descriptor) = self.here(slot)?;
        let endpoint = self.endpoint()?;
        let bytes = bytes.min(slot_bytes);
        // SAFETY: as for `receive`.
        let code = unsafe {
            let send = (*endpoint.as_ref().tagged).send;
            send(endpoint.as_ptr(), begin.as_ptr().cast(), bytes, descriptor, self.peer, tag, context)
        };
        self.taken(slot, State::Sends, "fi_tsend", code)
    }

    fn taken(&mut self, slot: usize, state: State, call: &'static str, code: isize) -> Result<bool> {
        match code {
            0 => {
                self.states[slot] = state;
                Ok(true)
            }
            code if code == -FI_EAGAIN => Ok(false),
            code => Err(self.library.error(call, code)),
        }
    }

    /// Sends a few bytes to the peer, at most 32, and hears no more of them; `false` if that has to be tried again after
    /// [`poll`](Endpoint::poll).
    ///
    /// # Errors
    /// [`Error::Call`], [`Error::Unfit`].
    pub(crate) fn inject(&mut self, bytes: &[u8], tag: u64) -> Result<bool> {
        let endpoint = self.endpoint()?;
        if bytes.len() > INJECT_BYTES {
            return Err(Error::Unfit { what: "a message is too long" });
        }
        // SAFETY: libfabric has copied the bytes when it returns.
        let code = unsafe {
            let inject = (*endpoint.as_ref().tagged).inject;
            inject(endpoint.as_ptr(), bytes.as_ptr().cast(), bytes.len(), self.peer, tag)
        };
        match code {
            0 => Ok(true),
            code if code == -FI_EAGAIN => Ok(false),
            code => Err(self.library.error("fi_tinject", code)),
        }
    }

    /// Lets libfabric work, and takes something that has happened.
    ///
    /// # Errors
    /// [`Error::Call`], [`Error::Unfit`].
    pub(crate) fn poll(&mut self) -> Result<Option<Event>> {
        let queue = self.made.objects.queue.ok_or(Error::Unfit { what: "there is no endpoint" })?;
        let mut entry =
            FiCqTaggedEntry { op_context: ptr::null_mut(), flags: 0, len: 0, buf: ptr::null_mut(), data: 0, tag: 0 };
        // SAFETY: the queue is live, and of the format of the entry.
        let count = unsafe {
            let read = (*queue.as_ref().ops).read;
            read(queue.as_ptr(), (&raw mut entry).cast(), 1)
        };
        match count {
            1 => self.event(entry.op_context, entry.len, None).map(Some),
            0 => Ok(None),
            code if code == -FI_EAGAIN => Ok(None),
            code if code == -FI_EAVAIL => self.failure(queue),
            code => Err(self.library.error("fi_cq_read", code)),
        }
    }

    fn failure(&mut self, queue: NonNull<FidCq>) -> Result<Option<Event>> {
        let mut entry = FiCqErrEntry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: ptr::null_mut(),
            err_data_size: 0,
            room: [0; 8],
        };
        // SAFETY: the queue is live; without a place for further data none is written.
        let count = unsafe {
            let read = (*queue.as_ref().ops).readerr;
            read(queue.as_ptr(), &mut entry, 0)
        };
        match count {
            code if code == -FI_EAGAIN => Ok(None),
            code if code < 0 => Err(self.library.error("fi_cq_readerr", code)),
            _ => {
                let error = self.library.error("an operation", entry.err as isize);
                // What has no slot was sent without.
                match entry.op_context.is_null() {
                    true => Err(error),
                    false => self.event(entry.op_context, entry.len, Some(error)).map(Some),
                }
            }
        }
    }

    /// What became of the slot of a context.
    fn event(&mut self, context: *mut c_void, bytes: usize, error: Option<Error>) -> Result<Event> {
        let found = self.made.pools.iter().find_map(|pool| {
            let offset = (context as usize).checked_sub(pool.contexts.cast::<u8>().as_ptr() as usize)?;
            let index = offset / size_of::<FiContext2>();
            (offset % size_of::<FiContext2>() == 0 && index < pool.slots.len())
                .then_some((pool.slots.start + index, pool.slot_bytes))
        });
        let (slot, slot_bytes) = found.ok_or(Error::Unfit { what: "libfabric has finished what nobody began" })?;
        let state = std::mem::replace(&mut self.states[slot], State::Here);
        match (state, error) {
            (State::Here, _) => Err(Error::Unfit { what: "libfabric has finished something twice" }),
            (State::Receives, Some(Error::Call { code: FI_ETRUNC, .. })) => Ok(Event::TooLong),
            (_, Some(error)) => Ok(Event::Failed { error }),
            (State::Sends, None) => Ok(Event::Sent { slot }),
            (State::Receives, None) if bytes > slot_bytes => {
                Err(Error::Unfit { what: "libfabric has received more than there is room for" })
            }
            (State::Receives, None) => Ok(Event::Received { slot, bytes }),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Without an address it was never finished, and nobody knows it.
        if self.is_text && !self.address.is_empty() {
            neighbours::leave(&self.address, self.reached.as_deref(), std::mem::take(&mut self.made));
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let Objects { fabric, domain, queue, peers, endpoint } = std::mem::take(&mut self.objects);
        // SAFETY: each is live, closed once, and used no more; what was made later is closed before.
        unsafe {
            if endpoint.is_some_and(|endpoint| !close(endpoint)) {
                // libfabric may still write into the pools: they stay, and so does what they belong to.
                return;
            }
            for pool in &mut self.pools {
                if pool.registration.is_none_or(|registration| close(registration)) {
                    pool.free();
                }
            }
            _ = queue.is_none_or(|queue| close(queue));
            _ = peers.is_none_or(|peers| close(peers));
            _ = domain.is_none_or(|domain| close(domain));
            _ = fabric.is_none_or(|fabric| close(fabric));
        }
    }
}

/// Whether bytes of a stranger may be an address like this endpoint's own.
fn check_address(address: &[u8], own: &[u8], is_text: bool) -> Result<()> {
    if address.is_empty() || address.len() > ADDRESS_BYTES_MAX {
        return Err(Error::Address { why: "its length" });
    }
    if is_text {
        // A name of shared memory, or of a place that the provider looks up: as far as its scheme, it is as this one's.
        let (Some((0, text)), scheme) = (address.split_last(), scheme(own)) else {
            return Err(Error::Address { why: "a text without an end" });
        };
        let rest = text.strip_prefix(scheme).ok_or(Error::Address { why: "it is of another network" })?;
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
        return match !rest.is_empty() && rest.iter().all(is_plain) {
            true => Ok(()),
            false => Err(Error::Address { why: "letters that no address has" }),
        };
    }
    if address.len() != own.len() {
        return Err(Error::Address { why: "its length" });
    }
    // The first two bytes of an address of IP say which it is, and so how much is read of it.
    let is_ip = matches!(own, [family, 0, ..] if [libc::AF_INET, libc::AF_INET6].contains(&c_int::from(*family)));
    if is_ip && address.get(..2) != own.get(..2) {
        return Err(Error::Address { why: "its family" });
    }
    Ok(())
}

/// What a text of this form begins with: `fi_shm://`.
fn scheme(own: &[u8]) -> &[u8] {
    let end = own.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3);
    &own[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_form_of_ones_own() {
        let own = b"fi_shm://123:0:a_b\0";
        check_address(b"fi_shm://7:0:x-y\0", own, true).unwrap();
        let wrong: [&[u8]; 7] = [
            b"",
            b"fi_shm://7",
            b"fi_shm://\0",
            b"fi_ns://7\0",
            b"fi_shm://../x\0",
            b"fi_shm://a\0b\0",
            &[b'a'; ADDRESS_BYTES_MAX + 1],
        ];
        for wrong in wrong {
            assert!(matches!(check_address(wrong, own, true), Err(Error::Address { .. })), "{wrong:?}");
        }
        let own = [2, 0, 1, 2, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        check_address(&[2, 0, 9, 9, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], &own, false).unwrap();
        assert!(check_address(&own[..15], &own, false).is_err());
        assert!(check_address(&[10; 16], &own, false).is_err());
    }
}
