//! Stores that wrap another store.

use std::{fmt, future::Future};

use async_trait::async_trait;
use tokio::sync::{broadcast, mpsc};

use super::{
    Entry, Export, Extent, Item, Key, Leases, Loss, Namespace, Notification, Outcome, Range, Record, Store, StoreError,
    Txn,
};

/// A store that wraps another one, such as one that measures it or one that injects faults.
///
/// Every method defaults to the wrapped store's, so a layer implements only what it changes. Every `StoreLayer` is a
/// [`Store`].
pub trait StoreLayer: fmt::Debug + Send + Sync + 'static {
    /// Returns the wrapped store.
    fn inner(&self) -> &dyn Store;

    /// Runs a call to the wrapped store. A layer that treats all calls alike overrides this. `operation` is the
    /// method's name: `read`, `scan`, `range`, `extents`, `leases`, `usage`, `version`, `now` or `commit`.
    fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        let _ = operation;
        call
    }

    /// See [`Store::read`].
    fn read(
        &self,
        namespace: &Namespace,
        keys: &[Key],
    ) -> impl Future<Output = Result<Vec<Option<Record>>, StoreError>> + Send {
        async move { self.around("read", self.inner().read(namespace, keys)).await }
    }

    /// See [`Store::scan`].
    fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(String, Record)>, StoreError>> + Send {
        async move { self.around("scan", self.inner().scan(namespace, kind, after, limit)).await }
    }

    /// See [`Store::range`].
    fn range(
        &self,
        namespace: &Namespace,
        stream: &str,
        range: Range,
    ) -> impl Future<Output = Result<Vec<Entry>, StoreError>> + Send {
        async move { self.around("range", self.inner().range(namespace, stream, range)).await }
    }

    /// See [`Store::leases`].
    fn leases(&self, namespace: &Namespace) -> impl Future<Output = Result<Leases, StoreError>> + Send {
        async move { self.around("leases", self.inner().leases(namespace)).await }
    }

    /// See [`Store::now_ms`].
    fn now_ms(&self) -> impl Future<Output = Result<u64, StoreError>> + Send {
        async move { self.around("now", self.inner().now_ms()).await }
    }

    /// See [`Store::commit`].
    fn commit(&self, namespace: &Namespace, txn: &Txn) -> impl Future<Output = Result<Outcome, StoreError>> + Send {
        async move { self.around("commit", self.inner().commit(namespace, txn)).await }
    }
}

#[async_trait]
impl<L: StoreLayer> Export for L {
    fn kind(&self) -> &'static str {
        self.inner().kind()
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        self.inner().namespaces().await
    }

    async fn export(&self, to: &mpsc::Sender<Item>) -> Result<(), StoreError> {
        self.inner().export(to).await
    }
}

#[async_trait]
impl<L: StoreLayer> Store for L {
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        StoreLayer::read(self, namespace, keys).await
    }

    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        StoreLayer::scan(self, namespace, kind, after, limit).await
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        StoreLayer::range(self, namespace, stream, range).await
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        self.around("extents", self.inner().extents(namespace, streams)).await
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        StoreLayer::leases(self, namespace).await
    }

    async fn usage(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        self.around("usage", self.inner().usage(namespace)).await
    }

    async fn version(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        self.around("version", self.inner().version(namespace)).await
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        StoreLayer::now_ms(self).await
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        StoreLayer::commit(self, namespace, txn).await
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.inner().check_writable().await
    }

    async fn has_lost(&self, namespace: &Namespace) -> Result<bool, StoreError> {
        self.inner().has_lost(namespace).await
    }

    fn is_exclusive(&self) -> bool {
        self.inner().is_exclusive()
    }

    async fn close(&self) {
        self.inner().close().await;
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.inner().notifications()
    }

    fn losses(&self) -> broadcast::Receiver<Loss> {
        self.inner().losses()
    }
}
