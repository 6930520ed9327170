//! Answers those who read a member's work: the numbers, or pages of a diff, of commits and of bundles.

use std::{
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
    time::Duration,
};

use parking_lot::Mutex;
use teamwire_proto::v1::{self, WorkPart};
use tempfile::TempDir;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    Place,
    bundle::{self, PAGE_BYTES},
    diff,
    names::is_id,
    report::{salvage_of, work_of},
    salvage,
    survey::{Survey, survey},
};

/// How many texts are kept for those who read them page by page, and for how long after the last page. Of more, those that were
/// not read for the longest time go.
const TEXTS_MAX: usize = 8;
const KEPT: Duration = Duration::from_secs(120);

/// How many salvages are listed.
const SALVAGES_MAX: usize = 100;

/// Answers for one member.
#[derive(Debug)]
pub(crate) struct Answers {
    place: Place,
    member: String,
    /// A private index, which no other process uses, and the texts that are being read.
    directory: TempDir,
    texts: Mutex<Vec<Text>>,
}

/// A text that someone reads page by page.
#[derive(Debug)]
struct Text {
    version: String,
    file: PathBuf,
    bytes: u64,
    commit: String,
    read: Instant,
}

impl Answers {
    /// Creates a directory for what is being read.
    pub(crate) fn new(place: Place, member: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
        Ok(Self { place, member: member.to_owned(), directory, texts: Mutex::default() })
    }

    /// Returns the working tree.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the path of the private index.
    pub(crate) fn index(&self) -> PathBuf {
        self.directory.path().join("index")
    }

    /// Answers a question, or says why not.
    pub(crate) async fn answer(&self, request: &v1::ReadWorkRequest) -> Result<v1::ReadWorkResponse, String> {
        match request.part() {
            WorkPart::Salvages => {
                let salvages = salvage::list(&self.place, Some(&self.member)).await?;
                let salvages = salvages.iter().take(SALVAGES_MAX).map(salvage_of).collect();
                Ok(v1::ReadWorkResponse { salvages, ..v1::ReadWorkResponse::default() })
            }
            WorkPart::Unspecified | WorkPart::Summary => {
                let survey = self.survey(request).await?;
                Ok(v1::ReadWorkResponse { work: Some(work_of(&survey)), ..v1::ReadWorkResponse::default() })
            }
            _ if !request.version.is_empty() => self.page(&request.version, request.offset),
            part => self.first_page(part, request).await,
        }
    }

    /// Takes a page of a bundle. With the last one, a ref names its commit.
    pub(crate) async fn take_base(&self, request: &v1::SendBaseRequest) -> Result<v1::SendBaseResponse, String> {
        let failed = |error: std::io::Error| format!("The bundle cannot be kept: {error}.");
        let (branch, commit) = (&request.branch, &request.commit);
        if self.place.commit(commit).await?.is_none() {
            let file = self.directory.path().join(format!("base-{commit}"));
            let mut to = File::options().create(true).append(true).open(&file).map_err(failed)?;
            let known = to.metadata().map_err(failed)?.len();
            // A page that is sent again is there already.
            if known < request.offset {
                return Err("A page of the bundle is missing. Send it from the beginning.".to_owned());
            }
            let new = usize::try_from(known - request.offset).ok().and_then(|known| request.data.get(known..));
            to.write_all(new.unwrap_or_default()).map_err(failed)?;
            if request.offset + (request.data.len() as u64) < request.total_bytes {
                return Ok(v1::SendBaseResponse::default());
            }
            let taken = bundle::take_as(&self.place, &file, &bundle::base_ref(branch), commit).await;
            let _ = fs::remove_file(file);
            return taken.map(|taken| v1::SendBaseResponse { r#ref: taken });
        }
        let taken = bundle::name(&self.place, &bundle::base_ref(branch), commit).await?;
        Ok(v1::SendBaseResponse { r#ref: taken })
    }

    async fn survey(&self, request: &v1::ReadWorkRequest) -> Result<Survey, String> {
        let against = Some(request.against.as_str()).filter(|against| !against.is_empty());
        if let Some(against) = against
            && self.place.commit(against).await?.is_none()
        {
            return Err(format!("The repository of {} has no commit and no branch {against}.", self.member));
        }
        // At the same time as the runner itself, which has the index.
        let index = self.directory.path().join(format!("index-{}", Uuid::new_v4().simple()));
        let own = self.index();
        let _ = fs::copy(own, &index);
        let surveyed = survey(&self.place, against, &index).await;
        let _ = fs::remove_file(index);
        surveyed
    }

    async fn first_page(&self, part: WorkPart, request: &v1::ReadWorkRequest) -> Result<v1::ReadWorkResponse, String> {
        let survey = self.survey(request).await?;
        let none = || "There is no commit yet.".to_owned();
        let given = Some(request.commit.clone()).filter(|commit| !commit.is_empty());
        if given
            .as_ref()
            .is_some_and(|given| !(is_id(given) || part == WorkPart::Bundle && salvage::name_of(given).is_some()))
        {
            return Err("Name a commit by its id.".to_owned());
        }
        let version = Uuid::new_v4().simple().to_string();
        let file = self.directory.path().join(&version);
        let base = || survey.base.clone().or_else(|| survey.head.clone()).ok_or_else(none);
        let commit = match part {
            WorkPart::Diff | WorkPart::Stat => {
                let to = given.unwrap_or_else(|| survey.tree.clone());
                diff::diff(&self.place, &base()?, &to, part == WorkPart::Stat, &file).await?;
                to
            }
            WorkPart::Log => {
                let head = given.or_else(|| survey.head.clone()).ok_or_else(none)?;
                diff::log(&self.place, &base()?, &head, &file).await?;
                head
            }
            WorkPart::Bundle => {
                let what = given.or_else(|| survey.head.clone()).ok_or_else(none)?;
                if !bundle::make(&self.place, &what, &request.have, &file).await? {
                    File::create(&file).map_err(|error| error.to_string())?;
                }
                self.place.commit(&what).await?.unwrap_or_default()
            }
            _ => return Err("The runner does not know this part of the work: it is of an earlier version.".to_owned()),
        };
        let bytes = fs::metadata(&file).map_err(|error| error.to_string())?.len();
        let mut texts = self.texts.lock();
        let is_old = |text: &mut Text| text.read.elapsed() > KEPT;
        for old in texts.extract_if(.., is_old) {
            let _ = fs::remove_file(old.file);
        }
        if texts.len() >= TEXTS_MAX
            && let Some(oldest) = (0..texts.len()).min_by_key(|at| texts[*at].read)
        {
            let _ = fs::remove_file(texts.swap_remove(oldest).file);
        }
        texts.push(Text { version: version.clone(), file, bytes, commit, read: Instant::now() });
        drop(texts);
        // The page needs the room.
        let work = v1::Work { paths: Vec::new(), ..work_of(&survey) };
        Ok(v1::ReadWorkResponse { work: Some(work), ..self.page(&version, 0)? })
    }

    fn page(&self, version: &str, offset: u64) -> Result<v1::ReadWorkResponse, String> {
        let mut texts = self.texts.lock();
        let Some(at) = texts.iter().position(|text| text.version == version) else {
            return Err("The runner no longer has that state of the work. Read it from the beginning.".to_owned());
        };
        let text = &mut texts[at];
        text.read = Instant::now();
        let mut data = Vec::new();
        let read = File::open(&text.file).and_then(|mut file| {
            file.seek(SeekFrom::Start(offset))?;
            file.take(PAGE_BYTES).read_to_end(&mut data)
        });
        read.map_err(|error| format!("{}: {error}", text.file.display()))?;
        let page = v1::ReadWorkResponse {
            total_bytes: text.bytes,
            version: version.to_owned(),
            commit: text.commit.clone(),
            data,
            ..v1::ReadWorkResponse::default()
        };
        if offset + page.data.len() as u64 >= text.bytes && text.bytes <= PAGE_BYTES {
            // It was read whole, at once.
            let _ = fs::remove_file(&texts.swap_remove(at).file);
        }
        Ok(page)
    }
}
