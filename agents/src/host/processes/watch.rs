//! Waits until a runner exits, and says how it exited.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::ExitStatus,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;
use teamwire_proto::v1;
use tokio::{
    process::Child,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{Processes, record::Record};
use crate::{host::Ended, process::Pid};

/// How often the host checks the size of a log.
const BOUND_EVERY: Duration = Duration::from_secs(1);

/// How long after the order's deadline the host kills a runner that has not joined. Such a runner exits by itself
/// unless it hangs.
const JOIN_GRACE: Duration = Duration::from_secs(10);

/// Watches a runner until it exits. `child`: the process, if this process started it.
pub(super) async fn watch(processes: Processes, record: Record, pid: Pid, child: Option<Child>) {
    let log = processes.log(&record.member);
    let mut bound = interval(BOUND_EVERY);
    bound.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let late = record.expires_at.duration_since(SystemTime::now()).unwrap_or_default() + JOIN_GRACE;
    let end = end(child, &pid);
    tokio::pin!(end);
    let expiry = sleep(late);
    tokio::pin!(expiry);
    let mut may_hang = true;
    let status = loop {
        tokio::select! {
            status = &mut end => break status,
            _ = bound.tick() => log.bound(),
            () = &mut expiry, if may_hang => {
                may_hang = false;
                if !processes.0.records.has_joined(&record.request_id) {
                    pid.signal(Signal::SIGKILL);
                }
            }
        }
    };
    processes.0.table.end(ended(&processes, &record, status));
}

/// Returns the end of a runner. `status`: None if it is not known.
pub(super) fn ended(processes: &Processes, record: &Record, status: Option<ExitStatus>) -> Ended {
    let lines = processes.log(&record.member).last_lines(record.log_begins_at);
    Ended {
        request_id: record.request_id.clone(),
        member: record.member.clone(),
        exit: report(status),
        reason: reason(status, &lines),
        try_another_host: false,
    }
}

/// Waits for the end of a process. `None` if its status is not known.
async fn end(child: Option<Child>, pid: &Pid) -> Option<ExitStatus> {
    match child {
        Some(mut child) => child.wait().await.ok(),
        None => {
            pid.gone().await;
            None
        }
    }
}

/// Returns the exit report for the coordinator, in case the runner has not sent one.
fn report(status: Option<ExitStatus>) -> v1::ExitReport {
    let detail = match status.map(|status| status.signal()) {
        Some(Some(signal)) => format!("Signal {signal} killed its runner."),
        Some(None) => "Its runner ended without a report.".to_owned(),
        None => "Its runner ended, and its host did not see how.".to_owned(),
    };
    v1::ExitReport {
        code: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()).unwrap_or_default(),
        detail,
        ..v1::ExitReport::default()
    }
}

/// Returns why the member never opened a session: a sentence, then the last lines of its log.
fn reason(status: Option<ExitStatus>, lines: &[String]) -> String {
    let how = match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("with exit code {code}"),
        Some((None, signal)) => format!("by signal {}", signal.unwrap_or_default()),
        None => "while its host was not running".to_owned(),
    };
    let Some(last) = lines.last() else { return format!("Its runner ended {how} before it had connected.") };
    let last = last.trim();
    let last = ["teamwire: ", "error: "].iter().find_map(|prefix| last.strip_prefix(prefix)).unwrap_or(last);
    format!("Its runner ended {how} before it had connected: {last}\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_begins_with_the_runners_exit_and_its_last_line() {
        let lines = ["teamwire: joined".to_owned(), "error: no such model".to_owned()];
        let said = reason(Some(ExitStatus::from_raw(3 << 8)), &lines);
        assert_eq!(
            said.lines().next(),
            Some("Its runner ended with exit code 3 before it had connected: no such model")
        );
        assert!(said.ends_with("teamwire: joined\nerror: no such model"), "{said}");
        assert_eq!(reason(Some(ExitStatus::from_raw(9)), &[]), "Its runner ended by signal 9 before it had connected.");
    }
}
