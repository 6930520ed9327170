//! `teamwire host`: starts members on this machine when the lead orders them.

#[cfg(feature = "kubernetes")]
mod cluster;
mod first_process;
mod identity;
pub(super) mod leftovers;

use std::{
    collections::BTreeMap,
    fs,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use teamwire_agents::host::{Backend, Host, HostEnd, HostEvent, HostFile, Processes, bounds};
use teamwire_client::{Client, JOIN_VARIABLE};
use tokio_util::sync::CancellationToken;

use self::identity::HostDirectory;
use super::{Output, join_string, run::this_program, stop_on_signal::stop_on_signal, up::background::AwaitRecord};
use crate::{
    context::{ContextArgs, refuse_within_runner},
    failure::Failure,
    show,
};

/// The name of the default file, beside the context file.
const FILE: &str = "host.toml";

/// Start members on this machine when the lead orders them
///
/// A host joins a team with the join string that `teamwire invite --host` prints, tells the coordinator what it can
/// start, and carries out the orders of `teamwire spawn`. Each member runs under `teamwire run` in its own process
/// session, so it keeps running when the host ends or is killed. When the host starts again, it finds the members that
/// are still running, and reports those that have exited meanwhile. For details, see docs/hosts.md.
///
/// The file with the profiles (--config) lists what the host may start: an order names a profile, never a command.
/// Without a file, the host offers a profile for each agent program that it finds on the PATH.
///
/// SIGTERM and SIGINT end the host but not its members, unless you use --stop-members.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire host --join - --name gpu-1 --label gpu=a100\n    teamwire host --config host.toml --slots 8"
)]
pub(super) struct HostCommand {
    /// The join string that `teamwire invite --host` printed; use '-' to read a line from standard input. Not needed
    /// once the host has joined
    ///
    /// Other users of this machine can see it in the process list: prefer '-', --join-file or the environment.
    #[arg(long, env = JOIN_VARIABLE, value_name = "JOIN_STRING", hide_env_values = true)]
    join: Option<String>,
    /// The file with the join string
    #[arg(long, value_name = "FILE", conflicts_with = "join")]
    join_file: Option<PathBuf>,
    /// The host's name [default: the name in the file, or else the one that the join string is for, or else this
    /// machine's name]
    #[arg(long, short, value_name = "NAME")]
    name: Option<String>,
    /// The file with the profiles [default: host.toml in the directory of the context file (normally
    /// ~/.config/teamwire), if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How many members may run at a time, 1 to 1,000 [default: as the file says, or else 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    slots: Option<u32>,
    /// The working directory of members whose profile has neither `dir` nor `worktree` [default: as the file says, or
    /// else a separate directory for each, in the state directory]
    ///
    /// If it is set, these members share it with each other and with you: the host neither creates nor removes anything
    /// there.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A label that orders may ask for, in addition to those in the file; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = super::pair)]
    labels: Vec<(String, String)>,
    /// On SIGTERM or SIGINT, end the members before the host itself ends
    #[arg(long)]
    stop_members: bool,
    /// Start members as Kubernetes Jobs, with the service account of this Pod or with your kubeconfig
    ///
    /// --config is required, and the profiles in its file are Pod templates; see docs/kubernetes.md. Only builds with
    /// the feature `kubernetes` can do this; released programs can.
    #[arg(long, requires = "config", conflicts_with = "dir")]
    kubernetes: bool,
    #[command(flatten)]
    await_record: AwaitRecord,
    #[command(flatten)]
    output: Output,
}

impl HostCommand {
    /// Runs the host until it ends. Returns the exit code.
    pub(super) async fn run(self, context: &ContextArgs) -> u8 {
        let ended = match first_process::is_this() {
            true => first_process::run().await.map_err(|error| Failure::local("Cannot start the host", error)),
            false => self.run_host(context).await.map(|()| 0),
        };
        ended.unwrap_or_else(|failure| {
            failure.print(self.output.json);
            failure.code()
        })
    }

    async fn run_host(&self, context: &ContextArgs) -> Result<(), Failure> {
        if !self.await_record.is_recorded() {
            return Ok(());
        }
        refuse_within_runner("A host cannot run here.")?;
        if self.kubernetes {
            return self.run_in_cluster(context).await;
        }
        let file = self.file(context)?;
        let stop = stop_on_signal("the host is stopping; its members keep running")?;
        let directory = HostDirectory::open(context, self.join_string()?)?;
        let teamwire = this_program().ok_or_else(|| Failure::usage("Cannot find the teamwire binary."))?;
        let users_state = std::path::absolute(context.state_dir()?)?;
        let opening = Processes::open(teamwire.into(), directory.path().to_owned(), users_state, file.clone());
        let processes = opening.await;
        let processes = processes.map_err(|error| Failure::local("Cannot read the host's state", error))?;
        if let Some(weakness) = processes.weakness() {
            self.say(&weakness);
        }
        if processes.running() > 0 {
            self.say(&format!("Members that are still running here: {}.", processes.running()));
        }
        let name = self.name.clone().or_else(|| file.name.clone());
        let client = tokio::select! {
            client = directory.enter(context, name.as_deref()) => client?,
            () = stop.cancelled() => return Ok(()),
        };
        directory.ended(self.serve(client, Arc::new(processes), stop).await?)
    }

    #[cfg(not(feature = "kubernetes"))]
    async fn run_in_cluster(&self, _context: &ContextArgs) -> Result<(), Failure> {
        Err(Failure::usage(
            "This teamwire was built without Kubernetes. Use a released one, or build it in a clone with `cargo build --release \
             --features kubernetes`.",
        ))
    }

    /// Carries out orders until the host is asked to stop or the coordinator no longer accepts it.
    async fn serve<B: Backend>(
        &self,
        client: Client,
        backend: Arc<B>,
        stop: CancellationToken,
    ) -> Result<HostEnd, Failure> {
        let json = self.output.json;
        // Keeps retrying, and prints no messages for a person who waits for a command.
        let client = Client::connect_with(client.address(), client.tls())?.with_credential(client.credential())?;
        let host = Host::new(client, backend.clone(), Arc::new(move |event| print(event, json)));
        if self.stop_members {
            let stopped = CancellationToken::new();
            let done = stopped.clone();
            // The host keeps running meanwhile, to report the exits that its members do not report.
            tokio::spawn(async move {
                stop.cancelled().await;
                backend.stop_all().await;
                done.cancel();
            });
            return Ok(host.run(stopped).await);
        }
        Ok(host.run(stop).await)
    }

    /// Reads the file, and applies the command line's options.
    fn file(&self, context: &ContextArgs) -> Result<HostFile, Failure> {
        let mut file = self.config.as_deref().map_or_else(|| default_file(context), read)?;
        if file.profiles.is_empty() {
            return Err(Failure::usage(
                "The host has nothing to offer: it found none of claude, codex, gemini and opencode on the PATH. Write a file \
                 with a profile, and name it with --config:\n\n[profiles.agent]\ncommand = [\"python3\", \"/path/agent.py\"]",
            ));
        }
        file.slots = self.slots.or(file.slots);
        self.add_labels(&mut file.labels)?;
        if let Some(directory) = &self.dir {
            file.dir = Some(path::absolute(directory)?);
        }
        Ok(file)
    }

    /// Adds the labels of the command line to those of the file.
    fn add_labels(&self, labels: &mut BTreeMap<String, String>) -> Result<(), Failure> {
        labels.extend(self.labels.iter().cloned());
        bounds::check_labels(labels).map_err(|error| Failure::usage(format!("--label cannot be used: {error}.")))
    }

    fn join_string(&self) -> Result<Option<String>, Failure> {
        join_string(self.join.as_deref(), self.join_file.as_deref())
    }

    /// Prints a message for a person.
    fn say(&self, text: &str) {
        if !self.output.json {
            anstream::eprintln!("{} {}", show::paint(show::bold(), "teamwire:"), show::plain(text));
        }
    }
}

/// Returns what a host offers that is given no file.
pub(super) fn default_file(context: &ContextArgs) -> Result<HostFile, Failure> {
    let default = context.context_path().map(|path| path.with_file_name(FILE)).filter(|path| path.exists());
    default.map_or_else(|| Ok(HostFile::of_programs_on_path()), |path| read(&path))
}

fn read(path: &Path) -> Result<HostFile, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("Cannot read the profiles from {}: {error}.", path.display())))?;
    HostFile::parse(&text).map_err(|error| Failure::usage(format!("{} cannot be used: {error}", path.display())))
}

/// Prints an event. A closed output must not stop the host.
fn print(event: &HostEvent, json: bool) {
    use std::io::Write as _;

    let mut out = anstream::stdout();
    let _ = match json {
        true => writeln!(out, "{}", to_json(event)),
        false => writeln!(out, "{event}"),
    };
    let _ = out.flush();
}

/// Returns an event as an object for a program.
fn to_json(event: &HostEvent) -> serde_json::Value {
    use serde_json::json;

    match event {
        HostEvent::Ready { host, team, offer } => {
            json!({ "event": "ready", "host": host, "team": team, "offer": show::json("HostOffer", offer) })
        }
        HostEvent::Disconnected { detail } => json!({ "event": "disconnected", "detail": detail }),
        HostEvent::Reconnected => json!({ "event": "reconnected" }),
        HostEvent::Started { member, profile, request_id } => {
            json!({ "event": "started", "member": member, "profile": profile, "request_id": request_id })
        }
        HostEvent::Refused { member, request_id, reason } => {
            json!({ "event": "refused", "member": member, "request_id": request_id, "reason": reason })
        }
        HostEvent::Passed { member, request_id, detail } => {
            json!({ "event": "passed", "member": member, "request_id": request_id, "detail": detail })
        }
        HostEvent::Ended { member, request_id, detail } => {
            json!({ "event": "ended", "member": member, "request_id": request_id, "detail": detail })
        }
        HostEvent::Kept { member, detail } => json!({ "event": "kept", "member": member, "detail": detail }),
        HostEvent::CallFailed { detail } => json!({ "event": "call_failed", "detail": detail }),
        _ => json!({ "event": "other", "detail": event.to_string() }),
    }
}
