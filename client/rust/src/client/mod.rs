//! A connection to a coordinator.
//!
//! [`Client`] holds who calls and where; `call` makes one call with retries; `calls` has one method for each RPC; `keys`
//! makes idempotency keys.

mod call;
mod calls;
mod keys;

use std::{fmt, ops::ControlFlow, sync::Arc, time::Duration};

use teamwire_proto::{address::Address, join_string::JoinString, v1};
use tokio::sync::watch;
use tonic::{
    Status,
    metadata::{Ascii, MetadataValue},
};

pub(crate) use self::{
    call::{Call, time_left},
    calls::{backups, history, messages, requests, tasks, teams, watches},
};
use crate::{
    ConnectOptions, Error, Reason, Retry, TlsOptions, Waiting,
    retry::{Failure, detail, is_refused},
    runner::check_within_runner,
    transport::{Link, Transport},
    waiting::WaitObserver,
};

/// A connection to a coordinator, or to one of several that share a store.
///
/// Cheap to clone; clones share the connection and the session. It connects when it is first used, and reconnects
/// whenever it must, to another coordinator if there is one. Calls are retried as [`Retry`] says.
#[derive(Clone)]
pub struct Client {
    address: Arc<str>,
    transport: Arc<Transport>,
    authorization: Option<MetadataValue<Ascii>>,
    team: String,
    retry: Retry,
    wait_observer: Option<WaitObserver>,
    /// The session that calls belong to. The subscription updates it; clones share it.
    session: Arc<watch::Sender<Session>>,
    /// Derives idempotency keys. `None` if they are new ones.
    keys: Option<Arc<keys::DerivedKeys>>,
}

/// The session that a client's calls belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its id. Empty if there has never been one.
    pub(crate) id: String,
    /// True while the subscription opens another session, which ends this one.
    pub(crate) is_reopening: bool,
    /// Set when a call of it was refused because another process holds the inbox.
    pub(crate) is_superseded: bool,
}

impl Client {
    /// Creates a client for the coordinator at `https://HOST:PORT`, `http://HOST:PORT` or `unix:///PATH`, or for up to
    /// 16 that share a store, separated by commas.
    ///
    /// Over a Unix socket, it calls only a coordinator that runs as the same user or as root.
    ///
    /// Sends nothing yet, and reads no files but the system's certificate authorities. Fails with [`Error::Address`].
    pub fn connect(address: &str) -> Result<Self, Error> {
        Self::connect_with(address, ConnectOptions::default())
    }

    /// Creates a client like [`Client::connect`], with options such as [`TlsOptions`].
    ///
    /// Certificates and keys in files are read again for every connection, so that renewed ones take effect. Fails with
    /// [`Error::Address`], or with [`Error::TlsOptions`] if a certificate or key cannot be used.
    pub fn connect_with(address: &str, options: impl Into<ConnectOptions>) -> Result<Self, Error> {
        let addresses = Address::parse_list(address)
            .map_err(|error| Error::Address { address: address.to_owned(), detail: error.to_string() })?;
        let full: Vec<_> = addresses.iter().map(Address::to_string).collect();
        Ok(Self {
            address: full.join(",").into(),
            transport: Arc::new(Transport::new(addresses, options.into())?),
            authorization: None,
            team: String::new(),
            retry: Retry::default(),
            wait_observer: None,
            session: Arc::default(),
            keys: None,
        })
    }

    /// Creates a client from an [`Identity`](crate::Identity).
    ///
    /// Fails like [`Client::connect_with`], with [`Error::Credential`], or within a runner with [`Error::Context`] if
    /// the identity is not the runner's member.
    pub fn from_identity(identity: &crate::Identity) -> Result<Self, Error> {
        check_within_runner(identity.credential.as_deref(), None)?;
        let mut client = Self::connect_with(&identity.address, identity.tls.clone())?;
        if let Some(credential) = &identity.credential {
            client = client.with_credential(credential)?;
        }
        Ok(client.with_team(identity.team.clone().unwrap_or_default()))
    }

    /// Returns a client on the same connection that presents this credential and belongs to no session.
    ///
    /// Fails with [`Error::Credential`] if the text cannot be sent as a header.
    pub fn with_credential(&self, credential: &str) -> Result<Self, Error> {
        let mut authorization: MetadataValue<Ascii> =
            format!("Bearer {credential}").parse().map_err(|_| Error::Credential)?;
        authorization.set_sensitive(true);
        Ok(Self { authorization: Some(authorization), session: Arc::default(), ..self.clone() })
    }

    /// Returns a client on the same connection with the same credential that belongs to no session.
    ///
    /// Its calls are accepted even if another session of the member has superseded this client's.
    pub fn without_session(&self) -> Self {
        Self { session: Arc::default(), ..self.clone() }
    }

    /// Sets the team of every request that names none. An operator must name a team; other credentials imply one.
    pub fn with_team(mut self, team: impl Into<String>) -> Self {
        self.team = team.into();
        self
    }

    /// Sets how calls are retried.
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Returns the caller's name. Empty if the credential is not a member's.
    pub fn name(&self) -> &str {
        match *self.credential_parts() {
            ["twm", _, name, _] => name,
            _ => "",
        }
    }

    /// Returns the caller's team: the one set with [`Client::with_team`], else the one that the credential names. Empty
    /// for an operator that has chosen none.
    pub fn team(&self) -> &str {
        match *self.credential_parts() {
            _ if !self.team.is_empty() => &self.team,
            [_, team, _, _] => team,
            _ => "",
        }
    }

    /// Returns the credential, a secret. Empty if there is none.
    pub fn credential(&self) -> &str {
        let header = self.authorization.as_ref().and_then(|header| header.to_str().ok());
        header.and_then(|header| header.strip_prefix("Bearer ")).unwrap_or_default()
    }

    /// Splits the credential, which names its kind and owner in clear: `KIND:TEAM:NAME:SECRET`.
    fn credential_parts(&self) -> Vec<&str> {
        self.credential().split(':').collect()
    }

    /// Sets a function to call before each wait between two attempts, of calls and of streams other than subscriptions.
    ///
    /// If it returns [`ControlFlow::Break`], the call fails with the error of the last attempt.
    pub fn with_wait_observer(
        mut self,
        observe: impl Fn(&Waiting<'_>) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.wait_observer = Some(WaitObserver(Arc::new(observe)));
        self
    }

    /// Returns the coordinator's address, or all addresses separated by commas.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the options that another client needs to connect to the same coordinators.
    ///
    /// Once a connection was made, they hold the authority's certificate in place of its fingerprint.
    pub fn tls(&self) -> TlsOptions {
        self.transport.tls_options()
    }

    /// Returns what the failure of a call means, and leaves the link if another one is better.
    pub(crate) fn judge(&self, link: &Link, status: &Status) -> Failure {
        let failure = Failure::of(status);
        match &failure {
            Failure::NotNow(refusal) if refusal.reason == Reason::Draining => self.transport.leave_drained(link),
            Failure::Stale => self.transport.leave(link),
            _ => {}
        }
        failure
    }

    /// Tells the observer that the client is about to wait. Returns whether it wants to stop.
    pub(crate) fn stops_waiting(
        &self,
        status: &Status,
        waited: Duration,
        delay: Duration,
        left: Option<Duration>,
    ) -> bool {
        let Some(WaitObserver(observe)) = &self.wait_observer else { return false };
        let waiting = Waiting {
            address: &self.address,
            detail: &detail(status),
            is_absent: is_refused(status) && !self.transport.has_connected(),
            waited,
            delay,
            left,
        };
        observe(&waiting).is_break()
    }

    pub(crate) fn transport(&self) -> &Arc<Transport> {
        &self.transport
    }

    pub(crate) fn retry(&self) -> Retry {
        self.retry
    }

    pub(crate) fn session(&self) -> &Arc<watch::Sender<Session>> {
        &self.session
    }

    /// Fills in the team of a request that names none.
    pub(crate) fn fill(&self, team: &mut String) {
        if team.is_empty() {
            team.clone_from(&self.team);
        }
    }
}

/// Joins a team with what `teamwire invite` printed, and returns the new member's client.
///
/// `join_string` names the coordinator and the authority to trust, or is a bare join token for the coordinator that the
/// environment names. `name` is the member's name; leave it empty if the token is bound to one. To keep the identity,
/// store [`Client::credential`], [`Client::address`] and [`Client::tls`].
///
/// Fails within a runner with [`Error::Context`]: its program is a member already.
pub async fn join(join_string: &str, name: &str) -> Result<Client, Error> {
    join_with(join_string, v1::JoinRequest { name: name.to_owned(), ..v1::JoinRequest::default() }).await
}

/// Joins a team as a host with what `teamwire invite --host` printed, and returns the host's client. See [`join`].
pub async fn join_host(join_string: &str, name: &str) -> Result<Client, Error> {
    join_with(join_string, v1::JoinRequest { name: name.to_owned(), host: true, ..v1::JoinRequest::default() }).await
}

async fn join_with(join_string: &str, request: v1::JoinRequest) -> Result<Client, Error> {
    let joining = JoinString::parse(join_string)?;
    let token = joining.token().reveal();
    check_within_runner(Some(&token), None)?;
    let mut identity = crate::Identity::from_env();
    if !joining.addresses.is_empty() {
        identity.address = joining.address();
    }
    if joining.fingerprint.is_some() {
        identity.tls = TlsOptions { ca: None, fingerprint: joining.fingerprint, ..identity.tls };
    }
    let stranger = Client::connect_with(&identity.address, identity.tls)?;
    let joined = stranger.with_credential(&token)?.join(request).await?;
    stranger.with_credential(&joined.credential)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address).field("team", &self.team).finish_non_exhaustive()
    }
}
