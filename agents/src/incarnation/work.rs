//! Follows the member's work in its git repository: keeps it at the end of each turn, reports it, and merges what was
//! approved.

use std::{path::Path, sync::Arc, time::Duration};

use teamwire_proto::v1::{self, message::Body};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, timeout},
};

use super::{Incarnation, activity::WorkReporter, background::start, heartbeat::InHand};
use crate::work::{
    Answers, Picture, Place, bounded,
    merge::{self, Order, Unmerged},
    salvage::{self, FILE_BYTES_MAX},
    survey::{is_lock_file, survey_of, touched},
    work_of,
};

/// How long keeping the work may take when the runner ends.
const LAST_SALVAGE_DEADLINE: Duration = Duration::from_secs(30);

/// How long merges that are under way may take when the runner ends.
const LAST_MERGE_DEADLINE: Duration = Duration::from_secs(120);

/// How many changed files of a turn are reported.
const CHANGED_MAX: usize = 500;

/// Follows the work of one member.
#[derive(Debug)]
pub(super) struct Tracker {
    answers: Answers,
    member: String,
    repository: String,
    reporter: WorkReporter,
    /// How many times the work may have changed, and how often that was looked at.
    changes: watch::Sender<u64>,
    seen: watch::Sender<u64>,
    /// The tree of the last look.
    tree: Mutex<Option<String>>,
}

impl Tracker {
    /// Begins to follow the work in a directory. `None` if it is in no git repository.
    async fn begin(directory: &Path, member: &str, reporter: WorkReporter) -> Option<Self> {
        let place =
            Place::find(directory).await.inspect_err(|why| tracing::debug!(why, "no git repository")).ok()??;
        let repository = place.repository_id().await.ok().flatten().unwrap_or_default();
        let answers = Answers::new(place, member).ok()?;
        let (changes, seen) = (watch::Sender::new(1), watch::Sender::new(0));
        Some(Self { answers, member: member.to_owned(), repository, reporter, changes, seen, tree: Mutex::default() })
    }

    /// Answers a question about the work.
    pub(super) async fn answer(&self, request: &v1::ReadWorkRequest) -> Result<v1::ReadWorkResponse, String> {
        self.answers.answer(request).await
    }

    /// Takes a page of commits that the member is to merge into its work.
    pub(super) async fn take_base(&self, request: &v1::SendBaseRequest) -> Result<v1::SendBaseResponse, String> {
        self.answers.take_base(request).await
    }

    /// Looks at the work at the beginning, and whenever the program has done something: it ends a turn, processes a
    /// message or closes a task. Never returns.
    async fn follow(self: Arc<Self>, mut in_hand: watch::Receiver<InHand>) {
        let mut changes = self.changes.subscribe();
        let count = |in_hand: &InHand| in_hand.messages + in_hand.tasks;
        let mut before = count(&in_hand.borrow_and_update());
        loop {
            let number = *changes.borrow_and_update();
            if let Err(why) = self.look().await {
                tracing::warn!(why, "the member's work was not kept");
            }
            self.seen.send_replace(number);
            loop {
                tokio::select! {
                    asked = changes.changed() => match asked {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    Ok(()) = in_hand.changed() => {
                        let now = count(&in_hand.borrow_and_update());
                        // If the count is the same, one thing may have come and another gone.
                        if std::mem::replace(&mut before, now) >= now {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Keeps the work as it is now, and reports it.
    async fn look(&self) -> Result<(), String> {
        let began = Instant::now();
        let (place, index) = (self.answers.place(), self.answers.index());
        let picture = Picture::take(place, &index, FILE_BYTES_MAX).await?;
        let kept = salvage::keep(&picture, &self.member, "at the end of a turn").await;
        if kept.as_ref().is_ok_and(Option::is_some) {
            salvage::prune(place, &self.member).await?;
        }
        let survey = survey_of(picture, None).await?;
        // In a directory that members share, git cannot tell who has changed what. In the middle of a merge, the files of the
        // base branch look like changes: the look after it compares with the tree before it.
        let is_settled = place.head().await? == survey.head && !place.is_merging();
        let before = match is_settled {
            true => self.tree.lock().await.replace(survey.tree.clone()),
            false => None,
        };
        if let Some(before) = before.filter(|before| *before != survey.tree && place.is_linked()) {
            let mut touched = touched(place, &before, &survey.tree).await?;
            // What came from the base branch is someone else's.
            touched.retain(|path| survey.paths.contains(path));
            self.reporter.changed(&self.repository, bounded(&touched, CHANGED_MAX));
        }
        self.reporter.work(work_of(&survey), began);
        kept.map(drop)
    }

    /// Reports that the program changes a file now.
    fn changes_file(&self, path: &str) {
        let path = Path::new(path);
        let root = &self.answers.place().root;
        let below = match path.is_absolute() {
            true => path.strip_prefix(root).ok().map(Path::to_owned),
            false => Some(path.to_owned()),
        };
        let Some(below) = below.and_then(|below| below.to_str().map(str::to_owned)) else { return };
        if !is_lock_file(Path::new(&below)) {
            self.reporter.changed(&self.repository, vec![below]);
        }
    }

    /// Waits until the work was looked at since this call.
    async fn finish(&self) {
        let mut number = 0;
        self.changes.send_modify(|changes| {
            *changes += 1;
            number = *changes;
        });
        let _ = self.seen.subscribe().wait_for(|seen| *seen >= number).await;
    }

    /// Merges an approved commit into the branch that the worktree began from.
    async fn merge(&self, approved: &v1::ReviewResponse) -> v1::MergeOutcome {
        let place = self.answers.place();
        let branch = |branch: Result<Option<String>, String>| branch.ok().flatten().unwrap_or_default();
        let (from, into) = (branch(place.branch().await), branch(place.base_branch().await));
        let (task_id, commit) = (approved.task_id, approved.commit.clone());
        let outcome = v1::MergeOutcome { task_id, commit: commit.clone(), into: into.clone(), ..Default::default() };
        if into.is_empty() {
            let detail = "Its worktree began from no branch.".to_owned();
            return v1::MergeOutcome { detail, ..outcome };
        }
        let order = Order {
            message: format!("Merge task {task_id} of {}\n\nBranch {from}, approved at {commit}.\n", self.member),
            commit,
            into,
            squash: false,
            check: place.check().await.ok().flatten(),
            check_timeout: merge::CHECK_DEADLINE,
            author: None,
        };
        match merge::merge(place, order).await {
            Ok(merged) => v1::MergeOutcome { merged: merged.commit, ..outcome },
            Err(Unmerged::Conflicts(conflicts)) => {
                v1::MergeOutcome { conflicts: bounded(&conflicts, CHANGED_MAX), ..outcome }
            }
            Err(unmerged) => v1::MergeOutcome { detail: unmerged.to_string(), ..outcome },
        }
    }
}

impl Incarnation<'_> {
    /// Begins to follow the member's work, in the background.
    pub(crate) async fn follow_work(&mut self) {
        let Some(member) = self.joined.member.as_ref().map(|member| member.name.clone()) else { return };
        let reporter = self.work_reporter();
        let Some(tracker) = Tracker::begin(&self.config.working_directory(), &member, reporter).await else { return };
        let tracker = Arc::new(tracker);
        self.work = Some(Arc::clone(&tracker));
        self.following = Some(start(tracker.follow(self.in_hand.clone())));
    }

    /// Records that the program changes a file.
    pub(crate) fn file_changed(&self, path: &str) {
        if let Some(work) = &self.work {
            work.changes_file(path);
        }
    }

    /// Keeps the work once more, at the end.
    pub(super) async fn keep_work(&mut self) {
        let Some(work) = self.work.clone() else { return };
        if self
            .hurry
            .clone()
            .bound(timeout(LAST_SALVAGE_DEADLINE, work.finish()))
            .await
            .is_none_or(|kept| kept.is_err())
        {
            tracing::warn!("the member's work was not kept at the end; it is in its directory");
        }
    }

    /// Waits for the merges that are under way.
    pub(super) async fn finish_merges(&mut self) {
        let merging = async { while self.merges.join_next().await.is_some() {} };
        if self.hurry.clone().bound(timeout(LAST_MERGE_DEADLINE, merging)).await.is_none_or(|ended| ended.is_err()) {
            tracing::warn!("what was approved is not merged: the runner ends; `teamwire work merge` merges it");
        }
    }

    /// Merges what a message approves, in the background, if it says so.
    pub(super) fn merge_approved(&mut self, message: &v1::Message) {
        let Some(Body::ReviewResponse(approved)) = &message.body else { return };
        let (Some(work), true) = (&self.work, approved.approve() && approved.merge) else { return };
        let (work, approved) = (Arc::clone(work), approved.clone());
        self.merges.spawn(async move {
            let outcome = work.merge(&approved).await;
            work.reporter.merge(outcome);
        });
    }
}
