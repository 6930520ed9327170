//! The mode in which one program reads messages as lines.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::Value;
use teamwire_proto::v1::message::Body;
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStdin, ChildStdout},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    adapters::lines::{Lines, Piece},
    process::Process,
    runner::{
        AckPolicy,
        exit::{End, Why},
        in_flight::InFlight,
        incarnation::{Incarnation, Next, line},
        responder::Responder,
        task_claimer,
    },
};
use teamwire_client::{Delivery, SubscribeOptions, Subscription};

/// How long the program's last lines may take when its shutdown is approved already.
const LAST_LINES_DEADLINE: Duration = Duration::from_secs(5);

/// A line for the program.
struct Written {
    text: String,
    /// The message that it carries. Empty: none.
    message_id: String,
}

impl From<Value> for Written {
    fn from(value: Value) -> Self {
        Self { text: format!("{value}\n"), message_id: String::new() }
    }
}

/// Runs the program through one life.
pub(crate) async fn run(life: &Incarnation<'_>, ack: AckPolicy) -> End {
    let mut subscription = life.client.subscribe(SubscribeOptions::default());
    let in_flight = life.in_flight(&subscription);
    let mut process = match life.start().await {
        Ok(process) => process,
        Err(exit) => return End { why: Why::Exited, exit: Some(exit), is_outcome_unknown: false },
    };
    // One line at a time: what is not written yet can still be overtaken by a shutdown request.
    let (lines, unwritten) = mpsc::channel(1);
    let _writing = process.take_stdin().map(|stdin| {
        AbortOnDropHandle::new(tokio::spawn(write(stdin, life.welcome().into(), unwritten, in_flight.clone(), ack)))
    });
    let listening = process
        .take_stdout()
        .map(|stdout| AbortOnDropHandle::new(tokio::spawn(listen(stdout, life.responder(&in_flight), lines.clone()))));
    let why = talk(life, &mut process, &mut subscription, &in_flight, lines).await;
    let exit = life.end(&mut process, &why).await;
    // What the program has said last is on its way to the coordinator: its approval perhaps.
    let patience = match why {
        Why::Exited | Why::Stopped => life.config.report_patience,
        Why::Approved => LAST_LINES_DEADLINE,
        Why::Closed(_) | Why::Refused(_) => Duration::ZERO,
    };
    let heard = async {
        match listening {
            Some(listening) => timeout(patience, listening).await.is_ok(),
            None => true,
        }
    };
    let is_heard = tokio::select! {
        is_heard = heard => is_heard,
        () = life.hurry.cancelled() => false,
    };
    let why = life.settle(why, &subscription, &in_flight).await;
    End { why, exit: Some(exit), is_outcome_unknown: !is_heard }
}

/// Hands messages over until there is a reason to end.
async fn talk(
    life: &Incarnation<'_>,
    process: &mut Process,
    subscription: &mut Subscription,
    in_flight: &Arc<InFlight>,
    lines: mpsc::Sender<Written>,
) -> Why {
    // As many as may be unacknowledged in a session: 64.
    let mut waiting: VecDeque<Box<Delivery>> = VecDeque::new();
    let mut answers = JoinSet::new();
    let mut tasks = life.taker(in_flight);
    let mut taken: VecDeque<String> = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            () = life.stop.cancelled() => return Why::Stopped,
            event = subscription.next() => match life.decide(event, in_flight, &mut answers) {
                Next::Hand(delivery) if is_urgent(&delivery) => {
                    let place = waiting.iter().position(|other| !is_urgent(other)).unwrap_or(waiting.len());
                    waiting.insert(place, delivery);
                }
                Next::Hand(delivery) => waiting.push_back(delivery),
                Next::Wait => {}
                Next::End(why) => return why,
            },
            _ = process.wait() => return Why::Exited,
            Some(_) = answers.join_next() => {}
            claim = tasks.next() => taken.push_back(task_claimer::line(&claim)),
            // Fails when the program has closed its input. The messages stay unacknowledged then.
            Ok(permit) = lines.reserve(), if !waiting.is_empty() || !taken.is_empty() => {
                if let Some(delivery) = waiting.pop_front() {
                    in_flight.hand(&delivery.message);
                    life.tell_handed(&delivery);
                    permit.send(Written { text: line(&delivery), message_id: delivery.message.id.clone() });
                } else if let Some(text) = taken.pop_front() {
                    permit.send(Written { text, message_id: String::new() });
                }
            }
        }
    }
}

fn is_urgent(delivery: &Delivery) -> bool {
    matches!(delivery.message.body, Some(Body::ShutdownRequest(_)))
}

/// Writes lines into the program's input until it takes no more.
async fn write(
    mut stdin: ChildStdin,
    welcome: Written,
    mut lines: mpsc::Receiver<Written>,
    in_flight: Arc<InFlight>,
    ack: AckPolicy,
) {
    let mut next = Some(welcome);
    while let Some(line) = next {
        if let Err(error) = stdin.write_all(line.text.as_bytes()).await {
            tracing::debug!(%error, "the program reads no more");
            return;
        }
        if ack == AckPolicy::Written && !line.message_id.is_empty() {
            in_flight.ack(&line.message_id);
        }
        next = lines.recv().await;
    }
}

/// Carries out what the program says, line by line, so that its messages arrive in its order.
///
/// While the coordinator cannot be reached, or while the program does not read what it is told, the program's output is
/// not read on.
async fn listen(stdout: ChildStdout, responder: Responder, lines: mpsc::Sender<Written>) {
    let mut said = Lines::new(stdout);
    loop {
        match said.next().await {
            Ok(Some(Piece::Line(line))) => {
                if let Some(told) = responder.say(&line).await {
                    // Fails when the program has closed its input; then it does not want to know.
                    let _ = lines.send(told.into()).await;
                }
            }
            Ok(Some(Piece::Part(part))) => responder.pass(&part).await,
            Ok(None) => return,
            Err(error) => return tracing::debug!(%error, "the program's output cannot be read"),
        }
    }
}
