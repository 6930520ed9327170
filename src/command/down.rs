//! `teamwire down`: ends a team, and the processes that `teamwire up` started for it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use teamwire_agents::{Pid, transcript::team_directory};
use teamwire_client::{Error, KeptIdentity, Reason, v1};
use teamwire_proto::{
    v1::{MemberState, RequestState},
    word,
};
use tokio::time::{Instant, sleep};

use super::{
    Output,
    confirm::Confirm,
    history::export::export,
    host::leftovers,
    shown, transcript,
    up::{
        FILE,
        background::STOP_GRACE,
        coordinator::{Reached, reach},
        records::Records,
        report::{Outcome, Report},
    },
    waiting::Wait,
};
use crate::{
    context::{Caller, ContextArgs, Who, make_private_directory, refuse_within_runner},
    failure::{Failure, NOT_IN_TIME, REJECTED, UNREACHABLE},
    show,
};

/// The reason that members get.
const REASON: &str = "teamwire down";

/// How long a member may take to exit after it was stopped by force. Longer than its runner's grace period.
const FORCED_EXIT_MAX: Duration = Duration::from_secs(30);

/// How many characters of a team's id tell its archive from that of another team with its name.
const ID_CHARS: usize = 8;

/// How often to check whether a member has exited.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// End a team that `teamwire up` started
///
/// Asks every member except you to shut down, unless the member is away or lost. Waits for their answers and for their
/// processes to exit. If a member rejects, or does not answer or exit in time, the command says so and does not end the
/// team. The exit code is then 3 for a rejection, or 5 for a timeout. With --force, the command does not ask: it stops
/// every such member by force.
///
/// Once every member that was asked has exited, the command stops the local host, writes the team's history to a file,
/// deletes the team with its messages, tasks and history, and stops the coordinator unless it has other teams. The local
/// host and the coordinator stop only if `teamwire up` started them. The command names the file, and each worktree and
/// branch of a member on this machine that stays.
///
/// At a terminal, the command first says what will be deleted, and asks for confirmation. Elsewhere it asks only before it
/// deletes a team that `teamwire up` did not create, which then requires --yes.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire down\n    teamwire down --force\n    teamwire down backend-team.toml --keep-team"
)]
pub(super) struct Down {
    /// The file that describes the team [default: team.toml, or else the only team that `teamwire up` started here]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// How long members may take to answer and to exit
    #[arg(long, default_value = "60s", value_name = "DURATION")]
    grace: Wait,
    /// Stop members by force, without asking them
    #[arg(long)]
    force: bool,
    /// Keep the team and its coordinator
    #[arg(long)]
    keep_team: bool,
    /// Write no history to a file before the team is deleted, and delete its transcripts on this machine
    #[arg(long)]
    no_archive: bool,
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
                self.end_team(context, &caller, &found, &records, report).await?;
            }
            Reached::Coordinator(caller, None) => {
                report.text(&format!("There is no team {team}."));
                end_host(context, &records, &team, report).await?;
                context.remove_identities(&caller.address, &team, None)?;
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
        team: &v1::Team,
        records: &Records,
        report: Report,
    ) -> Result<(), Failure> {
        let record = records.team(&team.name)?;
        let is_ours = record.is_some_and(|record| record.created || record.creating.is_some());
        let archive = (!self.no_archive).then(|| archive(context, team)).transpose()?;
        let team_id = team.id.as_str();
        if !self.keep_team {
            let what = what_ends(caller, team, archive.as_deref()).await?;
            let keep = " To keep it, add --keep-team.";
            match is_ours {
                true => self.confirm.ask_at_terminal(&what, keep)?,
                false => self.confirm.ask(&format!("`teamwire up` did not create team {}. {what}", team.name), keep)?,
            }
        }
        let team = team.name.as_str();
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
            let _ = context.caller(Who::Saved(identity))?.client.leave(0).await;
        }
        if let Some(path) = archive {
            // After the last member has ended, so that nothing is missing.
            let cannot = |failure: Failure| {
                let text = failure.message().trim_end_matches('.').to_owned();
                Failure::with_code(
                    failure.code(),
                    format!(
                        "{text}. The team was not deleted: its history could not be kept. To delete it all the same, add --no-archive."
                    ),
                )
            };
            if let Some(directory) = path.parent() {
                make_private_directory(directory)?;
            }
            let all = v1::HistoryFilter { include_receipts: true, ..v1::HistoryFilter::default() };
            let (_, entries) = export(&caller.client, all, &path, true, false).await.map_err(cannot)?;
            let text = format!("Kept the history, {}, in {}.", show::count(entries, "entry"), path.display());
            report.line("history", team, Outcome::Kept, &text);
        }
        caller.client.delete_team(v1::DeleteTeamRequest { team: team.to_owned() }).await?;
        context.remove_identities(&caller.address, team, None)?;
        forget(context, records, team)?;
        report.line("team", team, Outcome::Done, &format!("Deleted team {team} and all its data."));
        if self.no_archive {
            delete_transcripts(context, team_id)?;
        }
        Ok(())
    }

    /// Asks every member except the person who runs the command to shut down; with --force, stops them instead. `own`: that person's identities.
    async fn end_members(&self, caller: &Caller, own: &[&KeptIdentity], report: Report) -> Result<(), Failure> {
        let members = caller.client.members().await?;
        let is_asked = |member: &&v1::Member| {
            let is_own = caller.is(&member.name) || own.iter().any(|identity| identity.is(&member.name, None));
            !is_own && !matches!(member.state(), MemberState::Exited | MemberState::Away | MemberState::Lost)
        };
        let asked = members.iter().filter(is_asked);
        let mut answers: FuturesUnordered<_> = asked
            .map(|member| async move {
                let ended = match self.force {
                    true => end_by_force(caller, member).await,
                    false => self.ask(caller, member).await,
                };
                (&member.name, ended)
            })
            .collect();
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
        let names: Vec<&str> = holding_out.iter().map(|(name, _)| name.as_str()).collect();
        let instead = match self.force {
            true => "End their processes on their machines, and repeat the command.",
            false => "Repeat the command later, or add --force to stop them.",
        };
        let text = format!("The team was not ended, because of {}. {instead}", names.join(", "));
        Err(Failure::with_code(*code, text))
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
            let request = match caller.client.wait_decision(&id, grace).await {
                Err(error) if error.reason() == Some(Reason::AnswererLost) => {
                    return Ok(Answer::Ended("was lost".to_owned()));
                }
                request => request?,
            };
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

/// Returns where the history of a team goes before the team is deleted.
fn archive(context: &ContextArgs, team: &v1::Team) -> Result<PathBuf, Failure> {
    // The end of the id is random. Its beginning is the time, and the same for teams of one minute.
    let id = &team.id[team.id.len().saturating_sub(ID_CHARS)..];
    Ok(context.state_dir()?.join("archive").join(format!("{}-{id}.jsonl", team.name.to_ascii_lowercase())))
}

/// Deletes what the runners of a team have kept on this machine.
fn delete_transcripts(context: &ContextArgs, team_id: &str) -> Result<(), Failure> {
    let Some(directory) = team_directory(&context.state_dir()?.join(transcript::DIRECTORY), team_id) else {
        return Ok(());
    };
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::local(&format!("Cannot delete {}", directory.display()), error))
        }
        _ => Ok(()),
    }
}

/// Says what will be deleted with a team.
async fn what_ends(caller: &Caller, team: &v1::Team, archive: Option<&Path>) -> Result<String, Failure> {
    let client = &caller.client;
    let members = client.members().await?;
    let unread = members.iter().map(|member| member.inbox_depth).sum();
    let tasks = client.list_all_tasks(v1::ListTasksRequest::default(), usize::MAX).await?.tasks;
    let open = tasks.iter().filter(|task| task.status() != v1::TaskStatus::Completed).count();
    let pending = v1::ListRequestsRequest { state: RequestState::Pending.into(), ..v1::ListRequestsRequest::default() };
    let pending = client.list_all_requests(pending, usize::MAX).await?.requests.len();
    let away: Vec<&str> = members
        .iter()
        .filter(|member| member.state() == MemberState::Away && !caller.is(&member.name))
        .map(|member| member.name.as_str())
        .collect();
    let history = match archive {
        Some(path) => format!(" Its history will stay in {}.", path.display()),
        None => " All of its data will be gone.".to_owned(),
    };
    let away = match away.as_slice() {
        [] => String::new(),
        [one] => format!(" {one} is away."),
        several => format!(" {} are away.", several.join(", ")),
    };
    Ok(format!(
        "Team {} will be deleted: {}, {}, {} and {}.{away}{history}",
        team.name,
        show::count(members.len() as u64, "member"),
        show::count(unread, "unread message"),
        show::count(open as u64, "open task"),
        show::count(pending as u64, "pending request"),
    ))
}

/// Stops a member by force, and waits for its exit.
async fn end_by_force(caller: &Caller, member: &v1::Member) -> Result<Answer, Failure> {
    let name = member.name.as_str();
    force(caller, name).await?;
    if member.state() == MemberState::Spawning {
        return Ok(Answer::Ended("had not started yet; its order is cancelled".to_owned()));
    }
    Ok(match exit_of(caller, name, FORCED_EXIT_MAX).await? {
        Some(how) => Answer::Ended(format!("was stopped by force: {how}")),
        None => {
            let patience = FORCED_EXIT_MAX.as_secs();
            let why = format!("was stopped by force, but its process has not ended within {patience} s.");
            Answer::HoldsOut(why, NOT_IN_TIME)
        }
    })
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
            Some(member) if member.state() == MemberState::Lost => {
                return Ok(Some("it was lost, and no one has seen its process end".to_owned()));
            }
            Some(_) if began.elapsed() >= patience => return Ok(None),
            Some(_) => sleep(LOOK_EVERY).await,
        }
    }
}

/// Ends the local host if `up` has started it, and does what it has not come to: it may have been killed before.
async fn end_host(context: &ContextArgs, records: &Records, team: &str, report: Report) -> Result<(), Failure> {
    let Some(record) = records.team(team)? else { return Ok(()) };
    if let Some(host) = record.host.filter(Pid::is_alive) {
        host.end(STOP_GRACE).await;
        report.line("host", "local", Outcome::Done, "Ended the local host.");
    }
    for kept in leftovers::clear(context, team).await? {
        report.line("worktree", "local", Outcome::Kept, &kept);
    }
    Ok(())
}

/// Removes what this machine has kept about a team.
fn forget(context: &ContextArgs, records: &Records, team: &str) -> Result<(), Failure> {
    if records.team(team)?.is_some() {
        leftovers::remove(context, team)?;
    }
    records.remove_team(team);
    Ok(())
}

/// Stops the coordinator if `up` started it and it has no more teams.
async fn stop_coordinator(context: &ContextArgs, records: &Records, report: Report) -> Result<(), Failure> {
    let Some(record) = records.coordinator()? else { return Ok(()) };
    let operator = context.caller(Who::Operator)?;
    // `up` may have been killed before it knew the address.
    if !record.address.is_empty() && operator.address != record.address {
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
