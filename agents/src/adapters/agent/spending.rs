//! Ends the program's turn once a budget is used up, asks the lead for more, and goes on when there is more.
//!
//! The coordinator counts, and answers each report of usage with the budgets. Between two reports, the runner adds what
//! the program has used since. While the member is paused, it gets no prompt, its messages wait, and a request to shut
//! down is approved by the runner, because the agent may not be asked.

use std::time::Duration;

use teamwire_client::{Client, message};
use teamwire_proto::{v1, word};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    Agent,
    protocol::{Decision, PermissionRequest},
};
use crate::{
    event::RunnerEvent,
    incarnation::{BudgetNews, Incarnation, is_urgent},
};

/// The key of the runner's own request for more, which is no key of a program.
pub(super) const KEY: &str = "\0budget";

/// The tool of a request for more.
const TOOL: &str = "budget";

/// How many percent of a budget are used when the lead and the agent are warned.
const WARNING_PERCENT: u64 = 80;

/// How often a paused member asks for its budgets: the lead may have raised them without an answer.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// How long prompts wait for the first news of the budgets.
const NEWS_DEADLINE: Duration = Duration::from_secs(5);

/// What the agent reads when it goes on.
const RESUMED: &str =
    "Your budget was used up, so your last turn was ended. The lead has raised the budget. Go on where you were.";

/// The budgets of the member and its team.
#[derive(Debug)]
pub(super) struct Spending {
    news: watch::Receiver<Option<BudgetNews>>,
    /// Until when prompts wait for the first news: a budget may be used up already.
    known_by: Instant,
    /// What the program has used in this life.
    used: v1::Usage,
    /// The budgets of which the lead was warned.
    warned: Vec<v1::BudgetUse>,
    paused: Option<Paused>,
}

/// A member whose budget is used up.
#[derive(Debug)]
struct Paused {
    /// Whether a turn was ended for it.
    has_ended_turn: bool,
    /// The lead has approved, and the budgets of after that are not known yet.
    is_approved: bool,
    check_at: Instant,
}

impl Spending {
    pub(super) fn new(mut news: watch::Receiver<Option<BudgetNews>>) -> Self {
        // They may have come before.
        news.mark_changed();
        let known_by = Instant::now() + NEWS_DEADLINE;
        Self { news, known_by, used: v1::Usage::default(), warned: Vec::new(), paused: None }
    }

    /// Returns whether the program gets no prompt, because a budget is used up.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Returns whether the program gets no prompt: a budget is used up, or may be.
    pub(super) fn keeps_prompts(&self) -> bool {
        self.is_paused() || self.waits_for_news()
    }

    fn waits_for_news(&self) -> bool {
        self.news.borrow().is_none() && Instant::now() < self.known_by
    }

    /// Records what the program has used in this life.
    pub(super) fn used(&mut self, used: v1::Usage) {
        self.used = used;
    }

    /// Waits until there are news of the budgets, or it is time to ask for them. Returns whether there are news.
    /// Cancel-safe.
    pub(super) async fn changed(&mut self) -> bool {
        let wake_at = match &self.paused {
            Some(paused) => Some(paused.check_at),
            None => Some(self.known_by).filter(|_| self.waits_for_news()),
        };
        tokio::select! {
            // The sender lives as long as the incarnation.
            _ = self.news.changed() => true,
            () = sleep_until(wake_at.unwrap_or(self.known_by)), if wake_at.is_some() => false,
        }
    }

    /// Returns the budgets with what was used of them by now.
    fn current(&self) -> Vec<v1::BudgetUse> {
        let news = self.news.borrow();
        let Some(news) = &*news else { return Vec::new() };
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let cost = since(self.used.cost_usd_micros, news.reported.cost_usd_micros);
        let tokens = since(self.used.tokens(), news.reported.tokens());
        let current = |budget: &v1::BudgetUse| v1::BudgetUse {
            cost_usd_micros: budget.cost_usd_micros + cost,
            tokens: budget.tokens + tokens,
            ..*budget
        };
        news.budgets.iter().map(current).collect()
    }

    /// Returns the budgets of which the lead must be warned now.
    fn warnings(&mut self, budgets: &[v1::BudgetUse]) -> Vec<v1::BudgetUse> {
        let is_same = |a: &v1::BudgetUse, b: &v1::BudgetUse| a.of_team == b.of_team && a.budget == b.budget;
        let is_due = |budget: &&v1::BudgetUse| (WARNING_PERCENT..100).contains(&percent(budget));
        let known = &self.warned;
        let due = budgets.iter().filter(is_due).filter(|budget| !known.iter().any(|known| is_same(known, budget)));
        let due: Vec<_> = due.copied().collect();
        self.warned.extend(&due);
        due
    }
}

impl Agent {
    /// Pauses the member if a budget is used up, and resumes it if none is any longer. `has_news`: the coordinator has
    /// just said what is used.
    pub(super) fn settle_spending(&mut self, has_news: bool, incarnation: &mut Incarnation<'_>) {
        let budgets = self.spending.current();
        for budget in self.spending.warnings(&budgets) {
            let text = format!("{} used of {}.", used(&budget), word::budget(&budget));
            self.prompts.note(format!("Your budget: {text} Bring your work to a state that you can leave."));
            tokio::spawn(warn_lead(incarnation.client(), text));
        }
        let is_working = self.is_working();
        match (budgets.iter().find(|budget| percent(budget) >= 100), &mut self.spending.paused) {
            (Some(spent), None) => self.pause(spent, is_working, incarnation),
            (None, Some(_)) => self.resume(incarnation),
            (Some(spent), Some(paused)) => {
                // What was approved did not suffice.
                let asks_again = has_news && std::mem::take(&mut paused.is_approved);
                paused.has_ended_turn |= is_working;
                if paused.check_at <= Instant::now() {
                    paused.check_at = Instant::now() + CHECK_INTERVAL;
                    incarnation.ask_for_budgets();
                }
                if is_working {
                    // It has begun another turn with prompts that it had.
                    self.interrupt();
                }
                if asks_again {
                    self.ask_for_more(spent, incarnation);
                }
            }
            (None, None) => {}
        }
    }

    fn pause(&mut self, spent: &v1::BudgetUse, has_ended_turn: bool, incarnation: &mut Incarnation<'_>) {
        let text = format!("paused: {} used of {}", used(spent), word::budget(spent));
        let check_at = Instant::now() + CHECK_INTERVAL;
        self.spending.paused = Some(Paused { has_ended_turn, is_approved: false, check_at });
        if has_ended_turn {
            self.interrupt();
        }
        self.state.set_pause(&text);
        incarnation.set_resting(true);
        incarnation.tell(RunnerEvent::Paused { why: text });
        self.ask_for_more(spent, incarnation);
    }

    fn ask_for_more(&mut self, spent: &v1::BudgetUse, incarnation: &mut Incarnation<'_>) {
        let summary = format!("{} used up: {}", word::budget(spent), used(spent));
        let detail = format!(
            "The member is paused, and its messages wait. If you approve, each budget that is used up is raised by its own amount \
             until it suffices, or by what `teamwire approve REQUEST_ID --add AMOUNT` says. If you reject, it stays paused until you raise the \
             budget with `teamwire budget`. Used up: {}.",
            word::budget(spent)
        );
        let asked = PermissionRequest { key: KEY.to_owned(), tool: TOOL.to_owned(), summary, detail, tool_use: None };
        self.permission_requests.ask_the_lead(asked, incarnation);
    }

    fn resume(&mut self, incarnation: &mut Incarnation<'_>) {
        let Some(paused) = self.spending.paused.take() else { return };
        self.permission_requests.withdraw(KEY);
        if paused.has_ended_turn {
            self.prompts.tell(RESUMED.to_owned());
        }
        self.state.set_pause("");
        incarnation.set_resting(false);
        incarnation.tell(RunnerEvent::Resumed);
    }

    /// Has the next process of the program, which is paused as well, tell the agent why its turn was ended.
    pub(super) fn leave_pause_to_successor(&mut self) {
        if self.spending.paused.as_ref().is_some_and(|paused| paused.has_ended_turn) {
            self.prompts.tell(RESUMED.to_owned());
        }
    }

    /// Handles the lead's answer to the request for more.
    pub(super) fn more_decided(&mut self, decision: &Decision, incarnation: &Incarnation<'_>) {
        match decision {
            // The coordinator has raised the budget.
            Decision::Allow => {
                self.spending.paused.iter_mut().for_each(|paused| paused.is_approved = true);
                incarnation.ask_for_budgets();
            }
            Decision::Deny(why) => {
                incarnation.tell(RunnerEvent::AgentWarning { detail: format!("It stays paused: {why}") })
            }
        }
    }

    /// Approves the requests to shut down that wait while the member is paused.
    pub(super) fn approve_while_paused(&mut self, incarnation: &mut Incarnation<'_>) {
        while self.spending.is_paused() && incarnation.waiting().front().is_some_and(|first| is_urgent(first)) {
            if let Some(delivery) = incarnation.waiting().pop_front() {
                incarnation.approve_shutdown(delivery);
            }
        }
    }
}

/// Tells the lead that most of a budget is used.
async fn warn_lead(client: Client, text: String) {
    let content = format!("{text} At 100 %, I am paused, and you are asked for more.");
    let warning = v1::SendRequest { automatic: true, ..message::direct("team-lead", text, content) };
    if let Err(error) = client.send(warning).await {
        tracing::debug!(%error, "the lead was not warned of a budget");
    }
}

/// Returns how many percent of a budget are used: the larger of cost and tokens.
fn percent(budget: &v1::BudgetUse) -> u64 {
    let of = |used: u64, bound: u64| used.saturating_mul(100).checked_div(bound).unwrap_or_default();
    let bound = budget.budget.unwrap_or_default();
    of(budget.cost_usd_micros, bound.cost_usd_micros).max(of(budget.tokens, bound.tokens))
}

/// Returns what was used of what a budget bounds.
fn used(budget: &v1::BudgetUse) -> String {
    let bound = budget.budget.unwrap_or_default();
    let of = |used: u64, bound: u64| if bound == 0 { 0 } else { used };
    word::amount(of(budget.cost_usd_micros, bound.cost_usd_micros), of(budget.tokens, bound.tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_since_the_last_report_counts_and_the_lead_is_warned_once() {
        let budget = |cost_usd_micros, tokens| Some(v1::Budget { cost_usd_micros, tokens });
        let usage = |input_tokens, output_tokens| v1::Usage { input_tokens, output_tokens, ..v1::Usage::default() };
        let of_member = v1::BudgetUse { budget: budget(0, 10_000), tokens: 7_000, ..v1::BudgetUse::default() };
        let (sender, news) =
            watch::channel(Some(BudgetNews { budgets: vec![of_member], reported: usage(2_000, 1_000) }));
        let mut spending = Spending::new(news);
        spending.used(usage(2_000, 1_500));
        let current = spending.current();
        assert_eq!((current[0].tokens, percent(&current[0])), (7_500, 75));
        assert!(spending.warnings(&current).is_empty());
        spending.used(usage(3_000, 1_500));
        let current = spending.current();
        assert_eq!(percent(&current[0]), 85);
        assert_eq!(spending.warnings(&current).len(), 1);
        assert!(spending.warnings(&current).is_empty(), "once");
        assert_eq!(
            (used(&current[0]), word::budget(&current[0])),
            ("8,500 tokens".to_owned(), "the budget of 10,000 tokens".to_owned())
        );
        let of_team =
            v1::BudgetUse { of_team: true, budget: budget(1_000_000, 0), cost_usd_micros: 1_020_000, ..of_member };
        sender.send_replace(Some(BudgetNews { budgets: vec![of_team], reported: usage(3_000, 1_500) }));
        let current = spending.current();
        assert_eq!((percent(&current[0]), used(&current[0])), (102, "1.02 USD".to_owned()));
        assert_eq!(word::budget(&current[0]), "the team's budget of 1 USD");
    }
}
