//! Work in the form of the protocol.

use std::env;

use teamwire_proto::v1::{self, MergeForecast};

use super::{
    Place,
    salvage::Salvage,
    survey::{Forecast, Survey, survey},
};

/// How many paths a report has, and how many that conflict.
const PATHS_MAX: usize = 500;
const CONFLICTS_MAX: usize = 100;

/// Returns the work in this process's directory. `None` if it is in no git repository, or git cannot say.
pub async fn here() -> Option<v1::Work> {
    let place = Place::find(&env::current_dir().ok()?).await.ok()??;
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
        paths: survey.paths.iter().take(PATHS_MAX).cloned().collect(),
    }
}

/// Returns a forecast, the paths that conflict, and why it is not known.
fn forecast_of(forecast: &Forecast) -> (MergeForecast, Vec<String>, String) {
    match forecast {
        Forecast::Clean => (MergeForecast::Clean, Vec::new(), String::new()),
        Forecast::Conflicts(paths) => {
            (MergeForecast::Conflicts, paths.iter().take(CONFLICTS_MAX).cloned().collect(), String::new())
        }
        Forecast::Unknown(why) => {
            (MergeForecast::Unspecified, Vec::new(), why.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// Returns a salvage in the form of the protocol.
pub fn salvage_of(salvage: &Salvage) -> v1::Salvage {
    let left_out = match salvage.left_out.as_slice() {
        [] => String::new(),
        left_out => format!("without {}", left_out.join(", ")),
    };
    v1::Salvage {
        r#ref: salvage.reference.clone(),
        commit: salvage.commit.clone(),
        at: Some(prost_types::Timestamp { seconds: salvage.time.as_second(), nanos: salvage.time.subsec_nanosecond() }),
        note: left_out,
    }
}
