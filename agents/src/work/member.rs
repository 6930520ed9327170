//! The work of a member, wherever its worktree is: read through the member's runner or, once the member has exited, in this
//! repository.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use teamwire_client::{Client, Error};
use teamwire_proto::{
    Reason,
    v1::{self, WorkPart},
};

use super::{
    Place, as_branch, bundle, diff,
    names::is_id,
    report::{salvage_of, work_of},
    salvage,
    survey::{self, Survey},
};

/// How many bytes the commits of a member may have that this repository lacks.
const BUNDLE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Why a member's work cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The coordinator or the runner has refused.
    #[error(transparent)]
    Call(#[from] Error),
    /// Git or the file system here.
    #[error("{0}")]
    Here(String),
}

impl From<String> for WorkError {
    fn from(why: String) -> Self {
        Self::Here(why)
    }
}

/// A member, as someone who reads its work sees it.
#[derive(Clone, Copy, Debug)]
pub struct MemberWork<'a> {
    /// For calls in the reader's name.
    pub client: &'a Client,
    /// The member's name.
    pub member: &'a str,
    /// The reader's repository. `None` if it is in none.
    pub place: Option<&'a Place>,
}

/// Which text of a member's work to read.
#[derive(Clone, Debug, Default)]
pub struct What {
    /// A diff, a stat or a log.
    pub part: WorkPart,
    /// Of which commit. Empty: as it is now.
    pub commit: String,
    /// Compared with what. Empty: the base branch.
    pub against: String,
}

impl<'a> MemberWork<'a> {
    /// Returns what to compare with: the newest commit of a member's branch if its name was typed, or else what was typed.
    pub async fn against(
        client: &'a Client,
        members: &[v1::Member],
        place: Option<&'a Place>,
        typed: &str,
    ) -> Result<String, WorkError> {
        match members.iter().find(|member| member.name.eq_ignore_ascii_case(typed)) {
            Some(other) => Ok(MemberWork { client, member: &other.name, place }.summary("").await?.head),
            None => Ok(typed.to_owned()),
        }
    }

    /// Returns the member's work in numbers. `against`: what to compare it with. Empty: the base branch.
    pub async fn summary(&self, against: &str) -> Result<v1::Work, WorkError> {
        let request = self.request(&What { part: WorkPart::Summary, against: against.to_owned(), ..What::default() });
        match self.client.read_work(request).await {
            Ok(reply) => Ok(reply.work.unwrap_or_default()),
            Err(error) => match self.left_here(&error).await? {
                Some(left) => left.summary(against).await.map_err(WorkError::Here),
                None => Err(error.into()),
            },
        }
    }

    /// Writes a text of the member's work. Returns the commit that it is of.
    pub async fn write(&self, what: &What, to: &mut (dyn std::io::Write + Send)) -> Result<String, WorkError> {
        let request = self.request(what);
        match self.client.read_work(request.clone()).await {
            Ok(page) => self.receive(request, page, to, u64::MAX).await,
            Err(error) => match self.left_here(&error).await? {
                Some(left) => left.write(what, to).await.map_err(WorkError::Here),
                None => Err(error.into()),
            },
        }
    }

    /// Writes a page of a text and those after it. Returns the commit that the text is of.
    async fn receive(
        &self,
        mut request: v1::ReadWorkRequest,
        mut page: v1::ReadWorkResponse,
        to: &mut (dyn std::io::Write + Send),
        bytes_max: u64,
    ) -> Result<String, WorkError> {
        let commit = std::mem::take(&mut page.commit);
        loop {
            to.write_all(&page.data).map_err(|error| error.to_string())?;
            request.offset += page.data.len() as u64;
            request.version = page.version;
            if request.offset > bytes_max {
                let text = format!("The commits of {} have more than {} GiB.", self.member, bytes_max >> 30);
                return Err(WorkError::Here(text));
            }
            if page.data.is_empty() || request.offset >= page.total_bytes {
                return Ok(commit);
            }
            page = self.client.read_work(request.clone()).await?;
        }
    }

    /// Makes sure that this repository has a commit of the member's, and returns its id. `what`: a commit, or a ref of a
    /// salvage; empty means the newest commit of its branch.
    pub async fn fetch(&self, place: &Place, what: &str, work: &v1::Work) -> Result<String, WorkError> {
        let wanted = if what.is_empty() { work.head.as_str() } else { what };
        let is_salvage = salvage::name_of(wanted).is_some();
        // What is no id could name anything in this repository.
        if !is_id(wanted) && !is_salvage {
            return Err(WorkError::Here(format!("{wanted:?} is no commit.")));
        }
        if let Some(commit) = place.commit(wanted).await? {
            return Ok(commit);
        }
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = directory.path().join("bundle");
        let mut to = File::create(&file).map_err(|error| error.to_string())?;
        let have = bundle::tips(place).await?;
        let what = What { part: WorkPart::Bundle, commit: wanted.to_owned(), ..What::default() };
        let request = v1::ReadWorkRequest { have, ..self.request(&what) };
        let page = self.client.read_work(request.clone()).await?;
        let commit = self.receive(request, page, &mut to, BUNDLE_BYTES_MAX).await?;
        drop(to);
        if !is_id(&commit) || (!is_salvage && commit != wanted) {
            return Err(WorkError::Here(format!("{} has sent another commit than {wanted}.", self.member)));
        }
        match is_salvage {
            true => bundle::take_as(place, &file, &what.commit, &commit).await?,
            false => bundle::take(place, &file, self.member, &commit).await?,
        };
        Ok(commit)
    }

    /// Returns what is kept of the member's work in progress, the newest first.
    pub async fn salvages(&self) -> Result<Vec<v1::Salvage>, WorkError> {
        let request = self.request(&What { part: WorkPart::Salvages, ..What::default() });
        match self.client.read_work(request).await {
            Ok(reply) => Ok(reply.salvages),
            Err(error) => match self.place.filter(|_| is_away(&error)) {
                Some(place) => {
                    let kept = salvage::list(place, Some(self.member)).await?;
                    Ok(kept.iter().map(salvage_of).collect())
                }
                None => Err(error.into()),
            },
        }
    }

    fn request(&self, what: &What) -> v1::ReadWorkRequest {
        v1::ReadWorkRequest {
            member: self.member.to_owned(),
            part: what.part.into(),
            commit: what.commit.clone(),
            against: what.against.clone(),
            ..v1::ReadWorkRequest::default()
        }
    }

    /// Returns what a member that no runner answers for has left in this repository, if it has left something.
    async fn left_here(&self, error: &Error) -> Result<Option<Left>, WorkError> {
        match self.place.filter(|_| is_away(error)) {
            Some(place) => Ok(Left::find(place, self.member).await?),
            None => Ok(None),
        }
    }
}

/// Returns whether no runner answers for the member.
fn is_away(error: &Error) -> bool {
    matches!(error.reason(), Some(Reason::AgentExited | Reason::RunnerSilent | Reason::AgentNotFound))
}

/// What a member has left in a repository: its branch, and perhaps its worktree.
#[derive(Debug)]
pub struct Left {
    place: Place,
    /// The branch.
    pub branch: String,
    /// The commit that it had when it was found.
    head: String,
    /// The worktree that has it checked out.
    pub worktree: Option<PathBuf>,
}

impl Left {
    /// Finds what a member has left in a repository. `None` if there is no branch of its name.
    pub async fn find(place: &Place, member: &str) -> Result<Option<Self>, String> {
        let branch = format!("teamwire/{}", as_branch(member));
        let Some(head) = place.commit(&format!("refs/heads/{branch}")).await? else { return Ok(None) };
        let worktree = place.worktree_of(&branch).await?;
        Ok(Some(Self { place: place.clone(), branch, head, worktree }))
    }

    /// Removes the worktree and the branch, whatever is in them. Fails if the branch has moved since it was found.
    pub async fn remove(&self) -> Result<(), String> {
        if let Some(worktree) = &self.worktree {
            self.place.run(&["worktree", "remove", "--force", "--force", &worktree.display().to_string()]).await?;
        }
        self.place
            .run(&["update-ref", "--no-deref", "-d", &format!("refs/heads/{}", self.branch), &self.head])
            .await
            .map(drop)
    }

    async fn summary(&self, against: &str) -> Result<v1::Work, String> {
        Ok(work_of(&self.survey(against).await?.1))
    }

    /// Surveys the worktree or, if it is gone, the branch.
    async fn survey(&self, against: &str) -> Result<(Place, Survey), String> {
        let base = match against {
            "" => match self.place.is_linked() {
                true => self.place.base_branch().await?,
                false => self.place.branch().await?,
            },
            against => Some(against.to_owned()),
        };
        let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
        let index = directory.path().join("index");
        if let Some(worktree) = &self.worktree
            && let Some(place) = Place::find(worktree).await?
        {
            let survey = survey::survey(&place, base.as_deref(), &index).await?;
            return Ok((place, survey));
        }
        let survey = survey::survey_branch(&self.place, &self.branch, base.as_deref()).await?;
        Ok((self.place.clone(), survey))
    }

    async fn write(&self, what: &What, to: &mut (dyn std::io::Write + Send)) -> Result<String, String> {
        let (place, survey) = self.survey(&what.against).await?;
        let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
        let file = directory.path().join("text");
        let base = survey.base.clone().or(survey.head.clone()).unwrap_or_default();
        let given = Some(what.commit.clone()).filter(|commit| !commit.is_empty());
        let commit = match what.part {
            WorkPart::Log => {
                let head = given.or(survey.head).unwrap_or_default();
                diff::log(&place, &base, &head, &file).await?;
                head
            }
            part => {
                let to = given.unwrap_or(survey.tree);
                diff::diff(&place, &base, &to, part == WorkPart::Stat, &file).await?;
                to
            }
        };
        copy(&file, to)?;
        Ok(commit)
    }
}

fn copy(file: &Path, to: &mut (dyn std::io::Write + Send)) -> Result<(), String> {
    let mut from = fs::File::open(file).map_err(|error| error.to_string())?;
    std::io::copy(&mut from, to).map(drop).map_err(|error| error.to_string())
}
