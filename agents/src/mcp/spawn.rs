//! `Task`: the lead starts a teammate on a host.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use rmcp::{handler::server::wrapper::Parameters, schemars::JsonSchema, tool, tool_router};
use serde::Deserialize;
use teamwire_client::{Error, Reason, v1};
use teamwire_proto::{
    v1::{NoticeKind, RequestState, message::Body},
    word,
};

use super::{McpServer, text::failure};
use crate::agent_text::escaped;

/// How long a call waits for the start. Some agent programs end a tool call after 60 seconds.
const START_WAIT_MAX: Duration = Duration::from_secs(45);

/// How many messages of the inbox are searched for the notice about a start.
const SEARCHED_MAX: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Task {
    /// The new teammate's name.
    #[serde(alias = "teammate_name")]
    name: String,
    /// Your team. Default: the one that you lead.
    #[serde(default)]
    team_name: String,
    /// Its instructions. It knows nothing else about your conversation.
    prompt: String,
    /// What to start, as listed by TeamStatus. Default: the only profile, if there is just one.
    #[serde(default)]
    profile: String,
    /// The host to start it on. Default: the one with the most free slots.
    #[serde(default)]
    host: String,
    /// Labels that the host must have.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Tags, so that messages to @TAG reach it.
    #[serde(default)]
    tags: Vec<String>,
    /// Whether to start it again on another host if its host is lost.
    #[serde(default)]
    reschedule: bool,
}

#[tool_router(router = spawn_tools, vis = "pub(super)")]
impl McpServer {
    /// Start a teammate on a host of the team. It works on the prompt independently, and reports with messages. To give
    /// it more work, send it a message; to end it, a shutdown_request.
    #[tool(
        name = "Task",
        annotations(
            title = "Start a teammate",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn task(&self, Parameters(task): Parameters<Task>) -> Result<String, String> {
        let team = self.client.team();
        if !task.team_name.is_empty() && !task.team_name.eq_ignore_ascii_case(team) {
            return Err(format!("You lead team {team}, not {}. Leave team_name out.", escaped(&task.team_name)));
        }
        let request = v1::SpawnRequest {
            profile: self.profile(&task).await?,
            name: task.name,
            host: task.host,
            labels: task.labels,
            prompt: task.prompt,
            reschedule: task.reschedule,
            tags: task.tags,
            ..v1::SpawnRequest::default()
        };
        let ordered = self.client.spawn(request).await.map_err(refused)?.request.unwrap_or_default();
        let decided = self.client.wait_decision(&ordered.id, START_WAIT_MAX).await;
        let order = match decided {
            Err(error) if error.reason() == Some(Reason::AnswererLost) => return Err(failure(error)),
            // The order is placed, even if the wait failed.
            decided => decided.unwrap_or(ordered),
        };
        if order.state() != RequestState::Pending && !self.in_runner {
            self.acknowledge_start(&order.id).await;
        }
        outcome(&order)
    }
}

impl McpServer {
    /// Returns the profile that a call names, or the only one that the hosts offer which may get the order.
    async fn profile(&self, task: &Task) -> Result<String, String> {
        if !task.profile.is_empty() {
            return Ok(task.profile.clone());
        }
        let hosts =
            self.client.list_all_hosts(v1::ListHostsRequest::default(), usize::MAX).await.map_err(failure)?.hosts;
        let is_meant = |host: &&v1::Host| task.host.is_empty() || host.name.eq_ignore_ascii_case(&task.host);
        let offers = hosts.iter().filter(|host| host.is_live()).filter(is_meant).filter_map(|host| host.offer.as_ref());
        let mut profiles: Vec<&str> =
            offers.flat_map(|offer| &offer.profiles).map(|profile| profile.name.as_str()).collect();
        profiles.sort_unstable();
        profiles.dedup();
        match profiles.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] if hosts.is_empty() => Err(format!("The team has no host. {NO_HOST}")),
            [] => {
                Err(format!("No host that you mean is live and has a profile. TeamStatus lists the hosts. {NO_HOST}"))
            }
            several => Err(format!("Say which profile to start: {}.", several.join(", "))),
        }
    }

    /// Acknowledges the notice about a start, which the call itself reports. If that fails, the agent merely sees the
    /// notice, too.
    async fn acknowledge_start(&self, request_id: &str) {
        let Ok(inbox) = self.client.list_all_inbox(v1::ListInboxRequest::default(), SEARCHED_MAX).await else { return };
        let kinds = [NoticeKind::SpawnStarted, NoticeKind::SpawnFailed];
        let is_shown = |message: &v1::Message| {
            matches!(&message.body, Some(Body::Notice(notice))
                if notice.request_id == request_id && kinds.contains(&notice.kind()))
        };
        let messages = inbox.deliveries.into_iter().filter_map(|delivery| delivery.message).filter(is_shown);
        let ids: Vec<String> = messages.map(|message| message.id).collect();
        if !ids.is_empty() {
            _ = self.acknowledge(ids).await;
        }
    }
}

/// What an agent can do if no host can start its teammate.
const NO_HOST: &str = "You cannot start one yourself: tell the person whom you work for. `teamwire invite --host` prints the \
                       command that makes another machine, or this one, a host. Meanwhile, the person can start a \
                       teammate by hand, with what Invite returns.";

fn refused(error: Error) -> String {
    let is_without_host = error.reason() == Some(Reason::NoHostFits);
    let text = failure(error);
    if is_without_host { format!("{text} {NO_HOST}") } else { text }
}

/// Describes the outcome of an order, and what to expect next.
fn outcome(order: &v1::Request) -> Result<String, String> {
    let (name, host) = (&order.member, &order.approver);
    let profile = order.spawn.as_ref().map_or("", |terms| terms.profile.as_str());
    match order.state() {
        RequestState::Approved => Ok(format!(
            "{name} has started on {host}, with the profile {profile}, and has your prompt. It reports with messages."
        )),
        RequestState::Pending | RequestState::Unspecified => Ok(format!(
            "{name} is starting on {host}, with the profile {profile}. A message tells you when it has started, or why it has \
             not. Go on with other work; do not call Task again for it."
        )),
        RequestState::Rejected => {
            Err(format!("{name} was not started, and its name is free again. {host} says:\n{}", escaped(&order.reason)))
        }
        RequestState::Expired => Err(format!(
            "{name} was not started: {host} did not start it in time. Its name is free again. TeamStatus lists the hosts: try \
             another one."
        )),
        RequestState::Cancelled => Err(format!("{name} was not started: someone cancelled the order.")),
    }
}

/// Describes a host on one line: what it can start, and how many slots are free.
pub(super) fn host_line(host: &v1::Host) -> String {
    let mut line = format!("{} (host): ", host.name);
    let Some(offer) = host.offer.as_ref().filter(|_| host.is_live()) else {
        let state = if host.is_live() { "has not said yet what it offers" } else { word::member_state(host.state()) };
        return line + state;
    };
    let profiles = offer.profiles.iter().map(|profile| match profile.description.as_str() {
        "" => profile.name.clone(),
        description => format!("{} ({})", profile.name, escaped(description)),
    });
    let profiles: Vec<String> = profiles.collect();
    _ = write!(line, "profiles {}; ", if profiles.is_empty() { "none".to_owned() } else { profiles.join(", ") });
    _ = write!(line, "{} of {} slots free", offer.slots.saturating_sub(host.slots_used), offer.slots);
    for (key, value) in &offer.labels {
        _ = write!(line, "; {}={}", escaped(key), escaped(value));
    }
    line
}
