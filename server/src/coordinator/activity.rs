//! Activity: reports of members' programs, and reading them, page by page or as they come.

use std::time::Duration;

use teamwire_proto::{Method, Refusal, Wait, credential::Credential, name::Name, v1};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Coordinator,
    decide::Touches,
    keys::{member_key, usual_keys},
    store_errors::corrupt,
};
use crate::{
    domain::{
        activity::{self, Shown},
        fields::wait,
        identity::{CallerCredentials, namespace_of},
        page::{self, page_size},
        query::check_cursor,
        records::{ActivityRecord, RecordType as _, TeamSpendingRecord},
        streams,
    },
    store::{Extent, Key, Range},
};

/// How long a call waits for a line.
const WAIT: Wait = Method::ListActivity.wait().expect("a call that waits");

/// How often a waiting call reads without a notification, in case one was lost.
const POLL: Duration = Duration::from_secs(2);

impl Coordinator {
    /// See `TeamService.ReportActivity`.
    pub async fn report_activity(
        &self,
        who: &CallerCredentials,
        request: &v1::ReportActivityRequest,
    ) -> Result<v1::ReportActivityResponse, Refusal> {
        let namespace = namespace_of(who, "")?;
        let (mut keys, mut kept) = (usual_keys(who), Extent { next: 1, entries: 0, weight: 0 });
        if let Credential::Member { member, .. } = &who.credential {
            keys.push(member_key::<ActivityRecord>(member));
            keys.push(Key::new(TeamSpendingRecord::KIND, ""));
            kept = self.extent(&namespace, &streams::activity(member)).await?;
        }
        let (used, budgets) =
            self.decide_for(who, &namespace, &keys, |tx| activity::report(tx, who, request, kept)).await?.value;
        if let Credential::Member { team, member, .. } = &who.credential {
            self.metrics.usage.add(team, member, used);
        }
        Ok(v1::ReportActivityResponse { budgets })
    }

    /// See `TeamService.ListActivity`.
    pub async fn list_activity(
        &self,
        who: &CallerCredentials,
        request: &v1::ListActivityRequest,
    ) -> Result<v1::ListActivityResponse, Refusal> {
        let timeout = wait(WAIT, request.wait.as_ref())?;
        let size = page_size(request.page_size)?;
        let after = page::number(&request.page_token)?.unwrap_or(request.after_sequence);
        let deadline = Instant::now() + timeout;
        let namespace = namespace_of(who, &request.team)?;
        let member = self.subject(who, request).await?;
        let mut watch = self.notifier.watch_activity(&namespace, &member);
        loop {
            watch.mark_unchanged();
            let entries = self.entries(&namespace, &streams::activity(&member), Range::after(after, size + 1)).await?;
            let Shown { lines, last_sequence, has_more } = activity::show(entries, after, size)
                .map_err(|error| corrupt(&namespace, &format!("activity of {member}: {error}")))?;
            let seen = request.after_sequence;
            if lines.is_empty() && seen > 0 && request.page_token.is_empty() {
                let extent = self.extent(&namespace, &streams::activity(&member)).await?;
                check_cursor(seen, extent.next.saturating_sub(1))?;
            }
            if !lines.is_empty() || Instant::now() >= deadline {
                let next_page_token = if has_more { page::token(last_sequence) } else { String::new() };
                return Ok(v1::ListActivityResponse { lines, last_sequence, next_page_token });
            }
            tokio::select! {
                _ = watch.changed() => {}
                () = sleep(POLL) => {}
                () = sleep_until(deadline) => {}
            }
            // The caller's credential may have ended while it waited, or the member been removed.
            self.subject(who, request).await?;
        }
    }

    /// Returns the member whose activity the caller asks for.
    async fn subject(&self, who: &CallerCredentials, request: &v1::ListActivityRequest) -> Result<Name, Refusal> {
        let v1::ListActivityRequest { team, member, .. } = request;
        self.rule(who, team, Touches::Team, |tx| activity::subject(tx, who, team, member)).await
    }
}
