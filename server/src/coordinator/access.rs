//! Access: looking credentials up, signing in to the console, and the credentials of a team.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use teamwire_proto::{Refusal, credential::Credential, name::Name, v1};

use super::{
    Coordinator,
    keys::{home_of, usual_keys},
    revoked::Revoked,
    store_errors::{corrupt, unavailable},
};
use crate::{
    domain::{
        access::{self, Listing, Viewer},
        identity::{self, CallerCredentials, LookedUp, namespace_of},
        page::{self, Page, page_size},
        records::{ActsFor, ConsoleRecord, JoinTokenRecord, ObserverRecord, RecordType, TeamRecord},
        secret::SecretHash,
    },
    store::{Namespace, Record},
};

/// How many records a page of credentials examines at most.
const SCAN_MAX: usize = 4_096;

/// How long a reading of the revoked members serves all waiting callers of their team.
const REVOKED_FRESH_MS: u64 = 500;

/// What a page's position names after the kinds of records: the members and hosts in the roster.
const MEMBERS: &str = "member";

/// How many records are read at once.
const CHUNK: usize = 256;

impl Coordinator {
    /// Returns whether a credential is valid; see [`LookedUp::is_current`].
    pub async fn holds(&self, who: &CallerCredentials) -> Result<bool, Refusal> {
        Ok(self.look_up(who).await?.is_current)
    }

    /// Returns the refusal of a member whose session was ended because its credential was revoked.
    pub async fn revoked_member(&self, namespace: &Namespace, member: &Name) -> Result<Option<Refusal>, Refusal> {
        let team = self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?.into_iter().next().flatten();
        let is_revoked = team.is_some_and(|team| team.member(member).is_some_and(|member| member.revoked));
        Ok(is_revoked.then(|| identity::revoked_member(member)))
    }

    /// Refuses a caller whose credential is no longer valid, because it was revoked or replaced, or has expired. A
    /// member whose life has ended learns that from its call.
    pub async fn refuse_revoked(&self, who: &CallerCredentials) -> Result<(), Refusal> {
        match &who.credential {
            Credential::Console { .. } | Credential::Observer { .. } => self.look_up(who).await.map(drop),
            Credential::Operator { .. } => {
                let is_valid = self.operator.borrow().accept(&who.hash, self.now_ms());
                if is_valid { Ok(()) } else { Err(identity::operator_replaced()) }
            }
            Credential::Member { member, .. } => {
                let is_revoked = self.revoked_members(&home_of(who)).await?.contains(&who.hash);
                if is_revoked { Err(identity::revoked_member(member)) } else { Ok(()) }
            }
            Credential::Join { .. } | Credential::SignInCode { .. } => Ok(()),
        }
    }

    /// Returns the revoked credentials of a team's members, as of half a second ago at most.
    async fn revoked_members(&self, namespace: &Namespace) -> Result<Vec<SecretHash>, Refusal> {
        let known = self.revoked.of(namespace);
        let mut known = known.lock().await;
        if known.read_ms + REVOKED_FRESH_MS <= self.now_ms() {
            let read_ms = self.now_ms();
            let team = self.fetch::<TeamRecord>(namespace, vec![String::new()]).await?;
            let members = team.iter().flatten().flat_map(|team| &team.members);
            let credentials = members.filter(|member| member.revoked).map(|member| member.credential).collect();
            *known = Revoked { read_ms, credentials };
        }
        Ok(known.credentials.clone())
    }

    /// Looks a credential up, and records that it was used if that is due; see [`identity::look_up`].
    pub async fn look_up(&self, who: &CallerCredentials) -> Result<LookedUp, Refusal> {
        let (namespace, keys) = (home_of(who), usual_keys(who));
        let found = self.decide(&namespace, &keys, |tx| identity::look_up(tx, who)).await?.value;
        if found.is_use_due {
            // Whether this succeeds does not concern the call.
            let recorded = self.decide(&namespace, &keys, |tx| identity::record_use(tx, who)).await;
            if let Err(refusal) = recorded {
                tracing::debug!(credential = ?who.credential, %refusal, "a use could not be recorded");
            }
        }
        Ok(found)
    }

    /// See `AccessService.CreateSignInCode`.
    pub async fn create_sign_in_code(
        &self,
        who: &CallerCredentials,
        request: &v1::CreateSignInCodeRequest,
    ) -> Result<v1::CreateSignInCodeResponse, Refusal> {
        let done = self.decide(&home_of(who), &usual_keys(who), |tx| access::create_code(tx, who, request)).await?;
        Ok(done.value)
    }

    /// See `AccessService.SignIn`.
    pub async fn sign_in(
        &self,
        who: &CallerCredentials,
        request: &v1::SignInRequest,
    ) -> Result<v1::SignInResponse, Refusal> {
        let done = self.decide(&home_of(who), &usual_keys(who), |tx| access::sign_in(tx, who, request)).await?;
        if let Some(caller) = &done.value.caller {
            tracing::info!(code = ?who.credential, read_only = caller.read_only, "a person signed in");
        }
        Ok(done.value)
    }

    /// See `AccessService.GetCaller`.
    pub async fn get_caller(&self, who: &CallerCredentials) -> Result<v1::Caller, Refusal> {
        Ok(self.decide(&home_of(who), &usual_keys(who), |tx| access::get_caller(tx, who)).await?.value)
    }

    /// See `AccessService.RevokeCredential`.
    pub async fn revoke_credential(
        &self,
        who: &CallerCredentials,
        request: &v1::RevokeCredentialRequest,
    ) -> Result<(), Refusal> {
        // A console credential that revokes itself is in its own namespace, whichever team it names.
        let namespace = match access::is_itself(who, &request.id) {
            true => home_of(who),
            false => namespace_of(who, &request.team)?,
        };
        self.decide(&namespace, &usual_keys(who), |tx| access::revoke(tx, who, request)).await?;
        Ok(())
    }

    /// See `AccessService.ListCredentials`.
    pub async fn list_credentials(
        &self,
        who: &CallerCredentials,
        request: &v1::ListCredentialsRequest,
    ) -> Result<v1::ListCredentialsResponse, Refusal> {
        let page = Page::new(page_size(request.page_size)?);
        let position = page::position(&request.page_token)?.unwrap_or_default();
        let namespace = namespace_of(who, &request.team)?;
        let listing = self.decide(&namespace, &usual_keys(who), |tx| access::listing(tx, who, &request.team)).await?;
        let viewer = Viewer::new(who, self.now_ms());
        match listing.value {
            // There are too few for a second page.
            Listing::Own(credentials) => {
                Ok(v1::ListCredentialsResponse { credentials, next_page_token: String::new() })
            }
            Listing::Team(team) => self.credentials_of(&namespace, &team, viewer, page, position).await,
        }
    }

    /// Lists the credentials of a team after a position: the kind and the id of a record.
    async fn credentials_of(
        &self,
        namespace: &Namespace,
        team: &TeamRecord,
        viewer: Viewer<'_>,
        mut page: Page<v1::Credential>,
        position: String,
    ) -> Result<v1::ListCredentialsResponse, Refusal> {
        let kinds = [ConsoleRecord::KIND, ObserverRecord::KIND, JoinTokenRecord::KIND];
        let (from, from_id) = position.split_once('/').unwrap_or((kinds[0], ""));
        if !kinds.contains(&from) && from != MEMBERS {
            return Err(page::unknown_token());
        }
        let (mut examined, mut covered) = (0, position.clone());
        for kind in kinds.into_iter().skip_while(|kind| *kind != from) {
            let mut after = if kind == from { from_id.to_owned() } else { String::new() };
            loop {
                let found = self.store.scan(namespace, kind, &after, CHUNK).await.map_err(unavailable)?;
                let observers = self.observers_of(namespace, kind, &found).await?;
                for (id, record) in &found {
                    let shown = show(viewer, team, &observers, kind, id, record)
                        .map_err(|_| corrupt(namespace, "a credential"))?;
                    if examined >= SCAN_MAX || shown.is_some_and(|shown| !page.add(shown)) {
                        let next_page_token = page::token(covered);
                        return Ok(v1::ListCredentialsResponse { credentials: page.into_items(), next_page_token });
                    }
                    covered = format!("{kind}/{id}");
                    examined += 1;
                }
                match found.last() {
                    Some((last, _)) if found.len() == CHUNK => after.clone_from(last),
                    _ => break,
                }
            }
        }
        let leases = self.store.leases(namespace).await.map_err(unavailable)?;
        let after = if from == MEMBERS { from_id } else { "" };
        for shown in access::show_members(viewer, team, &leases, &self.limits) {
            let place = format!("{MEMBERS}/{}", shown.id);
            if shown.id.as_str() > after && !page.add(shown) {
                let next_page_token = page::token(covered);
                return Ok(v1::ListCredentialsResponse { credentials: page.into_items(), next_page_token });
            }
            covered = place;
        }
        Ok(v1::ListCredentialsResponse { credentials: page.into_items(), next_page_token: String::new() })
    }

    /// Reads the observers' credentials that console credentials act for, by their ids.
    async fn observers_of(
        &self,
        namespace: &Namespace,
        kind: &str,
        found: &[(String, Record)],
    ) -> Result<HashMap<String, Arc<ObserverRecord>>, Refusal> {
        if kind != ConsoleRecord::KIND {
            return Ok(HashMap::new());
        }
        let consoles = found.iter().filter_map(|(_, record)| ConsoleRecord::decode(&record.data).ok());
        let ids: HashSet<String> = consoles
            .filter_map(|console| match console.acts_for {
                ActsFor::Observer(id) => Some(id),
                ActsFor::Operator | ActsFor::Member(_) => None,
            })
            .collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let observers = self.fetch::<ObserverRecord>(namespace, ids.clone()).await?;
        Ok(ids.into_iter().zip(observers).filter_map(|(id, observer)| Some((id, observer?))).collect())
    }
}

/// Shows the record of a credential. `None` if it is no longer valid.
fn show(
    viewer: Viewer<'_>,
    team: &TeamRecord,
    observers: &HashMap<String, Arc<ObserverRecord>>,
    kind: &str,
    id: &str,
    record: &Record,
) -> Result<Option<v1::Credential>, String> {
    Ok(if kind == ConsoleRecord::KIND {
        let console = ConsoleRecord::decode(&record.data)?;
        let observer = match &console.acts_for {
            ActsFor::Observer(id) => observers.get(id),
            ActsFor::Operator | ActsFor::Member(_) => None,
        };
        access::show_console(viewer, Some(team), observer.map(Arc::as_ref), id, &console)
    } else if kind == ObserverRecord::KIND {
        access::show_observer(viewer, id, &ObserverRecord::decode(&record.data)?)
    } else {
        access::show_join_token(viewer, id, &JoinTokenRecord::decode(&record.data)?)
    })
}
