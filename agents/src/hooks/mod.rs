//! Answers an agent program's hooks with the messages that wait for the session's member.
//!
//! A program calls a hook at the start of a session, when a turn begins, after each tool call and when a turn ends. It
//! shows the model what the hook prints. A hook knows only that it has printed a message, not that the model has read
//! it. So a message is acknowledged in two steps:
//!
//! 1. A hook prints a message, and records in [`sessions`] for which turn.
//! 2. By the end of a turn, its model has read everything that was printed for it. The hook at the end of the turn
//!    acknowledges those messages.
//!
//! If a turn is interrupted, or the model cannot be reached, that hook is not called. The next turn gets the messages
//! again, marked. While one session has a message in hand, other sessions of the same member do not get it, unless the
//! first one has been silent for [`sessions::CLAIM`].
//!
//! | module | what it does |
//! |---|---|
//! | [`call`] | parses an event that a program reports |
//! | [`sessions`] | remembers, in a private file, which session was handed which messages |
//! | [`answer`] | writes what the program reads |
//! | [`text`] | the texts for the model |

mod answer;
mod call;
mod sessions;
mod text;
mod wake;

use std::{io, path::Path, time::Duration};

use teamwire_client::{Client, Error, Retry, v1};
use tokio::time::timeout;

pub(crate) use self::sessions::in_hand;
pub use self::{
    answer::HookAnswer,
    call::{BadCall, HookCall},
};
use self::{call::Event, sessions::Sessions, text::Handed};

/// How long a hook may wait for the coordinator. The person waits for the hook.
const DEADLINE: Duration = Duration::from_millis(1_500);

/// How many messages of the inbox a hook looks at.
const PAGE_SIZE: u32 = 50;

/// Removes what the hooks of a member's sessions have kept in a directory. For a member that is gone.
pub fn forget_sessions(directory: &Path, member: &str, team: &str) {
    Sessions::new(directory, member, team).remove();
}

/// Answers a program's hooks for one member.
#[derive(Debug)]
pub struct Hooks {
    client: Client,
    sessions: Sessions,
}

impl Hooks {
    /// Creates the hooks of the client's member. `directory` keeps their state; only its owner may have access.
    pub fn new(client: Client, directory: &Path) -> Self {
        let sessions = Sessions::new(directory, client.name(), client.team());
        Self { client: client.with_retry(Retry::none()), sessions }
    }

    /// Answers an event. Print the answer, then call [`Hooks::printed`].
    ///
    /// Fails only if the state cannot be saved. If the coordinator is unreachable, the call takes at most [`DEADLINE`].
    pub async fn answer(&self, call: &HookCall) -> io::Result<HookAnswer> {
        if call.is_subagent {
            return Ok(HookAnswer::nothing());
        }
        let proven = self.sessions.update(|file| file.begin(call))?;
        let reached = timeout(DEADLINE, self.reach(call, &proven)).await;
        let found = match reached {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return self.without_coordinator(call, &error.to_string()),
            Err(_) => return self.without_coordinator(call, "The coordinator does not answer."),
        };
        self.sessions.update(|file| {
            let session = file.session(&call.session_id);
            session.proven.retain(|id| !proven.contains(id));
            session.has_told_away = false;
            match found {
                Found::Nothing => {
                    file.end(&call.session_id);
                    HookAnswer::nothing()
                }
                Found::Introduction(text) => HookAnswer::context(call, text),
                Found::Inbox(inbox) => hand_over(call, file, &inbox),
            }
        })
    }

    /// Records that the program has been given an answer. Messages that it was not given count as never handed over.
    pub fn printed(&self, call: &HookCall, answer: &HookAnswer) -> io::Result<()> {
        match answer.messages() {
            [] => Ok(()),
            ids => self.sessions.update(|file| file.session(&call.session_id).printed(ids)),
        }
    }

    /// Acknowledges the messages that the model has read, then fetches what the event needs.
    async fn reach(&self, call: &HookCall, proven: &[String]) -> Result<Found, Error> {
        if !proven.is_empty() {
            let request = v1::AckRequest { session_id: String::new(), message_ids: proven.to_vec() };
            self.client.ack(request).await?;
        }
        if call.event == Event::SessionEnd {
            return Ok(Found::Nothing);
        }
        if call.event == Event::SessionStart {
            let team = self.client.get_team(v1::GetTeamRequest::default()).await?.team.unwrap_or_default();
            let members = self.client.members().await?;
            return Ok(Found::Introduction(text::introduction(call.program, self.client.name(), &team, &members)));
        }
        let request = v1::ListInboxRequest { page_size: PAGE_SIZE, ..v1::ListInboxRequest::default() };
        Ok(Found::Inbox(self.client.list_inbox(request).await?))
    }

    /// Says once in a session that messages do not arrive.
    fn without_coordinator(&self, call: &HookCall, why: &str) -> io::Result<HookAnswer> {
        let has_told = self.sessions.update(|file| {
            let session = file.session(&call.session_id);
            std::mem::replace(&mut session.has_told_away, true)
        })?;
        Ok(if has_told { HookAnswer::nothing() } else { HookAnswer::note(&text::no_coordinator(why)) })
    }
}

/// What an event needs from the coordinator.
enum Found {
    Nothing,
    Introduction(String),
    Inbox(v1::ListInboxResponse),
}

/// Chooses the messages to print, and records that this session gets them.
fn hand_over(call: &HookCall, file: &mut sessions::File, inbox: &v1::ListInboxResponse) -> HookAnswer {
    let waiting = file.waiting(&call.session_id, inbox);
    let session = file.session(&call.session_id);
    if waiting.is_empty() {
        return HookAnswer::nothing();
    }
    if call.event == Event::TurnEnd {
        if session.continued >= sessions::CONTINUED_MAX {
            return HookAnswer::note(&text::wait_for_prompt(waiting.len()));
        }
        session.continued += 1;
        session.is_in_turn = true;
        // This causes a prompt, whose hook hands the messages over.
        if call.program.prompts_itself() {
            session.prompts_itself = true;
            return HookAnswer::go_on(call, text::GO_ON.to_owned());
        }
    }
    let handed = Handed::new(&waiting, |id| session.has_seen(id));
    session.hand_over(call, &handed.shown, &handed.mentioned);
    let answer = match call.event {
        Event::TurnEnd => HookAnswer::go_on(call, handed.text),
        _ => HookAnswer::context(call, handed.text),
    };
    answer.with_messages(handed.shown)
}
