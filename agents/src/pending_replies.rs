//! Finds the message that a program's message answers, for programs that set no `in_reply_to`.
//!
//! A program that is fed one message after another answers the only message that it has in hand from the recipient. If
//! there are several, the runner does not guess. A program that is started for a batch answers the last message of the
//! batch from the recipient.
//!
//! The prompt of a member that a host starts never counts: it expects no reply, but a question that follows it may.
//!
//! Any other message is "in hand" from its hand-over until the program acknowledges it or answers it with
//! `in_reply_to`. As long as the program has acknowledged nothing in this session, the first answer to a message also
//! takes it out of hand, because no acknowledgement may ever come.
//!
//! The answer only gets an `in_reply_to`. It does not acknowledge: "I am working on it" is an answer, and a message
//! must not leave the inbox before it is processed.

use teamwire_client::{Client, Retry};
use teamwire_proto::{
    name::Address,
    v1::{self, SenderKind, send_request},
};

/// How many messages are remembered. A session delivers at most 64 without acknowledgement; more can be in hand only if
/// the runner acknowledges them by itself.
const IN_HAND_MAX: usize = 256;

/// The messages that the program may answer.
#[derive(Debug)]
pub(crate) struct PendingReplies {
    in_hand: Vec<InHand>,
    /// `true` if a program is started for each batch, and `in_hand` is the batch.
    is_batch: bool,
    /// `true` if the program has acknowledged a message in this session.
    acknowledges: bool,
    /// `true` if these are the messages of an agent's turn. The end of the turn acknowledges them, and not their
    /// answers. So an agent may say that it works on the only one, and answer it later.
    is_turn: bool,
    /// `true` if a message is not remembered, so the runner cannot tell whether a remembered one is the only one in
    /// hand.
    is_incomplete: bool,
}

#[derive(Debug)]
struct InHand {
    id: String,
    /// In lower case.
    sender: String,
    /// The request that the message makes. Empty if it makes none, and may be answered with a message.
    request_id: String,
    is_answered: bool,
}

/// The messages that a program's message may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answerable {
    /// None, or more than one.
    Unknown,
    /// This one.
    Message(String),
    /// The one from the team's current lead. From senders, in lower case, to message ids.
    OfLead(Vec<(String, String)>),
}

impl Answerable {
    /// Returns the message that is answered. Looks up the lead, who may have changed since the message arrived.
    pub(crate) async fn resolve(self, client: &Client) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Message(id) => Some(id),
            Self::OfLead(each) => {
                let client = client.clone().with_retry(Retry::none());
                let lead = client.get_team(v1::GetTeamRequest::default()).await.ok()?.team?.lead.to_ascii_lowercase();
                each.into_iter().find(|(sender, _)| *sender == lead).map(|(_, id)| id)
            }
        }
    }
}

impl PendingReplies {
    /// Creates an empty set. `is_batch`: a program is started for each batch.
    pub(crate) fn new(is_batch: bool) -> Self {
        Self { in_hand: Vec::new(), is_batch, acknowledges: false, is_turn: false, is_incomplete: false }
    }

    /// Creates an empty set for the messages of an agent's turn.
    pub(crate) fn of_turn() -> Self {
        Self { is_turn: true, ..Self::new(false) }
    }

    /// Forgets everything: a session or a batch begins.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.is_batch);
    }

    /// Records that the program was handed a message.
    pub(crate) fn hand_over(&mut self, message: &v1::Message) {
        let Some(sender) = message.sender.as_ref().filter(|sender| sender.kind() == SenderKind::Member) else { return };
        let request_id = match &message.body {
            Some(_) if message.prompt => return,
            Some(body) if body.kind().invites_reply() => String::new(),
            Some(body) if body.kind().is_request() => message.request_id.clone(),
            // Answers and notices want no answer.
            _ => return,
        };
        if self.in_hand.len() >= IN_HAND_MAX {
            self.in_hand.retain(|message| !message.is_answered);
        }
        if self.in_hand.len() >= IN_HAND_MAX {
            self.is_incomplete = true;
            return;
        }
        let (id, sender) = (message.id.clone(), sender.name.to_ascii_lowercase());
        self.in_hand.push(InHand { id, sender, request_id, is_answered: false });
    }

    /// Records that the program has acknowledged a message.
    pub(crate) fn acknowledged(&mut self, message_id: &str) {
        self.acknowledges = true;
        self.close(message_id);
    }

    /// Removes a message that the program is done with.
    pub(crate) fn close(&mut self, message_id: &str) {
        self.in_hand.retain(|message| message.id != message_id);
    }

    /// Removes the message that made a request, which is answered.
    pub(crate) fn close_request(&mut self, request_id: &str) {
        self.in_hand.retain(|message| request_id.is_empty() || message.request_id != request_id);
    }

    /// Records that a message without `in_reply_to` has answered this one.
    pub(crate) fn answered(&mut self, message_id: &str) {
        if let Some(message) = self.in_hand.iter_mut().find(|message| message.id == message_id) {
            message.is_answered = true;
        }
    }

    /// Returns which message `request`, which the program wants to send, answers.
    pub(crate) fn answerable(&self, request: &v1::SendRequest) -> Answerable {
        let Some(send_request::Body::Message(body)) = &request.body else { return Answerable::Unknown };
        if !request.in_reply_to.is_empty() || self.is_incomplete {
            return Answerable::Unknown;
        }
        let Ok(to) = Address::parse(&body.recipient, "recipient") else { return Answerable::Unknown };
        if to.is_lead_alias() {
            let mut senders: Vec<&str> = self.in_hand.iter().map(|message| message.sender.as_str()).collect();
            senders.sort_unstable();
            senders.dedup();
            let each = senders.into_iter().filter_map(|sender| Some((sender.to_owned(), self.of(sender)?)));
            return Some(each.collect::<Vec<_>>())
                .filter(|each| !each.is_empty())
                .map_or(Answerable::Unknown, Answerable::OfLead);
        }
        self.of(to.member.folded()).map_or(Answerable::Unknown, Answerable::Message)
    }

    /// Returns the message that an answer to a sender answers.
    fn of(&self, sender: &str) -> Option<String> {
        let of_sender = |message: &&InHand| message.sender == sender;
        if self.is_batch {
            let is_answerable = |message: &&InHand| message.request_id.is_empty();
            return Some(self.in_hand.iter().filter(of_sender).rfind(is_answerable)?.id.clone());
        }
        let in_hand: Vec<&InHand> = self.in_hand.iter().filter(of_sender).collect();
        let unanswered: Vec<&InHand> = in_hand.iter().copied().filter(|message| !message.is_answered).collect();
        let is_over = unanswered.is_empty() && self.is_turn;
        match if self.acknowledges || is_over { &in_hand[..] } else { &unanswered[..] } {
            [only] if only.request_id.is_empty() => Some(only.id.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use teamwire_client::message;
    use teamwire_proto::v1::message::Body;

    use super::*;

    fn from(sender: &str, id: &str, body: Body) -> v1::Message {
        let sender = Some(v1::Sender { kind: SenderKind::Member.into(), name: sender.into() });
        let request_id = if body.kind().is_request() { format!("req_{id}") } else { String::new() };
        v1::Message { id: id.into(), sender, request_id, body: Some(body), ..Default::default() }
    }

    fn text(sender: &str, id: &str) -> v1::Message {
        from(sender, id, Body::Message(v1::DirectMessage::default()))
    }

    fn handed(is_batch: bool, messages: &[v1::Message]) -> PendingReplies {
        let mut pending = PendingReplies::new(is_batch);
        messages.iter().for_each(|message| pending.hand_over(message));
        pending
    }

    fn answers(pending: &PendingReplies, to: &str) -> Option<String> {
        match pending.answerable(&message::direct(to, "s", "c")) {
            Answerable::Message(id) => Some(id),
            Answerable::Unknown => None,
            lead @ Answerable::OfLead(_) => panic!("{lead:?}"),
        }
    }

    #[test]
    fn the_only_message_in_hand_from_a_sender_is_answered() {
        let pending = handed(false, &[text("Ann", "1"), text("bob", "2"), text("bob", "3")]);
        assert_eq!(answers(&pending, "ann").as_deref(), Some("1"));
        assert_eq!(answers(&pending, "ANN@blue").as_deref(), Some("1"));
        assert_eq!(answers(&pending, "bob"), None, "two are in hand");
        assert_eq!(answers(&pending, "cyd"), None);
        let explicit = v1::SendRequest { in_reply_to: "9".into(), ..message::direct("ann", "s", "c") };
        assert_eq!(pending.answerable(&explicit), Answerable::Unknown);
        assert_eq!(pending.answerable(&message::broadcast("s", "c")), Answerable::Unknown);
        let of_lead = Answerable::OfLead(vec![("ann".into(), "1".into())]);
        assert_eq!(pending.answerable(&message::direct("Team-Lead", "s", "c")), of_lead);
    }

    #[test]
    fn a_program_that_acknowledges_nothing_answers_each_message_once() {
        let mut pending = handed(false, &[text("ann", "1")]);
        pending.answered("1");
        assert_eq!(answers(&pending, "ann"), None);
        pending.hand_over(&text("ann", "2"));
        assert_eq!(answers(&pending, "ann").as_deref(), Some("2"));
    }

    #[test]
    fn in_a_turn_the_only_unanswered_message_is_answered_and_then_the_only_one() {
        let mut turn = PendingReplies::of_turn();
        turn.hand_over(&text("ann", "1"));
        turn.answered("1");
        assert_eq!(answers(&turn, "ann").as_deref(), Some("1"), "the result after \"I am working on it\"");
        turn.hand_over(&text("ann", "2"));
        assert_eq!(answers(&turn, "ann").as_deref(), Some("2"));
        turn.answered("2");
        assert_eq!(answers(&turn, "ann"), None, "either of them");
    }

    #[test]
    fn an_acknowledging_program_has_a_message_in_hand_until_it_acknowledges_it() {
        let mut pending = handed(false, &[text("ann", "1"), text("ann", "2")]);
        pending.acknowledged("1");
        pending.answered("2");
        assert_eq!(answers(&pending, "ann").as_deref(), Some("2"), "the result after \"I am working on it\"");
        pending.hand_over(&text("ann", "3"));
        assert_eq!(answers(&pending, "ann"), None);
        pending.acknowledged("2");
        assert_eq!(answers(&pending, "ann").as_deref(), Some("3"));
    }

    #[test]
    fn a_request_in_hand_makes_a_message_to_its_sender_ambiguous() {
        let asks = from("ann", "2", Body::ShutdownRequest(v1::ShutdownRequest::default()));
        let mut pending = handed(false, &[text("ann", "1"), asks]);
        assert_eq!(answers(&pending, "ann"), None);
        pending.close_request("req_2");
        assert_eq!(answers(&pending, "ann").as_deref(), Some("1"));
        let decided = from("ann", "3", Body::PlanApprovalResponse(v1::PlanApprovalResponse::default()));
        pending.hand_over(&decided);
        assert_eq!(answers(&pending, "ann").as_deref(), Some("1"), "an answer wants no answer");
    }

    #[test]
    fn a_prompt_is_never_in_hand() {
        let prompt = v1::Message { prompt: true, ..text("ann", "1") };
        for is_batch in [false, true] {
            let mut pending = handed(is_batch, std::slice::from_ref(&prompt));
            assert_eq!(answers(&pending, "ann"), None, "a report on the prompt answers nothing");
            pending.hand_over(&text("ann", "2"));
            pending.hand_over(&prompt);
            assert_eq!(answers(&pending, "ann").as_deref(), Some("2"));
        }
    }

    #[test]
    fn the_last_message_of_a_batch_from_a_sender_is_answered() {
        let mut pending = handed(true, &[text("ann", "1"), text("bob", "2"), text("ann", "3")]);
        assert_eq!(answers(&pending, "ann").as_deref(), Some("3"));
        pending.answered("3");
        assert_eq!(answers(&pending, "ann").as_deref(), Some("3"));
        assert_eq!(answers(&pending, "bob").as_deref(), Some("2"));
        pending.clear();
        assert_eq!(answers(&pending, "ann"), None);
    }

    #[test]
    fn no_reply_is_guessed_once_a_message_was_dropped() {
        let mut pending = PendingReplies::new(false);
        for number in 0..=IN_HAND_MAX {
            pending.hand_over(&text(&format!("m{number}"), &number.to_string()));
        }
        assert_eq!((pending.in_hand.len(), answers(&pending, "m1")), (IN_HAND_MAX, None));
    }
}
