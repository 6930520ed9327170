//! What a waiting command has shown is read: it leaves the caller's inbox.

use teamwire_client::v1;
use teamwire_proto::v1::{NoticeKind, message::Body};

use crate::context::Caller;

/// How many messages of the inbox are searched for notices.
const SEARCHED_MAX: usize = 1_000;

/// Acknowledges a message that was printed, if it is in the caller's inbox. If that fails, the message stays unread,
/// which harms no one, so the command still succeeds.
pub(in crate::command) async fn acknowledge(caller: &Caller, message_ids: Vec<String>) {
    if caller.member.is_none() || message_ids.is_empty() {
        return;
    }
    let _ = caller.client.ack(v1::AckRequest { session_id: String::new(), message_ids }).await;
}

/// Acknowledges the answer to a request, or the notice of its end if no message answered it.
pub(in crate::command) async fn acknowledge_decision(caller: &Caller, request: &v1::Request) {
    if request.answer_message_id.is_empty() {
        let kinds = [
            NoticeKind::RequestExpired,
            NoticeKind::RequestCancelled,
            NoticeKind::SpawnStarted,
            NoticeKind::SpawnFailed,
        ];
        acknowledge_notices(caller, |notice| kinds.contains(&notice.kind()) && notice.request_id == request.id).await;
    } else {
        acknowledge(caller, vec![request.answer_message_id.clone()]).await;
    }
}

/// Acknowledges the notice that a member has exited.
pub(in crate::command) async fn acknowledge_exit(caller: &Caller, member: &v1::Member) {
    let is_shown = |notice: &v1::Notice| {
        notice.kind() == NoticeKind::MemberExited && notice.member == member.name && notice.exit == member.exit
    };
    acknowledge_notices(caller, is_shown).await;
}

async fn acknowledge_notices(caller: &Caller, is_shown: impl Fn(&v1::Notice) -> bool) {
    if caller.member.is_none() {
        return;
    }
    let request = v1::ListInboxRequest::default();
    let Ok(inbox) = caller.client.list_all_inbox(request, SEARCHED_MAX).await else { return };
    let messages = inbox.deliveries.into_iter().filter_map(|delivery| delivery.message);
    let shown = messages.filter(|message| matches!(&message.body, Some(Body::Notice(notice)) if is_shown(notice)));
    acknowledge(caller, shown.map(|message| message.id).collect()).await;
}
