//! The one table of keys: the type and bounds of each, and the setting it sets.

use std::{path::PathBuf, time::Duration};

use super::{
    Settings,
    value::{Kind, Value},
};

/// The prefix of the keys' environment variables.
const PREFIX: &str = "TEAMWIRE_";

/// A key of the configuration.
pub(super) struct Key {
    /// `KEY`, or `SECTION.KEY`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Stores a value of this kind within its bounds.
    put: fn(&mut Settings, Value),
}

impl Key {
    /// Returns the section, if any, and the key within it.
    pub(super) fn path(&self) -> (Option<&'static str>, &'static str) {
        self.name.split_once('.').map_or((None, self.name), |(section, key)| (Some(section), key))
    }

    /// Returns the key's environment variable.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    pub(super) fn put(&self, settings: &mut Settings, value: Value) {
        (self.put)(settings, value);
    }
}

/// Returns whether a variable names a section, and so must be a key: `TEAMWIRE_LIMITS_X`, but not `TEAMWIRE_TEAM`.
pub(super) fn names_a_section(variable: &str) -> bool {
    let mut sections = KEYS.iter().filter_map(|key| key.path().0);
    let Some(rest) = variable.strip_prefix(PREFIX) else { return false };
    sections.any(|section| rest.strip_prefix(&section.to_ascii_uppercase()).is_some_and(|rest| rest.starts_with('_')))
}

/// Declares keys: name, kind with bounds, and the field to set.
macro_rules! keys {
    ($($name:literal: $kind:ident $(($($bounds:tt)*))? => $($field:ident).+;)*) => {
        &[$(Key {
            name: $name,
            kind: kind!($kind $(($($bounds)*))?),
            put: |settings, value| settings.$($field).+ = take!($kind value),
        },)*]
    };
}

macro_rules! kind {
    (Millis($min:literal..=$max:literal)) => {
        Kind::Duration(Duration::from_millis($min)..=Duration::from_millis($max))
    };
    (Seconds($min:literal..=$max:literal)) => {
        Kind::Duration(Duration::from_secs($min)..=Duration::from_secs($max))
    };
    (Kib($min:literal..=$max:literal)) => {
        Kind::Size($min * 1_024..=$max * 1_024)
    };
    (Rate) => {
        Kind::Number(1..=1_000_000)
    };
    (File) => {
        Kind::Text
    };
    ($kind:ident($($bounds:tt)*)) => {
        Kind::$kind($($bounds)*)
    };
    ($kind:ident) => {
        Kind::$kind
    };
}

/// Extracts the value that a kind has parsed; other variants cannot occur.
macro_rules! take {
    (Text $value:ident) => { match $value { Value::Text(text) => text, _ => return } };
    (Choice $value:ident) => { take!(Text $value) };
    (File $value:ident) => { Some(PathBuf::from(take!(Text $value))).filter(|path| !path.as_os_str().is_empty()) };
    (List $value:ident) => { match $value { Value::List(texts) => texts, _ => return } };
    (Flag $value:ident) => { match $value { Value::Flag(flag) => flag, _ => return } };
    (Millis $value:ident) => { match $value { Value::Duration(duration) => duration, _ => return } };
    (Seconds $value:ident) => { take!(Millis $value) };
    (Rate $value:ident) => {
        match $value { Value::Number(number) => number as u32, _ => return }
    };
    // Every upper bound fits the field's type.
    ($kind:ident $value:ident) => { match $value { Value::Number(number) => number as _, _ => return } };
}

/// Every key, in the order of the default file.
pub(super) const KEYS: &[Key] = keys! {
    "listen": Text => listen;
    "socket": File => socket;
    "socket_group": Text => socket_group;
    "store": Text => store;
    "advertise": List => advertise;
    "insecure_no_tls": Flag => insecure_no_tls;
    "operator_credential": File => operator_credential;
    "operator_grace": Seconds(0..=604_800) => operator_grace;
    "health": Text => health;
    "metrics": Text => metrics;
    "metrics_teams": Flag => metrics_teams;
    "metrics_members_max": Number(0..=10_000) => metrics_members_max;
    "log": Text => log;
    "log_format": Choice(&["text", "json"]) => log_format;
    "tls.cert": File => tls_cert;
    "tls.key": File => tls_key;
    "tls.client_ca": File => tls_client_ca;
    "tls.reload_interval": Millis(100..=86_400_000) => tls_reload_interval;
    "web.origins": List => web_origins;
    "usage.prices": List => usage_prices;
    "console.enabled": Choice(&["auto", "on", "off"]) => console_enabled;
    "console.hosts": List => console_hosts;
    "mcp.enabled": Flag => mcp_enabled;
    "network.connections_max": Number(1..=100_000) => edge.connections_max;
    "network.reserved_percent": Number(0..=50) => edge.reserved_percent;
    "network.strangers_per_address_max": Number(1..=100_000) => edge.strangers_per_address_max;
    "network.handshake_timeout": Millis(10..=600_000) => edge.handshake_timeout;
    "network.authentication_timeout": Millis(10..=600_000) => edge.authentication_timeout;
    "network.keepalive_interval": Seconds(1..=3_600) => edge.keepalive_interval;
    "network.keepalive_timeout": Seconds(1..=600) => edge.keepalive_timeout;
    "network.streams_max": Number(1..=10_000) => edge.streams_max;
    "network.header_bytes_max": Kib(1..=1_024) => edge.header_bytes_max;
    "network.request_bytes_max": Kib(2..=16_384) => edge.request_bytes_max;
    "network.request_timeout": Millis(100..=600_000) => edge.request_timeout;
    "network.pending_resets_max": Number(1..=10_000) => edge.pending_resets_max;
    "network.error_resets_max": Number(1..=100_000) => edge.error_resets_max;
    "rates.sends_per_second": Rate => rates.sends_per_second;
    "rates.sends_burst": Rate => rates.sends_burst;
    "rates.broadcasts_per_second": Rate => rates.broadcasts_per_second;
    "rates.broadcasts_burst": Rate => rates.broadcasts_burst;
    "rates.writes_per_second": Rate => rates.writes_per_second;
    "rates.writes_burst": Rate => rates.writes_burst;
    "rates.sessions_per_second": Rate => rates.sessions_per_second;
    "rates.sessions_burst": Rate => rates.sessions_burst;
    "rates.read_bytes_per_second": Kib(64..=16_777_216) => rates.read_bytes_per_second;
    "rates.read_bytes_burst": Kib(64..=16_777_216) => rates.read_bytes_burst;
    "rates.refusals_per_second": Rate => rates.refusals_per_second;
    "rates.refusals_burst": Rate => rates.refusals_burst;
    "shares.connections_per_credential_max": Number(1..=100_000) => shares.connections_per_credential_max;
    "shares.streams_per_credential_max": Number(1..=100_000) => shares.streams_per_credential_max;
    "shares.reads_per_credential_max": Number(1..=1_000) => shares.reads_per_credential_max;
    "shares.reads_max": Number(1..=10_000) => shares.reads_max;
    "shares.reply_bytes_per_credential_max": Kib(1_024..=2_097_152) => shares.reply_bytes_per_credential_max;
    "shares.reply_bytes_max": Kib(8_192..=67_108_864) => shares.reply_bytes_max;
    "shares.request_bytes_per_credential_max": Kib(256..=2_097_152) => shares.request_bytes_per_credential_max;
    "shares.request_bytes_max": Kib(1_024..=67_108_864) => shares.request_bytes_max;
    "delivery.heartbeat_interval": Millis(100..=600_000) => pace.heartbeat_interval;
    "delivery.write_timeout": Millis(100..=3_600_000) => pace.write_timeout;
    "delivery.stream_age": Seconds(1..=604_800) => pace.stream_age;
    "drain.grace": Seconds(0..=3_600) => drain_grace;
    "drain.hard_stop": Seconds(0..=3_600) => hard_stop;
    "limits.content_bytes_max": Kib(1..=8_192) => limits.content_bytes_max;
    "limits.summary_chars_max": Number(1..=10_000) => limits.summary_chars_max;
    "limits.attachments_max": Number(0..=1_000) => limits.attachments_max;
    "limits.inbox_entries_max": Number(1..=1_000_000) => limits.inbox_entries_max;
    "limits.inbox_bytes_max": Kib(64..=1_048_576) => limits.inbox_bytes_max;
    "limits.inbox_notices_max": Number(1..=10_000) => limits.inbox_notices_max;
    "limits.notice_interval": Millis(0..=3_600_000) => limits.notice_interval;
    "limits.digest_interval": Seconds(1..=86_400) => limits.digest_interval;
    "limits.members_max": Number(1..=1_000) => limits.members_max;
    "limits.deliveries_max": Number(1..=100) => limits.deliveries_max;
    "limits.unacked_messages_max": Number(1..=10_000) => limits.unacked_messages_max;
    "limits.unacked_bytes_max": Kib(1..=262_144) => limits.unacked_bytes_max;
    "limits.lease_ttl": Seconds(10..=3_600) => limits.lease_ttl;
    "limits.lost_grace": Seconds(0..=86_400) => limits.lost_grace;
    "limits.exit_alarm_after": Seconds(1..=3_600) => limits.exit_alarm_after;
    "limits.unprocessed_alarm_after": Seconds(1..=2_592_000) => limits.unprocessed_alarm_after;
    "limits.history_ttl": Seconds(3_600..=315_360_000) => limits.history_ttl;
    "limits.team_bytes_max": Kib(256..=1_073_741_824) => limits.team_bytes_max;
    "limits.exited_member_ttl": Seconds(1..=31_536_000) => limits.exited_member_ttl;
    "limits.completed_task_ttl": Seconds(1..=31_536_000) => limits.completed_task_ttl;
    "limits.deleted_task_ttl": Seconds(1..=31_536_000) => limits.deleted_task_ttl;
    "limits.retention_interval": Seconds(1..=86_400) => limits.retention_interval;
    "limits.shutdown_deadline": Seconds(1..=86_400) => limits.shutdown_deadline;
    "limits.plan_deadline": Seconds(1..=2_592_000) => limits.plan_deadline;
    "limits.permission_deadline": Seconds(1..=2_592_000) => limits.permission_deadline;
    "limits.pending_permissions_max": Number(1..=64) => limits.pending_permissions_max;
    "limits.spawn_deadline": Seconds(1..=3_600) => limits.spawn_deadline;
    "limits.join_token_ttl": Seconds(1..=2_592_000) => limits.join_token_ttl;
    "limits.open_tasks_max": Number(1..=100_000) => limits.open_tasks_max;
    "limits.task_dependencies_max": Number(0..=1_000) => limits.task_dependencies_max;
    "limits.board_dependencies_max": Number(0..=200_000) => limits.board_dependencies_max;
    "limits.claims_max": Number(1..=1_000) => limits.claims_max;
    "limits.claim_ttl": Seconds(1..=31_536_000) => limits.claim_ttl;
    "limits.observer_ttl": Seconds(1..=31_536_000) => limits.observer_ttl;
    "limits.audit_ttl": Seconds(3_600..=315_360_000) => limits.audit_ttl;
    "limits.audit_chain_bytes_max": Kib(64..=1_048_576) => limits.audit_chain_bytes_max;
    "limits.audit_interval": Seconds(1..=86_400) => limits.audit_interval;
};
