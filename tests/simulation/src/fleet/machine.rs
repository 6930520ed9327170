//! A machine: its host program, and the processes that the program has started.

use std::{future::pending, pin::pin, time::Duration};

use rand::RngExt as _;
use teamwire_chaos::history::now_us;
use teamwire_client::{
    Client, Error, Event, Retry, SubscribeOptions,
    v1::{self, message::Body},
};
use tokio::{
    select,
    task::spawn_local,
    time::{Instant, sleep, timeout},
};

use super::{Phase, Play, Process, Runner};
use crate::net;

/// How often a process calls, and a host program looks for what has ended.
const OFTEN: Duration = Duration::from_millis(500);

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) const PROFILE: &str = "agent";

/// Runs a machine from its boot on.
pub(super) async fn run(play: Play, at: usize) -> turmoil::Result {
    for runner in play.shared().machines[at].runners.values_mut().filter(|runner| **runner == Runner::Runs) {
        *runner = Runner::Ended;
    }
    loop {
        let killed = async {
            while !std::mem::take(&mut play.shared().machines[at].kill_program) {
                sleep(Duration::from_millis(50)).await;
            }
        };
        select! {
            _ = host_program(&play, at) => {}
            () = killed => {}
        }
        let pause = rand::rng().random_range(50..2_000);
        sleep(Duration::from_millis(pause)).await;
    }
}

/// Offers the machine's slots, and carries out orders.
async fn host_program(play: &Play, at: usize) -> Result<(), Error> {
    let (credential, slots) = {
        let machine = &play.shared().machines[at];
        (machine.credential.clone(), machine.slots)
    };
    if credential.is_empty() {
        return Ok(());
    }
    let client = net::client(&play.address)?.with_retry(Retry::within(PATIENCE)).with_credential(&credential)?;
    let profile = v1::HostProfile { name: PROFILE.to_owned(), ..Default::default() };
    client.update_host(v1::HostOffer { profiles: vec![profile], slots, ..Default::default() }).await?;
    let mut inbox = client.subscribe(SubscribeOptions::default());
    loop {
        report_exits(play, at, &client).await?;
        let Ok(event) = timeout(OFTEN, inbox.next()).await else { continue };
        let Some(Event::Delivery(delivery)) = event.transpose()? else { continue };
        if let Some(Body::SpawnOrder(order)) = &delivery.message.body {
            carry_out(play, at, &client, &delivery.message.request_id, &order.member).await?;
        }
        delivery.ack();
    }
}

async fn report_exits(play: &Play, at: usize, client: &Client) -> Result<(), Error> {
    let ended = |(order, runner): (&String, &Runner)| (*runner == Runner::Ended).then(|| order.clone());
    let ended: Vec<String> = play.shared().machines[at].runners.iter().filter_map(ended).collect();
    for request_id in ended {
        match client.report_exit(v1::ReportExitRequest { request_id: request_id.clone(), exit: None }).await {
            Ok(_) | Err(Error::Refused(_)) => {
                play.shared().machines[at].runners.insert(request_id, Runner::Reported);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes an order and starts its process, unless the program remembers that it did. Sometimes it is killed between two
/// steps.
async fn carry_out(play: &Play, at: usize, client: &Client, order: &str, name: &str) -> Result<(), Error> {
    if play.shared().machines[at].runners.contains_key(order) {
        return Ok(());
    }
    let fate = rand::rng().random_range(0..20);
    if fate == 0 {
        let refusal = v1::RefuseOrderRequest {
            request_id: order.to_owned(),
            reason: "It has no memory left.".to_owned(),
            try_another_host: true,
        };
        return match client.refuse_order(refusal).await {
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        };
    }
    let token = match client.take_order(order).await {
        Ok(taken) => taken.join_token,
        Err(Error::Refused(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    if fate == 1 {
        killed(play, at).await;
    }
    let process = process(play.clone(), at, order.to_owned(), name.to_owned(), token);
    drop(spawn_local(process));
    if fate == 2 {
        // It does not remember the process, and is given the order again.
        killed(play, at).await;
    }
    play.shared().machines[at].runners.entry(order.to_owned()).or_insert(Runner::Runs);
    if fate == 3 {
        killed(play, at).await;
    }
    Ok(())
}

/// Waits for the end of the host program.
async fn killed(play: &Play, at: usize) {
    play.shared().machines[at].kill_program = true;
    pending().await
}

/// Runs a member's process from its start to its end.
async fn process(play: Play, at: usize, order: String, name: String, token: String) {
    // Some come up long after their order has expired.
    let is_slow = rand::rng().random_ratio(1, 12);
    let delay = rand::rng().random_range(if is_slow { 15_000..60_000 } else { 50..3_000 });
    sleep(Duration::from_millis(delay)).await;
    let has_reported = work(&play, &order, &name, &token).await.unwrap_or(false);
    let mut shared = play.shared();
    if let Some(runner) = shared.machines[at].runners.get_mut(&order) {
        *runner = if has_reported { Runner::Reported } else { Runner::Ended };
    } else {
        shared.machines[at].runners.insert(order, Runner::Ended);
    }
}

/// Joins and works for a while. Returns whether it reported its exit.
async fn work(play: &Play, order: &str, name: &str, token: &str) -> Result<bool, Error> {
    let anonymous = net::client(&play.address)?.with_retry(Retry::within(PATIENCE));
    let joined = anonymous.with_credential(token)?.join(v1::JoinRequest::default()).await?;
    let incarnation = joined.member.map_or(0, |member| member.incarnation);
    let me = {
        let mut shared = play.shared();
        let (order, name) = (order.to_owned(), name.to_owned());
        shared.processes.push(Process { order, name, incarnation, ..Process::default() });
        shared.processes.len() - 1
    };
    if rand::rng().random_ratio(1, 20) {
        return Ok(false);
    }
    let client = anonymous.with_credential(&joined.credential)?;
    let mut inbox = client.subscribe(SubscribeOptions::default());
    let lifetime = Duration::from_millis(rand::rng().random_range(3_000..20_000));
    let began = Instant::now();
    while began.elapsed() < lifetime && play.phase() != Phase::Over {
        let begun_us = now_us();
        let called = async {
            let is_done = client.heartbeat(v1::HeartbeatRequest::default()).await.is_ok();
            sleep(OFTEN).await;
            is_done
        };
        let mut called = pin!(called);
        loop {
            select! {
                is_done = &mut called => {
                    if is_done {
                        let process = &mut play.shared().processes[me];
                        process.last_begun_us = begun_us;
                        if process.first_done_us == 0 {
                            process.first_done_us = now_us();
                        }
                    }
                    break;
                }
                event = inbox.next() => match event.transpose()? {
                    Some(Event::Delivery(delivery)) => {
                        if let Some(Body::Message(prompt)) = &delivery.message.body {
                            play.shared().processes[me].prompts.push(prompt.content.clone());
                        }
                        delivery.ack();
                    }
                    Some(Event::Closed(_) | Event::ShutdownApproved { .. }) | None => return Ok(false),
                    Some(_) => {}
                },
            }
        }
    }
    if rand::rng().random_ratio(1, 3) {
        return Ok(false);
    }
    client.leave(0).await?;
    Ok(true)
}
