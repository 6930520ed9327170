//! The subcommands. This file lists them, runs the one given, and holds what they share.
//!
//! Each command is a file, or a folder with a file for each of its parts. What several of them use is in `shared/`.
//! CONTRIBUTING.md says how to add one.

mod access;
mod always;
mod answer;
mod attach;
mod audit;
mod backup;
mod budget;
mod certs;
mod completions;
mod console;
mod doctor;
mod down;
mod echo_teammate;
mod health;
mod history;
mod hook;
mod host;
mod hosts;
mod identity;
mod inbox;
mod init;
mod interrupt;
mod invite;
mod join;
mod last;
mod leave;
mod logs;
mod man;
mod mcp;
mod message;
mod notices;
mod open;
mod operator;
mod permission;
mod plan;
mod programs;
mod requests;
mod run;
mod send;
mod serve;
mod setup;
mod shared;
mod shutdown;
mod spawn;
mod status;
mod stop;
mod subscribe;
mod tag;
mod task;
mod team;
mod transcript;
mod up;
mod update;
mod walk;
mod watchdog;
mod work;

use std::{env, fs, io::IsTerminal as _, path::Path};

use clap::{
    ArgMatches, Args, FromArgMatches as _, Parser, Subcommand, builder::Resettable, error::ErrorKind,
    parser::ValueSource,
};
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{Instrument as _, Span};

use crate::{context::ContextArgs, failure::Failure, telemetry::Telemetry};

use shared::{
    amount, approver, confirm, decision, id, line_loop, made_request, shown, stop_on_signal, successor, waiting,
};
pub(crate) use shared::{complete, help::command};

/// Coordinate teams of AI agents across machines
///
/// A coordinator (`teamwire serve`) stores teams, a durable inbox for each member, pending approvals and the task
/// board. Members are processes on any machine: `teamwire run NAME -- COMMAND` turns any program into one. Start with
/// `teamwire up` and a team file, or with `teamwire serve`, which prints the next commands to type.
#[derive(Debug, Parser)]
#[command(
    name = "teamwire",
    version,
    max_term_width = 100,
    after_long_help = "\
Exit codes: 0 success; 1 the coordinator refused the call, something failed on this machine, or a check (such as `doctor`) \
found a problem; 3 the member, the lead or the host rejected the request; 4 the request expired or was cancelled; 5 timed out; \
6 the member that the command waited for was lost or has exited; 64 wrong usage; 69 coordinator unreachable; 71 the system starts no thread; 74 output cannot be written; 75 outcome unknown (`run`: also if the name is \
taken); 77 not permitted; 126 the program of `run` cannot be executed; 127 it cannot be found; 130 `spawn` was interrupted \
while it waited, or `backup` was interrupted before it was complete. `run` otherwise returns the program's exit code."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    context: ContextArgs,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Parses the command line and the environment. An empty variable counts as unset.
    pub(crate) fn from_command_line() -> Result<Self, clap::Error> {
        let mut command = without_empty_variables(command());
        let matches = command.try_get_matches_from_mut(env::args_os())?;
        let mut cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        cli.context.is_quiet = prints_json(&matches);
        let read = cli.context.read_credential_file();
        read.map_err(|why| clap::Error::raw(ErrorKind::Io, format!("{why}\n")))?;
        Ok(cli)
    }

    /// Returns whether the command keeps working after its output is closed.
    pub(crate) fn outlives_its_output(&self) -> bool {
        matches!(self.command, Command::Serve(_) | Command::Run(_) | Command::Host(_))
    }

    /// Returns the command if it must run before this process has any other thread.
    pub(crate) fn as_watchdog(&self) -> Option<&watchdog::Watchdog> {
        match &self.command {
            Command::Watchdog(command) => Some(command),
            _ => None,
        }
    }
}

/// Makes arguments ignore their environment variable if it is empty. clap alone would take the empty text as a value.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &std::ffi::OsStr| env::var_os(name).is_some_and(|value| value.is_empty());
    let unset = |arg: clap::Arg| match arg.get_env().is_some_and(is_empty) {
        true => arg.env(Resettable::Reset),
        false => arg,
    };
    command.mut_args(unset).mut_subcommands(without_empty_variables)
}

/// Returns whether `--json` was given.
fn prints_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, matches)) => prints_json(matches),
        None => matches.ids().any(|id| id == "json") && matches.value_source("json") == Some(ValueSource::CommandLine),
    }
}

/// The output format of a command.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Print JSON instead of text, one object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Health(health::Health),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Certs(certs::Certs),
    Init(init::Init),
    Up(up::Up),
    Down(down::Down),
    Stop(stop::Stop),
    Restart(stop::Restart),
    Open(open::Open),
    #[command(subcommand)]
    Team(team::Team),
    Invite(invite::Invite),
    #[command(subcommand)]
    Access(access::Access),
    #[command(subcommand)]
    Operator(operator::Operator),
    Hosts(hosts::Hosts),
    Spawn(spawn::Spawn),
    Join(join::Join),
    Leave(leave::Leave),
    Run(run::Run),
    Host(host::HostCommand),
    Send(send::Send),
    Inbox(inbox::Inbox),
    Notices(notices::Notices),
    #[command(subcommand)]
    Subscribe(subscribe::Subscribe),
    Tag(tag::Tag),
    Shutdown(shutdown::Shutdown),
    #[command(subcommand)]
    Plan(plan::Plan),
    #[command(subcommand)]
    Permission(permission::Permission),
    #[command(subcommand)]
    Task(task::Task),
    Approve(answer::Approve),
    Reject(answer::Reject),
    Requests(requests::Requests),
    #[command(subcommand)]
    Message(message::Message),
    Doctor(doctor::Doctor),
    Logs(logs::Logs),
    Last(last::Last),
    Work(work::Work),
    Interrupt(interrupt::Interrupt),
    Attach(attach::Attach),
    Budget(budget::Budget),
    Transcript(transcript::Transcript),
    History(history::History),
    Audit(audit::Audit),
    Status(status::Status),
    Console(console::ConsoleCommand),
    Whoami(identity::Whoami),
    Identities(identity::Identities),
    Use(identity::Use),
    Completions(completions::Completions),
    Man(man::Man),
    Update(update::Update),
    Mcp(mcp::Mcp),
    Setup(setup::Setup),
    Programs(programs::Programs),
    Hook(hook::Hook),
    #[command(hide = true)]
    EchoTeammate(echo_teammate::EchoTeammate),
    #[command(hide = true)]
    Watchdog(watchdog::Watchdog),
}

/// Runs the command and returns its exit code.
pub(crate) async fn run(cli: Cli, telemetry: &Telemetry) -> u8 {
    // A file over the limit of its size then fails to grow, and does not end the process without a word.
    let _ = signal(SignalKind::from_raw(Signal::SIGXFSZ as i32));
    // `serve` installs its own subscriber, which also writes the log.
    if !matches!(cli.command, Command::Serve(_)) {
        telemetry.install_subscriber();
    }
    let span = match &cli.command {
        // Long-running commands are not one step of a trace.
        Command::Serve(_) | Command::Run(_) | Command::Host(_) => Span::none(),
        _ => telemetry.command_span(),
    };
    dispatch(cli, telemetry).instrument(span).await
}

async fn dispatch(cli: Cli, telemetry: &Telemetry) -> u8 {
    let Cli { context, command } = cli;
    let (outcome, json) = match command {
        Command::Serve(command) => (command.run(&context, telemetry).await, false),
        Command::Health(command) => (command.run(&context).await, command.output.json),
        Command::Backup(command) => (command.run(&context).await, command.output.json),
        Command::Restore(command) => (command.run().await, command.output.json),
        Command::Certs(command) => (command.run(), command.output.json),
        Command::Init(command) => (command.run().await, command.output.json),
        Command::Up(command) => (command.run(&context).await, command.output.json),
        Command::Down(command) => (command.run(&context).await, command.output.json),
        Command::Stop(command) => (command.run(&context).await, command.output.json),
        Command::Restart(command) => (command.run(&context).await, command.output.json),
        Command::Open(command) => (command.run(&context).await, command.output.json),
        Command::Team(command) => command.run(&context).await,
        Command::Run(command) => match telemetry.export_metrics() {
            Ok(()) => return command.run(&context).await,
            Err(failure) => (Err(failure), false),
        },
        Command::Host(command) => return command.run(&context).await,
        Command::Invite(command) => (command.run(&context).await, command.output.json),
        Command::Access(command) => command.run(&context).await,
        Command::Operator(command) => command.run(&context).await,
        Command::Hosts(command) => (command.run(&context).await, command.output.json),
        Command::Spawn(command) => (command.run(&context).await, command.output.json),
        Command::Join(command) => (command.run(&context).await, command.output.json),
        Command::Leave(command) => (command.run(&context).await, command.output.json),
        Command::Send(command) => (command.run(&context).await, command.is_json()),
        Command::Inbox(command) => (command.run(&context).await, command.output.json),
        Command::Notices(command) => (command.run(&context).await, command.output.json),
        Command::Subscribe(command) => command.run(&context).await,
        Command::Tag(command) => (command.run(&context).await, command.output.json),
        Command::Shutdown(command) => (command.run(&context).await, command.output.json),
        Command::Plan(command) => command.run(&context).await,
        Command::Permission(command) => command.run(&context).await,
        Command::Task(command) => command.run(&context).await,
        Command::Approve(command) => (command.run(&context, None).await, command.output.json),
        Command::Reject(command) => (command.run(&context, None).await, command.output.json),
        Command::Requests(command) => (command.run(&context).await, command.output.json),
        Command::Message(command) => command.run(&context).await,
        Command::Doctor(command) => (command.run(&context).await, command.output.json),
        Command::Attach(command) => (command.run(&context).await, false),
        Command::Budget(command) => (command.run(&context).await, command.output.json),
        Command::Work(command) => command.run(&context).await,
        Command::Interrupt(command) => (command.run(&context).await, command.output.json),
        Command::Last(command) => (command.run(&context).await, command.output.json),
        Command::Transcript(command) => (command.run(&context).await, command.output.json),
        Command::Logs(command) => (command.run(&context).await, command.output.json),
        Command::History(command) => (command.run(&context).await, command.output.json),
        Command::Audit(command) => (command.run(&context).await, command.output.json),
        Command::Status(command) => (command.run(&context).await, command.output.json),
        Command::Console(command) => (command.run(&context).await, command.output.json),
        Command::Whoami(command) => (command.run(&context), command.output.json),
        Command::Identities(command) => (command.run(&context).await, command.output.json),
        Command::Use(command) => (command.run(&context), false),
        Command::Completions(command) => (command.run(), false),
        Command::Man(command) => (command.run(), false),
        Command::Update(command) => (command.run(), command.output.json),
        Command::Mcp(command) => (command.run(&context).await, false),
        Command::Setup(command) => (command.run(&context), false),
        Command::Programs(command) => (command.run().await, command.output.json),
        Command::Hook(command) => match command.run(&context).await {
            Ok(code) => return code,
            Err(failure) => (Err(failure), false),
        },
        Command::EchoTeammate(command) => (command.run(), false),
        // Run by `main`, before the runtime starts.
        Command::Watchdog(_) => return 0,
    };
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            let failure = context.explain(failure).await;
            failure.print(json);
            failure.code()
        }
    }
}

/// Returns a text argument, or all of standard input if it is `-`.
fn text(argument: &str) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    std::io::read_to_string(std::io::stdin()).map_err(|error| Failure::local("Cannot read standard input", error))
}

/// Returns the join string from where the options say that it is. `given`: as typed; `-` stands for a line of standard
/// input.
fn join_string(given: Option<&str>, file: Option<&Path>) -> Result<Option<String>, Failure> {
    match (file, given) {
        (Some(file), _) => fs::read_to_string(file)
            .map(Some)
            .map_err(|error| Failure::usage(format!("Cannot read the join string from {}: {error}.", file.display()))),
        (None, Some("-")) => {
            if std::io::stdin().is_terminal() {
                anstream::eprint!("Paste the join string: ");
            }
            let mut line = String::new();
            std::io::stdin().read_line(&mut line)?;
            Ok(Some(line))
        }
        (None, given) => Ok(given.map(ToOwned::to_owned)),
    }
}

/// Parses `KEY=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Returns the beginning of a text as a one-line summary of at most 80 characters.
fn summary_of(text: &str) -> String {
    crate::show::shorten(text.lines().find(|line| !line.trim().is_empty()).unwrap_or(""), 80)
}
