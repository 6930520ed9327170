//! Starts and ends the program of an incarnation.

use std::{env, ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use teamwire_client::{
    ADDRESS_VARIABLE, CA_VARIABLE, CERT_VARIABLE, CREDENTIAL_VARIABLE, Closed, JOIN_VARIABLE, KEY_VARIABLE,
    MEMBER_VARIABLE, TEAM_VARIABLE,
};
use tokio::{process::Command, time::timeout};
use tokio_util::sync::CancellationToken;

use super::Incarnation;
use crate::{
    attach::Start,
    config::TOOLS_LOADED_VARIABLE,
    event::RunnerEvent,
    exit::{Exit, Why},
    line_protocol::input_lines::Welcome,
    process::{Process, check_directory, with_own_directory},
    tls_environment::tls_environment,
};

/// The variable with the welcome, an object of JSON. A program for one batch reads no welcome: its first line is a
/// message.
const WELCOME_VARIABLE: &str = "TEAMWIRE_WELCOME";

/// What an adapter adds to the command of its program.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    /// The program to start instead. `None` means the one that the user named.
    pub(crate) program: Option<PathBuf>,
    /// Arguments before the user's own.
    pub(crate) before: Vec<OsString>,
    /// Arguments after the user's own.
    pub(crate) after: Vec<OsString>,
    /// Environment variables, unless the user has set them.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The file that the MCP server creates once the program has asked it for its tools. `None` if no one waits for it.
    pub(crate) tools_loaded: Option<PathBuf>,
}

impl Incarnation<'_> {
    /// Starts the program with pipes at its input and its outputs, and with an environment that lets it call for its
    /// member.
    pub(crate) async fn start_program(&self, welcome: &Welcome, additions: Additions) -> Result<Process, Exit> {
        let Some(command) = self.command(welcome, additions) else {
            return Err(Exit::not_started(&std::io::Error::other("the command is empty")));
        };
        if let Err(why) = check_directory(&self.config.working_directory()) {
            return Err(Exit::not_started(&std::io::Error::other(why)));
        }
        let process =
            Process::start(command, self.boundary.clone()).await.map_err(|error| Exit::not_started(&error))?;
        self.tell(RunnerEvent::Started { pid: process.pid() });
        Ok(process)
    }

    /// Ends the program, and every process it has started, in the way that the reason calls for: at once if the member
    /// was stopped by force, and otherwise with SIGTERM and a grace period. A program whose shutdown was approved, or
    /// that has left, gets time to end by itself before that: close its input first. Cancelling `is_wrapped_up` ends
    /// that time. Announces it.
    pub(crate) fn end_program<'p>(
        &self,
        process: &'p mut Process,
        why: &Why,
        is_wrapped_up: CancellationToken,
    ) -> impl Future<Output = Exit> + use<'p> {
        let announced = match why {
            // The program has exited, so this ends only the processes that it left behind.
            Why::Exited => None,
            Why::Approved => Some("the shutdown was approved".to_owned()),
            Why::Left => Some("the member has left".to_owned()),
            Why::HandedOver => Some("a person takes over its session".to_owned()),
            Why::IgnoredInterrupt => Some("it did not end its turn when it was interrupted".to_owned()),
            Why::Stopped => Some("the runner was asked to stop".to_owned()),
            Why::Closed(closed) => Some(closed.to_string()),
            Why::Refused(error) => Some(error.to_string()),
        };
        if let Some(why) = announced {
            self.tell(RunnerEvent::Ending { why });
        }
        let is_forced = matches!(why, Why::Closed(Closed::MemberStopped));
        let wrap_up = if why.is_agreed() { self.config.wrap_up } else { Duration::ZERO };
        let (grace, hurry) = (self.config.grace, self.hurry.token());
        async move {
            if is_forced {
                return process.kill().await;
            }
            let is_over = async {
                let _ = timeout(wrap_up, is_wrapped_up.cancelled()).await;
            };
            process.end(is_over, grace, &hurry).await
        }
    }

    /// Reports how the program exited.
    pub(crate) fn program_ended(&self, exit: &Exit) {
        self.tell(RunnerEvent::Exited { code: exit.code, signal: exit.signal, action: exit.action });
    }

    /// Returns the environment variables with which a process calls for the member.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let team = self.joined.team.as_ref().map(|team| team.name.as_str()).unwrap_or_default();
        let member = self.joined.member.as_ref().map(|member| member.name.as_str()).unwrap_or_default();
        let files = tls_environment(self.client.tls());
        let identity = [
            (ADDRESS_VARIABLE, self.client.address().to_owned()),
            (CREDENTIAL_VARIABLE, self.joined.credential.clone()),
            (TEAM_VARIABLE, team.to_owned()),
            (MEMBER_VARIABLE, member.to_owned()),
        ];
        identity.into_iter().chain(files).map(|(variable, value)| (variable.to_owned(), value)).collect()
    }

    /// Returns how a person starts the program at a terminal. `additions`: what the adapter adds to its command.
    pub(crate) fn at_terminal(&self, additions: Additions) -> Start {
        let lossy = |text: &OsString| text.to_string_lossy().into_owned();
        let program = self.config.command.first().map(lossy).unwrap_or_default();
        let arguments = self.config.command.iter().skip(1);
        let variable = |(name, value): &(OsString, OsString)| (lossy(name), lossy(value));
        Start {
            program: additions.program.map_or(program, |program| program.to_string_lossy().into_owned()),
            arguments: additions.before.iter().chain(arguments).chain(&additions.after).map(lossy).collect(),
            environment: self.config.environment.iter().map(variable).chain(self.environment()).collect(),
            directory: self.config.working_directory(),
        }
    }

    fn command(&self, welcome: &Welcome, additions: Additions) -> Option<Command> {
        let (program, arguments) = self.config.command.split_first()?;
        let mut command = match &additions.program {
            Some(instead) => Command::new(instead),
            None => Command::new(program),
        };
        command.args(additions.before).args(arguments).args(additions.after);
        // To a program, an empty variable may be none.
        let is_unset = |(name, _): &(OsString, OsString)| env::var_os(name).is_none_or(|value| value.is_empty());
        command.envs(additions.environment.into_iter().filter(is_unset));
        command.envs(self.config.environment.iter().map(|(name, value)| (name, value)));
        // Those of a runner around this one are not for its program.
        for variable in [CA_VARIABLE, CERT_VARIABLE, KEY_VARIABLE, JOIN_VARIABLE, TOOLS_LOADED_VARIABLE] {
            command.env_remove(variable);
        }
        command.envs(additions.tools_loaded.map(|file| (TOOLS_LOADED_VARIABLE, file)));
        command.envs(self.environment());
        let path = env::var_os("PATH").unwrap_or_default();
        command.env("PATH", with_own_directory(path, env::current_exe().ok().as_deref()));
        command.env(WELCOME_VARIABLE, welcome.line.trim_end());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = &self.config.directory {
            command.current_dir(directory);
        }
        Some(command)
    }
}
