//! `TeamStatus`, and the lead's `Tag`, `Last`, `Invite`, `ForceStop` and `TeamDelete`.

use std::{fmt::Write as _, time::SystemTime};

use rmcp::{handler::server::wrapper::Parameters, schemars::JsonSchema, tool, tool_router};
use serde::Deserialize;
use teamwire_client::{message, v1};
use teamwire_proto::{
    v1::{MemberState, Role, Severity},
    word,
};

use super::{
    McpServer,
    spawn::host_line,
    text::{failure, with_tools},
};
use crate::agent_text::escaped;

/// How many problems `TeamStatus` lists.
const PROBLEMS_MAX: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(rename_all = "camelCase")]
struct Invite {
    /// The only name that the invitation can be used for.
    name: String,
    /// Whether the teammate must have a plan approved before it works on tasks.
    #[serde(default, alias = "plan_mode_required")]
    plan_mode_required: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct ForceStop {
    /// The teammate.
    name: String,
    /// Why you do not ask it.
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Tag {
    /// The teammate.
    name: String,
    /// Tags to add.
    #[serde(default)]
    add: Vec<String>,
    /// Tags to remove.
    #[serde(default)]
    remove: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Last {
    /// The teammate.
    name: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Interrupt {
    /// The teammate.
    name: String,
    /// What it does instead.
    text: String,
}

#[tool_router(router = team_tools, vis = "pub(super)")]
impl McpServer {
    /// Show who is in your team, what each member is doing, and what is wrong; to the lead also the hosts that can
    /// start teammates.
    #[tool(name = "TeamStatus", annotations(title = "Show the team", read_only_hint = true, open_world_hint = false))]
    async fn team_status(&self) -> Result<String, String> {
        let team = self.client.get_team(v1::GetTeamRequest::default()).await.map_err(failure)?.team.unwrap_or_default();
        let members = self.client.members().await.map_err(failure)?;
        let mut text = format!("Team {}. You are {}. The lead is {}.", team.name, self.name, team.lead);
        for member in &members {
            _ = write!(text, "\n{}", member_line(member));
        }
        if self.leads().await {
            let listed =
                self.client.list_all_hosts(v1::ListHostsRequest::default(), usize::MAX).await.map_err(failure)?;
            for host in listed.hosts.iter().filter(|host| host.state() != MemberState::Exited) {
                _ = write!(text, "\n{}", host_line(host));
            }
        }
        let found = self.client.diagnose(v1::DiagnoseRequest::default()).await.map_err(failure)?.findings;
        for problem in found.iter().filter(|finding| finding.severity() == Severity::Problem).take(PROBLEMS_MAX) {
            _ = write!(
                text,
                "\nProblem: {} {}",
                escaped(&with_tools(&problem.text)),
                escaped(&with_tools(&problem.next))
            );
        }
        Ok(text)
    }

    /// Invite a teammate from another machine. Returns the string with which one process can join under this name
    /// within 15 minutes; treat it like a password.
    #[tool(
        name = "Invite",
        annotations(
            title = "Invite a teammate",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn invite(&self, Parameters(invite): Parameters<Invite>) -> Result<String, String> {
        let request = v1::InviteRequest {
            member: invite.name.clone(),
            uses_max: 1,
            plan_mode_required: invite.plan_mode_required,
            ..v1::InviteRequest::default()
        };
        let reply = self.client.invite(request).await.map_err(failure)?;
        Ok(format!(
            "Start it on its machine: `teamwire run {} --join - -- COMMAND`. Give it this join string on its standard input, because \
             other users can see arguments: {}",
            invite.name, reply.join_string
        ))
    }

    /// Give a teammate tags, or remove some. A message to @TAG reaches all teammates that have the tag, and one to @any:TAG
    /// reaches an idle one of them.
    #[tool(
        name = "Tag",
        annotations(
            title = "Tag a teammate",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn tag(&self, Parameters(tag): Parameters<Tag>) -> Result<String, String> {
        let bare = |tags: Vec<String>| tags.iter().map(|tag| tag.trim_start_matches('@').to_owned()).collect();
        let (add, remove) = (bare(tag.add), bare(tag.remove));
        let request = v1::SetTagsRequest { team: String::new(), member: tag.name, add, remove };
        let member = self.client.set_tags(request).await.map_err(failure)?.member.unwrap_or_default();
        Ok(match member.tags.as_slice() {
            [] => format!("{} has no tags.", member.name),
            tags => format!("{} has the tags {}.", member.name, tags.join(", ")),
        })
    }

    /// Read what a teammate wrote at the end of its last turn and may not have sent.
    #[tool(
        name = "Last",
        annotations(title = "Read a teammate's last text", read_only_hint = true, open_world_hint = false)
    )]
    async fn last(&self, Parameters(last): Parameters<Last>) -> Result<String, String> {
        let request = v1::GetLastTurnRequest { member: last.name.clone(), ..v1::GetLastTurnRequest::default() };
        let Some(turn) = self.client.get_last_turn(request).await.map_err(failure)?.turn else {
            return Ok(format!("No turn of {} has ended yet.", last.name));
        };
        let cut_short = match turn.cut_short.as_str() {
            "" => String::new(),
            why => format!(" It ended early: {}", escaped(why)),
        };
        let said = match turn.final_text.as_str() {
            "" => "It wrote nothing after its last tool call.".to_owned(),
            text => format!("It wrote:\n\n{}", escaped(text)),
        };
        Ok(format!(
            "The last turn of {} ended {} ago, with {}.{cut_short} {said}",
            last.name,
            age(turn.ended_at.as_ref()),
            word::count(turn.tool_calls.into(), "tool call"),
        ))
    }

    /// End a teammate's turn now, and tell it what to do instead. Use it when the teammate is on a wrong way.
    #[tool(
        name = "Interrupt",
        annotations(
            title = "Interrupt a teammate",
            read_only_hint = false,
            destructive_hint = true,
            open_world_hint = false
        )
    )]
    async fn interrupt(&self, Parameters(interrupt): Parameters<Interrupt>) -> Result<String, String> {
        let request = message::interrupt(&interrupt.name, interrupt.text);
        self.client.send(request).await.map_err(failure)?;
        Ok(format!("{} ends its turn and reads your text next.", interrupt.name))
    }

    /// End a teammate without asking it. Its unfinished work is lost: send a shutdown_request first, and use this only
    /// if the teammate does not answer.
    #[tool(
        name = "ForceStop",
        annotations(
            title = "Stop a teammate by force",
            read_only_hint = false,
            destructive_hint = true,
            open_world_hint = false
        )
    )]
    async fn force_stop(&self, Parameters(stop): Parameters<ForceStop>) -> Result<String, String> {
        let member = self.client.force_stop(&stop.name, &stop.reason).await.map_err(failure)?;
        Ok(format!("Stopped {}.", member.name))
    }

    /// Delete the team with its board and its history. Refused while teammates are at work: shut them down first.
    #[tool(
        name = "TeamDelete",
        annotations(
            title = "Delete the team",
            read_only_hint = false,
            destructive_hint = true,
            open_world_hint = false
        )
    )]
    async fn team_delete(&self) -> Result<String, String> {
        let team = self.client.team().to_owned();
        let request = v1::DeleteTeamRequest { team: team.clone() };
        self.client.delete_team(request).await.map_err(failure)?;
        Ok(format!("Deleted team {team}. You are in no team now."))
    }
}

/// Returns how long ago something began.
fn age(since: Option<&prost_types::Timestamp>) -> String {
    let since = since.and_then(|since| SystemTime::try_from(*since).ok());
    word::age(since.and_then(|since| since.elapsed().ok()).unwrap_or_default())
}

fn member_line(member: &v1::Member) -> String {
    let role = if member.role() == Role::Lead { "lead" } else { "teammate" };
    let mut line = format!("{} ({role}): {}", member.name, word::member_state(member.state()));
    for tag in &member.tags {
        _ = write!(line, " @{tag}");
    }
    if !member.spawned_on.is_empty() {
        _ = write!(line, " on {}", member.spawned_on);
    }
    if let Some(failed) = &member.failed_turns {
        let (turns, age) = (word::count(failed.count.into(), "turn"), age(failed.since.as_ref()));
        _ = write!(line, ", failing for {age}: {turns} in a row, last: {}", escaped(&failed.error));
    }
    if let Some(program) = &member.program {
        if !program.trouble.is_empty() {
            _ = write!(line, ", trouble: {}", escaped(&program.trouble));
        }
        if !program.tool.is_empty() {
            _ = write!(line, ", runs {} for {}", escaped(&program.tool), age(program.tool_since.as_ref()));
        }
        if program.turn_since.is_some() {
            _ = write!(line, ", in a turn for {}", age(program.turn_since.as_ref()));
        }
    }
    if let (MemberState::Exited, Some(exit)) = (member.state(), &member.exit) {
        _ = write!(line, ", {}", escaped(&word::exit(exit)));
    } else if !member.last_summary.is_empty() {
        _ = write!(line, ", last: {}, {} ago", escaped(&member.last_summary), age(member.last_summary_at.as_ref()));
    }
    if member.inbox_depth > 0 {
        _ = write!(line, ", {} unread", member.inbox_depth);
    }
    line
}
