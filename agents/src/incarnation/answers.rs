//! Answers those who ask for what only the runner has: the transcript, and the member's work.

use std::{path::Path, sync::Arc, time::Duration};

use teamwire_client::Client;
use teamwire_proto::{
    duration,
    v1::{self, answer_query_request::Answer, runner_query::Question},
};
use tokio::{task::spawn_blocking, time::timeout};

use super::{Incarnation, work::Tracker};
use crate::transcript::{Transcript, read};

impl Incarnation<'_> {
    /// Answers a question, in the background.
    pub(super) fn answer_query(&mut self, query: v1::RunnerQuery) {
        // Those that have ended.
        while self.answers.try_join_next().is_some() {}
        self.answers.spawn(answer(self.client.clone(), self.transcript.clone(), self.work.clone(), query));
    }
}

async fn answer(
    client: Client,
    transcript: Option<Arc<Transcript>>,
    work: Option<Arc<Tracker>>,
    query: v1::RunnerQuery,
) {
    let answer = match (query.question, transcript, work) {
        (Some(Question::Transcript(request)), Some(transcript), _) => {
            page(&transcript, request).await.map(Answer::Transcript)
        }
        (Some(Question::Transcript(_)), None, _) => Err(
            "The runner keeps no transcript: its program is no agent program, or the runner has no state directory."
                .to_owned(),
        ),
        (Some(Question::Work(request)), _, Some(work)) => work.answer(&request).await.map(Answer::Work),
        (Some(Question::Base(request)), _, Some(work)) => work.take_base(&request).await.map(Answer::Base),
        (Some(Question::Work(_) | Question::Base(_)), _, None) => {
            Err("The member does not work in a git repository.".to_owned())
        }
        (None, ..) => Err("The runner does not know this question: it is of an earlier version.".to_owned()),
    };
    let answer = Some(answer.unwrap_or_else(Answer::Refusal));
    let answer = v1::AnswerQueryRequest { query_id: query.query_id, answer };
    if let Err(error) = client.answer_query(answer).await {
        tracing::debug!(%error, "a question was not answered");
    }
}

/// Reads a page. If it is empty and the request says so, waits for an entry.
async fn page(
    transcript: &Transcript,
    request: v1::ReadTranscriptRequest,
) -> Result<v1::ReadTranscriptResponse, String> {
    let mut newest = transcript.newest();
    let patience = request.wait.and_then(duration::from_proto).unwrap_or(Duration::ZERO);
    let waiting = async {
        loop {
            newest.mark_unchanged();
            let page = read_file(transcript.directory(), &request).await?;
            if !page.entries.is_empty() || newest.changed().await.is_err() {
                return Ok(page);
            }
        }
    };
    match timeout(patience, waiting).await {
        Ok(page) => page,
        Err(_) => read_file(transcript.directory(), &request).await,
    }
}

async fn read_file(
    directory: &Path,
    request: &v1::ReadTranscriptRequest,
) -> Result<v1::ReadTranscriptResponse, String> {
    let (directory, request) = (directory.to_owned(), request.clone());
    let done = spawn_blocking(move || read(&directory, &request)).await;
    done.map_err(|error| error.to_string())?.map_err(|error| format!("The runner cannot read the transcript: {error}."))
}
