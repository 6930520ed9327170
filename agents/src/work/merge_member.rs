//! Merges a member's work into a branch of the reader's repository, wherever the member's worktree is.

use std::{
    fs::File,
    io::{self, Read as _},
    time::Duration,
};

use teamwire_client::message;
use teamwire_proto::{v1, word};

use super::{
    Place,
    bundle::{self, PAGE_BYTES},
    member::{MemberWork, WorkError},
    merge::{self, Merged, Order, Unmerged},
};

/// How a member's work is merged.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// The branch. `None`: the one that is checked out here or, in a worktree of a member, the one that it began from.
    pub into: Option<String>,
    /// Whether the merge is one commit with one parent.
    pub squash: bool,
    /// The command that must succeed on the merged files. `None`: the repository's setting `teamwire.check`. Empty: none.
    pub check: Option<String>,
    /// How long it may take.
    pub check_timeout: Duration,
    /// What to merge. Empty: the member's newest commit.
    pub commit: String,
    /// Whether the member gets a message about conflicts.
    pub tells_member: bool,
}

/// The outcome of a merge.
#[derive(Debug)]
pub struct MergeReport {
    /// The member's work before.
    pub work: v1::Work,
    /// The commit that was to be merged.
    pub commit: String,
    /// The branch.
    pub into: String,
    /// The merge, or why there was none.
    pub outcome: Result<Merged, Unmerged>,
    /// Whether the member got a message about the conflicts.
    pub told_member: bool,
}

/// What is under way, for a reader.
#[derive(Clone, Debug)]
pub enum Step<'s> {
    /// The member's commits are fetched.
    Fetching,
    /// The merged files are checked with this command.
    Checking(&'s str),
}

impl MemberWork<'_> {
    /// Merges the member's work. `step`: called with what is under way.
    pub async fn merge(
        &self,
        place: &Place,
        options: &MergeOptions,
        step: impl Fn(Step<'_>) + Sync,
    ) -> Result<MergeReport, WorkError> {
        let work = self.summary("").await?;
        let member = self.member;
        let here = place.repository_id().await?.unwrap_or_default();
        if !work.repository.is_empty() && work.repository != here {
            return Err(WorkError::Here(format!(
                "{member} works in the repository {}, and this is {here}. Run the command in a clone of that repository.",
                work.repository
            )));
        }
        if work.head.is_empty() && options.commit.is_empty() {
            return Err(WorkError::Here(format!("{member} has committed nothing yet, so there is nothing to merge.")));
        }
        let into = match &options.into {
            Some(into) => Some(into.clone()),
            None if place.is_linked() => place.base_branch().await?,
            None => place.branch().await?,
        };
        let into = into.ok_or_else(|| {
            WorkError::Here("No branch is checked out here. Say which one to merge into: --into BRANCH.".to_owned())
        })?;
        let wanted = if options.commit.is_empty() { &work.head } else { &options.commit };
        let was_here = place.commit(wanted).await?.is_some();
        if !was_here {
            step(Step::Fetching);
        }
        let commit = self.fetch(place, &options.commit, &work).await?;
        let check = match &options.check {
            Some(command) => Some(command.clone()).filter(|command| !command.trim().is_empty()),
            None => place.check().await?,
        };
        let branch = if work.branch.is_empty() { commit.clone() } else { work.branch.clone() };
        let order = Order {
            commit: commit.clone(),
            into: into.clone(),
            message: format!("Merge the work of {member}\n\nBranch {branch}, at {commit}.\n"),
            squash: options.squash,
            check,
            check_timeout: options.check_timeout,
            author: None,
        };
        let outcome = merge::merge_telling(place, order, &|command| step(Step::Checking(command))).await;
        let mut told_member = false;
        if let Err(Unmerged::Conflicts(paths)) = &outcome
            && options.tells_member
        {
            // Its own repository may not know the branch as it is here.
            let base = if was_here { Ok(into.clone()) } else { self.send_base(place, &into, &work).await };
            told_member = self.tell_conflicts(&into, paths, base.ok().as_deref()).await;
        }
        Ok(MergeReport { work, commit, into, outcome, told_member })
    }

    /// Gives the member's repository the newest commit of a branch of this one. Returns the ref that it has there.
    pub async fn send_base(&self, place: &Place, branch: &str, work: &v1::Work) -> Result<String, WorkError> {
        let commit = place.commit(&format!("refs/heads/{branch}")).await?;
        let commit = commit.ok_or_else(|| WorkError::Here(format!("There is no branch {branch} here.")))?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = directory.path().join("bundle");
        let have: Vec<String> = [&work.base, &work.head].into_iter().filter(|id| !id.is_empty()).cloned().collect();
        let failed = |error: io::Error| error.to_string();
        if !bundle::make(place, &commit, &have, &file).await? {
            File::create(&file).map_err(failed)?;
        }
        let mut bundle = File::open(&file).map_err(failed)?;
        let total_bytes = bundle.metadata().map_err(failed)?.len();
        let mut offset = 0;
        loop {
            let mut data = Vec::new();
            (&mut bundle).take(PAGE_BYTES).read_to_end(&mut data).map_err(failed)?;
            let end = offset + data.len() as u64;
            let request = v1::SendBaseRequest {
                team: String::new(),
                member: self.member.to_owned(),
                branch: branch.to_owned(),
                commit: commit.clone(),
                data,
                offset,
                total_bytes,
            };
            let reply = self.client.send_base(request).await?;
            if !reply.r#ref.is_empty() || end == total_bytes {
                return Ok(reply.r#ref);
            }
            offset = end;
        }
    }

    /// Tells the member which paths conflict. `base`: what it must merge. Returns whether it gets the message.
    async fn tell_conflicts(&self, into: &str, paths: &[String], base: Option<&str>) -> bool {
        let how = match base {
            Some(base) => format!("Run `git merge {base}` in your worktree"),
            None => format!("Merge {into} into your branch"),
        };
        let text = format!(
            "Your work conflicts with {into}, so it was not merged. The conflicts are in {}. {how}, resolve them, commit, and say \
             when it is done.",
            word::paths(paths)
        );
        let request = message::direct(self.member, format!("your work conflicts with {into}"), text);
        self.client.send(request).await.inspect_err(|error| tracing::debug!(%error, "the member was not told")).is_ok()
    }
}
