//! The configuration of a runner.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use teamwire_client::{Client, Retry, TlsOptions};
use teamwire_proto::v1;
use tokio::io::AsyncWrite;

use crate::{RunnerEvent, agent_text::Interface};

/// The environment variable with the path of a file that `teamwire mcp` creates once a program has asked for its tools.
/// A runner sets it, and so learns that its program has loaded them.
pub const TOOLS_LOADED_VARIABLE: &str = "TEAMWIRE_TOOLS_LOADED";

/// Called with the reply to every Join and the client that made it, before a program starts. Store the new credential
/// here, together with the address that it is valid at.
pub type OnJoined = Arc<dyn Fn(&v1::JoinResponse, &Client) + Send + Sync>;

/// Called with everything that happens. Must return quickly.
pub type OnEvent = Arc<dyn Fn(&RunnerEvent) + Send + Sync>;

/// The configuration of a runner. [`RunnerConfig::new`] fills in the defaults.
pub struct RunnerConfig {
    /// The coordinator's address, or several separated by commas.
    pub address: String,
    /// For `https` addresses: which authorities to trust and which certificate to present. Handed on to the program.
    pub tls: TlsOptions,
    /// A join token, or the member's own credential, which starts a new incarnation.
    pub credential: String,
    /// The member's name. Empty means the name that the credential is bound to.
    pub name: String,
    /// What the member says about itself.
    pub attributes: v1::MemberAttributes,
    /// The program and its arguments. Must not be empty.
    pub command: Vec<OsString>,
    /// The program's working directory. `None` means the runner's.
    pub directory: Option<PathBuf>,
    /// Environment variables for the program, in addition to the runner's and teamwire's.
    pub environment: Vec<(OsString, OsString)>,
    /// How messages reach the program.
    pub mode: Mode,
    /// How an agent program is run, in [`Mode::Agent`].
    pub agent: AgentOptions,
    /// Whether the runner claims the next task for the member while it has nothing in hand. Default: false.
    pub takes_tasks: bool,
    /// What answers a shutdown request. `None` means the program in [`Mode::Stdin`], the runner in [`Mode::Exec`].
    /// Default: None.
    pub on_shutdown: Option<OnShutdown>,
    /// Whether a program that fails is restarted. Default: never.
    pub restart: Restart,
    /// How long the program has to end by itself, with its input closed, after its shutdown was approved. Then it gets
    /// SIGTERM. Default: 5 s.
    pub wrap_up: Duration,
    /// How long the program has between SIGTERM and SIGKILL. Default: 10 s.
    pub grace: Duration,
    /// How the program and its descendants are held together. Default: [`Containment::Auto`].
    pub containment: Containment,
    /// A command that calls [`watch`](crate::watch), and that the runner starts beside itself: it kills the program and
    /// its descendants when the runner dies. If `None`, on Linux the kernel kills the program, and nothing kills its
    /// descendants. Default: None.
    pub watchdog: Option<Vec<OsString>>,
    /// How often to renew the member's lease. The open session renews it as well. Default: 10 s.
    pub heartbeat_interval: Duration,
    /// How long a member that has nothing in hand still counts as active. Default: 1 s.
    pub idle_after: Duration,
    /// How long to keep trying to reach the coordinator when the runner starts. Default: 30 s.
    pub start_patience: Duration,
    /// How long to keep trying to have the last calls confirmed: messages being sent, and the report of the exit.
    /// Default: 60 s.
    pub report_patience: Duration,
    /// How calls are retried between the start and the end. Default: for 10 minutes.
    pub retry: Retry,
    /// Whether every child of the runner's process other than the program counts as a descendant of the program and
    /// is ended with it, whatever it did to detach itself. Right for a process that does nothing but run this runner.
    ///
    /// If not, then outside a cgroup, descendants are recognized by their parents, their process group and a variable
    /// in their environment, so that one which detaches twice and clears its environment escapes. Default: false.
    pub claims_orphans: bool,
    /// Whether SIGTERM, SIGINT, SIGHUP and SIGQUIT end the program, and a second one kills it; SIGUSR1, SIGUSR2,
    /// SIGALRM, SIGVTALRM, SIGPROF and SIGIO do nothing. Default: true.
    pub handles_signals: bool,
    /// Receives the program's output that is not meant for the runner. When it blocks, the program's output is not read
    /// on. Default: the runner's standard output.
    pub output: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// See [`OnJoined`]. Default: does nothing.
    pub on_joined: OnJoined,
    /// See [`OnEvent`]. Default: does nothing.
    pub on_event: OnEvent,
}

impl RunnerConfig {
    /// Creates a configuration with the defaults. The other arguments are described at the fields of the same name.
    pub fn new(address: impl Into<String>, credential: impl Into<String>, command: Vec<OsString>) -> Self {
        Self {
            address: address.into(),
            tls: TlsOptions::default(),
            credential: credential.into(),
            name: String::new(),
            attributes: v1::MemberAttributes::default(),
            command,
            directory: None,
            environment: Vec::new(),
            mode: Mode::default(),
            agent: AgentOptions::default(),
            takes_tasks: false,
            on_shutdown: None,
            restart: Restart::default(),
            wrap_up: Duration::from_secs(5),
            grace: Duration::from_secs(10),
            containment: Containment::default(),
            watchdog: None,
            heartbeat_interval: Duration::from_secs(10),
            idle_after: Duration::from_secs(1),
            start_patience: Duration::from_secs(30),
            report_patience: Duration::from_secs(60),
            retry: Retry::default(),
            claims_orphans: false,
            handles_signals: true,
            output: Box::new(tokio::io::stdout()),
            on_joined: Arc::new(|_, _| {}),
            on_event: Arc::new(|_| {}),
        }
    }

    /// Returns whether the runner approves a shutdown only between batches. With an explicit policy it approves at
    /// once, so that a batch that never ends cannot hold it up.
    pub(crate) fn approves_between_batches(&self) -> bool {
        self.mode.is_exec() && self.on_shutdown.is_none()
    }

    /// Returns the program's working directory.
    pub(crate) fn working_directory(&self) -> PathBuf {
        self.directory.clone().or_else(|| env::current_dir().ok()).unwrap_or_default()
    }

    /// Returns the PATH that the program gets instead of this process's.
    pub(crate) fn path(&self) -> Option<&OsStr> {
        let path = self.environment.iter().rev().find(|(name, _)| name == "PATH");
        path.map(|(_, path)| path.as_os_str())
    }

    /// Returns what answers a shutdown request.
    pub(crate) fn shutdown_answer(&self) -> OnShutdown {
        let default = if self.mode.is_exec() { OnShutdown::Approve } else { OnShutdown::Ask };
        self.on_shutdown.unwrap_or(default)
    }
}

impl fmt::Debug for RunnerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerConfig")
            .field("address", &self.address)
            .field("name", &self.name)
            .field("command", &self.command)
            .field("mode", &self.mode)
            .field("takes_tasks", &self.takes_tasks)
            .field("on_shutdown", &self.on_shutdown)
            .field("restart", &self.restart)
            .finish_non_exhaustive()
    }
}

/// How messages reach the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// One long-lived program that reads a line of JSON for each message.
    Stdin {
        /// What proves that a message is processed.
        ack: AckPolicy,
    },
    /// One program for each batch of messages.
    Exec {
        /// The most messages in a batch. Zero counts as 1.
        batch_messages_max: usize,
        /// What the program is given.
        input: BatchInput,
    },
    /// An agent program, which the runner drives over the program's own protocol.
    Agent(AgentProtocol),
}

/// What a program is given that is started for each batch of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchInput {
    /// Lines of JSON on its standard input.
    #[default]
    Lines,
    /// A prompt, which says who the program is and what it was sent, on its standard input.
    PromptOnStdin,
    /// The same prompt, as its last argument.
    PromptAsArgument,
}

/// The protocol of an agent program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AgentProtocol {
    /// Claude Code: its streams of JSON on standard input and output.
    Claude,
    /// Codex: `codex app-server` on standard input and output.
    Codex,
    /// The Agent Client Protocol, which Gemini CLI, opencode and others speak.
    Acp,
}

impl AgentProtocol {
    /// Returns the word for it: a value of `--via`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Acp => "acp",
        }
    }
}

/// How an agent program is run.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// What the agent is asked to do first. Empty if it waits for messages.
    pub prompt: String,
    /// Who answers the program when it asks for permission, for example to run a command.
    pub permissions: Permissions,
    /// The member that is asked, with [`Permissions::Ask`]. Empty means the team's lead.
    pub approver: String,
    /// A command that serves [`mcp`](crate::mcp) over standard input and output. Empty if the program gets no tools.
    pub mcp_command: Vec<OsString>,
    /// The directory that keeps the sessions of programs, so that a later runner of the same member resumes them. Only
    /// its owner may have access. `None` if no session is kept.
    pub sessions: Option<PathBuf>,
    /// The directory of the sockets at which a person takes over an agent's session. `None` if no one can.
    pub sockets: Option<PathBuf>,
    /// The directory that keeps the transcripts of agents. Only its owner may have access. `None` if none is kept.
    pub transcripts: Option<PathBuf>,
    /// `true` if the program starts a new session, even if an earlier runner left one.
    pub starts_session: bool,
}

/// Who answers a program that asks for permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// The approver, in a permission request. What no one answers in time is refused.
    #[default]
    Ask,
    /// The runner, which permits everything.
    Allow,
    /// The runner, which permits nothing.
    Deny,
}

impl Default for Mode {
    fn default() -> Self {
        Self::Stdin { ack: AckPolicy::default() }
    }
}

impl Mode {
    /// Returns the mode that runs one program for each batch of up to 16 messages.
    pub fn exec() -> Self {
        Self::Exec { batch_messages_max: 16, input: BatchInput::Lines }
    }

    pub(crate) fn is_exec(self) -> bool {
        matches!(self, Self::Exec { .. })
    }

    pub(crate) fn interface(self) -> Interface {
        match self {
            Self::Stdin { .. } => Interface::Lines,
            Self::Exec { input: BatchInput::Lines, .. } => Interface::Batches,
            Self::Exec { .. } => Interface::Prompts,
            Self::Agent(_) => Interface::Tools,
        }
    }
}

/// What proves that a message is processed, in [`Mode::Stdin`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckPolicy {
    /// The program says so, with a line `{"ack": "MESSAGE_ID"}` or by answering the message.
    #[default]
    ExplicitOrReply,
    /// The pipe took the line. This does not prove that the program read it: a message in the pipe of a program that
    /// dies is lost.
    Written,
}

/// What answers a shutdown request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnShutdown {
    /// The program: with a line, if it chooses to; in [`Mode::Exec`] also with its exit code, where 0 approves and any
    /// other rejects.
    Ask,
    /// The runner, which approves: at once, in [`Mode::Exec`] between batches.
    Approve,
}

/// How a program and its descendants are held together, so that the runner can end them all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Containment {
    /// In a cgroup if this process may create one, else like [`Containment::Watchdog`].
    #[default]
    Auto,
    /// In their own cgroup (version 2, Linux 5.14 or later), which no descendant leaves by detaching. The runner does
    /// not start if it cannot create one.
    Cgroup,
    /// By recognizing descendants: by their parents, their process group and a variable in their environment.
    Watchdog,
}

/// Whether a program that exits by itself is restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Never: the runner ends with it.
    #[default]
    Never,
    /// When it fails, in a new incarnation of the member: after 1 s at first, doubling to 30 s.
    OnFailure {
        /// How many failures in a row, each within a minute of the start, end the runner.
        failures_max: u32,
    },
    /// Whenever it has ended, also with exit code 0: with the same delays, and as often.
    Always {
        /// How many ends in a row, each within a minute of the start, end the runner.
        failures_max: u32,
    },
}
