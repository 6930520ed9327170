//! The lead: lets hosts join, orders members, and watches the coordinators' view of both.

use std::time::Duration;

use rand::RngExt as _;
use teamwire_chaos::history::now_us;
use teamwire_client::{Client, Error, Retry, v1};
use tokio::{
    task::spawn_local,
    time::{Instant, sleep},
};

use super::{ADDED, DEADLINE, MACHINES, ORDERS, Phase, Play, machine::PROFILE};
use crate::{net, world::SECRET};

/// How many names there are for members. Names of members that have ended are used again.
const NAMES: usize = 70;

/// The time that a coordinator may take to carry out what is due, while coordinators are killed.
const SLACK: Duration = Duration::from_secs(15);

/// The longest that all orders may take to be decided once everything is repaired.
const PATIENCE: Duration = Duration::from_secs(60);

/// Plays the lead's part to its end.
pub(super) async fn run(play: Play) -> turmoil::Result {
    let anonymous = net::client(&play.address)?.with_retry(Retry::within(PATIENCE));
    let operator = anonymous.with_credential(&format!("two:{SECRET}"))?;
    let create = v1::CreateTeamRequest { name: "fleet".to_owned(), ..Default::default() };
    let lead = anonymous.with_credential(&operator.create_team_with(create).await?.credential)?;
    for at in 0..MACHINES {
        add_host(&play, &lead, &anonymous, at).await?;
    }
    play.shared().phase = Phase::Broken;
    let watching = spawn_local(watch(play.clone(), lead.clone()));
    let mut placed = 0;
    while placed < ORDERS {
        if order(&play, &lead, placed).await? {
            placed += 1;
            if placed.is_multiple_of(ORDERS / ADDED) {
                add_host(&play, &lead, &anonymous, MACHINES + placed / (ORDERS / ADDED) - 1).await?;
            }
        }
        let pause = rand::rng().random_range(20..200);
        sleep(Duration::from_millis(pause)).await;
    }
    play.shared().phase = Phase::Healed;
    wait_for_decisions(&play, &lead).await?;
    watching.abort();
    play.shared().phase = Phase::Over;
    Ok(())
}

/// Lets a host join. Its machine starts its program from then on.
async fn add_host(play: &Play, lead: &Client, anonymous: &Client, at: usize) -> Result<(), Error> {
    let name = play.shared().machines[at].host.clone();
    let token = lead.invite_host(&name).await?.join_token;
    let joined =
        anonymous.with_credential(&token)?.join(v1::JoinRequest { host: true, ..v1::JoinRequest::default() }).await?;
    play.shared().machines[at].credential = joined.credential;
    Ok(())
}

/// Orders a member. Returns whether a host got the order.
async fn order(play: &Play, lead: &Client, number: usize) -> Result<bool, Error> {
    let (name, machine) = (rand::rng().random_range(1..=NAMES), rand::rng().random_range(1..=MACHINES));
    let is_named = rand::rng().random_ratio(1, 5);
    let prompt = format!("order {number}");
    let request = v1::SpawnRequest {
        name: format!("w{name}"),
        profile: PROFILE.to_owned(),
        prompt: prompt.clone(),
        host: if is_named { format!("h{machine}") } else { String::new() },
        ttl: prost_types::Duration::try_from(DEADLINE).ok(),
        ..Default::default()
    };
    if rand::rng().random_ratio(1, 25) {
        // Whatever it is doing: nothing, working, or about to start.
        let _ = lead.force_stop(&request.name, "").await;
    }
    match lead.spawn(request).await {
        Ok(reply) => {
            play.shared().orders.insert(reply.request.unwrap_or_default().id, (prompt, None));
            Ok(true)
        }
        Err(Error::Refused(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks what the coordinators show: no slot is used twice, and no name is reserved for longer than its order allows.
async fn watch(play: Play, lead: Client) {
    loop {
        sleep(Duration::from_millis(500)).await;
        for host in lead.all_hosts().await.unwrap_or_default() {
            let slots = host.offer.as_ref().map_or(0, |offer| offer.slots);
            if host.slots_used > slots {
                play.broken(format!("{} has {} of {slots} slots taken", host.name, host.slots_used));
            }
        }
        let now_s = i64::try_from(now_us() / 1_000_000).unwrap_or(i64::MAX);
        for member in lead.members().await.unwrap_or_default() {
            let is_reserved = member.state() == v1::MemberState::Spawning;
            let since_s = member.state_since.map_or(now_s, |since| since.seconds);
            let at_most = DEADLINE + SLACK;
            if is_reserved && Duration::from_secs((now_s - since_s).unsigned_abs()) > at_most {
                play.broken(format!("{} is still reserved after {} s", member.name, now_s - since_s));
            }
        }
    }
}

/// Waits until every order is decided, and records how.
async fn wait_for_decisions(play: &Play, lead: &Client) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        let orders = v1::ListRequestsRequest { kind: v1::RequestKind::Spawn.into(), ..Default::default() };
        let orders = lead.list_all_requests(orders, usize::MAX).await?.requests;
        let left = orders.iter().filter(|order| order.state() == v1::RequestState::Pending).count();
        if left == 0 || began.elapsed() > PATIENCE {
            for order in orders {
                if let Some((_, ended)) = play.shared().orders.get_mut(&order.id) {
                    *ended = Some(order.state());
                }
            }
            return Ok(());
        }
        sleep(Duration::from_secs(1)).await;
    }
}
