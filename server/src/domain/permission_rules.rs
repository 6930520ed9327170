//! Permission rules: what members may do without a permission request. A person adds each of them; none is learned.

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    permission_rule::{self, check_use, use_text},
    v1::{self, PermissionEventKind, history_entry::Event},
    word,
};

use super::{
    actor::Actor,
    history,
    identity::{self, Admit, CallerCredentials},
    records::{PermissionRulesRecord, RuleRecord},
    tx::{RuleError, Tx},
};

/// How many permission rules a team may have.
pub const RULES_MAX: usize = 200;

/// How many bytes of what a rule was used for are recorded.
const USE_BYTES_MAX: usize = 1_000;

/// Adds a rule, unless the team has the same one.
pub fn add(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::AddPermissionRuleRequest,
) -> Result<v1::AddPermissionRuleResponse, RuleError> {
    let (_, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.lead_only("add permission rules")?;
    let rule = permission_rule::check(request.rule.as_ref().unwrap_or(&v1::PermissionRule::default()))?;
    let mut record = PermissionRulesRecord::clone(&*rules(tx)?);
    let added = RuleRecord::new(record.last_id + 1, &rule, actor.clone(), tx.ctx.now_ms);
    if let Some(same) = record.rules.iter().find(|rule| rule.is_same(&added)) {
        return Ok(v1::AddPermissionRuleResponse { rule: Some(same.show()), existed: true });
    }
    if record.rules.len() >= RULES_MAX {
        let text = format!("The team has {RULES_MAX} permission rules, which is the limit. Revoke one first.");
        return Err(Refusal::new(Reason::QuotaExceeded, text).into());
    }
    let shown = added.show();
    record.last_id = added.id;
    record.rules.push(added);
    tx.put("", &record);
    note(tx, PermissionEventKind::Added, &actor, shown.clone(), String::new());
    Ok(v1::AddPermissionRuleResponse { rule: Some(shown), existed: false })
}

/// Returns the team's rules.
pub fn list(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ListPermissionRulesRequest,
) -> Result<v1::ListPermissionRulesResponse, RuleError> {
    identity::call(tx, who, &request.team, Admit::Stopping)?;
    let rules = rules(tx)?.rules.iter().map(RuleRecord::show).collect();
    Ok(v1::ListPermissionRulesResponse { rules })
}

/// Revokes a rule. Returns it, if there was one.
pub fn revoke(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::RevokePermissionRuleRequest,
) -> Result<v1::RevokePermissionRuleResponse, RuleError> {
    let (_, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    tx.needs_no_room();
    let actor = caller.lead_only("revoke permission rules")?;
    let revoked = remove(tx, &actor, |rule| rule.id == request.rule_id)?;
    Ok(v1::RevokePermissionRuleResponse { rule: revoked.into_iter().next() })
}

/// Revokes the rules for a member that is removed from the team, so that a later member of its name does not have them.
pub(super) fn forget_member(tx: &mut Tx<'_>, name: &Name) -> Result<(), RuleError> {
    remove(tx, &Actor::Coordinator, |rule| rule.member.as_ref() == Some(name)).map(drop)
}

/// Finds a rule that permits what the caller's program asks for, and records its use.
pub fn use_rule(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::UsePermissionRuleRequest,
) -> Result<v1::UsePermissionRuleResponse, RuleError> {
    let (_, name) = identity::member_process(tx, who, Admit::Live)?;
    let asked = request.tool_use.as_ref().ok_or_else(|| {
        Refusal::new(Reason::InvalidField, "tool_use is missing. Say what the tool would do.").field("tool_use")
    })?;
    check_use(asked)?;
    let rules = rules(tx)?;
    let shown = rules.rules.iter().map(RuleRecord::show);
    let found = shown.into_iter().find(|rule| permission_rule::permits(rule, name.as_str(), &request.tool, asked));
    if let Some(rule) = &found {
        let detail = word::cut_middle(&use_text(asked), USE_BYTES_MAX);
        note(tx, PermissionEventKind::Used, &Actor::Member(name), rule.clone(), detail);
    }
    Ok(v1::UsePermissionRuleResponse { rule: found })
}

fn rules(tx: &mut Tx<'_>) -> Result<Arc<PermissionRulesRecord>, RuleError> {
    Ok(tx.read::<PermissionRulesRecord>("")?.unwrap_or_default())
}

/// Removes rules, and records that. Returns them.
fn remove(
    tx: &mut Tx<'_>,
    actor: &Actor,
    is_meant: impl Fn(&RuleRecord) -> bool,
) -> Result<Vec<v1::PermissionRule>, RuleError> {
    let mut record = PermissionRulesRecord::clone(&*rules(tx)?);
    let removed: Vec<v1::PermissionRule> =
        record.rules.extract_if(.., |rule| is_meant(rule)).map(|rule| rule.show()).collect();
    if !removed.is_empty() {
        tx.put("", &record);
    }
    for rule in &removed {
        note(tx, PermissionEventKind::Revoked, actor, rule.clone(), String::new());
    }
    Ok(removed)
}

fn note(tx: &mut Tx<'_>, kind: PermissionEventKind, actor: &Actor, rule: v1::PermissionRule, detail: String) {
    let event = v1::PermissionEvent { kind: kind.into(), actor: Some(actor.into()), rule: Some(rule), detail };
    history::append(tx, Event::Permission(event));
}
