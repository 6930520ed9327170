//! Lists, read page by page while they change.

use teamwire_proto::v1::{self, RequestState, history_entry::Event};
use teamwire_server::coordinator::history::HistoryQuery;

use crate::team::*;

#[tokio::test]
async fn an_inbox_has_every_message_once_whatever_is_acknowledged_between_its_pages() {
    let (t, [bob]) = Team::of(["bob"]).await;
    for n in 0..5 {
        t.send(&t.lead, message("bob", &n.to_string())).await;
    }
    let mut request = v1::ListInboxRequest { page_size: 2, ..Default::default() };
    let mut sequences = Vec::new();
    loop {
        let page = t.coordinator.list_inbox(&bob.who, &request).await.unwrap();
        assert!(page.deliveries.len() <= 2);
        let ids: Vec<_> =
            page.deliveries.iter().map(|delivery| delivery.message.as_ref().unwrap().id.as_str()).collect();
        t.ack(&bob, &ids).await.unwrap();
        sequences.extend(page.deliveries.iter().map(|delivery| delivery.sequence));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn requests_that_pass_a_filter_come_once_whatever_is_asked_between_the_pages() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(t.ask(&bob, plan("p")).await);
    }
    // Each plan cancels the one before.
    let state = RequestState::Cancelled.into();
    let mut request = v1::ListRequestsRequest { state, page_size: 1, ..Default::default() };
    let mut found = Vec::new();
    loop {
        let page = t.coordinator.list_requests(&bob.who, &request).await.unwrap();
        found.extend(page.requests.into_iter().map(|request| request.id));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
        t.ask(&bob, plan("another")).await;
    }
    assert_eq!(found, [ids[2].clone(), ids[1].clone(), ids[0].clone()]);
}

#[tokio::test]
async fn the_history_has_every_message_once_in_either_direction() {
    let (t, [_bob]) = Team::of(["bob"]).await;
    for n in 0..5 {
        t.send(&t.lead, message("bob", &n.to_string())).await;
        t.send(&t.operator, in_alpha(broadcast("x"))).await;
    }
    let is_message = |entry: &v1::HistoryEntry| matches!(entry.event, Some(Event::Message(_)));
    let all: Vec<_> = t.history().await.into_iter().filter(is_message).map(|entry| entry.sequence).collect();
    let filter = Some(v1::HistoryFilter { messages_only: true, ..Default::default() });
    for newest in [false, true] {
        let mut query = HistoryQuery { filter: filter.clone(), limit: 3, newest, ..Default::default() };
        let mut found = Vec::new();
        loop {
            let page = t.coordinator.history(&t.operator, "alpha", &query).await.unwrap();
            let sequences: Vec<_> = page.entries.iter().map(|entry| entry.sequence).collect();
            assert!(sequences.len() <= 3 && sequences.is_sorted());
            let place = if newest { 0 } else { found.len() };
            found.splice(place..place, sequences);
            if !page.more {
                break;
            }
            match newest {
                true => query.before = Some(page.looked_from),
                false => query.after = page.looked_to,
            }
        }
        assert_eq!(found, all);
    }
}
