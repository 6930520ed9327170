//! The backend of a host in a cluster, which the host's loop calls.

use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::future::try_join_all;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::Client;
use teamwire_agents::host::{Backend, Ended, Found, Order, StartError, Ticket, bounds};
use teamwire_client::{Pem, TlsOptions};
use teamwire_proto::{
    address::Address,
    credential::Credential,
    join_string::JoinString,
    v1::{HostOffer, HostProfile, SpawnTerms},
};
use tokio::{
    sync::{Mutex, Notify, mpsc, mpsc::Receiver},
    time::timeout,
};

use crate::{
    api::{Cluster, explain, of_member},
    job::{self, Maker},
    profiles::Profiles,
    verdict::{StoppedBecause, is_finished, may_run, stopped_because},
    watch::Watcher,
};

/// How long to wait for a change before asking the API server again anyway.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How many ends may wait for the host's loop. If that many wait, the watcher waits, too.
const ENDS_MAX: usize = 64;

/// The id of the pretended order that tests a profile. No real order has it.
const TRIAL: &str = "00000000-0000-0000-0000-000000000000";

/// Starts the members of a host as Jobs.
pub struct Jobs {
    cluster: Cluster,
    maker: Maker,
    profiles: Profiles,
    namespace: String,
    ends: Mutex<Receiver<Ended>>,
    changed: Arc<Notify>,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").field("maker", &self.maker).field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// Why a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is neither a service account nor a kubeconfig.
    #[error("there is no cluster to use: {0}. Run it in a Pod with a service account, or with a kubeconfig.")]
    Config(String),
    /// The API server refuses the template of a profile.
    #[error("the profile {profile} cannot be used: {text}")]
    Profile {
        /// The profile.
        profile: String,
        /// What is wrong.
        text: String,
    },
    /// A call to the API server failed.
    #[error("{0}")]
    Call(String),
}

impl Jobs {
    /// Connects to the cluster of this Pod, or of the kubeconfig, and begins to follow the Jobs that this host created.
    ///
    /// Asks the API server whether it accepts each profile.
    pub async fn connect(profiles: Profiles, host: &str, team: &str) -> Result<Self, ConnectError> {
        let config = kube::Config::infer().await.map_err(|error| ConnectError::Config(error.to_string()))?;
        Self::with_config(config, profiles, host, team).await
    }

    /// Like [`Jobs::connect`], with the given configuration.
    pub async fn with_config(
        config: kube::Config,
        profiles: Profiles,
        host: &str,
        team: &str,
    ) -> Result<Self, ConnectError> {
        let namespace = match profiles.namespace.as_str() {
            "" => config.default_namespace.clone(),
            named => named.to_owned(),
        };
        let client = Client::try_from(config).map_err(|error| ConnectError::Config(error.to_string()))?;
        let cluster = Cluster::new(&client, &namespace);
        let call = |error: kube::Error| ConnectError::Call(explain(&error));
        let owner = match profiles.owner.as_str() {
            "" => None,
            name => Some(cluster.owner(name).await.map_err(call)?),
        };
        let keep_s = i32::try_from(profiles.keep.as_secs()).unwrap_or(i32::MAX);
        let maker = Maker { host: host.to_owned(), team: team.to_owned(), owner, keep_s };
        for (name, profile) in &profiles.profiles {
            let unusable = |text: String| ConnectError::Profile { profile: name.clone(), text };
            let trial = job::job(&maker, &trial(team, name), profile, &[]).map_err(|error| unusable(error.reason))?;
            cluster.try_job(&trial).await.map_err(|error| unusable(explain(&error)))?;
        }
        let (sender, ends) = mpsc::channel(ENDS_MAX);
        let changed = Arc::new(Notify::new());
        let watcher = Watcher::new(cluster.clone(), sender, changed.clone());
        tokio::spawn(watcher.run(maker.selector()));
        Ok(Self { cluster, maker, profiles, namespace, ends: Mutex::new(ends), changed })
    }

    /// Deletes every Job of this host, after its team was deleted.
    pub async fn delete_all(&self) -> Result<(), ConnectError> {
        let call = |error: kube::Error| ConnectError::Call(explain(&error));
        let jobs = self.cluster.jobs(&self.maker.selector_of_all()).await.map_err(call)?;
        try_join_all(jobs.iter().map(|job| self.cluster.delete(job))).await.map_err(call)?;
        Ok(())
    }

    /// Ends the Jobs that match a selector, except one, and waits until none of their Pods run.
    async fn stop(&self, selector: &str, except: &str, reason: &str) -> kube::Result<()> {
        let because = StoppedBecause { reason: reason.to_owned(), try_another_host: false };
        loop {
            let changed = self.changed.notified();
            let jobs = self.cluster.jobs(selector).await?;
            for job in
                jobs.iter().filter(|job| name_of(job) != except && !is_finished(job) && stopped_because(job).is_none())
            {
                self.cluster.stop(name_of(job), &because).await?;
            }
            let pods = self.cluster.pods(selector).await?;
            if !pods.iter().any(|pod| may_run(pod) && !is_of(pod, except)) {
                return Ok(());
            }
            let _ = timeout(ASK_AGAIN, changed).await;
        }
    }

    /// Creates the Job of an order, gives it its token, and lets it run.
    async fn create(&self, order: &Order, ticket: Ticket) -> Result<(), StartError> {
        let profile =
            bounds::profile(&self.profiles.profiles, &order.terms.profile).ok_or_else(|| self.no_such(order))?;
        let files = files(ticket)?;
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        let job = job::job(&self.maker, order, profile, &names)?;
        let Some(made) = self.cluster.create_job(&job).await.map_err(|error| failed(&error))? else {
            return Err(StartError::new("Another process of this host has started it."));
        };
        let begun = async {
            self.cluster.create_secret(&job::secret(&made, files)).await?;
            self.cluster.resume(name_of(&made)).await
        };
        if let Err(error) = begun.await {
            // If this fails, too, the refusal of the order voids the token, and the watcher reports the Job's end.
            let _ = self.cluster.delete(&made).await;
            return Err(failed(&error));
        }
        Ok(())
    }

    fn no_such(&self, order: &Order) -> StartError {
        StartError::here_only(format!("The host {} has no profile {}.", self.maker.host, order.terms.profile))
    }

    async fn existing(&self, request_id: &str) -> kube::Result<Option<Job>> {
        Ok(self.cluster.jobs(&self.of_order(request_id)).await?.pop())
    }

    fn of_order(&self, request_id: &str) -> String {
        format!("{},{}={request_id}", self.maker.selector(), job::ORDER)
    }
}

impl Backend for Jobs {
    fn offer(&self) -> HostOffer {
        let profiles = self.profiles.profiles.iter().map(|(name, profile)| HostProfile {
            name: name.clone(),
            description: profile.description.clone(),
            start_deadline: profile.start_deadline.try_into().ok(),
            tags: profile.tags.clone(),
        });
        HostOffer {
            labels: self.profiles.labels.clone(),
            profiles: profiles.collect(),
            slots: self.profiles.slots,
            platform: "kubernetes".to_owned(),
        }
    }

    async fn recover(&self, order: &Order) -> Found {
        loop {
            match self.existing(&order.request_id).await {
                Ok(None) => return Found::Nothing,
                Ok(Some(job)) if was_resumed(&job) => return Found::Started,
                // Created by a process that died before it created the Secret.
                Ok(Some(job)) => match self.cluster.delete(&job).await {
                    Ok(()) => return Found::Interrupted,
                    Err(error) => tracing::debug!(%error, "a Job was not deleted; trying again"),
                },
                Err(error) => tracing::debug!(%error, "the API server does not answer; trying again"),
            }
            if order.expires_at.is_some_and(|at| at <= SystemTime::now()) {
                return Found::Nothing;
            }
            let _ = timeout(ASK_AGAIN, self.changed.notified()).await;
        }
    }

    async fn admit(&self, order: &Order) -> Result<(), StartError> {
        if !self.profiles.profiles.contains_key(&order.terms.profile) {
            return Err(self.no_such(order));
        }
        let selector = of_member(&self.maker.selector(), &order.member);
        let reason = "Another member of the same name was ordered.";
        self.stop(&selector, &job::name(order), reason).await.map_err(|error| failed(&error))
    }

    async fn start(&self, order: &Order, ticket: Ticket) -> Result<(), StartError> {
        self.create(order, ticket).await
    }

    async fn release(&self, _: &Order) {}

    async fn next_end(&self) -> Ended {
        match self.ends.lock().await.recv().await {
            Some(ended) => ended,
            // The watcher lives as long as this backend.
            None => std::future::pending().await,
        }
    }

    async fn forget(&self, request_id: &str) -> Option<String> {
        let forgotten = async {
            let Some(job) = self.existing(request_id).await? else { return Ok(()) };
            let pods = self.cluster.pods(&self.of_order(request_id)).await?;
            // The Job is kept for its logs, unless the host ended it or another container of its Pod is still running.
            match stopped_because(&job).is_none() && !pods.iter().any(may_run) {
                true => self.cluster.mark_reported(name_of(&job)).await,
                false => self.cluster.delete(&job).await,
            }
        };
        let forgotten: kube::Result<()> = forgotten.await;
        if let Err(error) = forgotten {
            // After a restart, the host reports it again, which is harmless.
            tracing::debug!(%error, request_id, "a Job was not marked as reported");
        }
        None
    }

    async fn stop_all(&self) {
        while let Err(error) = self.stop(&self.maker.selector(), "", "Its host was asked to end its members.").await {
            tracing::warn!(error = explain(&error), "the members were not ended; trying again");
            let _ = timeout(ASK_AGAIN, self.changed.notified()).await;
        }
    }
}

/// Returns an order that tests a profile.
fn trial(team: &str, profile: &str) -> Order {
    Order {
        request_id: TRIAL.to_owned(),
        member: "trial".to_owned(),
        team: team.to_owned(),
        terms: SpawnTerms { profile: profile.to_owned(), ..SpawnTerms::default() },
        expires_at: Some(SystemTime::now()),
    }
}

/// Returns whether a Job has ever been allowed to run.
fn was_resumed(job: &Job) -> bool {
    let is_suspended = job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
    !is_suspended || stopped_because(job).is_some() || is_finished(job)
}

fn name_of(job: &Job) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

fn is_of(pod: &Pod, job: &str) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.name == job)
}

/// Returns the files of a Secret: the join string, and what TLS needs.
fn files(ticket: Ticket) -> Result<BTreeMap<String, Vec<u8>>, StartError> {
    let unusable = |what: &str| StartError::new(format!("The host cannot pass on {what}."));
    let TlsOptions { ca, fingerprint, cert, key } = ticket.tls;
    let token = Credential::parse(&ticket.join_token).map_err(|_| unusable("its join token"))?;
    let addresses = Address::parse_list(&ticket.address).map_err(|_| unusable("the coordinator's address"))?;
    let join = JoinString::new(token, addresses, fingerprint).ok_or_else(|| unusable("its join token"))?;
    let mut files = BTreeMap::from([("join".to_owned(), join.reveal().into_bytes())]);
    for (name, pem) in [("ca.crt", ca), ("tls.crt", cert), ("tls.key", key)] {
        let text = match pem {
            None => continue,
            Some(Pem::Text(text)) => text.into_bytes(),
            Some(Pem::File(path)) => {
                fs::read(&path).map_err(|error| unusable(&format!("{}: {error}", path.display())))?
            }
        };
        files.insert(name.to_owned(), text);
    }
    Ok(files)
}

fn failed(error: &kube::Error) -> StartError {
    // Another host may have another cluster, or more rights.
    StartError::here_only(explain(error))
}
