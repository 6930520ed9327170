//! What a host finds after it was killed at each step of a start.

use std::{fs, process::Stdio};

use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// The state directory of a host that was killed.
struct Killed {
    directory: TempDir,
    records: Records,
}

impl Killed {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let records = Records::open(directory.path()).expect("opened");
        Self { directory, records }
    }

    /// Writes the record of an order that it was carrying out.
    fn leaves(&self, phase: Phase) -> Record {
        let record = Record {
            request_id: "order-1".to_owned(),
            member: "backend".to_owned(),
            profile: "agent".to_owned(),
            expires_at: SystemTime::now() + PATIENCE,
            workspace: Workspace::plan(&self.directory.path().join("work"), "backend", ""),
            log_begins_at: 0,
            cgroup: None,
            phase,
        };
        self.records.save(&record).expect("saved");
        record
    }

    /// The runner has joined, and saved its identity.
    fn runner_has_joined(&self) {
        fs::write(self.records.context("order-1").with_extension("runs.json"), "{}").expect("written");
    }

    /// Starts the next process of the host.
    async fn successor(&self) -> Processes {
        let file = HostFile::parse("[profiles.agent]\ncommand = [\"cat\"]").expect("a file");
        let at = self.directory.path().to_owned();
        Processes::open("/nowhere/teamwire".into(), at.clone(), at, file).await.expect("opened")
    }
}

fn order() -> Order {
    Order {
        request_id: "order-1".to_owned(),
        member: "backend".to_owned(),
        team: "acme".to_owned(),
        terms: v1::SpawnTerms { profile: "agent".to_owned(), ..v1::SpawnTerms::default() },
        expires_at: None,
    }
}

/// Starts a process that represents a runner. It runs until it is killed.
fn runner() -> (Child, Pid) {
    let child = Command::new("cat").stdin(Stdio::piped()).kill_on_drop(true).spawn().expect("cat");
    let pid = Pid::of(child.id().expect("an id").try_into().expect("an id")).expect("a process");
    (child, pid)
}

async fn next_end(processes: &Processes) -> Ended {
    timeout(PATIENCE, processes.next_end()).await.expect("an end")
}

#[tokio::test]
async fn a_start_that_was_only_recorded_is_repeated() {
    let killed = Killed::new();
    killed.leaves(Phase::Starting);
    let processes = killed.successor().await;
    assert_eq!(processes.recover(&order()).await, Found::Interrupted);
    assert_eq!(processes.running(), 0);
    processes.admit(&order()).await.expect("an interrupted order does not block its own restart");
}

#[tokio::test]
async fn a_runner_that_may_have_no_token_is_ended_and_the_start_repeated() {
    let killed = Killed::new();
    let (mut child, pid) = runner();
    killed.leaves(Phase::Waiting(pid));
    let (processes, _) = tokio::join!(killed.successor(), child.wait());
    assert_eq!(processes.recover(&order()).await, Found::Interrupted);
    processes.forget("order-1").await;
    assert_eq!(processes.recover(&order()).await, Found::Nothing);
    assert!(killed.records.read("order-1").is_none());
}

#[tokio::test]
async fn a_runner_that_has_joined_keeps_running() {
    let killed = Killed::new();
    let (mut child, pid) = runner();
    killed.leaves(Phase::Waiting(pid));
    killed.runner_has_joined();
    let processes = killed.successor().await;
    assert_eq!(processes.recover(&order()).await, Found::Started);
    assert_eq!(processes.running(), 1);
    child.kill().await.expect("killed");
    assert_eq!(next_end(&processes).await.member, "backend");
}

#[tokio::test]
async fn an_end_that_no_host_saw_is_reported_until_it_is_forgotten() {
    let killed = Killed::new();
    let (mut child, pid) = runner();
    killed.leaves(Phase::Started(pid));
    child.kill().await.expect("killed");
    for _ in 0..2 {
        let processes = killed.successor().await;
        assert_eq!(next_end(&processes).await.request_id, "order-1");
        assert_eq!(processes.recover(&order()).await, Found::Started);
    }
    let processes = killed.successor().await;
    next_end(&processes).await;
    processes.forget("order-1").await;
    assert_eq!(killed.successor().await.recover(&order()).await, Found::Nothing);
}

#[tokio::test]
async fn a_process_that_reuses_a_runners_id_is_left_alone() {
    let killed = Killed::new();
    let (mut child, pid) = runner();
    let mut earlier = serde_json::to_value(&pid).expect("JSON");
    earlier["started"] = 1.into();
    killed.leaves(Phase::Waiting(serde_json::from_value(earlier).expect("a process")));
    let processes = killed.successor().await;
    assert_eq!(processes.recover(&order()).await, Found::Interrupted);
    assert!(pid.is_alive());
    child.kill().await.expect("killed");
}

#[tokio::test]
async fn an_interrupted_start_that_has_expired_is_cleared_away() {
    let killed = Killed::new();
    let record = Record { expires_at: SystemTime::UNIX_EPOCH, ..killed.leaves(Phase::Starting) };
    fs::create_dir_all(&record.workspace.root).expect("created");
    killed.records.save(&record).expect("saved");
    let processes = killed.successor().await;
    assert_eq!(processes.recover(&order()).await, Found::Nothing);
    assert!(!record.workspace.root.exists());
}

#[tokio::test]
async fn clearing_ends_and_removes_what_a_killed_host_left_behind() {
    let killed = Killed::new();
    let (mut child, pid) = runner();
    let running = killed.leaves(Phase::Started(pid));
    fs::create_dir_all(&running.workspace.root).expect("created");
    // Its second order was interrupted, and the third one is for the same member.
    for (id, phase) in [("order-2", Phase::Starting), ("order-3", running.phase.clone())] {
        killed.records.save(&Record { request_id: id.to_owned(), phase, ..running.clone() }).expect("saved");
    }
    let successor = killed.successor().await;
    let (cleared, ended) = tokio::join!(timeout(PATIENCE, successor.clear()), child.wait());
    cleared.expect("in time").expect("cleared");
    ended.expect("it has ended");
    assert!(killed.records.load().expect("read").is_empty());
    assert!(!running.workspace.root.exists());
}

#[tokio::test]
async fn an_order_waits_briefly_for_a_slot_before_another_host_is_tried() {
    let killed = Killed::new();
    let file = HostFile::parse("slots = 1\n[profiles.agent]\ncommand = [\"cat\"]").expect("a file");
    let at = killed.directory.path().to_owned();
    let opened = Processes::open("/nowhere/teamwire".into(), at.clone(), at, file).await;
    let processes = opened.expect("opened");
    processes.admit(&order()).await.expect("a slot");
    let other = Order { request_id: "order-2".to_owned(), member: "frontend".to_owned(), ..order() };
    let full = processes.admit(&other).await.expect_err("no slot");
    assert!(full.try_another_host && full.reason.contains("full"), "{}", full.reason);
    let waits = async { processes.admit(&other).await };
    let leaves = async { processes.release(&order()).await };
    assert_eq!(tokio::join!(waits, leaves).0, Ok(()));
}

#[tokio::test]
async fn a_start_that_fails_because_an_upgrade_removed_teamwire_leaves_nothing() {
    let killed = Killed::new();
    let processes = killed.successor().await;
    processes.admit(&order()).await.expect("admitted");
    let ticket =
        Ticket { join_token: String::new(), address: String::new(), tls: teamwire_client::TlsOptions::default() };
    let error = processes.start(&order(), ticket).await.expect_err("there is no such binary");
    assert!(error.reason.contains("there is no /nowhere/teamwire. Restart the host."), "{}", error.reason);
    processes.release(&order()).await;
    assert_eq!(processes.recover(&order()).await, Found::Nothing);
    assert!(killed.records.read("order-1").is_none());
    assert!(!killed.directory.path().join("work/backend").exists());
}
