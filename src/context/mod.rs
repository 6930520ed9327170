//! Resolves the coordinator's address and the caller's identity.
//!
//! Precedence, highest to lowest: flags, environment, the context file, the files that a coordinator on this machine
//! left in its state directory. A join string outranks the environment, which may belong to another member. Within a
//! program that a runner started, only the runner's member may be used.

mod advice;
mod caller;
mod endpoint;
mod identities;
mod operator;
mod private_file;
mod runner;
mod waiting;

use std::{fs, path::PathBuf};

use clap::Args;
use teamwire_client::{Client, Pem, state_directory};

use self::caller::Origin;
pub(crate) use self::{
    advice::{has_ended, may_rejoin},
    caller::{Caller, Who},
    endpoint::socket_path,
    identities::identity,
    private_file::{
        directory_of, make_private_directory, refuse_shared, remove_file, try_lock, write_private, write_public,
    },
    runner::{is_within_runner, refuse_within_runner},
};
use crate::failure::Failure;

/// The state directory's file with the operator's credential.
pub(crate) const OPERATOR_FILE: &str = "operator.credential";

/// The state directory's file with the coordinator's address.
pub(crate) const ADDRESS_FILE: &str = "address";

/// The state directory's file with the certificate of the coordinator's CA.
pub(crate) const CA_FILE: &str = "ca.crt";

/// The state directory's directory with the state of hooks.
const HOOKS_DIRECTORY: &str = "hooks";

/// The global options that select the caller and the coordinator.
#[derive(Args, Clone, Debug)]
pub(crate) struct ContextArgs {
    /// The coordinator's address, http[s]://HOST:PORT or unix:///PATH; comma-separated for several that share a store
    /// [env: TEAMWIRE_ADDRESS] [default: the identity's, or the socket in the state directory]
    // `endpoint` reads the environment instead of clap, because a join string outranks it and a flag outranks both.
    #[arg(long, global = true, value_name = "URL", help_heading = "Context", hide_short_help = true)]
    address: Option<String>,
    /// For https: the certificate of the only CA to trust, in PEM [env: TEAMWIRE_CA] [default: the identity's, or the
    /// system's CAs]
    #[arg(long, global = true, value_name = "FILE", value_parser = parse_pem, help_heading = "Context", hide_short_help = true)]
    ca: Option<Pem>,
    /// For https: the client certificate to present, in PEM
    #[arg(
        long,
        env = "TEAMWIRE_CERT",
        global = true,
        value_name = "FILE",
        value_parser = parse_pem,
        hide_env_values = true,
        help_heading = "Context", hide_short_help = true
    )]
    cert: Option<Pem>,
    /// The private key of the client certificate, in PEM
    #[arg(
        long,
        env = "TEAMWIRE_KEY",
        global = true,
        value_name = "FILE",
        value_parser = parse_pem,
        hide_env_values = true,
        help_heading = "Context", hide_short_help = true
    )]
    key: Option<Pem>,
    /// The credential to use instead of one from the context file
    ///
    /// Other users of this machine can see it in the process list: prefer --credential-file or the environment.
    #[arg(
        long,
        env = "TEAMWIRE_CREDENTIAL",
        global = true,
        hide_env_values = true,
        help_heading = "Context",
        hide_short_help = true
    )]
    credential: Option<String>,
    /// The file with the credential
    #[arg(long, global = true, value_name = "FILE", help_heading = "Context", hide_short_help = true)]
    credential_file: Option<PathBuf>,
    /// The team; needed by the operator, and to choose between identities with the same name
    #[arg(
        long,
        env = "TEAMWIRE_TEAM",
        global = true,
        value_name = "TEAM",
        help_heading = "Context",
        hide_short_help = true
    )]
    team: Option<String>,
    /// The identity to use from the context file: NAME, NAME@TEAM, or `operator`
    #[arg(
        long = "as",
        env = "TEAMWIRE_AS",
        global = true,
        value_name = "WHO",
        help_heading = "Context",
        hide_short_help = true
    )]
    who: Option<String>,
    /// The context file, which holds saved identities [default: ~/.config/teamwire/context.json]
    #[arg(
        long,
        env = "TEAMWIRE_CONTEXT",
        global = true,
        value_name = "FILE",
        help_heading = "Context",
        hide_short_help = true
    )]
    context: Option<PathBuf>,
    /// The state directory of this machine's coordinator [default: ~/.local/state/teamwire]
    #[arg(
        long,
        env = "TEAMWIRE_STATE_DIR",
        global = true,
        value_name = "DIR",
        help_heading = "Context",
        hide_short_help = true
    )]
    state_dir: Option<PathBuf>,
    /// How long to retry a call before it fails, in seconds [default: 15; less than 1 if the address is on this machine
    /// and no coordinator is running there]
    #[arg(
        long,
        env = "TEAMWIRE_TIMEOUT",
        global = true,
        value_name = "SECONDS",
        help_heading = "Context",
        hide_short_help = true
    )]
    timeout: Option<u64>,
    /// Do not say what a call waits for: the output is for programs.
    #[arg(skip)]
    pub is_quiet: bool,
}

impl ContextArgs {
    /// Reads the file that --credential-file names, which outranks the environment.
    pub(crate) fn read_credential_file(&mut self) -> Result<(), String> {
        let Some(file) = &self.credential_file else { return Ok(()) };
        let text = fs::read_to_string(file)
            .map_err(|error| format!("Cannot read the credential from {}: {error}.", file.display()))?;
        self.credential = Some(text.trim().to_owned());
        Ok(())
    }

    /// Returns the name that --as gives, and the team with it.
    pub(crate) fn named(&self) -> Option<(&str, Option<&str>)> {
        let who = self.who.as_deref()?;
        Some(who.split_once('@').map_or((who, self.team.as_deref()), |(named, of)| (named, Some(of))))
    }

    /// Returns the directory in which the hooks of agent programs keep their state.
    pub(crate) fn hooks_directory(&self) -> Result<PathBuf, Failure> {
        Ok(self.state_dir()?.join(HOOKS_DIRECTORY))
    }

    /// Returns a client without a credential, for calls that need none.
    pub(crate) fn anonymous_client(&self) -> Result<Client, Failure> {
        let (address, tls) = self.endpoint(Origin::Bare)?;
        Ok(Client::connect_with(&address, tls)?)
    }

    /// Returns the team given by --team or the environment.
    pub(crate) fn team(&self) -> Option<&str> {
        self.team.as_deref()
    }

    /// Returns the flags with which another terminal finds the same state directory and context file. Empty if both are
    /// in their default places.
    pub(crate) fn location_flags(&self) -> Vec<String> {
        let locations = [("--state-dir", &self.state_dir), ("--context", &self.context)];
        let given = locations.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
        let words = given.flat_map(|(flag, path)| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            [flag.to_owned(), path.display().to_string()]
        });
        words.collect()
    }

    /// Returns the state directory of this machine's coordinator. Fails if neither it nor HOME is known.
    pub(crate) fn state_dir(&self) -> Result<PathBuf, Failure> {
        self.state_dir.clone().or_else(state_directory).ok_or_else(home_not_set)
    }
}

fn parse_pem(text: &str) -> Result<Pem, std::convert::Infallible> {
    Ok(absolute(text.to_owned().into()))
}

/// Makes a path absolute, because it may be saved and used from another directory.
fn absolute(pem: Pem) -> Pem {
    match pem {
        Pem::File(path) => Pem::File(std::path::absolute(&path).unwrap_or(path)),
        text @ Pem::Text(_) => text,
    }
}

fn home_not_set() -> Failure {
    Failure::usage("HOME is not set. Give the locations with --context FILE and --state-dir DIR.")
}

#[cfg(test)]
mod tests;
