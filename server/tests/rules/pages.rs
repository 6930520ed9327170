//! Lists, read page by page while they change; and how large their pages are.

use proptest::{collection::vec, prelude::*};
use prost::Message as _;
use teamwire_proto::v1::{self, RequestState, history_entry::Event, message::Body};
use teamwire_server::{
    coordinator::history::HistoryQuery,
    domain::page::{PAGE_BYTES_MAX, SEARCHED_BYTES_MAX},
    store::embedded::EmbeddedStore,
};

use crate::{
    board::{task, task_for},
    team::*,
};

#[tokio::test]
async fn inbox_pages_list_every_message_once_while_messages_are_acknowledged() {
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
async fn filtered_pages_list_each_request_once_while_new_requests_are_made() {
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

/// How many bytes a page has besides its items.
const TOKEN_BYTES_MAX: usize = 100;

/// Asserts that a page is within its bounds.
fn fits(bytes: usize, items: usize, size: u32) {
    assert!(items <= size as usize, "{items} of {size}");
    assert!(bytes <= PAGE_BYTES_MAX + TOKEN_BYTES_MAX || items == 1, "{bytes} in {items}");
}

/// Sends and adds contents of these sizes, and reads them all, in pages of a size.
async fn every_page_fits(sizes: Vec<usize>, page_size: u32) {
    let t = Team::on(EmbeddedStore::in_memory().unwrap(), |limits| limits.inbox_bytes_max = 1 << 30).await;
    let bob = t.join("bob").await;
    for (number, bytes) in sizes.iter().enumerate() {
        t.send(&t.lead, message("bob", &"x".repeat(*bytes))).await;
        t.add(v1::CreateTaskRequest { description: "x".repeat(*bytes), ..task(&number.to_string()) }).await;
    }
    let content = |message: &v1::Message| match &message.body {
        Some(Body::Message(message)) => Some(message.content.len()),
        _ => None,
    };

    let mut request = v1::ListInboxRequest { page_size, ..Default::default() };
    let mut found = Vec::new();
    loop {
        let page = t.coordinator.list_inbox(&bob.who, &request).await.unwrap();
        fits(page.encoded_len(), page.deliveries.len(), page_size);
        found.extend(page.deliveries.iter().filter_map(|delivery| content(delivery.message.as_ref()?)));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(found, sizes);

    let mut request = v1::ListTasksRequest { page_size, ..Default::default() };
    let mut found = Vec::new();
    loop {
        let page = t.coordinator.list_tasks(&bob.who, &request).await.unwrap();
        fits(page.encoded_len(), page.tasks.len(), page_size);
        found.extend(page.tasks.iter().map(|task| task.description.len()));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(found, sizes);

    for (newest, bytes_max) in [(false, PAGE_BYTES_MAX), (true, PAGE_BYTES_MAX), (false, 1 << 18)] {
        let mut query = HistoryQuery { limit: page_size as usize, newest, bytes_max, ..Default::default() };
        let mut found = Vec::new();
        loop {
            let page = t.coordinator.history(&t.operator, "alpha", &query).await.unwrap();
            let bytes: usize = page.entries.iter().map(|entry| entry.encoded_len() + 6).sum();
            assert!(page.entries.len() <= page_size as usize);
            assert!(bytes <= bytes_max || page.entries.len() == 1, "{bytes}");
            let contents = page.entries.iter().filter_map(|entry| match &entry.event {
                Some(Event::Message(message)) => content(message),
                _ => None,
            });
            let place = if newest { 0 } else { found.len() };
            found.splice(place..place, contents);
            if !page.more {
                break;
            }
            match newest {
                true => query.before = Some(page.looked_from),
                false => query.after = page.looked_to,
            }
        }
        assert_eq!(found, sizes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_fit_and_are_complete_for_items_of_any_size(
        sizes in vec(prop_oneof![1_usize..2_000, 1_usize..=65_536], 1..60),
        page_size in prop_oneof![1_u32..10, 10_u32..=1_000],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(every_page_fits(sizes, page_size));
    }
}

#[tokio::test]
async fn a_list_page_scans_a_bounded_amount_and_returns_a_token_to_continue() {
    let (t, [_bob]) = Team::of(["bob"]).await;
    let description = "x".repeat(64 * 1024);
    for _ in 0..SEARCHED_BYTES_MAX / description.len() + 20 {
        t.add(v1::CreateTaskRequest { description: description.clone(), ..task("for anyone") }).await;
    }
    t.add(task_for("bob")).await;
    let mut request = v1::ListTasksRequest { owner: "bob".to_owned(), ..Default::default() };
    let mut pages = Vec::new();
    loop {
        let page = t.coordinator.list_tasks(&t.lead.who, &request).await.unwrap();
        request.page_token = page.next_page_token;
        pages.push(page.tasks.len());
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, [0, 1]);
}
