//! `teamwire transcript`: shows or follows what an agent was given, wrote and did.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use teamwire_agents::transcript;
use teamwire_client::v1;
use teamwire_proto::Reason;
use tokio::time::sleep;

use super::Output;
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::Failure,
    show,
};

/// The state directory's directory with the transcripts of agents.
pub(super) const DIRECTORY: &str = "transcripts";

/// How long one call waits for the next entry.
const WAIT: Duration = Duration::from_secs(30);

/// The time between two attempts while the runner does not answer.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Show or follow what an agent was given, wrote and did, with the results of its tool calls
///
/// The runner of an agent program keeps the last 64 MiB on its machine, 16 KiB of each text, and only for the user that
/// runs it. It answers over its connection, so this works from any machine while the member runs. Once the member has
/// exited, the command reads the files, on the machine where it ran. Only the lead, the operator and the member itself
/// may read a transcript: what tools print can hold secrets. Without --full, long prompts and results are folded.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire transcript backend\n    teamwire transcript backend --turn 3 --full\n    teamwire transcript backend --follow\n    teamwire transcript backend -n 1000 --json > backend.jsonl"
)]
pub(super) struct Transcript {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Only this turn of the member's newest life, from its beginning
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    turn: Option<u64>,
    /// Keep printing new entries until interrupted
    #[arg(long, short, conflicts_with = "turn")]
    follow: bool,
    /// How many of the latest entries to show
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N", conflicts_with = "turn")]
    entries: usize,
    /// Show long prompts and results whole
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Transcript {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let (source, newest) = self.source(context, &caller).await?;
        let mut printer = Printer { json: self.output.json, full: self.full, turn: None };
        let shown = match self.turn {
            Some(turn) => self.of_turn(&source, turn).await?,
            None => self.latest(&source).await?,
        };
        printer.entries(&shown);
        if !self.follow {
            if shown.is_empty() && !self.output.json {
                anstream::eprintln!("{}", self.silence());
            }
            return Ok(());
        }
        let Source::Runner(_) = source else {
            return Err(Failure::usage(format!("{} does not run, so there is nothing to follow.", self.member)));
        };
        let after = shown.last().map_or(newest, |entry| entry.sequence);
        tokio::select! {
            failed = self.follow(&source, after, printer) => failed,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }

    /// Returns where to read, and the newest entry there: from the member's runner or, if that does not answer, from the
    /// files that it has left on this machine.
    async fn source(&self, context: &ContextArgs, caller: &Caller) -> Result<(Source, u64), Failure> {
        let runner = Source::Runner(Box::new(caller.clone()));
        let error = match runner.page(self.request()).await {
            Ok(page) => return Ok((runner, page.newest_sequence)),
            Err(error) => error,
        };
        let is_away = matches!(reason(&error), Some(Reason::AgentExited | Reason::RunnerSilent));
        let left = if is_away { self.left_files(context, caller).await } else { None };
        let Some(directory) = left else { return Err(error) };
        let files = Source::Files(directory);
        let newest = files.page(self.request()).await?.newest_sequence;
        Ok((files, newest))
    }

    /// Returns the directory with the files of the member's runner, if there are any on this machine.
    async fn left_files(&self, context: &ContextArgs, caller: &Caller) -> Option<PathBuf> {
        let team = caller.client.get_team(v1::GetTeamRequest::default()).await.ok()?.team?;
        let member = caller.find_member(&self.member).await.ok()??;
        let directory = transcript::directory(&context.state_dir().ok()?.join(DIRECTORY), &team.id, &member.name)?;
        directory.is_dir().then_some(directory)
    }

    /// Returns the request of the newest entry.
    fn request(&self) -> v1::ReadTranscriptRequest {
        v1::ReadTranscriptRequest {
            member: self.member.clone(),
            before_sequence: u64::MAX,
            page_size: 1,
            ..v1::ReadTranscriptRequest::default()
        }
    }

    async fn latest(&self, source: &Source) -> Result<Vec<v1::TranscriptEntry>, Failure> {
        let (mut found, mut before_sequence) = (Vec::new(), u64::MAX);
        while found.len() < self.entries {
            let page_size = u32::try_from(self.entries - found.len()).unwrap_or(u32::MAX).min(1_000);
            let page = source.page(v1::ReadTranscriptRequest { before_sequence, page_size, ..self.request() }).await?;
            let Some(first) = page.entries.first() else { break };
            before_sequence = first.sequence;
            found.splice(0..0, page.entries);
            if before_sequence <= page.oldest_sequence {
                break;
            }
        }
        Ok(found)
    }

    async fn of_turn(&self, source: &Source, turn: u64) -> Result<Vec<v1::TranscriptEntry>, Failure> {
        let mut found: Vec<v1::TranscriptEntry> = Vec::new();
        loop {
            let after_sequence = found.last().map_or(0, |entry| entry.sequence);
            let incarnation = found.last().map_or(0, |entry| entry.incarnation);
            let request = v1::ReadTranscriptRequest {
                turn,
                incarnation,
                after_sequence,
                before_sequence: 0,
                page_size: 1_000,
                ..self.request()
            };
            let page = source.page(request).await?;
            if page.entries.is_empty() {
                return Ok(found);
            }
            found.extend(page.entries);
        }
    }

    async fn follow(&self, source: &Source, mut after: u64, mut printer: Printer) -> Result<(), Failure> {
        loop {
            let request = v1::ReadTranscriptRequest {
                after_sequence: after,
                before_sequence: 0,
                page_size: 1_000,
                wait: prost_types::Duration::try_from(WAIT).ok(),
                ..self.request()
            };
            let page = match source.page(request).await {
                // The runner may be connecting again.
                Err(error) if reason(&error) == Some(Reason::RunnerSilent) => {
                    sleep(RETRY_DELAY).await;
                    continue;
                }
                page => page?,
            };
            printer.entries(&page.entries);
            after = page.entries.last().map_or(after, |entry| entry.sequence);
        }
    }

    /// Says why there are no entries.
    fn silence(&self) -> String {
        match self.turn {
            Some(turn) => format!("{} has no turn {turn} in its newest life.", self.member),
            None => format!("{} has done nothing yet.", self.member),
        }
    }
}

/// Where a transcript is read.
enum Source {
    /// From the member's runner, through the coordinator.
    Runner(Box<Caller>),
    /// From the files that a runner has left on this machine.
    Files(PathBuf),
}

impl Source {
    async fn page(&self, request: v1::ReadTranscriptRequest) -> Result<v1::ReadTranscriptResponse, Failure> {
        match self {
            Self::Runner(caller) => Ok(caller.client.read_transcript(request).await?),
            Self::Files(directory) => read_files(directory, &request),
        }
    }
}

/// Returns why a coordinator refused a call. `None` if it did not.
fn reason(failure: &Failure) -> Option<Reason> {
    match failure {
        Failure::Call(error) => error.reason(),
        _ => None,
    }
}

fn read_files(directory: &Path, request: &v1::ReadTranscriptRequest) -> Result<v1::ReadTranscriptResponse, Failure> {
    transcript::read(directory, request)
        .map_err(|error| Failure::local(&format!("cannot read the transcript in {}", directory.display()), error))
}

/// Prints entries, and where another turn begins.
struct Printer {
    json: bool,
    full: bool,
    /// The life and the turn of the last entry.
    turn: Option<(u64, u64)>,
}

impl Printer {
    fn entries(&mut self, entries: &[v1::TranscriptEntry]) {
        for entry in entries {
            if self.json {
                show::line(&show::json("TranscriptEntry", entry));
                continue;
            }
            let turn = Some((entry.incarnation, entry.turn));
            if self.turn != turn {
                show::transcript_turn(entry, self.turn.is_some());
            }
            self.turn = turn;
            show::transcript_entry(entry, self.full);
        }
    }
}
