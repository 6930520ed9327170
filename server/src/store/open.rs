//! Opens the store that a URL names.

use std::{path::PathBuf, sync::Arc};

use super::{Store, StoreError, embedded::EmbeddedStore, redis::RedisStore};

/// The prefix of all keys in Redis, so that other programs can use the same server.
const REDIS_PREFIX: &str = "teamwire";

/// Opens the store that a URL names:
/// - `embedded:PATH`: one file on this machine, created if missing; its directory must exist;
/// - `memory:`: nothing outlives the process;
/// - `redis://HOST`, `redis+unix:///PATH`, `redis+sentinel://HOST,…/SERVICE`, `redis+cluster://HOST,…`: Redis 7.0 or
///   newer, or Valkey; `rediss` adds TLS. `docs/redis.md` describes every form and option.
///
/// Fails with [`StoreError::Misconfigured`] if the URL has none of these forms. Errors never contain a password.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    match url.split_once(':') {
        Some(("embedded", path)) if !path.is_empty() => {
            let path = PathBuf::from(path);
            // Opening checks a file that was not closed cleanly, which takes as long as reading it.
            let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&path)).await;
            Ok(opened.map_err(|error| StoreError::Unavailable(error.to_string()))??)
        }
        Some(("memory", "")) => Ok(EmbeddedStore::in_memory()?),
        Some((scheme, _)) if RedisStore::handles_scheme(scheme) => Ok(RedisStore::connect(url, REDIS_PREFIX).await?),
        _ => Err(StoreError::Misconfigured(
            "the store URL is not valid: use embedded:PATH, memory: or redis://HOST".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_redis::TestRedis;

    #[tokio::test]
    async fn url_selects_the_store() {
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
    async fn invalid_url_is_refused_without_repeating_it() {
        for wrong in ["", "embedded:", "store.redb", "memory:x", "redisx://:hunter2@host", "http://:hunter2@host"] {
            let error = open(wrong).await.unwrap_err().to_string();
            assert!(error.contains("use ") && !error.contains("hunter2"), "{error}");
        }
    }
}
