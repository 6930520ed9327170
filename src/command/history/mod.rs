//! `teamwire history`: shows or follows a team's history.

pub(in crate::command) mod export;

use std::path::PathBuf;

use clap::Args;
use teamwire_client::v1;

use super::{Output, waiting::goes_on};
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// Show or follow the team's history: messages, decisions, members and tasks
///
/// Prints the newest entries in chronological order. Each message is shown with its state for every recipient.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire history --follow\n    teamwire history --search \"schema\" -n 10\n    teamwire history --export history.jsonl --resume"
)]
pub(super) struct History {
    /// Keep printing new entries until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Only entries that this member sent, received or decided, or that are about this member
    #[arg(long, short)]
    member: Option<String>,
    /// Only messages
    #[arg(long)]
    messages: bool,
    /// Only entries that contain this text (case-insensitive) in their messages, answers, requests, tasks or details
    #[arg(long, short, value_name = "TEXT", default_value = "", hide_default_value = true)]
    search: String,
    /// How many entries to show
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    limit: u32,
    /// Show the whole history, from the first entry
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Write the whole history to this file, one JSON object per line; only you can read the file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["limit", "all", "follow"])]
    export: Option<PathBuf>,
    /// Continue the file of an earlier --export, after its last entry
    #[arg(long, requires = "export", conflicts_with = "force")]
    resume: bool,
    /// Replace the --export file if it exists
    #[arg(long, requires = "export")]
    force: bool,
    #[command(flatten)]
    pub output: Output,
}

impl History {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let own = caller.member.as_deref();
        let filter = v1::HistoryFilter {
            member: self.member.clone().unwrap_or_default(),
            messages_only: self.messages,
            include_receipts: true,
            text: self.search.clone(),
        };
        if let Some(path) = &self.export {
            let (written, last) = export::export(&caller.client, filter, path, self.resume, self.force).await?;
            if self.output.json {
                show::line(&serde_json::json!({ "entries": written, "last_sequence": last }));
            } else {
                let entries = show::count(written, "entry");
                anstream::println!("{} has {entries} more, up to sequence {last}.", path.display());
            }
            return Ok(());
        }
        let mut request = v1::ListHistoryRequest {
            filter: Some(filter.clone()),
            newest: !self.all,
            ..v1::ListHistoryRequest::default()
        };
        let at_once = if self.all { 1_000 } else { self.limit as usize };
        let after_sequence = loop {
            let page = caller.client.list_all_history(request.clone(), at_once).await?;
            page.entries.iter().for_each(|entry| self.print(entry, own));
            request.page_token = page.next_page_token;
            if !self.all || request.page_token.is_empty() {
                break page.last_sequence;
            }
        };
        if !self.follow {
            return Ok(());
        }
        let filter = v1::HistoryFilter { include_receipts: false, ..filter };
        let request =
            v1::FollowHistoryRequest { filter: Some(filter), after_sequence, ..v1::FollowHistoryRequest::default() };
        let mut entries = caller.client.follow_history(request);
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        loop {
            let entry = tokio::select! {
                entry = entries.next() => entry,
                _ = &mut interrupted => return Ok(()),
            };
            match entry {
                Some(Err(error)) if goes_on(&error) => {}
                Some(entry) => self.print(&entry?, own),
                None => return Ok(()),
            }
        }
    }

    fn print(&self, entry: &v1::HistoryEntry, own: Option<&str>) {
        if self.output.json {
            show::line(&show::entry_json(entry));
        } else {
            show::entry(entry, own);
        }
    }
}
