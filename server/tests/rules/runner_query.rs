//! Asking a runner: who may, how it is asked, and that nothing stays in the store.

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, answer_query_request::Answer, runner_query::Question},
};
use teamwire_server::{coordinator::Coordinator, domain::identity::CallerCredentials};

use crate::{calls::RuleCalls as _, team::*};

fn request(page_size: u32) -> v1::ReadTranscriptRequest {
    v1::ReadTranscriptRequest {
        team: "alpha".to_owned(),
        member: "ann".to_owned(),
        after_sequence: 7,
        page_size,
        wait: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
        ..Default::default()
    }
}

fn page() -> v1::ReadTranscriptResponse {
    let entry = v1::TranscriptEntry { sequence: 8, text: "make test".to_owned(), ..Default::default() };
    v1::ReadTranscriptResponse { entries: vec![entry], oldest_sequence: 1, newest_sequence: 8 }
}

fn answer(query_id: &str) -> v1::AnswerQueryRequest {
    v1::AnswerQueryRequest { query_id: query_id.to_owned(), answer: Some(Answer::Transcript(page())) }
}

async fn queries(coordinator: &Coordinator, t: &Team) -> Vec<Arc<v1::RunnerQuery>> {
    let ann = Name::parse("ann", "member").unwrap();
    coordinator.runner_queries(&t.namespace, &ann, 1).await.unwrap()
}

fn transcript_of(query: &v1::RunnerQuery) -> v1::ReadTranscriptRequest {
    match &query.question {
        Some(Question::Transcript(request)) => request.clone(),
        other => panic!("{other:?}"),
    }
}

/// Lets the calls run until so many ask the runner.
async fn asked(t: &Team, number: usize) -> Vec<Arc<v1::RunnerQuery>> {
    loop {
        let found = queries(&t.coordinator, t).await;
        if found.len() == number {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

type Reading = tokio::task::JoinHandle<Result<v1::ReadTranscriptResponse, Refusal>>;

fn read(coordinator: &Arc<Coordinator>, who: &impl Calls, request: v1::ReadTranscriptRequest) -> Reading {
    let (coordinator, who) = (Arc::clone(coordinator), who.who().clone());
    tokio::spawn(async move { coordinator.read_transcript(&who, &request).await })
}

#[tokio::test(start_paused = true)]
async fn the_runner_answers_the_lead_the_operator_and_the_member_and_nothing_stays_in_the_store() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let another = t.another_coordinator().await;
    for who in [&t.lead.who, &t.operator, &ann.who] {
        let reading = read(&t.coordinator, who, request(3));
        let query = asked(&t, 1).await.remove(0);
        let asks = transcript_of(&query);
        assert_eq!((asks.after_sequence, asks.page_size, asks.wait.unwrap().seconds), (7, 3, 5));
        // A teammate cannot answer for the member. The runner may be connected to another coordinator.
        t.coordinator.answer_query(&bob.who, &answer(&query.query_id)).await.unwrap();
        another.answer_query(&ann.who, &answer(&query.query_id)).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), page());
        assert!(queries(&t.coordinator, &t).await.is_empty());
        let late = t.coordinator.answer_query(&ann.who, &answer(&query.query_id)).await;
        assert_eq!(late, Ok(()), "no one waits any longer");
    }
    let refused = |who: &CallerCredentials| read(&t.coordinator, who, request(3));
    assert_eq!(refused(&bob.who).await.unwrap().unwrap_err().reason, Reason::LeadOnly);
    let ask = v1::CreateObserverRequest { team: "alpha".to_owned(), ..Default::default() };
    let observer = presented(&t.coordinator.create_observer(&t.lead.who, &ask).await.unwrap().credential);
    assert_eq!(refused(&observer).await.unwrap().unwrap_err().reason, Reason::NotPermitted);
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_does_not_answer_or_keeps_none_is_said_to() {
    let (t, [ann]) = Team::of(["ann"]).await;
    let silent = read(&t.coordinator, &t.lead, request(3));
    let error = silent.await.unwrap().unwrap_err();
    assert_eq!((error.reason, queries(&t.coordinator, &t).await.len()), (Reason::RunnerSilent, 0));
    let refusing = read(&t.coordinator, &t.lead, request(3));
    let query = asked(&t, 1).await.remove(0);
    let refusal =
        v1::AnswerQueryRequest { answer: Some(Answer::Refusal("no files".to_owned())), ..answer(&query.query_id) };
    t.coordinator.answer_query(&ann.who, &refusal).await.unwrap();
    let error = refusing.await.unwrap().unwrap_err();
    assert_eq!((error.reason, error.message.as_str()), (Reason::RunnerSilent, "no files"));
    t.leave(&ann).await;
    let error = read(&t.coordinator, &t.lead, request(3)).await.unwrap().unwrap_err();
    assert_eq!(error.reason, Reason::AgentExited);
}

#[tokio::test]
async fn at_most_eight_calls_read_at_a_time_and_a_page_is_bounded() {
    let (t, [ann]) = Team::of(["ann"]).await;
    let readings: Vec<_> = (1..=8).map(|size| read(&t.coordinator, &t.lead, request(size))).collect();
    let waiting = asked(&t, 8).await;
    let ninth = read(&t.coordinator, &t.lead, request(9)).await.unwrap().unwrap_err();
    assert_eq!(ninth.reason, Reason::QuotaExceeded);
    let entry = v1::TranscriptEntry { text: "x".repeat(300 * 1024), ..Default::default() };
    let large = v1::ReadTranscriptResponse { entries: vec![entry], ..Default::default() };
    let answered = v1::AnswerQueryRequest { answer: Some(Answer::Transcript(large)), ..answer(&waiting[0].query_id) };
    let refused = t.coordinator.answer_query(&ann.who, &answered).await.unwrap_err();
    assert_eq!(refused.reason, Reason::ContentTooLarge);
    for query in waiting {
        t.coordinator.answer_query(&ann.who, &answer(&query.query_id)).await.unwrap();
    }
    for reading in readings {
        assert_eq!(reading.await.unwrap().unwrap(), page());
    }
}
