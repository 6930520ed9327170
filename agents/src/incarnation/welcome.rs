//! Builds the welcome, the text that a program reads first.

use std::time::Duration;

use teamwire_client::Retry;
use teamwire_proto::v1;
use tokio::time::timeout;

use super::Incarnation;
use crate::line_protocol::input_lines::{self, Welcome};

/// How long a program waits for the roster. Without one, its welcome names no other members.
const ROSTER_DEADLINE: Duration = Duration::from_secs(2);

/// How many members the welcome names. It only counts further ones.
const ROSTER_PAGE_SIZE: u32 = 200;

impl Incarnation<'_> {
    /// Returns what a program reads first: its name, the other members, and how to answer.
    pub(crate) async fn welcome(&self) -> Welcome {
        let client = self.client.clone().with_retry(Retry::none());
        let request = v1::ListMembersRequest { page_size: ROSTER_PAGE_SIZE, ..Default::default() };
        let roster = tokio::select! {
            roster = timeout(ROSTER_DEADLINE, client.list_members(request)) => roster.ok().and_then(Result::ok),
            () = self.stop.cancelled() => None,
        };
        input_lines::welcome(&self.joined, roster.as_ref(), self.config.mode.interface())
    }
}
