//! Starts the runner of a member.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::Stdio,
};

use teamwire_client::CONTEXT_VARIABLE;
use teamwire_proto::v1::RestartPolicy;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
};

use super::workspace::Workspace;
use crate::{
    host::{
        Order, Ticket,
        profile::{Profile, RestartWhen},
    },
    process::{Pid, start_in_new_session},
    tls_environment::tls_environment,
};

/// The variables of the host's environment that every member gets.
const KEPT: [&str; 5] = ["PATH", "HOME", "LANG", "TERM", "TZ"];

/// What a runner is started with.
pub(super) struct Launch<'a> {
    /// The path of the teamwire binary.
    pub(super) teamwire: &'a Path,
    pub(super) profile: &'a Profile,
    pub(super) order: &'a Order,
    pub(super) ticket: &'a Ticket,
    pub(super) workspace: &'a Workspace,
    /// Where the runner keeps its identity.
    pub(super) context: PathBuf,
    /// Where the runner keeps everything else.
    pub(super) state: &'a Path,
    /// Receives the output of the runner and its program.
    pub(super) log: File,
    /// The file that the runner writes to when it joins its cgroup.
    pub(super) cgroup_procs: Option<File>,
}

/// The variable of the state directory.
const STATE_VARIABLE: &str = "TEAMWIRE_STATE_DIR";

impl Launch<'_> {
    /// Starts the runner in its own process session. The runner waits for the join token on its standard input.
    pub(super) fn spawn(self) -> io::Result<Child> {
        Pid::prepare_output(&self.log)?;
        let mut command = Command::new(self.teamwire);
        command.arg0("teamwire").args(self.arguments());
        command.env_clear().envs(self.environment());
        command.current_dir(&self.workspace.start);
        command.stdin(Stdio::piped()).stdout(self.log.try_clone()?).stderr(self.log);
        start_in_new_session(&mut command, self.cgroup_procs);
        command.spawn()
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = ["run", &self.order.member, "--join", "-"].map(OsString::from).to_vec();
        let profile = self.profile;
        let restart = match self.order.terms.restart() {
            RestartPolicy::Unspecified => profile.restart,
            RestartPolicy::Never => Some(RestartWhen::Never),
            RestartPolicy::OnFailure => Some(RestartWhen::OnFailure),
            RestartPolicy::Always => Some(RestartWhen::Always),
        };
        let options = [
            ("--via", profile.via.map(|via| via.as_str().to_owned())),
            ("--prompt-as", profile.prompt_as.map(|place| place.as_str().to_owned())),
            ("--permissions", profile.permissions.map(|permissions| permissions.as_str().to_owned())),
            ("--approver", profile.approver.clone()),
            ("--restart", restart.map(|restart| restart.as_str().to_owned())),
        ];
        for (option, value) in options {
            // As one argument, so that a value is never parsed as an option.
            arguments.extend(value.map(|value| format!("{option}={value}").into()));
        }
        if profile.claim {
            arguments.push("--claim".into());
        }
        arguments.push("--".into());
        arguments.extend(profile.command.iter().map(OsString::from));
        arguments
    }

    /// Returns the whole environment: the profile's variables, and those that a runner needs.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let passes = |name: &str| KEPT.contains(&name) || self.profile.passes(name);
        let passed = env::vars_os()
            .filter(|(name, _)| name.to_str().is_some_and(|name| passes(name) && !name.starts_with("TEAMWIRE_")));
        let own = self.profile.env.iter().map(|(name, value)| (name.into(), value.into()));
        let files = tls_environment(self.ticket.tls.clone());
        let files = files.into_iter().map(|(name, value)| (name.into(), value.into()));
        let context = (CONTEXT_VARIABLE.into(), self.context.clone().into());
        let state = (STATE_VARIABLE.into(), self.state.into());
        passed.chain(own).chain(files).chain([context, state]).collect()
    }
}

/// Returns the PATH to search for a profile's program.
pub(super) fn path_of(profile: &Profile) -> Option<OsString> {
    profile.env.get("PATH").map(OsString::from).or_else(|| env::var_os("PATH"))
}

/// Writes the join token to a runner, which reads it up to the end of the line.
pub(super) async fn hand_token(child: &mut Child, ticket: &Ticket) -> io::Result<()> {
    let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    input.write_all(format!("{}@{}\n", ticket.join_token, ticket.address).as_bytes()).await?;
    input.shutdown().await
}
