//! Sending and receiving, beside what is used in teamwire's place.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{receive_all, send_all, send_at, still_there, who};
use crate::{
    Bench, Result, Store,
    contender::{Contender, Shape},
    fetch::Program,
    measure::Arrivals,
    report::{Report, Who},
};

/// Its name.
pub(crate) const NAME: &str = "peers";

/// Who sends at once.
const CALLERS: usize = 64;

/// How many messages a second for the latency.
const RATE: f64 = 20.0;

/// How long everybody is given to be there.
const SETTLING: Duration = Duration::from_millis(200);

/// Measures it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut contenders: Vec<_> = bench.stores.iter().map(|store| Contender::Teamwire(*store)).collect();
    contenders
        .extend(bench.stores.iter().filter(|store| store.append_fsync().is_some()).map(|store| Contender::Raw(*store)));
    let others = [
        (Contender::Nats(true), Program::Nats),
        (Contender::Nats(false), Program::Nats),
        (Contender::Rabbit(true), Program::Rabbit),
        (Contender::Rabbit(false), Program::Rabbit),
    ];
    for (contender, program) in others {
        match program.find() {
            Ok(_) => contenders.push(contender),
            Err(why) => report.add_absent(NAME, contender.to_string(), why),
        }
    }
    contenders.push(Contender::File);
    let peer = |contender: Contender| match contender {
        // Compared with those whose OK says as much of the disk.
        Contender::Teamwire(store) => {
            let by_hand = by_hand(if store == Store::Embedded { Store::RedisAlways } else { store });
            let is_flushed = store != Store::RedisEverysec;
            let others = [Contender::Nats(is_flushed), Contender::Rabbit(is_flushed)].map(|other| other.to_string());
            Who { floors: [by_hand].into_iter().chain(others).collect(), ..who(contender) }
        }
        Contender::Raw(store) => Who { name: by_hand(store), ..who(contender) },
        _ => who(contender),
    };
    for inboxes in [1, 100] {
        let shape = Shape { callers: CALLERS, inboxes };
        let case = format!("{CALLERS} callers, {inboxes} inboxes, all received and acknowledged");
        for _ in 0..bench.runs {
            for contender in &contenders {
                let mail = contender.open(bench, shape).await?;
                let arrivals = Arc::new(Arrivals::default());
                let mut receiving = receive_all(&mail, shape, &arrivals);
                sleep(SETTLING).await;
                let sent = send_all(&mail, shape, bench.pace).await?;
                still_there(&mut receiving)?;
                report.add(
                    NAME,
                    &case,
                    peer(*contender),
                    &[
                        ("received/s", arrivals.within(sent.window)?.per_second()),
                        ("sent/s", sent.per_second()),
                        ("send p50 ms", sent.percentile_ms(50.0)),
                    ],
                );
            }
        }
    }
    let shape = Shape { callers: 1, inboxes: 1 };
    let case = format!("{RATE} messages a second, from when a send was due to the receiver");
    for _ in 0..bench.runs {
        for contender in &contenders {
            let mail = contender.open(bench, shape).await?;
            let arrivals = Arc::new(Arrivals::default());
            let mut receiving = receive_all(&mail, shape, &arrivals);
            sleep(SETTLING).await;
            let window = send_at(&mail, shape, bench.pace.of_few(), RATE).await?.window;
            still_there(&mut receiving)?;
            let arrived = arrivals.within(window)?;
            report.add(
                NAME,
                &case,
                peer(*contender),
                &[("p50 ms", arrived.percentile_ms(50.0)), ("p99 ms", arrived.percentile_ms(99.0))],
            );
            // It looks twice a second, which leaves no room for the others in a plot.
            if *contender != Contender::File {
                report.add_latencies(NAME, &case, &peer(*contender).name, &arrived)?;
            }
        }
    }
    Ok(())
}

fn by_hand(store: Store) -> String {
    format!("Redis streams by hand, {}", store.append_fsync().unwrap_or_default())
}
