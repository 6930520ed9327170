//! `teamwire run`: runs a program as a member of a team.

use std::{ffi::OsString, io::Write as _, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use teamwire_agents::{AckPolicy, Mode, OnShutdown, Restart, Runner, RunnerConfig};
use teamwire_client::{Client, Error, JOIN_VARIABLE, v1};

use super::join::Attributes;
use crate::{
    context::{Caller, ContextArgs, Known, identity},
    failure::Failure,
    show,
};

/// Run a program as a member of a team
///
/// The runner joins, hands messages to the program, sends what it answers, keeps the member alive, and ends the program,
/// with all processes that it has started, when its shutdown is approved. A message is acknowledged only on proof.
///
/// Ways to hand messages over (--via): `stdin` writes one line of JSON for each message to the program's standard input;
/// the program answers with lines of JSON: {"ack": "MESSAGE_ID"}, or any SendMessage object. `exec` runs the program once
/// for each batch of messages; what it prints goes back to the sender.
///
/// Who joins: with --join, the join string's bearer, and where that says; else the name's own identity from an earlier run, in a new life; else, if
/// you lead the team (or are the operator of this machine's coordinator), the runner invites itself.
#[derive(Args, Debug)]
pub struct Run {
    /// The member's name; may be left out when a join token is bound to one
    #[arg(value_name = "NAME")]
    name_word: Option<String>,
    /// The member's name, as an option
    #[arg(long = "name", short, value_name = "NAME", conflicts_with = "name_word")]
    name: Option<String>,
    /// What `teamwire invite` has printed, or a bare join token with --address
    #[arg(long, env = JOIN_VARIABLE, value_name = "JOIN_STRING", hide_env_values = true)]
    join: Option<String>,
    /// How messages reach the program
    #[arg(long, value_enum, default_value = "stdin")]
    via: Via,
    /// With --via stdin: what counts as proof that a message is processed
    #[arg(long, value_enum, default_value = "reply")]
    ack: Ack,
    /// With --via exec: how many messages go together at most
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    batch: u16,
    /// Take the next task off the board whenever the program has nothing in hand (see `teamwire task`)
    ///
    /// With --via stdin the program is given the task as a line and says {"complete": ID} when it is done; with --via exec
    /// the program is run for the task, and exit code 0 completes it. If the program dies, the task goes back.
    #[arg(long)]
    claim: bool,
    /// Who answers a shutdown request: the program, or the runner by approving it
    #[arg(long, value_enum, default_value = "ask")]
    on_shutdown: Answer,
    /// Whether to start the program again when it has failed, each time in a new life of the member
    #[arg(long, value_enum, default_value = "never")]
    restart: RestartWhen,
    /// How many failures in a row end the runner
    #[arg(long, default_value_t = 10, value_name = "N")]
    restarts_max: u32,
    /// How long the program has to end before it is killed, in seconds
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    grace: u64,
    /// Say nothing about what happens
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    attributes: Attributes,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Via {
    Stdin,
    Exec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ack {
    /// The program says so, or answers the message
    Reply,
    /// The line was written to the program's input
    Written,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Answer {
    Ask,
    Approve,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RestartWhen {
    Never,
    OnFailure,
}

impl Run {
    pub async fn run(self, context: &ContextArgs) -> u8 {
        match self.configure(context).await {
            Ok(config) => {
                let exit = Runner::new(config).run().await;
                if exit.code != 0 && !exit.detail.is_empty() && !self.quiet {
                    anstream::eprintln!("{} {}", show::paint(show::bold(), "teamwire:"), exit.detail);
                }
                exit.code
            }
            Err(failure) => {
                failure.print(false);
                failure.code()
            }
        }
    }

    async fn configure(&self, context: &ContextArgs) -> Result<RunnerConfig, Failure> {
        let name = self.name_word.clone().or_else(|| self.name.clone()).unwrap_or_default();
        let Caller { client, address, credential, .. } = self.entry(context, &name).await?;
        let mut config = RunnerConfig::new(address, credential, self.command.clone());
        config.tls = client.tls();
        config.name = name;
        config.attributes = self.attributes.to_proto();
        config.mode = match (self.via, self.ack) {
            (Via::Stdin, Ack::Reply) => Mode::Stdin { ack: AckPolicy::ExplicitOrReply },
            (Via::Stdin, Ack::Written) => Mode::Stdin { ack: AckPolicy::Written },
            (Via::Exec, _) => Mode::Exec { batch_messages_max: usize::from(self.batch) },
        };
        config.takes_tasks = self.claim;
        config.on_shutdown = match self.on_shutdown {
            Answer::Ask => OnShutdown::Ask,
            Answer::Approve => OnShutdown::Approve,
        };
        config.restart = match self.restart {
            RestartWhen::Never => Restart::Never,
            RestartWhen::OnFailure => Restart::OnFailure { failures_max: self.restarts_max },
        };
        config.grace = Duration::from_secs(self.grace);
        config.claims_orphans = true;
        let keeper = context.clone();
        config.on_joined = Arc::new(move |reply, client| keep(&keeper, reply, client));
        if !self.quiet {
            config.on_event = Arc::new(|progress| {
                // Nobody may read it; the program goes on all the same.
                let _ = writeln!(anstream::stderr(), "{} {progress}", show::paint(show::bold(), "teamwire:"));
            });
        }
        Ok(config)
    }

    /// Finds the credential to join with, and where.
    async fn entry(&self, context: &ContextArgs, name: &str) -> Result<Caller, Failure> {
        if let Some(text) = &self.join {
            // A runner that starts again has used its token up: then it goes on under the name that it has.
            let joining = context.joining(text)?;
            if let Some(kept) = self.kept(context, name, joining.team.as_deref()).await?
                && kept.address == joining.address
            {
                return Ok(kept);
            }
            return Ok(joining);
        }
        if name.is_empty() {
            return Err(Failure::usage("Give the member a name: teamwire run NAME -- COMMAND."));
        }
        let caller = context.caller();
        let team = caller.as_ref().ok().and_then(|caller| caller.team.clone());
        if let Ok(caller) = &caller
            && caller.is(name)
        {
            return Ok(caller.clone());
        }
        if let Some(kept) = self.kept(context, name, team.as_deref()).await? {
            return Ok(kept);
        }
        let caller = caller?;
        let invite = v1::InviteRequest { member: name.to_owned(), ..v1::InviteRequest::default() };
        let token = caller.client.invite(invite).await?.join_token;
        Ok(Caller { credential: token, ..caller })
    }

    /// Returns where and with what a member that ran here before may begin a new life.
    async fn kept(&self, context: &ContextArgs, name: &str, team: Option<&str>) -> Result<Option<Caller>, Failure> {
        if name.is_empty() {
            return Ok(None);
        }
        let Some(kept) = context.kept(name, team)? else { return Ok(None) };
        let Ok(caller) = context.caller_with(kept.credential.clone(), Known::Kept(&kept)) else { return Ok(None) };
        let found = caller.client.get_team(v1::GetTeamRequest::default()).await;
        // Refused: it was dismissed, or its team is gone; unless it has ended by itself, and may come back. No answer says
        // nothing of it, and the runner will try on.
        let may_join = |error: &Error| match error {
            Error::Refused(refusal) => refusal.metadata.get("may_join").is_some_and(|may| may == "true"),
            _ => false,
        };
        let is_good = found.map_or_else(|error| error.is_retryable() || may_join(&error), |_| true);
        Ok(is_good.then_some(caller))
    }
}

fn keep(context: &ContextArgs, reply: &v1::JoinResponse, client: &Client) {
    let (Some(team), Some(member)) = (&reply.team, &reply.member) else { return };
    let identity = identity(&team.name, &member.name, &reply.credential, client);
    if let Err(failure) = context.keep(identity, false) {
        failure.print(false);
    }
}
