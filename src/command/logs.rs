//! `teamwire logs`: shows or follows what a member's program does.

use clap::Args;
use teamwire_client::{HistoryFollower, v1};
use teamwire_proto::{v1::history_entry::Event, word};

use super::{
    Output,
    waiting::{goes_on, last_sequence},
};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::Failure,
    show,
};

/// Show or follow what a member's program does: tool calls, text, starts and exits
///
/// The member's runner reports one line for each thing that its program does. The coordinator keeps each member's last
/// 200 lines, across all its lives. Every member of the team can see them. With --follow, the command also shows
/// changes to the member's state. When a life ends, the command waits for the next one.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire logs backend\n    teamwire logs backend --follow\n    teamwire logs backend -n 200 --json > backend.jsonl"
)]
pub(super) struct Logs {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Keep printing new lines until interrupted
    #[arg(long, short)]
    follow: bool,
    /// How many of the latest lines to show
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    lines: usize,
    #[command(flatten)]
    pub output: Output,
}

impl Logs {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        // Before the lines, so that no change is missed between them and the history.
        let changes = if self.follow { Some(self.changes(&caller).await?) } else { None };
        let request = v1::ListActivityRequest { member: self.member.clone(), ..v1::ListActivityRequest::default() };
        let kept = caller.client.list_all_activity(request.clone(), usize::MAX).await?;
        let mut printer = Printer { json: self.output.json, incarnation: 0 };
        printer.lines(&kept.lines[kept.lines.len().saturating_sub(self.lines)..]);
        let Some(changes) = changes else {
            if kept.lines.is_empty() && !self.output.json {
                anstream::eprintln!("{}", self.silence(&caller).await?);
            }
            return Ok(());
        };
        let request = v1::ListActivityRequest { after_sequence: kept.last_sequence, ..request };
        tokio::select! {
            failed = follow(&caller, request, changes, printer) => failed,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }

    /// Says why there are no lines.
    async fn silence(&self, caller: &Caller) -> Result<String, Failure> {
        let member = caller.find_member(&self.member).await?.unwrap_or_default();
        let silent = format!("{} has not reported any activity.", self.member);
        Ok(match &member.exit {
            _ if !member.pending_order.is_empty() => format!(
                "{} was ordered from {}, and has not started yet. `teamwire requests {} --wait` waits for it.",
                member.name, member.spawned_on, member.pending_order
            ),
            Some(exit) => format!("{silent} It exited: {}.", show::plain(&word::exit(exit))),
            None => silent,
        })
    }

    /// Follows the history of the member from now on.
    async fn changes(&self, caller: &Caller) -> Result<HistoryFollower, Failure> {
        let after_sequence = last_sequence(caller).await?;
        let filter = v1::HistoryFilter { member: self.member.clone(), ..v1::HistoryFilter::default() };
        let request =
            v1::FollowHistoryRequest { filter: Some(filter), after_sequence, ..v1::FollowHistoryRequest::default() };
        Ok(caller.client.follow_history(request))
    }
}

/// Prints lines and changes as they come.
async fn follow(
    caller: &Caller,
    request: v1::ListActivityRequest,
    mut changes: HistoryFollower,
    mut printer: Printer,
) -> Result<(), Failure> {
    let mut lines = caller.client.follow_activity(request);
    loop {
        let entry = tokio::select! {
            found = lines.next() => {
                match found {
                    Err(error) if goes_on(&error) => {}
                    found => printer.lines(&found?),
                }
                continue;
            }
            entry = changes.next() => entry,
        };
        let entry = match entry {
            None => return Ok(()),
            // What the member did is followed by itself.
            Some(Err(error)) if error.store_end().is_some() => continue,
            Some(entry) => entry?,
        };
        if let Some(Event::Member(_)) = &entry.event {
            // A runner reports its last lines before the end of the life.
            printer.lines(&lines.next_now().await?);
            printer.change(&entry);
        }
    }
}

/// Prints lines, and where another life begins.
struct Printer {
    json: bool,
    /// The life of the last line. Zero if there was none.
    incarnation: u64,
}

impl Printer {
    fn lines(&mut self, lines: &[v1::ActivityLine]) {
        for line in lines {
            if self.json {
                show::line(&show::json("ActivityLine", line));
                continue;
            }
            if self.incarnation != line.incarnation && self.incarnation != 0 {
                anstream::println!("{}", show::paint(show::dim(), format!("--- life {} ---", line.incarnation)));
            }
            self.incarnation = line.incarnation;
            show::activity_line(line);
        }
    }

    fn change(&self, entry: &v1::HistoryEntry) {
        if self.json {
            show::line(&show::entry_json(entry));
        } else {
            show::entry(entry, None);
        }
    }
}
