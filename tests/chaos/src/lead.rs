//! What a lead does beside the members' work, until all is to be [quiet](worker::is_quiet).

use std::{path::PathBuf, time::Duration};

use teamwire_client::{Client, Error, Event, SubscribeOptions, v1};
use tokio::time::sleep;

use crate::{
    history::{Recorder, What},
    worker,
};

/// The member that it acts as.
pub const LEAD: &str = "lead";

/// Reads what the lead is sent, so that its inbox never fills up.
pub async fn read_all(lead: Client) {
    let mut inbox = lead.subscribe(SubscribeOptions::default());
    while let Some(Ok(event)) = inbox.next().await {
        if let Event::Delivery(delivery) = event {
            delivery.ack();
        }
    }
}

/// Puts a task on the board every so often.
pub async fn give_work(lead: Client, history: PathBuf, every: Duration) {
    while !worker::is_quiet(&history) {
        let task = v1::CreateTaskRequest { subject: "Break it".to_owned(), ..Default::default() };
        // One that could not be made is one less to be done.
        let _ = lead.create_task(task).await;
        sleep(every).await;
    }
}

/// Answers every plan in one way, while somebody else answers it in the other. It looks for them every so often.
pub async fn decide(lead: Client, recorder: Recorder, history: PathBuf, every: Duration, approve: bool) {
    let mut op = 0;
    while !worker::is_quiet(&history) {
        sleep(every).await;
        let pending = v1::ListRequestsRequest {
            kind: v1::RequestKind::PlanApproval.into(),
            state: v1::RequestState::Pending.into(),
            ..Default::default()
        };
        let Ok(pending) = lead.list_requests(pending).await else { continue };
        for request in pending.requests {
            op += 1;
            recorder.note(What::Deciding { op, request_id: request.id.clone(), approve });
            match lead.answer_plan(&request.member, &request.id, approve, "so").await {
                Ok(reply) => recorder.note(What::Decided { op, replayed: reply.replayed }),
                Err(Error::Refused(refusal)) => {
                    recorder.note(What::DecideRefused { op, reason: refusal.reason.to_string() });
                }
                Err(error) => recorder.note(What::Unknown { op, detail: error.to_string() }),
            }
        }
    }
}
