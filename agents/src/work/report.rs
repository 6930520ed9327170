//! Work in the form of the protocol.

use std::path::Path;

use teamwire_proto::v1::{self, MergeForecast};

use super::{
    Place,
    salvage::Salvage,
    survey::{Forecast, Survey, survey},
};

/// How many paths a report has, how many that conflict, and how many bytes each of the two lists has: well below what a
/// coordinator accepts in one call.
const PATHS_MAX: usize = 500;
const CONFLICTS_MAX: usize = 100;
const PATHS_BYTES_MAX: usize = 48 * 1024;

/// Returns the work to review, if a task has a reviewer. `directory`: where its owner works. `None` also if that is in no git
/// repository, or git cannot say.
pub async fn to_review(task: Option<&v1::Task>, directory: &Path) -> Option<v1::Work> {
    match task.is_some_and(|task| !task.reviewer.is_empty()) {
        true => in_directory(directory).await,
        false => None,
    }
}

async fn in_directory(directory: &Path) -> Option<v1::Work> {
    let place = Place::find(directory).await.ok()??;
    let directory = tempfile::tempdir().ok()?;
    let surveyed = survey(&place, None, &directory.path().join("index")).await;
    surveyed.inspect_err(|why| tracing::warn!("the work here is not known: {why}")).ok().map(|survey| work_of(&survey))
}

/// Returns a survey in the form of the protocol.
pub fn work_of(survey: &Survey) -> v1::Work {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let (forecast, conflicts, detail) = forecast_of(&survey.forecast);
    v1::Work {
        repository: text(&survey.repository),
        branch: text(&survey.branch),
        base_branch: text(&survey.base_branch),
        base: text(&survey.base),
        head: text(&survey.head),
        ahead: number(survey.ahead),
        behind: number(survey.behind),
        files: number(survey.files),
        insertions: number(survey.insertions),
        deletions: number(survey.deletions),
        uncommitted: number(survey.uncommitted as u64),
        forecast: forecast.into(),
        conflicts,
        detail,
        paths: bounded(&survey.paths, PATHS_MAX),
    }
}

/// Returns a forecast, the paths that conflict, and why it is not known.
fn forecast_of(forecast: &Forecast) -> (MergeForecast, Vec<String>, String) {
    match forecast {
        Forecast::Clean => (MergeForecast::Clean, Vec::new(), String::new()),
        Forecast::Conflicts(paths) => (MergeForecast::Conflicts, bounded(paths, CONFLICTS_MAX), String::new()),
        Forecast::Unknown(why) => {
            (MergeForecast::Unspecified, Vec::new(), why.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// Returns the first paths.
pub(crate) fn bounded(paths: &[String], max: usize) -> Vec<String> {
    let mut bytes = 0;
    let fits = |path: &&String| {
        bytes += path.len();
        bytes <= PATHS_BYTES_MAX
    };
    paths.iter().take(max).take_while(fits).cloned().collect()
}

/// Returns a salvage in the form of the protocol.
pub fn salvage_of(salvage: &Salvage) -> v1::Salvage {
    let left_out = match salvage.left_out.as_slice() {
        [] => String::new(),
        left_out => format!("; without {}", left_out.join(", ")),
    };
    v1::Salvage {
        r#ref: salvage.reference.clone(),
        commit: salvage.commit.clone(),
        at: Some(prost_types::Timestamp { seconds: salvage.time.as_second(), nanos: salvage.time.subsec_nanosecond() }),
        note: format!("{}{left_out}", salvage.note),
    }
}
