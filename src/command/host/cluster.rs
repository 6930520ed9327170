//! `teamwire host --kubernetes`: starts members as Jobs of a cluster.

use std::sync::Arc;

use teamwire_agents::host::HostEnd;
use teamwire_client::Closed;
use teamwire_kubernetes::{Jobs, Profiles};

use super::{HostCommand, HostDirectory, stop_on_signal};
use crate::{context::ContextArgs, failure::Failure};

impl HostCommand {
    /// Runs a host in a cluster until it ends.
    pub(super) async fn run_in_cluster(&self, context: &ContextArgs) -> Result<(), Failure> {
        let profiles = self.templates()?;
        let stop = stop_on_signal("the host is stopping; its members keep running")?;
        let directory = HostDirectory::open(context, self.join_string()?)?;
        let name = self.name.as_deref().or(Some(profiles.name.as_str()).filter(|name| !name.is_empty()));
        let client = tokio::select! {
            client = directory.enter(context, name) => client?,
            () = stop.cancelled() => return Ok(()),
        };
        let jobs = tokio::select! {
            jobs = Jobs::connect(profiles, client.name(), client.team()) => jobs,
            () = stop.cancelled() => return Ok(()),
        };
        let jobs = Arc::new(jobs.map_err(|error| Failure::usage(format!("The cluster cannot be used: {error}")))?);
        let end = self.serve(client, jobs.clone(), stop).await?;
        if matches!(end, HostEnd::Closed(Closed::TeamDeleted))
            && let Err(error) = jobs.delete_all().await
        {
            self.say(&format!("The Jobs of the team were not deleted: {error}"));
        }
        directory.ended(end)
    }

    /// Reads the file with its Pod templates, and applies the command line's options.
    fn templates(&self) -> Result<Profiles, Failure> {
        let Some(path) = &self.config else {
            return Err(Failure::usage("Name the file with the Pod templates: --config FILE."));
        };
        let mut profiles = Profiles::read(path)
            .map_err(|error| Failure::usage(format!("The Pod templates cannot be used: {error}")))?;
        profiles.slots = self.slots.unwrap_or(profiles.slots);
        self.add_labels(&mut profiles.labels)?;
        Ok(profiles)
    }
}
