//! Inviting: join tokens for members, credentials for observers.

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    name::Name,
    v1::{self, TeamEventKind},
};

use crate::domain::{
    fields::ttl,
    history::{self, team_event},
    identity::{self, Admit, CallerCredentials},
    records::{JoinTokenRecord, ObserverRecord},
    secret::SecretHash,
    tags,
    time::timestamp,
    tx::{RuleError, Tx},
};

/// Issues a join token.
pub fn invite(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::InviteRequest,
) -> Result<v1::InviteResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.lead_only("invite")?;
    let member = match request.member.as_str() {
        "" => None,
        name => Some(Name::parse_member(name, "member")?),
    };
    let uses = request.uses_max.max(1);
    if uses > 1_000 {
        return Err(Refusal::new(Reason::InvalidField, "uses_max must be between 1 and 1,000.")
            .field("uses_max")
            .into());
    }
    let tags = tags::checked(&request.tags, "tags")?;
    if request.host && !tags.is_empty() {
        let text = "A host has no tags: its members get those of their profiles. Leave `tags` out.";
        return Err(Refusal::new(Reason::InvalidField, text).field("tags").into());
    }
    let ttl = ttl(request.ttl.as_ref(), tx.ctx.limits.join_token_ttl, 30)?;
    let expires_ms = tx.ctx.now_ms + ttl;
    let (id, secret) = (tx.new_secret()[..12].to_owned(), tx.new_secret());
    let token = JoinTokenRecord {
        secret: SecretHash::of(&secret),
        member: member.clone(),
        uses_left: uses,
        expires_ms,
        plan_mode_required: request.plan_mode_required,
        is_for_host: request.host,
        tags,
        order: None,
        created_ms: tx.ctx.now_ms,
        created_by: actor.clone(),
        last_used_ms: None,
        revoked: false,
    };
    tx.put(&id, &token);
    history::append(tx, team_event(TeamEventKind::Invited, &actor, member.as_ref().map_or("", Name::as_str)));
    let join_token = Credential::Join { team: team.name.clone(), id, secret }.reveal();
    // `grpc/` adds the join string, since a rule does not know any addresses.
    Ok(v1::InviteResponse { join_token, expires_at: Some(timestamp(expires_ms)), join_string: String::new() })
}

/// Issues an observer's credential.
pub fn create_observer(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CreateObserverRequest,
) -> Result<v1::CreateObserverResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.lead_only("let others observe the team")?;
    let expires_ms = tx.ctx.now_ms + ttl(request.ttl.as_ref(), tx.ctx.limits.observer_ttl, 365)?;
    let (id, secret) = (tx.new_secret()[..12].to_owned(), tx.new_secret());
    let observer = ObserverRecord {
        secret: SecretHash::of(&secret),
        expires_ms,
        created_ms: tx.ctx.now_ms,
        created_by: actor.clone(),
        last_used_ms: None,
        revoked: false,
    };
    tx.put(&id, &observer);
    history::append(tx, team_event(TeamEventKind::ObserverCreated, &actor, ""));
    let credential = Credential::Observer { team: team.name.clone(), id, secret }.reveal();
    Ok(v1::CreateObserverResponse { credential, expires_at: Some(timestamp(expires_ms)) })
}
