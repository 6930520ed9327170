//! Asking a member's runner: passes a call on through the member's session, and waits for the answer.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{
    Method, Refusal, Wait,
    name::Name,
    v1::{self, answer_query_request::Answer, runner_query::Question},
};
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
        records::RunnerQueriesRecord,
        runner_query,
    },
    store::Namespace,
};

/// How long a call waits for an entry of a transcript.
const WAIT: Wait = Method::ReadTranscript.wait().expect("a call that waits");

/// How long a runner may take to answer, besides waiting for an entry.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// How long it may take if it must run git first.
const GIT_DEADLINE: Duration = Duration::from_secs(60);

/// How often a waiting call reads without a notification, in case one was lost.
const POLL: Duration = Duration::from_secs(2);

/// A question in the store. Dropping it takes it out, if the call has not done so: its caller may be gone.
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
            let taken = coordinator.decide(&namespace, &[], |tx| runner_query::take(tx, &member, &id, true)).await;
            if let Err(error) = taken {
                tracing::debug!(%error, "a question to a runner stays in the store until the next one");
            }
        });
    }
}

impl Coordinator {
    /// See `TeamService.ReadTranscript`.
    pub async fn read_transcript(
        self: &Arc<Self>,
        who: &CallerCredentials,
        request: &v1::ReadTranscriptRequest,
    ) -> Result<v1::ReadTranscriptResponse, Refusal> {
        let patience = wait(WAIT, request.wait.as_ref())?;
        let asked = v1::ReadTranscriptRequest {
            team: String::new(),
            member: String::new(),
            page_size: u32::try_from(page_size(request.page_size)?).unwrap_or(u32::MAX),
            wait: (!patience.is_zero()).then(|| patience.try_into().ok()).flatten(),
            ..request.clone()
        };
        let question = Question::Transcript(asked);
        match self.ask_runner(who, &request.team, &request.member, question, patience + ANSWER_DEADLINE).await? {
            Some(Answer::Transcript(page)) => Ok(page),
            answer => Err(runner_query::refused(answer)),
        }
    }

    /// See `TeamService.ReadWork`.
    pub async fn read_work(
        self: &Arc<Self>,
        who: &CallerCredentials,
        request: &v1::ReadWorkRequest,
    ) -> Result<v1::ReadWorkResponse, Refusal> {
        let asked = v1::ReadWorkRequest { team: String::new(), member: String::new(), ..request.clone() };
        match self.ask_runner(who, &request.team, &request.member, Question::Work(asked), GIT_DEADLINE).await? {
            Some(Answer::Work(work)) => Ok(work),
            answer => Err(runner_query::refused(answer)),
        }
    }

    /// See `TeamService.SendBase`.
    pub async fn send_base(
        self: &Arc<Self>,
        who: &CallerCredentials,
        request: &v1::SendBaseRequest,
    ) -> Result<v1::SendBaseResponse, Refusal> {
        let asked = v1::SendBaseRequest { team: String::new(), member: String::new(), ..request.clone() };
        match self.ask_runner(who, &request.team, &request.member, Question::Base(asked), GIT_DEADLINE).await? {
            Some(Answer::Base(reply)) => Ok(reply),
            answer => Err(runner_query::refused(answer)),
        }
    }

    async fn ask_runner(
        self: &Arc<Self>,
        who: &CallerCredentials,
        team: &str,
        member: &str,
        question: Question,
        patience: Duration,
    ) -> Result<Option<Answer>, Refusal> {
        let deadline = Instant::now() + patience;
        let namespace = namespace_of(who, team)?;
        let subject = async || {
            self.rule(who, team, Touches::Team, |tx| runner_query::subject(tx, who, team, member, &question)).await
        };
        let name = subject().await?;
        let query = v1::RunnerQuery { query_id: Uuid::new_v4().to_string(), question: Some(question.clone()) };
        let mut watch = self.notifier.watch_activity(&namespace, &name);
        let keys = [team_key(), member_key::<RunnerQueriesRecord>(&name)];
        self.decide(&namespace, &keys, |tx| runner_query::ask(tx, &name, &query)).await?;
        let mut asked = Asked {
            coordinator: Arc::clone(self),
            namespace: namespace.clone(),
            member: name.clone(),
            id: query.query_id.clone(),
            is_taken: false,
        };
        loop {
            watch.mark_unchanged();
            let gives_up = Instant::now() >= deadline;
            let keys = [member_key::<RunnerQueriesRecord>(&name)];
            let taken =
                self.decide(&namespace, &keys, |tx| runner_query::take(tx, &name, &query.query_id, gives_up)).await?;
            asked.is_taken = gives_up || taken.value.is_some();
            match taken.value {
                Some(answer) => return Ok(answer.answer),
                None if gives_up => return Err(runner_query::no_answer(&name)),
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

    /// Returns the questions for the runner of a member in this life.
    pub async fn runner_queries(
        &self,
        namespace: &Namespace,
        member: &Name,
        incarnation: u64,
    ) -> Result<Vec<Arc<v1::RunnerQuery>>, Refusal> {
        let found = self.fetch::<RunnerQueriesRecord>(namespace, vec![member.folded().to_owned()]).await?;
        let waiting = found.into_iter().flatten().next();
        let queries = waiting.iter().flat_map(|record| &record.queries);
        let ids: Vec<String> =
            queries.filter(|query| query.incarnation == incarnation).map(|query| query.id.clone()).collect();
        Ok(self.fetch::<v1::RunnerQuery>(namespace, ids).await?.into_iter().flatten().collect())
    }
}
