//! The coordinator of a team: finds it, or starts one on this machine.

use std::{env, ffi::OsStr, fs, net::TcpListener};

use teamwire_client::{ADDRESS_DEFAULT, Error, Reason, Retry, v1};
use teamwire_proto::address::Address;

use super::{
    background::Background,
    records::{CoordinatorRecord, Records},
};
use crate::{
    context::{ADDRESS_FILE, Caller, ContextArgs, OPERATOR_FILE},
    failure::Failure,
};

/// The variables that say where `serve` listens.
const LISTEN_VARIABLES: [&str; 2] = ["TEAMWIRE_LISTEN", "TEAMWIRE_CONFIG"];

/// The coordinator's log in the state directory.
const LOG: &str = "coordinator.log";

/// What the search found.
pub(in crate::command) enum Reached {
    /// A coordinator, the caller there, and the team if it exists.
    Coordinator(Box<Caller>, Option<v1::Team>),
    /// No coordinator runs on this machine, and one may be started.
    Nothing {
        /// The address at which clients expect it. None: no particular address.
        address: Option<Address>,
    },
}

/// Looks for the coordinator of a team.
pub(in crate::command) async fn reach(context: &ContextArgs, team: &str) -> Result<Reached, Failure> {
    let caller = match context.caller_leading(team).await {
        Ok(caller) => caller.in_team(team),
        Err(failure) => return stranger(context, failure).await,
    };
    // Without retries: there is no need to wait for a coordinator that can be started.
    let probe = caller.client.clone().with_retry(Retry::none()).is_serving("").await;
    if let Some(address) = probe.err().as_ref().and_then(startable) {
        return Ok(Reached::Nothing { address: Some(address) });
    }
    match caller.client.get_team(v1::GetTeamRequest::default()).await {
        Ok(reply) => Ok(Reached::Coordinator(Box::new(caller), reply.team)),
        Err(error) if error.reason() == Some(Reason::TeamNotFound) => Ok(Reached::Coordinator(Box::new(caller), None)),
        Err(error) => Err(error.into()),
    }
}

/// Looks for a coordinator without an identity there. `failure`: why there is none.
async fn stranger(context: &ContextArgs, failure: Failure) -> Result<Reached, Failure> {
    if context.state_dir()?.join(OPERATOR_FILE).exists() {
        return Err(failure);
    }
    // Without an address, the call could reach only another user's coordinator.
    if context.given_address().is_none() {
        return Ok(Reached::Nothing { address: None });
    }
    let client = context.anonymous_client()?.with_retry(Retry::none());
    match client.is_serving("").await {
        Err(error) => match startable(&error) {
            Some(address) => Ok(Reached::Nothing { address: Some(address) }),
            None => Err(error.into()),
        },
        Ok(_) => Err(failure),
    }
}

/// Returns the address at which a coordinator can be started, if a call failed because none runs there.
fn startable(error: &Error) -> Option<Address> {
    let Error::Unreachable { address, is_refused: true, .. } = error else { return None };
    // With TLS, only the user knows the certificate. With several addresses, only the user knows their common store.
    let address: Address = address.parse().ok()?;
    (address.is_loopback() && !address.is_tls).then_some(address)
}

/// Starts a coordinator in the background, and waits until it serves. Returns its address.
pub(super) async fn start(
    context: &ContextArgs,
    records: &Records,
    address: Option<&Address>,
) -> Result<(String, Background), Failure> {
    let state_directory = context.state_dir()?;
    let listen = listen(context, address);
    let mut arguments = vec![OsStr::new("serve"), OsStr::new("--state-dir"), state_directory.as_os_str()];
    if let Some(listen) = &listen {
        arguments.extend([OsStr::new("--listen"), OsStr::new(listen)]);
    }
    // The coordinator writes it once it listens.
    let address_file = state_directory.join(ADDRESS_FILE);
    let _ = fs::remove_file(&address_file);
    let log = state_directory.join(LOG);
    let mut started = Background::start("the coordinator", &arguments, &[], &state_directory, log)?;
    let mut record = CoordinatorRecord { process: started.process.clone(), address: String::new() };
    records.put_coordinator(&record)?;
    let serving = started.ready(async |_: &Background| {
        fs::metadata(&address_file).ok()?;
        let operator = context.operator().ok()?;
        let is_serving = operator.client.with_retry(Retry::none()).is_serving("").await;
        is_serving.is_ok_and(|is_serving| is_serving).then_some(operator.address)
    });
    record.address = serving.await.inspect_err(|_| records.remove_coordinator())?;
    records.put_coordinator(&record)?;
    Ok((record.address, started))
}

/// Returns the address that a coordinator should listen on. None: as its own configuration says.
fn listen(context: &ContextArgs, address: Option<&Address>) -> Option<String> {
    let is_configured = LISTEN_VARIABLES.iter().any(|variable| env::var_os(variable).is_some_and(|it| !it.is_empty()));
    if is_configured && context.given_address().is_none() {
        return None;
    }
    let default: Address = ADDRESS_DEFAULT.parse().ok()?;
    let written = |address: &Address| {
        let host = if address.host.ends_with("localhost") { "127.0.0.1" } else { &address.host };
        Address { host: host.to_owned(), is_tls: true, ..address.clone() }.authority()
    };
    match address {
        Some(address) => Some(written(address)),
        None if TcpListener::bind(written(&default)).is_ok() => None,
        // Another user's coordinator is there, for example.
        None => Some("127.0.0.1:0".to_owned()),
    }
}
