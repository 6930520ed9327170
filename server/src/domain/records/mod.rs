//! What is stored of a team: one struct per kind of record.
//!
//! Messages and requests are stored in their protocol form; everything else as JSON, so that the store's tools can show
//! it and it can gain fields without a migration. The records of the task board are in `task/board.rs`.

mod activity;
mod alerts;
mod audit;
mod credentials;
mod host;
mod notices;
mod permission_rules;
mod presence;
mod quota;
mod receipt;
pub(in crate::domain) mod record_type;
mod runner_query;
mod same_files;
mod session;
mod spending;
mod subscriptions;
mod team;

pub use activity::{ActivityRecord, Bound, Failed, LastTurnRecord, Program, ToolCall, WorkRecord};
pub use alerts::{AlertSlot, AlertsRecord, OutgoingAlert};
pub use audit::{ChainRecord, OperatorMarkRecord};
pub use credentials::{
    ActsFor, ConsoleRecord, JoinTokenRecord, ObserverRecord, SignInCodeRecord, SignInPurpose, SignInsRecord,
};
pub use host::{HostRecord, ProfileRecord};
pub use notices::{DueNoticesRecord, NoticeLevel, NoticeSlot, NoticesRecord, SentNotice, WaitingNotice};
pub use permission_rules::{Extent, PermissionRulesRecord, RuleRecord};
pub use presence::PresenceRecord;
pub use quota::QuotaRecord;
pub use receipt::{ReceiptRecord, UnprocessedRecord, receipt_id};
pub use record_type::RecordType;
pub use runner_query::{RunnerQueriesRecord, WaitingQuery};
pub use same_files::{ChangedFilesRecord, FileChange, OwnChangesRecord, ToldFilesRecord};
pub use session::{CursorRecord, SessionEnd, SessionRecord, is_lost};
pub use spending::TeamSpendingRecord;
pub use subscriptions::{Event, SubscribersRecord, Subscription, SubscriptionsRecord};
pub use team::{
    Attributes, EndCause, Exit, Life, ListedTeam, MemberRecord, Ordered, Pending, RecordedLives, TeamRecord,
};
