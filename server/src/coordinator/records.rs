//! Reading records from the store, for calls that show them rather than decide on them.

use std::sync::Arc;

use teamwire_proto::Refusal;

use super::{
    Coordinator,
    store_errors::{corrupt, unavailable},
};
use crate::{
    domain::{
        records::RecordType,
        tx::{CachedRecord, RuleError},
    },
    store::{Entry, Extent, Key, Namespace, Range},
};

impl Coordinator {
    pub(super) async fn fetch<T: RecordType>(
        &self,
        namespace: &Namespace,
        ids: Vec<String>,
    ) -> Result<Vec<Option<Arc<T>>>, Refusal> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Key> = ids.into_iter().map(|id| Key::new(T::KIND, id)).collect();
        let records = self.store.read(namespace, &keys).await.map_err(unavailable)?;
        records
            .into_iter()
            .map(|record| {
                CachedRecord::new(record).get::<T>().map_err(|stop| match stop {
                    RuleError::Refused(refusal) => refusal,
                    RuleError::NeedsRecords(_) | RuleError::NeedsInbox(_) => corrupt(namespace, T::KIND),
                    RuleError::Corrupt(what) => corrupt(namespace, &what),
                })
            })
            .collect()
    }

    pub(super) async fn entries(
        &self,
        namespace: &Namespace,
        stream: &str,
        range: Range,
    ) -> Result<Vec<Entry>, Refusal> {
        self.store.range(namespace, stream, range).await.map_err(unavailable)
    }

    pub(super) async fn extent(&self, namespace: &Namespace, stream: &str) -> Result<Extent, Refusal> {
        let extents = self.store.extents(namespace, &[stream.to_owned()]).await.map_err(unavailable)?;
        extents.first().copied().ok_or_else(|| corrupt(namespace, "an extent"))
    }
}
