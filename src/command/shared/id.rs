//! What a user may type for a request or a message: the whole id, `last`, or a unique part that begins or ends it; and
//! for a member: its name or `team-lead`.

use teamwire_client::v1::{self, history_entry::Event};
use teamwire_proto::{
    Reason, Refusal,
    id::{REQUEST_ID_CHARS, REQUEST_ID_PREFIX},
    name::LEAD_ALIAS,
    v1::{RequestKind, RequestState, Role},
};

use crate::{
    context::Caller,
    failure::{Failure, REFUSED},
    show,
};

/// How many of the newest requests or messages are searched.
const SEARCHED_MAX: usize = 1_000;

/// The fewest characters that a part of an id may have.
const PART_MIN: usize = 4;

/// The length of a UUID with its hyphens.
const UUID_LENGTH: usize = 36;

/// What an id stands for.
struct Kind {
    noun: &'static str,
    /// The reason of a refusal, and its field.
    wrong: (Reason, &'static str),
    /// Where to find ids, as a sentence.
    listing: &'static str,
}

const REQUEST: Kind = Kind {
    noun: "request",
    wrong: (Reason::InvalidRequestId, "request_id"),
    listing: "`teamwire requests` lists requests.",
};

const MESSAGE: Kind = Kind {
    noun: "message",
    wrong: (Reason::InvalidMessageId, "message_id"),
    listing: "`teamwire inbox` prints the id below each message.",
};

impl Kind {
    /// Creates the failure for a wrong id; exit code 64, as if the coordinator had refused it.
    fn wrong(&self, text: String) -> Failure {
        let (reason, field) = self.wrong;
        Refusal::new(reason, text).field(field).into()
    }
}

/// Returns whether a user means this member.
pub(in crate::command) fn is_named(member: &v1::Member, named: &str) -> bool {
    member.name.eq_ignore_ascii_case(named) || member.role() == Role::Lead && named.eq_ignore_ascii_case(LEAD_ALIAS)
}

/// Returns the member of the caller's team that bears a name, which may be written as `name@team`.
pub(in crate::command) async fn find_member(caller: &Caller, named: &str) -> Result<v1::Member, Failure> {
    let name = named.split('@').next().unwrap_or(named);
    let listed = caller.client.members().await?;
    listed.into_iter().find(|member| is_named(member, name)).ok_or_else(|| {
        Failure::usage(format!("There is no member {name} in your team. `teamwire status` lists the members."))
    })
}

/// Returns the id of the request that `typed` means. `last` is the newest pending request, or else the newest one.
pub(in crate::command) async fn request(caller: &Caller, typed: &str) -> Result<String, Failure> {
    let is_whole = typed.starts_with(REQUEST_ID_PREFIX) && typed.len() >= REQUEST_ID_PREFIX.len() + REQUEST_ID_CHARS;
    if is_whole {
        return Ok(typed.to_owned());
    }
    refuse_short(typed, typed.trim_start_matches(REQUEST_ID_PREFIX), &REQUEST)?;
    let listed = caller.client.list_all_requests(v1::ListRequestsRequest::default(), SEARCHED_MAX).await?.requests;
    if typed == "last" {
        let mut newest: Vec<_> = listed.iter().collect();
        newest.sort_by_key(|request| {
            let at = request.created_at.unwrap_or_default();
            (request.state() == RequestState::Pending, at.seconds, at.nanos)
        });
        let Some(last) = newest.last() else { return Err(none("There is no request yet.")) };
        return Ok(last.id.clone());
    }
    let bare = |id: &str| id.trim_start_matches(REQUEST_ID_PREFIX).to_owned();
    let part = bare(typed);
    only(typed, &REQUEST, listed.into_iter().map(|request| request.id).filter(|id| has_part(&bare(id), &part)))
}

/// Returns the id of the request to answer that `typed` means. `last` is the newest one, of this kind if one is given,
/// that waits for the caller's answer.
pub(in crate::command) async fn request_to_answer(
    caller: &Caller,
    typed: &str,
    kind: Option<RequestKind>,
) -> Result<String, Failure> {
    if typed != "last" {
        return request(caller, typed).await;
    }
    let is_due = is_due(caller, kind).await?;
    let what = kind.map_or_else(|| "Nothing".to_owned(), |kind| format!("No {}", noun(kind)));
    let newest = newest_pending(caller, is_due).await?;
    newest.ok_or_else(|| none(&format!("{what} waits for your answer. See `teamwire requests`.")))
}

/// Returns the requests that wait for the caller's answer, the next to expire first. `kind`: the only kind that counts.
pub(in crate::command) async fn due(caller: &Caller, kind: Option<RequestKind>) -> Result<Vec<v1::Request>, Failure> {
    let is_due = is_due(caller, kind).await?;
    let mut due: Vec<v1::Request> = pending(caller).await?.into_iter().filter(is_due).collect();
    due.sort_by_key(|request| request.expires_at.map_or((i64::MAX, 0), |at| (at.seconds, at.nanos)));
    Ok(due)
}

/// Returns whether the caller is the lead, or may do what the lead may do.
pub(in crate::command) async fn can_lead(caller: &Caller) -> Result<bool, Failure> {
    let team = caller.client.get_team(v1::GetTeamRequest::default()).await?.team.ok_or_else(show::incomplete)?;
    Ok(caller.member.is_none() || caller.is(&team.lead))
}

/// Returns which pending requests wait for the caller's answer.
async fn is_due(caller: &Caller, kind: Option<RequestKind>) -> Result<impl Fn(&v1::Request) -> bool + '_, Failure> {
    let can_lead = can_lead(caller).await?;
    let is_due = move |request: &v1::Request| match request.kind() {
        other if kind.is_some_and(|kind| kind != other) => false,
        RequestKind::Shutdown => caller.is(&request.member),
        RequestKind::PlanApproval => can_lead,
        RequestKind::Permission | RequestKind::Review => {
            !caller.is(&request.member) && (can_lead || caller.is(&request.approver))
        }
        RequestKind::Spawn | RequestKind::Unspecified => false,
    };
    Ok(is_due)
}

/// Returns the id of the request to withdraw that `typed` means. `last` is the caller's newest pending permission
/// request.
pub(in crate::command) async fn request_to_withdraw(caller: &Caller, typed: &str) -> Result<String, Failure> {
    if typed != "last" {
        return request(caller, typed).await;
    }
    let is_own = |request: &v1::Request| request.kind() == RequestKind::Permission && caller.is(&request.member);
    let newest = newest_pending(caller, is_own).await?;
    newest.ok_or_else(|| none("None of your permission requests is pending. See `teamwire requests`."))
}

/// Returns what an answer decides.
pub(in crate::command) fn noun(kind: RequestKind) -> &'static str {
    kind.message().map_or("request", |message| message.noun())
}

async fn newest_pending(caller: &Caller, is_it: impl Fn(&v1::Request) -> bool) -> Result<Option<String>, Failure> {
    Ok(pending(caller).await?.into_iter().find(is_it).map(|request| request.id))
}

/// Returns the newest pending requests, the newest first.
async fn pending(caller: &Caller) -> Result<Vec<v1::Request>, Failure> {
    let pending = v1::ListRequestsRequest { state: RequestState::Pending.into(), ..v1::ListRequestsRequest::default() };
    Ok(caller.client.list_all_requests(pending, SEARCHED_MAX).await?.requests)
}

/// Which message `last` means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum Last {
    /// The newest message of the caller's inbox, or else the newest one that the caller may see and did not send.
    Received,
    /// The same without notices, which nobody replies to.
    ToReplyTo,
    /// The newest message that the caller sent or received, or else the newest one that the caller may see. Notices do
    /// not count: one may arrive at any time.
    SentOrReceived,
}

impl Last {
    fn counts(self, caller: &Caller, message: &v1::Message) -> bool {
        match self {
            Self::Received => !is_sender(caller, message),
            Self::ToReplyTo => !is_sender(caller, message) && !is_notice(message),
            Self::SentOrReceived => is_own(caller, message),
        }
    }
}

/// Returns the id of the message that `typed` means.
pub(in crate::command) async fn message(caller: &Caller, typed: &str, last: Last) -> Result<String, Failure> {
    if typed.len() >= UUID_LENGTH {
        return Ok(typed.to_owned());
    }
    refuse_short(typed, typed, &MESSAGE)?;
    let newest_that_counts = |messages: &[v1::Message]| {
        messages.iter().rfind(|message| last.counts(caller, message)).map(|message| message.id.clone())
    };
    let mut inbox = Vec::new();
    let needs_inbox = typed != "last" || last != Last::SentOrReceived;
    if caller.member.is_some() && needs_inbox {
        let listed = caller.client.list_all_inbox(v1::ListInboxRequest::default(), SEARCHED_MAX).await?;
        inbox.extend(listed.deliveries.into_iter().filter_map(|delivery| delivery.message));
    }
    if typed == "last"
        && let Some(id) = newest_that_counts(&inbox)
    {
        return Ok(id);
    }
    let filter = v1::HistoryFilter { messages_only: true, ..v1::HistoryFilter::default() };
    let newest = v1::ListHistoryRequest { filter: Some(filter), newest: true, ..v1::ListHistoryRequest::default() };
    let entries = caller.client.list_all_history(newest, SEARCHED_MAX).await?.entries;
    let messages: Vec<v1::Message> = entries
        .into_iter()
        .filter_map(|entry| match entry.event {
            Some(Event::Message(message)) => Some(message),
            _ => None,
        })
        .collect();
    if typed == "last" {
        let newest = newest_that_counts(&messages);
        let (newest, absent) = match last {
            Last::Received | Last::ToReplyTo => (newest, "No one has sent you a message yet."),
            Last::SentOrReceived => {
                (newest.or(messages.last().map(|message| message.id.clone())), "There is no message yet.")
            }
        };
        return newest.ok_or_else(|| none(absent));
    }
    let mut ids: Vec<String> = inbox.into_iter().chain(messages).map(|message| message.id).collect();
    ids.sort_unstable();
    ids.dedup();
    only(typed, &MESSAGE, ids.into_iter().filter(|id| has_part(id, typed)))
}

/// Returns whether the caller sent or received a message that is not a notice.
fn is_own(caller: &Caller, message: &v1::Message) -> bool {
    !is_notice(message)
        && (is_sender(caller, message) || message.recipients.iter().any(|recipient| caller.is(recipient)))
}

fn is_notice(message: &v1::Message) -> bool {
    matches!(message.body, Some(v1::message::Body::Notice(_)))
}

fn is_sender(caller: &Caller, message: &v1::Message) -> bool {
    message.sender.as_ref().is_some_and(|sender| caller.is(&sender.name))
}

fn has_part(id: &str, part: &str) -> bool {
    let (id, part) = (id.to_ascii_lowercase(), part.to_ascii_lowercase());
    id.starts_with(&part) || id.ends_with(&part)
}

/// Fails if what was typed is too short to be searched for. `part`: the part of the id that it gives.
fn refuse_short(typed: &str, part: &str, kind: &Kind) -> Result<(), Failure> {
    if part == "last" || part.len() >= PART_MIN {
        return Ok(());
    }
    let Kind { noun, listing, .. } = kind;
    Err(kind.wrong(format!(
        "`{}` is too short for a {noun}'s id. Give at least {PART_MIN} characters of it, or `last`. {listing}",
        show::one_line(typed)
    )))
}

fn only(typed: &str, kind: &Kind, found: impl Iterator<Item = String>) -> Result<String, Failure> {
    let mut found: Vec<String> = found.collect();
    let (typed, noun) = (show::one_line(typed), kind.noun);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(kind.wrong(format!(
            "Of the newest {SEARCHED_MAX} {noun}s that you may see, none has an id that begins or ends with `{typed}`. {}",
            kind.listing
        ))),
        _ => {
            found.truncate(8);
            let found = found.join(", ");
            Err(kind.wrong(format!("`{typed}` could be several {noun}s. Give more of the id: {found}.")))
        }
    }
}

fn none(text: &str) -> Failure {
    Failure::with_code(REFUSED, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(ids: &[&str], typed: &str) -> Result<String, String> {
        let found = ids.iter().map(|id| (*id).to_owned()).filter(|id| has_part(id, typed));
        only(typed, &MESSAGE, found).map_err(|failure| failure.message())
    }

    #[test]
    fn a_partial_id_must_match_exactly_one_id() {
        let ids = ["01a1-aaaa", "01a1-bbbb", "02b2-bbba"];
        assert_eq!(among(&ids, "AAAA"), Ok("01a1-aaaa".to_owned()));
        assert_eq!(among(&ids, "02b2"), Ok("02b2-bbba".to_owned()));
        let several = among(&ids, "01a1").expect_err("two begin so");
        assert!(several.contains("01a1-aaaa, 01a1-bbbb"), "{several}");
        let none = among(&ids, "cccc").expect_err("none has it");
        assert!(none.contains("begins or ends with `cccc`"), "{none}");
    }
}
