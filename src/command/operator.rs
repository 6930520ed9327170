//! `teamwire operator`: replaces the operator's credential.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand};
use serde_json::json;
use teamwire_client::{Error, Reason, Retry, v1};
use teamwire_proto::credential::Credential;
use tokio::time::{Instant, sleep};

use super::{
    Output,
    serve::operator::{Former, new_credential, secret_in},
};
use crate::{
    context::{ContextArgs, OPERATOR_FILE, Who, refuse_shared, write_private},
    failure::{Failure, NOT_IN_TIME},
    show,
};

/// How long to wait until the coordinator of this machine has read the new credential.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often to ask it.
const POLL: Duration = Duration::from_millis(200);

/// Replace the operator's credential
#[derive(Debug, Subcommand)]
pub(super) enum Operator {
    /// Replace the operator's credential, without a restart
    ///
    /// Writes a new credential to the state directory of this machine's coordinator, and waits until the coordinator
    /// has read it, which takes seconds. The old credential works for a while longer. Then its streams end, and so do
    /// the sign-ins to the console that were created with it. If it leaked, use --grace 0.
    ///
    /// If the coordinator's configuration names a credential file (`operator_credential`), pass that path with --file.
    /// The command then replaces that file.
    Rotate(Rotate),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire operator rotate\n    teamwire operator rotate --grace 0    # the old one leaked\n    teamwire operator rotate --file /etc/teamwire/operator"
)]
pub(super) struct Rotate {
    /// How long the old credential still works, in seconds
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=604_800))]
    grace: u64,
    /// The file that `operator_credential` names in the coordinator's configuration
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Operator {
    /// Runs the command. Returns its outcome, and whether it prints JSON.
    pub(super) async fn run(&self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match self {
            Self::Rotate(command) => (command.run(context).await, command.output.json),
        }
    }
}

/// What became of a new credential.
enum Outcome {
    /// The coordinator accepts it.
    Accepted,
    /// No coordinator runs here. The next start reads it.
    NotRunning,
}

impl Rotate {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        context.refuse_others("replace the operator's credential")?;
        let state_dir = context.state_dir()?;
        let path = self.file.clone().unwrap_or_else(|| state_dir.join(OPERATOR_FILE));
        refuse_shared(&path)?;
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::usage(format!("Cannot read {}: {error}.", path.display())))?;
        let Some(old) = text.lines().next().and_then(secret_in) else {
            return Err(Failure::usage(format!("{} does not hold an operator's credential.", path.display())));
        };
        // First the old one's end, so that no moment is without it.
        let before = Former::read(&state_dir);
        before.with(&old, Duration::from_secs(self.grace)).write(&state_dir)?;
        let new = new_credential();
        write_private(&path, format!("{}\n", new.reveal()).as_bytes())?;
        match accepted(context, &new).await {
            Ok(outcome) => self.print(&path, &outcome),
            Err(failure) if self.file.is_none() => {
                // Otherwise no command on this machine could act as the operator any more.
                write_private(&path, text.as_bytes())?;
                before.write(&state_dir)?;
                Err(failure)
            }
            Err(failure) => Err(failure),
        }
    }

    fn print(&self, path: &Path, outcome: &Outcome) -> Result<(), Failure> {
        let is_running = matches!(outcome, Outcome::Accepted);
        if self.output.json {
            let path = path.display().to_string();
            show::line(&json!({ "file": path, "grace_seconds": self.grace, "accepted": is_running }));
            return Ok(());
        }
        let until = match self.grace {
            0 => "The old one no longer works.".to_owned(),
            seconds => format!("The old one works for another {seconds} s."),
        };
        match outcome {
            Outcome::Accepted => {
                anstream::println!("The coordinator accepts the new credential in {}. {until}", path.display());
            }
            Outcome::NotRunning => anstream::println!(
                "There is a new credential in {}. No coordinator is running here; the next start reads it. {until}",
                path.display()
            ),
        }
        Ok(())
    }
}

/// Waits until this machine's coordinator accepts a new credential.
async fn accepted(context: &ContextArgs, new: &Credential) -> Result<Outcome, Failure> {
    let client = context.caller(Who::OperatorWith(new))?.client.with_team("").with_retry(Retry::none());
    let began = Instant::now();
    loop {
        match client.get_caller(v1::GetCallerRequest::default()).await {
            Ok(_) => return Ok(Outcome::Accepted),
            Err(Error::Unreachable { is_refused: true, .. }) => return Ok(Outcome::NotRunning),
            Err(error) if began.elapsed() >= PATIENCE => {
                let is_unknown = error.reason() == Some(Reason::CredentialInvalid);
                return Err(Failure::with_code(
                    NOT_IN_TIME,
                    match is_unknown {
                        true => "The coordinator does not accept the new credential. If its configuration names a file \
                                 (`operator_credential`), give that file with --file. A coordinator reads the file every \
                                 `tls.reload_interval`, and on SIGHUP."
                            .to_owned(),
                        false => format!("Whether the coordinator accepts the new credential is not known: {error}"),
                    },
                ));
            }
            Err(_) => sleep(POLL).await,
        }
    }
}
