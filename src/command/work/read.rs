//! `teamwire work diff` and `teamwire work log`.

use std::io::{self, Write};

use clap::Args;
use teamwire_agents::{
    visible,
    work::{MemberWork, Place, What},
};
use teamwire_proto::v1::WorkPart;

use super::failure;
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
};

/// Show what a member has changed, as a diff
///
/// With changes that are not committed and new files, compared with the newest commit that the member's branch shares
/// with the branch that it began from. Printed as git prints it; at a terminal, control characters are shown as symbols.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire work diff backend\n    teamwire work diff backend --stat\n    teamwire work diff backend > backend.patch"
)]
pub(super) struct Diff {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Only how many lines changed in which file
    #[arg(long)]
    stat: bool,
    /// Only what this commit has, such as the one to review
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// Compare with this commit or branch of the member's repository
    #[arg(long, value_name = "WHAT")]
    against: Option<String>,
}

/// List a member's commits, the newest first
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire work log backend")]
pub(super) struct Log {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Those that this commit or branch of the member's repository has not
    #[arg(long, value_name = "WHAT")]
    against: Option<String>,
}

impl Diff {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let what = What {
            part: if self.stat { WorkPart::Stat } else { WorkPart::Diff },
            commit: self.commit.clone().unwrap_or_default(),
            against: self.against.clone().unwrap_or_default(),
        };
        print(context, &self.member, &what).await
    }
}

impl Log {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let against = self.against.clone().unwrap_or_default();
        print(context, &self.member, &What { part: WorkPart::Log, against, ..What::default() }).await
    }
}

async fn print(context: &ContextArgs, member: &str, what: &What) -> Result<(), Failure> {
    let caller = context.caller(Who::Current)?;
    let place = Place::here().await;
    let work = MemberWork { client: &caller.client, member, place: place.as_ref() };
    let mut to = Printer { rest: Vec::new(), bytes: 0, raw: !io::IsTerminal::is_terminal(&io::stdout()) };
    work.write(what, &mut to).await.map_err(failure)?;
    to.end()?;
    if to.bytes == 0 {
        let nothing = if what.part == WorkPart::Log { "no new commits" } else { "no changes" };
        anstream::eprintln!("{member} has {nothing}.");
    }
    Ok(())
}

/// Prints a text of git's: as it is into a file or a pipe, without hidden characters at a terminal.
struct Printer {
    /// The beginning of a line.
    rest: Vec<u8>,
    bytes: usize,
    raw: bool,
}

impl Printer {
    fn end(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        self.lines(&rest)
    }

    fn lines(&self, lines: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.raw {
            return out.write_all(lines);
        }
        for line in String::from_utf8_lossy(lines).split_inclusive('\n') {
            let text = line.strip_suffix('\n').unwrap_or(line);
            let text = visible::shown(&text.replace('\t', "    "));
            let colored = match text.as_bytes().first() {
                Some(b'+') => format!("\x1b[32m{text}\x1b[0m"),
                Some(b'-') => format!("\x1b[31m{text}\x1b[0m"),
                Some(b'@') => format!("\x1b[36m{text}\x1b[0m"),
                _ if text.starts_with("diff ") => format!("\x1b[1m{text}\x1b[0m"),
                _ => text.to_string(),
            };
            anstream::print!("{colored}{}", if line.ends_with('\n') { "\n" } else { "" });
        }
        Ok(())
    }
}

impl Write for Printer {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.bytes += data.len();
        self.rest.extend_from_slice(data);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        self.lines(&lines)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}
