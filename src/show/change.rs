//! Changes to a team that is watched.

use std::time::SystemTime;

use serde_json::{Value, json as object};
use teamwire_client::TeamChange;
use teamwire_proto::{
    v1::{self, RequestKind, RequestState, team_item::Item, team_item_key::Key},
    word,
};

use super::{
    bold, dim,
    host::host_state,
    json,
    member::{note, state_style},
    one_line, paint, request_kind, request_text, task_line, time,
};

/// Prints a change on one line, and the time by this machine's clock. Leaves out activity, which `teamwire logs`
/// follows.
pub(crate) fn change(change: &TeamChange) {
    let text = match change {
        TeamChange::Changed(Item::Task(task)) => return task_line(task),
        TeamChange::Changed(Item::Activity(_)) | TeamChange::Removed(Key::ActivityOf(_) | Key::RequestId(_)) => return,
        TeamChange::Changed(Item::Team(team)) => format!("team {}: {} leads", paint(bold(), &team.name), team.lead),
        TeamChange::Changed(Item::Member(member)) => member_text(member),
        TeamChange::Changed(Item::Host(host)) => {
            let slots = host.offer.as_ref().map_or(0, |offer| offer.slots);
            let name = paint(bold(), &host.name);
            format!("host {name} {}, {} of {slots} slots taken", host_state(host), host.slots_used)
        }
        TeamChange::Changed(Item::Request(request)) => request_line(request),
        TeamChange::Removed(Key::Member(name)) => format!("{} is no longer in the team", paint(bold(), name)),
        TeamChange::Removed(Key::Host(name)) => format!("host {} is no longer in the team", paint(bold(), name)),
        TeamChange::Removed(Key::TaskId(id)) => format!("{} deleted", paint(bold(), id)),
    };
    let now = prost_types::Timestamp::from(SystemTime::now());
    anstream::println!("{} {text}", paint(dim(), time(Some(&now))));
}

fn member_text(member: &v1::Member) -> String {
    let state = paint(state_style(member.state()), word::member_state(member.state()));
    let note = Some(note(member)).filter(|note| !note.is_empty()).map_or_else(String::new, |note| format!("; {note}"));
    format!("{} {state}, inbox {}{note}", paint(bold(), &member.name), member.inbox_depth)
}

fn request_line(request: &v1::Request) -> String {
    let what = match (request.kind(), request.state()) {
        (RequestKind::Spawn, _) => format!("{}: {}", request.member, request_text(request)),
        (kind, RequestState::Pending) => {
            let about = [request.tool.as_str(), &request.summary].map(one_line);
            let about = about.iter().filter(|text| !text.is_empty()).fold(String::new(), |all, text| all + ": " + text);
            format!("{} of {} awaits an answer{about}", request_kind(kind), request.member)
        }
        (kind, _) => format!("{} of {} {}", request_kind(kind), request.member, one_line(&request_text(request))),
    };
    format!("{what} {}", paint(dim(), format!("({})", request.id)))
}

/// Converts a change to JSON: an object with the item under its kind, or with the key of what is gone under `removed`.
pub(crate) fn change_json(change: &TeamChange) -> Value {
    match change {
        TeamChange::Changed(item) => json("TeamItem", &v1::TeamItem { item: Some(item.clone()) }),
        TeamChange::Removed(key) => {
            object!({ "removed": json("TeamItemKey", &v1::TeamItemKey { key: Some(key.clone()) }) })
        }
    }
}
