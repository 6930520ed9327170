//! `teamwire subscribe`: asks for a notice when something happens.

use clap::{Args, Subcommand};
use teamwire_client::v1::{self, event_subscription::Event};
use teamwire_proto::word;

use super::{Output, waiting::Wait};
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// Get a notice when something happens
///
/// You get one notice in your inbox, and then the subscription ends. If it has happened already, the notice comes at
/// once. A subscription outlives a restart of your program and of the coordinator. After 24 hours it expires, and a notice
/// says so. A member can have 32.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n\n    teamwire subscribe idle backend\n    teamwire subscribe task 12 --for 2h\n    teamwire subscribe file 'src/*.rs'\n    teamwire subscribe list\n    teamwire subscribe cancel idle/backend"
)]
pub(super) enum Subscribe {
    /// When a member is idle, or its life ends
    #[command(
        after_help = "Examples:\n\n    teamwire subscribe idle backend\n    teamwire subscribe idle backend --for 10m"
    )]
    Idle(OfMember),
    /// When a member exits, or counts as lost
    #[command(after_help = "Example:\n\n    teamwire subscribe exit backend")]
    Exit(OfMember),
    /// When a task is completed or deleted
    #[command(after_help = "Example:\n\n    teamwire subscribe task 12 --for 2h")]
    Task {
        /// The task
        id: u64,
        #[command(flatten)]
        how: How,
    },
    /// When another member edits a file
    ///
    /// Only edits from now on count, by programs whose runner sees which files they change; see `teamwire logs`.
    #[command(
        after_help = "Examples:\n\n    teamwire subscribe file src/lib.rs\n    teamwire subscribe file 'docs/*.md' --for 2h"
    )]
    File {
        /// The file, or a pattern such as src/*.rs, relative to the root of the repository
        pattern: String,
        #[command(flatten)]
        how: How,
    },
    /// List your subscriptions
    #[command(after_help = "Example:\n\n    teamwire subscribe list")]
    List {
        #[command(flatten)]
        output: Output,
    },
    /// Cancel a subscription
    #[command(after_help = "Example:\n\n    teamwire subscribe cancel idle/backend")]
    Cancel {
        /// Its id, such as idle/backend; see `teamwire subscribe list`
        id: String,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Args, Debug)]
pub(super) struct OfMember {
    /// The member
    member: String,
    #[command(flatten)]
    how: How,
}

#[derive(Args, Clone, Copy, Debug)]
pub(super) struct How {
    /// How long to wait for it, 1s to 24h [default: 24h]
    #[arg(long = "for", value_name = "DURATION")]
    ttl: Option<Wait>,
    #[command(flatten)]
    output: Output,
}

impl Subscribe {
    pub(super) async fn run(&self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        let member = |of: &OfMember| of.member.clone();
        match self {
            Self::Idle(of) => (of.how.subscribe(context, Event::MemberIdle(member(of))).await, of.how.output.json),
            Self::Exit(of) => (of.how.subscribe(context, Event::MemberExit(member(of))).await, of.how.output.json),
            Self::Task { id, how } => (how.subscribe(context, Event::TaskDone(*id)).await, how.output.json),
            Self::File { pattern, how } => {
                (how.subscribe(context, Event::FileEdited(pattern.clone())).await, how.output.json)
            }
            Self::List { output } => (list(context, *output).await, output.json),
            Self::Cancel { id, output } => (cancel(context, id, *output).await, output.json),
        }
    }
}

impl How {
    async fn subscribe(&self, context: &ContextArgs, event: Event) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let subscription = v1::EventSubscription { event: Some(event), ..v1::EventSubscription::default() };
        let ttl = self.ttl.and_then(|Wait(ttl)| ttl.try_into().ok());
        let request = v1::SubscribeToEventRequest { team: String::new(), subscription: Some(subscription), ttl };
        let reply = caller.client.subscribe_to_event(request).await?;
        if self.output.json {
            show::line(&show::json("SubscribeToEventResponse", &reply));
            return Ok(());
        }
        let subscription = reply.subscription.ok_or_else(show::incomplete)?;
        if reply.happened {
            anstream::println!("It has happened already; the notice is in your inbox.");
        } else {
            let until = show::time(subscription.expires_at.as_ref());
            anstream::println!("You get a notice when {}, until {until}.", word::event(&subscription));
        }
        Ok(())
    }
}

async fn list(context: &ContextArgs, output: Output) -> Result<(), Failure> {
    let caller = context.caller(Who::Current)?;
    let listed = caller.client.list_event_subscriptions(v1::ListEventSubscriptionsRequest::default()).await?;
    if output.json {
        for subscription in &listed.subscriptions {
            show::line(&show::json("EventSubscription", subscription));
        }
        return Ok(());
    }
    if listed.subscriptions.is_empty() {
        anstream::println!("You have no subscriptions.");
        return Ok(());
    }
    let row = |subscription: &v1::EventSubscription| {
        vec![subscription.id.clone(), show::time(subscription.expires_at.as_ref()), word::event(subscription)]
    };
    show::table(&["id", "until", "when"], listed.subscriptions.iter().map(row).collect());
    Ok(())
}

async fn cancel(context: &ContextArgs, id: &str, output: Output) -> Result<(), Failure> {
    let caller = context.caller(Who::Current)?;
    let request = v1::CancelEventSubscriptionRequest { team: String::new(), subscription_id: id.to_owned() };
    caller.client.cancel_event_subscription(request).await?;
    if output.json {
        show::line(&serde_json::json!({ "cancelled": id }));
    } else {
        anstream::println!("Cancelled {id}.");
    }
    Ok(())
}
