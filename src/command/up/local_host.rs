//! The host that `up` starts on this machine.

use std::{ffi::OsStr, fs};

use teamwire_agents::host::HostEvent;
use teamwire_client::{JOIN_VARIABLE, v1};

use super::{
    background::{Background, STOP_GRACE},
    file::{LOCAL, TeamFile, is_same},
    records::{Records, TeamRecord},
};
use crate::{
    context::{Caller, ContextArgs, write_private},
    failure::Failure,
};

/// How many slots the local host has at least, unless the file says how many.
const SLOTS_MIN: usize = 16;

/// Starts the local host in the background, and waits until it takes orders. By then it has reported the members that
/// ended while it did not run. Returns its process.
pub(super) async fn start(
    context: &ContextArgs,
    caller: &Caller,
    file: &TeamFile,
    records: &Records,
) -> Result<Background, Failure> {
    let record = records.team(&file.name)?.unwrap_or_default();
    if let Some(unfinished) = record.host.as_ref().filter(|host| host.is_alive()) {
        // The coordinator does not know it, as when an earlier `up` was killed while it waited for it. Its members go on.
        unfinished.end(STOP_GRACE).await;
    }
    records.put_team(&file.name, &record)?;
    let directory = records.team_directory(&file.name);
    let state_directory = context.state_dir()?;
    let mut arguments = vec![OsStr::new("host"), OsStr::new("--name"), OsStr::new(LOCAL)];
    arguments.extend([OsStr::new("--state-dir"), state_directory.as_os_str()]);
    let (config, slots) = (directory.join("host.toml"), SLOTS_MIN.max(file.members.len()).to_string());
    match &file.local {
        Some(text) => {
            write_private(&config, text.as_bytes())?;
            arguments.extend([OsStr::new("--config"), config.as_os_str()]);
        }
        None => drop(fs::remove_file(&config)),
    }
    let given = file.local_host();
    if given.is_none_or(|given| given.slots.is_none()) {
        arguments.extend([OsStr::new("--slots"), OsStr::new(&slots)]);
    }
    // People expect agents to work where the team's file is, as with `teamwire run`.
    if given.is_none_or(|given| given.dir.is_none()) {
        arguments.extend([OsStr::new("--dir"), file.directory.as_os_str()]);
    }
    let invitation =
        v1::InviteRequest { member: LOCAL.to_owned(), host: true, uses_max: 1, ..v1::InviteRequest::default() };
    let invited = caller.client.invite(invitation).await?;
    // Over the socket, if the caller uses it: the join string may contain an address for other machines.
    let is_local = caller.address.starts_with("unix://");
    let join = if is_local { &invited.join_token } else { &invited.join_string };
    if is_local {
        arguments.extend([OsStr::new("--address"), OsStr::new(&caller.address)]);
    }
    // Other users cannot see a process's environment.
    let variables = [(JOIN_VARIABLE, join.as_str())];
    let log = directory.join("host.log");
    let start = Background::start("the local host", &arguments, &variables, &file.directory, log, |process| {
        records.put_team(&file.name, &TeamRecord { host: Some(process.clone()), ..record })
    });
    let mut started = start.await?;
    let ready = started.ready(async |started: &Background| {
        let hosts = caller.client.list_all_hosts(v1::ListHostsRequest::default(), usize::MAX).await.ok()?.hosts;
        let host = hosts.into_iter().find(|host| is_same(&host.name, LOCAL))?;
        let offer = host.offer.filter(|_| host.connected)?;
        // The coordinator keeps the offer of an earlier process of the host. Only the host knows when it has replaced
        // it.
        let ready = HostEvent::Ready { host: host.name, team: file.name.clone(), offer };
        started.has_written(&ready.to_string()).then_some(())
    });
    ready.await?;
    Ok(started)
}
