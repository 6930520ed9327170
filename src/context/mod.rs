//! Where the coordinator is, and who calls: from flags, then the environment, then the context file, then what a
//! coordinator on this machine has left in its state directory.

mod identities;
mod private_file;

use std::{env, fs, io, path::PathBuf, time::Duration};

use clap::Args;
use teamwire_client::{ADDRESS_DEFAULT, ADDRESS_VARIABLE, CA_VARIABLE, Client, KeptIdentity, Pem, Retry, TlsOptions};
use teamwire_proto::{credential::Credential, join_string::JoinString};

pub use self::{
    identities::identity,
    private_file::{make_private_directory, write_private},
};
use crate::failure::Failure;

/// The file of the operator's credential in the state directory.
pub const OPERATOR_FILE: &str = "operator.credential";

/// The file in the state directory that says where the coordinator listens.
pub const ADDRESS_FILE: &str = "address";

/// The file in the state directory with the certificate of the authority that the coordinator's own comes from.
pub const CA_FILE: &str = "ca.crt";

/// Who calls, and where.
#[derive(Args, Clone, Debug)]
pub struct ContextArgs {
    /// The coordinator, as http[s]://HOST:PORT; several that share a store with commas between them [env:
    /// TEAMWIRE_ADDRESS=] [default: that of the identity, or http://127.0.0.1:7420]
    // The environment is read where it is used: what a join string says goes before it, what is typed goes first.
    #[arg(long, global = true, value_name = "URL", help_heading = "Context")]
    address: Option<String>,
    /// With https: the certificate of the only authority to trust [env: TEAMWIRE_CA=] [default: that of the identity,
    /// or the system's authorities]
    #[arg(long, global = true, value_name = "FILE", value_parser = parse_pem, help_heading = "Context")]
    ca: Option<Pem>,
    /// With https: the certificate to show, where the coordinator asks for one
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
    /// The key of that certificate
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
    /// The credential to call with, instead of one from the context file
    #[arg(long, env = "TEAMWIRE_CREDENTIAL", global = true, hide_env_values = true, help_heading = "Context")]
    credential: Option<String>,
    /// The team; needed only by the operator, or to choose among identities
    #[arg(long, env = "TEAMWIRE_TEAM", global = true, value_name = "TEAM", help_heading = "Context")]
    team: Option<String>,
    /// Which identity of the context file to use: NAME, NAME@TEAM, or `operator`
    #[arg(long = "as", env = "TEAMWIRE_AS", global = true, value_name = "WHO", help_heading = "Context")]
    who: Option<String>,
    /// The context file [default: ~/.config/teamwire/context.json]
    #[arg(long, env = "TEAMWIRE_CONTEXT", global = true, value_name = "FILE", help_heading = "Context")]
    context: Option<PathBuf>,
    /// Where the coordinator on this machine keeps its data [default: ~/.local/state/teamwire]
    #[arg(long, env = "TEAMWIRE_STATE_DIR", global = true, value_name = "DIR", help_heading = "Context")]
    state_dir: Option<PathBuf>,
    /// How long to try, in seconds, before a call is given up
    #[arg(
        long,
        env = "TEAMWIRE_TIMEOUT",
        global = true,
        value_name = "SECONDS",
        default_value_t = 15,
        help_heading = "Context"
    )]
    timeout: u64,
}

/// What is known of where a credential is good.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// Nothing.
    Nothing,
    /// What a join string says. Goes before the environment, which may be that of another member.
    Joining(&'a JoinString),
    /// What was kept. The environment goes before it.
    Kept(&'a KeptIdentity),
}

/// A caller, ready to call.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Calls the coordinator.
    pub client: Client,
    /// Where that is.
    pub address: String,
    /// What it calls with.
    pub credential: String,
    /// The member's name; None for the operator and observers.
    pub member: Option<String>,
    /// The team; None for an operator that named none.
    pub team: Option<String>,
}

impl Caller {
    /// Returns whether a party's name is the caller's own.
    pub fn is(&self, name: &str) -> bool {
        self.member.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns the member's name, or says that there is none.
    pub fn member(&self) -> Result<&str, Failure> {
        self.member.as_deref().ok_or_else(|| {
            Failure::usage("Only a member can do this. Choose one with --as NAME, or join with `teamwire join`.")
        })
    }
}

impl ContextArgs {
    /// Returns the caller, as far as it can be found.
    pub fn caller(&self) -> Result<Caller, Failure> {
        if let Some(credential) = &self.credential {
            return self.caller_with(credential.clone(), Known::Nothing);
        }
        let file = self.load()?;
        if self.who.as_deref() == Some("operator") {
            return self.operator();
        }
        if let Some(identity) = file.choose(self.who.as_deref(), self.team.as_deref())? {
            return self.caller_with(identity.credential.clone(), Known::Kept(identity));
        }
        match (self.operator(), file.identities.as_slice()) {
            (Ok(operator), _) => Ok(operator),
            (Err(failure), []) => Err(failure),
            // Nobody else can be meant.
            (Err(_), [only]) => self.caller_with(only.credential.clone(), Known::Kept(only)),
            (Err(_), _) => Err(Failure::usage(format!(
                "Choose who you are: --as WHO, or `teamwire use WHO`. There are: {}.",
                file.names()
            ))),
        }
    }

    /// Returns the operator of the coordinator on this machine. Who was given a credential calls with that one: an agent
    /// that acts for a member does not become the operator because it runs on the same machine.
    pub fn operator(&self) -> Result<Caller, Failure> {
        if let Some(credential) = &self.credential {
            return self.caller_with(credential.clone(), Known::Nothing);
        }
        let path = self.state_dir()?.join(OPERATOR_FILE);
        let credential = fs::read_to_string(&path).map_err(|error| {
            let message = match error.kind() {
                io::ErrorKind::NotFound => format!(
                    "You have no identity here, and there is no operator's credential at {}. Start a coordinator with \
                     `teamwire serve`, join a team with `teamwire join`, or set TEAMWIRE_CREDENTIAL.",
                    path.display()
                ),
                _ => format!("{} cannot be read: {error}", path.display()),
            };
            Failure::with_code(crate::failure::NOT_PERMITTED, message)
        })?;
        self.caller_with(credential.trim().to_owned(), Known::Nothing)
    }

    /// Returns who is about to join: with a join string, or with a bare join token or a member's own credential.
    pub fn joining(&self, text: &str) -> Result<Caller, Failure> {
        if !text.contains('@') {
            return self.caller_with(text.trim().to_owned(), Known::Nothing);
        }
        let joining = JoinString::parse(text)?;
        self.caller_with(joining.token().reveal(), Known::Joining(&joining))
    }

    /// Returns a caller with a credential that is at hand.
    pub fn caller_with(&self, credential: String, known: Known<'_>) -> Result<Caller, Failure> {
        let parsed = Credential::parse(&credential)?;
        let own_team = parsed.team().map(ToString::to_string);
        let member = match &parsed {
            Credential::Member { member, .. } => Some(member.to_string()),
            _ => None,
        };
        let (address, tls) = self.place(known)?;
        let team = self.team.clone().or(own_team);
        let mut client = Client::connect_with(&address, tls)?
            .with_credential(&credential)?
            .with_retry(Retry::within(Duration::from_secs(self.timeout)));
        if let Some(team) = &team {
            client = client.with_team(team.clone());
        }
        let address = client.address().to_owned();
        Ok(Caller { client, address, credential, member, team })
    }

    /// Returns a client that presents no credential, for what needs none.
    pub fn stranger(&self) -> Result<Client, Failure> {
        let (address, tls) = self.place(Known::Nothing)?;
        Ok(Client::connect_with(&address, tls)?)
    }

    /// Returns where the coordinator is, whom to trust there, and what to show.
    fn place(&self, known: Known<'_>) -> Result<(String, TlsOptions), Failure> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let of_environment = variable(ADDRESS_VARIABLE);
        let ca_of_environment = variable(CA_VARIABLE).map(|text| absolute(text.into()));
        let (address, mut tls) = match known {
            Known::Nothing => (of_environment, TlsOptions { ca: ca_of_environment, ..TlsOptions::default() }),
            Known::Joining(joining) => {
                let address = Some(joining.address()).filter(|address| !address.is_empty()).or(of_environment);
                let ca = if joining.fingerprint.is_some() { None } else { ca_of_environment };
                (address, TlsOptions { ca, fingerprint: joining.fingerprint, ..TlsOptions::default() })
            }
            Known::Kept(identity) => {
                let address = of_environment.or_else(|| Some(identity.address.clone()));
                let ca = ca_of_environment.or_else(|| identity.tls.ca.clone());
                (address, TlsOptions { ca, ..identity.tls.clone() })
            }
        };
        tls.ca = self.ca.clone().or(tls.ca);
        if self.cert.is_some() || self.key.is_some() {
            (tls.cert, tls.key) = (self.cert.clone(), self.key.clone());
        }
        if let Some(address) = self.address.clone().or(address) {
            return Ok((address, tls));
        }
        let state_dir = self.state_dir()?;
        let Ok(left) = fs::read_to_string(state_dir.join(ADDRESS_FILE)) else {
            return Ok((ADDRESS_DEFAULT.to_owned(), tls));
        };
        let ca = state_dir.join(CA_FILE);
        if tls.ca.is_none() && tls.fingerprint.is_none() && ca.exists() {
            tls.ca = Some(Pem::File(ca));
        }
        Ok((left.trim().to_owned(), tls))
    }

    /// Returns the team that was named, if one was.
    pub fn team(&self) -> Option<&str> {
        self.team.as_deref()
    }

    /// Returns where the coordinator on this machine keeps its data.
    pub fn state_dir(&self) -> Result<PathBuf, Failure> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let states = || variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
        self.state_dir.clone().or_else(|| Some(states()?.join("teamwire"))).ok_or_else(homeless)
    }
}

fn parse_pem(text: &str) -> Result<Pem, std::convert::Infallible> {
    Ok(absolute(text.to_owned().into()))
}

/// Makes a path good wherever it is used later: it may be kept.
fn absolute(pem: Pem) -> Pem {
    match pem {
        Pem::File(path) => Pem::File(std::path::absolute(&path).unwrap_or(path)),
        text @ Pem::Text(_) => text,
    }
}

fn homeless() -> Failure {
    Failure::usage("HOME is not set. Say where files go with --context FILE and --state-dir DIR.")
}

#[cfg(test)]
mod tests;
