//! The slots of open connections, and who gets the next one.
//!
//! A connection whose client has not presented a valid credential is a *stranger*. When there are too many, strangers
//! make way: if an address already has its full share of strangers, a newcomer from it replaces the oldest of them. If
//! all slots are taken, it replaces the oldest stranger of the address with the most (remote ones first). An
//! *established* connection keeps its slot until its member has called in two later lives, or opens one too many while
//! this one is idle, unless other members use it.
//! Some slots are for leads and the operator: others get in as strangers, but are not established there.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use parking_lot::Mutex;
use teamwire_proto::Refusal;
use tokio_util::sync::CancellationToken;

use crate::budget::{Account, AccountKey, Budgets, Class, ConnectionGuard, Generation, OpenCalls, OpenConnection};

/// How many bits of an IPv6 address count: a machine may have all addresses of such a network.
const IPV6_BITS: u32 = 64;

/// All slots of a coordinator.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    budgets: Arc<Budgets>,
    bounds: Bounds,
    state: Mutex<OpenConnections>,
}

/// How many slots there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) all: usize,
    /// How many of them are for leads and the operator.
    pub(super) reserved: usize,
    pub(super) strangers_per_address: usize,
}

#[derive(Debug, Default)]
struct OpenConnections {
    open: usize,
    /// Established connections of those that may not use reserved slots.
    established: usize,
    strangers: HashMap<IpAddr, VecDeque<Stranger>>,
    admitted: u64,
}

#[derive(Debug)]
struct Stranger {
    number: u64,
    evict: CancellationToken,
}

/// The slot of a connection. It is free again once this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    address: IpAddr,
    number: u64,
    evict: CancellationToken,
    pushes_out: bool,
    calls: Arc<OpenCalls>,
    owner: Mutex<Option<Owner>>,
}

/// Whose an established connection is.
#[derive(Debug)]
struct Owner {
    connection: ConnectionGuard,
    /// Whether the slot is one of those for leads and the operator only.
    is_reserved: bool,
    /// Whether the credential is only good for getting another one.
    only_exchanges: bool,
    /// Cancelled when the owner has begun two more generations, or needs the place of this idle connection.
    evict: CancellationToken,
    /// Who else has last shown a valid credential on it. A proxy carries calls of several members over one connection.
    other: Option<(Arc<Account>, Generation)>,
}

impl ConnectionSlots {
    pub(super) fn new(budgets: Arc<Budgets>, bounds: Bounds) -> Self {
        Self { budgets, bounds, state: Mutex::default() }
    }

    /// Gives a newcomer a slot. `None` if all are taken by established connections, or by those that come before it.
    pub(super) fn admit(self: &Arc<Self>, peer: SocketAddr) -> Option<ConnectionSlot> {
        let address = address_of(peer);
        let mut state = self.state.lock();
        let own = state.strangers.get(&address).map_or(0, VecDeque::len);
        let is_crowd = own >= self.bounds.strangers_per_address;
        let pushes_out = is_crowd || state.open >= self.bounds.all;
        if is_crowd {
            self.budgets.count(Class::Strangers);
            state.evict(address);
        } else if pushes_out {
            self.budgets.count(Class::AllConnections);
            let crowd = state.most_strangers()?;
            state.evict(crowd);
        }
        state.open += 1;
        state.admitted += 1;
        let (number, evict) = (state.admitted, CancellationToken::new());
        state.strangers.entry(address).or_default().push_back(Stranger { number, evict: evict.clone() });
        let (slots, calls, owner) = (Arc::clone(self), Arc::default(), Mutex::default());
        Some(ConnectionSlot { slots, address, number, evict, pushes_out, calls, owner })
    }
}

impl OpenConnections {
    /// Closes the oldest stranger of an address. Its slot is free at once.
    fn evict(&mut self, address: IpAddr) {
        let Some(strangers) = self.strangers.get_mut(&address) else { return };
        let Some(oldest) = strangers.pop_front() else { return };
        oldest.evict.cancel();
        self.open -= 1;
        if strangers.is_empty() {
            self.strangers.remove(&address);
        }
    }

    /// Returns the address with the most strangers, one of another machine if there is any.
    fn most_strangers(&self) -> Option<IpAddr> {
        let weight = |address: &IpAddr, strangers: &VecDeque<Stranger>| (!address.is_loopback(), strangers.len());
        self.strangers.iter().max_by_key(|(address, strangers)| weight(address, strangers)).map(|(address, _)| *address)
    }

    /// Removes a stranger. Returns whether it was still there.
    fn remove(&mut self, address: IpAddr, number: u64) -> bool {
        let Some(strangers) = self.strangers.get_mut(&address) else { return false };
        let Ok(at) = strangers.binary_search_by_key(&number, |stranger| stranger.number) else { return false };
        strangers.remove(at);
        if strangers.is_empty() {
            self.strangers.remove(&address);
        }
        true
    }
}

impl ConnectionSlot {
    /// Returns whether another connection made way for this one.
    pub(super) fn pushes_out(&self) -> bool {
        self.pushes_out
    }

    /// Waits until the connection must make way for another one.
    pub(super) async fn evicted(&self) {
        self.evict.cancelled().await;
    }

    /// Returns what is cancelled when the connection must make way for another one, as long as it is a stranger's.
    pub(super) fn eviction(&self) -> CancellationToken {
        self.evict.clone()
    }

    /// Returns what is cancelled when the established connection must be closed next. `None` if it must be closed now.
    pub(super) fn next_eviction(&self) -> Option<CancellationToken> {
        let mut owner = self.owner.lock();
        let owner = owner.as_mut()?;
        if owner.evict.is_cancelled() {
            // Its calls may be those of another member, for whom it counts then.
            let (account, generation) =
                owner.other.take().filter(|(account, generation)| account.is_newest(*generation))?;
            let evict = CancellationToken::new();
            owner.connection = account.connection(generation, self.connection(&evict)).ok()?;
            owner.evict = evict;
        }
        Some(owner.evict.clone())
    }

    fn connection(&self, evict: &CancellationToken) -> OpenConnection {
        OpenConnection { evict: evict.clone(), calls: Arc::clone(&self.calls) }
    }

    /// Returns the calls that are under way on the connection.
    pub(super) fn calls(&self) -> &Arc<OpenCalls> {
        &self.calls
    }

    /// Returns the account for which the connection counts. `None` if it is a stranger.
    pub(super) fn account(&self) -> Option<Arc<Account>> {
        self.owner.lock().as_ref().map(|owner| Arc::clone(owner.connection.account()))
    }

    /// Returns the account that pays for requests over the connection.
    pub(super) fn payer(&self) -> Arc<Account> {
        let strangers = || self.slots.budgets.account(AccountKey::Strangers(self.address), false);
        self.account().unwrap_or_else(strangers)
    }

    /// Establishes the connection, with a valid credential. If it already is, with one that was only good for getting
    /// another one, it counts for the new one from now on. `only_exchanges`: whether this credential is only good for
    /// that.
    pub(super) fn establish(
        &self,
        account: &Arc<Account>,
        generation: Generation,
        only_exchanges: bool,
    ) -> Result<(), Refusal> {
        let mut owner = self.owner.lock();
        if let Some(owner) = &mut *owner {
            if owner.connection.is_of(account) {
                // A member that joins again may use the same connection.
                return owner.connection.renew(generation, self.connection(&owner.evict));
            }
            if only_exchanges {
                return Ok(());
            }
            if !owner.only_exchanges {
                account.note(generation);
                owner.other = Some((Arc::clone(account), generation));
                return Ok(());
            }
        }
        let evict = owner.as_ref().map_or_else(CancellationToken::new, |owner| owner.evict.clone());
        let connection = account.connection(generation, self.connection(&evict))?;
        let bounds = self.slots.bounds;
        let mut state = self.slots.state.lock();
        let was_counted = owner.as_ref().is_some_and(|owner| !owner.is_reserved);
        let has_room = was_counted || state.established + bounds.reserved < bounds.all;
        if !has_room && !account.leads() {
            drop(state);
            return Err(account.no_place(bounds.all));
        }
        if owner.is_none() {
            // If it was just evicted, it ends as an established connection would: its slot is no longer counted.
            if !state.remove(self.address, self.number) {
                state.open += 1;
            }
            if has_room {
                state.established += 1;
            }
        }
        drop(state);
        *owner = Some(Owner { connection, is_reserved: !has_room, only_exchanges, evict, other: None });
        Ok(())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        match &*self.owner.lock() {
            Some(owner) => {
                state.open -= 1;
                state.established -= usize::from(!owner.is_reserved);
            }
            // One that was evicted has given its slot away.
            None => {
                if state.remove(self.address, self.number) {
                    state.open -= 1;
                }
            }
        }
    }
}

/// Returns the address that counts for a peer.
fn address_of(peer: SocketAddr) -> IpAddr {
    match peer.ip().to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - IPV6_BITS))))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        budget::{Rates, Refusals, Shares},
        domain::secret::SecretHash,
    };

    fn slots(all: usize, reserved: usize, strangers_per_address: usize) -> Arc<ConnectionSlots> {
        let shares = Shares { connections_per_credential_max: 4, ..Shares::default() };
        let budgets = Arc::new(Budgets::new(Rates::default(), shares, Refusals::default()));
        Arc::new(ConnectionSlots::new(budgets, Bounds { all, reserved, strangers_per_address }))
    }

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    fn account(slots: &ConnectionSlots, name: &str, leads: bool) -> Arc<Account> {
        slots.budgets.account(AccountKey::Credential(SecretHash::of(name)), leads)
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.evict.is_cancelled()
    }

    #[test]
    fn an_address_at_its_limit_keeps_only_its_newest_strangers() {
        let slots = slots(10, 0, 2);
        let mine: Vec<ConnectionSlot> = (0..3).map(|_| slots.admit(peer("192.0.2.1")).unwrap()).collect();
        let other = slots.admit(peer("192.0.2.2")).unwrap();
        assert_eq!(mine.iter().map(is_evicted).collect::<Vec<_>>(), [true, false, false]);
        assert!(!is_evicted(&other));
        drop(mine);
        let state = slots.state.lock();
        assert_eq!((state.open, state.strangers.len()), (1, 1));
    }

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let of = |text: &str| address_of(peer(text));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert!(of("::1").is_loopback());
    }

    #[test]
    fn if_all_slots_are_taken_the_address_with_the_most_strangers_loses_one() {
        let slots = slots(5, 0, 10);
        let known = slots.admit(peer("192.0.2.9")).unwrap();
        known.establish(&account(&slots, "ann", false), Generation::None, false).unwrap();
        let here = [slots.admit(peer("127.0.0.1")).unwrap(), slots.admit(peer("127.0.0.1")).unwrap()];
        let crowd = [slots.admit(peer("192.0.2.1")).unwrap(), slots.admit(peer("192.0.2.1")).unwrap()];
        let newcomer = slots.admit(peer("192.0.2.2")).unwrap();
        assert!(is_evicted(&crowd[0]), "the oldest one of the largest crowd");
        assert!(![&known, &here[0], &here[1], &crowd[1], &newcomer].into_iter().any(is_evicted));
        let _more = [slots.admit(peer("127.0.0.1")).unwrap(), slots.admit(peer("127.0.0.1")).unwrap()];
        assert!(is_evicted(&crowd[1]) && is_evicted(&newcomer) && !is_evicted(&here[0]), "this machine's come first");
        let _last = slots.admit(peer("192.0.2.3")).unwrap();
        assert!(is_evicted(&here[0]) && !is_evicted(&known));
    }

    #[test]
    fn established_connections_keep_their_slots_and_one_is_reserved_for_leads() {
        let slots = slots(4, 1, 10);
        let mut held = Vec::new();
        for name in ["a", "b", "c"] {
            let slot = slots.admit(peer("192.0.2.1")).unwrap();
            slot.establish(&account(&slots, name, false), Generation::None, false).unwrap();
            held.push(slot);
        }
        let late = slots.admit(peer("192.0.2.2")).unwrap();
        let refusal = late.establish(&account(&slots, "d", false), Generation::None, false).unwrap_err();
        assert!(refusal.message.contains("network.connections_max"), "{refusal}");
        let lead = slots.admit(peer("192.0.2.3")).unwrap();
        assert!(is_evicted(&late), "the lead takes the slot of a stranger");
        lead.establish(&account(&slots, "lead", true), Generation::None, false).unwrap();
        assert!(slots.admit(peer("192.0.2.4")).is_none(), "all are established");
        drop(held.pop());
        let next = slots.admit(peer("192.0.2.4")).unwrap();
        next.establish(&account(&slots, "d", false), Generation::None, false).unwrap();
        drop((held, lead, next, late));
        let state = slots.state.lock();
        assert_eq!((state.open, state.established, state.strangers.len()), (0, 0, 0));
    }

    #[test]
    fn connections_are_bounded_per_credential_and_a_join_token_hands_its_own_to_the_member() {
        let slots = slots(100, 0, 100);
        let token = account(&slots, "token", false);
        let mut joined = Vec::new();
        for number in 0..20 {
            let slot = slots.admit(peer("192.0.2.1")).unwrap();
            slot.establish(&token, Generation::None, true).unwrap();
            slot.establish(&account(&slots, &format!("member {number}"), false), Generation::None, false).unwrap();
            slot.establish(&token, Generation::None, true).unwrap();
            joined.push(slot);
        }
        let ann = account(&slots, "ann", false);
        let mut hers = Vec::new();
        for _ in 0..4 {
            let slot = slots.admit(peer("192.0.2.1")).unwrap();
            slot.establish(&ann, Generation::None, false).unwrap();
            hers.push(slot);
        }
        let fifth = slots.admit(peer("192.0.2.1")).unwrap();
        let refusal = fifth.establish(&ann, Generation::None, false).unwrap_err();
        assert!(refusal.message.contains("shares.connections_per_credential_max"), "{refusal}");
        assert!(refusal.retry_after.is_some() && fifth.account().is_none());
        drop(hers.pop());
        fifth.establish(&ann, Generation::None, false).unwrap();
        assert_eq!(slots.state.lock().established, 24);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_too_many_takes_the_place_of_the_one_that_has_been_idle_for_longest() {
        let slots = slots(100, 0, 100);
        let ann = account(&slots, "ann", false);
        let connect = || slots.admit(peer("192.0.2.1")).unwrap();
        let mut hers = Vec::new();
        for _ in 0..4 {
            let slot = connect();
            slot.establish(&ann, Generation::None, false).unwrap();
            hers.push(slot);
        }
        let [streams, idle, was_used, _] = &hers[..] else { panic!() };
        let stream = streams.calls().begin();
        drop(idle.calls().begin());
        tokio::time::advance(Duration::from_secs(20)).await;
        drop(was_used.calls().begin());
        connect().establish(&ann, Generation::None, false).expect_err("none has been idle for long");
        tokio::time::advance(Duration::from_secs(20)).await;
        let (fifth, sixth, seventh) = (connect(), connect(), connect());
        for slot in [&fifth, &sixth] {
            slot.establish(&ann, Generation::None, false).unwrap();
        }
        let is_closed: Vec<bool> = hers.iter().map(|slot| slot.next_eviction().is_none()).collect();
        assert_eq!(is_closed, [false, true, false, true]);
        seventh.establish(&ann, Generation::None, false).expect_err("the others are in use");
        drop(stream);
        tokio::time::advance(Duration::from_secs(40)).await;
        drop((fifth.calls().begin(), sixth.calls().begin()));
        seventh.establish(&ann, Generation::None, false).unwrap();
        assert!(was_used.next_eviction().is_none() && streams.next_eviction().is_some());
    }

    /// Calls over a connection with the credential of a generation of a member.
    fn call(slot: &ConnectionSlot, name: &str, generation: &str) -> Result<(), Refusal> {
        slot.establish(&account(&slot.slots, name, false), Generation::With(SecretHash::of(generation)), false)
    }

    #[test]
    fn a_connection_of_a_life_before_the_previous_one_is_closed_unless_it_is_in_use() {
        let slots = slots(20, 0, 20);
        let connect = || slots.admit(peer("192.0.2.1")).unwrap();
        let [old, moved, shared, other] = [connect(), connect(), connect(), connect()];
        for slot in [&old, &moved, &shared] {
            call(slot, "ann", "1").unwrap();
        }
        call(&shared, "bob", "1").unwrap();
        call(&other, "ann", "2").unwrap();
        // Over a connection that counted for the first generation until then.
        call(&moved, "ann", "3").unwrap();
        assert!(old.next_eviction().is_none());
        for slot in [&moved, &other, &shared] {
            assert!(!slot.next_eviction().expect("it stays").is_cancelled());
        }
        assert!(Arc::ptr_eq(&shared.account().unwrap(), &account(&slots, "bob", false)));
        // What bob begins closes it, too.
        call(&other, "bob", "2").unwrap();
        call(&other, "bob", "3").unwrap();
        assert!(shared.next_eviction().is_none());
    }
}
