//! The program of a member: whether it failed, and how to start it again.

use teamwire_client::v1;
use teamwire_proto::v1::Liveness;

/// Returns whether a member's program ended by itself, without an approved shutdown, with a signal or another code than 0. One
/// that had left is among them: see [`was_stopping`](super::history::was_stopping).
pub(super) fn has_failed(exit: &v1::ExitReport) -> bool {
    let was_ended = matches!(exit.runner_action(), v1::RunnerAction::Sigterm | v1::RunnerAction::Sigkill);
    let is_bad = exit.signal > 0 || exit.code.is_some_and(|code| code != 0);
    is_bad && !was_ended && exit.approved_request_id.is_empty()
}

/// Says how a lead begins a new life of a member.
pub(super) fn begin_again(member: &v1::Member) -> String {
    let name = &member.name;
    match (member.liveness(), host(member)) {
        _ if !member.spawned_on.is_empty() => {
            format!("`teamwire spawn {name} --profile PROFILE` (it ran on {}).", member.spawned_on)
        }
        (Liveness::Detached, _) => format!("`teamwire invite {name}`, and send the join string to the person."),
        (_, "") => format!("`teamwire run {name} -- COMMAND`."),
        (_, host) => format!("`teamwire run {name} -- COMMAND` (it ran on {host})."),
    }
}

/// Returns the name of the machine that a member's program runs on. Empty: unknown.
pub(super) fn host(member: &v1::Member) -> &str {
    member.attributes.as_ref().map_or("", |attributes| attributes.host.as_str())
}
