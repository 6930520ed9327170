//! Reading a transcript: asks the member's runner through its session, and waits for the answer.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{Method, Refusal, Wait, name::Name, v1};
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use super::{
    Coordinator,
    decide::Touches,
    keys::{member_key, team_key},
};
use crate::{
    domain::{
        fields::wait,
        identity::{CallerCredentials, namespace_of},
        page::page_size,
        records::{TranscriptQueriesRecord, TranscriptQuery},
        time::ms,
        transcript,
    },
    store::Namespace,
};

/// How long a call waits for an entry.
const WAIT: Wait = Method::ReadTranscript.wait().expect("a call that waits");

/// How long a runner may take to answer, besides waiting for an entry.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// A query in the store. Dropping it takes it out, if the call has not done so: its caller may be gone.
struct Asked {
    coordinator: Arc<Coordinator>,
    namespace: Namespace,
    member: Name,
    id: String,
    is_taken: bool,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let (coordinator, namespace) = (Arc::clone(&self.coordinator), self.namespace.clone());
        let (member, id) = (self.member.clone(), self.id.clone());
        tokio::spawn(async move {
            let taken = coordinator.decide(&namespace, &[], |tx| transcript::take(tx, &member, &id, true)).await;
            if let Err(error) = taken {
                tracing::debug!(%error, "a query of a transcript stays in the store until the next one");
            }
        });
    }
}

/// How often a waiting call reads without a notification, in case one was lost.
const POLL: Duration = Duration::from_secs(2);

impl Coordinator {
    /// See `TeamService.ReadTranscript`.
    pub async fn read_transcript(
        self: &Arc<Self>,
        who: &CallerCredentials,
        request: &v1::ReadTranscriptRequest,
    ) -> Result<v1::ReadTranscriptResponse, Refusal> {
        let patience = wait(WAIT, request.wait.as_ref())?;
        let query = TranscriptQuery {
            id: Uuid::new_v4().to_string(),
            after: request.after_sequence,
            before: request.before_sequence,
            page_size: u32::try_from(page_size(request.page_size)?).unwrap_or(u32::MAX),
            turn: request.turn,
            of_incarnation: request.incarnation,
            wait_ms: ms(patience),
            ..TranscriptQuery::default()
        };
        let deadline = Instant::now() + patience + ANSWER_DEADLINE;
        let namespace = namespace_of(who, &request.team)?;
        let subject =
            async || self.rule(who, &request.team, Touches::Team, |tx| transcript::subject(tx, who, request)).await;
        let member = subject().await?;
        let mut watch = self.notifier.watch_activity(&namespace, &member);
        let keys = [team_key(), member_key::<TranscriptQueriesRecord>(&member)];
        self.decide(&namespace, &keys, |tx| transcript::ask(tx, &member, &query)).await?;
        let mut asked = Asked {
            coordinator: Arc::clone(self),
            namespace: namespace.clone(),
            member: member.clone(),
            id: query.id.clone(),
            is_taken: false,
        };
        loop {
            watch.mark_unchanged();
            let gives_up = Instant::now() >= deadline;
            let keys = [member_key::<TranscriptQueriesRecord>(&member)];
            let taken = self.decide(&namespace, &keys, |tx| transcript::take(tx, &member, &query.id, gives_up)).await?;
            asked.is_taken = gives_up || taken.value.is_some();
            match taken.value {
                Some(answer) => return transcript::page(answer),
                None if gives_up => return Err(transcript::no_answer(&member)),
                None => {}
            }
            tokio::select! {
                _ = watch.changed() => {}
                () = sleep(POLL) => {}
                () = sleep_until(deadline) => {}
            }
            // The caller's credential may have ended while it waited, or the member.
            subject().await?;
        }
    }

    /// Returns the calls that wait for the runner of a member.
    pub async fn transcript_queries(
        &self,
        namespace: &Namespace,
        member: &Name,
    ) -> Result<Option<Arc<TranscriptQueriesRecord>>, Refusal> {
        let found = self.fetch(namespace, vec![member.folded().to_owned()]).await?;
        Ok(found.into_iter().next().flatten())
    }
}
