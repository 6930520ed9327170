//! A text that the agent wrote and did not send.
//!
//! Members read only what is sent to them, and agents forget that. If a turn took a direct message, ended with a text, and
//! sent nothing, the agent is reminded once. If the next turn sends nothing either, the runner sends the text itself, marked
//! as automatic, to the member that waits for a reply, or else to the lead: another member must not be able to elicit what
//! the agent only wrote. An automatic message causes no reminder, so two agents cannot do this to each other forever.

use teamwire_client::{Client, v1};
use teamwire_proto::{
    v1::{SenderKind, message::Body},
    word::{cut_middle, shorten},
};
use tokio::task::JoinSet;

use super::Agent;
use crate::{event::RunnerEvent, incarnation::Incarnation};

/// How many messages to look at for one that the agent has sent.
const PAGE: u32 = 100;

/// How many bytes of text are sent.
const TEXT_BYTES_MAX: usize = 48 * 1024;

/// How many characters the summary has at most.
const SUMMARY_CHARS_MAX: usize = 200;

/// A direct message that a turn took.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    id: String,
    sender: String,
    is_from_member: bool,
    wants_reply: bool,
    sent_at: Option<prost_types::Timestamp>,
}

impl Taken {
    /// Returns what matters of a message. `None` if it expects nothing.
    pub(super) fn of(message: &v1::Message) -> Option<Self> {
        let sender = message.sender.as_ref()?;
        let is_from_member = sender.kind() == SenderKind::Member;
        let expects = matches!(message.body, Some(Body::Message(_))) && !message.automatic;
        (expects && (is_from_member || sender.kind() == SenderKind::Operator)).then(|| Self {
            id: message.id.clone(),
            sender: sender.name.clone(),
            is_from_member,
            wants_reply: message.wants_reply,
            sent_at: message.sent_at,
        })
    }
}

/// What the turns took and wrote since the agent last sent something.
#[derive(Debug, Default)]
struct Unsent {
    taken: Vec<Taken>,
    text: String,
}

/// What to do about an unsent text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// Remind the agent. Holds whom it has not answered.
    Remind(Vec<String>),
    /// The runner has sent the text to this member.
    Sent(String),
}

/// What has become of the latest turn.
#[derive(Debug)]
enum Checked {
    Spoke,
    Silent(Unsent),
    Sent(String),
    Failed(String),
}

/// Follows what the agent writes and sends.
#[derive(Debug)]
pub(super) struct UnsentTexts {
    client: Client,
    turn: Unsent,
    has_spoken: bool,
    /// The agent was reminded of this.
    reminded: Option<Unsent>,
    /// The newest message of the member that is known.
    known: String,
    work: JoinSet<(Checked, String)>,
}

impl UnsentTexts {
    /// Follows the texts of the client's member.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            turn: Unsent::default(),
            has_spoken: false,
            reminded: None,
            known: String::new(),
            work: JoinSet::new(),
        }
    }

    /// Records a tool call. `line` describes it.
    pub(super) fn call_began(&mut self, line: &str) {
        self.has_spoken |= ["SendMessage", "SubmitPlan"].iter().any(|tool| line.starts_with(tool));
    }

    /// Records what the model wrote at the end of a turn.
    pub(super) fn wrote(&mut self, text: &str) {
        self.turn.add(Vec::new(), text.trim());
    }

    /// Records that a turn has failed: what it took is handed over again, and what it wrote is no report.
    pub(super) fn turn_failed(&mut self) {
        self.turn.text.clear();
    }

    /// Records messages that the turn took.
    pub(super) fn took(&mut self, taken: Vec<Taken>) {
        self.turn.taken.extend(taken);
    }

    /// Forgets the turn that was interrupted: the lead, who did that, knows what it was about.
    pub(super) fn forget(&mut self) {
        (self.turn, self.has_spoken, self.reminded) = (Unsent::default(), false, None);
    }

    /// Checks whether the turn that has ended, with everything that it took, left something unsent.
    pub(super) fn turn_ended(&mut self) {
        let turn = std::mem::take(&mut self.turn);
        let has_spoken = std::mem::take(&mut self.has_spoken);
        let reminded = self.reminded.take();
        let is_reminded = reminded.is_some();
        let unsent = match reminded {
            _ if has_spoken => return,
            Some(mut reminded) => {
                reminded.add(turn.taken, &turn.text);
                reminded
            }
            None if turn.taken.is_empty() || turn.text.is_empty() => return,
            None => turn,
        };
        let (client, known) = (self.client.clone(), self.known.clone());
        self.work.spawn(async move { check(&client, unsent, is_reminded, known).await });
    }

    /// Waits until something is to be done, or was done, about an unsent text. Cancel-safe.
    pub(super) async fn next(&mut self) -> Unread {
        loop {
            let Some(done) = self.work.join_next().await else { return std::future::pending().await };
            let Ok((checked, newest)) = done else { continue };
            self.known = self.known.clone().max(newest);
            match checked {
                Checked::Silent(unsent) => {
                    let senders = unsent.senders();
                    self.reminded = Some(unsent);
                    return Unread::Remind(senders);
                }
                Checked::Sent(to) => return Unread::Sent(to),
                Checked::Failed(why) => tracing::debug!(why, "the text of a turn was not sent"),
                Checked::Spoke => {}
            }
        }
    }
}

impl Unsent {
    fn add(&mut self, taken: Vec<Taken>, text: &str) {
        self.taken.extend(taken);
        if !text.is_empty() && !self.text.contains(text) {
            self.text = format!("{}\n\n{text}", self.text).trim().to_owned();
        }
    }

    fn senders(&self) -> Vec<String> {
        let mut senders: Vec<String> = self.taken.iter().map(|taken| taken.sender.clone()).collect();
        senders.sort();
        senders.dedup();
        senders
    }
}

/// Checks whether the member has sent something since its agent was sent what it took. If not, and the agent was reminded,
/// sends its text. Returns the newest message of the member, too.
async fn check(client: &Client, unsent: Unsent, is_reminded: bool, known: String) -> (Checked, String) {
    let filter =
        v1::HistoryFilter { member: client.name().to_owned(), messages_only: true, ..v1::HistoryFilter::default() };
    let request = v1::ListHistoryRequest { filter: Some(filter), newest: true, page_size: PAGE, ..Default::default() };
    let entries = match client.list_history(request).await {
        Ok(listed) => listed.entries,
        Err(error) => return (Checked::Failed(error.to_string()), known),
    };
    let own = entries.into_iter().filter_map(|entry| match entry.event {
        Some(v1::history_entry::Event::Message(message)) => Some(message),
        _ => None,
    });
    let is_own = |message: &v1::Message| {
        let sender = message.sender.as_ref();
        sender.is_some_and(|sender| sender.name.eq_ignore_ascii_case(client.name()))
    };
    let time = |at: Option<prost_types::Timestamp>| at.map(|at| (at.seconds, at.nanos));
    let oldest = unsent.taken.iter().filter_map(|taken| time(taken.sent_at)).min();
    let own: Vec<v1::Message> = own.filter(is_own).collect();
    let has_spoken = own.iter().any(|message| message.id > known && time(message.sent_at) > oldest);
    let newest = own.into_iter().map(|message| message.id).max().unwrap_or(known);
    let checked = match (has_spoken, is_reminded) {
        (true, _) => Checked::Spoke,
        (false, false) => Checked::Silent(unsent),
        (false, true) => send(client, &unsent).await,
    };
    (checked, newest)
}

/// Sends a text to the member that waits for a reply, or else to the lead.
async fn send(client: &Client, unsent: &Unsent) -> Checked {
    let lead = match client.get_team(v1::GetTeamRequest::default()).await {
        Ok(found) => found.team.unwrap_or_default().lead,
        Err(error) => return Checked::Failed(error.to_string()),
    };
    let newest = |is_it: &dyn Fn(&&Taken) -> bool| unsent.taken.iter().rev().find(is_it);
    let waits = newest(&|taken| taken.wants_reply);
    let of_lead = newest(&|taken| taken.is_from_member && taken.sender.eq_ignore_ascii_case(&lead));
    let answered = waits.or(of_lead);
    // The operator has no inbox, and its command finds the reply in the history.
    let recipient = waits.filter(|taken| taken.is_from_member).map_or(lead.as_str(), |taken| taken.sender.as_str());
    if recipient.eq_ignore_ascii_case(client.name()) || unsent.text.is_empty() {
        return Checked::Failed("no one is to get it".to_owned());
    }
    let message = v1::DirectMessage {
        recipient: recipient.to_owned(),
        summary: shorten(&unsent.text, SUMMARY_CHARS_MAX),
        content: cut_middle(&unsent.text, TEXT_BYTES_MAX),
    };
    let first = unsent.taken.first().map(|taken| taken.id.as_str()).unwrap_or_default();
    let request = v1::SendRequest {
        in_reply_to: answered.map(|taken| taken.id.clone()).unwrap_or_default(),
        // Once for each message that was not answered, even if a later process takes it again.
        idempotency_key: format!("unsent-{first}"),
        automatic: true,
        body: Some(v1::send_request::Body::Message(message)),
        ..v1::SendRequest::default()
    };
    match client.send(request).await {
        Ok(_) => Checked::Sent(recipient.to_owned()),
        Err(error) => Checked::Failed(error.to_string()),
    }
}

impl Agent {
    /// Acts on texts that no one has received.
    pub(super) fn settle_unsent(&mut self, unread: Unread, incarnation: &mut Incarnation<'_>) {
        match unread {
            Unread::Remind(senders) => {
                self.prompts.remind_of_unsent(&senders);
                incarnation.tell(RunnerEvent::UnsentReminded);
            }
            Unread::Sent(recipient) => incarnation.tell(RunnerEvent::TextSent { recipient }),
        }
    }
}

#[cfg(test)]
mod tests {
    use teamwire_proto::v1::{Broadcast, DirectMessage, Message, Notice, Sender};

    use super::*;

    fn message(kind: SenderKind, automatic: bool, body: Body) -> Message {
        let sender = Some(Sender { kind: kind.into(), name: "ann".to_owned() });
        Message { sender, automatic, wants_reply: true, body: Some(body), ..Message::default() }
    }

    #[test]
    fn only_direct_messages_that_someone_wrote_expect_something() {
        let direct = || Body::Message(DirectMessage::default());
        for kind in [SenderKind::Member, SenderKind::Operator] {
            let taken = Taken::of(&message(kind, false, direct())).expect("it expects something");
            assert_eq!((taken.sender.as_str(), taken.wants_reply), ("ann", true));
            assert_eq!(taken.is_from_member, kind == SenderKind::Member);
        }
        // Otherwise, two agents that only write would exchange messages forever.
        assert!(Taken::of(&message(SenderKind::Member, true, direct())).is_none());
        assert!(Taken::of(&message(SenderKind::Member, false, Body::Broadcast(Broadcast::default()))).is_none());
        assert!(Taken::of(&message(SenderKind::Coordinator, false, Body::Notice(Notice::default()))).is_none());
    }

    #[test]
    fn the_texts_of_both_turns_are_sent_once_each() {
        let mut unsent = Unsent::default();
        for text in ["The report.", "", "I have nothing to add.", "The report."] {
            unsent.add(Vec::new(), text);
        }
        assert_eq!(unsent.text, "The report.\n\nI have nothing to add.");
    }
}
