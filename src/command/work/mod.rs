//! `teamwire work`: what members have changed in their worktrees, merging it, and bringing back what was kept of it.

mod drop;
mod merge;
mod read;
mod salvage;

use clap::{Args, Subcommand};
use futures::{StreamExt as _, stream};
use teamwire_agents::work::{MemberWork, Place, WorkError};
use teamwire_client::v1;
use teamwire_proto::{
    v1::{MemberState, MergeForecast, Role},
    word,
};

use super::Output;
use crate::{
    context::{ContextArgs, Who},
    failure::{Failure, REFUSED},
    show,
};

/// How many runners are asked at a time.
const ASKED_AT_ONCE: usize = 8;

/// Show, read and merge what members have changed in their git worktrees
///
/// Without a subcommand, shows for each member its branch, how it compares with the branch that it began from, and
/// whether it would merge. The runners answer, so it works for members on any machine. For members that have exited, the
/// commands read the branches and worktrees that they left in the repository of the current directory.
///
/// At the end of each turn, a runner keeps the working state, with files that are not committed and new files, as a
/// commit that no branch has: `teamwire work restore` brings one back.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n\n    teamwire work\n    teamwire work backend --against frontend\n    teamwire work diff backend --stat\n    teamwire work merge backend --check \"cargo test\""
)]
pub(super) struct Work {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only this member
    #[arg(value_name = "MEMBER")]
    member: Option<String>,
    /// Compare with another member's newest commit, or with this branch or commit, instead of the branch that the work
    /// began from
    #[arg(long, value_name = "WHAT", requires = "member")]
    against: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Command {
    Diff(read::Diff),
    Log(read::Log),
    Merge(merge::Merge),
    Drop(drop::Drop),
    Restore(salvage::Restore),
    Purge(salvage::Purge),
}

impl Work {
    pub(super) async fn run(&self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match &self.command {
            None => (self.show(context).await, self.output.json),
            Some(Command::Diff(command)) => (command.run(context).await, false),
            Some(Command::Log(command)) => (command.run(context).await, false),
            Some(Command::Merge(command)) => (command.run(context).await, command.output.json),
            Some(Command::Drop(command)) => (command.run(context).await, command.output.json),
            Some(Command::Restore(command)) => (command.run(context).await, command.output.json),
            Some(Command::Purge(command)) => (command.run(context).await, command.output.json),
        }
    }

    async fn show(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let place = Place::here().await;
        let members = caller.client.members().await?;
        let chosen: Vec<&v1::Member> = match &self.member {
            Some(name) => vec![find(&members, name)?],
            None => members.iter().filter(|member| member.role() != Role::Lead || member.program.is_some()).collect(),
        };
        let against =
            MemberWork::against(&caller.client, &members, place.as_ref(), self.against.as_deref().unwrap_or_default())
                .await
                .map_err(failure)?;
        let asked = chosen.iter().map(|member| {
            let (client, place, against, typed) =
                (&caller.client, place.as_ref(), against.as_str(), self.against.as_deref());
            async move {
                let work = MemberWork { client, member: &member.name, place };
                (*member, work.summary(against).await.map(|work| named(work, typed)))
            }
        });
        let answers: Vec<_> = stream::iter(asked).buffered(ASKED_AT_ONCE).collect().await;
        if self.output.json {
            for (member, answer) in &answers {
                show::line(&match answer {
                    Ok(work) => serde_json::json!({"member": member.name, "work": show::json("Work", work)}),
                    Err(error) => serde_json::json!({"member": member.name, "unknown": error.to_string()}),
                });
            }
            return Ok(());
        }
        match answers.as_slice() {
            [] => anstream::println!("The team has no other member yet."),
            [(member, Ok(work))] if self.member.is_some() => in_full(member, work),
            [(_, Err(_))] if self.member.is_some() => {
                let (_, answer) = answers.into_iter().next().ok_or_else(show::incomplete)?;
                answer.map(drop).map_err(failure)?;
            }
            answers => table(answers),
        }
        Ok(())
    }
}

/// Calls the base of a comparison what the caller has typed.
fn named(work: v1::Work, typed: Option<&str>) -> v1::Work {
    match typed {
        Some(typed) => v1::Work { base_branch: typed.to_owned(), ..work },
        None => work,
    }
}

/// Returns the working tree that the command runs in, which it needs. `what`: what it is for.
async fn needed_here(what: &str) -> Result<Place, Failure> {
    Place::here()
        .await
        .ok_or_else(|| Failure::usage(format!("This is no git repository. Run the command in the one {what}.")))
}

fn find<'m>(members: &'m [v1::Member], name: &str) -> Result<&'m v1::Member, Failure> {
    members.iter().find(|member| member.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        Failure::with_code(REFUSED, format!("There is no member {name}. `teamwire status` lists the members."))
    })
}

fn failure(error: WorkError) -> Failure {
    match error {
        WorkError::Call(error) => error.into(),
        WorkError::Here(why) => Failure::with_code(REFUSED, show::plain(&why)),
    }
}

fn table(answers: &[(&v1::Member, Result<v1::Work, WorkError>)]) {
    let rows = answers.iter().map(|(member, answer)| {
        let mut row = vec![member.name.clone()];
        match answer {
            Ok(work) => row.extend([
                show::one_line(&work.branch),
                work.ahead.to_string(),
                work.behind.to_string(),
                format!("{} +{} -{}", work.files, work.insertions, work.deletions),
                work.uncommitted.to_string(),
                forecast(work),
            ]),
            Err(error) => {
                let gone = member.state() == MemberState::Exited;
                let why = if gone { "exited".to_owned() } else { show::shorten(&error.to_string(), 60) };
                row.extend(["", "", "", "", "", &why].map(str::to_owned));
            }
        }
        row
    });
    let rows = rows.collect();
    show::table(&["member", "branch", "ahead", "behind", "files", "uncommitted", "forecast"], rows);
}

fn forecast(work: &v1::Work) -> String {
    let base = show::one_line(&work.base_branch);
    match work.forecast() {
        MergeForecast::Clean => format!("merges into {base}"),
        MergeForecast::Conflicts => format!("conflicts with {base}: {}", show::one_line(&word::paths(&work.conflicts))),
        MergeForecast::Unspecified => show::shorten(&work.detail, 60),
    }
}

fn in_full(member: &v1::Member, work: &v1::Work) {
    anstream::println!("{}: {}", show::paint(show::bold(), &member.name), show::plain(&word::work(work)));
    let facts = [("repository", &work.repository), ("base", &work.base), ("commit", &work.head)];
    for (label, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        anstream::println!("    {}", show::paint(show::dim(), format!("{label} {}", show::one_line(value))));
    }
    for path in &work.conflicts {
        anstream::println!("    conflict in {}", show::one_line(path));
    }
}
