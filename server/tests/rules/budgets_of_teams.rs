//! Budgets: who sets them, what counts, and what an approval raises.

use teamwire_proto::{Reason, v1};
use teamwire_server::domain::price::Prices;

use crate::{calls::RuleCalls as _, team::*};

fn usage(input_tokens: u64, cost_usd_micros: u64) -> v1::ReportActivityRequest {
    let usage = v1::Usage { turns: 1, input_tokens, cost_usd_micros, ..Default::default() };
    v1::ReportActivityRequest { usage: Some(usage), ..Default::default() }
}

fn set(member: &str, cost_usd_micros: u64, tokens: u64, add: bool) -> v1::SetBudgetRequest {
    let budget = Some(v1::Budget { cost_usd_micros, tokens });
    v1::SetBudgetRequest { team: "alpha".to_owned(), member: member.to_owned(), budget, add }
}

/// Returns what a report learns of the budgets: whether it is the team's, the bounds, and what was used.
async fn report(t: &Team, member: &Member, request: v1::ReportActivityRequest) -> Vec<(bool, (u64, u64), (u64, u64))> {
    let reply = t.coordinator.report_activity(&member.who, &request).await.unwrap();
    let shown = |budget: v1::BudgetUse| {
        let bound = budget.budget.unwrap();
        (budget.of_team, (bound.cost_usd_micros, bound.tokens), (budget.cost_usd_micros, budget.tokens))
    };
    reply.budgets.into_iter().map(shown).collect()
}

#[tokio::test]
async fn only_the_lead_and_the_operator_set_budgets() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    for who in [&ann.who, &bob.who] {
        let refused = t.coordinator.set_budget(who, &set("ann", 0, 100, false)).await.unwrap_err();
        assert_eq!(refused.reason, Reason::LeadOnly);
    }
    t.coordinator.set_budget(&t.operator, &set("ann", 0, 100, false)).await.unwrap();
    let raised = t.coordinator.set_budget(&t.lead.who, &set("ann", 0, 50, true)).await.unwrap();
    assert_eq!(raised.budget.unwrap().tokens, 150);
    let wrong = t.coordinator.set_budget(&t.lead.who, &set("ann", 5, 0, true)).await.unwrap_err();
    assert_eq!(wrong.reason, Reason::InvalidField, "there is no budget in US dollars to add to");
    let wrong = t.coordinator.set_budget(&t.lead.who, &set("", 5, 0, true)).await.unwrap_err();
    assert_eq!(wrong.reason, Reason::InvalidField);
    let unknown = t.coordinator.set_budget(&t.lead.who, &set("nobody", 5, 0, false)).await.unwrap_err();
    assert_eq!(unknown.reason, Reason::AgentNotFound);
}

#[tokio::test]
async fn a_members_budget_counts_all_lives_and_the_teams_counts_all_members() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    assert_eq!(report(&t, &ann, usage(70, 7)).await, []);
    t.coordinator.set_budget(&t.lead.who, &set("ann", 0, 100, false)).await.unwrap();
    // What was used before counts, too.
    let of_team = t.coordinator.set_budget(&t.lead.who, &set("", 1_000, 0, false)).await.unwrap();
    assert_eq!((of_team.of_team, of_team.cost_usd_micros, of_team.tokens), (true, 7, 70));
    let ann = t.rejoin(&ann).await;
    assert_eq!(report(&t, &ann, usage(40, 5)).await, [(false, (0, 100), (12, 110)), (true, (1_000, 0), (12, 110))]);
    // A report that is repeated, or lower, counts nothing.
    assert_eq!(report(&t, &ann, usage(40, 5)).await.last(), Some(&(true, (1_000, 0), (12, 110))));
    assert_eq!(report(&t, &bob, usage(1, 2)).await, [(true, (1_000, 0), (14, 111))]);
    let team = t.coordinator.get_team(&t.lead.who, "").await.unwrap();
    assert_eq!(team.budget.unwrap().cost_usd_micros, 14);
    let members = t.coordinator.list_members(&t.lead.who, &Default::default()).await.unwrap().members;
    let budgets: Vec<_> =
        members.iter().filter_map(|member| Some((member.name.as_str(), member.budget?.tokens))).collect();
    assert_eq!(budgets, [("ann", 100)]);
    t.coordinator.set_budget(&t.lead.who, &set("", 0, 0, false)).await.unwrap();
    assert_eq!(report(&t, &bob, usage(1, 2)).await, []);
}

#[tokio::test]
async fn the_leads_approval_raises_what_is_used_up() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    t.coordinator.set_budget(&t.lead.who, &set("ann", 0, 100, false)).await.unwrap();
    t.coordinator.set_budget(&t.lead.who, &set("", 0, 5_000, false)).await.unwrap();
    report(&t, &ann, usage(120, 0)).await;
    let ask = |approver: &str| {
        let mut request = permission(approver);
        if let Some(v1::send_request::Body::PermissionRequest(body)) = &mut request.body {
            body.tool = "budget".to_owned();
        }
        request
    };
    let bound = async || report(&t, &ann, usage(120, 0)).await.iter().map(|(_, bound, _)| bound.1).collect::<Vec<_>>();
    // A teammate that was named as the approver raises nothing.
    let request = t.ask(&ann, ask("bob")).await;
    t.send(&bob, allow(&request, true, "")).await;
    assert_eq!(bound().await, [100, 5_000]);
    let request = t.ask(&ann, ask("")).await;
    t.send(&t.lead, allow(&request, true, "")).await;
    assert_eq!(bound().await, [200, 5_000], "by itself once more, and only what is used up");
    report(&t, &ann, usage(220, 0)).await;
    let request = t.ask(&ann, ask("")).await;
    let mut answer = allow(&request, true, "");
    if let Some(v1::send_request::Body::PermissionResponse(body)) = &mut answer.body {
        body.add_budget = Some(v1::Budget { tokens: 7, cost_usd_micros: 9 });
    }
    t.send(&t.lead, answer).await;
    let bounds = report(&t, &ann, usage(220, 0)).await;
    assert_eq!(bounds[0].1, (0, 207), "there is no bound in US dollars to raise");
    let request = t.ask(&ann, ask("")).await;
    t.send(&t.lead, allow(&request, false, "enough")).await;
    assert_eq!(bound().await, [207, 5_000]);
}

#[tokio::test]
async fn tokens_cost_what_the_operator_says_if_the_program_reports_no_cost() {
    let prices = ["gpt-5.2* 2 1 8", "told 1 1 1"].map(str::to_owned);
    let t = Team::with_limits(|limits| limits.prices = Prices::parse(&prices).unwrap()).await;
    let [ann, bob] = [t.join("ann").await, t.join("bob").await];
    t.coordinator.set_budget(&t.lead.who, &set("", 10_000_000, 0, false)).await.unwrap();
    assert_eq!(report(&t, &ann, usage(1_000_000, 0)).await, [(true, (10_000_000, 0), (0, 1_000_000))]);
    // The model may become known after the tokens.
    let program = Some(v1::ReportedProgram { model: "gpt-5.2-codex".to_owned(), ..Default::default() });
    let known = v1::ReportActivityRequest { program, ..Default::default() };
    assert_eq!(report(&t, &ann, known).await, [(true, (10_000_000, 0), (2_000_000, 1_000_000))]);
    assert_eq!(report(&t, &ann, usage(2_000_000, 0)).await, [(true, (10_000_000, 0), (4_000_000, 2_000_000))]);
    assert_eq!(report(&t, &bob, usage(5, 6)).await, [(true, (10_000_000, 0), (4_000_006, 2_000_005))]);
    // Another model prices only what comes from then on.
    let program = Some(v1::ReportedProgram { model: "told".to_owned(), ..Default::default() });
    let cheaper = v1::ReportActivityRequest { program, ..usage(2_100_000, 0) };
    assert_eq!(report(&t, &ann, cheaper).await, [(true, (10_000_000, 0), (4_100_006, 2_100_005))]);
    let members = t.coordinator.list_members(&t.lead.who, &Default::default()).await.unwrap().members;
    let program = members.iter().find(|member| member.name == "ann").unwrap().program.clone().unwrap();
    assert_eq!(program.model, "told");
}
