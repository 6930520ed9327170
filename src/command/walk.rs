//! `teamwire approve` without a request: walks a person through everything that waits for their answer.

use std::{collections::HashSet, time::Duration};

use jiff::Timestamp;
use teamwire_client::{Client, Error, v1};
use teamwire_proto::{
    v1::{RequestKind, RequestState},
    word,
};
use tokio::time::sleep;

use super::{
    always, decision, id,
    shared::keys::{Ends, Keys},
};
use crate::{
    context::{Caller, is_within_runner},
    failure::Failure,
    show,
};

/// How long one wait for the decision of another lasts.
const WAIT: Duration = Duration::from_secs(600);

/// How long to wait before the next question if the coordinator does not say whether a request is still pending.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What a person wants done with a request.
enum Choice {
    Approve,
    Reject,
    Always,
    Skip,
    Quit,
    /// Nothing: it was decided meanwhile, or has expired.
    Over(Box<v1::Request>),
}

/// Asks about each request that waits for the caller's answer, the next to expire first. `kind`: the only kind that
/// counts. `None` means all.
pub(super) async fn walk(caller: &Caller, kind: Option<RequestKind>) -> Result<(), Failure> {
    let mut ends = Ends::new()?;
    let walk = Walk { caller, kind, keys: Keys, may_add_rules: false };
    tokio::select! {
        done = walk.run() => done,
        failure = ends.next("Requests that you have not answered still wait: `teamwire approve`.") => {
            anstream::eprintln!();
            Err(failure)
        }
    }
}

struct Walk<'w> {
    caller: &'w Caller,
    kind: Option<RequestKind>,
    keys: Keys,
    may_add_rules: bool,
}

impl Walk<'_> {
    async fn run(mut self) -> Result<(), Failure> {
        self.may_add_rules = !is_within_runner() && id::can_lead(self.caller).await?;
        let mut skipped = HashSet::new();
        loop {
            // Read again each time: requests arrive, and other people answer.
            let due = id::due(self.caller, self.kind).await?;
            let (passed, open): (Vec<_>, Vec<_>) = due.iter().partition(|request| skipped.contains(&request.id));
            let Some(request) = open.first() else {
                match passed.len() as u64 {
                    0 => anstream::println!("Nothing else waits for your answer."),
                    left => anstream::println!(
                        "You skipped {}: `teamwire approve` asks again.",
                        show::count(left, "request")
                    ),
                }
                return Ok(());
            };
            present(self.caller, request, open.len());
            match self.choose(request).await? {
                Choice::Approve => self.answer(request, true, "").await?,
                Choice::Reject => {
                    if let Some(reason) = self.reason().await? {
                        self.answer(request, false, &reason).await?;
                    }
                }
                Choice::Always => self.always(request).await?,
                Choice::Skip => _ = skipped.insert(request.id.clone()),
                Choice::Quit => {
                    let left = show::count(open.len() as u64, "request");
                    anstream::println!("Stopped. {left} not answered: `teamwire approve` asks again.");
                    return Ok(());
                }
                Choice::Over(request) => {
                    anstream::println!("Meanwhile it is {}", show::request_text(&request));
                }
            }
        }
    }

    /// Waits for a key, or until the request is no longer pending.
    async fn choose(&self, request: &v1::Request) -> Result<Choice, Failure> {
        let offers_always = self.may_add_rules && request.kind() == RequestKind::Permission;
        let always = if offers_always { ", al[w]ays" } else { "" };
        anstream::eprint!("{} [a]pprove, [r]eject{always}, [s]kip, [q]uit: ", show::paint(show::bold(), "Answer?"));
        let mut over = std::pin::pin!(no_longer_pending(&self.caller.client, &request.id));
        let is_meant = |key: char| "arsq".contains(key) || key == 'w' && offers_always;
        let choice = tokio::select! {
            biased;
            request = &mut over => Choice::Over(Box::new(request)),
            key = self.keys.key(is_meant) => match key? {
                'a' => Choice::Approve,
                'r' => Choice::Reject,
                'w' => Choice::Always,
                's' => Choice::Skip,
                _ => Choice::Quit,
            },
        };
        let word = match &choice {
            Choice::Approve => "approve",
            Choice::Reject => "reject",
            Choice::Always => "always",
            Choice::Skip => "skip",
            Choice::Quit => "quit",
            Choice::Over(_) => "",
        };
        anstream::eprintln!("{word}");
        Ok(choice)
    }

    /// Asks why a request is rejected. `None`: it is not, after all.
    async fn reason(&self) -> Result<Option<String>, Failure> {
        anstream::eprint!("Why? (Enter gives no reason, Ctrl+D goes back) ");
        let reason = self.keys.line().await?;
        if reason.is_none() {
            anstream::eprintln!();
        }
        Ok(reason)
    }

    /// Shows the rule that would permit the same from now on, and asks whether to store it.
    async fn always(&self, request: &v1::Request) -> Result<(), Failure> {
        let rule = match always::rule(request, false) {
            Ok(rule) => rule,
            Err(why) => {
                anstream::eprintln!("{} Answer this request only.\n", show::plain(&why));
                return Ok(());
            }
        };
        anstream::eprintln!("This rule would be stored, and answer from then on without asking anyone:");
        anstream::eprintln!("    {}", show::rule_sentence(&rule));
        anstream::eprint!(
            "{} [m] for {}, [t] for every member of the team, any other key goes back: ",
            show::paint(show::bold(), "Store it?"),
            request.member
        );
        let rule = match self.keys.key(|_| true).await? {
            'm' => rule,
            't' => v1::PermissionRule { member: String::new(), ..rule },
            _ => {
                anstream::eprintln!("not stored\n");
                return Ok(());
            }
        };
        anstream::eprintln!("stored");
        match always::add(self.caller, rule).await {
            Ok(added) => always::say_added(&added),
            Err(Failure::Call(Error::Refused(refusal))) => {
                anstream::eprintln!("The rule was not stored: {}\n", show::plain(&refusal.message));
                return Ok(());
            }
            Err(failure) => return Err(failure),
        }
        self.answer(request, true, "").await
    }

    async fn answer(&self, request: &v1::Request, approve: bool, text: &str) -> Result<(), Failure> {
        match decision::give(self.caller, &request.id, approve, text, false).await {
            // Another answer came first, or the request is over.
            Err(Failure::Call(Error::Refused(refusal))) => {
                anstream::eprintln!("Not answered: {}", show::plain(&refusal.message));
                Ok(())
            }
            done => done,
        }
    }
}

/// Shows who asks for what, in full, and how long the request waits.
fn present(caller: &Caller, request: &v1::Request, open: usize) {
    let who = request.requester.as_ref().map_or("?", |sender| sender.name.as_str());
    let (title, text) = match request.kind() {
        RequestKind::Permission => {
            (format!("{} asks for permission", request.member), show::permission_in_full(request))
        }
        RequestKind::Review => {
            let how = format!("To read the changes: teamwire work diff {}", request.member);
            (format!("{} asks for a review", request.member), format!("{}\n{how}", show::review_of(request)))
        }
        RequestKind::PlanApproval => {
            (format!("{} submits a plan", request.member), show::plain_lines(&request.content))
        }
        _ if caller.is(&request.member) => {
            (format!("{who} asks you to shut down, which ends your process"), show::plain_lines(&request.content))
        }
        _ => (format!("{who} asks {} to shut down", request.member), show::plain_lines(&request.content)),
    };
    let others = match open {
        1 => String::new(),
        open => format!("; {} more", open - 1),
    };
    let id = show::paint(show::dim(), show::short_id(&request.id));
    anstream::eprintln!("\n{} {id}", show::paint(show::bold(), title + &others));
    if !text.is_empty() {
        anstream::eprintln!("{text}");
    }
    anstream::eprintln!("{}", show::paint(show::dim(), expiry(request, Timestamp::now())));
}

/// Says when a request expires.
fn expiry(request: &v1::Request, now: Timestamp) -> String {
    let Some(at) = &request.expires_at else { return "It does not expire.".to_owned() };
    let left = u64::try_from(at.seconds - now.as_second()).unwrap_or_default();
    format!("It expires in {}.", word::age(Duration::from_secs(left)))
}

/// Waits until a request is no longer pending, and returns it.
async fn no_longer_pending(client: &Client, request_id: &str) -> v1::Request {
    loop {
        match client.wait_decision(request_id, WAIT).await {
            Ok(request) if request.state() != RequestState::Pending => return request,
            Ok(_) => {}
            Err(_) => sleep(RETRY_AFTER).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_a_request_expires_is_never_negative() {
        let at = |seconds| v1::Request {
            expires_at: Some(prost_types::Timestamp { seconds, nanos: 0 }),
            ..v1::Request::default()
        };
        let now = Timestamp::from_second(1_000).unwrap();
        assert_eq!(expiry(&at(1_090), now), "It expires in 90 s.");
        assert_eq!(expiry(&at(900), now), "It expires in 0 s.");
        assert_eq!(expiry(&v1::Request::default(), now), "It does not expire.");
    }
}
