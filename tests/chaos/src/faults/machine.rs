//! A full disk and wrong clocks.

use std::{fs, io, time::Duration};

use rand::{RngExt as _, rngs::StdRng};
use teamwire_client::{Client, Retry, v1};
use tokio::time::{sleep, timeout};

use super::{Draw, PATIENCE};
use crate::cluster::Cluster;

/// Fills the disk until the coordinator refuses a write, waits 2 s, and frees it.
pub(super) async fn fill_disk(cluster: &mut Cluster) -> io::Result<()> {
    let Some(disk) = &cluster.disk else { return Err(io::Error::other("there is no disk to fill")) };
    let lead = Client::connect(&cluster.address()).and_then(|lead| lead.with_credential(&cluster.lead_credential));
    let lead = lead.map_err(|error| io::Error::other(error.to_string()))?.with_retry(Retry::none());
    disk.fill()?;
    // The file itself still has some room.
    let refused = timeout(PATIENCE, async {
        let description = "x".repeat(8 * 1024);
        let task = v1::CreateTaskRequest { subject: "No room".to_owned(), description, ..Default::default() };
        // A single attempt knows only what the answer says.
        while !lead.create_task(task.clone()).await.is_err_and(|error| error.to_string().contains("the store is full"))
        {
            sleep(Duration::from_millis(20)).await;
        }
        sleep(Duration::from_secs(2)).await;
    });
    let refused = refused.await;
    disk.free()?;
    refused.map_err(|_| io::Error::other("the disk was full, but the coordinator refused nothing"))
}

/// Sets a coordinator's clock one more hour ahead, for good: setting it back would be another fault.
pub(super) async fn set_clock_forward(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let clock = cluster.coordinators[draw.coordinator].file("clock");
    let hours: u32 = fs::read_to_string(clock)?.trim_matches(['+', 'h']).parse().unwrap_or_default();
    let ahead = format!("+{}h", hours + 1);
    set_clock(cluster, draw, random, &ahead, &ahead).await
}

/// Sets a coordinator's clock back by one hour, for a while.
pub(super) async fn set_clock_back(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    set_clock(cluster, draw, random, "-1h", "+0h").await
}

/// Sets a coordinator's clock now and at the end. Kills the coordinator in one of ten runs meanwhile.
async fn set_clock(
    cluster: &mut Cluster,
    draw: &Draw,
    random: &mut StdRng,
    now: &str,
    at_the_end: &str,
) -> io::Result<()> {
    let clock = cluster.coordinators[draw.coordinator].file("clock");
    fs::write(&clock, now)?;
    sleep(draw.pause / 2).await;
    if random.random_bool(0.1) {
        cluster.coordinators[draw.coordinator].process.kill();
        cluster.restart(draw.coordinator)?;
    }
    sleep(draw.pause / 2).await;
    fs::write(&clock, at_the_end)
}
