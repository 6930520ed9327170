//! The lives of members: how one begins, and what keeps it going.

use std::collections::HashSet;

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, MemberState},
};

use super::{
    history::{self, member_event},
    identity::CallerCredentials,
    records::{Attributes, EndCause, Life, MemberRecord, TeamRecord},
    secret::{SecretHash, derive},
    tx::{RuleError, Tx},
};

/// How many secrets of former lives are kept.
const FORMER_CREDENTIALS_MAX: usize = 4;

/// Returns the secret of a new credential. With an idempotency key it is derived, so that a repeated call gets the same
/// one.
pub(super) fn new_credential(tx: &mut Tx<'_>, who: &CallerCredentials, key: Option<&str>) -> String {
    match key {
        Some(key) => derive(who.credential.secret(), key),
        None => tx.new_secret(),
    }
}

/// A life that is about to start.
pub(super) struct NewLife<'a> {
    pub(super) name: Name,
    pub(super) secret: &'a str,
    pub(super) attributes: Attributes,
    pub(super) plan_mode_required: bool,
    pub(super) detached: bool,
}

impl NewLife<'_> {
    /// Makes the roster's entry of this life, which follows `before`.
    pub(super) fn begin(self, before: Option<&MemberRecord>, now_ms: u64) -> MemberRecord {
        // An order has reserved the name and begun this life, with a secret that no client has.
        let is_reserved = before.is_some_and(|before| before.life == Life::Spawning);
        let former = before.map_or_else(Vec::new, |before| {
            let mut former = if is_reserved { Vec::new() } else { vec![before.credential] };
            former.extend(before.former_credentials.iter().take(FORMER_CREDENTIALS_MAX - former.len()));
            former
        });
        MemberRecord {
            name: before.map_or(self.name, |before| before.name.clone()),
            incarnation: before.map_or(1, |before| before.incarnation + u64::from(!is_reserved)),
            life: Life::Live,
            detached: self.detached,
            joined_ms: now_ms,
            since_ms: now_ms,
            credential: SecretHash::of(self.secret),
            revoked: false,
            former_credentials: former,
            attributes: self.attributes,
            plan_mode_required: self.plan_mode_required,
            plan_approved: false,
            pending_shutdown: None,
            pending_plan: None,
            pending_permissions: Vec::new(),
            pending_reviews: before.map_or_else(Vec::new, |before| before.pending_reviews.clone()),
            is_host: false,
            ordered: None,
            pending_order: None,
            notice_level: before.map(|before| before.notice_level).unwrap_or_default(),
            crashes_ms: before.map_or_else(Vec::new, |before| before.crashes_ms.clone()),
            last_crash: before.and_then(|before| before.last_crash.clone()),
            lives: before.map(|before| before.lives.clone()).unwrap_or_default(),
            tags: before.map(|before| before.tags.clone()).unwrap_or_default(),
        }
    }
}

/// Renews the leases of members. Those that counted as lost are live again.
pub fn renew(tx: &mut Tx<'_>, names: &[Name]) -> Result<(), RuleError> {
    let Some(team) = tx.read::<TeamRecord>("")? else { return Ok(()) };
    let names: HashSet<&Name> = names.iter().collect();
    let mut returned = Vec::new();
    for (n, member) in team.members.iter().enumerate() {
        if member.revoked || !names.contains(&member.name) {
            continue;
        }
        match member.life {
            Life::Exited { .. } | Life::Spawning => continue,
            Life::Stopping { cause: EndCause::Forced { .. }, .. } => continue,
            // Its return waits until there is room for the entry in the history.
            Life::Lost if tx.ctx.store_is_full => continue,
            Life::Lost => returned.push(n),
            Life::Live | Life::Stopping { .. } => {}
        }
        tx.lease(member.name.folded(), tx.ctx.limits.lease_ttl);
    }
    if returned.is_empty() {
        return Ok(());
    }
    let mut changed = TeamRecord::clone(&team);
    for n in returned {
        let Some(member) = changed.members.get_mut(n) else { continue };
        member.enter(Life::Live, tx.ctx.now_ms);
        let event = member_event(&member.name, MemberState::Active, member.incarnation, "It gave a heartbeat again.");
        history::append(tx, event);
    }
    tx.put("", &changed);
    Ok(())
}

/// Checks labels in this field: up to 32 pairs.
pub(super) fn check_labels<'a>(
    labels: impl ExactSizeIterator<Item = (&'a String, &'a String)>,
    field: &str,
) -> Result<(), Refusal> {
    let is_sound = |text: &str, max: usize| text.chars().count() <= max && !text.chars().any(char::is_control);
    let count = labels.len();
    let are_sound = labels.into_iter().all(|(key, value)| !key.is_empty() && is_sound(key, 63) && is_sound(value, 255));
    if count <= 32 && are_sound {
        return Ok(());
    }
    let text = format!("{field} takes up to 32 pairs, with keys of 1 to 63 and values of up to 255 characters.");
    Err(Refusal::new(Reason::InvalidField, text).field(field.split('.').next().unwrap_or(field)))
}

/// Checks the attributes that a member gives itself.
pub(super) fn attributes(told: &v1::MemberAttributes) -> Result<Attributes, Refusal> {
    let bounds = [
        ("agent_type", &told.agent_type, 100),
        ("model", &told.model, 100),
        ("host", &told.host, 255),
        ("color", &told.color, 32),
    ];
    let refuse = |what: &str| Refusal::new(Reason::InvalidField, what.to_owned()).field("attributes");
    for (field, text, max) in bounds {
        if text.chars().count() > max || text.chars().any(char::is_control) {
            return Err(refuse(&format!(
                "attributes.{field} takes up to {max} characters, without control characters."
            )));
        }
    }
    check_labels(told.labels.iter(), "attributes.labels")?;
    Ok(Attributes {
        agent_type: told.agent_type.clone(),
        model: told.model.clone(),
        host: told.host.clone(),
        color: told.color.clone(),
        labels: told.labels.clone().into_iter().collect(),
    })
}
