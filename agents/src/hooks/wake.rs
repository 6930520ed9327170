//! Waits beside an idle session, and wakes it when a message arrives.

use std::{io, process, time::Duration};

use nix::unistd::getppid;
use teamwire_client::{Error, v1};
use tokio::time::{sleep, timeout};

use super::{DEADLINE, HookCall, Hooks, PAGE_SIZE};

/// How often to check the inbox. The first check also waits this long, so that the hook at the end of the same turn
/// goes first.
const PAUSE: Duration = Duration::from_secs(2);

impl Hooks {
    /// Waits until messages have arrived that the session has not been given. Returns the text that wakes it, or None
    /// if it needs no waking any more: it has ended, or another process waits for it.
    pub async fn wait_to_wake(&self, call: &HookCall) -> io::Result<Option<&'static str>> {
        let (program, waiter) = (getppid(), process::id());
        if call.is_subagent {
            return Ok(None);
        }
        self.sessions.update(|file| file.set_waiter(&call.session_id, waiter))?;
        loop {
            sleep(PAUSE).await;
            let may_wake = self.sessions.read().may_wake(&call.session_id, waiter);
            let Some(may_wake) = may_wake.filter(|_| getppid() == program) else { return Ok(None) };
            if !may_wake {
                continue;
            }
            let request = v1::ListInboxRequest { page_size: PAGE_SIZE, ..v1::ListInboxRequest::default() };
            match timeout(DEADLINE, self.client.list_inbox(request)).await {
                Ok(Ok(inbox)) if self.sessions.read().waiting(&call.session_id, &inbox).is_empty() => {}
                Ok(Ok(_)) => return Ok(Some(super::text::WAKE)),
                Ok(Err(Error::Refused(_))) => return Ok(None),
                // The coordinator is unreachable, and may come back.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }
}
