//! `teamwire up`: starts the team that a file describes.
//!
//! | module | what it does |
//! |---|---|
//! | [`file`], [`check`] | the file, and what is wrong with it |
//! | [`plan`] | compares the file with the team; pure |
//! | [`state`] | reads the team |
//! | [`apply`] | carries out a plan |
//! | [`coordinator`], [`local_host`] | what is started on this machine, with [`background`] |
//! | [`records`] | what was started, for `teamwire down` |
//! | [`report`] | the output of both commands |

mod apply;
pub(super) mod background;
mod check;
pub(super) mod coordinator;
mod file;
mod local_host;
mod plan;
pub(super) mod records;
pub(super) mod report;
mod state;

use std::path::PathBuf;

use clap::Args;

use self::{
    apply::{Run, show_unchanged},
    coordinator::{Reached, reach},
    file::TeamFile,
    plan::{Plan, State, Step, plan},
    records::Records,
    report::{Outcome, Report},
};
use super::Output;
use crate::{
    context::{ContextArgs, refuse_within_runner},
    failure::Failure,
};

/// The file that `up` and `down` read unless another is named.
pub(super) const FILE: &str = "team.toml";

/// Start the team that a file describes
///
/// Starts a coordinator and a host on this machine if no other can be used, creates the team, starts its members, and adds its
/// tasks. Then waits until every member has started. The command adds only what is missing. It does not change what already
/// exists, and says where that differs from the file. So you can run it again, for example after you have added a member to the
/// file or restarted the machine. docs/team-file.md describes the file.
///
/// If a member cannot be started, the command continues with the others; the exit code is then that of `teamwire spawn`. To
/// stop the processes in the background, run `teamwire down`.
#[derive(Args, Debug)]
#[command(
    after_help = "A file:\n\n    name = \"acme\"\n\n    [[members]]\n    name = \"backend\"\n    profile = \"claude\"\n    prompt = \"You own the API.\"\n\nExamples:\n\n    teamwire up\n    teamwire up --dry-run\n    teamwire up backend-team.toml --json"
)]
pub struct Up {
    /// The file that describes the team
    #[arg(value_name = "FILE", default_value = FILE)]
    file: PathBuf,
    /// Show what the command would do, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Up {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("A team cannot be started here.")?;
        let file = TeamFile::load(&self.file)?;
        let records = Records::of(context)?;
        let report = Report { json: self.output.json };
        if self.dry_run {
            return dry_run(context, &file, &records, report).await;
        }
        let _lock = records.lock()?;
        Run { context, file: &file, records: &records, report }.run().await
    }
}

async fn dry_run(context: &ContextArgs, file: &TeamFile, records: &Records, report: Report) -> Result<(), Failure> {
    let state = match reach(context, &file.name).await? {
        Reached::Nothing { .. } => State::NoCoordinator,
        Reached::Coordinator(_, None) => State::NoTeam,
        Reached::Coordinator(caller, Some(team)) => {
            let record = records.team(&file.name)?;
            State::Team(Box::new(state::read(&caller, team, record.as_ref()).await?))
        }
    };
    let plan = plan(file, &state);
    show_unchanged(report, &plan);
    show_planned(report, file, &plan);
    Ok(())
}

fn show_planned(report: Report, file: &TeamFile, plan: &Plan<'_>) {
    for step in &plan.steps {
        let (what, name, text) = match step {
            Step::StartCoordinator => {
                ("coordinator", "", "Would start a coordinator, and then create what its store lacks:".to_owned())
            }
            Step::CreateTeam => ("team", file.name.as_str(), format!("Would create team {}.", file.name)),
            Step::StartHost => ("host", file::LOCAL, "Would start the local host.".to_owned()),
            Step::Spawn(member) => {
                let host = member.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
                ("member", member.name.as_str(), format!("Would start {}: {}{host}.", member.name, member.profile))
            }
            Step::Await { name, .. } => ("member", *name, format!("Would wait until {name} has started.")),
            Step::CreateTask(task) => ("task", task.key(), format!("Would create task \"{}\".", task.subject)),
            Step::HandOver(member) => ("lead", member.name.as_str(), format!("Would make {} the lead.", member.name)),
        };
        report.line(what, name, Outcome::Planned, &text);
    }
    if plan.steps.is_empty() {
        report.text(&format!("There is nothing to do for team {}.", file.name));
    }
}
