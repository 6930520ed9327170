//! `teamwire run`: runs a program as a member of a team.

mod options;

use std::{env, ffi::OsString, fmt::Display, io::Write as _, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use teamwire_agents::{
    AckPolicy, AgentOptions, AgentProtocol, BatchInput, Containment, Mode, OnShutdown, Permissions, Restart, Runner,
    RunnerConfig, check_program,
    programs::{self, KnownProgram, sign_in_warning},
};
use teamwire_client::{Client, JOIN_VARIABLE, KeptIdentity, Reason, Retry, v1};

use self::options::{Ack, Answer, Containing, Permit, PromptAs, RestartWhen, Via};
use super::{approver, attach, confirm::Confirm, join::Attributes, join_string, transcript};
use crate::{
    context::{Caller, ContextArgs, Who, has_ended, identity, is_within_runner, may_rejoin},
    failure::Failure,
    show,
    stable_path::stable_path,
};

/// The state directory's directory with the sessions of agent programs.
const SESSIONS_DIRECTORY: &str = "sessions";

/// Run a program as a member of a team
///
/// The runner joins the team, passes messages to the program, sends its replies, and keeps the member's lease alive. By
/// default, it does not acknowledge a message until the program has acknowledged it, or answered it with
/// `in_reply_to` (see --ack).
///
/// When the member's shutdown is approved, the runner closes the program's standard input and gives it time to finish
/// (--wrap-up). A program that is still running gets SIGTERM, and SIGKILL after --grace. Every process that the program
/// has started ends with it. The runner reports how the program ended and, if the runner had to end it, with which
/// signal. Then the runner exits with 0. If the runner itself gets SIGTERM, SIGINT, SIGHUP or SIGQUIT, it sends SIGTERM
/// to the program at once; a second signal kills the program.
///
/// --via selects how messages reach the program. With `stdin`, the runner writes each message as a line of JSON to the
/// program's standard input, and the program answers with lines of JSON: {"ack": "MESSAGE_ID"} or any SendMessage
/// object. With `exec`, the runner starts the program once for each batch of messages, and exit code 0 acknowledges the
/// batch. After any other exit code, the lead gets a notice, and the runner tries each message of the batch again,
/// alone. A message on which the program has failed five times becomes a dead letter. Plain output becomes a reply to
/// the last message in the batch that a member sent. If the runner's member is asked to shut down, the runner itself
/// approves after the current batch.
///
/// The environment variable TEAMWIRE_WELCOME says who the program is, who else is in the team, and how to answer. With
/// `stdin`, the first line that the program gets says the same. If a line is meant for the runner but is malformed or
/// ambiguous, the runner logs an error. With `stdin`, it also answers with that error. docs/line-protocol.md describes
/// all lines.
///
/// The member is attached to the runner: if the runner dies, the member becomes lost, and the tasks that it claimed
/// return to the board.
///
/// The runner joins with the first of these that exists:
///
/// - your current identity, if its name is NAME and --join is not given
///
/// - the identity that an earlier run saved under NAME; the runner then begins a new life
///
/// - the join string of --join
///
/// - an invitation that it creates itself, if you are the team's lead or the operator
///
/// Before the runner takes over an identity that you use at the command line, it asks you. Once the runner has ended,
/// `teamwire join` lets you use that identity at the command line again, unless the member approved its shutdown or was
/// stopped by force.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire run backend --echo\n    teamwire run backend -- python3 agent.py\n    teamwire run reviewer --via exec --claim -- ./review.sh\n    teamwire run --join - --restart on-failure -- ./agent"
)]
pub(super) struct Run {
    /// The member's name; optional if the join token is bound to a name
    #[arg(value_name = "NAME")]
    name_word: Option<String>,
    /// The member's name, as an option
    #[arg(long = "name", short, value_name = "NAME", conflicts_with = "name_word")]
    name: Option<String>,
    /// The join string that `teamwire invite` printed or, with --address, a bare join token; use '-' to read a line
    /// from standard input
    ///
    /// Other users of this machine can see it in the process list: prefer '-', --join-file or the environment.
    #[arg(long, env = JOIN_VARIABLE, value_name = "JOIN_STRING", hide_env_values = true)]
    join: Option<String>,
    /// The file with the join string
    #[arg(long, value_name = "FILE")]
    join_file: Option<PathBuf>,
    /// How messages reach the program [default: as `teamwire programs --all` says; for other programs, stdin]
    #[arg(long, value_enum)]
    via: Option<Via>,
    /// With an agent program: what to ask it to do first; without a prompt, the agent waits for messages
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prompt: String,
    /// With an agent program: start a new session, even if an earlier run of the member left one
    ///
    /// Without this option, the program resumes the session of an earlier run that was killed or interrupted, provided
    /// that the command and the directory are the same.
    #[arg(long)]
    new_session: bool,
    /// With an agent program: who answers when the program asks for permission, for example to run a command
    #[arg(long, value_enum, default_value = "ask")]
    permissions: Permit,
    /// With --permissions ask: the member that is asked [default: the lead]
    ///
    /// The command fails if no member has this name. With a join string, the runner checks the name only after it has
    /// joined. Instead of failing, it then warns you, and the lead answers until the approver joins.
    #[arg(long, value_name = "MEMBER", default_value = "", hide_default_value = true)]
    approver: String,
    /// With --via stdin: when a message counts as processed
    #[arg(long, value_enum, default_value = "reply")]
    ack: Ack,
    /// With --via exec: the maximum number of messages in a batch
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    batch: u16,
    /// With --via exec: give the program a prompt, as an agent program takes it, and not lines of JSON
    ///
    /// For agent programs that take one prompt, print an answer, and exit: `teamwire run docs --via exec --prompt-as
    /// argument -- aider --yes --message`. The prompt says who the program is and what it was sent. What it prints becomes
    /// the answer, or the result of a task.
    #[arg(long, value_enum, value_name = "WHERE")]
    prompt_as: Option<PromptAs>,
    /// Claim the next ready task whenever the program is idle (see `teamwire task`)
    ///
    /// With --via stdin, the program receives the task as a line and answers {"complete": ID} when it is done. With
    /// --via exec, the runner starts the program for the task, and exit code 0 completes it. If the program dies, the
    /// task returns to the board.
    #[arg(long)]
    claim: bool,
    /// How the runner answers a shutdown request [default: ask; with --via exec: approve after the current batch]
    ///
    /// `ask` hands the request to the program. With --via stdin, the program answers with a line: {"type":
    /// "shutdown_response", "request_id": ID, "approve": true}, or by calling `teamwire approve`. With --via exec, the
    /// runner starts the program for the request alone, after the current batch. Exit code 0 then approves, and any
    /// other code rejects, with the program's output as the reason. `approve` does not ask the program: the runner
    /// approves at once, even in the middle of a batch. With --via exec, if you leave the option out, the runner does
    /// not ask the program either, but approves only after the current batch.
    #[arg(long, value_enum)]
    on_shutdown: Option<Answer>,
    /// When to restart the program, each time in a new life of the member [default: never; for an agent program:
    /// on-failure]
    ///
    /// A restarted agent program resumes its own session.
    #[arg(long, value_enum)]
    restart: Option<RestartWhen>,
    /// The number of consecutive failures after which the runner exits
    #[arg(long, default_value_t = 10, value_name = "N")]
    restarts_max: u32,
    /// After an approved shutdown: how long the program may take to exit by itself before it gets SIGTERM, in seconds
    /// [default: 5; for an agent program: 30, so that it can finish its turn]
    #[arg(long, value_name = "SECONDS")]
    wrap_up: Option<u64>,
    /// How long the program may take to exit after SIGTERM before the runner kills it, in seconds
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    grace: u64,
    /// How the runner keeps track of the program and its descendants
    #[arg(long, value_enum, default_value = "auto")]
    containment: Containing,
    /// Do not print progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    attributes: Attributes,
    /// Run a built-in program instead of COMMAND, to try things out
    ///
    /// It answers each message with what it got, completes each task that it is given, approves its shutdown, and ends.
    #[arg(long, conflicts_with_all = ["command", "via", "ack", "batch", "prompt_as"])]
    echo: bool,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "echo", value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    pub(super) async fn run(self, context: &ContextArgs) -> u8 {
        // Before it needs an invitation.
        if let Some(program) = self.command.first()
            && let Err(exit) = check_program(program, None, None)
        {
            let install = programs::find(program).and_then(KnownProgram::install_command);
            let install = install.map(|command| format!(" To install it: {command}")).unwrap_or_default();
            Failure::with_code(exit.code, format!("{}{install}", exit.detail)).print(false);
            return exit.code;
        }
        match self.run_member(context).await {
            Ok(code) => code,
            Err(failure) => {
                let failure = context.explain(failure).await;
                failure.print(false);
                failure.code()
            }
        }
    }

    /// Joins, and runs the program until it ends. Returns the exit code.
    async fn run_member(&self, context: &ContextArgs) -> Result<u8, Failure> {
        let name = self.name_word.clone().or_else(|| self.name.clone()).unwrap_or_default();
        self.check_prompt(&name)?;
        let entry = self.entry(context, &name).await?;
        let own = context.own_identity(&entry)?;
        if let Some(own) = &own {
            self.confirm_takeover(context, own)?;
        }
        let warning = match self.command.first().filter(|_| matches!(self.mode(), Mode::Agent(_))) {
            Some(program) => sign_in_warning(program.as_ref()).await,
            None => None,
        };
        if let Some(warning) = warning {
            show::warn(&warning);
        }
        let exit = Runner::new(self.configure(context, name, entry)?).run().await;
        if !self.quiet {
            say(&exit.detail);
            if let Some(way_back) = way_back(context, own).await {
                say(way_back);
            }
        }
        Ok(exit.code)
    }

    /// Refuses a prompt for a program that reads no prompts.
    fn check_prompt(&self, name: &str) -> Result<(), Failure> {
        if self.prompt_as.is_some() && self.via != Some(Via::Exec) {
            return Err(Failure::usage("--prompt-as is for programs that are started for each batch: add --via exec."));
        }
        if self.prompt.is_empty() || matches!(self.mode(), Mode::Agent(_)) {
            return Ok(());
        }
        let name = if name.is_empty() { "NAME" } else { name };
        Err(Failure::usage(format!(
            "--prompt is only for agent programs. If the program is one, name its protocol with --via claude, codex or acp. \
             Otherwise, leave --prompt out, and send the text as a message: teamwire send {name} \"TEXT\"."
        )))
    }

    /// Asks before the runner takes over an identity that a person uses at the command line.
    fn confirm_takeover(&self, context: &ContextArgs, own: &KeptIdentity) -> Result<(), Failure> {
        let what = format!(
            "{} is your own identity at the command line. The runner begins a new life with it: the tasks that you have claimed \
             return to the board, and you exit when the runner does, until you type `{}`.",
            own.name(),
            context.rejoin_command(own)
        );
        self.confirm.ask(&what, " To run a teammate, give it another name.")
    }

    fn configure(&self, context: &ContextArgs, name: String, entry: Caller) -> Result<RunnerConfig, Failure> {
        let Caller { client, address, credential, .. } = entry;
        let mut config = RunnerConfig::new(address, credential, self.program()?);
        config.tls = client.tls();
        config.name = name;
        config.attributes = self.attributes.to_proto();
        config.mode = self.mode();
        config.agent = self.agent_options();
        // Without a state directory, no session is kept.
        config.agent.transcripts = context.state_dir().ok().map(|directory| directory.join(transcript::DIRECTORY));
        config.agent.sockets = context.state_dir().ok().map(|directory| attach::directory(&directory));
        config.agent.sessions = context.state_dir().ok().map(|directory| directory.join(SESSIONS_DIRECTORY));
        let is_agent = matches!(config.mode, Mode::Agent(_));
        config.takes_tasks = self.claim;
        config.on_shutdown = self.on_shutdown.map(|answer| match answer {
            Answer::Ask => OnShutdown::Ask,
            Answer::Approve => OnShutdown::Approve,
        });
        let restart = self.restart.unwrap_or(if is_agent { RestartWhen::OnFailure } else { RestartWhen::Never });
        config.restart = match restart {
            RestartWhen::Never => Restart::Never,
            RestartWhen::OnFailure => Restart::OnFailure { failures_max: self.restarts_max },
            RestartWhen::Always => Restart::Always { failures_max: self.restarts_max },
        };
        config.wrap_up = Duration::from_secs(self.wrap_up.unwrap_or(if is_agent { 30 } else { 5 }));
        config.grace = Duration::from_secs(self.grace);
        config.containment = match self.containment {
            Containing::Auto => Containment::Auto,
            Containing::Cgroup => Containment::Cgroup,
            Containing::Watchdog => Containment::Watchdog,
        };
        config.watchdog = this_program().map(|program| vec![program, "watchdog".into()]);
        config.claims_orphans = true;
        let keeper = context.clone();
        let approver = Some(self.approver.clone()).filter(|named| !named.is_empty() && self.permissions == Permit::Ask);
        config.on_joined = Arc::new(move |reply, client| {
            keep(&keeper, reply, client);
            if let (Some(approver), Ok(client)) = (&approver, client.with_credential(&reply.credential)) {
                tokio::spawn(approver::warn(client, approver.clone(), say));
            }
        });
        if !self.quiet {
            config.on_event = Arc::new(|event| say(event));
        }
        Ok(config)
    }

    fn mode(&self) -> Mode {
        let ack = match self.ack {
            Ack::Reply => AckPolicy::ExplicitOrReply,
            Ack::Written => AckPolicy::Written,
        };
        match self.via {
            // --ack is for programs that read lines.
            None if self.ack == Ack::Reply => {
                let known = self.command.first().and_then(|program| programs::find(program));
                known.map_or(Mode::Stdin { ack }, |known| Mode::Agent(known.via))
            }
            None | Some(Via::Stdin) => Mode::Stdin { ack },
            Some(Via::Exec) => Mode::Exec {
                batch_messages_max: usize::from(self.batch),
                input: match self.prompt_as {
                    None => BatchInput::Lines,
                    Some(PromptAs::Stdin) => BatchInput::PromptOnStdin,
                    Some(PromptAs::Argument) => BatchInput::PromptAsArgument,
                },
            },
            Some(Via::Claude) => Mode::Agent(AgentProtocol::Claude),
            Some(Via::Codex) => Mode::Agent(AgentProtocol::Codex),
            Some(Via::Acp) => Mode::Agent(AgentProtocol::Acp),
        }
    }

    fn agent_options(&self) -> AgentOptions {
        AgentOptions {
            prompt: self.prompt.clone(),
            starts_session: self.new_session,
            approver: self.approver.clone(),
            permissions: match self.permissions {
                Permit::Ask => Permissions::Ask,
                Permit::Allow => Permissions::Allow,
                Permit::Deny => Permissions::Deny,
            },
            // The agent program starts this, so /proc/self would be its own.
            mcp_command: stable_path().map_or_else(|_| Vec::new(), |program| vec![program.into(), "mcp".into()]),
            ..AgentOptions::default()
        }
    }

    /// Returns the program to run and its arguments.
    fn program(&self) -> Result<Vec<OsString>, Failure> {
        if !self.echo {
            return Ok(self.command.clone());
        }
        let this = env::current_exe().map_err(|error| Failure::local("Cannot find the built-in program", error))?;
        Ok(vec![this.into(), "echo-teammate".into()])
    }

    /// Finds the credential to join with and the coordinator to join at.
    async fn entry(&self, context: &ContextArgs, name: &str) -> Result<Caller, Failure> {
        if let Some(text) = join_string(self.join.as_deref(), self.join_file.as_deref())? {
            // A restarted runner has used its token already, so it rejoins with the identity that it saved.
            let joining = context.caller(Who::Joining(&text))?;
            if let Some(kept) = self.kept(context, name, joining.team.as_deref(), Some(&joining)).await?
                && kept.address == joining.address
            {
                return Ok(kept);
            }
            return Ok(joining);
        }
        if name.is_empty() {
            return Err(Failure::usage("Give the member a name: teamwire run NAME -- COMMAND."));
        }
        if self.approver.eq_ignore_ascii_case(name) {
            return Err(Failure::usage("No member permits itself anything: name another member with --approver."));
        }
        let caller = context.caller(Who::Current);
        let team = caller.as_ref().ok().and_then(|caller| caller.team.clone());
        let known = match &caller {
            Ok(caller) if caller.is(name) => Some(caller.clone()),
            _ => self.kept(context, name, team.as_deref(), None).await?,
        };
        if let Some(known) = known {
            approver::check(&known.client, &self.approver).await?;
            return Ok(known);
        }
        let mut caller = caller?;
        approver::check(&caller.client, &self.approver).await?;
        let invite = v1::InviteRequest { member: name.to_owned(), ..v1::InviteRequest::default() };
        caller.credential = caller.client.invite(invite).await?.join_token;
        Ok(caller)
    }

    /// Returns the saved identity of a member that ran here before, if it can still begin a new life.
    /// `joining`: who would join by the join string.
    async fn kept(
        &self,
        context: &ContextArgs,
        name: &str,
        team: Option<&str>,
        joining: Option<&Caller>,
    ) -> Result<Option<Caller>, Failure> {
        // A program that a runner started uses no saved identity, but it may run others that its member invites.
        if name.is_empty() || is_within_runner() {
            return Ok(None);
        }
        let Some(kept) = context.identity_to_run(name, team)? else { return Ok(None) };
        let caller = match (context.caller(Who::Again(&kept, joining)), joining) {
            (Ok(caller), _) => caller,
            // It belongs to another coordinator.
            (Err(_), Some(_)) => return Ok(None),
            (Err(failure), None) => return Err(failure),
        };
        match caller.client.get_team(v1::GetTeamRequest::default()).await {
            Err(error) if has_ended(&error) => {
                context.forget(&[kept])?;
                Ok(None)
            }
            // The member was removed, or its team deleted. No answer proves nothing; the runner keeps trying.
            Err(error) if !error.is_retryable() && error.reason() != Some(Reason::MemberStopped) => Ok(None),
            _ => Ok(Some(caller)),
        }
    }
}

/// Prints a line of progress.
fn say(text: impl Display) {
    // A closed standard error must not stop the program.
    let text = show::plain(&text.to_string());
    let _ = writeln!(anstream::stderr(), "{} {text}", show::paint(show::bold(), "teamwire:"));
}

/// Says how a person comes back whose own identity a runner has used. `own`: the identity as it was before.
async fn way_back(context: &ContextArgs, own: Option<KeptIdentity>) -> Option<String> {
    let own = own?;
    let now = context.saved_identity(&own.member, Some(&own.team)).ok()??;
    let client = context.caller(Who::Saved(&now)).ok()?.client.with_retry(Retry::none());
    match client.get_team(v1::GetTeamRequest::default()).await {
        Err(error) if has_ended(&error) => {
            context.forget(&[now]).ok()?;
            Some(format!("{} was removed from your identities. To come back, it needs a new join string.", own.name()))
        }
        Err(error) if may_rejoin(&error) => {
            Some(format!("To continue as {} at the command line: {}", own.name(), context.rejoin_command(&own)))
        }
        _ => None,
    }
}

/// Returns a path to this program that stays valid when its file is replaced, if the system has one. Otherwise the path
/// by which the user starts it, where an upgrade puts the next version.
pub(super) fn this_program() -> Option<OsString> {
    if cfg!(target_os = "linux") { Some("/proc/self/exe".into()) } else { stable_path().ok().map(Into::into) }
}

fn keep(context: &ContextArgs, reply: &v1::JoinResponse, client: &Client) {
    let (Some(team), Some(member)) = (&reply.team, &reply.member) else { return };
    let identity = identity(&team.name, &member.name, &reply.credential, client);
    if let Err(failure) = context.save_run_identity(identity) {
        failure.print(false);
    }
}
