//! Every call to the API server.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, Event, Pod, Secret},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;

use crate::{
    job::{ENDED, REPORTED, label},
    verdict::StoppedBecause,
};

/// The objects of one namespace. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) jobs: Api<Job>,
    pub(crate) pods: Api<Pod>,
    pub(crate) events: Api<Event>,
    secrets: Api<Secret>,
    config_maps: Api<ConfigMap>,
}

impl Cluster {
    pub(crate) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            jobs: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            events: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client.clone(), namespace),
            config_maps: Api::namespaced(client.clone(), namespace),
        }
    }

    /// Looks up the ConfigMap that owns the Jobs of a host.
    pub(crate) async fn owner(&self, name: &str) -> kube::Result<OwnerReference> {
        let found = self.config_maps.get(name).await?;
        Ok(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: name.to_owned(),
            uid: found.metadata.uid.unwrap_or_default(),
            ..OwnerReference::default()
        })
    }

    /// Asks the API server whether it would accept a Job.
    pub(crate) async fn try_job(&self, job: &Job) -> kube::Result<()> {
        self.jobs.create(&PostParams { dry_run: true, ..PostParams::default() }, job).await.map(drop)
    }

    /// Creates a Job. Returns `None` if a Job of the same name exists.
    pub(crate) async fn create_job(&self, job: &Job) -> kube::Result<Option<Job>> {
        match self.jobs.create(&PostParams::default(), job).await {
            Ok(made) => Ok(Some(made)),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn create_secret(&self, secret: &Secret) -> kube::Result<()> {
        self.secrets.create(&PostParams::default(), secret).await.map(drop)
    }

    /// Resumes a Job, so that it creates its Pod.
    pub(crate) async fn resume(&self, job: &str) -> kube::Result<()> {
        self.merge(job, json!({"spec": {"suspend": false}})).await
    }

    /// Suspends a Job, which ends its Pod. The Job remains, with the reason in an annotation.
    pub(crate) async fn stop(&self, job: &str, because: &StoppedBecause) -> kube::Result<()> {
        let because = serde_json::to_string(because).map_err(kube::Error::SerdeError)?;
        self.merge(job, json!({"metadata": {"annotations": {ENDED: because}}, "spec": {"suspend": true}})).await
    }

    /// Marks a finished Job as reported. Kubernetes deletes it later; see `ttlSecondsAfterFinished`.
    pub(crate) async fn mark_reported(&self, job: &str) -> kube::Result<()> {
        self.merge(job, json!({"metadata": {"labels": {REPORTED: "true"}}})).await
    }

    async fn merge(&self, job: &str, change: serde_json::Value) -> kube::Result<()> {
        self.jobs.patch(job, &PatchParams::default(), &Patch::Merge(change)).await.map(drop)
    }

    /// Deletes a Job with its Pods and its Secret. Does not delete a Job of the same name with another id.
    pub(crate) async fn delete(&self, job: &Job) -> kube::Result<()> {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Preconditions { uid: job.metadata.uid.clone(), ..Preconditions::default() };
        let how = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        match self.jobs.delete(name, &how).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lists the Jobs that match a selector.
    pub(crate) async fn jobs(&self, selector: &str) -> kube::Result<Vec<Job>> {
        Ok(self.jobs.list(&ListParams::default().labels(selector)).await?.items)
    }

    /// Lists the Pods that match a selector.
    pub(crate) async fn pods(&self, selector: &str) -> kube::Result<Vec<Pod>> {
        Ok(self.pods.list(&ListParams::default().labels(selector)).await?.items)
    }
}

/// Returns a label of an object.
pub(crate) fn label_of<'o>(labels: Option<&'o BTreeMap<String, String>>, key: &str) -> Option<&'o str> {
    labels?.get(key).map(String::as_str)
}

/// Returns the selector for all objects of one member.
pub(crate) fn of_member(selector: &str, member: &str) -> String {
    format!("{selector},{}={}", crate::job::MEMBER, label(member))
}

/// Says why a call failed, and what to do.
pub(crate) fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.is_forbidden() => {
            format!(
                "{} Give the host's service account a Role with these rights; the chart `teamwire-host` has one.",
                with_stop(&status.message)
            )
        }
        kube::Error::Api(status) => with_stop(&status.message),
        error => format!("The call to the API server failed: {error}."),
    }
}

fn with_stop(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    format!("{text}.")
}
