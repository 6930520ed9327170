//! `teamwire work merge`.

use std::time::Duration;

use clap::Args;
use teamwire_agents::work::{MemberWork, MergeOptions, MergeReport, Step, merge::Unmerged};
use teamwire_proto::word;

use super::{failure, needed_here};
use crate::{
    command::{Output, id, waiting::Wait},
    context::{ContextArgs, Who},
    failure::{Failure, NOT_PERMITTED, REFUSED, REJECTED},
    show,
};

/// Merge a member's commits into a branch of this repository
///
/// The command fetches what the repository lacks from the member's machine, merges without a working tree, runs the
/// check on the merged files in a temporary worktree, and only then moves the branch, unless someone has committed to it
/// meanwhile: then it begins again. If the branch is checked out, that working tree must be clean, and is brought along.
/// Nothing is deleted: the member keeps its branch. Merges of one repository wait for each other.
///
/// If there are conflicts, nothing is merged, and the member gets a message with the paths. Files that the member has not
/// committed are not merged.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire work merge backend\n    teamwire work merge backend --into develop --check \"npm test\"\n    git config teamwire.check \"cargo test\"     # the check of every merge in this repository"
)]
pub(super) struct Merge {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// The branch to merge into [default: the one that is checked out here]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Make one commit of the member's commits
    #[arg(long)]
    squash: bool,
    /// A shell command that must succeed on the merged files [default: the repository's setting `teamwire.check`]
    ///
    /// It runs code that an agent wrote, on this machine and as you, without the credentials in your environment.
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Run no check, whatever the repository's settings say
    #[arg(long, conflicts_with = "check")]
    no_check: bool,
    /// How long the check may take
    #[arg(long, value_name = "DURATION", default_value = "30m")]
    check_timeout: Wait,
    /// Merge only up to this commit, such as one that was reviewed
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// Do not send the member a message about conflicts
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Merge {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        if !id::can_lead(&caller).await? {
            return Err(Failure::with_code(NOT_PERMITTED, "Only the lead and the operator merge. Ask the lead."));
        }
        let place = needed_here("to merge into").await?;
        let Wait(check_timeout): Wait = self.check_timeout;
        let options = MergeOptions {
            into: self.into.clone(),
            squash: self.squash,
            check: if self.no_check { Some(String::new()) } else { self.check.clone() },
            check_timeout: check_timeout.max(Duration::from_secs(1)),
            commit: self.commit.clone().unwrap_or_default(),
            tells_member: !self.quiet,
        };
        let work = MemberWork { client: &caller.client, member: &self.member, place: Some(&place) };
        let json = self.output.json;
        let step = |step: Step<'_>| match step {
            _ if json => {}
            Step::Fetching => anstream::eprintln!("Fetching the commits of {} from its machine…", self.member),
            Step::Checking(command) => anstream::eprintln!("Checking the merged files: {}", show::one_line(command)),
        };
        let report = work.merge(&place, &options, step).await.map_err(failure)?;
        self.print(report)
    }

    fn print(&self, report: MergeReport) -> Result<(), Failure> {
        let MergeReport { work, commit, into, outcome, told_member } = report;
        let member = &self.member;
        let merged = match outcome {
            Ok(merged) => merged,
            Err(Unmerged::Conflicts(paths)) => {
                if self.output.json {
                    show::line(
                        &serde_json::json!({"member": member, "into": into, "conflicts": paths, "told_member": told_member}),
                    );
                }
                let told = match told_member {
                    true => format!("{member} got a message with the paths."),
                    false => format!("Resolve them by hand, or tell {member}."),
                };
                let text = format!("The work of {member} conflicts with {into} in {}. {told}", word::paths(&paths));
                return Err(Failure::with_code(REJECTED, show::plain(&text)));
            }
            Err(unmerged) => {
                let text = format!("The work of {member} is not merged into {into}. {unmerged}");
                return Err(Failure::with_code(REFUSED, text.lines().map(show::plain).collect::<Vec<_>>().join("\n")));
            }
        };
        if self.output.json {
            show::line(&serde_json::json!({
                "member": member, "into": merged.branch, "commit": merged.commit, "of": commit,
                "was_merged_already": merged.was_merged_already,
            }));
            return Ok(());
        }
        let short: String = merged.commit.chars().take(10).collect();
        match merged.was_merged_already {
            true => anstream::println!("{into} has all commits of {member} already."),
            false => anstream::println!(
                "Merged {} of {member} into {into}, at {short}.",
                show::count(work.ahead.into(), "commit")
            ),
        }
        if work.uncommitted > 0 && self.commit.is_none() {
            let files = show::count(work.uncommitted.into(), "file");
            show::warn(&format!("{member} has not committed {files}, which are not merged."));
        }
        Ok(())
    }
}
