//! Damage to the file of an embedded store, and what a coordinator makes of it.

use std::{collections::BTreeSet, fs, io, path::Path, time::Duration};

use rand::{Rng as _, RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use teamwire_client::{Client, Error, Retry, v1};
use tokio::time::{sleep, timeout};

use crate::{
    cluster::{Coordinator, Stage},
    history::{self, What},
};

/// The pages of the file, as its own and as a disk writes them.
const PAGE: usize = 4096;

/// How long it may take until a damaged copy is refused, or opened and read.
const PATIENCE: Duration = Duration::from_secs(30);

/// Kills the coordinator, damages copies of its file in every way, and notes what another coordinator makes of each. The file
/// itself is left as it is, and its coordinator is not started again.
pub async fn look(stage: &mut Stage, random: &mut StdRng) -> io::Result<()> {
    stage.coordinators[0].process.kill();
    // What was answered at the last moment is written down.
    sleep(Duration::from_millis(200)).await;
    let file = fs::read(stage.directory.join("store"))?;
    for (how, damaged) in damages(&file, random) {
        let directory = stage.directory.join("damaged");
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("store"), damaged)?;
        let seen = open(stage, &directory, how).await?;
        stage.note(seen)?;
        fs::remove_dir_all(&directory)?;
    }
    Ok(())
}

/// Returns the file damaged in each way, and what each is.
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
        cut("its tail is cut off", file.len() - random.random_range(1..PAGE)),
        cut("it is cut between two pages", random.random_range(pages / 2..pages) * PAGE),
        cut("it is cut somewhere", random.random_range(1..file.len())),
        over("half a page is garbage", used(random) * PAGE, &garbage),
        over("half a page is empty", used(random) * PAGE + PAGE / 2, &[0; PAGE / 2]),
        // Where redb says which commit is the last one.
        over("its head is garbage", random.random_range(0..320), &garbage[..64]),
    ]
}

/// Starts a coordinator on the file of a directory, and returns what came of it.
async fn open(stage: &Stage, directory: &Path, how: String) -> io::Result<What> {
    let store = format!("embedded:{}", directory.join("store").display());
    let mut coordinator = Coordinator::start(&stage.teamwire, directory, store, &stage.operator(), Vec::new())?;
    let client =
        Client::connect(coordinator.address()).and_then(|client| client.with_credential(&stage.lead_credential));
    let client = client.map_err(|error| io::Error::other(error.to_string()))?.with_retry(Retry::within(PATIENCE));
    let answered: Vec<_> =
        history::read(&stage.history())?.into_iter().filter_map(|event| answered(event.what)).collect();
    tokio::select! {
        code = coordinator.process.end(PATIENCE * 2) => {
            let log = fs::read_to_string(directory.join("log"))?;
            let said: Vec<_> = log.lines().rev().take(3).collect();
            // A signal has no code, and is none.
            let code = code.flatten().unwrap_or_default();
            Ok(What::Damaged { how, code: Some(code), said: said.join(" / "), missing: Vec::new() })
        }
        found = timeout(PATIENCE, messages(&client)) => {
            let (found, said) = match found {
                Ok(Ok(found)) => (found, String::new()),
                // It is said, and not passed over.
                Ok(Err(Error::Refused(refusal))) => (answered.iter().cloned().collect(), refusal.to_string()),
                other => return Err(io::Error::other(format!("{how}: the store is neither open nor refused: {other:?}"))),
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

/// Returns the ids of all messages that the history of the team has.
async fn messages(lead: &Client) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    let mut request = v1::ListHistoryRequest { limit: 1_000, ..Default::default() };
    loop {
        let page = lead.list_history(request.clone()).await?;
        found.extend(page.entries.into_iter().filter_map(|entry| match entry.event {
            Some(v1::history_entry::Event::Message(message)) => Some(message.id),
            _ => None,
        }));
        if !page.more {
            return Ok(found);
        }
        request.after_sequence = page.next_after_sequence;
    }
}
