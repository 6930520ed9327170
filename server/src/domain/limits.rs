//! The bounds of the rules. All in one place, with their defaults.

use std::time::Duration;

use super::price::Prices;

/// The bounds of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many bytes the content of a message may have. 64 KiB.
    pub content_bytes_max: usize,
    /// How many characters a summary may have. 200.
    pub summary_chars_max: usize,
    /// How many attachments a message may have. 16.
    pub attachments_max: usize,
    /// How many messages an inbox may hold, not counting notices. 1,000. Answers and permission requests may
    /// fill it to twice that, shutdown requests and their answers to three times that.
    pub inbox_entries_max: u64,
    /// How many bytes of messages an inbox may hold, not counting notices. 8 MiB. Answers and permission requests: up
    /// to twice that; shutdown requests and their answers: up to three times that.
    pub inbox_bytes_max: u64,
    /// How many notices an inbox may hold, besides the messages. 200.
    pub inbox_notices_max: usize,
    /// How long a notice stays in an inbox before a newer one of the same kind about the same thing replaces it. 10 s.
    pub notice_interval: Duration,
    /// How long unimportant notices are gathered for members that want a digest. 5 min.
    pub digest_interval: Duration,
    /// How many members a team may have, including those that have exited. 256.
    pub members_max: usize,
    /// How many sessions may deliver a message without getting an acknowledgement before it becomes a dead letter. 5.
    pub deliveries_max: usize,
    /// How many messages may be unacknowledged in a session. 64. A pending shutdown request is delivered beyond it.
    pub unacked_messages_max: u64,
    /// How many bytes of messages may be unacknowledged in a session. 1 MiB. A pending shutdown request is delivered
    /// beyond it.
    pub unacked_bytes_max: u64,
    /// How long a member counts as alive after its last heartbeat. 30 s.
    pub lease_ttl: Duration,
    /// How long after the end of its lease a member is declared lost. 15 s.
    pub lost_grace: Duration,
    /// How long after its approved shutdown a member that has not exited is reported to the lead. 30 s.
    pub exit_alarm_after: Duration,
    /// How long a message may lie unprocessed in an inbox before the lead gets a notice. 10 min.
    pub unprocessed_alarm_after: Duration,
    /// How long the history, processed messages, their receipts and decided requests are kept. 30 days.
    pub history_ttl: Duration,
    /// How many bytes a team may hold in the store. 1 GiB. See [`quota`](super::quota).
    pub team_bytes_max: u64,
    /// How long a member that has exited stays in the roster. 7 days.
    pub exited_member_ttl: Duration,
    /// How long a completed task stays on the board. 30 days.
    pub completed_task_ttl: Duration,
    /// How long a deleted task is kept. 24 h.
    pub deleted_task_ttl: Duration,
    /// How often the retention worker visits each team. 60 s.
    pub retention_interval: Duration,
    /// How long a shutdown request stays open by default. 10 min.
    pub shutdown_deadline: Duration,
    /// How long a plan stays open by default. 24 h.
    pub plan_deadline: Duration,
    /// How long a permission request stays open by default. 10 min.
    pub permission_deadline: Duration,
    /// How many permission requests of a member may be pending at a time. 16.
    pub pending_permissions_max: usize,
    /// How long the start of a member that is ordered from a host may take by default. 60 s.
    pub spawn_deadline: Duration,
    /// How long a join token is valid by default. 15 min.
    pub join_token_ttl: Duration,
    /// How many tasks of a team may be neither completed nor deleted. 10,000.
    pub open_tasks_max: u64,
    /// How many other tasks a task may wait for. 64.
    pub task_dependencies_max: usize,
    /// How many dependencies between open tasks a team may have in all. 20,000.
    pub board_dependencies_max: usize,
    /// How many tasks a member may have claimed at a time. 32.
    pub claims_max: usize,
    /// How long a claim of a detached life lasts. 24 h.
    pub claim_ttl: Duration,
    /// How long an observer's credential is valid by default. 24 h.
    pub observer_ttl: Duration,
    /// How long entries of the audit log are kept. 90 days.
    pub audit_ttl: Duration,
    /// How many bytes a chain of the audit log may have; the oldest entries are removed first. 16 MiB.
    pub audit_chain_bytes_max: u64,
    /// For how long repeated calls are counted before the audit log gets an entry for all of them. 10 min.
    pub audit_interval: Duration,
    /// What models cost, for programs that report no cost. None by default.
    pub prices: Prices,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            content_bytes_max: 64 * 1024,
            summary_chars_max: 200,
            attachments_max: 16,
            inbox_entries_max: 1_000,
            inbox_bytes_max: 8 * 1024 * 1024,
            inbox_notices_max: 200,
            notice_interval: Duration::from_secs(10),
            digest_interval: Duration::from_secs(5 * 60),
            members_max: 256,
            deliveries_max: 5,
            unacked_messages_max: 64,
            unacked_bytes_max: 1024 * 1024,
            lease_ttl: Duration::from_secs(30),
            lost_grace: Duration::from_secs(15),
            exit_alarm_after: Duration::from_secs(30),
            unprocessed_alarm_after: Duration::from_secs(10 * 60),
            history_ttl: Duration::from_secs(30 * 24 * 60 * 60),
            team_bytes_max: 1024 * 1024 * 1024,
            exited_member_ttl: Duration::from_secs(7 * 24 * 60 * 60),
            completed_task_ttl: Duration::from_secs(30 * 24 * 60 * 60),
            deleted_task_ttl: Duration::from_secs(24 * 60 * 60),
            retention_interval: Duration::from_secs(60),
            shutdown_deadline: Duration::from_secs(10 * 60),
            plan_deadline: Duration::from_secs(24 * 60 * 60),
            permission_deadline: Duration::from_secs(10 * 60),
            pending_permissions_max: 16,
            spawn_deadline: Duration::from_secs(60),
            join_token_ttl: Duration::from_secs(15 * 60),
            open_tasks_max: 10_000,
            task_dependencies_max: 64,
            board_dependencies_max: 20_000,
            claims_max: 32,
            claim_ttl: Duration::from_secs(24 * 60 * 60),
            observer_ttl: Duration::from_secs(24 * 60 * 60),
            audit_ttl: Duration::from_secs(90 * 24 * 60 * 60),
            audit_chain_bytes_max: 16 * 1024 * 1024,
            audit_interval: Duration::from_secs(10 * 60),
            prices: Prices::default(),
        }
    }
}
