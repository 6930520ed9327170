//! `teamwire budget`: shows, sets and raises budgets.

use clap::Args;
use teamwire_client::v1;
use teamwire_proto::word;

use super::{Output, amount::amount};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::Failure,
    show,
};

/// Show, set or raise how much a member or the team may use
///
/// A budget is an amount of US dollars, of tokens, or both, for all lives of a member, or for all members of the team
/// together. At 80 %, the lead and the agent are warned. At 100 %, the runner ends the agent's turn, the member is
/// paused, and the lead gets a permission request: `teamwire approve REQUEST_ID --add "5 USD"` lets it go on. Until then
/// its messages wait. The agent may exceed the budget by one call of its model (Claude Code, Codex), or by one turn
/// (Gemini CLI, opencode). Costs are what the program reports. Codex and Gemini CLI report tokens only, so give them a
/// budget of tokens. Without --set, --add and --none, the command shows budgets and what was used of them.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire budget\n    teamwire budget backend --set \"5 USD\"\n    teamwire budget backend --add \"200k tokens\"\n    teamwire budget --whole-team --set \"20 USD\""
)]
pub(super) struct Budget {
    /// The member [default: show all]
    #[arg(value_name = "MEMBER")]
    member: Option<String>,
    /// The budget of the whole team
    #[arg(long, conflicts_with = "member")]
    whole_team: bool,
    /// Set the budget to this amount, such as "5 USD", "200k tokens", or "5 USD, 1M tokens"
    #[arg(long, value_name = "AMOUNT", value_parser = amount, group = "change")]
    set: Option<v1::Budget>,
    /// Raise the budget by this amount
    #[arg(long, value_name = "AMOUNT", value_parser = amount, group = "change")]
    add: Option<v1::Budget>,
    /// Remove the budget
    #[arg(long, group = "change")]
    none: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Budget {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let change = match (self.set, self.add, self.none) {
            (Some(budget), ..) => Some((budget, false)),
            (_, Some(budget), _) => Some((budget, true)),
            (.., true) => Some((v1::Budget::default(), false)),
            _ => None,
        };
        let Some((budget, add)) = change else { return self.show(&caller).await };
        if self.member.is_none() && !self.whole_team {
            return Err(Failure::usage("Name the member, or give --whole-team for the budget of the whole team."));
        }
        let member = self.member.clone().unwrap_or_default();
        let request = v1::SetBudgetRequest { team: String::new(), member, budget: Some(budget), add };
        let set = caller.client.set_budget(request).await?.r#use.ok_or_else(show::incomplete)?;
        let whose = self.member.as_deref().unwrap_or("the team");
        if self.output.json {
            show::line(&show::json("BudgetUse", &set));
        } else if set.budget.unwrap_or_default() == v1::Budget::default() {
            anstream::println!(
                "{whose} has no budget. Used so far: {}.",
                word::amount(set.cost_usd_micros, set.tokens)
            );
        } else {
            let used = word::amount(set.cost_usd_micros, set.tokens);
            anstream::println!("{whose}: {}; used so far: {used}.", word::budget(&set));
        }
        Ok(())
    }

    /// Shows the budget of the team, and those of all members or of one.
    async fn show(&self, caller: &Caller) -> Result<(), Failure> {
        let team = caller.client.get_team(v1::GetTeamRequest::default()).await?.team.unwrap_or_default();
        let members = match &self.member {
            Some(name) => caller.find_member(name).await?.into_iter().collect(),
            None if self.whole_team => Vec::new(),
            None => caller.client.list_all_members(v1::ListMembersRequest::default(), usize::MAX).await?.members,
        };
        if members.is_empty()
            && let Some(name) = &self.member
        {
            return Err(Failure::usage(format!("There is no member {name}. `teamwire status` lists the members.")));
        }
        let of_members = members.iter().filter_map(|member| Some((member.name.as_str(), use_of(member)?)));
        let of_team = team.budget.filter(|_| self.member.is_none()).map(|budget| ("(team)", budget));
        let budgets: Vec<_> = of_team.into_iter().chain(of_members).collect();
        if self.output.json {
            for (name, budget) in budgets {
                let mut line = show::json("BudgetUse", &budget);
                line["member"] = if budget.of_team { "".into() } else { name.into() };
                show::line(&line);
            }
            return Ok(());
        }
        if budgets.is_empty() {
            anstream::eprintln!("There is no budget. To set one: `teamwire budget MEMBER --set \"5 USD\"`.");
            return Ok(());
        }
        let row = |(name, budget): &(&str, v1::BudgetUse)| {
            let bound = budget.budget.unwrap_or_default();
            let used = word::amount(budget.cost_usd_micros, budget.tokens);
            vec![(*name).to_owned(), word::amount(bound.cost_usd_micros, bound.tokens), used]
        };
        show::table(&["member", "budget", "used"], budgets.iter().map(row).collect());
        Ok(())
    }
}

/// Returns a member's budget and what it has used. `None` if it has none.
fn use_of(member: &v1::Member) -> Option<v1::BudgetUse> {
    let used = member.total_usage.unwrap_or_default();
    let (cost_usd_micros, tokens) = (used.cost_usd_micros, used.tokens());
    Some(v1::BudgetUse { of_team: false, budget: Some(member.budget?), cost_usd_micros, tokens })
}
