//! Budgets: how much a member's programs, and those of the whole team, may use.
//!
//! The coordinator adds up what runners report, and answers each report with the budgets and what was used of them. The
//! member's runner is what stops the program, and asks the lead for more with a permission request for the tool
//! [`TOOL`]. An approval raises every budget that is used up.

use std::sync::Arc;

use teamwire_proto::{Reason, Refusal, name::Name, v1};

use super::{
    identity::{self, Admit, CallerCredentials},
    records::{ActivityRecord, Bound, TeamSpendingRecord},
    topics::Topic,
    tx::{RuleError, Tx},
};

/// The tool of the permission requests that ask for more.
pub const TOOL: &str = "budget";

/// Sets, raises or removes a budget of a member or, without one, of the team. Returns the budget and what was used of it.
pub fn set(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::SetBudgetRequest,
) -> Result<v1::BudgetUse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    caller.lead_only("set a budget")?;
    let given = Bound::from(request.budget.unwrap_or_default());
    if !request.member.is_empty() {
        let name = team.resolve(&request.member, "member")?.name.clone();
        let before = activity(tx, &name)?;
        let bound = bound(request.add, before.budget.unwrap_or_default(), given)?;
        let record = ActivityRecord { budget: bound.some(), ..before };
        tx.put(name.folded(), &record);
        tx.notify(Topic::Activity(name.folded()));
        return Ok(shown(false, bound, record.total()));
    }
    let before = tx.read::<TeamSpendingRecord>("")?;
    let used = match &before {
        Some(before) => before.used,
        None => {
            let names = team.members.iter().filter(|member| !member.is_host).map(|member| member.name.folded());
            tx.want::<ActivityRecord>(names.clone().map(str::to_owned))?;
            let mut sum = v1::Usage::default();
            for name in names {
                let total = tx.read::<ActivityRecord>(name)?.map_or_else(v1::Usage::default, |record| record.total());
                sum = sum.plus(total);
            }
            sum
        }
    };
    let before = before.map_or_else(Bound::default, |before| before.budget);
    let bound = bound(request.add, before, given)?;
    match bound.some() {
        Some(budget) => tx.put("", &TeamSpendingRecord { budget, used }),
        None => tx.delete::<TeamSpendingRecord>(""),
    }
    tx.notify(Topic::Team);
    Ok(shown(true, bound, used))
}

/// Adds what a member has used to what the team has used. Returns the budgets that bind the member.
pub fn spend(tx: &mut Tx<'_>, member: &ActivityRecord, used: v1::Usage) -> Result<Vec<v1::BudgetUse>, RuleError> {
    let own = member.budget.map(|budget| shown(false, budget, member.total()));
    let of_team = tx.read::<TeamSpendingRecord>("")?.map(|before| {
        let record = TeamSpendingRecord { used: before.used.plus(used), ..*before };
        if !used.is_none() {
            tx.put("", &record);
        }
        shown(true, record.budget, record.used)
    });
    Ok(own.into_iter().chain(of_team).collect())
}

/// Raises the budgets of a member and its team that are used up. `by`: by how much; empty: each by its own amount, until it
/// suffices.
pub fn raise(tx: &mut Tx<'_>, name: &Name, by: Option<v1::Budget>) -> Result<(), RuleError> {
    let by = by.map(Bound::from).and_then(Bound::some);
    let member = activity(tx, name)?;
    if let Some(budget) = member.budget.filter(|budget| budget.is_spent(member.total())) {
        let raised = by.map_or_else(|| budget.above(member.total()), |by| budget.raised(by));
        let record = ActivityRecord { budget: Some(raised), ..member };
        tx.put(name.folded(), &record);
    }
    let of_team = tx.read::<TeamSpendingRecord>("")?.filter(|record| record.budget.is_spent(record.used));
    if let Some(record) = of_team {
        let budget = by.map_or_else(|| record.budget.above(record.used), |by| record.budget.raised(by));
        tx.put("", &TeamSpendingRecord { budget, ..*record });
    }
    Ok(())
}

/// Returns the budget of a team and what was used of it. `None` if it has none.
pub fn of_team(record: Option<&Arc<TeamSpendingRecord>>) -> Option<v1::BudgetUse> {
    record.map(|record| shown(true, record.budget, record.used))
}

/// Returns a budget as it is set, or raised if `add` is true.
fn bound(add: bool, before: Bound, given: Bound) -> Result<Bound, Refusal> {
    if !add {
        return Ok(given);
    }
    let raised = before.raised(given);
    if raised == before {
        let text = "There is no budget of this kind to add to. Set one instead.";
        return Err(Refusal::new(Reason::InvalidField, text).field("budget"));
    }
    Ok(raised)
}

fn activity(tx: &mut Tx<'_>, name: &Name) -> Result<ActivityRecord, RuleError> {
    Ok(tx.read::<ActivityRecord>(name.folded())?.as_deref().cloned().unwrap_or_default())
}

fn shown(of_team: bool, budget: Bound, used: v1::Usage) -> v1::BudgetUse {
    v1::BudgetUse { of_team, budget: Some(budget.into()), cost_usd_micros: used.cost_usd_micros, tokens: used.tokens() }
}
