//! Which store a URL names.

use std::{path::PathBuf, sync::Arc};

use super::{Store, StoreError, embedded::EmbeddedStore, redis::RedisStore};

/// What the keys of coordinators begin with in a Redis that others use as well.
const REDIS_PREFIX: &str = "teamwire";

/// Opens the store that a URL names:
/// - `embedded:PATH`: one file of this machine, made if it is missing; its directory must exist;
/// - `memory:`: nothing that outlives the process;
/// - `redis://HOST`, `redis+unix:///PATH`, `redis+sentinel://HOST,…/SERVICE`, `redis+cluster://HOST,…`: Redis 7.0 or newer,
///   or Valkey; with `rediss` over TLS. [`super::redis`] has all of their parts and parameters.
///
/// Fails with [`StoreError::Unavailable`] when the URL is none of these, and never repeats a password.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    match url.split_once(':') {
        Some(("embedded", path)) if !path.is_empty() => {
            let path = PathBuf::from(path);
            // A store that was not closed cleanly is checked first, which takes as long as reading it.
            let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&path)).await;
            Ok(opened.map_err(|error| StoreError::Unavailable(error.to_string()))??)
        }
        Some(("memory", "")) => Ok(EmbeddedStore::in_memory()?),
        Some((scheme, _)) if RedisStore::takes(scheme) => Ok(RedisStore::connect(url, REDIS_PREFIX).await?),
        _ => Err(StoreError::Unavailable(
            "the URL of the store names none: use embedded:PATH, memory: or redis://HOST".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::store::test_redis::TestRedis;

    #[tokio::test]
    async fn a_url_opens_the_store_that_it_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let shown = |store: Arc<dyn Store>| format!("{store:?}");
        assert!(shown(open(&format!("embedded:{}", path.display())).await.unwrap()).contains("EmbeddedStore"));
        assert!(path.exists());
        assert!(shown(open("memory:").await.unwrap()).contains("EmbeddedStore"));
        if let Some(server) = TestRedis::start() {
            assert!(shown(open(&server.url()).await.unwrap()).contains("RedisStore"));
        }
    }

    #[tokio::test]
    async fn any_other_url_is_refused_without_repeating_it() {
        for wrong in ["", "embedded:", "store.redb", "memory:x", "redisx://:hunter2@host", "http://:hunter2@host"] {
            let error = open(wrong).await.unwrap_err().to_string();
            assert!(error.contains("use ") && !error.contains("hunter2"), "{error}");
        }
    }
}
