//! Hosts.

use teamwire_proto::{
    v1::{self, MemberState},
    word,
};

use super::{count, dim, member::state_style, one_line, paint, table, time, warning};

/// Prints a table of hosts.
pub(crate) fn hosts(hosts: &[v1::Host]) {
    let rows = hosts.iter().map(|host| {
        let offer = host.offer.clone().unwrap_or_default();
        let labels: Vec<String> = offer.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let profiles: Vec<&str> = offer.profiles.iter().map(|profile| profile.name.as_str()).collect();
        vec![
            host.name.clone(),
            host_state(host),
            one_line(&offer.platform),
            one_line(&labels.join(" ")),
            one_line(&profiles.join(", ")),
            format!("{}/{}", host.slots_used, offer.slots),
            time(host.state_since.as_ref()),
        ]
    });
    table(&["host", "state", "platform", "labels", "profiles", "slots", "since"], rows.collect());
}

pub(super) fn host_state(host: &v1::Host) -> String {
    match host.state() {
        MemberState::Joined | MemberState::Active | MemberState::Idle if !host.is_live() => {
            paint(warning(), "not answering")
        }
        MemberState::Joined | MemberState::Active | MemberState::Idle if host.offer.is_none() => {
            paint(dim(), "starting")
        }
        MemberState::Joined | MemberState::Active | MemberState::Idle => {
            paint(state_style(MemberState::Active), "ready")
        }
        state => paint(state_style(state), word::member_state(state)),
    }
}

/// Returns how many hosts are live, and how many of their slots are taken. `None` if the team has no host, or all have
/// exited.
pub(crate) fn hosts_in_all(hosts: &[v1::Host]) -> Option<String> {
    let present: Vec<&v1::Host> = hosts.iter().filter(|host| host.state() != MemberState::Exited).collect();
    if present.is_empty() {
        return None;
    }
    let live: Vec<&&v1::Host> = present.iter().filter(|host| host.is_live()).collect();
    let used: u64 = live.iter().map(|host| u64::from(host.slots_used)).sum();
    let slots: u64 = live.iter().filter_map(|host| host.offer.as_ref()).map(|offer| u64::from(offer.slots)).sum();
    let taken = format!("{used} of {} taken", count(slots, "slot"));
    let hosts = count(live.len() as u64, "host");
    Some(match present.len() - live.len() {
        0 => format!("{hosts}, {taken}"),
        silent => {
            let silent = format!("{} not answering", count(silent as u64, "host"));
            format!("{hosts}, {taken}; {}", paint(warning(), silent))
        }
    })
}
