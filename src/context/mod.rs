//! Resolves the coordinator's address and the caller's identity.
//!
//! Precedence, highest to lowest: flags, environment, the context file, the files that a coordinator on this machine
//! left in its state directory. A join string outranks the environment, which may belong to another member. Within a
//! program that a runner started, only the runner's member may be used.

mod advice;
mod endpoint;
mod identities;
mod operator;
mod private_file;
mod runner;
mod waiting;

use std::{fs, io, path::PathBuf, time::Duration};

use clap::Args;
use teamwire_client::{Client, KeptIdentity, Pem, Retry, state_directory, v1};
use teamwire_proto::{credential::Credential, join_string::JoinString};

pub(crate) use self::{
    advice::{has_ended, may_rejoin},
    endpoint::socket_path,
    identities::identity,
    private_file::{make_private_directory, refuse_shared, try_lock, write_private, write_public},
    runner::{is_within_runner, refuse_within_runner},
};
use crate::failure::{Failure, NOT_PERMITTED};

/// How long commands retry a call unless `--timeout` says otherwise.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);

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
    #[arg(long, global = true, value_name = "URL", help_heading = "Context")]
    address: Option<String>,
    /// For https: the certificate of the only CA to trust, in PEM [env: TEAMWIRE_CA] [default: the identity's, or the
    /// system's CAs]
    #[arg(long, global = true, value_name = "FILE", value_parser = parse_pem, help_heading = "Context")]
    ca: Option<Pem>,
    /// For https: the client certificate to present, in PEM
    #[arg(
        long,
        env = "TEAMWIRE_CERT",
        global = true,
        value_name = "FILE",
        value_parser = parse_pem,
        hide_env_values = true,
        help_heading = "Context"
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
        help_heading = "Context"
    )]
    key: Option<Pem>,
    /// The credential to use instead of one from the context file
    ///
    /// Other users of this machine can see it in the process list: prefer --credential-file or the environment.
    #[arg(long, env = "TEAMWIRE_CREDENTIAL", global = true, hide_env_values = true, help_heading = "Context")]
    credential: Option<String>,
    /// The file with the credential
    #[arg(long, global = true, value_name = "FILE", help_heading = "Context")]
    credential_file: Option<PathBuf>,
    /// The team; needed by the operator, and to choose between identities with the same name
    #[arg(long, env = "TEAMWIRE_TEAM", global = true, value_name = "TEAM", help_heading = "Context")]
    team: Option<String>,
    /// The identity to use from the context file: NAME, NAME@TEAM, or `operator`
    #[arg(long = "as", env = "TEAMWIRE_AS", global = true, value_name = "WHO", help_heading = "Context")]
    who: Option<String>,
    /// The context file, which holds saved identities [default: ~/.config/teamwire/context.json]
    #[arg(long, env = "TEAMWIRE_CONTEXT", global = true, value_name = "FILE", help_heading = "Context")]
    context: Option<PathBuf>,
    /// The state directory of this machine's coordinator [default: ~/.local/state/teamwire]
    #[arg(long, env = "TEAMWIRE_STATE_DIR", global = true, value_name = "DIR", help_heading = "Context")]
    state_dir: Option<PathBuf>,
    /// How long to retry a call before it fails, in seconds [default: 15; less than 1 if the address is on this machine
    /// and no coordinator is running there]
    #[arg(long, env = "TEAMWIRE_TIMEOUT", global = true, value_name = "SECONDS", help_heading = "Context")]
    timeout: Option<u64>,
    /// Do not say what a call waits for: the output is for programs.
    #[arg(skip)]
    pub is_quiet: bool,
}

/// Where a credential came from, which decides the address and TLS options to use with it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// A flag or the environment: no address comes with it.
    Bare,
    /// The state directory of this machine's coordinator, which also has its address.
    Operator,
    /// A join string. Its address outranks the environment.
    JoinString(&'a JoinString),
    /// An identity saved in the context file. The environment outranks its address.
    Saved(&'a KeptIdentity),
    /// A saved identity at an address that the user has named, with a join string.
    Named(&'a KeptIdentity),
}

/// A resolved caller: its identity and a client that uses it.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub client: Client,
    /// The coordinator's address.
    pub address: String,
    pub credential: String,
    /// The member's name; `None` for the operator and for observers.
    pub member: Option<String>,
    /// The team; `None` for the operator without --team.
    pub team: Option<String>,
}

impl Caller {
    /// Returns whether `name` is the caller's own, ignoring case.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.member.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns a member of the caller's team, by its name or NAME@TEAM.
    pub(crate) async fn find_member(&self, who: &str) -> Result<Option<v1::Member>, Failure> {
        let name = who.split_once('@').map_or(who, |(name, _)| name);
        Ok(self.client.members().await?.into_iter().find(|member| member.name.eq_ignore_ascii_case(name)))
    }

    /// Returns the caller with this team as the one that its calls are about.
    pub(crate) fn in_team(mut self, team: &str) -> Self {
        self.client = self.client.with_team(team);
        self.team = Some(team.to_owned());
        self
    }

    /// Returns the member's name. Fails if the caller is not a member.
    pub(crate) fn member(&self) -> Result<&str, Failure> {
        self.member.as_deref().ok_or(Failure::NotAMember)
    }
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

    /// Resolves the caller: the given credential, else the chosen or current identity, else the operator, else the only
    /// saved identity, else the only one of a runner. With --team, considers no identity of another team.
    ///
    /// Fails if there is no identity, or if several are saved and none is chosen.
    pub(crate) fn caller(&self) -> Result<Caller, Failure> {
        self.check_within_runner()?;
        if let Some(credential) = &self.credential {
            return self.caller_with(credential.clone(), Origin::Bare);
        }
        if self.who.as_deref() == Some("operator") {
            return self.operator();
        }
        let (who, team) = (self.who.as_deref(), self.team.as_deref());
        let (file, runs) = (self.load()?, self.load_runs()?);
        let chosen = match (file.choose(who, team), who) {
            // Only an explicit choice selects a runner's identity.
            (Err(error), Some(_)) => runs.choose(who, team).map_err(|_| error)?,
            (chosen, _) => chosen?,
        };
        if let Some(identity) = chosen {
            return self.caller_of(identity);
        }
        let failure = match self.operator() {
            Ok(operator) => return Ok(operator),
            Err(failure) => failure,
        };
        let of_team = |identity: &&KeptIdentity| team.is_none_or(|team| identity.team.eq_ignore_ascii_case(team));
        for known in [&file, &runs] {
            match known.identities.iter().filter(of_team).collect::<Vec<_>>().as_slice() {
                [] => {}
                [only] => return self.caller_of(only),
                _ => {
                    return Err(Failure::usage(format!(
                        "There are several identities. Choose one with --as WHO or `teamwire use WHO`: {}.",
                        known.names()
                    )));
                }
            }
        }
        Err(match team {
            Some(team) if !file.identities.is_empty() => Failure::with_code(
                NOT_PERMITTED,
                format!(
                    "You have no identity in team {team}, and there is no operator's credential on this machine. You are: {}. To \
                     join the team, ask its lead for a join string.",
                    file.names()
                ),
            ),
            _ => failure,
        })
    }

    /// Returns the caller, and fails if it is not the identity that --as names: a credential in the environment would
    /// outrank that.
    pub(crate) fn pinned_caller(&self) -> Result<Caller, Failure> {
        let caller = self.caller()?;
        let (member, team) = (caller.member.as_deref().unwrap_or_default(), caller.team.as_deref());
        let (named, of) = self
            .who
            .as_deref()
            .map_or((member, None), |who| who.split_once('@').map_or((who, None), |(named, of)| (named, Some(of))));
        let is_of = |of: &str| team.is_some_and(|team| team.eq_ignore_ascii_case(of));
        if named.eq_ignore_ascii_case(member) && of.is_none_or(is_of) {
            return Ok(caller);
        }
        Err(Failure::with_code(
            NOT_PERMITTED,
            format!(
                "--as names {}, and the credential in the environment is that of {member}@{}. Unset TEAMWIRE_CREDENTIAL.",
                self.who.as_deref().unwrap_or_default(),
                team.unwrap_or_default()
            ),
        ))
    }

    /// Returns the name that --as gives, and the team with it.
    pub(crate) fn named(&self) -> Option<(&str, Option<&str>)> {
        let who = self.who.as_deref()?;
        Some(who.split_once('@').map_or((who, self.team.as_deref()), |(named, of)| (named, Some(of))))
    }

    /// Returns the caller with a credential that an identity was saved with.
    pub(crate) fn caller_with_saved(&self, credential: &str) -> Result<Caller, Failure> {
        let file = self.load()?;
        let saved = file.identities.iter().find(|identity| identity.credential == credential);
        self.caller_of(saved.ok_or(Failure::NotAMember)?)
    }

    /// Returns the directory in which the hooks of agent programs keep their state.
    pub(crate) fn hooks_directory(&self) -> Result<PathBuf, Failure> {
        Ok(self.state_dir()?.join(HOOKS_DIRECTORY))
    }

    /// Returns the caller that is, or may act as, the lead of a team: the lead's own identity if it is saved here, else
    /// the operator, else any identity of the team. A credential or identity that was chosen explicitly takes
    /// precedence.
    pub(crate) async fn caller_leading(&self, team: &str) -> Result<Caller, Failure> {
        self.check_within_runner()?;
        let own = match (&self.credential, &self.who) {
            (None, None) => self.load()?,
            _ => return self.caller(),
        };
        let own = own.in_team(team);
        for identity in &own {
            let caller = self.caller_of(identity)?;
            if let Ok(reply) = caller.client.get_team(v1::GetTeamRequest::default()).await {
                let lead = reply.team.unwrap_or_default().lead;
                match own.iter().find(|identity| identity.is(&lead, Some(team))) {
                    Some(lead) => return self.caller_of(lead),
                    None => break,
                }
            }
        }
        match (self.operator(), own.as_slice()) {
            (Ok(operator), _) => Ok(operator),
            (Err(_), [any, ..]) => self.caller_of(any),
            (Err(_), []) => self.caller(),
        }
    }

    /// Returns the caller for reading a team: an identity in it, else the operator, else the current identity.
    pub(crate) fn caller_in(&self, team: &str) -> Result<Caller, Failure> {
        self.check_within_runner()?;
        if self.credential.is_some() || self.who.is_some() {
            return self.caller();
        }
        match (self.load()?.in_team(team).as_slice(), self.operator()) {
            ([first, ..], _) => self.caller_of(first),
            ([], Ok(operator)) => Ok(operator),
            ([], Err(_)) => self.caller(),
        }
    }

    /// Returns the caller with a saved identity.
    pub(crate) fn caller_of(&self, identity: &KeptIdentity) -> Result<Caller, Failure> {
        self.caller_with(identity.credential.clone(), Origin::Saved(identity))
    }

    /// Returns the caller with a saved identity, to continue it where a join string leads. `joining`: who would join by
    /// that.
    pub(crate) fn caller_again(&self, identity: &KeptIdentity, joining: Option<&Caller>) -> Result<Caller, Failure> {
        let is_named = joining.is_some_and(|joining| joining.address == identity.address);
        let origin = if is_named { Origin::Named(identity) } else { Origin::Saved(identity) };
        self.caller_with(identity.credential.clone(), origin)
    }

    /// Returns the operator of this machine's coordinator.
    ///
    /// A given credential takes precedence: an agent that acts for a member must not become the operator because it
    /// runs on the same machine.
    pub(crate) fn operator(&self) -> Result<Caller, Failure> {
        self.check_within_runner()?;
        if let Some(credential) = &self.credential {
            return self.caller_with(credential.clone(), Origin::Bare);
        }
        let state_dir = self.state_dir()?;
        let path = state_dir.join(OPERATOR_FILE);
        if path.exists() {
            refuse_shared(&state_dir)?;
            refuse_shared(&path)?;
        }
        let credential = fs::read_to_string(&path).map_err(|error| {
            let message = match error.kind() {
                io::ErrorKind::NotFound => format!(
                    "No identity is saved on this machine, and there is no operator's credential at {}. Start a team \
                     with `teamwire up` or a coordinator with `teamwire serve`, join a team with `teamwire join`, or set TEAMWIRE_CREDENTIAL.",
                    path.display()
                ),
                _ => format!("Cannot read {}: {error}", path.display()),
            };
            Failure::with_code(NOT_PERMITTED, message)
        })?;
        self.caller_with(credential.trim().to_owned(), Origin::Operator)
    }

    /// Returns the caller that is about to join, from a join string, a bare join token or a member's credential.
    pub(crate) fn caller_for_join(&self, text: &str) -> Result<Caller, Failure> {
        if let Ok(Credential::Member { .. }) = Credential::parse(text.trim()) {
            return self.caller_with(text.trim().to_owned(), Origin::Bare);
        }
        let join_string = JoinString::parse(text)?;
        self.caller_with(join_string.token().reveal(), Origin::JoinString(&join_string))
    }

    /// Returns the caller that a credential belongs to.
    pub(crate) fn caller_with(&self, credential: String, origin: Origin<'_>) -> Result<Caller, Failure> {
        let parsed = Credential::parse(&credential)?;
        let own_team = parsed.team().map(ToString::to_string);
        let member = match &parsed {
            Credential::Member { member, .. } => Some(member.to_string()),
            _ => None,
        };
        let (address, tls) = self.endpoint(origin)?;
        self.check_proof(origin, &address)?;
        let team = self.team.clone().or(own_team);
        let mut client = Client::connect_with(&address, tls)?
            .with_credential(&credential)?
            .with_retry(Retry::within(self.timeout.map_or(TIMEOUT_DEFAULT, Duration::from_secs)))
            .with_wait_observer(waiting::observer(self.timeout.is_some(), self.is_quiet));
        if let Some(team) = &team {
            client = client.with_team(team.clone());
        }
        let address = client.address().to_owned();
        Ok(Caller { client, address, credential, member, team })
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
