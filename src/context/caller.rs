//! Who makes a command's calls.

use std::{fs, io, time::Duration};

use teamwire_client::{Client, KeptIdentity, Retry, v1};
use teamwire_proto::{credential::Credential, join_string::JoinString};

use super::{ContextArgs, OPERATOR_FILE, refuse_shared, waiting::Patience};
use crate::failure::{Failure, NOT_PERMITTED};

/// How long commands retry a call unless `--timeout` says otherwise.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);

/// Whom a command acts as. A credential that the user has named takes precedence over the first six.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'a> {
    /// The chosen or current identity, else the operator, else the only saved identity, else the only one of a runner.
    /// With --team, no identity of another team. Fails if several are saved and none is chosen.
    Current,
    /// The same, but it must be the identity that --as names: a credential in the environment would outrank that.
    Pinned,
    /// The operator of this machine's coordinator. An agent that acts for a member must not become the operator because
    /// it runs on the same machine, so a given credential takes precedence.
    Operator,
    /// The identity that --as names, else the operator.
    NamedOrOperator,
    /// For reading this team: an identity in it, else the operator, else the current identity.
    In(&'a str),
    /// This saved identity.
    Saved(&'a KeptIdentity),
    /// The identity that was saved with this credential.
    SavedWith(&'a str),
    /// This saved identity, to continue it where a join string leads, by which that caller would join.
    Again(&'a KeptIdentity, Option<&'a Caller>),
    /// A caller that is about to join, from a join string, a bare join token or a member's credential.
    Joining(&'a str),
    /// The operator of this machine's coordinator, with a new credential.
    OperatorWith(&'a Credential),
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
    /// What it does while a stream that a wait needs is broken.
    wait: Patience,
}

impl Caller {
    /// Returns whether `name` is the caller's own, ignoring case.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.member.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns a client whose streams fail once they are broken for as long as the command tries a call: for a wait that
    /// ends.
    pub(crate) fn waiting_client(&self) -> Client {
        self.client.clone().with_wait_observer(self.wait.observer())
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

/// Where a credential came from, which decides the address and TLS options to use with it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'a> {
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

impl ContextArgs {
    /// Resolves the caller.
    pub(crate) fn caller(&self, who: Who<'_>) -> Result<Caller, Failure> {
        match who {
            Who::Current => self.given_or(Self::current),
            Who::Pinned => self.pinned(),
            Who::Operator => self.given_or(Self::operator),
            Who::NamedOrOperator => self.caller(if self.who.is_some() { Who::Current } else { Who::Operator }),
            Who::In(team) => self.reader_of(team),
            Who::Saved(identity) => self.connect(&identity.credential, Origin::Saved(identity)),
            Who::SavedWith(credential) => {
                let file = self.load()?;
                let saved = file.identities.iter().find(|identity| identity.credential == credential);
                self.caller(Who::Saved(saved.ok_or(Failure::NotAMember)?))
            }
            Who::Again(identity, Some(joining)) if joining.address == identity.address => {
                self.connect(&identity.credential, Origin::Named(identity))
            }
            Who::Again(identity, _) => self.caller(Who::Saved(identity)),
            Who::Joining(text) => match Credential::parse(text.trim()) {
                Ok(Credential::Member { .. }) => self.connect(text.trim(), Origin::Bare),
                _ => {
                    let join_string = JoinString::parse(text)?;
                    self.connect(&join_string.token().reveal(), Origin::JoinString(&join_string))
                }
            },
            Who::OperatorWith(credential) => self.connect(&credential.reveal(), Origin::Operator),
        }
    }

    /// Returns the caller that is, or may act as, the lead of a team: the lead's own identity if it is saved here, else
    /// the operator, else any identity of the team. A credential or identity that was chosen explicitly takes
    /// precedence.
    pub(crate) async fn caller_leading(&self, team: &str) -> Result<Caller, Failure> {
        self.check_within_runner()?;
        let own = match (&self.credential, &self.who) {
            (None, None) => self.load()?,
            _ => return self.caller(Who::Current),
        };
        let own = own.in_team(team);
        for identity in &own {
            let caller = self.caller(Who::Saved(identity))?;
            // Without retries: a command that can start a coordinator does not wait for one.
            let client = caller.client.with_retry(Retry::none());
            if let Ok(reply) = client.get_team(v1::GetTeamRequest::default()).await {
                let lead = reply.team.unwrap_or_default().lead;
                match own.iter().find(|identity| identity.is(&lead, Some(team))) {
                    Some(lead) => return self.caller(Who::Saved(lead)),
                    None => break,
                }
            }
        }
        match (self.caller(Who::Operator), own.as_slice()) {
            (Ok(operator), _) => Ok(operator),
            (Err(_), [any, ..]) => self.caller(Who::Saved(any)),
            (Err(_), []) => self.caller(Who::Current),
        }
    }

    /// Returns the caller with the given credential, or else another. Within a runner, fails unless that is the
    /// runner's member.
    fn given_or(&self, other: impl Fn(&Self) -> Result<Caller, Failure>) -> Result<Caller, Failure> {
        self.check_within_runner()?;
        match &self.credential {
            Some(credential) => self.connect(credential, Origin::Bare),
            None => other(self),
        }
    }

    fn current(&self) -> Result<Caller, Failure> {
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
            return self.caller(Who::Saved(identity));
        }
        let failure = match self.operator() {
            Ok(operator) => return Ok(operator),
            Err(failure) => failure,
        };
        let of_team = |identity: &&KeptIdentity| team.is_none_or(|team| identity.team.eq_ignore_ascii_case(team));
        for known in [&file, &runs] {
            match known.identities.iter().filter(of_team).collect::<Vec<_>>().as_slice() {
                [] => {}
                [only] => return self.caller(Who::Saved(only)),
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

    fn pinned(&self) -> Result<Caller, Failure> {
        let caller = self.caller(Who::Current)?;
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

    fn reader_of(&self, team: &str) -> Result<Caller, Failure> {
        self.check_within_runner()?;
        if self.credential.is_some() || self.who.is_some() {
            return self.caller(Who::Current);
        }
        match (self.load()?.in_team(team).as_slice(), self.operator()) {
            ([first, ..], _) => self.caller(Who::Saved(first)),
            ([], Ok(operator)) => Ok(operator),
            ([], Err(_)) => self.caller(Who::Current),
        }
    }

    fn operator(&self) -> Result<Caller, Failure> {
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
        self.connect(credential.trim(), Origin::Operator)
    }

    /// Returns the caller that a credential belongs to.
    fn connect(&self, credential: &str, origin: Origin<'_>) -> Result<Caller, Failure> {
        let parsed = Credential::parse(credential)?;
        let own_team = parsed.team().map(ToString::to_string);
        let member = match &parsed {
            Credential::Member { member, .. } => Some(member.to_string()),
            _ => None,
        };
        let (address, tls) = self.endpoint(origin)?;
        self.check_proof(origin, &address)?;
        let team = self.team.clone().or(own_team);
        let timeout = self.timeout.map_or(TIMEOUT_DEFAULT, Duration::from_secs);
        let patience = Patience { is_patient: self.timeout.is_some(), is_quiet: self.is_quiet, of_streams: None };
        let mut client = Client::connect_with(&address, tls)?
            .with_credential(credential)?
            .with_retry(Retry::within(timeout))
            .with_wait_observer(patience.observer());
        if let Some(team) = &team {
            client = client.with_team(team.clone());
        }
        let address = client.address().to_owned();
        let wait = Patience { of_streams: Some(timeout), ..patience };
        Ok(Caller { client, address, credential: credential.to_owned(), member, team, wait })
    }
}
