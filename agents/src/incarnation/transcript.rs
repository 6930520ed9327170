//! Records what happens in the transcript, and answers those who read it.

use std::{path::Path, sync::Arc, time::Duration};

use teamwire_client::Client;
use teamwire_proto::{
    duration,
    v1::{self, TranscriptKind},
};
use tokio::{task::spawn_blocking, time::timeout};

use super::Incarnation;
use crate::{
    config::{Mode, RunnerConfig},
    event::RunnerEvent,
    transcript::{Entry, Transcript, directory, prune, read},
};

/// Opens the transcript of a member that has joined. `None` if none is kept.
pub(super) fn open(config: &RunnerConfig, joined: &v1::JoinResponse) -> Option<Arc<Transcript>> {
    let root = config.agent.transcripts.as_ref().filter(|_| matches!(config.mode, Mode::Agent(_)))?;
    let (team, member) = (joined.team.as_ref()?, joined.member.as_ref()?);
    prune(root);
    Some(Arc::new(Transcript::open(directory(root, &team.id, &member.name)?)))
}

impl Incarnation<'_> {
    /// Adds an entry to the transcript.
    pub(crate) fn record(&self, entry: Entry) {
        let Some(transcript) = &self.transcript else { return };
        let incarnation = self.joined.member.as_ref().map_or(0, |member| member.incarnation);
        let turn = if entry.kind == TranscriptKind::TurnEnded { self.turns } else { self.turns + 1 };
        transcript.add(Entry { incarnation, turn, ..entry });
    }

    /// Adds what the runner did to the transcript, if a reader needs it to understand the rest.
    pub(super) fn record_event(&self, event: &RunnerEvent) {
        use RunnerEvent::{
            AgentWarning, Ending, Exited, HandedOver, Interrupted, Paused, PermissionAsked, PermissionRefused,
            ProgramVersion, PromptFailed, Resumed, Started, TakenBack,
        };
        let is_kept = matches!(
            event,
            AgentWarning { .. }
                | Ending { .. }
                | Exited { .. }
                | HandedOver { .. }
                | Interrupted
                | Paused { .. }
                | Resumed
                | PermissionAsked { .. }
                | PermissionRefused { .. }
                | PromptFailed { .. }
                | ProgramVersion { .. }
                | Started { .. }
                | TakenBack { .. }
        );
        if is_kept {
            self.record(Entry { kind: TranscriptKind::Runner, text: event.to_string(), ..Entry::default() });
        }
    }

    /// Answers a query of the transcript, in the background.
    pub(super) fn answer_query(&mut self, query: v1::TranscriptQuery) {
        // Those that have ended.
        while self.answers.try_join_next().is_some() {}
        self.answers.spawn(answer(self.client.clone(), self.transcript.clone(), query));
    }
}

async fn answer(client: Client, transcript: Option<Arc<Transcript>>, query: v1::TranscriptQuery) {
    let request = query.request.unwrap_or_default();
    let page = match transcript {
        Some(transcript) => page(&transcript, request).await,
        None => Err(
            "The runner keeps no transcript: its program is no agent program, or the runner has no state directory."
                .to_owned(),
        ),
    };
    let (page, refusal) = match page {
        Ok(page) => (Some(page), String::new()),
        Err(refusal) => (None, refusal),
    };
    let answer = v1::AnswerTranscriptQueryRequest { query_id: query.query_id, page, refusal };
    if let Err(error) = client.answer_transcript_query(answer).await {
        tracing::debug!(%error, "a query of the transcript was not answered");
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
