//! Asks the team for what the program wants leave for, and brings the answers back.

use std::{collections::HashMap, future::pending, time::Duration};

use teamwire_client::{Client, Error, message};
use teamwire_proto::v1::{self, RequestState};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use super::protocol::Decision;
use crate::incarnation::Incarnation;

/// How long one wait for a decision lasts. The request's own deadline ends it earlier.
const WAIT: Duration = Duration::from_secs(3_600);

/// How many answers wait for the loop. A call that has one more waits for it.
const ANSWERS_MAX: usize = 32;

/// What became of a wish.
#[derive(Debug)]
pub(super) enum Answered {
    /// The request with this id was made for it. Empty: none could be made.
    Asked(String),
    /// It was decided.
    Decided(String, Decision),
}

/// The wishes of a program that are not decided yet.
#[derive(Debug)]
pub(super) struct Wishes {
    asking: JoinSet<()>,
    by_key: HashMap<String, AbortHandle>,
    sender: mpsc::Sender<Answered>,
    answers: mpsc::Receiver<Answered>,
}

impl Default for Wishes {
    fn default() -> Self {
        let (sender, answers) = mpsc::channel(ANSWERS_MAX);
        Self { asking: JoinSet::new(), by_key: HashMap::new(), sender, answers }
    }
}

impl Wishes {
    /// Submits a plan to the team's lead.
    pub(super) fn ask_for_plan(&mut self, key: String, plan: String, incarnation: &mut Incarnation<'_>) {
        let summary = plan.lines().map(|line| line.trim_matches(['#', ' '])).find(|line| !line.is_empty());
        let summary = summary.unwrap_or("A plan").chars().take(SUMMARY_CHARS_MAX).collect::<String>();
        self.ask(key, message::plan_approval_request(plan, summary), incarnation);
    }

    /// Stops waiting for a decision.
    pub(super) fn withdraw(&mut self, key: &str) {
        if let Some(asking) = self.by_key.remove(key) {
            asking.abort();
        }
    }

    /// Waits for the next answer. Cancel-safe.
    pub(super) async fn next(&mut self) -> Answered {
        while self.asking.try_join_next().is_some() {}
        let Some(answered) = self.answers.recv().await else { return pending().await };
        if let Answered::Decided(key, _) = &answered {
            self.by_key.remove(key);
        }
        answered
    }

    fn ask(&mut self, key: String, request: v1::SendRequest, incarnation: &mut Incarnation<'_>) {
        incarnation.begin_own_request();
        let (client, sender) = (incarnation.client(), self.sender.clone());
        let answer_to = key.clone();
        let asking = self.asking.spawn(async move {
            let asked = client.send(request).await;
            let request_id = asked.as_ref().map(|asked| asked.request_id.clone()).unwrap_or_default();
            let _ = sender.send(Answered::Asked(request_id.clone())).await;
            let decision = match asked {
                Ok(_) => decision(&client, &request_id).await,
                Err(error) => Decision::Deny(failure(&error)),
            };
            let _ = sender.send(Answered::Decided(answer_to, decision)).await;
        });
        self.by_key.insert(key, asking);
    }
}

/// The most characters of a plan's summary.
const SUMMARY_CHARS_MAX: usize = 100;

/// Waits until a request is decided.
async fn decision(client: &Client, request_id: &str) -> Decision {
    loop {
        let request = match client.wait_decision(request_id, WAIT).await {
            Ok(request) => request,
            Err(error) => return Decision::Deny(failure(&error)),
        };
        let by = request.decided_by.as_ref().map_or("the lead", |by| by.name.as_str());
        return match request.state() {
            RequestState::Pending => continue,
            RequestState::Approved => Decision::Allow,
            RequestState::Rejected if request.reason.is_empty() => Decision::Deny(format!("{by} said no.")),
            RequestState::Rejected => Decision::Deny(format!("{by} said no: {}", request.reason)),
            RequestState::Expired => Decision::Deny("No one answered in time, so this counts as a no.".to_owned()),
            RequestState::Cancelled | RequestState::Unspecified => {
                Decision::Deny("The request was cancelled, so this counts as a no.".to_owned())
            }
        };
    }
}

fn failure(error: &Error) -> String {
    format!("The team could not be asked, so this counts as a no. {error}")
}
