//! `teamwire work restore` and `teamwire work purge`.

use std::path::PathBuf;

use clap::Args;
use teamwire_agents::work::{self, MemberWork, Place, as_branch, salvage};
use teamwire_client::v1;

use super::{failure, needed_here};
use crate::{
    command::{Output, confirm::Confirm},
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// How many are listed.
const LISTED_MAX: usize = 50;

/// Bring back what was kept of a member's work, or list what there is
///
/// A runner keeps a member's working state at the end of each turn in which it changed, and a host before it removes a
/// worktree: committed or not, with new files, without files that git ignores and new ones over 50 MiB. The command makes
/// a new worktree with those files, on a new branch at the commit that the member had; what was not committed is not
/// committed there. Without REF, it lists what is kept, the newest first. With --from, it fetches from a member on
/// another machine.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire work restore\n    teamwire work restore --member backend\n    teamwire work restore refs/teamwire/salvage/backend/20261129T051527.123Z --to ../backend-restored"
)]
pub(super) struct Restore {
    /// What to bring back: a ref, or the part of it behind `salvage/`
    #[arg(value_name = "REF")]
    what: Option<String>,
    /// Where to make the worktree [default: beside the repository, named after the ref]
    #[arg(long, value_name = "DIRECTORY", requires = "what")]
    to: Option<PathBuf>,
    /// The branch to make [default: restored/ and the ref's name]
    #[arg(long, value_name = "BRANCH", requires = "what")]
    branch: Option<String>,
    /// Only what was kept of this member
    #[arg(long, short, value_name = "MEMBER", conflicts_with = "what")]
    member: Option<String>,
    /// Fetch it from this member, whose worktree is on another machine
    #[arg(long, value_name = "MEMBER")]
    from: Option<String>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Delete what was kept of members' work
///
/// What was kept can hold secrets from files that were never committed. Git removes the files when it next collects
/// garbage: after two weeks, or at once with `git gc --prune=now`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire work purge backend\n    teamwire work purge --all")]
pub(super) struct Purge {
    /// The member
    #[arg(value_name = "MEMBER", required_unless_present = "all")]
    member: Option<String>,
    /// Of all members
    #[arg(long, conflicts_with = "member")]
    all: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pub(super) output: Output,
}

fn failed(why: String) -> Failure {
    failure(why.into())
}

impl Restore {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let place = needed_here("that the worktree belonged to").await?;
        let Some(what) = &self.what else { return self.list(context, &place).await };
        let reference = match what.strip_prefix("refs/") {
            Some(_) => what.clone(),
            None => format!("{}/{what}", salvage::SALVAGE_REFS),
        };
        let name = salvage::name_of(&reference).unwrap_or(what).replace('/', "-");
        let directory = match &self.to {
            Some(directory) => directory.clone(),
            None => place.root.parent().unwrap_or(&place.root).join(format!("restored-{name}")),
        };
        let branch = self.branch.clone().unwrap_or_else(|| format!("restored/{name}"));
        let mut wanted = reference.clone();
        if let Some(member) = &self.from {
            let caller = context.caller(Who::Current)?;
            let remote = MemberWork { client: &caller.client, member, place: Some(&place) };
            wanted = remote.fetch(&place, &reference, &v1::Work::default()).await.map_err(failure)?;
        }
        work::restore(&place, &wanted, &directory, &branch).await.map_err(failed)?;
        match self.output.json {
            true => show::line(&serde_json::json!({"ref": reference, "directory": directory, "branch": branch})),
            false => anstream::println!("Restored in {}, on branch {branch}.", directory.display()),
        }
        Ok(())
    }

    async fn list(&self, context: &ContextArgs, place: &Place) -> Result<(), Failure> {
        let kept: Vec<v1::Salvage> = match &self.from {
            Some(member) => {
                let caller = context.caller(Who::Current)?;
                let remote = MemberWork { client: &caller.client, member, place: Some(place) };
                remote.salvages().await.map_err(failure)?
            }
            None => {
                let kept = salvage::list(place, self.member.as_deref()).await.map_err(failed)?;
                kept.iter().map(work::salvage_of).collect()
            }
        };
        if self.output.json {
            kept.iter().for_each(|kept| show::line(&show::json("Salvage", kept)));
            return Ok(());
        }
        if kept.is_empty() {
            anstream::println!("Nothing is kept in this repository.");
            return Ok(());
        }
        let rows = kept.iter().take(LISTED_MAX).map(|kept| {
            let name = salvage::name_of(&kept.r#ref).unwrap_or(&kept.r#ref);
            vec![show::one_line(name), show::time(kept.at.as_ref()), show::one_line(&kept.note)]
        });
        show::table(&["ref", "kept", "note"], rows.collect());
        if kept.len() > LISTED_MAX {
            anstream::println!("And {} older ones: --json lists them all.", kept.len() - LISTED_MAX);
        }
        Ok(())
    }
}

impl Purge {
    pub(super) async fn run(&self, _: &ContextArgs) -> Result<(), Failure> {
        let place = needed_here("that the worktrees belonged to").await?;
        let kept = salvage::list(&place, self.member.as_deref()).await.map_err(failed)?.len() as u64;
        let whose = self.member.as_deref().map_or("all members".to_owned(), as_branch);
        if kept > 0 {
            let what =
                format!("This deletes {} of {whose}, which cannot be brought back.", show::count(kept, "kept state"));
            self.confirm.ask(&what, "")?;
        }
        let purged = salvage::purge(&place, self.member.as_deref()).await.map_err(failed)?;
        match self.output.json {
            true => show::line(&serde_json::json!({"deleted": purged})),
            false => anstream::println!("Deleted {}.", show::count(purged as u64, "kept state")),
        }
        Ok(())
    }
}
