//! Rate limits, and the errors for faster senders.

use std::time::Duration;

use teamwire_client::{Client, message};
use teamwire_proto::v1::{self, send_request::Body};
use tokio::{runtime::Runtime, time::sleep};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    raw::{Raw, refused},
    world::{LEAD, World},
};

/// Slow enough that a burst is over before anything of it is free again.
const SLOW: &str = "[rates]\nsends_per_second = 1\nsends_burst = 5\nbroadcasts_per_second = 1\nbroadcasts_burst = 2\n";

/// Asserts that a send was too fast. Returns how long to wait.
#[track_caller]
fn too_fast(outcome: Result<(), Status>) -> Duration {
    let status = refused(outcome, Code::ResourceExhausted, "RATE_LIMITED", "");
    let wait = status.get_error_details().retry_info().and_then(|info| info.retry_delay).expect("RetryInfo");
    assert!(wait > Duration::ZERO && wait < Duration::from_secs(2), "{wait:?}");
    wait
}

/// Sends until it is too fast. Returns how many passed, and how long to wait.
async fn send_until_too_fast(caller: &Raw, body: impl Fn() -> Option<Body>) -> (usize, Duration) {
    for passed in 0..100 {
        let outcome = caller.send(body()).await;
        if outcome.is_err() {
            return (passed, too_fast(outcome));
        }
    }
    panic!("nothing is too fast");
}

#[test]
fn a_fast_sender_learns_when_to_retry_and_others_are_not_slowed() {
    let world = World::configured(SLOW);
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    let address = world.coordinator.address();
    Runtime::new().unwrap().block_on(async {
        let (ann, bob) = (Raw::at(&address, &ann), Raw::at(&address, &bob));
        let hello = || message::direct("lead", "hello", "hello").body;
        // What a stranger sends in her name is not counted as hers.
        let forged = Raw::at(&address, "twm:acme:ann:0123456789abcdef0123456789abcdef");
        for _ in 0..3 {
            refused(forged.send(hello()).await, Code::Unauthenticated, "CREDENTIAL_INVALID", "");
        }
        let (passed, _) = send_until_too_fast(&ann, hello).await;
        // One or two may have become free meanwhile.
        assert!((5..10).contains(&passed), "{passed}");
        bob.send(hello()).await.unwrap();

        // A repeated send counts, too; and comes through when it is time.
        let keyed = || v1::SendRequest { idempotency_key: "once".to_owned(), ..message::direct("lead", "h", "again") };
        let mut waits = 0;
        for _ in 0..2 {
            while let Err(refusal) = ann.send_all(keyed()).await {
                // As long as it says: that is what is tested.
                sleep(too_fast(Err(refusal))).await;
                waits += 1;
            }
        }
        assert!(waits > 0);
    });
    let again = world.take_inbox(LEAD).iter().filter(|message| message["content"] == "again").count();
    assert_eq!(again, 1);
}

#[test]
fn broadcasts_have_a_separate_rate_for_the_lead_and_the_operator_too() {
    let world = World::configured(SLOW);
    world.create_team("acme");
    world.join("ann");
    let (lead, operator) = (world.credential(LEAD), world.operator());
    let address = world.coordinator.address();
    Runtime::new().unwrap().block_on(async {
        for credential in [lead, operator] {
            let caller = Raw::at(&address, &credential);
            for passed in 0.. {
                let request = v1::SendRequest { team: "acme".to_owned(), ..message::broadcast("news", "news") };
                let outcome = caller.send_all(request).await;
                if outcome.is_err() {
                    too_fast(outcome);
                    assert!((2..5).contains(&passed), "{passed}");
                    break;
                }
            }
            let direct = v1::SendRequest { team: "acme".to_owned(), ..message::direct("ann", "hello", "hello") };
            caller.send_all(direct).await.expect("texts for one may still go");
        }
    });
}

#[test]
fn our_own_client_waits_and_loses_nothing() {
    let world = World::configured("[rates]\nsends_per_second = 20\nsends_burst = 1\n");
    world.create_team("acme");
    let ann = world.join("ann");
    Runtime::new().unwrap().block_on(async {
        let client = Client::connect(&world.coordinator.address()).unwrap().with_credential(&ann).unwrap();
        for number in 0..10 {
            client.send(message::direct("lead", "a number", number.to_string())).await.unwrap();
        }
    });
    let numbers: Vec<_> = world.take_inbox(LEAD).iter().map(|m| m["content"].as_str().unwrap().to_owned()).collect();
    assert_eq!(numbers, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
}
