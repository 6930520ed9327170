//! Reads a store into the lines of a backup.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::format::{Counts, End, Header, Line};
use crate::store::{
    Item, Store, StoreError,
    export::{ITEMS_MAX, abandoned},
};

/// About how many bytes a piece has. It has more only if a single line does.
const PIECE_BYTES: usize = 64 * 1024;

/// Sends a backup of the store, in pieces of whole lines, as fast as they are received. Returns what it holds. The
/// store goes on serving. See [`Export::export`](crate::store::Export::export) for what instant it shows.
pub async fn write(store: &dyn Store, to: mpsc::Sender<Bytes>) -> Result<Counts, StoreError> {
    let (items, mut exported) = mpsc::channel::<Item>(ITEMS_MAX);
    let exporting = async move { store.export(&items).await };
    let mut encoder = Encoder::default();
    encoder.push(&Header::now(store.kind()));
    let encoding = async {
        // Moved here, so that an export whose backup is abandoned ends.
        let mut encoder = encoder;
        while let Some(item) = exported.recv().await {
            encoder.counts.add(&item);
            encoder.push(&Line::from(&item));
            if encoder.lines.len() >= PIECE_BYTES && to.send(encoder.take()).await.is_err() {
                exported.close();
                return Err(abandoned());
            }
        }
        Ok(encoder)
    };
    let (exported, encoded) = tokio::join!(exporting, encoding);
    let mut encoder = encoded?;
    exported?;
    let counts = encoder.counts;
    let mut last = encoder.take().to_vec();
    let end = Line::End(End { counts, blake3: encoder.hasher.finalize().to_hex().to_string() });
    encoder.push(&end);
    last.extend_from_slice(&encoder.lines);
    to.send(last.into()).await.map_err(|_| abandoned())?;
    Ok(counts)
}

#[derive(Default)]
struct Encoder {
    lines: Vec<u8>,
    hasher: blake3::Hasher,
    counts: Counts,
}

impl Encoder {
    fn push(&mut self, line: &impl serde::Serialize) {
        serde_json::to_writer(&mut self.lines, line).expect("texts and numbers can be serialized");
        self.lines.push(b'\n');
    }

    /// Takes the lines so far, which are part of the checksum.
    fn take(&mut self) -> Bytes {
        self.hasher.update(&self.lines);
        std::mem::take(&mut self.lines).into()
    }
}
