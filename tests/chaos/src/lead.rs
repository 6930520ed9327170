//! What the lead does beside the members' work, until the run goes [quiet](member::is_quiet).

use std::{path::PathBuf, time::Duration};

use teamwire_client::{Client, Error, Event, SubscribeOptions, v1};
use tokio::time::sleep;

use crate::{
    history::{Recorder, What},
    member,
};

/// The lead's name.
pub const LEAD: &str = "lead";

/// Acknowledges everything the lead receives, so that its inbox never fills up.
pub async fn read_all(lead: Client) {
    let mut inbox = lead.subscribe(SubscribeOptions::default());
    while let Some(Ok(event)) = inbox.next().await {
        if let Event::Delivery(delivery) = event {
            delivery.ack();
        }
    }
}

/// Adds a task at every interval.
pub async fn give_work(lead: Client, history: PathBuf, every: Duration) {
    while !member::is_quiet(&history) {
        let task = v1::CreateTaskRequest { subject: "Break it".to_owned(), ..Default::default() };
        // A task that cannot be created is one task less.
        let _ = lead.create_task(task).await;
        sleep(every).await;
    }
}

/// Answers every pending plan and permission request the same way at every interval, while another process answers it
/// the opposite way. Leaves some requests to expire.
pub async fn decide(lead: Client, recorder: Recorder, history: PathBuf, every: Duration, approve: bool) {
    let mut op = 0;
    while !member::is_quiet(&history) {
        sleep(every).await;
        let pending = v1::ListRequestsRequest { state: v1::RequestState::Pending.into(), ..Default::default() };
        let Ok(pending) = lead.list_all_requests(pending, usize::MAX).await else { continue };
        for request in pending.requests {
            let is_plan = match request.kind() {
                v1::RequestKind::PlanApproval => true,
                v1::RequestKind::Permission if request.tool != member::IGNORED => false,
                _ => continue,
            };
            op += 1;
            recorder.note(What::Deciding { op, request_id: request.id.clone(), approve });
            let answered = match is_plan {
                true => lead.answer_plan(&request.member, &request.id, approve, "so").await,
                false => lead.answer_permission(&request.id, approve, "so").await,
            };
            match answered {
                Ok(reply) => recorder.note(What::Decided { op, replayed: reply.replayed }),
                Err(Error::Refused(refusal)) => {
                    recorder.note(What::DecideRefused { op, reason: refusal.reason.to_string() });
                }
                Err(error) => recorder.note(What::Unknown { op, detail: error.to_string() }),
            }
        }
    }
}
