//! `teamwire down`: ends a team, and the processes that `teamwire up` started for it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use teamwire_client::{Error, KeptIdentity, Reason, v1};
use teamwire_proto::{
    v1::{MemberState, RequestState},
    word,
};
use tokio::time::{Instant, sleep};

use super::{
    Output,
    confirm::Confirm,
    host::leftovers,
    shown,
    up::{
        FILE,
        coordinator::{Reached, reach},
        records::Records,
        report::{Outcome, Report},
    },
    waiting::Wait,
};
use crate::{
    context::{Caller, ContextArgs, refuse_within_runner},
    failure::{Failure, NOT_IN_TIME, REJECTED, UNREACHABLE},
    show,
};

/// The reason that members get.
const REASON: &str = "teamwire down";

/// How long a member may take to exit after it was stopped by force. Longer than its runner's grace period.
const FORCED_EXIT_MAX: Duration = Duration::from_secs(30);

/// How long the local host and the coordinator may take to exit before the command kills them.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// How often to check whether a member has exited.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// End a team that `teamwire up` started
///
/// Asks every member except you to shut down, unless the member is away or lost. Waits for their answers and for their
/// processes to exit. If a member rejects, or does not answer or exit in time, the command says so and does not end the
/// team. The exit code is then 3 for a rejection, or 5 for a timeout. With --force, the command instead stops such a
/// member by force.
///
/// Once every member that was asked has exited, the command stops the local host, deletes the team with its messages,
/// tasks and history, and stops the coordinator unless it has other teams. The local host and the coordinator stop only
/// if `teamwire up` started them. Before the command deletes a team that `teamwire up` did not create, it asks for
/// confirmation.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire down\n    teamwire down --force --grace 10s\n    teamwire down backend-team.toml --keep-team"
)]
pub(super) struct Down {
    /// The file that describes the team [default: team.toml, or else the only team that `teamwire up` started here]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// How long members may take to answer and to exit
    #[arg(long, default_value = "60s", value_name = "DURATION")]
    grace: Wait,
    /// Stop members by force if they reject, or do not answer or exit in time
    #[arg(long)]
    force: bool,
    /// Keep the team and its coordinator
    #[arg(long)]
    keep_team: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pub output: Output,
}

/// How a member responded to the request.
enum Answer {
    /// It has ended. Holds how.
    Ended(String),
    /// It has not ended. Holds why, and the command's exit code.
    HoldsOut(String, u8),
}

impl Down {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("A team cannot be ended here.")?;
        let report = Report { json: self.output.json };
        let records = Records::of(context)?;
        let team = self.team(context, &records)?;
        let _lock = records.lock()?;
        match reach(context, &team).await? {
            Reached::Coordinator(caller, Some(found)) => {
                self.end_team(context, &caller, &found.name, &records, report).await?;
            }
            Reached::Coordinator(_, None) => {
                report.text(&format!("There is no team {team}."));
                end_host(context, &records, &team, report).await?;
                forget(context, &records, &team)?;
            }
            Reached::Nothing { .. } if records.team(&team)?.is_none() => {
                report.text(&format!("Nothing runs for team {team}."));
                return Ok(());
            }
            Reached::Nothing { .. } => {
                return Err(Failure::with_code(
                    UNREACHABLE,
                    format!(
                        "The coordinator of team {team} does not run, so its members cannot be asked. Start it with `teamwire up` \
                         or `teamwire serve`, and repeat this command."
                    ),
                ));
            }
        }
        if !self.keep_team {
            stop_coordinator(context, &records, report).await?;
        }
        Ok(())
    }

    /// Returns the name of the team to end.
    fn team(&self, context: &ContextArgs, records: &Records) -> Result<String, Failure> {
        let default = Path::new(FILE);
        match (&self.file, context.team(), records.teams().as_slice()) {
            (Some(file), _, _) => name_in(file),
            (None, Some(team), _) => Ok(team.to_owned()),
            (None, None, _) if default.exists() => name_in(default),
            (None, None, [only]) => Ok(only.clone()),
            (None, None, []) => Err(Failure::usage(format!(
                "There is no {FILE} here, and `teamwire up` has started no team on this machine. Name the team's file."
            ))),
            (None, None, several) => Err(Failure::usage(format!(
                "There is no {FILE} here. Choose a team with --team: {}.",
                several.join(", ")
            ))),
        }
    }

    async fn end_team(
        &self,
        context: &ContextArgs,
        caller: &Caller,
        team: &str,
        records: &Records,
        report: Report,
    ) -> Result<(), Failure> {
        let record = records.team(team)?;
        let is_ours = record.is_some_and(|record| record.created);
        if !self.keep_team && !is_ours {
            let what = format!(
                "Team {team}, which `teamwire up` did not create, will be deleted with all its data, for good."
            );
            self.confirm.ask(&what, " To keep it, add --keep-team.")?;
        }
        let own = context.load()?;
        let own: Vec<&KeptIdentity> = own.in_team(team);
        self.end_members(caller, &own, report).await?;
        end_host(context, records, team, report).await?;
        if self.keep_team {
            report.line("team", team, Outcome::Kept, &format!("Team {team} stays."));
            return Ok(());
        }
        for identity in own.into_iter().filter(|identity| !caller.is(&identity.member)) {
            // A team with a live member cannot be deleted. This member may have left before.
            let _ = context.caller_of(identity)?.client.leave(0).await;
        }
        caller.client.delete_team(v1::DeleteTeamRequest { team: team.to_owned() }).await?;
        context.remove_identities(&caller.address, team, None)?;
        forget(context, records, team)?;
        report.line("team", team, Outcome::Done, &format!("Deleted team {team} and all its data."));
        Ok(())
    }

    /// Asks every member except the person who runs the command to shut down. With --force, stops those that do not.
    /// `own`: that person's identities.
    async fn end_members(&self, caller: &Caller, own: &[&KeptIdentity], report: Report) -> Result<(), Failure> {
        let members = caller.client.members().await?;
        let is_asked = |member: &&v1::Member| {
            let is_own = caller.is(&member.name) || own.iter().any(|identity| identity.is(&member.name, None));
            !is_own && !matches!(member.state(), MemberState::Exited | MemberState::Away | MemberState::Lost)
        };
        let asked = members.iter().filter(is_asked);
        let mut answers: FuturesUnordered<_> =
            asked.map(|member| async move { (&member.name, self.ask(caller, member).await) }).collect();
        let mut holding_out = Vec::new();
        while let Some((name, answer)) = answers.next().await {
            match answer? {
                Answer::Ended(how) => report.line("member", name, Outcome::Done, &format!("{name} {how}.")),
                Answer::HoldsOut(why, code) => {
                    let why = format!("{name} {why}");
                    report.line("member", name, Outcome::Failed, &why);
                    holding_out.push((name, code));
                }
            }
        }
        let Some((_, code)) = holding_out.first() else { return Ok(()) };
        if !self.force {
            let names: Vec<&str> = holding_out.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Failure::with_code(
                *code,
                format!(
                    "The team was not ended, because of {}. Repeat the command later, or add --force to stop them.",
                    names.join(", ")
                ),
            ));
        }
        for (name, _) in holding_out {
            force(caller, name).await?;
            let how = exit_of(caller, name, FORCED_EXIT_MAX).await?.ok_or_else(|| {
                Failure::with_code(
                    NOT_IN_TIME,
                    format!(
                        "{name} was stopped by force, but its process has not ended within {} s.",
                        FORCED_EXIT_MAX.as_secs()
                    ),
                )
            })?;
            report.line("member", name, Outcome::Done, &format!("{name} was stopped by force: {how}."));
        }
        Ok(())
    }

    /// Asks a member to shut down, and waits for its answer and its exit.
    async fn ask(&self, caller: &Caller, member: &v1::Member) -> Result<Answer, Failure> {
        let (name, Wait(grace)) = (member.name.as_str(), self.grace);
        let began = Instant::now();
        if member.state() == MemberState::Spawning {
            // It cannot answer yet.
            force(caller, name).await?;
            return Ok(Answer::Ended("had not started yet; its order is cancelled".to_owned()));
        }
        if member.state() != MemberState::Stopping {
            let id = match caller.client.request_shutdown(name, REASON).await {
                Ok(id) => id,
                Err(error) if error.reason() == Some(Reason::AgentExited) => {
                    return Ok(Answer::Ended("has exited".to_owned()));
                }
                Err(error) => return Err(error.into()),
            };
            let request = caller.client.wait_decision(&id, grace).await?;
            match request.state() {
                RequestState::Approved | RequestState::Cancelled => {}
                RequestState::Pending | RequestState::Unspecified => {
                    let why = format!("has not answered within {} s.", grace.as_secs());
                    return Ok(Answer::HoldsOut(why, NOT_IN_TIME));
                }
                RequestState::Rejected | RequestState::Expired => {
                    shown::acknowledge_decision(caller, &request).await;
                    let why = format!("was not shut down: {}", show::request_text(&request));
                    return Ok(Answer::HoldsOut(why, REJECTED));
                }
            }
            shown::acknowledge_decision(caller, &request).await;
        }
        Ok(match exit_of(caller, name, grace.saturating_sub(began.elapsed())).await? {
            Some(how) => Answer::Ended(format!("exited: {how}")),
            None => Answer::HoldsOut("approved, but its process has not ended.".to_owned(), NOT_IN_TIME),
        })
    }
}

/// Returns the team's name in a file. Ignores everything else in the file, so that a team can be ended even if its file
/// is no longer valid.
fn name_in(path: &Path) -> Result<String, Failure> {
    let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(format!("{error}.")))?;
    let document = toml_edit::Document::parse(text.as_str()).map_err(|error| wrong(error.to_string()))?;
    let name = document.get("name").and_then(|name| name.as_str());
    name.map(ToOwned::to_owned).ok_or_else(|| wrong("the key `name` is missing.".to_owned()))
}

/// Stops a member by force, unless it has exited meanwhile.
async fn force(caller: &Caller, name: &str) -> Result<(), Error> {
    match caller.client.force_stop(name, REASON).await {
        Err(error) if error.reason() != Some(Reason::AgentExited) => Err(error),
        _ => Ok(()),
    }
}

/// Waits until a member has exited, and returns how. `None` if it has not exited in time.
async fn exit_of(caller: &Caller, name: &str, patience: Duration) -> Result<Option<String>, Failure> {
    let began = Instant::now();
    loop {
        match caller.find_member(name).await? {
            None => return Ok(Some("it is no longer a member".to_owned())),
            Some(member) if member.state() == MemberState::Exited => {
                shown::acknowledge_exit(caller, &member).await;
                return Ok(Some(word::exit_and_duration(&member.exit.unwrap_or_default())));
            }
            Some(member) if member.state() == MemberState::Lost => return Ok(Some("it was lost".to_owned())),
            Some(_) if began.elapsed() >= patience => return Ok(None),
            Some(_) => sleep(LOOK_EVERY).await,
        }
    }
}

/// Ends the local host if `up` has started it, and does what it has not come to: it may have been killed before.
async fn end_host(context: &ContextArgs, records: &Records, team: &str, report: Report) -> Result<(), Failure> {
    let Some(host) = records.team(team)?.and_then(|record| record.host) else { return Ok(()) };
    if host.is_alive() {
        host.end(STOP_GRACE).await;
        report.line("host", "local", Outcome::Done, "Ended the local host.");
    }
    for kept in leftovers::clear(context, team).await? {
        report.text(&kept);
    }
    Ok(())
}

/// Removes what this machine has kept about a team.
fn forget(context: &ContextArgs, records: &Records, team: &str) -> Result<(), Failure> {
    if records.team(team)?.is_some_and(|record| record.host.is_some()) {
        leftovers::remove(context, team)?;
    }
    records.remove_team(team);
    Ok(())
}

/// Stops the coordinator if `up` started it and it has no more teams.
async fn stop_coordinator(context: &ContextArgs, records: &Records, report: Report) -> Result<(), Failure> {
    let Some(record) = records.coordinator()? else { return Ok(()) };
    let operator = context.operator()?;
    if operator.address != record.address {
        return Ok(());
    }
    let teams = operator.client.list_all_teams(v1::ListTeamsRequest::default(), usize::MAX).await?.teams;
    let names: Vec<&str> = teams.iter().map(|team| team.name.as_str()).collect();
    if !names.is_empty() {
        let text = format!("The coordinator keeps running, because it has other teams ({}).", names.join(", "));
        report.line("coordinator", &record.address, Outcome::Kept, &text);
        return Ok(());
    }
    record.process.end(STOP_GRACE).await;
    records.remove_coordinator();
    report.line("coordinator", &record.address, Outcome::Done, "Ended the coordinator.");
    Ok(())
}
