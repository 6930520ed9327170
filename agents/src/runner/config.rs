//! What a runner is told.

use std::{ffi::OsString, fmt, path::PathBuf, sync::Arc, time::Duration};

use teamwire_proto::v1;
use tokio::io::AsyncWrite;

use super::RunnerEvent;
use teamwire_client::{Client, Retry, TlsOptions};

/// Called with the reply of every Join and the client that made it, before a process is started: the place to store the
/// new credential, and where it is good.
pub type OnJoined = Arc<dyn Fn(&v1::JoinResponse, &Client) + Send + Sync>;

/// Called with what happens. Must return quickly.
pub type OnEvent = Arc<dyn Fn(&RunnerEvent) + Send + Sync>;

/// What a runner is told. [`RunnerConfig::new`] fills in the defaults.
pub struct RunnerConfig {
    /// The coordinator's address, or several with commas between them.
    pub address: String,
    /// With `https`: whom to trust, and what to show. The program is told, too.
    pub tls: TlsOptions,
    /// A join token, or the member's own credential, with which it begins a new life.
    pub credential: String,
    /// The name to bear. Empty: the one that the credential is bound to.
    pub name: String,
    /// What the member tells of itself.
    pub attributes: v1::MemberAttributes,
    /// The program and its arguments. Not empty.
    pub command: Vec<OsString>,
    /// Where the program runs. None: where the runner does.
    pub directory: Option<PathBuf>,
    /// Environment variables for the program, besides those of the runner and those of teamwire.
    pub environment: Vec<(OsString, OsString)>,
    /// How messages reach the program.
    pub mode: Mode,
    /// True: while the member has nothing in hand, the runner takes the next task off the board for it. Default: false.
    pub takes_tasks: bool,
    /// What answers a shutdown request.
    pub on_shutdown: OnShutdown,
    /// Whether a program that has failed is started again.
    pub restart: Restart,
    /// How long a program has after SIGTERM before SIGKILL. Default: 10 s.
    pub grace: Duration,
    /// How often the lease is renewed besides the open session. Default: 10 s.
    pub heartbeat_interval: Duration,
    /// How long nothing must have come, with everything acknowledged, before the member is called idle. Default: 1 s.
    pub idle_after: Duration,
    /// How long the coordinator may be unreachable when the runner starts. Default: 30 s.
    pub start_patience: Duration,
    /// How long the runner tries to have its last acts confirmed: answers under way, and the report of the exit.
    /// Default: 60 s.
    pub report_patience: Duration,
    /// How persistent the calls in between are. Default: 10 minutes.
    pub retry: Retry,
    /// True: every child of the runner's process that is not the program itself descends from it, and is ended with
    /// it, whatever it has done to leave its parents. Right for a process that does nothing but run this runner.
    /// False: descendants are known by their parents, their process group, and a variable in their environment, so
    /// that one which detaches twice and clears its environment gets away. Default: false.
    pub claims_orphans: bool,
    /// True: SIGTERM, SIGINT and SIGHUP end the program, and a second one kills it. Default: true.
    pub handles_signals: bool,
    /// Where the program's lines go that are not meant for the runner. Default: the runner's standard output. When it
    /// does not take more, the program's output is not read on.
    pub output: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// See [`OnJoined`]. Default: nothing.
    pub on_joined: OnJoined,
    /// See [`OnEvent`]. Default: nothing.
    pub on_event: OnEvent,
}

impl RunnerConfig {
    /// Makes a configuration with the defaults.
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
            takes_tasks: false,
            on_shutdown: OnShutdown::default(),
            restart: Restart::default(),
            grace: Duration::from_secs(10),
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
    /// One program, one line of JSON on its standard input for each message.
    Stdin {
        /// What proves that a message is processed.
        ack: AckPolicy,
    },
    /// One program for each batch of messages.
    Exec {
        /// How many messages go together at most. Not zero.
        batch_messages_max: usize,
    },
}

impl Default for Mode {
    fn default() -> Self {
        Self::Stdin { ack: AckPolicy::default() }
    }
}

impl Mode {
    /// One program for each batch of up to 16 messages.
    pub fn exec() -> Self {
        Self::Exec { batch_messages_max: 16 }
    }
}

/// What proves that a message is processed, where the program reads lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckPolicy {
    /// The program says so, with a line `{"ack": "MESSAGE_ID"}` or by answering. Proves what the program means by it.
    #[default]
    ExplicitOrReply,
    /// The line was written to the pipe. Proves that the program's input took it, and nothing of whether it was read:
    /// a message in the pipe of a program that dies is lost.
    Written,
}

/// What answers a shutdown request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnShutdown {
    /// The program is handed the request and answers it, or does not.
    #[default]
    Ask,
    /// The runner approves it for the program.
    Approve,
}

/// Whether a program that ends by itself is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// It is not: the runner ends with it.
    #[default]
    Never,
    /// It is, in a new life of the member, when it failed: after 1 s at first, doubling to 60 s.
    OnFailure {
        /// How many failures in a row, each within a minute of its start, end the runner.
        failures_max: u32,
    },
}
