//! `teamwire status`: shows the team and its members.

use clap::Args;
use teamwire_client::{TeamChange, v1};
use teamwire_proto::v1::{Finding, FindingClass, Severity, team_item::Item};

use super::Output;
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::Failure,
    show,
};

/// Show your team and its members: role, state, inbox size, what they are doing, and what they have used
///
/// If the team has hosts, the command also shows how many of their slots are taken. It names members whose programs
/// keep crashing, and warns if the team, its tasks or the history of its tasks use 80% or more of their quota.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire status\n    teamwire status --follow --json")]
pub(super) struct Status {
    /// Keep printing changes to members, hosts, requests and tasks until interrupted
    ///
    /// Each change is a line with the new state. If something changes several times in quick succession, only its
    /// latest state is printed. With --json, the output begins with the whole state of the team, and includes activity.
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Status {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        if self.follow {
            return self.follow(&caller).await;
        }
        show(&caller, None, self.output).await
    }

    async fn follow(&self, caller: &Caller) -> Result<(), Failure> {
        let mut watcher = caller.client.watch_team(v1::WatchTeamRequest::default());
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        let mut is_shown = self.output.json;
        loop {
            let changes = tokio::select! {
                changes = watcher.next() => changes,
                _ = &mut interrupted => return Ok(()),
            };
            let Some(changes) = changes else { return Ok(()) };
            let changes = changes?;
            if is_shown {
                changes.iter().for_each(|change| self.print(change));
            } else if watcher.is_current() {
                print(caller, &Shown::of(watcher.items())?.with_findings(caller).await?, self.output);
                anstream::println!();
                is_shown = true;
            }
        }
    }

    fn print(&self, change: &TeamChange) {
        if self.output.json {
            show::line(&show::change_json(change));
        } else {
            show::change(change);
        }
    }
}

/// What a status shows.
struct Shown {
    team: v1::Team,
    members: Vec<v1::Member>,
    hosts: Vec<v1::Host>,
    /// Which programs keep crashing, and how full the team is.
    findings: Vec<Finding>,
}

impl Shown {
    /// Takes what a status shows out of the items of a team. Members are in the order in which they joined.
    fn of<'i>(items: impl Iterator<Item = &'i Item>) -> Result<Self, Failure> {
        let (mut team, mut members, mut hosts) = (None, Vec::new(), Vec::new());
        for item in items {
            match item {
                Item::Team(found) => team = Some(found.clone()),
                Item::Member(member) => members.push(member.clone()),
                Item::Host(host) => hosts.push(host.clone()),
                Item::Request(_) | Item::Task(_) | Item::Activity(_) => {}
            }
        }
        let place =
            |at: Option<&prost_types::Timestamp>, name: &str| (at.map(|at| (at.seconds, at.nanos)), name.to_owned());
        members.sort_by_key(|member| place(member.joined_at.as_ref(), &member.name));
        hosts.sort_by_key(|host| place(host.joined_at.as_ref(), &host.name));
        Ok(Self { team: team.ok_or_else(show::incomplete)?, members, hosts, findings: Vec::new() })
    }

    /// Asks the coordinator which programs keep crashing, and how full the team is.
    async fn with_findings(mut self, caller: &Caller) -> Result<Self, Failure> {
        let is_shown = |finding: &Finding| {
            let class = finding.class();
            matches!(class, FindingClass::Crashing | FindingClass::QuotaNearlyUsed | FindingClass::QuotaExceeded)
        };
        let request = v1::DiagnoseRequest { team: self.team.name.clone(), ..v1::DiagnoseRequest::default() };
        let found = caller.client.diagnose(request).await?.findings;
        self.findings = found.into_iter().filter(is_shown).collect();
        Ok(self)
    }
}

/// Prints the team `named`, or the caller's own, and its members.
pub(super) async fn show(caller: &Caller, named: Option<&str>, output: Output) -> Result<(), Failure> {
    let named = named.unwrap_or_default().to_owned();
    let client = &caller.client;
    let team = client.get_team(v1::GetTeamRequest { team: named.clone() }).await?;
    let team = team.team.ok_or_else(show::incomplete)?;
    let of_team = v1::ListMembersRequest { team: named.clone(), ..Default::default() };
    let members = client.list_all_members(of_team, usize::MAX).await?.members;
    let of_team = v1::ListHostsRequest { team: named, ..Default::default() };
    let hosts = client.list_all_hosts(of_team, usize::MAX).await?.hosts;
    let mut shown = Shown { team, members, hosts, findings: Vec::new() };
    if !output.json {
        shown = shown.with_findings(caller).await?;
    }
    print(caller, &shown, output);
    Ok(())
}

fn print(caller: &Caller, Shown { team, members, hosts, findings }: &Shown, output: Output) {
    let usage = show::usage_of_all(members);
    if output.json {
        let shown: Vec<_> = members.iter().map(|member| show::json("Member", member)).collect();
        let shown_hosts: Vec<_> = hosts.iter().map(|host| show::json("Host", host)).collect();
        let mut value = serde_json::json!({ "team": show::json("Team", team), "members": shown, "hosts": shown_hosts });
        if let Some(usage) = usage {
            value["usage"] = show::json("Usage", &usage);
        }
        show::line(&value);
        return;
    }
    let you = caller.member.as_ref().map_or_else(String::new, |member| format!(", you are {member}"));
    anstream::println!(
        "Team {}{}{you}",
        show::paint(show::bold(), &team.name),
        show::paint(show::dim(), format!(" at {}", caller.address))
    );
    if !team.description.is_empty() {
        anstream::println!("{}", show::plain(&team.description));
    }
    anstream::println!();
    show::members(members);
    for finding in findings {
        let style = if finding.severity() == Severity::Problem { show::warning() } else { show::dim() };
        anstream::println!("\n{}", show::paint(style, show::plain(&finding.text)));
    }
    if let Some(text) = show::hosts_in_all(hosts) {
        anstream::println!("\n{text}");
    }
    if let Some(usage) = usage {
        anstream::println!("\nUsed in all: {}", show::usage(&usage));
    }
}
