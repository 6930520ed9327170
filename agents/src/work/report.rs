//! Work in the form of the protocol.

use std::env;

use teamwire_proto::v1;

use super::Place;

/// Returns the work in this process's directory. `None` if it is in no git repository, or git cannot say.
pub async fn here() -> Option<v1::Work> {
    let place = Place::find(&env::current_dir().ok()?).await.ok()??;
    Some(v1::Work {
        repository: place.repository_id().await.ok()?.unwrap_or_default(),
        branch: place.branch().await.ok()?.unwrap_or_default(),
        base_branch: place.base_branch().await.ok()?.unwrap_or_default(),
        head: place.head().await.ok()?.unwrap_or_default(),
        ..v1::Work::default()
    })
}
