//! The audit log: who may read it, what is removed from it, and that it survives coordinators, stores and teams.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{Reason, audit_chain, name::Name, v1};
use teamwire_server::{
    coordinator::Coordinator,
    delivery::AuditWriter,
    domain::{
        audit::chain::{Chain, Subject},
        identity::CallerCredentials,
        time::timestamp,
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    calls::RuleCalls as _,
    fillable::Fillable,
    team::{Team, create, presented},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn chain(subject: Subject, team: &str) -> Chain {
    Chain::new(subject, Some(&Name::parse(team, "team").unwrap()))
}

fn entry(coordinator: &Coordinator, object: &str) -> v1::AuditEntry {
    v1::AuditEntry {
        at: Some(timestamp(coordinator.now_ms())),
        object: object.to_owned(),
        outcome: "OK".to_owned(),
        calls: 1,
        ..v1::AuditEntry::default()
    }
}

async fn add(coordinator: &Coordinator, chain: &Chain, object: &str) {
    coordinator.append_to_audit(chain, object, &[entry(coordinator, object)]).await.unwrap();
}

async fn list(
    coordinator: &Coordinator,
    who: &CallerCredentials,
    request: v1::ListAuditEntriesRequest,
) -> Vec<v1::AuditRecord> {
    let mut request = request;
    let mut records = Vec::new();
    loop {
        let page = coordinator.list_audit_entries(who, &request).await.unwrap();
        records.extend(page.records);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return records;
        }
    }
}

fn objects(records: &[v1::AuditRecord]) -> Vec<String> {
    let of = |record: &v1::AuditRecord| record.entry.as_ref().map(|entry| entry.object.clone());
    records.iter().filter_map(of).filter(|object| !object.is_empty()).collect()
}

async fn chains(coordinator: &Coordinator, who: &CallerCredentials) -> Vec<v1::AuditChain> {
    let request = v1::ListAuditChainsRequest::default();
    coordinator.list_audit_chains(who, &request).await.unwrap().chains
}

/// Verifies every chain as the command line does.
async fn verify(coordinator: &Coordinator, who: &CallerCredentials) {
    for chain in chains(coordinator, who).await {
        let request =
            v1::ListAuditEntriesRequest { chain: chain.name.clone(), with_proofs: true, ..Default::default() };
        let records = list(coordinator, who, request).await;
        assert_eq!(audit_chain::verify(&chain, &records), Ok(()), "{}", chain.name);
    }
}

#[tokio::test]
async fn coordinators_that_share_a_store_continue_the_same_chains() {
    let team = Team::new().await;
    let other = team.another_coordinator().await;
    let access = chain(Subject::Access, "alpha");
    for number in 0..6 {
        let by = if number % 2 == 0 { &team.coordinator } else { &other };
        add(by, &access, &number.to_string()).await;
    }
    let (x, y) = ([entry(&other, "x")], [entry(&other, "y")]);
    let both =
        tokio::join!(team.coordinator.append_to_audit(&access, "x", &x), other.append_to_audit(&access, "y", &y),);
    assert_eq!(both, (Ok(()), Ok(())));
    team.coordinator.append_to_audit(&access, "x", &x).await.unwrap();
    let all = list(&other, &team.operator, v1::ListAuditEntriesRequest { page_size: 3, ..Default::default() }).await;
    assert_eq!(all.iter().map(|record| record.sequence).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    assert_eq!(objects(&all)[..6], ["0", "1", "2", "3", "4", "5"]);
    assert!(all.iter().all(|record| record.hash.is_empty() && record.encoded.is_empty()), "no proofs were asked for");
    verify(&other, &team.operator).await;
}

#[tokio::test]
async fn only_the_operator_and_leads_read_the_audit_log_and_a_lead_only_its_teams_part() {
    let (mut team, [ann]) = Team::of(["ann"]).await;
    team.coordinator.create_team(&team.operator, &create("beta")).await.unwrap();
    for of in ["alpha", "beta"] {
        add(&team.coordinator, &chain(Subject::Privileged, of), of).await;
    }
    add(&team.coordinator, &Chain::new(Subject::Access, None), "coordinator").await;
    let request = v1::ListAuditEntriesRequest::default;
    let c = team.coordinator.clone();
    assert_eq!(objects(&list(&c, &team.operator, request()).await), ["coordinator", "alpha", "beta"]);
    assert_eq!(objects(&list(&c, &team.lead.who, request()).await), ["alpha"]);
    let of_beta = v1::ListAuditEntriesRequest { team: "beta".to_owned(), ..request() };
    assert_eq!(objects(&list(&c, &team.operator, of_beta.clone()).await), ["beta"]);
    let other_chain = v1::ListAuditEntriesRequest { chain: "privileged/beta".to_owned(), ..request() };
    assert_eq!(objects(&list(&c, &team.lead.who, other_chain).await), Vec::<String>::new());

    let reason = |refused: Result<v1::ListAuditEntriesResponse, teamwire_proto::Refusal>| refused.unwrap_err().reason;
    assert_eq!(reason(c.list_audit_entries(&ann.who, &request()).await), Reason::LeadOnly);
    assert_eq!(reason(c.list_audit_entries(&team.lead.who, &of_beta).await), Reason::TeamNotFound);
    let proofs = v1::ListAuditEntriesRequest { with_proofs: true, ..request() };
    assert_eq!(reason(c.list_audit_entries(&team.lead.who, &proofs).await), Reason::OperatorOnly);
    let listed = c.list_audit_chains(&team.lead.who, &v1::ListAuditChainsRequest::default()).await;
    assert_eq!(listed.unwrap_err().reason, Reason::OperatorOnly);
    let observer = c.create_observer(&team.lead.who, &v1::CreateObserverRequest::default()).await.unwrap();
    assert_eq!(reason(c.list_audit_entries(&presented(&observer.credential), &request()).await), Reason::LeadOnly);
    let wrong = v1::ListAuditEntriesRequest { page_token: "00".to_owned(), ..request() };
    assert_eq!(reason(c.list_audit_entries(&team.operator, &wrong).await), Reason::InvalidField);

    // A later team of the same name has a lead that the entries of the earlier one do not concern.
    team.leave(&ann).await;
    team.try_delete(&team.lead).await.unwrap();
    team.pass(Duration::from_secs(1)).await;
    let again = team.coordinator.create_team(&team.operator, &create("alpha")).await.unwrap();
    assert_eq!(objects(&list(&team.coordinator, &presented(&again.credential), request()).await), Vec::<String>::new());
    let of_alpha = v1::ListAuditEntriesRequest { team: "ALPHA".to_owned(), ..request() };
    assert_eq!(objects(&list(&team.coordinator, &team.operator, of_alpha).await), ["alpha"]);
}

#[tokio::test]
async fn audit_entries_can_be_listed_from_a_given_time() {
    let mut team = Team::new().await;
    let access = chain(Subject::Access, "alpha");
    add(&team.coordinator, &access, "early").await;
    team.pass(DAY).await;
    let since = Some(timestamp(team.coordinator.now_ms()));
    add(&team.coordinator, &access, "late").await;
    let request = v1::ListAuditEntriesRequest { since, ..Default::default() };
    assert_eq!(objects(&list(&team.coordinator, &team.operator, request).await), ["late"]);
}

#[tokio::test]
async fn old_entries_are_removed_and_the_remaining_ones_still_verify() {
    let mut team = Team::with_limits(|limits| limits.audit_ttl = 30 * DAY).await;
    let access = chain(Subject::Access, "alpha");
    add(&team.coordinator, &access, "first").await;
    team.pass(20 * DAY).await;
    add(&team.coordinator, &access, "second").await;
    team.pass(10 * DAY).await;
    team.coordinator.trim_audit(true).await.unwrap();
    let request = v1::ListAuditEntriesRequest::default;
    assert_eq!(objects(&list(&team.coordinator, &team.operator, request()).await), ["first", "second"]);
    team.pass(2 * DAY).await;
    team.coordinator.trim_audit(true).await.unwrap();
    team.coordinator.trim_audit(true).await.unwrap();
    let left = list(&team.coordinator, &team.operator, request()).await;
    assert_eq!(objects(&left), ["second"]);
    let checkpoint = left.last().unwrap().entry.as_ref().unwrap().checkpoint.as_ref().unwrap();
    assert_eq!((checkpoint.through_sequence, checkpoint.entries, checkpoint.because_full), (1, 1, false));
    verify(&team.coordinator, &team.operator).await;

    for _ in 0..3 {
        team.pass(100 * DAY).await;
        team.coordinator.trim_audit(true).await.unwrap();
        verify(&team.coordinator, &team.operator).await;
    }
    let left = list(&team.coordinator, &team.operator, request()).await;
    assert_eq!(left.len(), 1, "the last checkpoint stays: {left:?}");
}

#[tokio::test]
async fn a_chain_that_reaches_its_bound_gives_up_its_oldest_entries_and_takes_none_of_another_chain() {
    let team = Team::with_limits(|limits| limits.audit_chain_bytes_max = 64 * 1024).await;
    let privileged = chain(Subject::Privileged, "alpha");
    add(&team.coordinator, &privileged, "force").await;
    add(&team.coordinator, &chain(Subject::Privileged, "beta"), "of-beta").await;
    let access = chain(Subject::Access, "alpha");
    for number in 0..40 {
        let batch: Vec<_> = (0..64).map(|_| entry(&team.coordinator, "flood")).collect();
        team.coordinator.append_to_audit(&access, &number.to_string(), &batch).await.unwrap();
    }
    let chains = chains(&team.coordinator, &team.operator).await;
    let of = |name: &str| chains.iter().find(|chain| chain.name == name).unwrap();
    assert!(of("access/alpha").bytes <= 64 * 1024, "{chains:?}");
    assert!(of("access/alpha").bytes > 48 * 1024, "no more is removed than must be: {chains:?}");
    assert_eq!((of("privileged/alpha").first_sequence, of("privileged/beta").first_sequence), (1, 1));
    let all = list(&team.coordinator, &team.operator, v1::ListAuditEntriesRequest::default()).await;
    let checkpoints = all.iter().filter_map(|record| record.entry.as_ref()?.checkpoint.as_ref());
    assert!(checkpoints.clone().count() > 0 && checkpoints.clone().all(|checkpoint| checkpoint.because_full));
    assert_eq!(objects(&all).iter().filter(|object| *object != "flood").collect::<Vec<_>>(), ["force", "of-beta"]);
    verify(&team.coordinator, &team.operator).await;
}

/// Runs a writer until its call has ended.
async fn with_writer<T>(writer: &Arc<AuditWriter>, call: impl Future<Output = T>) -> T {
    let stop = CancellationToken::new();
    let running = tokio::spawn(Arc::clone(writer).run(stop.clone()));
    let done = call.await;
    stop.cancel();
    running.await.unwrap();
    done
}

#[tokio::test]
async fn an_entry_is_written_when_the_call_returns_and_counted_ones_at_the_end() {
    let team = Team::new().await;
    let writer = Arc::new(AuditWriter::new(team.coordinator.clone()));
    let (privileged, access) = (chain(Subject::Privileged, "alpha"), chain(Subject::Access, "alpha"));
    let request = v1::ListAuditEntriesRequest::default;
    let refused = || v1::AuditEntry { outcome: "LEAD_ONLY".to_owned(), ..entry(&team.coordinator, "refused") };
    with_writer(&writer, async {
        writer.write(&privileged, entry(&team.coordinator, "force")).await;
        assert_eq!(objects(&list(&team.coordinator, &team.operator, request()).await), ["force"]);
        for _ in 0..10 {
            drop(writer.count(&access, "member/ann", refused()));
        }
        writer.settle().await;
        assert_eq!(objects(&list(&team.coordinator, &team.operator, request()).await), ["refused", "force"]);
    })
    .await;
    let all = list(&team.coordinator, &team.operator, request()).await;
    let calls = |record: &v1::AuditRecord| record.entry.as_ref().unwrap().calls;
    assert_eq!(all.iter().map(calls).collect::<Vec<_>>(), [1, 9, 1]);
    verify(&team.coordinator, &team.operator).await;
}

#[tokio::test(start_paused = true)]
async fn audit_entries_wait_while_the_store_is_full_and_the_last_one_counts_those_dropped() {
    let store = Fillable::new();
    let team = Team::on(store.clone(), |_| {}).await;
    let writer = Arc::new(AuditWriter::new(team.coordinator.clone()));
    let privileged = chain(Subject::Privileged, "alpha");
    with_writer(&writer, async {
        store.fill();
        // It does not wait for long.
        writer.write(&privileged, entry(&team.coordinator, "0")).await;
        for number in 1..300 {
            drop(writer.push(&privileged, entry(&team.coordinator, &number.to_string())));
        }
        store.empty();
        writer.settle().await;
    })
    .await;
    let all = list(&team.coordinator, &team.operator, v1::ListAuditEntriesRequest::default()).await;
    let expected: Vec<String> = (0..256).map(|number: u32| number.to_string()).collect();
    assert_eq!(objects(&all), expected);
    assert_eq!(all.last().unwrap().entry.as_ref().unwrap().missing, 44);
    verify(&team.coordinator, &team.operator).await;
}
