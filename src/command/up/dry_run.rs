//! `teamwire up --dry-run`: what would be done, and which members no host could start.

use std::collections::BTreeMap;

use teamwire_client::v1;
use teamwire_proto::word;

use super::{
    apply::show_unchanged,
    coordinator::{Reached, reach},
    file::{LOCAL, Member, TeamFile, is_same},
    plan::{Plan, State, Step, plan, whose},
    records::Records,
    report::{Outcome, Report},
    state,
};
use crate::{
    command::host::default_file,
    context::ContextArgs,
    failure::{Failure, REFUSED},
    show,
};

/// Shows what `up` would do.
pub(super) async fn dry_run(
    context: &ContextArgs,
    file: &TeamFile,
    records: &Records,
    report: Report,
) -> Result<(), Failure> {
    let state = match reach(context, &file.name).await? {
        Reached::Nothing { .. } => State::NoCoordinator,
        Reached::Coordinator(_, None) => State::NoTeam,
        Reached::Coordinator(caller, Some(team)) => {
            let record = records.team(&file.name)?;
            State::Team(Box::new(state::read(&caller, *team, record.as_ref()).await?))
        }
    };
    let plan = plan(file, &state);
    show_unchanged(report, &plan);
    let offers = Offers::of(context, file, &state, &plan)?;
    let mut failed = Vec::new();
    for step in &plan.steps {
        match step {
            Step::Spawn(member) if let Some(why) = offers.obstacle(member) => {
                let text = format!("{} would not start: {why}.", member.name);
                report.line("member", &member.name, Outcome::Failed, &text);
                failed.push(member.name.as_str());
            }
            step => show_planned(report, file, step),
        }
    }
    if !failed.is_empty() {
        let text = format!("Team {} would not be complete: {}.", file.name, failed.join(", "));
        return Err(Failure::with_code(REFUSED, text));
    }
    if plan.steps.is_empty() {
        report.text(&format!("There is nothing to do for team {}.", file.name));
    }
    Ok(())
}

fn show_planned(report: Report, file: &TeamFile, step: &Step<'_>) {
    let (what, name, text) = match step {
        Step::StartCoordinator => {
            ("coordinator", "", "Would start a coordinator, and then create what its store lacks:".to_owned())
        }
        Step::CreateTeam => ("team", file.name.as_str(), format!("Would create team {}.", file.name)),
        Step::StartHost => ("host", LOCAL, "Would prepare this machine to start agents.".to_owned()),
        Step::AddRule(rule) => {
            ("permission rule", "", format!("Would add a permission rule: {}", show::rule_sentence(rule)))
        }
        Step::Spawn(member) => {
            let host = member.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
            let again = if member.reschedule { "; again on another host, if its host is lost" } else { "" };
            ("member", member.name.as_str(), format!("Would start {}: {}{host}{again}.", member.name, member.profile))
        }
        Step::SetBudget(member, budget) => {
            let (whose, amount) = (whose(member), word::amount(budget.cost_usd_micros, budget.tokens));
            ("budget", *member, format!("Would set the budget of {whose} to {amount}."))
        }
        Step::Await { name, .. } => ("member", *name, format!("Would wait until {name} has started.")),
        Step::CreateTask(task) => ("task", task.key(), format!("Would create task \"{}\".", task.subject)),
        Step::HandOver(member) => ("lead", member.name.as_str(), format!("Would make {} the lead.", member.name)),
    };
    report.line(what, name, Outcome::Planned, &text);
}

/// What the hosts would offer that could get an order, by their names.
struct Offers(BTreeMap<String, v1::HostOffer>);

impl Offers {
    fn of(context: &ContextArgs, file: &TeamFile, state: &State, plan: &Plan<'_>) -> Result<Self, Failure> {
        let hosts = if let State::Team(found) = state { found.hosts.as_slice() } else { &[] };
        let live = hosts.iter().filter(|host| host.is_live());
        let mut offers: BTreeMap<_, _> =
            live.filter_map(|host| Some((host.name.clone(), host.offer.clone()?))).collect();
        if plan.steps.contains(&Step::StartHost) {
            let offer = file
                .local_host()
                .map_or_else(|| default_file(context).map(|file| file.offer()), |file| Ok(file.offer()))?;
            offers.insert(LOCAL.to_owned(), offer);
        }
        Ok(Self(offers))
    }

    /// Returns why no host could start a member. `None` if one could, given a free slot.
    fn obstacle(&self, member: &Member) -> Option<String> {
        let is_meant = |name: &str| member.host.as_ref().is_none_or(|host| is_same(host, name));
        let mut obstacles = Vec::new();
        for (name, offer) in self.0.iter().filter(|(name, _)| is_meant(name)) {
            obstacles.push(obstacle(name, offer, member)?);
        }
        match (&member.host, obstacles.as_slice()) {
            (Some(host), []) => Some(format!("there is no live host {host}")),
            (None, []) => Some("there is no live host".to_owned()),
            (_, obstacles) => Some(obstacles.join("; ")),
        }
    }
}

/// Returns why a host could not start a member.
fn obstacle(name: &str, offer: &v1::HostOffer, member: &Member) -> Option<String> {
    let profiles: Vec<&str> = offer.profiles.iter().map(|profile| profile.name.as_str()).collect();
    if !profiles.iter().any(|profile| is_same(profile, &member.profile)) {
        let but = if profiles.is_empty() { String::new() } else { format!(", but {}", profiles.join(", ")) };
        return Some(format!("{name} has no profile {}{but}", member.profile));
    }
    let is_lacking = |(key, value): &(&String, &String)| offer.labels.get(*key) != Some(*value);
    let (key, value) = member.labels.iter().find(is_lacking)?;
    Some(format!("{name} does not have the label {key}={value}"))
}
