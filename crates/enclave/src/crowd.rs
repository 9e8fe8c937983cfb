//! Clients that wait for an answer, by their users, who take turns: one user's thousand clients are as much in another's way as one.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use stillframe_kernel::local::{Peer, Sign};

/// How long a client may say nothing.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// A client that has no answer yet.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    pub(crate) since: Instant,
    /// When it had asked.
    pub(crate) asked: Option<Instant>,
}

/// All clients that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    users: BTreeMap<u32, VecDeque<Client>>,
    /// Whose turn was last.
    last: u32,
}

impl Crowd {
    /// Each in an order that stays until one comes or goes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.users.values().flatten()
    }

    /// What there is to watch: what a client says, and, of one that has asked, whether it is still there.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.iter().map(|client| (client.socket.as_fd(), client.asked.is_none()))
    }

    pub(crate) fn len(&self) -> usize {
        self.users.values().map(VecDeque::len).sum()
    }

    pub(crate) fn push(&mut self, client: Client) {
        self.users.entry(client.peer.user).or_default().push_back(client);
    }

    /// Takes note of what came, in the order of [`iter`](Crowd::iter). Those that are gone, or said nothing for too long, are returned.
    pub(crate) fn note(&mut self, signs: &[Sign]) -> Vec<Client> {
        let (mut signs, mut gone, now) = (signs.iter(), Vec::new(), Instant::now());
        for clients in self.users.values_mut() {
            for _ in 0..clients.len() {
                let (Some(mut client), Some(sign)) = (clients.pop_front(), signs.next()) else { continue };
                if sign.came {
                    client.asked.get_or_insert(now);
                }
                let is_silent = client.asked.is_none() && now.duration_since(client.since) >= SILENCE;
                match sign.ended || is_silent {
                    true => gone.push(client),
                    false => clients.push_back(client),
                }
            }
        }
        self.users.retain(|_, clients| !clients.is_empty());
        gone
    }

    /// The next one that has asked, of the next user of whom one is to be answered.
    pub(crate) fn next(&mut self, is_next: impl Fn(&Client) -> bool) -> Option<Client> {
        let behind = self.users.range((Bound::Excluded(self.last), Bound::Unbounded));
        let mut all = behind.chain(self.users.range(..=self.last));
        let (user, at) = all.find_map(|(user, clients)| {
            let at = clients.iter().position(|client| client.asked.is_some())?;
            // Those of one user are answered in their order.
            is_next(&clients[at]).then_some((*user, at))
        })?;
        self.last = user;
        self.remove(user, at)
    }

    /// Who has waited for longest without a word, of the user who has most clients.
    pub(crate) fn most_silent(&mut self, least: Duration) -> Option<Client> {
        let (user, clients) = self.users.iter().max_by_key(|(_, clients)| clients.len())?;
        let at = clients.iter().position(|client| client.asked.is_none() && client.since.elapsed() >= least)?;
        self.remove(*user, at)
    }

    fn remove(&mut self, user: u32, at: usize) -> Option<Client> {
        let clients = self.users.get_mut(&user)?;
        let client = clients.remove(at);
        if clients.is_empty() {
            self.users.remove(&user);
        }
        client
    }

    pub(crate) fn into_clients(self) -> impl Iterator<Item = Client> {
        self.users.into_values().flatten()
    }
}
