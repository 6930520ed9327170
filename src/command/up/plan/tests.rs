use std::path::Path;

use proptest::{collection::vec, option, prelude::*, sample::select};
use teamwire_proto::v1::{HostOffer, HostProfile, SpawnTerms};

use super::*;

const PROFILES: [&str; 2] = ["claude", "codex"];
const HOSTS: [&str; 2] = [LOCAL, "gpu-1"];

fn parse(text: &str) -> TeamFile {
    crate::command::up::check::parse("team.toml", text, Path::new("/"))
        .unwrap_or_else(|failure| panic!("{}: {text}", failure.message()))
}

/// Carries out a step on a model of the team.
fn apply(file: &TeamFile, step: &Step<'_>, state: &mut State) {
    match (step, &*state) {
        (Step::StartCoordinator, State::NoCoordinator) => {
            *state = State::NoTeam;
            return;
        }
        (Step::CreateTeam, State::NoTeam) => {
            let team = v1::Team {
                name: file.name.clone(),
                description: file.description.clone(),
                lead: file.user().to_owned(),
                ..v1::Team::default()
            };
            *state = State::Team(Box::new(Found { team, ..Found::default() }));
            return;
        }
        _ => {}
    }
    let State::Team(found) = state else { panic!("{step:?} without a team") };
    match step {
        Step::StartCoordinator | Step::CreateTeam => panic!("{step:?} for a team that exists"),
        Step::StartHost => {
            assert!(found.local_host().is_none());
            found.hosts.retain(|host| host.name != LOCAL);
            found.hosts.push(host(LOCAL, true, 16));
        }
        Step::Spawn(member) => {
            assert!(is_missing(found.member(&member.name)), "{} is there", member.name);
            found.members.retain(|there| there.name != member.name);
            // Without a local host, another one has room.
            let placed = if found.local_host().is_some() { LOCAL } else { "gpu-1" };
            let on = member.host.as_deref().unwrap_or(placed);
            let order = order(member);
            found.orders.insert(0, order);
            found.members.push(there(&member.name, MemberState::Active, on));
        }
        Step::Await { name, .. } => {
            let there = found.members.iter_mut().find(|there| there.name == *name).unwrap();
            assert_eq!(there.state(), MemberState::Spawning);
            there.set_state(MemberState::Active);
        }
        Step::CreateTask(task) => {
            assert!(found.task(task.key()).is_none(), "{} is on the board", task.key());
            let blocked_by = task.blocked_by.iter().map(|key| found.task(key).expect("a dependency").id).collect();
            let id = found.tasks.len() as u64 + 1;
            found.tasks.push(on_board(id, task.key(), &task.subject, &task.description, blocked_by));
            found.tasks.last_mut().unwrap().owner = task.owner.clone().unwrap_or_default();
        }
        Step::AddRule(rule) => {
            assert!(!found.rules.iter().any(|there| is_same_rule(there, rule)));
            let id = found.rules.len() as u64 + 1;
            found.rules.push(v1::PermissionRule { id, ..(*rule).clone() });
        }
        Step::SetBudget("", budget) => {
            found.team.budget =
                Some(v1::BudgetUse { of_team: true, budget: Some(*budget), ..v1::BudgetUse::default() });
        }
        Step::SetBudget(name, budget) => {
            let there = found.members.iter_mut().find(|there| is_same(&there.name, name)).expect("a member");
            assert_eq!(there.budget.replace(*budget), None);
        }
        Step::HandOver(member) => {
            assert!(!is_missing(found.member(&member.name)));
            found.team.lead.clone_from(&member.name);
        }
    }
}

fn host(name: &str, is_live: bool, slots: u32) -> v1::Host {
    let profile = |name: &str| HostProfile { name: name.to_owned(), ..HostProfile::default() };
    let offer = HostOffer { profiles: PROFILES.map(profile).to_vec(), slots, ..HostOffer::default() };
    let lease_left = is_live.then_some(prost_types::Duration { seconds: 30, nanos: 0 });
    let state = if is_live { MemberState::Active } else { MemberState::Lost };
    v1::Host { name: name.to_owned(), state: state.into(), lease_left, offer: Some(offer), ..v1::Host::default() }
}

fn there(name: &str, state: MemberState, spawned_on: &str) -> v1::Member {
    v1::Member {
        name: name.to_owned(),
        state: state.into(),
        incarnation: 1,
        spawned_on: spawned_on.to_owned(),
        ..v1::Member::default()
    }
}

/// Returns the order that started a member as the file describes it.
fn order(member: &Member) -> v1::Request {
    let terms = SpawnTerms {
        profile: member.profile.clone(),
        labels: member.labels.clone().into_iter().collect(),
        plan_mode_required: member.plan,
        restart: wanted_restart(member).into(),
        dir: member.dir.clone(),
        reschedule: member.reschedule,
        ..SpawnTerms::default()
    };
    v1::Request {
        member: member.name.clone(),
        state: RequestState::Approved.into(),
        content: member.prompt.clone(),
        spawn: Some(terms),
        ..v1::Request::default()
    }
}

fn on_board(id: u64, key: &str, subject: &str, description: &str, blocked_by: Vec<u64>) -> v1::Task {
    v1::Task {
        id,
        subject: subject.to_owned(),
        description: description.to_owned(),
        status: TaskStatus::Pending.into(),
        blocked_by,
        metadata: [(TASK_KEY.to_owned(), key.to_owned())].into(),
        ..v1::Task::default()
    }
}

fn member_text() -> impl Strategy<Value = String> {
    let host = option::of(select(HOSTS.to_vec()));
    let restart = option::of(select(vec!["never", "on-failure", "always"]));
    (select(PROFILES.to_vec()), host, restart, any::<bool>(), any::<bool>(), option::of("[a-z]{1,8}")).prop_map(
        |(profile, host, restart, plan, reschedule, prompt)| {
            let line =
                |key: &str, value: Option<&str>| value.map_or_else(String::new, |it| format!("{key} = \"{it}\"\n"));
            let texts =
                [("profile", Some(profile)), ("host", host), ("restart", restart), ("prompt", prompt.as_deref())];
            let lines: String = texts.into_iter().map(|(key, value)| line(key, value)).collect();
            format!("{lines}plan = {plan}\nreschedule = {}\n", reschedule && host.is_none())
        },
    )
}

/// Generates a file with up to four members and five tasks, with the tasks in any order.
fn file_text() -> impl Strategy<Value = String> {
    let tasks = vec((vec(any::<prop::sample::Index>(), 0..3), option::of(any::<prop::sample::Index>())), 0..6);
    let lead = option::of(any::<prop::sample::Index>());
    (vec(member_text(), 0..5), tasks, lead, any::<bool>(), any::<bool>()).prop_map(
        |(members, tasks, lead, has_local, is_reversed)| {
            let mut text = "name = \"acme\"\ndescription = \"d\"\n".to_owned();
            if let Some(lead) = lead.filter(|_| !members.is_empty()) {
                text.push_str(&format!("lead = \"m{}\"\n", lead.index(members.len())));
            }
            for (number, member) in members.iter().enumerate() {
                text.push_str(&format!("[[members]]\nname = \"m{number}\"\n{member}"));
            }
            let mut written: Vec<String> = tasks
                .iter()
                .enumerate()
                .map(|(number, (blocked_by, owner))| {
                    let blocked_by = blocked_by.iter().filter(|_| number > 0);
                    let keys: Vec<String> = blocked_by.map(|index| format!("\"t{}\"", index.index(number))).collect();
                    let owner = owner
                        .filter(|_| !members.is_empty())
                        .map_or_else(String::new, |owner| format!("owner = \"m{}\"\n", owner.index(members.len())));
                    format!(
                        "[[tasks]]\nkey = \"t{number}\"\nsubject = \"s\"\nblocked_by = [{}]\n{owner}",
                        keys.join(", ")
                    )
                })
                .collect();
            if is_reversed {
                written.reverse();
            }
            text.push_str(&written.concat());
            if has_local {
                text.push_str("[hosts.local]\nslots = 4\n");
                for name in PROFILES {
                    text.push_str(&format!("[hosts.local.profiles.{name}]\ncommand = [\"{name}\"]\n"));
                }
            }
            text
        },
    )
}

/// Generates a team that has some of the members and tasks that such a file names, in any state.
fn any_state() -> impl Strategy<Value = State> {
    let states = vec![
        MemberState::Spawning,
        MemberState::Joined,
        MemberState::Active,
        MemberState::Idle,
        MemberState::Stopping,
        MemberState::Exited,
        MemberState::Away,
        MemberState::Lost,
    ];
    let members = vec(option::of((select(states), member_text(), select(vec!["", LOCAL, "gpu-1"]))), 5);
    let hosts = vec(option::of((any::<bool>(), 0..3_u32)), 2);
    let tasks = vec(option::of((select(vec!["s", "other"]), vec(1..6_u64, 0..3))), 6);
    let lead = select(vec!["lead", "user", "m0", "m1", "other"]);
    let team =
        (members, hosts, tasks, lead, select(vec!["d", ""])).prop_map(|(members, hosts, tasks, lead, description)| {
            let mut found = Found::default();
            (found.team.name, found.team.lead, found.team.description) =
                ("acme".into(), lead.into(), description.into());
            for (number, (state, text, on)) in members.into_iter().enumerate().filter_map(|(n, it)| Some((n, it?))) {
                let name = format!("m{number}");
                let file = parse(&format!("name = \"acme\"\n[[members]]\nname = \"{name}\"\n{text}"));
                found.orders.push(order(&file.members[0]));
                found.members.push(there(&name, state, on));
            }
            let named = HOSTS.iter().zip(hosts).filter_map(|(name, it)| Some((name, it?)));
            found.hosts = named.map(|(name, (is_live, slots))| host(name, is_live, slots)).collect();
            for (number, (subject, blocked_by)) in tasks.into_iter().enumerate().filter_map(|(n, it)| Some((n, it?))) {
                let id = found.tasks.len() as u64 + 1;
                let blocked_by = blocked_by.into_iter().filter(|other| *other < id).collect();
                found.tasks.push(on_board(id, &format!("t{number}"), subject, "", blocked_by));
            }
            State::Team(Box::new(found))
        });
    prop_oneof![1 => Just(State::NoCoordinator), 1 => Just(State::NoTeam), 6 => team]
}

proptest! {
    #[test]
    fn applying_a_plan_leaves_nothing_to_do(text in file_text(), before in any_state()) {
        let file = parse(&text);
        let first = plan(&file, &before);
        let mut after = before.clone();
        for step in &first.steps {
            apply(&file, step, &mut after);
        }
        let second = plan(&file, &after);
        prop_assert!(second.steps.is_empty(), "{:?}", second.steps);
        // What differs stays as it is.
        for difference in &first.differences {
            prop_assert!(second.differences.contains(difference), "{}", difference);
        }
        if !matches!(before, State::Team(_)) {
            prop_assert_eq!(second.differences, Vec::<String>::new(), "a new team is as the file says");
        }
    }

    #[test]
    fn every_member_and_task_of_the_file_is_planned_or_kept(text in file_text(), state in any_state()) {
        let file = parse(&text);
        let plan = plan(&file, &state);
        for member in &file.members {
            let is_planned = plan.steps.iter().any(|step| match step {
                Step::Spawn(planned) => planned.name == member.name,
                Step::Await { name, .. } => *name == member.name,
                _ => false,
            });
            let is_kept = plan.kept.contains(&format!("member {}", member.name));
            let is_ending = plan.differences.iter().any(|text| text.starts_with(&format!("{} is about to exit", member.name)));
            prop_assert_eq!(u8::from(is_planned) + u8::from(is_kept) + u8::from(is_ending), 1, "{}", member.name);
        }
        let created = plan.steps.iter().filter(|step| matches!(step, Step::CreateTask(_))).count();
        let kept = plan.kept.iter().filter(|kept| kept.starts_with("task ")).count();
        prop_assert_eq!(created + kept, file.tasks.len());
    }
}

const TEAM: &str = r#"
    name = "acme"
    [[members]]
    name = "backend"
    profile = "claude"
    [[members]]
    name = "reviewer"
    profile = "codex"
"#;

fn steps_on(text: &str, hosts: Vec<v1::Host>) -> Vec<String> {
    let found = Found { team: v1::Team { lead: "lead".to_owned(), ..v1::Team::default() }, hosts, ..Found::default() };
    let file = parse(text);
    let plan = plan(&file, &State::Team(Box::new(found)));
    let name = |step: &Step<'_>| format!("{step:?}").split(['(', ' ']).next().unwrap_or_default().to_owned();
    plan.steps.iter().map(name).collect()
}

#[test]
fn a_local_host_starts_only_if_no_other_has_room() {
    assert_eq!(steps_on(TEAM, vec![]), ["StartHost", "Spawn", "Spawn"]);
    assert_eq!(steps_on(TEAM, vec![host("gpu-1", true, 2)]), ["Spawn", "Spawn"]);
    assert_eq!(steps_on(TEAM, vec![host("gpu-1", true, 1)]), ["StartHost", "Spawn", "Spawn"]);
    assert_eq!(steps_on(TEAM, vec![host("gpu-1", false, 2)]), ["StartHost", "Spawn", "Spawn"]);
    assert_eq!(steps_on(TEAM, vec![host(LOCAL, true, 2)]), ["Spawn", "Spawn"]);
    let elsewhere = TEAM.replace("profile", "host = \"gpu-1\"\nprofile");
    assert_eq!(steps_on(&elsewhere, vec![]), ["Spawn", "Spawn"], "no host here can be gpu-1");
}

#[test]
fn differences_between_a_running_member_and_the_file_are_reported() {
    let file = parse(
        &TEAM
            .replace("\"codex\"", "\"codex\"\nplan = true\nrestart = \"always\"\nreschedule = true\nprompt = \"New.\""),
    );
    let mut found = Found { team: v1::Team { lead: "lead".to_owned(), ..v1::Team::default() }, ..Found::default() };
    found.hosts.push(host(LOCAL, true, 4));
    for member in &parse(TEAM).members {
        found.members.push(there(&member.name, MemberState::Idle, LOCAL));
        found.orders.push(order(member));
    }
    let plan = plan(&file, &State::Team(Box::new(found)));
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert_eq!(
        plan.differences,
        [
            "The restart policy of reviewer is empty, but \"always\" in the file.",
            "The key \"plan\" of reviewer is \"false\", but \"true\" in the file.",
            "The key \"reschedule\" of reviewer is \"false\", but \"true\" in the file.",
            "reviewer was started with a prompt that differs from the file."
        ]
    );
}

#[test]
fn a_budget_is_set_once_and_one_that_was_raised_stays() {
    let file = parse(
        &TEAM
            .replace("name = \"acme\"", "name = \"acme\"\nbudget = \"20 USD\"")
            .replace("profile = \"codex\"", "profile = \"codex\"\nbudget = \"200k tokens\""),
    );
    let mut found = Found { team: v1::Team { lead: "lead".to_owned(), ..v1::Team::default() }, ..Found::default() };
    found.hosts.push(host(LOCAL, true, 4));
    let mut state = State::Team(Box::new(found));
    let first = plan(&file, &state);
    let set = |step: &Step<'_>| matches!(step, Step::SetBudget(..));
    assert_eq!(first.steps.iter().filter(|step| set(step)).count(), 2);
    first.steps.iter().for_each(|step| apply(&file, step, &mut state));
    let second = plan(&file, &state);
    assert!(second.steps.is_empty() && second.kept.contains(&"a budget of reviewer".to_owned()), "{second:?}");
    let State::Team(found) = &mut state else { unreachable!() };
    let reviewer = found.members.iter_mut().find(|there| there.name == "reviewer").unwrap();
    reviewer.budget = Some(v1::Budget { tokens: 300_000, ..v1::Budget::default() });
    let third = plan(&file, &state);
    assert!(third.steps.is_empty());
    let raised = "The budget of reviewer is \"300,000 tokens\", but \"200,000 tokens\" in the file.";
    assert!(third.differences.contains(&raised.to_owned()), "{:?}", third.differences);
}
