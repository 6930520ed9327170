//! A network that can be bad: a proxy between two that speak TCP.

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

/// How many pieces may be on their way in one direction of a connection.
const PIECES_MAX: usize = 256;

/// What the network is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// How long each piece is on its way, at least and at most.
    pub latency: (Duration, Duration),
    /// The way on which everything vanishes. A connection on which something has vanished stays silent that way for ever,
    /// and nobody closes it.
    pub silent: Option<Way>,
    /// How often connections were reset so far: whenever it grows, each is when it next carries an answer, in the middle of
    /// that.
    pub resets: u32,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From whoever has connected.
    There,
    /// To whoever has connected.
    Back,
}

/// A proxy. It and its connections end with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    _connections: JoinSet<()>,
}

impl Proxy {
    /// Stands in front of a port of this machine.
    pub async fn before(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (weather, known) = watch::channel(Weather::default());
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut carried = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                carried.spawn(carry(near, port, known.clone()));
                while carried.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, weather, _connections: connections })
    }

    /// Returns where it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Changes the weather, for the connections that there are as well.
    pub fn set(&self, change: impl FnOnce(&mut Weather)) {
        self.weather.send_modify(change);
    }
}

/// Carries one connection to its end.
async fn carry(near: TcpStream, port: u16, weather: watch::Receiver<Weather>) {
    // As where nobody listens: it is closed at once.
    let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let mut ways = JoinSet::new();
    ways.spawn(flow(near_read, far_write, Way::There, weather.clone()));
    ways.spawn(flow(far_read, near_write, Way::Back, weather));
    while let Some(ended) = ways.join_next().await {
        // Whoever is reset is so both ways: the other half is dropped with this.
        if !matches!(ended, Ok(Ok(()))) {
            return;
        }
    }
}

/// Carries what comes one way, in order, each piece as late as the weather has it.
async fn flow(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way,
    weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    let (pieces, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let resets = weather.borrow().resets;
    let take = async move {
        let (mut buffer, mut arrives, mut is_silent) = (vec![0; 16 * 1024], Instant::now(), false);
        loop {
            let taken = from.read(&mut buffer).await?;
            let now = *weather.borrow();
            // What has vanished leaves a gap that nothing may follow.
            is_silent |= now.silent == Some(way);
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
            // In order, however late each is.
            arrives = arrives.max(Instant::now() + late);
            let torn = way == Way::Back && now.resets > resets;
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
        // Not closed, but broken off, once the other half goes as well.
        to.as_ref().set_zero_linger()?;
        to.forget();
        return Err(error);
    }
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::time::timeout;

    use super::*;

    /// A proxy before somebody who repeats what is said.
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
    async fn in_good_weather_all_comes_through_and_in_bad_later() {
        let (proxy, mut stream) = echo().await;
        assert_eq!(say(&mut stream).await.unwrap(), *b"word");
        proxy.set(|weather| weather.latency = (Duration::from_millis(100), Duration::from_millis(120)));
        let began = Instant::now();
        assert_eq!(say(&mut stream).await.unwrap(), *b"word");
        assert!(began.elapsed() >= Duration::from_millis(200));
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0; 4]).await.unwrap(), 0, "an end is an end");
    }

    #[tokio::test]
    async fn what_vanishes_is_gone_for_good_without_a_close_and_the_next_connection_works() {
        for way in [Way::There, Way::Back] {
            let (proxy, mut stream) = echo().await;
            proxy.set(|weather| weather.silent = Some(way));
            let patience = Duration::from_millis(200);
            assert!(timeout(patience, say(&mut stream)).await.is_err());
            proxy.set(|weather| weather.silent = None);
            assert!(timeout(patience, say(&mut stream)).await.is_err());
            let mut next = TcpStream::connect(proxy.address).await.unwrap();
            assert_eq!(say(&mut next).await.unwrap(), *b"word");
        }
    }

    #[tokio::test]
    async fn an_answer_is_cut_off_in_its_middle() {
        let (proxy, mut stream) = echo().await;
        assert_eq!(say(&mut stream).await.unwrap(), *b"word");
        proxy.set(|weather| weather.resets += 1);
        stream.write_all(b"word").await.unwrap();
        let mut said = Vec::new();
        let error = stream.read_to_end(&mut said).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(said.len() < 4);
        let mut next = TcpStream::connect(proxy.address).await.unwrap();
        assert_eq!(say(&mut next).await.unwrap(), *b"word");
    }
}
