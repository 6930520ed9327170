//! Handles what the coordinator sends.

use teamwire_client::{Closed, Delivery, Error, Event};
use teamwire_proto::{
    Reason,
    v1::{self, NoticeKind, message::Body},
};
use tokio::time::Instant;

use super::{Incarnation, IncarnationEvent, task_claimer::Found};
use crate::{config::OnShutdown, event::RunnerEvent, exit::Why};

/// A shutdown request that the runner has tried to approve.
pub(super) struct Approval {
    delivery: Box<Delivery>,
    result: Result<v1::SendResponse, Error>,
}

impl Incarnation<'_> {
    /// Handles an event of the subscription.
    pub(super) fn take_in(&mut self, event: Option<Result<Event, Error>>) -> Option<IncarnationEvent> {
        match event {
            Some(Ok(Event::Delivery(delivery))) => self.take_in_message(delivery),
            Some(Ok(Event::Query(query))) => {
                self.answer_query(*query);
                None
            }
            Some(Ok(Event::Opened(opened))) => {
                let away = self.lost_at.take().map(|at| at.elapsed());
                self.tell(RunnerEvent::Connected { backlog: opened.backlog, away });
                None
            }
            Some(Ok(Event::Lost { detail })) => {
                self.lost_at.get_or_insert_with(Instant::now);
                self.tell(RunnerEvent::Disconnected { detail });
                None
            }
            Some(Ok(Event::ShutdownApproved { request_id })) if request_id.is_empty() => {
                Some(IncarnationEvent::End(Why::Left))
            }
            Some(Ok(Event::ShutdownApproved { request_id })) => {
                self.in_flight.answered(&request_id);
                Some(IncarnationEvent::End(Why::Approved))
            }
            Some(Ok(Event::Closed(closed))) => Some(IncarnationEvent::End(Why::Closed(closed))),
            Some(Err(error)) => Some(IncarnationEvent::End(Why::Refused(error))),
            None => Some(IncarnationEvent::End(Why::Closed(Closed::Dropped))),
            // A kind of event that a later client adds.
            Some(Ok(_)) => None,
        }
    }

    fn take_in_message(&mut self, delivery: Box<Delivery>) -> Option<IncarnationEvent> {
        let delivery = self.take_own_answer(delivery)?;
        self.merge_approved(&delivery.message);
        if assigned_task(&delivery).is_some_and(|id| self.in_flight.task_token(id).is_some()) {
            // The program has the task itself.
            delivery.ack();
            return None;
        }
        if delivery.message.interrupt {
            let place = self.waiting.iter().position(|other| !goes_first(other)).unwrap_or(self.waiting.len());
            self.waiting.insert(place, delivery);
            return Some(IncarnationEvent::Changed);
        }
        if !is_urgent(&delivery) {
            self.waiting.push_back(delivery);
            return Some(IncarnationEvent::Changed);
        }
        let request_id = delivery.message.request_id.clone();
        self.tell(RunnerEvent::ShutdownRequested { request_id: request_id.clone() });
        self.in_flight.note_shutdown_request(&request_id);
        // Without an explicit policy, a runner that starts a program for each batch approves between batches.
        let is_queued = self.config.shutdown_answer() == OnShutdown::Ask || self.config.approves_between_batches();
        if !is_queued {
            self.approve_shutdown(delivery);
            return None;
        }
        let place = self.waiting.iter().position(|other| !is_urgent(other)).unwrap_or(self.waiting.len());
        self.waiting.insert(place, delivery);
        Some(IncarnationEvent::Changed)
    }

    /// Returns whether the runner is approving a shutdown, or has approved it and waits for the end of the session.
    pub(crate) fn is_approving(&self) -> bool {
        self.has_approved || !self.approvals.is_empty()
    }

    /// Starts to approve a shutdown request for the program.
    pub(crate) fn approve_shutdown(&mut self, delivery: Box<Delivery>) {
        let client = self.client.clone();
        self.approvals.spawn(async move {
            let result = client.approve_shutdown(&delivery.message.request_id).await;
            Approval { delivery, result }
        });
    }

    pub(super) fn take_in_task(&mut self, found: Found) -> Option<IncarnationEvent> {
        match found {
            Found::Task(claim) => {
                let task_id = claim.task.as_ref().map_or(0, |task| task.id);
                self.in_flight.take_task(task_id, &claim.token);
                self.waiting.retain(|waiting| {
                    let is_repeated = assigned_task(waiting) == Some(task_id);
                    if is_repeated {
                        waiting.ack();
                    }
                    !is_repeated
                });
                self.tell(RunnerEvent::TaskTaken { task_id });
                self.claims.push_back(*claim);
            }
            Found::NoTask(error) => self.tell(RunnerEvent::NoTask { detail: error.to_string() }),
            Found::Closed(task_id) => self.in_flight.drop_task(task_id),
            Found::Lost(task_id) => {
                self.tell(RunnerEvent::TaskGone { task_id });
                self.in_flight.drop_task(task_id);
            }
        }
        Some(IncarnationEvent::Changed)
    }

    /// Acknowledges a shutdown request that the runner has approved, or that can no longer be answered.
    pub(super) fn conclude_approval(&mut self, approval: &Approval) {
        let Err(error) = &approval.result else {
            self.has_approved = true;
            return approval.delivery.ack();
        };
        let too_late =
            [Reason::RequestExpired, Reason::RequestCancelled, Reason::AlreadyDecided, Reason::RequestNotFound];
        if error.reason().is_some_and(|reason| too_late.contains(&reason)) {
            approval.delivery.ack();
        }
        self.tell(RunnerEvent::NotSent { detail: error.to_string() });
    }
}

/// Returns the task that a notice assigns to the member. `None` if the message is no such notice.
fn assigned_task(delivery: &Delivery) -> Option<u64> {
    match &delivery.message.body {
        Some(Body::Notice(notice)) if notice.kind() == NoticeKind::TaskAssignment => {
            notice.task.as_ref().map(|task| task.id)
        }
        _ => None,
    }
}

/// Returns whether a message goes ahead of the others: a request to shut down, or one that ends the turn.
pub(crate) fn goes_first(delivery: &Delivery) -> bool {
    is_urgent(delivery) || delivery.message.interrupt
}

/// Returns whether a message asks the member to shut down.
pub(crate) fn is_urgent(delivery: &Delivery) -> bool {
    matches!(delivery.message.body, Some(Body::ShutdownRequest(_)))
}
