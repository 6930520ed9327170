//! The coordinator of a team: finds it, or starts one on this machine.

use std::{
    ffi::{OsStr, OsString},
    fs,
};

use teamwire_agents::Pid;
use teamwire_client::{Error, Reason, Retry, v1};
use teamwire_proto::address::{Address, TcpAddress};

use super::{
    background::{Background, STOP_GRACE},
    records::{CoordinatorRecord, Listens, Records},
};
use crate::{
    context::{ADDRESS_FILE, Caller, ContextArgs, OPERATOR_FILE, Who},
    failure::Failure,
};

/// The coordinator's log in the state directory.
const LOG: &str = "coordinator.log";

/// What the search found.
pub(in crate::command) enum Reached {
    /// A coordinator, the caller there, and the team if it exists.
    Coordinator(Box<Caller>, Option<Box<v1::Team>>),
    /// No coordinator runs on this machine, and one may be started.
    Nothing {
        /// The address at which clients expect it, besides its socket. `None` means no particular address.
        address: Option<TcpAddress>,
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
    if let Some(address) = probe.err().as_ref().and_then(|error| startable(context, error)) {
        return Ok(Reached::Nothing { address });
    }
    match caller.client.get_team(v1::GetTeamRequest::default()).await {
        Ok(reply) => Ok(Reached::Coordinator(Box::new(caller), reply.team.map(Box::new))),
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
        Err(error) => match startable(context, &error) {
            Some(address) => Ok(Reached::Nothing { address }),
            None => Err(error.into()),
        },
        Ok(_) => Err(failure),
    }
}

/// Returns at which address a coordinator can be started, if a call failed because none runs there. `Some(None)`: at no
/// address but its socket.
fn startable(context: &ContextArgs, error: &Error) -> Option<Option<TcpAddress>> {
    let Error::Unreachable { address, is_refused: true, .. } = error else { return None };
    match address.parse().ok()? {
        // A socket elsewhere belongs to another state directory.
        Address::Unix(_) => context.is_own_socket(address).then_some(None),
        // With TLS, only the user knows the certificate. With several addresses, only the user knows their common
        // store.
        tcp if tcp.is_tls() || !tcp.is_loopback() => None,
        Address::Tcp(tcp) => Some(Some(tcp)),
    }
}

/// Starts a coordinator in the background, and waits until it serves. Returns its address. If it does not start, keeps
/// the record of the one before.
pub(in crate::command) async fn start(
    context: &ContextArgs,
    records: &Records,
    listens: &Listens,
) -> Result<(String, Background), Failure> {
    let last = records.last_coordinator()?;
    if let Some(unfinished) = last.as_ref().filter(|record| record.address.is_empty() && record.process.is_alive()) {
        // An earlier `up` was killed while it waited for it. It may be about to take the socket.
        unfinished.process.end(STOP_GRACE).await;
    }
    let state_directory = context.state_dir()?;
    let mut arguments: Vec<OsString> = ["serve", "--state-dir"].map(OsString::from).to_vec();
    arguments.push(state_directory.clone().into());
    arguments.extend(listens.arguments());
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    // A coordinator that listens on the network serves no console unless it is asked to.
    let variables: &[(&str, &str)] =
        if listens.network.is_some() { &[("TEAMWIRE_CONSOLE_ENABLED", "on")] } else { &[] };
    // The coordinator writes it once it listens.
    let address_file = state_directory.join(ADDRESS_FILE);
    let _ = fs::remove_file(&address_file);
    let log = state_directory.join(LOG);
    let record = |process: &Pid, address: String| {
        records.put_coordinator(&CoordinatorRecord { process: process.clone(), address, listens: listens.clone() })
    };
    let start = Background::start("the coordinator", &arguments, variables, &state_directory, log, |process| {
        record(process, String::new())
    });
    let mut started = start.await?;
    let serving = started.ready(async |_: &Background| {
        fs::metadata(&address_file).ok()?;
        let operator = context.caller(Who::Operator).ok()?;
        let is_serving = operator.client.with_retry(Retry::none()).is_serving("").await;
        is_serving.is_ok_and(|is_serving| is_serving).then_some(operator.address)
    });
    let address = match (serving.await, last) {
        (Ok(address), _) => address,
        (Err(failure), Some(last)) => return records.put_coordinator(&last).and(Err(failure)),
        (Err(failure), None) => {
            records.remove_coordinator();
            return Err(failure);
        }
    };
    record(&started.process, address.clone())?;
    Ok((address, started))
}

impl Listens {
    /// Returns the arguments of `serve`.
    fn arguments(&self) -> Vec<OsString> {
        match (&self.network, &self.local) {
            (Some(network), _) => vec![
                "--listen".into(),
                network.listen.to_string().into(),
                "--advertise".into(),
                network.addresses.join(",").into(),
                "--tls-cert".into(),
                network.certificate.clone().into(),
                "--tls-key".into(),
                network.key.clone().into(),
            ],
            (None, Some(local)) => vec!["--listen".into(), local.into()],
            (None, None) => Vec::new(),
        }
    }
}

/// Returns where a coordinator should listen, so that clients reach it at an address.
pub(super) fn listen(address: &TcpAddress) -> String {
    let host = if address.host.ends_with("localhost") { "127.0.0.1" } else { &address.host };
    // With its port, even if that is the one which the scheme implies.
    TcpAddress { host: host.to_owned(), is_tls: address.port == 80, ..address.clone() }.authority()
}
