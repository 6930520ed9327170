//! `approve --always`: a permission rule for what a request asks for.

use teamwire_client::v1;
use teamwire_proto::permission_rule;

use crate::{
    context::{Caller, refuse_within_runner},
    failure::Failure,
    show,
};

/// Returns the rule that permits exactly what a request asks for: for the member that asks, or for every member.
pub(super) fn rule(request: &v1::Request, everyone: bool) -> Result<v1::PermissionRule, String> {
    let member = if everyone { String::new() } else { request.member.clone() };
    let rule = permission_rule::exact(&request.tool, request.tool_use.as_ref())?;
    Ok(v1::PermissionRule { member, ..rule })
}

/// Fails within a program that a runner has started: an agent must not permit itself anything.
pub(super) fn refuse_agents() -> Result<(), Failure> {
    refuse_within_runner(
        "An agent cannot add permission rules. A person must add them, at a terminal outside the agent.",
    )
}

/// Adds a rule. Returns it as it is stored.
pub(super) async fn add(caller: &Caller, rule: v1::PermissionRule) -> Result<v1::AddPermissionRuleResponse, Failure> {
    refuse_agents()?;
    let request = v1::AddPermissionRuleRequest { rule: Some(rule), ..v1::AddPermissionRuleRequest::default() };
    Ok(caller.client.add_permission_rule(request).await?)
}

/// Says that a rule is stored, and how to revoke it.
pub(super) fn say_added(added: &v1::AddPermissionRuleResponse) {
    let Some(rule) = &added.rule else { return };
    let had = if added.existed { "There is already rule" } else { "Added rule" };
    anstream::println!(
        "{had} {}: {} To revoke it: `teamwire permission revoke {}`.",
        rule.id,
        show::rule_sentence(rule),
        rule.id
    );
}
