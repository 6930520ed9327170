//! The rhythm of sessions.

use std::time::Duration;

/// The rhythm of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The longest silence between two frames. 10 s.
    pub heartbeat_interval: Duration,
    /// How long a client may take no frame while one is waiting. 30 s.
    pub write_timeout: Duration,
    /// How long a stream lives at most; a tenth more or less. 45 min.
    pub stream_age: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            stream_age: Duration::from_secs(45 * 60),
        }
    }
}
