//! What once held over one store only.

use std::sync::Arc;

use teamwire_proto::v1;
use teamwire_server::{
    domain::Limits,
    store::{Store, embedded::EmbeddedStore, redis::RedisStore},
};

use crate::{team::*, test_redis::TestRedis};

#[tokio::test]
async fn a_message_in_an_inbox_can_be_read_and_acknowledged_on_either_store() {
    let server = TestRedis::start();
    let mut stores: Vec<Arc<dyn Store>> = vec![EmbeddedStore::in_memory().unwrap()];
    if let Some(server) = &server {
        stores.push(RedisStore::connect(&server.url(), "test").await.unwrap());
    }
    for store in stores {
        let coordinator = coordinator(store, Limits::default()).await;
        let lead = coordinator.create_team(&operator(), &create("alpha")).await.unwrap().credential;
        let sent = coordinator.send(&operator(), &in_alpha(message("lead", "x"))).await.unwrap();
        let get = v1::GetMessageRequest { message_id: sent.message_id.clone(), ..Default::default() };
        let found = coordinator.get_message(&presented(&lead), &get).await.unwrap();
        assert_eq!(found.receipts[0].state(), v1::ReceiptState::Queued);
        let ack = v1::AckRequest { message_ids: vec![sent.message_id], ..Default::default() };
        assert_eq!(coordinator.acknowledge(&presented(&lead), &ack).await, Ok(1), "outside of any session");
    }
}
