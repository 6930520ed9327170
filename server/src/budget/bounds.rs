//! The sizes of the budgets.

use super::bucket::Rate;

/// How fast each credential may call. A burst may be used at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Messages of any kind, including broadcasts. 50 a second.
    pub sends_per_second: u32,
    /// 100.
    pub sends_burst: u32,
    /// Broadcasts. 2 a second.
    pub broadcasts_per_second: u32,
    /// 4.
    pub broadcasts_burst: u32,
    /// Calls that may change something, including sends. 500 a second.
    pub writes_per_second: u32,
    /// 2,000.
    pub writes_burst: u32,
    /// CredentialGenerations and sessions that a member begins. 10 a second.
    pub sessions_per_second: u32,
    /// 100.
    pub sessions_burst: u32,
    /// Bytes that reads return, or examine without returning them. 16 MiB a second.
    pub read_bytes_per_second: u64,
    /// 64 MiB.
    pub read_bytes_burst: u64,
    /// Refusals that are answered without a wait. 20 a second.
    pub refusals_per_second: u32,
    /// 200.
    pub refusals_burst: u32,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            sends_per_second: 50,
            sends_burst: 100,
            broadcasts_per_second: 2,
            broadcasts_burst: 4,
            writes_per_second: 500,
            writes_burst: 2_000,
            sessions_per_second: 10,
            sessions_burst: 100,
            read_bytes_per_second: 16 << 20,
            read_bytes_burst: 64 << 20,
            refusals_per_second: 20,
            refusals_burst: 200,
        }
    }
}

/// How much may be open, or wait, at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Connections of a credential. 64.
    pub connections_per_credential_max: usize,
    /// Streams and waiting calls of a credential. 128.
    pub streams_per_credential_max: usize,
    /// Reads of a credential that are carried out at once. Further ones wait. 4.
    pub reads_per_credential_max: usize,
    /// Reads that are carried out at once. Further ones wait. 32.
    pub reads_max: usize,
    /// Bytes of replies that a credential has not taken. 8 MiB.
    pub reply_bytes_per_credential_max: usize,
    /// Bytes of replies that have not been taken. 256 MiB.
    pub reply_bytes_max: usize,
    /// Bytes of requests of a credential, or of an address without one, that arrive or are carried out. 8 MiB.
    pub request_bytes_per_credential_max: usize,
    /// Bytes of requests that arrive or are carried out. Those without a valid credential have another quarter of it.
    /// 128 MiB.
    pub request_bytes_max: usize,
}

impl Shares {
    /// Returns how many bytes the requests of all clients without a valid credential may have.
    pub(super) fn strangers_request_bytes_max(&self) -> usize {
        self.request_bytes_max / 4
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            connections_per_credential_max: 64,
            streams_per_credential_max: 128,
            reads_per_credential_max: 4,
            reads_max: 32,
            reply_bytes_per_credential_max: 8 << 20,
            reply_bytes_max: 256 << 20,
            request_bytes_per_credential_max: 8 << 20,
            request_bytes_max: 128 << 20,
        }
    }
}

/// Kinds of budgets. Each has a key of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Messages.
    Sends,
    /// Broadcasts.
    Broadcasts,
    /// Calls that may change something.
    Writes,
    /// CredentialGenerations and sessions.
    Sessions,
    /// Bytes of reads.
    ReadBytes,
    /// Reads at once.
    Reads,
    /// Bytes of replies that the client has not taken.
    ReplyBytes,
    /// Bytes of requests of a credential or an address.
    RequestBytes,
    /// Streams and waiting calls.
    Streams,
    /// Connections of a credential.
    Connections,
    /// Reads and bytes of replies of all credentials.
    AllReads,
    /// Bytes of all requests.
    AllRequests,
    /// All connections.
    AllConnections,
    /// Connections of an address without a valid credential.
    Strangers,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 14] = [
        Self::Sends,
        Self::Broadcasts,
        Self::Writes,
        Self::Sessions,
        Self::ReadBytes,
        Self::Reads,
        Self::ReplyBytes,
        Self::RequestBytes,
        Self::Streams,
        Self::Connections,
        Self::AllReads,
        Self::AllRequests,
        Self::AllConnections,
        Self::Strangers,
    ];

    /// Returns the name that metrics and refusals show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sends => "sends",
            Self::Broadcasts => "broadcasts",
            Self::Writes => "writes",
            Self::Sessions => "sessions",
            Self::ReadBytes => "read_bytes",
            Self::Reads => "reads",
            Self::ReplyBytes => "reply_bytes",
            Self::RequestBytes => "request_bytes",
            Self::Streams => "streams",
            Self::Connections => "connections",
            Self::AllReads => "all_reads",
            Self::AllRequests => "all_requests",
            Self::AllConnections => "all_connections",
            Self::Strangers => "strangers",
        }
    }

    /// Returns the key of the configuration that sets the size.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Sends => "rates.sends_per_second",
            Self::Broadcasts => "rates.broadcasts_per_second",
            Self::Writes => "rates.writes_per_second",
            Self::Sessions => "rates.sessions_per_second",
            Self::ReadBytes => "rates.read_bytes_per_second",
            Self::Reads => "shares.reads_per_credential_max",
            Self::ReplyBytes => "shares.reply_bytes_per_credential_max",
            Self::RequestBytes => "shares.request_bytes_per_credential_max",
            Self::Streams => "shares.streams_per_credential_max",
            Self::Connections => "shares.connections_per_credential_max",
            Self::AllReads => "shares.reply_bytes_max",
            Self::AllRequests => "shares.request_bytes_max",
            Self::AllConnections => "network.connections_max",
            Self::Strangers => "network.strangers_per_address_max",
        }
    }
}

impl Rates {
    pub(super) fn of(&self, class: Class) -> Rate {
        match class {
            Class::Sends => Rate::new(self.sends_per_second, self.sends_burst),
            Class::Broadcasts => Rate::new(self.broadcasts_per_second, self.broadcasts_burst),
            Class::Writes => Rate::new(self.writes_per_second, self.writes_burst),
            Class::Sessions => Rate::new(self.sessions_per_second, self.sessions_burst),
            _ => Rate::new(self.read_bytes_per_second, self.read_bytes_burst),
        }
    }

    pub(super) fn refusals(&self) -> Rate {
        Rate::new(self.refusals_per_second, self.refusals_burst)
    }
}
