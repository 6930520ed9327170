//! A host's state directory, and the identity in it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use nix::unistd::gethostname;
use serde::{Deserialize, Serialize};
use teamwire_agents::host::HostEnd;
use teamwire_client::{Client, Closed, Error, KeptIdentity, Reason, v1};
use teamwire_proto::{credential::Credential, name::Name, v1::Liveness};
use uuid::Uuid;

use crate::{
    context::{
        Caller, ContextArgs, Who, identity, make_private_directory, may_rejoin, refuse_shared, remove_file, try_lock,
        write_private,
    },
    failure::{Failure, NOT_PERMITTED, REFUSED},
    show,
};

/// The directory with the hosts of this machine, in the state directory.
pub(super) const HOSTS: &str = "hosts";

/// The file with the host's identity.
pub(super) const IDENTITY: &str = "identity.json";

/// The state directory of one host. A team has at most one host here.
#[derive(Debug)]
pub(super) struct HostDirectory {
    path: PathBuf,
    /// Held as long as the host runs.
    _lock: File,
    /// The join string, if one was given.
    joining: Option<Caller>,
}

/// What a host saves.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// The host's identity; before it has joined, with the join token as the credential.
    identity: KeptIdentity,
    /// The idempotency key of a Join call that this process is about to make with the credential. Repeating the call
    /// with the key returns the same new credential, so a host that is killed during the call does not lose it.
    joining: Option<String>,
}

impl HostDirectory {
    /// Opens the directory of the team that a join string is for. Without a join string, opens the directory of the
    /// team that the options name, or of the only host that has joined from here.
    pub(super) fn open(context: &ContextArgs, join_string: Option<String>) -> Result<Self, Failure> {
        let hosts = context.state_dir()?.join(HOSTS);
        let joining = match join_string {
            Some(text) => Some(context.caller(Who::Joining(&text))?),
            None => None,
        };
        let team = match joining.as_ref().and_then(|joining| joining.team.clone()) {
            Some(team) => team,
            None => known_team(&hosts, context.team())?,
        };
        let path = hosts.join(team.to_ascii_lowercase());
        make_private_directory(&context.state_dir()?)?;
        make_private_directory(&hosts)?;
        make_private_directory(&path)?;
        refuse_shared(&path)?;
        let lock = lock(&path)?;
        Ok(Self { path, _lock: lock, joining })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the host's client, with the saved identity or else with a new one. `name`: the name that was given.
    pub(super) async fn enter(&self, context: &ContextArgs, name: Option<&str>) -> Result<Client, Failure> {
        if let Some(saved) = self.load()? {
            let name_saved = &saved.identity.member;
            if let Some(name) = name
                && !name_saved.is_empty()
                && !name.eq_ignore_ascii_case(name_saved)
            {
                return Err(Failure::usage(format!(
                    "The host that keeps its state in {} is {name_saved}, not {name}. Leave out the name, or choose another \
                     directory with --state-dir.",
                    self.path.display()
                )));
            }
            match self.resume(context, saved).await {
                // The join string creates a new identity, for example because the team was created again.
                Err(Failure::Call(Error::Refused(refusal))) if self.joining.is_some() => {
                    tracing::debug!(%refusal, "the saved identity is no longer valid");
                }
                resumed => return resumed,
            }
        }
        let Some(joining) = &self.joining else {
            return Err(Failure::usage(
                "The host has no identity yet. Give it the join string that `teamwire invite --host` prints: teamwire host \
                 --join -",
            ));
        };
        let wants = |member: &str| {
            let team = joining.team.as_deref().unwrap_or_default();
            Saved {
                identity: identity(team, member, &joining.credential, &joining.client),
                joining: Some(Uuid::new_v4().to_string()),
            }
        };
        match self.join(&joining.client, wants(name.unwrap_or_default())).await {
            // The token is not bound to a name.
            Err(Failure::Call(Error::Refused(refusal))) if refusal.reason == Reason::InvalidName && name.is_none() => {
                self.join(&joining.client, wants(&machine_name())).await
            }
            joined => joined,
        }
    }

    /// Continues with the identity that the host has.
    async fn resume(&self, context: &ContextArgs, saved: Saved) -> Result<Client, Failure> {
        let client = context.caller(Who::Again(&saved.identity, self.joining.as_ref()))?.client;
        if saved.joining.is_some() {
            return self.join(&client, saved).await;
        }
        match client.heartbeat(v1::HeartbeatRequest::default()).await {
            Ok(_) => Ok(client),
            // It was asked to end before.
            Err(error) if may_rejoin(&error) => {
                self.join(&client, Saved { joining: Some(Uuid::new_v4().to_string()), ..saved }).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Joins, and keeps the credential.
    async fn join(&self, client: &Client, saved: Saved) -> Result<Client, Failure> {
        self.save(&saved)?;
        let request = v1::JoinRequest {
            name: saved.identity.member.clone(),
            idempotency_key: saved.joining.clone().unwrap_or_default(),
            attributes: Some(v1::MemberAttributes { host: machine_name(), ..v1::MemberAttributes::default() }),
            liveness: Liveness::Attached.into(),
            host: true,
            ..v1::JoinRequest::default()
        };
        let joined = match client.join(request).await {
            Ok(joined) => joined,
            Err(error) => {
                match Credential::parse(&saved.identity.credential) {
                    _ if error.is_retryable() => {}
                    Ok(Credential::Join { .. }) => self.forget()?,
                    _ => self.save(&Saved { joining: None, ..saved })?,
                }
                return Err(error.into());
            }
        };
        let (team, member) = joined.team.zip(joined.member).ok_or_else(show::incomplete)?;
        let host = client.with_credential(&joined.credential)?;
        let identity = identity(&team.name, &member.name, &joined.credential, client);
        self.save(&Saved { identity, joining: None })?;
        Ok(host)
    }

    /// Says why a host has ended. Fails unless the host was asked to end or its team was deleted.
    pub(super) fn ended(&self, end: HostEnd) -> Result<(), Failure> {
        match end {
            HostEnd::Stopped => Ok(()),
            HostEnd::Closed(Closed::TeamDeleted) => {
                self.forget()?;
                anstream::eprintln!("The team was deleted.");
                Ok(())
            }
            HostEnd::Closed(Closed::Superseded) => Err(Failure::with_code(
                NOT_PERMITTED,
                "Another process uses this host's identity now, so this one has ended. Its members keep running. If that \
                 process is not yours, remove the host (`teamwire shutdown --force`) and invite it again.",
            )),
            HostEnd::Closed(closed) => {
                Err(Failure::with_code(NOT_PERMITTED, format!("The host cannot continue: {closed}.")))
            }
            HostEnd::Refused(error) => Err(error.into()),
        }
    }

    fn file(&self) -> PathBuf {
        self.path.join(IDENTITY)
    }

    fn load(&self) -> Result<Option<Saved>, Failure> {
        let path = self.file();
        if !path.exists() {
            return Ok(None);
        }
        refuse_shared(&path)?;
        let saved = serde_json::from_slice(&fs::read(&path)?);
        saved.map(Some).map_err(|error| Failure::local(&format!("{} is damaged", path.display()), error))
    }

    fn save(&self, saved: &Saved) -> Result<(), Failure> {
        let text = serde_json::to_vec(saved).map_err(|error| Failure::local("Cannot write the identity", error))?;
        write_private(&self.file(), &text)
    }

    fn forget(&self) -> Result<(), Failure> {
        Ok(remove_file(&self.file())?)
    }
}

/// Returns the team that was named, or the team of the only host that has joined from here.
fn known_team(hosts: &Path, named: Option<&str>) -> Result<String, Failure> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let directories = fs::read_dir(hosts).into_iter().flatten().flatten();
    let with_identity = directories.filter(|directory| directory.path().join(IDENTITY).exists());
    let mut teams: Vec<String> = with_identity.filter_map(|team| team.file_name().into_string().ok()).collect();
    teams.sort();
    match teams.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Failure::usage(format!(
            "No host has joined from {}. Start one with the join string that `teamwire invite --host` prints: teamwire host \
             --join -",
            hosts.display()
        ))),
        several => Err(Failure::usage(format!(
            "Hosts of several teams have joined from here: {}. Choose one with --team.",
            several.join(", ")
        ))),
    }
}

/// Excludes other processes from a host's state directory.
pub(super) fn lock(path: &Path) -> Result<File, Failure> {
    try_lock(&path.join("lock"))?.ok_or_else(|| {
        let text = format!(
            "Another `teamwire host` keeps its state in {}. Stop it first, or choose another directory with --state-dir.",
            path.display()
        );
        Failure::with_code(REFUSED, text)
    })
}

/// Returns the machine's name as the name of a host.
fn machine_name() -> String {
    let name = gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let first = name.split('.').next().unwrap_or_default();
    let plain: String = first.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(63).collect();
    let plain = plain.trim_matches('-');
    if Name::parse(plain, "name").is_ok() { plain.to_owned() } else { "host".to_owned() }
}
