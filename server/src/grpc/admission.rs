//! Admits a call: decides whether its credential is current, and has the caller's account pay. Whether this caller may
//! make this call is decided by the rule that carries it out, which first asks `domain/identity.rs` who calls.

use std::sync::Arc;

use teamwire_proto::credential::Credential;
use tonic::{Request, Status};

use super::{
    audited::about,
    call::Call,
    credentials,
    services::{Services, draining},
};
use crate::{
    budget::{Account, AccountKey, Generation},
    domain::identity::{CallerCredentials, LookedUp},
};

/// A call that was admitted.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) who: Arc<CallerCredentials>,
    /// Who pays for the call. `None` if the credential is no longer valid.
    pub(super) account: Option<Arc<Account>>,
    pub(super) call: Arc<Call>,
}

impl Services {
    /// Admits a call. Returns who calls, and what it asks for.
    pub(super) async fn open<T: 'static>(&self, request: Request<T>) -> Result<(Arc<CallerCredentials>, T), Status> {
        let (admitted, request) = self.admit(request).await?;
        Ok((admitted.who, request))
    }

    /// Admits a call. Returns what is known of it, and what it asks for.
    ///
    /// The credentials of a connection's first calls are looked up before anything else is done for them, so that
    /// strangers are neither answered nor waited for. Once a connection has shown a member's credential, the rules of
    /// the calls look it up.
    pub(super) async fn admit<T: 'static>(&self, mut request: Request<T>) -> Result<(Admitted, T), Status> {
        let call = request.extensions_mut().remove::<Arc<Call>>().ok_or_else(credentials::missing)?;
        let request = request.into_inner();
        call.is_about(about(&request));
        if self.draining.is_cancelled() {
            return Err(draining().into());
        }
        let who = call.credentials.clone()?;
        let gated = call.gated.as_ref();
        if let Some(gated) = gated {
            gated.has_credential();
        }
        let known = gated.and_then(|gated| gated.known().get(&who.hash));
        if let Some(account) = &known {
            call.cost.pay(account).await?;
        }
        if known.is_some() && matches!(who.credential, Credential::Member { .. }) {
            return Ok((Admitted { who, account: known, call }, request));
        }
        // Boxed, so that the futures of most calls need no room for it.
        Ok((Box::pin(self.look_up(call, who, known)).await?, request))
    }

    /// Looks up the credential of a call, and admits the call.
    async fn look_up(
        &self,
        call: Arc<Call>,
        mut who: Arc<CallerCredentials>,
        known: Option<Arc<Account>>,
    ) -> Result<Admitted, Status> {
        let gated = call.gated.as_ref();
        let is_new = known.is_none() && gated.is_some_and(|gated| !gated.known().has(&who.hash));
        if let Some(owner) = gated.filter(|_| is_new).and_then(|gated| gated.account()) {
            call.cost.is_of(&owner);
            // So that no one looks up invented credentials at will.
            owner.look_up()?;
        }
        if let Some(gated) = gated.filter(|_| known.is_none()) {
            call.cost.guesses(gated.guess().await?);
        }
        let found = self.coordinator.look_up(&who).await;
        let is_current = found.as_ref().is_ok_and(|found| found.is_current);
        if !is_current && let Some(gated) = gated {
            gated.known().forget(&who.hash);
        }
        let found = found?;
        if found.operator_sign_in.is_some() {
            Arc::make_mut(&mut who).operator_sign_in = found.operator_sign_in;
        }
        if known.is_some() || !is_current {
            return Ok(Admitted { who, account: known, call });
        }
        let (account, generation) = self.account_of(&who, found);
        call.cost.is_of(&account);
        call.cost.guessed_right();
        if let Some(gated) = gated {
            let only_exchanges = matches!(who.credential, Credential::Join { .. } | Credential::SignInCode { .. });
            gated.opens(&account, generation, only_exchanges)?;
            gated.known().put(who.hash, Arc::clone(&account), generation);
        }
        call.cost.pay(&account).await?;
        Ok(Admitted { who, account: Some(account), call })
    }

    /// Returns the account of a valid credential, and which of the lives that share it has the credential.
    fn account_of(&self, who: &CallerCredentials, found: LookedUp) -> (Arc<Account>, Generation) {
        let (payer, generation) = match (&who.credential, found.acts_for) {
            (Credential::Member { team, member, .. }, _) => {
                (AccountKey::Member { team: team.clone(), member: member.clone() }, Generation::With(who.hash))
            }
            (credential, Some(identity)) => {
                (AccountKey::ConsolesOf { team: credential.team().cloned(), identity }, Generation::None)
            }
            _ => (AccountKey::Credential(who.hash), Generation::None),
        };
        (self.budgets.account(payer, found.leads), generation)
    }
}
