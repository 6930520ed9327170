//! `teamwire up`: starts the team that a file describes.
//!
//! | module | what it does |
//! |---|---|
//! | [`file`], [`check`] | the file, and what is wrong with it |
//! | [`plan`] | compares the file with the team; pure |
//! | [`state`] | reads the team |
//! | [`apply`] | carries out a plan |
//! | [`dry_run`] | shows a plan, and which members could not be started |
//! | [`coordinator`], [`local_host`] | what is started on this machine, with [`background`] |
//! | [`permissions`] | has a person confirm the file's permission rules |
//! | [`records`] | what was started, for `teamwire down` |
//! | [`report`] | the output of both commands |

mod apply;
pub(super) mod background;
pub(super) mod check;
pub(super) mod coordinator;
mod dry_run;
mod file;
mod local_host;
mod permissions;
mod plan;
pub(super) mod records;
pub(super) mod report;
mod state;

use std::{io::IsTerminal as _, path::PathBuf};

use clap::Args;

use self::{apply::Run, dry_run::dry_run, records::Records, report::Report};
use super::Output;
use crate::{
    context::{ContextArgs, refuse_within_runner},
    failure::Failure,
};

/// The file that `up` and `down` read unless another is named.
pub(super) const FILE: &str = "team.toml";

/// Start the team that a file describes
///
/// Starts a coordinator and a host on this machine if the team needs them, creates the team, starts its members, and
/// adds its tasks. Then waits until every member has started. The command adds only what is missing. If you lead the
/// team, and the file names a member as its lead, the command makes that member the lead. It changes nothing else that
/// already exists, but reports any difference from the file. So you can run it again, for example after you have added
/// a member to the file or restarted the machine. docs/team-file.md describes the file.
///
/// If a member cannot be started, the command continues with the others; the exit code is then the same as for
/// `teamwire spawn`. To stop the background processes, run `teamwire down`.
#[derive(Args, Debug)]
#[command(
    after_help = "A file:\n\n    name = \"acme\"\n\n    [[members]]\n    name = \"backend\"\n    profile = \"claude\"\n    prompt = \"You own the API.\"\n\nExamples:\n\n    teamwire up\n    teamwire up --dry-run\n    teamwire up backend-team.toml --json"
)]
pub(super) struct Up {
    /// The file that describes the team
    #[arg(value_name = "FILE", default_value = FILE)]
    file: PathBuf,
    /// Show what the command would do, and do nothing. The exit code is 1 if there is a member that no host could start
    #[arg(long)]
    dry_run: bool,
    /// Do not open the console in a browser after creating the team, which happens at a terminal if there is a display
    #[arg(long)]
    no_open: bool,
    /// Confirm the permission rules in the file. Without this, the command asks at a terminal whenever they have changed
    #[arg(long)]
    accept_permissions: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Up {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("A team cannot be started here.")?;
        let file = check::load(&self.file)?;
        let records = Records::of(context)?;
        let report = Report { json: self.output.json };
        if self.dry_run {
            return dry_run(context, &file, &records, report).await;
        }
        let _lock = records.lock()?;
        permissions::confirm(&self.file, &file.rules, &records, self.accept_permissions, !self.output.json)?;
        let opens_console = !self.no_open && !self.output.json && std::io::stdout().is_terminal();
        Run { context, file: &file, records: &records, report, opens_console }.run().await
    }
}
