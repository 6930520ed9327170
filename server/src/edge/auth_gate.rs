//! The auth gate: whether a call over a connection has presented a valid credential.
//!
//! Each connection has an [`AuthGate`], which travels in tonic's connection info. Each call has a [`GatedCall`];
//! admission notes there that a whole request with a credential has arrived, and that the credential is valid. While
//! the coordinator carries out such a call, the connection stays open, however long that takes; once a credential was
//! valid the gate stays open. The answer to a call proves nothing, since many calls are refused without a check of who
//! calls. A connection that loads the console's page needs no credential, and gets more time, if not too many others
//! do.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use teamwire_proto::Refusal;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::slots::ConnectionSlot;
use crate::budget::{Account, Generation, Guess, OpenCall, ShownCredentials};

/// The gate of a connection.
#[derive(Debug, Default)]
pub struct AuthGate {
    open: AtomicBool,
    /// How many calls with a credential are being decided.
    deciding: AtomicUsize,
    /// The connection's permit among those that load the console's page. `None` if it has none.
    loading: parking_lot::Mutex<Option<OwnedSemaphorePermit>>,
    /// Who is at the other end. `None` means unknown.
    peer: Option<SocketAddr>,
    /// The connection's slot among those that are open. `None` if it needs none.
    slot: Option<ConnectionSlot>,
    known: ShownCredentials,
    /// Held while a credential is looked up, until one was valid.
    guessing: Arc<Mutex<()>>,
    /// Held by the stream whose frames the connection carries.
    carrying: Arc<Mutex<()>>,
}

impl AuthGate {
    /// Makes the gate of a connection from this address, with a slot.
    pub(super) fn of(peer: SocketAddr, slot: ConnectionSlot) -> Self {
        Self { peer: Some(peer), slot: Some(slot), ..Self::default() }
    }

    /// Returns the address that the connection comes from.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Returns whether a call has presented a valid credential.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Returns what is cancelled when the connection must be closed next, once a call has presented a valid credential.
    /// `None` if it must be closed now.
    pub(super) fn next_eviction(&self) -> Option<CancellationToken> {
        self.slot.as_ref()?.next_eviction()
    }

    /// Returns whether a call with a credential is being decided.
    pub fn is_deciding(&self) -> bool {
        self.deciding.load(Ordering::Acquire) > 0
    }

    /// Records that the connection loads the console's page, which needs no credential. It keeps the slot until the
    /// gate opens or the connection is closed.
    pub fn loads_page(&self, slot: OwnedSemaphorePermit) {
        if !self.is_open() {
            self.loading.lock().get_or_insert(slot);
        }
    }

    /// Returns whether the connection loads the console's page.
    pub fn is_loading(&self) -> bool {
        self.loading.lock().is_some()
    }
}

/// A call over a connection with a gate. It is under way until this is dropped.
#[derive(Debug)]
pub struct GatedCall {
    gate: Arc<AuthGate>,
    has_presented: AtomicBool,
    _open: Option<OpenCall>,
}

impl GatedCall {
    /// Makes a call that has presented nothing yet.
    pub fn new(gate: Arc<AuthGate>) -> Self {
        let open = gate.slot.as_ref().map(|slot| slot.calls().begin());
        Self { gate, has_presented: AtomicBool::new(false), _open: open }
    }

    /// Returns what ends the decision on the call: keep it until the reply has begun.
    pub fn decision(&self) -> Decision<'_> {
        Decision(self)
    }

    /// Returns the gate, for calls that travel within this one.
    pub fn gate(&self) -> Arc<AuthGate> {
        Arc::clone(&self.gate)
    }

    /// Waits until the connection carries the frames of no other stream.
    pub async fn carry(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.gate.carrying).lock_owned().await
    }

    /// Returns the address that the call comes from.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.gate.peer
    }

    /// Returns what keeps the connection from being idle until the reply has ended. `None` if it needs no slot.
    pub fn reply(&self) -> Option<OpenCall> {
        Some(self.gate.slot.as_ref()?.calls().begin())
    }

    /// Records that the whole request has arrived, with a credential that can be looked up.
    pub fn has_credential(&self) {
        if !self.has_presented.swap(true, Ordering::AcqRel) {
            self.gate.deciding.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Records that the credential is valid, and whose account the connection counts for. Refuses it if there is no
    /// room for another connection. `only_exchanges`: whether the credential is only good for getting another one.
    pub fn opens(&self, account: &Arc<Account>, generation: Generation, only_exchanges: bool) -> Result<(), Refusal> {
        match &self.gate.slot {
            Some(slot) => slot.establish(account, generation, only_exchanges)?,
            None => account.note(generation),
        }
        self.gate.open.store(true, Ordering::Release);
        self.gate.loading.lock().take();
        Ok(())
    }

    /// Returns the account for which the connection counts. `None` if no call has presented a valid credential.
    pub fn account(&self) -> Option<Arc<Account>> {
        self.gate.slot.as_ref()?.account()
    }

    /// Waits until the credential may be looked up: one after another on a connection, and a few at once for its address.
    /// `None` once a call over the connection has presented a valid credential.
    pub async fn guess(&self) -> Result<Option<(Guess, OwnedMutexGuard<()>)>, Refusal> {
        let Some(slot) = self.gate.slot.as_ref().filter(|_| !self.gate.is_open()) else { return Ok(None) };
        let turn = Arc::clone(&self.gate.guessing).lock_owned().await;
        if self.gate.is_open() {
            return Ok(None);
        }
        Ok(Some((slot.payer().guess().await?, turn)))
    }

    /// Returns the account that pays for a large request over the connection. `None` if no one does.
    pub fn payer(&self) -> Option<Arc<Account>> {
        Some(self.gate.slot.as_ref()?.payer())
    }

    /// Returns the valid credentials that the connection has shown.
    pub fn known(&self) -> &ShownCredentials {
        &self.gate.known
    }
}

/// Ends the decision on a call when it is dropped.
#[derive(Debug)]
pub struct Decision<'a>(&'a GatedCall);

impl Drop for Decision<'_> {
    fn drop(&mut self) {
        if self.0.has_presented.swap(false, Ordering::AcqRel) {
            self.0.gate.deciding.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        budget::{AccountKey, Budgets, Rates, Refusals, Shares},
        domain::secret::SecretHash,
    };

    fn account() -> Arc<Account> {
        let budgets = Budgets::new(Rates::default(), Shares::default(), Refusals::default());
        budgets.account(AccountKey::Credential(SecretHash::of("ann")), false)
    }

    fn call_of(gate: &Arc<AuthGate>) -> GatedCall {
        GatedCall::new(Arc::clone(gate))
    }

    #[test]
    fn only_a_valid_credential_opens_the_gate() {
        let gate = Arc::new(AuthGate::default());
        drop(call_of(&gate).decision());
        assert!(!gate.is_open(), "no credential was presented");
        let call = call_of(&gate);
        call.has_credential();
        drop(call.decision());
        assert!(!gate.is_open(), "the credential is not valid");
        let call = call_of(&gate);
        call.has_credential();
        call.opens(&account(), Generation::None, false).expect("a gate without a slot");
        drop(call.decision());
        assert!(gate.is_open(), "it stays open");
    }

    #[test]
    fn a_gate_keeps_deciding_until_every_call_ends() {
        let gate = Arc::new(AuthGate::default());
        let (one, other) = (call_of(&gate), call_of(&gate));
        one.has_credential();
        one.has_credential();
        other.has_credential();
        drop(one.decision());
        assert!(gate.is_deciding());
        drop(other.decision());
        assert!(!gate.is_deciding());
    }
}
