//! What the shell suggests for an argument: names and ids of the caller's own team, asked for when the user presses
//! Tab.
//!
//! A suggestion never delays the user for longer than [`PATIENCE`] and never fails: if the coordinator does not answer
//! in time, there is none.

use std::{collections::BTreeMap, ffi::OsStr, time::Duration};

use clap::{Arg, Command, FromArgMatches as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, ValueCompleter};
use teamwire_client::{Client, v1};
use teamwire_proto::v1::{MemberState, RequestState, TaskStatus};

use super::help::command;
use crate::{
    command::Cli,
    context::{Caller, Who},
    show,
};

/// The environment variable by which the completion script asks for suggestions.
pub(in crate::command) const VARIABLE: &str = "TEAMWIRE_COMPLETE";

/// How long a suggestion may take.
const PATIENCE: Duration = Duration::from_millis(700);

/// How many suggestions are made at most.
const SUGGESTED_MAX: usize = 100;

/// Answers a completion script that asks for suggestions, and exits. Otherwise returns at once.
pub(crate) fn answer() {
    clap_complete::CompleteEnv::with_factory(|| command().mut_subcommands(suggesting)).var(VARIABLE).complete();
}

/// Gives the arguments of a command and its subcommands their suggestions.
fn suggesting(command: Command) -> Command {
    command.mut_args(|arg| if arg.is_global_set() { arg } else { suggest(arg) }).mut_subcommands(suggesting)
}

/// A thing to suggest, recognized by the name of an argument's value.
#[derive(Clone, Copy, Debug)]
enum Suggest {
    Members,
    Identities,
    Teams,
    Requests,
    Tasks,
    Hosts,
    Profiles,
}

/// Gives an argument its suggestions.
fn suggest(arg: Arg) -> Arg {
    let value = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let what = match (value, arg.get_id().as_str()) {
        ("MEMBER" | "[RECIPIENT] TEXT", _) => Suggest::Members,
        ("WHO", _) | (_, "who") => Suggest::Identities,
        ("TEAM", _) => Suggest::Teams,
        ("HOST", "on") => Suggest::Hosts,
        ("PROFILE", _) => Suggest::Profiles,
        ("REQUEST_ID", _) | (_, "request_id") => Suggest::Requests,
        ("ID", _) | (_, "id") => Suggest::Tasks,
        _ => return arg,
    };
    arg.add(ArgValueCompleter::new(what))
}

impl ValueCompleter for Suggest {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let current = current.to_string_lossy();
        let mut found = self.find().unwrap_or_default();
        found.retain(|(value, _)| value.starts_with(&*current));
        found.truncate(SUGGESTED_MAX);
        let candidate = |(value, help): (String, String)| CompletionCandidate::new(value).help(Some(help.into()));
        found.into_iter().map(candidate).collect()
    }

    fn complete_at(&self, index: usize, current: &OsStr) -> Vec<CompletionCandidate> {
        // Of several values, only the first names something: `send RECIPIENT TEXT`.
        if index == 0 { self.complete(current) } else { Vec::new() }
    }
}

impl Suggest {
    /// Returns the values to suggest, each with a description. `None` if no coordinator answered in time.
    fn find(self) -> Option<Vec<(String, String)>> {
        // The shell passes the words that the user has typed, but not which of them are options: the environment and
        // the context file choose the identity.
        let matches = command().try_get_matches_from(["teamwire", "whoami"]).ok()?;
        let context = Cli::from_arg_matches(&matches).ok()?.context;
        if let Self::Identities = self {
            let file = context.load().ok()?;
            return Some(file.identities.iter().map(|known| (known.name(), known.address.clone())).collect());
        }
        let caller = match self {
            Self::Teams => context.caller(Who::Operator).or_else(|_| context.caller(Who::Current)).ok()?,
            _ => context.caller(Who::Current).ok()?,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let found = runtime.block_on(async { tokio::time::timeout(PATIENCE, self.ask(&caller)).await });
        runtime.shutdown_background();
        found.ok()?.ok()
    }

    async fn ask(self, caller: &Caller) -> Result<Vec<(String, String)>, teamwire_client::Error> {
        let client = &caller.client;
        Ok(match self {
            Self::Members => {
                let listed = client.members().await?;
                let others = listed
                    .into_iter()
                    .filter(|member| member.state() != MemberState::Exited && !caller.is(&member.name));
                others.map(|member| (member.name.clone(), show::one_line(&member.last_summary))).collect()
            }
            Self::Teams => {
                let listed = client.list_all_teams(v1::ListTeamsRequest::default(), SUGGESTED_MAX).await?.teams;
                listed.into_iter().map(|team| (team.name, show::one_line(&team.description))).collect()
            }
            Self::Requests => {
                let pending = v1::ListRequestsRequest {
                    state: RequestState::Pending.into(),
                    ..v1::ListRequestsRequest::default()
                };
                let listed = client.list_all_requests(pending, SUGGESTED_MAX).await?.requests;
                let text =
                    |request: &v1::Request| format!("{} of {}", show::request_kind(request.kind()), request.member);
                listed.iter().map(|request| (request.id.clone(), text(request))).collect()
            }
            Self::Tasks => {
                let listed = client.list_all_tasks(v1::ListTasksRequest::default(), SUGGESTED_MAX).await?.tasks;
                let open =
                    listed.iter().filter(|task| !matches!(task.status(), TaskStatus::Completed | TaskStatus::Deleted));
                open.map(|task| (task.id.to_string(), show::one_line(&task.subject))).collect()
            }
            Self::Hosts => {
                let text = |host: &v1::Host| show::one_line(&host.offer.clone().unwrap_or_default().platform);
                live_hosts(client).await?.iter().map(|host| (host.name.clone(), text(host))).collect()
            }
            Self::Profiles => {
                let offers = live_hosts(client).await?.into_iter().filter_map(|host| host.offer);
                let profiles = offers.flat_map(|offer| offer.profiles);
                let named = profiles.map(|profile| (profile.name, show::one_line(&profile.description)));
                named.collect::<BTreeMap<_, _>>().into_iter().collect()
            }
            Self::Identities => Vec::new(),
        })
    }
}

async fn live_hosts(client: &Client) -> Result<Vec<v1::Host>, teamwire_client::Error> {
    let listed = client.list_all_hosts(v1::ListHostsRequest::default(), SUGGESTED_MAX).await?.hosts;
    Ok(listed.into_iter().filter(v1::Host::is_live).collect())
}
