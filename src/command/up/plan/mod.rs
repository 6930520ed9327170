//! Plans what `up` does: compares a team's file with the team.
//!
//! Architecture invariant: planning is pure. Users rely on the property in [`tests`]: after a plan was carried out, the
//! next one has nothing to do.

use std::collections::BTreeMap;

use teamwire_proto::{
    v1::{self, MemberState, RequestState, RestartPolicy, TaskStatus},
    word,
};

use super::file::{LOCAL, Member, Task, TeamFile, is_same};

/// The key of a task's metadata that holds its key in the file.
pub(super) const TASK_KEY: &str = "team-file.key";

/// What exists before `up` runs.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// No coordinator runs, and one can be started here.
    NoCoordinator,
    /// The coordinator has no team of this name.
    NoTeam,
    Team(Box<Found>),
}

/// A team, as the coordinator reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) team: v1::Team,
    pub(super) members: Vec<v1::Member>,
    pub(super) hosts: Vec<v1::Host>,
    /// All but deleted ones.
    pub(super) tasks: Vec<v1::Task>,
    /// Orders to start a member, the newest first.
    pub(super) orders: Vec<v1::Request>,
    /// Permission rules.
    pub(super) rules: Vec<v1::PermissionRule>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step<'f> {
    StartCoordinator,
    CreateTeam,
    StartHost,
    AddRule(&'f v1::PermissionRule),
    Spawn(&'f Member),
    /// Set the budget of a member or, if it is empty, of the team.
    SetBudget(&'f str, v1::Budget),
    /// The member was ordered before, and has not started yet.
    Await {
        name: &'f str,
        order: String,
    },
    CreateTask(&'f Task),
    /// Make a member the lead.
    HandOver(&'f Member),
}

/// The steps to take, in this order, and what stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan<'f> {
    pub(super) steps: Vec<Step<'f>>,
    /// What exists as the file says, each as a noun phrase.
    pub(super) kept: Vec<String>,
    /// What differs from the file and stays, each as a sentence.
    pub(super) differences: Vec<String>,
}

impl Found {
    pub(super) fn member(&self, name: &str) -> Option<&v1::Member> {
        self.members.iter().find(|member| is_same(&member.name, name))
    }

    pub(super) fn task(&self, key: &str) -> Option<&v1::Task> {
        self.tasks.iter().find(|task| task.metadata.get(TASK_KEY).is_some_and(|found| found == key))
    }

    pub(super) fn local_host(&self) -> Option<&v1::Host> {
        self.hosts.iter().find(|host| is_same(&host.name, LOCAL) && host.is_live())
    }

    /// Returns the order that started a member's current life, or an earlier one.
    fn order_of(&self, member: &v1::Member) -> Option<&v1::Request> {
        let is_it = |order: &&v1::Request| {
            is_same(&order.member, &member.name)
                && order.incarnation <= member.incarnation
                && matches!(order.state(), RequestState::Approved | RequestState::Pending)
        };
        self.orders.iter().find(is_it).filter(|_| !member.spawned_on.is_empty())
    }

    /// Returns how the file refers to a task as a dependency.
    fn key_of(&self, id: u64) -> String {
        let task = self.tasks.iter().find(|task| task.id == id);
        let key = task.and_then(|task| task.metadata.get(TASK_KEY));
        key.map_or_else(|| format!("task {id}"), |key| format!("\"{key}\""))
    }
}

/// Returns whether a member is missing, so that a new one can take its name.
fn is_missing(member: Option<&v1::Member>) -> bool {
    member.is_none_or(|member| matches!(member.state(), MemberState::Exited | MemberState::Lost))
}

/// Plans the steps that turn the team into the one that the file describes.
pub(super) fn plan<'f>(file: &'f TeamFile, state: &State) -> Plan<'f> {
    let mut plan = Plan::default();
    let nothing = Found::default();
    let found: &Found = match state {
        State::NoCoordinator => {
            plan.steps.extend([Step::StartCoordinator, Step::CreateTeam]);
            &nothing
        }
        State::NoTeam => {
            plan.steps.push(Step::CreateTeam);
            &nothing
        }
        State::Team(found) => {
            plan.kept.push(format!("team {}", found.team.name));
            plan.compare("The description", &found.team.description, &file.description);
            found
        }
    };
    if needs_local_host(file, found) {
        match found.local_host() {
            Some(host) => plan.kept.push(format!("host {}", host.name)),
            None => plan.steps.push(Step::StartHost),
        }
    }
    for rule in &file.rules {
        let same = found.rules.iter().find(|there| is_same_rule(there, rule));
        match same {
            Some(there) => plan.kept.push(format!("permission rule {}", there.id)),
            None => plan.steps.push(Step::AddRule(rule)),
        }
    }
    plan.budget("", file.budget, found.team.budget.and_then(|there| there.budget));
    for member in &file.members {
        plan.member(member, found);
        let there = found.member(&member.name).and_then(|there| there.budget);
        plan.budget(&member.name, member.budget, there);
    }
    for task in file.tasks_in_order() {
        plan.task(task, found);
    }
    plan.lead(file, state);
    plan
}

/// Returns whether the file needs a host on this machine: the file configures one, a member runs on it or is to be
/// started there, or no other host can start a member that is missing.
fn needs_local_host(file: &TeamFile, found: &Found) -> bool {
    let others = found.hosts.iter().filter(|host| !is_same(&host.name, LOCAL));
    let mut others: Vec<v1::Host> = others.cloned().collect();
    let mut needs = |member: &Member| {
        let there = found.member(&member.name);
        match &member.host {
            Some(host) if is_same(host, LOCAL) => true,
            _ if !is_missing(there) => there.is_some_and(|there| is_same(&there.spawned_on, LOCAL)),
            host => !take_slot(&mut others, member) && host.is_none(),
        }
    };
    // Every member is looked at, because each takes a slot.
    file.members.iter().filter(|member| needs(member)).count() > 0 || file.local.is_some()
}

/// Takes a slot for a member on the host that the coordinator would choose. Returns false if no host fits.
fn take_slot(hosts: &mut [v1::Host], member: &Member) -> bool {
    let fitting = hosts.iter_mut().filter(|host| can_start(host, member));
    let free = |host: &v1::Host| host.offer.as_ref().map_or(0, |offer| offer.slots.saturating_sub(host.slots_used));
    let chosen = fitting.max_by(|a, b| free(a).cmp(&free(b)).then_with(|| b.name.cmp(&a.name)));
    chosen.map(|host| host.slots_used += 1).is_some()
}

/// Returns whether a host can start a member now, according to its offer.
fn can_start(host: &v1::Host, member: &Member) -> bool {
    let Some(offer) = &host.offer else { return false };
    host.is_live()
        && member.host.as_ref().is_none_or(|named| is_same(named, &host.name))
        && host.slots_used < offer.slots
        && offer.profiles.iter().any(|profile| is_same(&profile.name, &member.profile))
        && member.labels.iter().all(|(key, value)| offer.labels.get(key) == Some(value))
}

impl<'f> Plan<'f> {
    fn member(&mut self, member: &'f Member, found: &Found) {
        let there = found.member(&member.name);
        let Some(there) = there.filter(|_| !is_missing(there)) else {
            self.steps.push(Step::Spawn(member));
            return;
        };
        match there.state() {
            MemberState::Spawning => {
                self.steps.push(Step::Await { name: &member.name, order: there.pending_order.clone() });
            }
            MemberState::Stopping => self
                .differences
                .push(format!("{} is about to exit. Once it has, `teamwire up` starts it again.", there.name)),
            _ => self.kept.push(format!("member {}", there.name)),
        }
        if let Some(order) = found.order_of(there) {
            self.order(member, there, order);
        }
    }

    /// Compares what a member was started with.
    fn order(&mut self, member: &Member, there: &v1::Member, order: &v1::Request) {
        let terms = order.spawn.clone().unwrap_or_default();
        let of = |key: &str| format!("{key} of {}", there.name);
        if !is_same(&terms.profile, &member.profile) {
            self.compare(&of("The profile"), &terms.profile, &member.profile);
        }
        if let Some(host) = member.host.as_ref().filter(|host| !is_same(host, &there.spawned_on)) {
            self.compare(&of("The host"), &there.spawned_on, host);
        }
        self.compare(&of("The host's labels"), &labels(&terms.labels), &labels(&member.labels));
        self.compare(&of("The restart policy"), restart(terms.restart()), restart(wanted_restart(member)));
        self.compare(&of("The directory"), &terms.dir, &member.dir);
        let word = |required: bool| if required { "true" } else { "false" };
        self.compare(&of("The key \"plan\""), word(terms.plan_mode_required), word(member.plan));
        self.compare(&of("The key \"reschedule\""), word(terms.reschedule), word(member.reschedule));
        if order.content != member.prompt {
            self.differences.push(format!("{} was started with a prompt that differs from the file.", there.name));
        }
    }

    fn task(&mut self, task: &'f Task, found: &Found) {
        let Some(there) = found.task(task.key()) else {
            self.steps.push(Step::CreateTask(task));
            return;
        };
        self.kept.push(format!("task {}", there.id));
        let of = |what: &str| format!("{what} of task {}", there.id);
        self.compare(&of("The subject"), &there.subject, &task.subject);
        if there.description != task.description {
            self.differences.push(format!("{} is not the one in the file.", of("The description")));
        }
        let is_open = there.status() == TaskStatus::Pending;
        if let Some(owner) = task.owner.as_ref().filter(|owner| is_open && !is_same(owner, &there.owner)) {
            self.compare(&of("The owner"), &there.owner, owner);
        }
        let word = |is: bool| if is { "true" } else { "false" };
        let paths: Vec<&str> = task.paths.iter().map(|path| path.trim_end_matches('/')).collect();
        self.compare(&of("The paths"), &there.paths.join(", "), &paths.join(", "));
        self.compare(&of("The key \"exclusive\""), word(there.exclusive), word(task.exclusive));
        if !is_same(&there.reviewer, &task.review) {
            self.compare(&of("The reviewer"), &there.reviewer, &task.review);
        }
        self.compare(&of("The key \"merge_on_approval\""), word(there.merge_on_approval), word(task.merge_on_approval));
        let id_of = |key: &String| found.task(key).map(|task| task.id);
        let wanted: Vec<u64> = task.blocked_by.iter().filter_map(id_of).collect();
        for id in there.blocked_by.iter().filter(|id| !wanted.contains(id)) {
            let key = found.key_of(*id);
            self.differences.push(format!("Task {} is blocked by {key}, but not in the file.", there.id));
        }
        for key in &task.blocked_by {
            if id_of(key).is_none_or(|id| !there.blocked_by.contains(&id)) {
                self.differences.push(format!("Task {} does not depend on \"{key}\", but does in the file.", there.id));
            }
        }
    }

    /// Sets a budget if there is none. One that someone has set or raised stays.
    fn budget(&mut self, member: &'f str, wanted: Option<v1::Budget>, there: Option<v1::Budget>) {
        let Some(wanted) = wanted else { return };
        let text = |budget: v1::Budget| word::amount(budget.cost_usd_micros, budget.tokens);
        let whose = whose(member);
        match there {
            None => self.steps.push(Step::SetBudget(member, wanted)),
            Some(there) if there == wanted => self.kept.push(format!("a budget of {whose}")),
            Some(there) => self.compare(&format!("The budget of {whose}"), &text(there), &text(wanted)),
        }
    }

    fn lead(&mut self, file: &'f TeamFile, state: &State) {
        // The person who creates the team leads it at first.
        let lead = match state {
            State::Team(found) => found.team.lead.as_str(),
            _ => file.user(),
        };
        match file.lead_member() {
            _ if is_same(lead, file.lead_name()) => {}
            Some(member) if is_same(lead, file.user()) => self.steps.push(Step::HandOver(member)),
            _ => self.compare("The lead", lead, file.lead_name()),
        }
    }

    fn compare(&mut self, what: &str, there: &str, wanted: &str) {
        if there != wanted {
            let quoted = |text: &str| if text.is_empty() { "empty".to_owned() } else { format!("\"{text}\"") };
            self.differences.push(format!("{what} is {}, but {} in the file.", quoted(there), quoted(wanted)));
        }
    }
}

/// Names the holder of a budget. `member`: empty means the team.
pub(super) fn whose(member: &str) -> &str {
    if member.is_empty() { "the team" } else { member }
}

/// Returns whether a team's rule permits the same as one of the file.
pub(super) fn is_same_rule(there: &v1::PermissionRule, wanted: &v1::PermissionRule) -> bool {
    let extent = |rule: &v1::PermissionRule| (rule.tool.clone(), rule.command.clone(), rule.path.clone(), rule.any_use);
    is_same(&there.member, &wanted.member) && extent(there) == extent(wanted)
}

fn wanted_restart(member: &Member) -> RestartPolicy {
    member.restart.map_or(RestartPolicy::Unspecified, RestartPolicy::from)
}

fn restart(policy: RestartPolicy) -> &'static str {
    match policy {
        RestartPolicy::Unspecified => "",
        RestartPolicy::Never => "never",
        RestartPolicy::OnFailure => "on-failure",
        RestartPolicy::Always => "always",
    }
}

fn labels<'l>(labels: impl IntoIterator<Item = (&'l String, &'l String)>) -> String {
    let labels: BTreeMap<_, _> = labels.into_iter().collect();
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
