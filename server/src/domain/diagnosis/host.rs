//! Findings about hosts.

use teamwire_proto::{
    v1::{self, Finding, FindingClass, MemberState, Severity},
    word,
};

use super::{
    Ages, Asker, NAMES_MAX,
    finding::{note, problem},
};
use crate::domain::text::enumerate;

/// Reports a host that cannot start anyone. `started`: the names of the members that it started and that, as far as is
/// known, are still running.
pub fn of_host(asker: &Asker<'_>, ages: Ages, host: &v1::Host, started: &[&str]) -> Option<Finding> {
    let (name, since) = (&host.name, ages.since(host.state_since.as_ref()));
    match (host.state(), &host.offer) {
        (MemberState::Exited, _) => None,
        (MemberState::Lost, _) => Some(lost(asker, name, started, &word::age(since))),
        (_, Some(offer)) if offer.profiles.is_empty() => Some(note(
            FindingClass::NoProfile,
            name,
            format!("The host {name} offers no profile, so it cannot start anyone."),
            asker.advise_lead(format!(
                "Install an agent program on {name}, or add a profile to its host.toml; then restart it."
            )),
        )),
        (_, None) if ages.is_too_long(since) => Some(problem(
            FindingClass::NoProfile,
            name,
            format!("The host {name} joined {} ago, and has not said what it offers.", word::age(since)),
            asker.advise_lead(format!("Check the output of `teamwire host` on {name}, and restart it.")),
        )),
        (_, Some(offer)) if host.slots_used >= offer.slots => Some(note(
            FindingClass::NoSlot,
            name,
            format!("All {} slots of the host {name} are taken.", offer.slots),
            asker.advise_lead(
                "Orders go to other hosts. To start more members on it, restart it with more --slots.".to_owned(),
            ),
        )),
        _ => None,
    }
}

/// Reports a lost host: a problem if it has members.
fn lost(asker: &Asker<'_>, name: &str, started: &[&str], since: &str) -> Finding {
    let (severity, text, next) = match started {
        [] => (
            Severity::Note,
            format!("The host {name} has been lost for {since}."),
            format!(
                "If it is still needed, start `teamwire host` on it again. If not: `teamwire shutdown {name} --force`."
            ),
        ),
        started => (
            Severity::Problem,
            format!(
                "The host {name} has been lost for {since}, and is responsible for {}. They may still be running: `teamwire \
                 status` shows it.",
                enumerate(started, NAMES_MAX)
            ),
            format!("Start `teamwire host` on {name} again: it finds the members that it started."),
        ),
    };
    Finding { severity: severity.into(), ..problem(FindingClass::HostLost, name, text, asker.advise_lead(next)) }
}
