//! `teamwire spawn`: orders a teammate from a host, and waits for its start.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use teamwire_client::v1;
use teamwire_proto::v1::{RequestState, RestartPolicy};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    Output, pair, shown,
    waiting::{self, Wait},
};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::{Failure, INTERRUPTED, NOT_IN_TIME, REJECTED, UNANSWERED},
    show,
};

/// How much longer than the order's deadline the command waits, so that the coordinator's decision arrives.
const DECISION_GRACE: Duration = Duration::from_secs(30);

/// Start a teammate on a host
///
/// Orders a teammate from a host (see `teamwire host`), and waits until it has started. Without --on, the coordinator
/// chooses the host: of those that have the profile and the labels, the one with the most free slots. The prompt
/// becomes the teammate's first message. Only the lead and the operator can do this.
///
/// The exit code is 0 if the teammate has started, 3 if the host could not start it, 4 if the order expired or was
/// cancelled, and 130 if you stop waiting with Ctrl-C; the order then stays pending. If the teammate did not start, its
/// name is free again. The command also acknowledges the notice in your inbox about the start, because its output says
/// the same.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire spawn backend --profile claude --on gpu-1 --prompt \"You own the API. Start with task 3.\"\n    teamwire spawn reviewer --profile codex --label gpu=a100 --plan\n    teamwire spawn tester --profile claude --prompt-file tester.md --deadline 10m --no-wait"
)]
pub(super) struct Spawn {
    /// The new teammate's name
    name: String,
    /// What to start: the name of a profile that a host offers (see `teamwire hosts`)
    #[arg(long, short, value_name = "PROFILE")]
    profile: String,
    /// The host to start it on [default: chosen by the coordinator]
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true)]
    on: String,
    /// A label that the host must have; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// The teammate's instructions; use '-' to read them from standard input
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file")]
    prompt: Option<String>,
    /// A file with the teammate's instructions
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// Require the teammate to have a plan approved before it works on tasks
    #[arg(long)]
    plan: bool,
    /// A tag that the teammate gets besides those of its profile, so that messages to @TAG reach it; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// When the runner restarts the program [default: as the profile says]
    #[arg(long, value_enum)]
    restart: Option<Restart>,
    /// Order the teammate again from another host if it is lost together with its host; it then gets its prompt again
    #[arg(long, conflicts_with = "on")]
    reschedule: bool,
    /// The directory that the program starts in, below the profile's directory
    #[arg(long, value_name = "DIR", default_value = "", hide_default_value = true)]
    dir: String,
    /// How long the start may take, 1s to 1h [default: as the profile says, or 60s]
    #[arg(long, value_name = "DURATION")]
    deadline: Option<Wait>,
    /// Return once the order is placed, without waiting for the start
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Restart {
    Never,
    OnFailure,
    Always,
}

impl From<Restart> for RestartPolicy {
    fn from(restart: Restart) -> Self {
        match restart {
            Restart::Never => Self::Never,
            Restart::OnFailure => Self::OnFailure,
            Restart::Always => Self::Always,
        }
    }
}

impl Spawn {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let request = self.request()?;
        let caller = context.caller(Who::Current)?;
        let reply = caller.client.spawn(request).await?;
        let order = reply.request.as_ref().ok_or_else(show::incomplete)?;
        // From here on, Ctrl-C ends the wait, not the process.
        let interrupt = signal(SignalKind::interrupt())?;
        if !self.output.json {
            let (member, host) = (show::paint(show::bold(), &order.member), &order.approver);
            anstream::println!("Ordered {member} from {host} {}", show::paint(show::dim(), &order.id));
        }
        if !self.no_wait {
            return self.wait(&caller, order, interrupt).await;
        }
        if self.output.json {
            show::line(&show::json("SpawnResponse", &reply));
        }
        Ok(())
    }

    fn request(&self) -> Result<v1::SpawnRequest, Failure> {
        let prompt = match (&self.prompt, &self.prompt_file) {
            (Some(text), _) => super::text(text)?,
            (None, Some(file)) => std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("Cannot read {}: {error}.", file.display())))?,
            (None, None) => String::new(),
        };
        Ok(v1::SpawnRequest {
            name: self.name.clone(),
            profile: self.profile.clone(),
            host: self.on.clone(),
            labels: self.labels.iter().cloned().collect(),
            prompt,
            plan_mode_required: self.plan,
            restart: self.restart.map_or(RestartPolicy::Unspecified, RestartPolicy::from).into(),
            dir: self.dir.clone(),
            reschedule: self.reschedule,
            ttl: self.ttl()?,
            tags: self.tags.clone(),
            ..v1::SpawnRequest::default()
        })
    }

    fn ttl(&self) -> Result<Option<prost_types::Duration>, Failure> {
        let Some(Wait(deadline)) = self.deadline else { return Ok(None) };
        let within = Some(deadline).filter(|it| (Duration::from_secs(1)..=Duration::from_secs(3_600)).contains(it));
        let ttl = within.and_then(|deadline| prost_types::Duration::try_from(deadline).ok());
        ttl.map(Some).ok_or_else(|| Failure::usage("--deadline must be 1s to 1h."))
    }

    async fn wait(&self, caller: &Caller, order: &v1::Request, mut interrupt: Signal) -> Result<(), Failure> {
        let open = time_to_start(order);
        let request = tokio::select! {
            decided = waiting::decision(caller, &order.id, open, open + DECISION_GRACE) => decided?,
            _ = interrupt.recv() => return Err(interrupted(order)),
        };
        if self.output.json {
            show::line(&show::json("Request", &request));
        }
        shown::acknowledge_decision(caller, &request).await;
        let name = &request.member;
        let code = match request.state() {
            RequestState::Approved => {
                if !self.output.json {
                    anstream::println!("{name} has {}.", show::request_text(&request));
                }
                return Ok(());
            }
            RequestState::Rejected => REJECTED,
            RequestState::Expired | RequestState::Cancelled => UNANSWERED,
            RequestState::Pending | RequestState::Unspecified => NOT_IN_TIME,
        };
        Err(Failure::with_code(code, format!("{name} was {}", show::order_in_full(&request))))
    }
}

/// Returns how long the coordinator allows for the start.
fn time_to_start(order: &v1::Request) -> Duration {
    let seconds = |at: &Option<prost_types::Timestamp>| at.as_ref().map_or(0, |at| at.seconds);
    Duration::from_secs(u64::try_from(seconds(&order.expires_at) - seconds(&order.created_at)).unwrap_or_default())
}

fn interrupted(order: &v1::Request) -> Failure {
    let (name, id) = (&order.member, &order.id);
    Failure::with_code(
        INTERRUPTED,
        format!(
            "You stopped waiting, but {name} may still start. To wait on: `teamwire requests {id} --wait`. To cancel the order: \
             `teamwire shutdown {name} --force`."
        ),
    )
}
