//! Carries out a plan, and reports the outcome of each step.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use teamwire_agents::programs::sign_in_warning;
use teamwire_client::{Error, v1};
use teamwire_proto::{
    Reason,
    v1::{RequestState, RestartPolicy},
    word,
};
use uuid::Uuid;

use super::{
    coordinator::{self, Reached, reach},
    file::{LOCAL, Member, Task, TeamFile, is_same},
    local_host,
    plan::{Found, Plan, State, Step, TASK_KEY, plan, whose},
    records::{Listens, Records, TeamRecord},
    report::{Outcome, Report},
    state,
};
use crate::{
    command::{always, console, shown, team},
    context::{Caller, ContextArgs, Who},
    failure::{Failure, NOT_IN_TIME, REFUSED, REJECTED, UNANSWERED},
    show,
};

/// How much longer than an order's deadline to wait, so that the coordinator's decision arrives.
const DECISION_GRACE: Duration = Duration::from_secs(30);

/// Starts the team that a file describes.
pub(super) struct Run<'r> {
    pub(super) context: &'r ContextArgs,
    pub(super) file: &'r TeamFile,
    pub(super) records: &'r Records,
    pub(super) report: Report,
    /// Whether to show the console to the person who created the team.
    pub(super) opens_console: bool,
}

/// The outcome of the steps so far.
#[derive(Default)]
struct Progress {
    /// The orders that have not been decided yet.
    orders: Vec<v1::Request>,
    /// The ids of tasks by their keys.
    tasks: BTreeMap<String, u64>,
    /// The steps that failed: the name of what each was for, and its exit code.
    failed: Vec<(String, u8)>,
}

impl Run<'_> {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let (mut caller, team) = self.coordinator().await?;
        let mut record = self.records.team(&self.file.name)?;
        if team.is_some() && record.as_ref().is_some_and(|record| record.creating.is_some()) {
            // An earlier `up` was killed before it had the credential of the lead.
            caller = self.create_team().await?;
            record = self.records.team(&self.file.name)?;
        }
        let mut state = match &team {
            Some(team) => State::Team(Box::new(state::read(&caller, team.clone(), record.as_ref()).await?)),
            None => State::NoTeam,
        };
        let mut planned = plan(self.file, &state);
        let starts_host = planned.steps.contains(&Step::StartHost);
        if let Some(team) = team.filter(|_| starts_host) {
            // The host reports the members that ended with its earlier process, so that only now it is known who is
            // missing.
            self.start_host(&caller).await?;
            let record = self.records.team(&self.file.name)?;
            state = State::Team(Box::new(state::read(&caller, team, record.as_ref()).await?));
            planned = plan(self.file, &state);
            planned.kept.retain(|kept| *kept != format!("host {LOCAL}"));
        }
        let plan = planned;
        show_unchanged(self.report, &plan);
        self.warn_of_sign_in(&plan).await;
        let found = if let State::Team(found) = state { *found } else { Found::default() };
        let mut progress = Progress::default();
        let known = self.file.tasks.iter().filter_map(|task| Some((task.key().to_owned(), found.task(task.key())?.id)));
        progress.tasks.extend(known);
        for step in &plan.steps {
            match step {
                // Already done.
                Step::StartCoordinator => {}
                Step::CreateTeam => caller = self.create_team().await?,
                Step::StartHost => self.start_host(&caller).await?,
                Step::AddRule(rule) => self.add_rule(&caller, rule, &mut progress).await?,
                Step::Spawn(member) => self.spawn(&caller, member, &mut progress).await?,
                Step::SetBudget(member, budget) => self.set_budget(&caller, member, *budget, &mut progress).await?,
                Step::Await { name, order } => self.find_order(&caller, name, order, &mut progress).await?,
                Step::CreateTask(task) => self.create_task(&caller, task, &mut progress).await?,
                // Done below, once the member has started.
                Step::HandOver(_) => {}
            }
        }
        self.await_starts(&caller, &mut progress).await?;
        for step in &plan.steps {
            if let Step::HandOver(member) = step {
                self.hand_over(&caller, member, &mut progress).await?;
            }
        }
        self.finish(starts_host || !plan.steps.is_empty(), &progress)?;
        if self.opens_console && plan.steps.contains(&Step::CreateTeam) {
            // The team is up, whether or not a page shows it.
            let opened = console::open_console(&caller).await;
            if opened.is_ok_and(|opened| opened) {
                self.report.text("\nThe console is open in your browser.");
            }
        }
        Ok(())
    }

    /// Returns the caller at the coordinator, and the team if it exists. Starts a coordinator if none runs.
    async fn coordinator(&self) -> Result<(Caller, Option<v1::Team>), Failure> {
        let reached = match reach(self.context, &self.file.name).await? {
            Reached::Nothing { address } => {
                // As before `stop`, or before the machine was restarted.
                let last = self.records.last_coordinator()?.map(|last| last.listens).unwrap_or_default();
                let listens = Listens { local: address.as_ref().map(coordinator::listen).or(last.local), ..last };
                let (address, started) = coordinator::start(self.context, self.records, &listens).await?;
                let text = format!("Started a coordinator at {address} (its log: {}).", started.log.display());
                self.report.line("coordinator", &address, Outcome::Done, &text);
                reach(self.context, &self.file.name).await?
            }
            reached => reached,
        };
        match reached {
            Reached::Coordinator(caller, team) => Ok((*caller, team.map(|team| *team))),
            Reached::Nothing { .. } => {
                Err(Failure::with_code(REFUSED, "The coordinator exited right after its start. See its log."))
            }
        }
    }

    /// Warns about each agent program that is not signed in and is to be started on this machine.
    async fn warn_of_sign_in(&self, plan: &Plan<'_>) {
        let starts = plan.steps.iter().filter_map(|step| match step {
            Step::Spawn(member) => self.file.local_program(member),
            _ => None,
        });
        let programs: BTreeSet<&str> = starts.collect();
        let asked = programs.into_iter().map(|program| sign_in_warning(program.as_ref()));
        for warning in join_all(asked).await.into_iter().flatten() {
            show::warn(&warning);
        }
    }

    async fn create_team(&self) -> Result<Caller, Failure> {
        let file = self.file;
        let record = self.records.team(&file.name)?.unwrap_or_default();
        // Recorded first: if this process is killed, the next one repeats the call, and gets the same credential.
        let key = record.creating.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        self.records.put_team(&file.name, &TeamRecord { creating: Some(key.clone()), ..record.clone() })?;
        let made = team::create(self.context, &file.name, file.user(), &file.description, key).await;
        if let Err(Failure::Call(Error::Refused(_))) = &made {
            self.records.put_team(&file.name, &TeamRecord { creating: None, ..record.clone() })?;
        }
        let (created, credential) = made?;
        self.records.put_team(&file.name, &TeamRecord { created: true, creating: None, ..record })?;
        let text = format!("Created team {}. You are its lead, {}.", created.name, created.lead);
        self.report.line("team", &created.name, Outcome::Done, &text);
        Ok(self.context.caller(Who::SavedWith(&credential))?.in_team(&created.name))
    }

    async fn start_host(&self, caller: &Caller) -> Result<(), Failure> {
        let started = local_host::start(self.context, caller, self.file, self.records).await?;
        let text = format!("This machine can start agents now (its log: {}).", started.log.display());
        self.report.line("host", LOCAL, Outcome::Done, &text);
        Ok(())
    }

    async fn add_rule(
        &self,
        caller: &Caller,
        rule: &v1::PermissionRule,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        match always::add(caller, rule.clone()).await {
            Ok(added) => {
                let id = added.rule.map_or(0, |rule| rule.id).to_string();
                let text = format!("Added permission rule {id}: {}", show::rule_sentence(rule));
                self.report.line("permission rule", &id, Outcome::Done, &text);
                Ok(())
            }
            Err(Failure::Call(error)) => {
                let text = format!("A permission rule was not added ({})", show::rule_sentence(rule));
                self.failed("permission rule", "permission rules", &text, error, progress)
            }
            Err(failure) => Err(failure),
        }
    }

    async fn set_budget(
        &self,
        caller: &Caller,
        member: &str,
        budget: v1::Budget,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let (whose, amount) = (whose(member), word::amount(budget.cost_usd_micros, budget.tokens));
        let request =
            v1::SetBudgetRequest { member: member.to_owned(), budget: Some(budget), ..v1::SetBudgetRequest::default() };
        match caller.client.set_budget(request).await {
            Ok(_) => {
                let text = format!("The budget of {whose} is {amount}.");
                self.report.line("budget", member, Outcome::Done, &text);
                Ok(())
            }
            Err(error) => {
                let text = format!("The budget of {whose} was not set to {amount}");
                self.failed("budget", "budgets", &text, error, progress)
            }
        }
    }

    async fn spawn(&self, caller: &Caller, member: &Member, progress: &mut Progress) -> Result<(), Failure> {
        let request = v1::SpawnRequest {
            name: member.name.clone(),
            profile: member.profile.clone(),
            host: member.host.clone().unwrap_or_default(),
            labels: member.labels.clone().into_iter().collect(),
            prompt: member.prompt.clone(),
            plan_mode_required: member.plan,
            restart: member.restart.map_or(RestartPolicy::Unspecified, RestartPolicy::from).into(),
            dir: member.dir.clone(),
            reschedule: member.reschedule,
            tags: member.tags.clone(),
            ..v1::SpawnRequest::default()
        };
        match caller.client.spawn(request).await {
            Ok(reply) => {
                let order = reply.request.ok_or_else(show::incomplete)?;
                let text = format!("Starting {} ({}){}…", member.name, member.profile, elsewhere(&order));
                self.report.line("member", &member.name, Outcome::Done, &text);
                progress.orders.push(order);
                Ok(())
            }
            Err(error) => {
                self.failed("member", &member.name, &format!("{} cannot start", member.name), error, progress)
            }
        }
    }

    /// Looks up an order that was placed earlier.
    async fn find_order(
        &self,
        caller: &Caller,
        name: &str,
        order: &str,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let request = v1::GetRequestRequest { request_id: order.to_owned(), ..v1::GetRequestRequest::default() };
        let order = caller.client.get_request(request).await?.request.ok_or_else(show::incomplete)?;
        let text = format!("{name} is starting already{}…", elsewhere(&order));
        self.report.line("member", name, Outcome::Kept, &text);
        progress.orders.push(order);
        Ok(())
    }

    async fn create_task(&self, caller: &Caller, task: &Task, progress: &mut Progress) -> Result<(), Failure> {
        if let Some(missing) = task.blocked_by.iter().find(|key| !progress.tasks.contains_key(*key)) {
            let text =
                format!("Task \"{}\" was not created: it is blocked by \"{missing}\", which was not.", task.subject);
            self.report.line("task", task.key(), Outcome::Failed, &text);
            progress.failed.push((format!("task \"{}\"", task.subject), REFUSED));
            return Ok(());
        }
        let request = v1::CreateTaskRequest {
            subject: task.subject.clone(),
            description: task.description.clone(),
            owner: task.owner.clone().unwrap_or_default(),
            blocked_by: task.blocked_by.iter().filter_map(|key| progress.tasks.get(key)).copied().collect(),
            paths: task.paths.clone(),
            exclusive: task.exclusive,
            reviewer: task.review.clone(),
            merge_on_approval: task.merge_on_approval,
            metadata: [(TASK_KEY.to_owned(), task.key().to_owned())].into(),
            ..v1::CreateTaskRequest::default()
        };
        match caller.client.create_task(request).await {
            Ok(reply) => {
                let created = reply.task.ok_or_else(show::incomplete)?;
                let text = format!("Created task {}: {}", created.id, created.subject);
                self.report.line("task", task.key(), Outcome::Done, &text);
                progress.tasks.insert(task.key().to_owned(), created.id);
                Ok(())
            }
            Err(error) => {
                let what = format!("Task \"{}\" was not created", task.subject);
                self.failed("task", task.key(), &what, error, progress)
            }
        }
    }

    /// Waits until every member that was ordered has started, or its order has failed.
    async fn await_starts(&self, caller: &Caller, progress: &mut Progress) -> Result<(), Failure> {
        let orders = std::mem::take(&mut progress.orders);
        let mut decisions: FuturesUnordered<_> = orders
            .iter()
            .map(|order| async move {
                let patience = time_to_start(order) + DECISION_GRACE;
                caller.client.wait_decision(&order.id, patience).await
            })
            .collect();
        while let Some(decided) = decisions.next().await {
            let order = decided?;
            let name = &order.member;
            let code = match order.state() {
                RequestState::Approved => {
                    self.report.line(
                        "member",
                        name,
                        Outcome::Done,
                        &format!("{name} has started{}.", elsewhere(&order)),
                    );
                    shown::acknowledge_decision(caller, &order).await;
                    continue;
                }
                RequestState::Rejected => REJECTED,
                RequestState::Expired | RequestState::Cancelled => UNANSWERED,
                RequestState::Pending | RequestState::Unspecified => NOT_IN_TIME,
            };
            let text = format!("{name} was {}", show::order_in_full(&order));
            self.report.line("member", name, Outcome::Failed, &text);
            shown::acknowledge_decision(caller, &order).await;
            progress.failed.push((name.clone(), code));
        }
        Ok(())
    }

    async fn hand_over(&self, caller: &Caller, member: &Member, progress: &mut Progress) -> Result<(), Failure> {
        if progress.failed.iter().any(|(name, _)| is_same(name, &member.name)) {
            return Ok(());
        }
        match caller.client.hand_over(&member.name).await {
            Ok(team) => {
                self.report.line("lead", &team.lead, Outcome::Done, &format!("{} is the lead now.", team.lead));
                Ok(())
            }
            Err(error) => {
                let what = format!("{} was not made the lead", member.name);
                self.failed("lead", &member.name, &what, error, progress)
            }
        }
    }

    /// Records that the coordinator refused a step. Fails if it did not answer: then the next step would fail, too.
    fn failed(&self, what: &str, name: &str, text: &str, error: Error, progress: &mut Progress) -> Result<(), Failure> {
        if !matches!(error, Error::Refused(_)) && error.reason() != Some(Reason::Internal) {
            return Err(error.into());
        }
        let failure = Failure::from(error);
        self.report.line(what, name, Outcome::Failed, &format!("{text}: {}", failure.message()));
        progress.failed.push((name.to_owned(), failure.code()));
        Ok(())
    }

    fn finish(&self, is_changed: bool, progress: &Progress) -> Result<(), Failure> {
        let file = self.file;
        if let Some((_, code)) = progress.failed.first() {
            let names: Vec<&str> = progress.failed.iter().map(|(name, _)| name.as_str()).collect();
            let text = format!(
                "Team {} is not complete: {}. Once you have fixed the cause, `teamwire up` does what is missing.",
                file.name,
                names.join(", ")
            );
            return Err(Failure::with_code(*code, text));
        }
        if !is_changed {
            self.report.text(&format!("There is nothing to do for team {}.", file.name));
            return Ok(());
        }
        let to = file.members.first().map_or(file.lead_name(), |member| &member.name);
        self.report.text(&format!("\nTeam {} is up. Next:\n", show::paint(show::bold(), &file.name)));
        for (next, what) in [
            (format!("teamwire send {to} \"How far are you?\" --wait-reply"), ""),
            ("teamwire console".to_owned(), "  # the team, and what agents ask for, in a browser"),
            ("teamwire down".to_owned(), ""),
        ] {
            self.report.text(&format!("    {next}{}", show::paint(show::dim(), what)));
        }
        Ok(())
    }
}

/// Shows what the plan does not change.
pub(super) fn show_unchanged(report: Report, plan: &Plan<'_>) {
    for kept in &plan.kept {
        let (what, name) = kept.split_once(' ').unwrap_or((kept, ""));
        let text = match (what, name) {
            ("host", LOCAL) => "This machine can start agents already.".to_owned(),
            _ => format!("There is {kept}."),
        };
        report.line(what, name, Outcome::Kept, &text);
    }
    for difference in &plan.differences {
        report.line("difference", "", Outcome::Differs, difference);
    }
}

/// Says on which other machine an order starts its member. Empty if it is this one.
fn elsewhere(order: &v1::Request) -> String {
    if is_same(&order.approver, LOCAL) { String::new() } else { format!(" on {}", order.approver) }
}

/// Returns how long the coordinator allows for a start.
fn time_to_start(order: &v1::Request) -> Duration {
    let seconds = |at: &Option<prost_types::Timestamp>| at.as_ref().map_or(0, |at| at.seconds);
    Duration::from_secs(u64::try_from(seconds(&order.expires_at) - seconds(&order.created_at)).unwrap_or_default())
}
