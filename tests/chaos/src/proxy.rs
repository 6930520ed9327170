//! A TCP proxy that injects network faults.

use std::{io, net::SocketAddr, time::Duration};

use rand::RngExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// The most chunks in flight in one direction of a connection.
const PIECES_MAX: usize = 256;

/// The faults of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFaults {
    /// The minimum and maximum delay of each chunk.
    pub latency: (Duration, Duration),
    /// The direction in which everything is dropped. A connection that dropped something stays silent in that direction
    /// and open for good.
    pub silent: Option<Direction>,
    /// The number of resets so far. When it grows, each connection is reset in the middle of its next answer.
    pub resets: u32,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the side that connected.
    ToServer,
    /// To the side that connected.
    ToClient,
}

/// A proxy. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    faults: watch::Sender<LinkFaults>,
    _connections: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy in front of a local port.
    pub async fn before(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (faults, known) = watch::channel(LinkFaults::default());
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut carried = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                carried.spawn(carry(near, port, known.clone()));
                while carried.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, faults, _connections: connections })
    }

    /// Returns the port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Changes the faults, for open connections too.
    pub fn set(&self, change: impl FnOnce(&mut LinkFaults)) {
        self.faults.send_modify(change);
    }
}

/// Carries one connection to its end.
async fn carry(near: TcpStream, port: u16, faults: watch::Receiver<LinkFaults>) {
    // Close at once, as if no one listened.
    let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let mut directions = JoinSet::new();
    directions.spawn(flow(near_read, far_write, Direction::ToServer, faults.clone()));
    directions.spawn(flow(far_read, near_write, Direction::ToClient, faults));
    while let Some(ended) = directions.join_next().await {
        // A reset concerns both directions: returning drops the other half.
        if !matches!(ended, Ok(Ok(()))) {
            return;
        }
    }
}

/// Carries one direction of a connection, in order, with the delays that the faults ask for.
async fn flow(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    faults: watch::Receiver<LinkFaults>,
) -> io::Result<()> {
    let (pieces, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let resets = faults.borrow().resets;
    let take = async move {
        let (mut buffer, mut arrives, mut is_silent) = (vec![0; 16 * 1024], Instant::now(), false);
        loop {
            let taken = from.read(&mut buffer).await?;
            let now = *faults.borrow();
            // Nothing may follow dropped bytes.
            is_silent |= now.silent == Some(direction);
            if is_silent && taken == 0 {
                std::future::pending::<()>().await;
            }
            if is_silent {
                continue;
            }
            if taken == 0 {
                return Ok::<_, io::Error>(());
            }
            let (least, most) = now.latency;
            let late = least + (most.saturating_sub(least)).mul_f64(rand::rng().random());
            // Chunks keep their order whatever their delays.
            arrives = arrives.max(Instant::now() + late);
            let torn = direction == Direction::ToClient && now.resets > resets;
            let whole = if torn { taken / 2 } else { taken };
            if pieces.send((arrives, buffer[..whole].to_vec())).await.is_err() {
                return Ok(());
            }
            if torn {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    };
    let bring = async move {
        while let Some((at, piece)) = due.recv().await {
            sleep_until(at).await;
            to.write_all(&piece).await?;
        }
        Ok::<_, io::Error>(to)
    };
    let (taken, brought) = tokio::join!(take, bring);
    let mut to = brought?;
    if let Err(error) = taken {
        // Reset rather than close, once the other half is dropped too.
        to.as_ref().set_zero_linger()?;
        to.forget();
        return Err(error);
    }
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    /// Starts an echo server behind a proxy.
    async fn echo() -> (Proxy, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::before(listener.local_addr().unwrap().port()).await.unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.into_split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        (proxy, stream)
    }

    async fn say(stream: &mut TcpStream) -> io::Result<[u8; 4]> {
        let mut said = [0; 4];
        stream.write_all(b"word").await?;
        stream.read_exact(&mut said).await?;
        Ok(said)
    }

    #[tokio::test]
    async fn a_healthy_link_passes_everything_and_a_slow_one_delays_it() {
        let (proxy, mut stream) = echo().await;
        assert_eq!(say(&mut stream).await.unwrap(), *b"word");
        proxy.set(|faults| faults.latency = (Duration::from_millis(100), Duration::from_millis(120)));
        let began = Instant::now();
        assert_eq!(say(&mut stream).await.unwrap(), *b"word");
        assert!(began.elapsed() >= Duration::from_millis(200));
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0; 4]).await.unwrap(), 0, "the close passes through");
    }

    #[tokio::test]
    async fn dropped_bytes_are_gone_for_good_without_a_close_and_the_next_connection_works() {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (proxy, mut stream) = echo().await;
            proxy.set(|faults| faults.silent = Some(direction));
            let patience = Duration::from_millis(200);
            assert!(timeout(patience, say(&mut stream)).await.is_err());
            proxy.set(|faults| faults.silent = None);
            assert!(timeout(patience, say(&mut stream)).await.is_err());
            let mut next = TcpStream::connect(proxy.address).await.unwrap();
            assert_eq!(say(&mut next).await.unwrap(), *b"word");
        }
    }

    #[tokio::test]
    async fn a_reset_cuts_an_answer_in_its_middle() {
        let (proxy, mut stream) = echo().await;
        assert_eq!(say(&mut stream).await.unwrap(), *b"word");
        proxy.set(|faults| faults.resets += 1);
        stream.write_all(b"word").await.unwrap();
        let mut said = Vec::new();
        let error = stream.read_to_end(&mut said).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(said.len() < 4);
        let mut next = TcpStream::connect(proxy.address).await.unwrap();
        assert_eq!(say(&mut next).await.unwrap(), *b"word");
    }
}
