//! Open sessions, and what they must deliver.

use std::time::Duration;

use teamwire_proto::{
    name::Name,
    v1::{self, CloseReason, SenderKind, stream_response::Frame},
};
use teamwire_server::{domain::secret::SessionId, store::Range};
use tokio::time::timeout;

use super::{PATIENCE, Story, check::content_of};
use crate::team::operator;

/// How long to wait for a frame before checking whether any is due.
const POLL: Duration = Duration::from_millis(20);

/// A session, as its client sees it.
pub(super) struct Listener {
    pub(super) member: String,
    pub(super) session_id: SessionId,
    pub(super) incarnation: u64,
    pub(super) frames: teamwire_server::delivery::FrameQueue,
    /// The sequence delivered last.
    pub(super) last: u64,
    /// Why it must end, once it must.
    pub(super) must_end: Option<CloseReason>,
    pub(super) has_ended: bool,
}

impl Story {
    /// Waits until every session has delivered everything in its inbox, or has ended.
    pub(super) async fn settle(&mut self) {
        for at in 0..self.listeners.len() {
            let began = tokio::time::Instant::now();
            while !self.listeners[at].has_ended {
                let is_done = match self.listeners[at].must_end {
                    Some(_) => false,
                    None => self.has_delivered_all(at).await,
                };
                if is_done {
                    break;
                }
                assert!(began.elapsed() < PATIENCE, "nothing arrives at {}", self.listeners[at].member);
                let Ok(frame) = timeout(POLL, self.listeners[at].frames.recv()).await else { continue };
                self.take_frame(at, frame.expect("a stream ends with a closing frame").unwrap().frame.unwrap());
            }
        }
    }

    pub(super) async fn inbox(&self, name: &str) -> Vec<v1::Delivery> {
        let (team, member) = ("alpha".to_owned(), name.to_owned());
        let list = v1::ListInboxRequest { team, member, page_size: 1_000, ..Default::default() };
        self.coordinators[0].list_inbox(&operator(), &list).await.unwrap().deliveries
    }

    async fn has_delivered_all(&self, at: usize) -> bool {
        let listener = &self.listeners[at];
        let member = Name::parse(&listener.member, "name").unwrap();
        let all = Range { first: 1, last: u64::MAX, limit: 1_000, newest_first: false };
        let entries = self.coordinators[0].inbox_entries(&self.team.namespace, &member, all).await.unwrap();
        entries.iter().all(|(sequence, _)| *sequence <= listener.last)
    }

    fn take_frame(&mut self, at: usize, frame: Frame) {
        let listener = &mut self.listeners[at];
        let name = listener.member.clone();
        match frame {
            Frame::Delivery(delivery) => {
                assert!(delivery.sequence > listener.last, "delivered twice in one session, or out of order");
                listener.last = delivery.sequence;
                let message = delivery.message.unwrap();
                assert!(message.recipients.contains(&name), "{name} received a message for {:?}", message.recipients);
                let seen = self.seen.entry((message.id.clone(), name.clone())).or_default();
                assert!(delivery.delivery_count > *seen, "delivered again without a higher delivery count");
                let is_acked = self.acked.contains(&(message.id.clone(), name.clone()));
                assert!(!is_acked || listener.must_end.is_some(), "delivered after its acknowledgement");
                *seen += 1;
                if message.sender.as_ref().unwrap().kind() == SenderKind::Coordinator
                    || self.handed_on.contains(&message.id)
                {
                    return;
                }
                let content = self.contents.get(&message.id).expect("a delivered message was accepted before");
                assert_eq!(content_of(&message), content);
                let place = self.model.sent.iter().position(|sent| sent.id == message.id).unwrap();
                let (sent, incarnation) = (&self.model.sent[place], listener.incarnation);
                assert_eq!(message.sender.unwrap().name, sent.from);
                assert!(sent.only_for.is_none_or(|life| life == incarnation), "the request is for another life");
                self.check_prompt(place, incarnation);
            }
            Frame::Closing(closing) => {
                let expected =
                    listener.must_end.unwrap_or_else(|| panic!("the session ended without cause: {closing:?}"));
                assert_eq!(closing.reason(), expected, "{}", closing.detail);
                listener.has_ended = true;
            }
            _ => {}
        }
    }
}
