//! Damages copies of an embedded store's files and records what a coordinator makes of each.

use std::{collections::BTreeSet, fs, io, path::Path, time::Duration};

use rand::{Rng as _, RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use teamwire_client::{Client, Error, Retry, v1};
use tokio::time::{sleep, timeout};

use crate::{
    cluster::{Cluster, Coordinator},
    history::{self, What},
};

/// The page size of the file and of disk writes.
const PAGE: usize = 4096;

/// The size of a sector. Each record of the write-ahead log begins a new one.
const SECTOR: usize = 512;

/// The write-ahead log is this long, or longer by a multiple of its extensions.
const LOG_HEADER: usize = 4096;
const LOG_EXTENSION: usize = 64 * 1024;

/// The longest a coordinator may take to refuse a damaged copy, or to open and read it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Kills the coordinator, damages copies of its files in every way, and records what another coordinator makes of each.
/// Leaves the files themselves intact and their coordinator stopped.
pub async fn inspect(cluster: &mut Cluster, random: &mut StdRng) -> io::Result<()> {
    cluster.coordinators[0].process.kill();
    // Let members record the last answers.
    sleep(Duration::from_millis(200)).await;
    let [file, log] = ["store", "store.wal"].map(|name| fs::read(cluster.directory.join(name)));
    let (file, log) = (file?, log?);
    let damaged_files = damages(&file, random).into_iter().map(|(how, damaged)| (how, damaged, log.clone()));
    let damaged_logs = log_damages(&log, random).into_iter().map(|(how, damaged)| (how, file.clone(), damaged));
    let copies: Vec<_> = damaged_files.chain(damaged_logs).collect();
    for (how, file, log) in copies {
        let directory = cluster.directory.join("damaged");
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("store"), file)?;
        fs::write(directory.join("store.wal"), log)?;
        let seen = open(cluster, &directory, how).await?;
        cluster.note(seen)?;
        fs::remove_dir_all(&directory)?;
    }
    Ok(())
}

/// Returns each kind of damage with the damaged copy.
fn damages(file: &[u8], random: &mut StdRng) -> Vec<(String, Vec<u8>)> {
    let pages = file.len() / PAGE;
    let used: Vec<_> = (1..pages).filter(|page| file[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0)).collect();
    let used = |random: &mut StdRng| used.choose(random).copied().unwrap_or_default();
    let cut = |how: &str, length: usize| (format!("{how} (at {length} of {})", file.len()), file[..length].to_vec());
    let over = |how: &str, at: usize, with: &[u8]| {
        let mut damaged = file.to_vec();
        damaged[at..at + with.len()].copy_from_slice(with);
        (format!("{how} (at {at} of {})", file.len()), damaged)
    };
    let mut garbage = [0; PAGE / 2];
    random.fill_bytes(&mut garbage);
    vec![
        cut("the tail is cut off", file.len() - random.random_range(1..PAGE)),
        cut("the file is cut between two pages", random.random_range(pages / 2..pages) * PAGE),
        cut("the file is cut at a random place", random.random_range(1..file.len())),
        over("half a page is garbage", used(random) * PAGE, &garbage),
        over("half a page is empty", used(random) * PAGE + PAGE / 2, &[0; PAGE / 2]),
        // redb keeps the number of the last commit there.
        over("the head is garbage", random.random_range(0..320), &garbage[..64]),
    ]
}

/// Returns each kind of damage with the damaged copy of a write-ahead log.
fn log_damages(log: &[u8], random: &mut StdRng) -> Vec<(String, Vec<u8>)> {
    let over = |how: &str, at: usize, with: &[u8]| {
        let mut damaged = log.to_vec();
        damaged[at..at + with.len()].copy_from_slice(with);
        (format!("{how} (at {at} of {})", log.len()), damaged)
    };
    let mut garbage = [0; SECTOR];
    random.fill_bytes(&mut garbage);
    let used: Vec<_> = (LOG_HEADER / SECTOR..log.len() / SECTOR)
        .filter(|sector| log[sector * SECTOR..][..SECTOR].iter().any(|byte| *byte != 0))
        .collect();
    let used = |random: &mut StdRng| used.choose(random).copied().unwrap_or_default() * SECTOR;
    let mut kinds = vec![
        over("a sector of the log is garbage", used(random), &garbage),
        over("a sector of the log is empty", used(random), &[0; SECTOR]),
        over("the head of the log is garbage", random.random_range(0..16), &garbage[..32]),
    ];
    // Shorter by an extension, or by one and a part of the first record in it, it looks like a log that is shorter.
    let cut = random.random_range(LOG_HEADER..log.len());
    if (cut - LOG_HEADER) % LOG_EXTENSION > LOG_EXTENSION / 4 {
        kinds.push((format!("the log is cut (at {cut} of {})", log.len()), log[..cut].to_vec()));
    }
    kinds
}

/// Opens the files of a directory with a new coordinator and returns the outcome.
async fn open(cluster: &Cluster, directory: &Path, how: String) -> io::Result<What> {
    let store = format!("embedded:{}", directory.join("store").display());
    let mut coordinator = Coordinator::start(&cluster.teamwire, directory, store, &cluster.operator(), Vec::new())?;
    let client =
        Client::connect(coordinator.address()).and_then(|client| client.with_credential(&cluster.lead_credential));
    let client = client.map_err(|error| io::Error::other(error.to_string()))?.with_retry(Retry::within(PATIENCE));
    let answered: Vec<_> =
        history::read(&cluster.history())?.into_iter().filter_map(|event| answered(event.what)).collect();
    tokio::select! {
        code = coordinator.process.end(PATIENCE * 2) => {
            let log = fs::read_to_string(directory.join("log"))?;
            let said: Vec<_> = log.lines().rev().take(3).collect();
            // Death by signal has no code, and counts as 0: not an explanation.
            let code = code.flatten().unwrap_or_default();
            Ok(What::Damaged { how, code: Some(code), said: said.join(" / "), missing: Vec::new() })
        }
        found = timeout(PATIENCE, messages(&client)) => {
            let (found, said) = match found {
                Ok(Ok(found)) => (found, String::new()),
                // The coordinator reported the damage.
                Ok(Err(Error::Refused(refusal))) => (answered.iter().cloned().collect(), refusal.to_string()),
                other => return Err(io::Error::other(format!("{how}: the coordinator neither opened nor refused the store: {other:?}"))),
            };
            let missing = answered.into_iter().filter(|id| !found.contains(id)).collect();
            Ok(What::Damaged { how, code: None, said, missing })
        }
    }
}

fn answered(what: What) -> Option<String> {
    match what {
        What::Sent { message_id, again: false, .. } => Some(message_id),
        _ => None,
    }
}

/// Returns the ids of all messages in the team's history.
async fn messages(lead: &Client) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    let mut request = v1::ListHistoryRequest { page_size: 1_000, ..Default::default() };
    loop {
        let page = lead.list_history(request.clone()).await?;
        found.extend(page.entries.into_iter().filter_map(|entry| match entry.event {
            Some(v1::history_entry::Event::Message(message)) => Some(message.id),
            _ => None,
        }));
        if page.next_page_token.is_empty() {
            return Ok(found);
        }
        request.page_token = page.next_page_token;
    }
}
