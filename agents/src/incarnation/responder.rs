//! Makes the calls that a program asks for, one at a time and in the program's order.

use std::{
    future::pending,
    path::{Path, PathBuf},
};

use serde_json::Value;
use teamwire_client::{Client, Error};
use teamwire_proto::v1;

use super::background::{Background, finished, start};
use crate::{pending_replies::Answerable, work::to_review};

/// What a program asked for.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// To send a message.
    Send(Box<v1::SendRequest>),
    /// To complete a task with a result.
    Complete(u64, String),
    /// To give a task back for a reason.
    Release(u64, String),
}

/// An action that has been carried out, or has failed.
#[derive(Debug)]
pub(crate) struct Done {
    /// The action.
    pub(crate) action: Action,
    /// The outcome. The response is empty unless the action was to send.
    pub(crate) result: Result<v1::SendResponse, Error>,
    /// The message that, according to the runner, the sent one answers. `None` if it answers none, or names the message
    /// itself.
    pub(crate) in_reply_to: Option<String>,
    /// What the program wrote.
    pub(crate) written: Value,
}

/// Makes calls for a program, with its member's credential.
#[derive(Debug)]
pub(crate) struct Responder {
    client: Client,
    /// Where the program works.
    directory: PathBuf,
    call: Option<Background<Done>>,
}

impl Responder {
    /// Creates a responder that calls with `client` for a program that works in `directory`.
    pub(crate) fn new(client: Client, directory: PathBuf) -> Self {
        Self { client, directory, call: None }
    }

    /// Returns whether a call is under way. While one is, start no other.
    pub(crate) fn is_busy(&self) -> bool {
        self.call.is_some()
    }

    /// Starts an action. `claim_token`: that of the task, if the runner claimed it. `answerable`: what a message
    /// answers that is sent. `written`: what the program wrote.
    pub(crate) fn start(
        &mut self,
        action: Action,
        claim_token: Option<String>,
        answerable: Answerable,
        written: Value,
    ) {
        let (client, directory) = (self.client.clone(), self.directory.clone());
        self.call = Some(start(async move {
            let in_reply_to = answerable.resolve(&client).await;
            let mut call = action.clone();
            if let (Action::Send(request), Some(id)) = (&mut call, &in_reply_to) {
                request.in_reply_to.clone_from(id);
            }
            let result = carry_out(&client, call, claim_token, &directory).await;
            Done { action, result, in_reply_to, written }
        }));
    }

    /// Waits for the call that is under way, and forever if there is none. Cancel-safe.
    pub(crate) async fn done(&mut self) -> Done {
        let Some(call) = &mut self.call else { return pending().await };
        let done = finished(call).await;
        self.call = None;
        done
    }
}

async fn carry_out(
    client: &Client,
    action: Action,
    claim_token: Option<String>,
    directory: &Path,
) -> Result<v1::SendResponse, Error> {
    match action {
        Action::Send(request) => return client.send(*request).await,
        Action::Complete(task_id, result) => {
            let known = client.get_task(v1::GetTaskRequest { task_id, ..Default::default() }).await?;
            let work = to_review(known.task.as_ref(), directory).await;
            let claim_token = claim_token.unwrap_or(known.claim_token);
            let request = v1::CompleteTaskRequest { task_id, claim_token, result, work, ..Default::default() };
            client.complete_task(request).await?;
        }
        Action::Release(task_id, reason) => {
            let claim_token = token(client, task_id, claim_token).await?;
            let request = v1::ReleaseTaskRequest { task_id, claim_token, reason, ..Default::default() };
            client.release_task(request).await?;
        }
    }
    Ok(v1::SendResponse::default())
}

/// Returns the token of a claim. Looks it up if the program claimed the task itself.
async fn token(client: &Client, task_id: u64, claim_token: Option<String>) -> Result<String, Error> {
    match claim_token {
        Some(token) => Ok(token),
        None => Ok(client.get_task(v1::GetTaskRequest { task_id, ..Default::default() }).await?.claim_token),
    }
}
