//! The subcommands, each in its own file; this one holds what they share and tells them apart.

mod answer;
mod certs;
mod completions;
mod demo;
mod doctor;
mod health;
mod history;
mod identity;
mod inbox;
mod invite;
mod join;
mod leave;
mod message;
mod plan;
mod requests;
mod run;
mod send;
mod serve;
mod shutdown;
mod status;
mod task;
mod team;

use clap::{Args, Parser, Subcommand};
use tracing::{Instrument as _, Span};

use crate::{context::ContextArgs, failure::Failure, trace::Traces};

/// Lets teams of AI agents work together across machines.
///
/// A coordinator (`teamwire serve`) keeps teams, one durable inbox for each member, and the approvals under way. Members
/// are processes anywhere: `teamwire run NAME -- COMMAND` makes any program one. Start with `teamwire demo` to see it
/// work, or with `teamwire serve` and what it tells you to type next.
#[derive(Debug, Parser)]
#[command(
    name = "teamwire",
    version,
    max_term_width = 100,
    after_help = "\
Exit codes: 0 done; 1 refused; 3 rejected; 4 expired or cancelled; 5 not in time; 64 wrong usage; 69 coordinator \
unreachable; 75 outcome unknown; 77 not permitted. `run` otherwise returns the code of the program."
)]
pub struct Cli {
    #[command(flatten)]
    context: ContextArgs,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Returns whether the command has something to do even if nobody reads what it says.
    pub fn goes_on_without_output(&self) -> bool {
        matches!(self.command, Command::Serve(_) | Command::Run(_))
    }
}

/// How a command prints.
#[derive(Args, Clone, Copy, Debug)]
pub struct Output {
    /// Print JSON, one object a line, instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a coordinator
    Serve(serve::Serve),
    /// Ask whether a coordinator can do its work
    Health(health::Health),
    /// Make certificates for a coordinator on a network of yours
    Certs(certs::Certs),
    /// See a whole team at work, start to end, on this machine
    Demo(demo::Demo),
    /// Create, list, show or delete teams; hand over the lead
    #[command(subcommand)]
    Team(team::Team),
    /// Invite a new member: prints what to paste on the other machine
    Invite(invite::Invite),
    /// Become a member of a team
    Join(join::Join),
    /// End your own membership
    Leave(leave::Leave),
    /// Run a program as a member of a team
    Run(run::Run),
    /// Send a message
    Send(send::Send),
    /// See, follow or acknowledge your inbox
    Inbox(inbox::Inbox),
    /// Ask a member to shut down, or stop it by force
    Shutdown(shutdown::Shutdown),
    /// Submit a plan, or answer one
    #[command(subcommand)]
    Plan(plan::Plan),
    /// Share out work: add, take, complete and follow tasks
    #[command(subcommand)]
    Task(task::Task),
    /// Approve a request
    Approve(answer::Approve),
    /// Reject a request
    Reject(answer::Reject),
    /// List requests, or wait for the decision on one
    Requests(requests::Requests),
    /// See the whole life of a message
    #[command(subcommand)]
    Message(message::Message),
    /// Find what keeps the team from working, and what to do next
    Doctor(doctor::Doctor),
    /// See or follow what was said and decided
    History(history::History),
    /// See the team and its members
    Status(status::Status),
    /// Show who you are
    Whoami(identity::Whoami),
    /// Choose who you are from now on
    Use(identity::Use),
    /// Print a script that completes commands in your shell
    Completions(completions::Completions),
    /// A scripted teammate of the demo
    #[command(hide = true)]
    DemoTeammate(demo::teammate::DemoTeammate),
}

/// Runs the command; returns the exit code.
pub async fn run(cli: Cli, traces: &Traces) -> u8 {
    // It keeps a log as well.
    if !matches!(cli.command, Command::Serve(_)) {
        traces.start_alone();
    }
    let span = match &cli.command {
        // What goes on until it is ended is no single step of anything.
        Command::Serve(_) | Command::Run(_) => Span::none(),
        _ => traces.command(),
    };
    dispatch(cli, traces).instrument(span).await
}

async fn dispatch(cli: Cli, traces: &Traces) -> u8 {
    let Cli { context, command } = cli;
    let (outcome, json) = match command {
        Command::Serve(command) => (command.run(&context, traces).await, false),
        Command::Health(command) => (command.run(&context).await, command.output.json),
        Command::Certs(command) => (command.run(), command.output.json),
        Command::Demo(command) => (command.run().await, false),
        Command::Team(command) => command.run(&context).await,
        Command::Run(command) => return command.run(&context).await,
        Command::Invite(command) => (command.run(&context).await, command.output.json),
        Command::Join(command) => (command.run(&context).await, command.output.json),
        Command::Leave(command) => (command.run(&context).await, command.output.json),
        Command::Send(command) => (command.run(&context).await, command.is_json()),
        Command::Inbox(command) => (command.run(&context).await, command.output.json),
        Command::Shutdown(command) => (command.run(&context).await, command.output.json),
        Command::Plan(command) => command.run(&context).await,
        Command::Task(command) => command.run(&context).await,
        Command::Approve(command) => (command.run(&context).await, command.output.json),
        Command::Reject(command) => (command.run(&context).await, command.output.json),
        Command::Requests(command) => (command.run(&context).await, command.output.json),
        Command::Message(command) => command.run(&context).await,
        Command::Doctor(command) => (command.run(&context).await, command.output.json),
        Command::History(command) => (command.run(&context).await, command.output.json),
        Command::Status(command) => (command.run(&context).await, command.output.json),
        Command::Whoami(command) => (command.run(&context), command.output.json),
        Command::Use(command) => (command.run(&context), false),
        Command::Completions(command) => (command.run(), false),
        Command::DemoTeammate(command) => (command.run(), false),
    };
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            failure.print(json);
            failure.code()
        }
    }
}

/// Reads a text argument: as it is, or all of standard input for `-`.
fn text(argument: &str) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    std::io::read_to_string(std::io::stdin()).map_err(|error| Failure::local("standard input cannot be read", error))
}

/// Makes a one-line summary out of the beginning of a text.
fn summary_of(text: &str) -> String {
    crate::show::short(text.lines().find(|line| !line.trim().is_empty()).unwrap_or(""), 80)
}
