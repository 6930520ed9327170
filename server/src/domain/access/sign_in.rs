//! Signing in: a code is exchanged for a console credential, once.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    id,
    v1::{self, CallerKind},
};

use super::member;
use crate::domain::{
    history,
    idempotency::{KeyedCall, fingerprint},
    identity::{self, Admit, CallerCredentials, Principal},
    life::new_credential,
    quota::Spender,
    records::{ActsFor, ConsoleRecord, ObserverRecord, SignInCodeRecord, SignInPurpose, SignInsRecord, TeamRecord},
    secret::SecretHash,
    time::{ms, timestamp},
    tx::{RuleError, Tx},
};

/// How long a code is valid.
const CODE_TTL: Duration = Duration::from_secs(60);

/// How many codes a caller has at most; the oldest one becomes invalid.
const CODES_MAX: usize = 8;

/// How long a console credential is valid.
const CONSOLE_TTL: Duration = Duration::from_secs(8 * 60 * 60);

/// How many console credentials act for a caller at most; the oldest one is revoked.
const CONSOLES_MAX: usize = 16;

/// How many tool credentials act for a member at most; a further one is refused.
const TOOLS_MAX: usize = 16;

/// Creates a code. The caller's team is `request.team`, or the directory's for the operator.
pub fn create_code(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CreateSignInCodeRequest,
) -> Result<v1::CreateSignInCodeResponse, RuleError> {
    let acts_for = creator(tx, who, request)?;
    let purpose = purpose(tx, &acts_for, request)?;
    let bare = v1::CreateSignInCodeRequest { idempotency_key: String::new(), ..request.clone() };
    let scope = format!("code/{}", acts_for.key());
    let call = KeyedCall::new(&scope, &request.idempotency_key, fingerprint(&bare, None))?;
    let secret = new_credential(tx, who, id::idempotency_key(&request.idempotency_key)?);
    // A repeated call must return the same id.
    let id = member::id(&SecretHash::of(&secret));
    let team = who.credential.team().cloned();
    let code = Credential::SignInCode { team, id: id.clone(), secret: secret.clone() }.reveal();
    if let Some(reply) = call.recorded_reply::<v1::CreateSignInCodeResponse>(tx)? {
        return Ok(v1::CreateSignInCodeResponse { code, ..reply });
    }
    let expires_ms = tx.ctx.now_ms + ms(CODE_TTL);
    let mut sign_ins = sign_ins(tx, &acts_for)?;
    sign_ins.codes.push(id.clone());
    if sign_ins.codes.len() > CODES_MAX {
        tx.delete::<SignInCodeRecord>(&sign_ins.codes.remove(0));
    }
    tx.put(&acts_for.key(), &sign_ins);
    let read_only = request.read_only || matches!(acts_for, ActsFor::Observer(_));
    let secret = SecretHash::of(&secret);
    tx.put(&id, &SignInCodeRecord { secret, acts_for, proof: who.hash, read_only, purpose, expires_ms, used: false });
    let expires_at = Some(timestamp(expires_ms));
    // `grpc/` says where this coordinator serves the console.
    let reply = v1::CreateSignInCodeResponse { expires_at, ..Default::default() };
    call.record_reply(tx, &reply);
    Ok(v1::CreateSignInCodeResponse { code, ..reply })
}

/// Returns whom the code acts for: the caller, if it may create one.
fn creator(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CreateSignInCodeRequest,
) -> Result<ActsFor, RuleError> {
    if let Credential::Operator { .. } = &who.credential {
        identity::operator(tx, who)?;
        return Ok(ActsFor::Operator);
    }
    let (_, caller) = match &who.credential {
        Credential::Console { team: None, .. } => {
            identity::operator(tx, who)?;
            return Err(no_further_codes().into());
        }
        _ => identity::call(tx, who, &request.team, Admit::Live)?,
    };
    match (caller, &who.credential) {
        (Principal::Member { name, .. }, Credential::Member { .. }) => Ok(ActsFor::Member(name)),
        (Principal::Observer, Credential::Observer { id, .. }) => Ok(ActsFor::Observer(id.clone())),
        _ => Err(no_further_codes().into()),
    }
}

/// Returns what the person signs in for. Only members have tools.
fn purpose(
    tx: &mut Tx<'_>,
    acts_for: &ActsFor,
    request: &v1::CreateSignInCodeRequest,
) -> Result<SignInPurpose, RuleError> {
    let leads = match request.purpose() {
        v1::SignInPurpose::Unspecified => return Ok(SignInPurpose::Console),
        v1::SignInPurpose::Tools => false,
        v1::SignInPurpose::LeadTools => true,
    };
    let ActsFor::Member(name) = acts_for else {
        let text = "Only a member has tools. Create the tool credential as the member that the program is to act as.";
        return Err(Refusal::new(Reason::NotPermitted, text).into());
    };
    if request.read_only {
        let text = "A program that only reads gets no tools. Leave out read_only, or create an observer's credential.";
        return Err(Refusal::new(Reason::InvalidField, text).field("read_only").into());
    }
    let is_lead = tx.read::<TeamRecord>("")?.is_some_and(|team| team.is_lead(name));
    let (reason, why) = match (leads, is_lead) {
        (true, false) => {
            (Reason::LeadOnly, "does not lead the team. Leave out --lead: the program then gets a teammate's tools.")
        }
        (false, true) => {
            (Reason::NotPermitted, "leads the team. If the program may do everything that a lead may, add --lead.")
        }
        _ => return Ok(SignInPurpose::Tools { leads }),
    };
    Err(Refusal::new(reason, format!("{name} {why}")).into())
}

fn no_further_codes() -> Refusal {
    Refusal::new(
        Reason::NotPermitted,
        "A console credential or a tool credential cannot create codes for further ones. Run the command where you ran it \
         before.",
    )
}

fn sign_ins(tx: &mut Tx<'_>, acts_for: &ActsFor) -> Result<SignInsRecord, RuleError> {
    Ok(tx.read::<SignInsRecord>(&acts_for.key())?.as_deref().cloned().unwrap_or_default())
}

/// Exchanges a code for a console credential.
pub fn sign_in(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::SignInRequest,
) -> Result<v1::SignInResponse, RuleError> {
    let Credential::SignInCode { team: named, id, .. } = &who.credential else {
        let text = "Only a code can sign in. Create one with `teamwire console`.";
        return Err(Refusal::new(Reason::NotPermitted, text).into());
    };
    let team = tx.read::<TeamRecord>("")?;
    let code = identity::sign_in_code(tx, who, id)?;
    let call = KeyedCall::new(&format!("sign-in/{id}"), &request.idempotency_key, fingerprint(&(), None))?;
    let secret = new_credential(tx, who, id::idempotency_key(&request.idempotency_key)?);
    let credential = Credential::Console { team: named.clone(), id: id.clone(), secret: secret.clone() }.reveal();
    if let Some(reply) = call.recorded_reply::<v1::SignInResponse>(tx)? {
        return Ok(v1::SignInResponse { credential, ..reply });
    }
    check_code(tx, &code)?;
    let (caller, console_until) = who_signs_in(tx, team.as_ref(), &code)?;
    if team.is_some() {
        tx.spends_as(Spender::from(&caller));
    }
    tx.put(id, &SignInCodeRecord { used: true, ..SignInCodeRecord::clone(&code) });
    let SignInCodeRecord { acts_for, proof, read_only, purpose, .. } = SignInCodeRecord::clone(&code);
    let mut sign_ins = sign_ins(tx, &acts_for)?;
    let expires_ms = match purpose {
        SignInPurpose::Console => {
            sign_ins.live.push(id.clone());
            if sign_ins.live.len() > CONSOLES_MAX {
                let oldest = sign_ins.live[0].clone();
                end(tx, &mut sign_ins, &oldest)?;
            }
            Some(console_until)
        }
        SignInPurpose::Tools { .. } => {
            add_tools(tx, &mut sign_ins, id, &proof)?;
            None
        }
    };
    tx.put(&acts_for.key(), &sign_ins);
    let console = ConsoleRecord {
        secret: SecretHash::of(&secret),
        acts_for,
        proof,
        read_only,
        purpose,
        created_ms: tx.ctx.now_ms,
        expires_ms,
        last_used_ms: None,
        revoked: false,
    };
    tx.put(id, &console);
    if team.is_some() {
        history::append(tx, history::sign_in_event(caller.actor().ok().as_ref(), read_only, purpose));
    }
    let caller = show_caller(team.as_deref(), &caller, read_only, expires_ms, id);
    let reply =
        v1::SignInResponse { credential: String::new(), expires_at: expires_ms.map(timestamp), caller: Some(caller) };
    call.record_reply(tx, &reply);
    Ok(v1::SignInResponse { credential, ..reply })
}

/// Adds a tool credential to the list of those that are not revoked, and drops those of earlier lives from it.
fn add_tools(tx: &mut Tx<'_>, sign_ins: &mut SignInsRecord, id: &str, proof: &SecretHash) -> Result<(), RuleError> {
    tx.want::<ConsoleRecord>(sign_ins.tools.iter().cloned())?;
    for former in sign_ins.tools.clone() {
        if tx.read::<ConsoleRecord>(&former)?.is_none_or(|console| console.proof != *proof) {
            end(tx, sign_ins, &former)?;
        }
    }
    if sign_ins.tools.len() >= TOOLS_MAX {
        let text = format!(
            "The member has {TOOLS_MAX} tool credentials already. `teamwire access list` shows them, and `teamwire access \
             revoke ID` revokes one that no program uses."
        );
        return Err(Refusal::new(Reason::QuotaExceeded, text).into());
    }
    sign_ins.tools.push(id.to_owned());
    Ok(())
}

fn check_code(tx: &Tx<'_>, code: &SignInCodeRecord) -> Result<(), Refusal> {
    let (reason, what) = match code {
        code if code.used => (Reason::SignInCodeUsed, "was used before"),
        code if code.expires_ms <= tx.ctx.now_ms => (Reason::CredentialExpired, "has expired"),
        _ => return Ok(()),
    };
    Err(Refusal::new(reason, format!("The code {what}. Run `teamwire console` again.")))
}

/// Returns who signs in, and until when a console credential is valid.
fn who_signs_in(
    tx: &mut Tx<'_>,
    team: Option<&Arc<TeamRecord>>,
    code: &SignInCodeRecord,
) -> Result<(Principal, u64), RuleError> {
    let expires_ms = tx.ctx.now_ms + ms(CONSOLE_TTL);
    if code.acts_for == ActsFor::Operator {
        let is_current = tx.ctx.is_operator(&code.proof);
        return if is_current { Ok((Principal::Operator, expires_ms)) } else { Err(identity::invalid().into()) };
    }
    let team = team.ok_or_else(identity::invalid)?;
    let caller = identity::acts_for(tx, team, &code.acts_for, &code.proof, Admit::Stopping)?;
    let observed_until = match &code.acts_for {
        ActsFor::Observer(id) => tx.read::<ObserverRecord>(id)?.map(|observer| observer.expires_ms),
        _ => None,
    };
    Ok((caller, observed_until.map_or(expires_ms, |until| until.min(expires_ms))))
}

/// Revokes a console credential, and takes it off the list of those that are not. The caller puts the list.
pub(super) fn end(tx: &mut Tx<'_>, sign_ins: &mut SignInsRecord, id: &str) -> Result<(), RuleError> {
    if let Some(console) = tx.read::<ConsoleRecord>(id)? {
        tx.put(id, &ConsoleRecord { revoked: true, ..ConsoleRecord::clone(&console) });
    }
    sign_ins.live.retain(|live| live != id);
    sign_ins.tools.retain(|live| live != id);
    sign_ins.revoked.push(id.to_owned());
    if sign_ins.revoked.len() > CONSOLES_MAX {
        tx.delete::<ConsoleRecord>(&sign_ins.revoked.remove(0));
    }
    Ok(())
}

/// Says what the caller may do.
pub fn get_caller(tx: &mut Tx<'_>, who: &CallerCredentials) -> Result<v1::Caller, RuleError> {
    let (expires_ms, id) = match &who.credential {
        Credential::Console { id, .. } => {
            (tx.read::<ConsoleRecord>(id)?.and_then(|console| console.expires_ms), id.as_str())
        }
        Credential::Observer { id, .. } => {
            (tx.read::<ObserverRecord>(id)?.map(|observer| observer.expires_ms), id.as_str())
        }
        _ => (None, ""),
    };
    if let Credential::Operator { .. } | Credential::Console { team: None, .. } = &who.credential {
        let read_only = identity::operator_reads_only(tx, who)?;
        return Ok(show_caller(None, &Principal::Operator, read_only, expires_ms, id));
    }
    let identity::Authenticated { team, caller, read_only } = identity::authenticate(tx, who, "", Admit::Stopping)?;
    let id = match &who.credential {
        Credential::Member { .. } => member::id(&who.hash),
        _ => id.to_owned(),
    };
    Ok(show_caller(Some(&team), &caller, read_only, expires_ms, &id))
}

/// Shows a caller. `grpc/` adds the coordinator's version.
fn show_caller(
    team: Option<&TeamRecord>,
    caller: &Principal,
    read_only: bool,
    expires_ms: Option<u64>,
    credential_id: &str,
) -> v1::Caller {
    let is_host = |name| team.and_then(|team| team.member(name)).is_some_and(|member| member.is_host);
    let (kind, member, is_lead) = match caller {
        Principal::Operator => (CallerKind::Operator, String::new(), false),
        Principal::Observer => (CallerKind::Observer, String::new(), false),
        Principal::Member { name, .. } if is_host(name) => (CallerKind::Host, name.to_string(), false),
        Principal::Member { name, lead } => (CallerKind::Member, name.to_string(), *lead),
    };
    v1::Caller {
        kind: kind.into(),
        member,
        is_lead,
        team: team.map_or_else(String::new, |team| team.name.to_string()),
        read_only: read_only || *caller == Principal::Observer,
        expires_at: expires_ms.map(timestamp),
        server_version: String::new(),
        credential_id: credential_id.to_owned(),
    }
}
