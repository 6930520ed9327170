//! Follows the Jobs and Pods of a host, and ends those that cannot start.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{Event as Happening, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use kube::runtime::{
    WatchStreamExt as _,
    watcher::{self, Event, watcher},
};
use teamwire_agents::host::Ended;
use tokio::{
    sync::{Notify, mpsc::Sender},
    time::{Instant, sleep_until},
};

use crate::{
    api::{Cluster, label_of},
    job::{MEMBER, ORDER},
    verdict::{Seen, Verdict, judge, may_run},
    words::End,
};

/// How long to wait before a failed call is retried.
const RETRY: Duration = Duration::from_secs(2);

/// An item from one of the streams.
enum Heard {
    Job(Box<Event<Job>>),
    Pod(Box<Event<Pod>>),
    Happening(Box<Event<Happening>>),
    Failed(watcher::Error),
}

/// Follows the objects of a host.
pub(crate) struct Watcher {
    cluster: Cluster,
    ends: Sender<Ended>,
    /// Notified whenever something has changed.
    changed: Arc<Notify>,
    orders: HashMap<String, WatchedJob>,
    /// The objects that a list has named so far; see [`Event::Init`].
    listed_jobs: HashSet<String>,
    listed_pods: HashSet<String>,
}

/// What the host knows about an order, and what it has done about it.
#[derive(Default)]
struct WatchedJob {
    seen: Seen,
    is_reported: bool,
    /// When to look at it again.
    due: Option<Instant>,
}

impl Watcher {
    pub(crate) fn new(cluster: Cluster, ends: Sender<Ended>, changed: Arc<Notify>) -> Self {
        Self {
            cluster,
            ends,
            changed,
            orders: HashMap::new(),
            listed_jobs: HashSet::new(),
            listed_pods: HashSet::new(),
        }
    }

    /// Follows the objects that match a selector, as long as the receiver of the ends exists.
    pub(crate) async fn run(mut self, selector: String) {
        let mut heard = streams(&self.cluster, &selector);
        loop {
            let due = self.orders.values().filter_map(|entry| entry.due).min();
            tokio::select! {
                next = heard.next() => match next {
                    Some(heard) => self.take(heard).await,
                    None => return,
                },
                () = sleep_until(due.unwrap_or_else(far)), if due.is_some() => {
                    let now = Instant::now();
                    let late = self.orders.iter().filter(|(_, entry)| entry.due.is_some_and(|due| due <= now));
                    let late: Vec<String> = late.map(|(order, _)| order.clone()).collect();
                    for order in late {
                        self.look_at(&order).await;
                    }
                }
                () = self.ends.closed() => return,
            }
        }
    }

    async fn take(&mut self, heard: Heard) {
        let orders: Vec<String> = match heard {
            Heard::Job(event) => self.job(*event),
            Heard::Pod(event) => self.pod(*event),
            Heard::Happening(event) => match *event {
                Event::Apply(event) | Event::InitApply(event) => self.happening(event),
                _ => Vec::new(),
            },
            Heard::Failed(error) => {
                tracing::debug!(%error, "the API server does not answer; trying again");
                Vec::new()
            }
        };
        for order in orders {
            self.look_at(&order).await;
        }
        self.changed.notify_waiters();
    }

    /// Handles an event about a Job. Returns the orders that it concerns.
    fn job(&mut self, event: Event<Job>) -> Vec<String> {
        match event {
            Event::Apply(job) => self.set_job(job).into_iter().collect(),
            Event::InitApply(job) => {
                self.listed_jobs.extend(order_of(&job.metadata));
                self.set_job(job).into_iter().collect()
            }
            Event::Delete(job) => {
                let order = order_of(&job.metadata);
                if let Some(entry) = order.as_ref().and_then(|order| self.orders.get_mut(order)) {
                    entry.seen.job = None;
                }
                order.into_iter().collect()
            }
            Event::Init => {
                self.listed_jobs.clear();
                Vec::new()
            }
            Event::InitDone => {
                let gone = |(order, entry): (&String, &mut WatchedJob)| {
                    let is_gone = entry.seen.job.is_some() && !self.listed_jobs.contains(order);
                    is_gone.then(|| {
                        entry.seen.job = None;
                        order.clone()
                    })
                };
                self.orders.iter_mut().filter_map(gone).collect()
            }
        }
    }

    fn set_job(&mut self, job: Job) -> Option<String> {
        let order = order_of(&job.metadata)?;
        let seen = &mut self.orders.entry(order.clone()).or_default().seen;
        seen.had_job = true;
        seen.job = Some(job);
        Some(order)
    }

    /// Handles an event about a Pod. Returns the orders that it concerns.
    fn pod(&mut self, event: Event<Pod>) -> Vec<String> {
        match event {
            Event::Apply(pod) => self.set_pod(pod).into_iter().collect(),
            Event::InitApply(pod) => {
                self.listed_pods.extend(pod.metadata.name.clone());
                self.set_pod(pod).into_iter().collect()
            }
            Event::Delete(pod) => {
                let order = order_of(&pod.metadata);
                if let Some(entry) = order.as_ref().and_then(|order| self.orders.get_mut(order)) {
                    let name = pod.metadata.name.clone().unwrap_or_default();
                    // A Pod that has ended is kept until the Job is gone, too, because it shows how the member ended.
                    match may_run(&pod) {
                        true => drop(entry.seen.pods.remove(&name)),
                        false => drop(entry.seen.pods.insert(name, pod)),
                    }
                }
                self.orders.retain(|_, entry| entry.seen.had_job || entry.seen.pods.values().any(may_run));
                order.into_iter().collect()
            }
            Event::Init => {
                self.listed_pods.clear();
                Vec::new()
            }
            Event::InitDone => {
                let gone = |(order, entry): (&String, &mut WatchedJob)| {
                    let before = entry.seen.pods.len();
                    let listed = &self.listed_pods;
                    entry.seen.pods.retain(|name, pod| listed.contains(name) || !may_run(pod));
                    (entry.seen.pods.len() < before).then(|| order.clone())
                };
                self.orders.iter_mut().filter_map(gone).collect()
            }
        }
    }

    fn set_pod(&mut self, pod: Pod) -> Option<String> {
        let order = order_of(&pod.metadata)?;
        let name = pod.metadata.name.clone()?;
        self.orders.entry(order.clone()).or_default().seen.pods.insert(name, pod);
        Some(order)
    }

    /// Records that the API server has refused a Pod of a Job.
    fn happening(&mut self, event: Happening) -> Vec<String> {
        let of = |entry: &WatchedJob| entry.seen.job.as_ref().and_then(|job| job.metadata.uid.clone());
        let found = self
            .orders
            .iter_mut()
            .find(|(_, entry)| of(entry).is_some_and(|uid| event.involved_object.uid == Some(uid)));
        let Some((order, entry)) = found else { return Vec::new() };
        entry.seen.rejection = event.message;
        vec![order.clone()]
    }

    /// Does what the verdict on an order says.
    async fn look_at(&mut self, order: &str) {
        let Some(entry) = self.orders.get_mut(order) else { return };
        entry.due = None;
        if entry.is_reported {
            if entry.seen.job.is_none() {
                self.orders.remove(order);
            }
            return;
        }
        match judge(&entry.seen, Timestamp::now()) {
            Verdict::Wait(at) => entry.due = at.map(instant),
            Verdict::Stop(because) => {
                let Some(name) = entry.seen.job.as_ref().and_then(|job| job.metadata.name.clone()) else { return };
                // The change comes back as an event.
                if let Err(error) = self.cluster.stop(&name, &because).await {
                    tracing::debug!(%error, job = name, "the Job was not suspended; trying again");
                    entry.due = Some(Instant::now() + RETRY);
                }
            }
            Verdict::Ended { end, try_another_host } => {
                entry.is_reported = true;
                let ended = ended(order, &entry.seen, end, try_another_host);
                // The backend is gone. The next process reports the end.
                let _ = self.ends.send(ended).await;
            }
        }
    }
}

fn ended(order: &str, seen: &Seen, end: End, try_another_host: bool) -> Ended {
    let job = seen.job.as_ref().map(|job| &job.metadata);
    let metadata = job.or_else(|| seen.pods.values().next().map(|pod| &pod.metadata));
    let member = metadata.and_then(|metadata| {
        let exact = metadata.annotations.as_ref().and_then(|annotations| annotations.get(MEMBER));
        exact.map(String::as_str).or_else(|| label_of(metadata.labels.as_ref(), MEMBER)).map(str::to_owned)
    });
    let End { exit, reason } = end;
    Ended { request_id: order.to_owned(), member: member.unwrap_or_default(), exit, reason, try_another_host }
}

/// Returns a stream of all changes to a host's objects. Lists and watches restart automatically.
fn streams(cluster: &Cluster, selector: &str) -> BoxStream<'static, Heard> {
    let of_host = || watcher::Config::default().labels(selector);
    let jobs = watcher(cluster.jobs.clone(), of_host())
        .default_backoff()
        .map(|heard| heard.map_or_else(Heard::Failed, |event| Heard::Job(Box::new(event))))
        .boxed();
    let pods = watcher(cluster.pods.clone(), of_host())
        .default_backoff()
        .map(|heard| heard.map_or_else(Heard::Failed, |event| Heard::Pod(Box::new(event))))
        .boxed();
    // Only events show that a Pod was refused, and events have no labels.
    let refused = watcher::Config::default().fields("involvedObject.kind=Job,reason=FailedCreate");
    let events = watcher(cluster.events.clone(), refused)
        .default_backoff()
        .map(|heard| heard.map_or_else(Heard::Failed, |event| Heard::Happening(Box::new(event))))
        .boxed();
    futures::stream::select_all([jobs, pods, events]).boxed()
}

fn order_of(metadata: &ObjectMeta) -> Option<String> {
    label_of(metadata.labels.as_ref(), ORDER).map(str::to_owned)
}

fn instant(at: Timestamp) -> Instant {
    let left = Timestamp::now().duration_until(at);
    Instant::now() + Duration::try_from(left).unwrap_or_default()
}

/// Returns a placeholder deadline for a wait that is never entered.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}
