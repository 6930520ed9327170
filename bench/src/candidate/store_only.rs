//! A store without a server in front of it, called from this process.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use redis::{cmd, pipe};
use uuid::Uuid;

use super::{
    Mail, Shape, inbox_name, payload,
    plain_store::{Entry, PlainStore, Write, connect},
};
use crate::{Result, measure::Arrivals, process::Scratch};

/// How many messages to read at a time: as many as a session of teamwire may have unacknowledged.
const READ_MAX: usize = 64;

/// A store, and where it is.
#[derive(Debug)]
pub(crate) struct StoreOnly {
    store: PlainStore,
    with_receipts: bool,
    scratch: Scratch,
}

impl StoreOnly {
    /// Opens one. In Redis it creates a consumer group per inbox.
    pub(crate) async fn open(scratch: Scratch, with_receipts: bool, shape: Shape) -> Result<Self> {
        let store = PlainStore::open(&scratch.url).await?;
        if let PlainStore::Redis(redis, _) = &store {
            for inbox in 0..shape.inboxes {
                let mut create = cmd("XGROUP");
                create.arg("CREATE").arg(inbox_name(inbox)).arg("readers").arg("0").arg("MKSTREAM");
                create.exec_async(&mut redis.clone()).await?;
            }
        }
        Ok(Self { store, with_receipts, scratch })
    }
}

#[tonic::async_trait]
impl Mail for StoreOnly {
    async fn send(&self, _: usize, inbox: usize, content: String) -> Result<()> {
        let (inbox, key) = (inbox_name(inbox), Uuid::now_v7().to_string());
        let (id, body) = payload::compose(&inbox, content);
        let inboxes = vec![inbox];
        self.store.append(Write::Message(Entry { id, key, inboxes, body })).await
    }

    fn receive(&self, inbox: usize, until: u64, arrivals: Arc<Arrivals>) -> BoxFuture<'static, Result<()>> {
        let (url, inbox, with_receipts) = (self.scratch.url.clone(), inbox_name(inbox), self.with_receipts);
        Box::pin(async move {
            if !url.starts_with("redis") {
                return Err("a log has no blocking reads".into());
            }
            // Its own connection: a blocking read delays all other commands on it.
            let mut redis = connect(&url).await?;
            let mut taken = 0;
            while taken < until {
                let mut read = cmd("XREADGROUP");
                read.arg("GROUP").arg("readers").arg("one").arg("COUNT").arg(READ_MAX).arg("BLOCK").arg(0);
                type Streams = Vec<(String, Vec<(String, (String, String))>)>;
                let read: Streams = read.arg("STREAMS").arg(&inbox).arg(">").query_async(&mut redis).await?;
                let entries: Vec<_> = read.into_iter().flat_map(|(_, entries)| entries).collect();
                let (places, ids): (Vec<_>, Vec<_>) = entries.into_iter().map(|(at, (_, id))| (at, id)).unzip();
                let bodies: Vec<Vec<u8>> = cmd("HMGET").arg("bodies").arg(&ids).query_async(&mut redis).await?;
                for body in &bodies {
                    arrivals.record(&payload::content(body)?)?;
                }
                let mut done = pipe();
                done.atomic().cmd("XACK").arg(&inbox).arg("readers").arg(&places).ignore();
                done.cmd("XDEL").arg(&inbox).arg(&places).ignore();
                if with_receipts {
                    let mut receipts = cmd("HSET");
                    receipts.arg("receipts");
                    for id in &ids {
                        receipts.arg(id).arg(1);
                    }
                    done.add_command(receipts).ignore();
                }
                done.exec_async(&mut redis).await?;
                taken += bodies.len() as u64;
            }
            Ok(())
        })
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        // The log is written by this process.
        self.scratch.cpu()
    }
}
