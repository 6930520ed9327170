//! Waiting: how long a command waits, and what a person sees meanwhile.

use std::{future::Future, str::FromStr, time::Duration};

use indicatif::ProgressBar;
use jiff::{SignedDuration, fmt::friendly::SpanParser};
use teamwire_client::{Error, v1};
use teamwire_proto::v1::{MemberState, ReceiptState, RequestKind};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::id;
use crate::{
    context::Caller,
    failure::{Failure, LOST},
    show,
};

/// How often the line is redrawn, and how often the coordinator is asked for what it says.
const REDRAW: Duration = Duration::from_secs(1);
const REDRAWS_PER_QUESTION: u32 = 3;

/// How long to wait: seconds, or a duration such as `90s`, `10m` or `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) struct Wait(pub(in crate::command) Duration);

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(seconds) = text.parse() {
            return Ok(Self(Duration::from_secs(seconds)));
        }
        let parsed: Result<SignedDuration, _> = SpanParser::new().parse_duration(text);
        let parsed = parsed.ok().and_then(|duration| Duration::try_from(duration).ok());
        parsed.map(Self).ok_or_else(|| "give seconds, or a duration such as 90s, 10m or 1h30m".to_owned())
    }
}

/// Waits for an event. Meanwhile, on a terminal, one line says what is missing and how much time is left. `status`:
/// what is missing now; `None` keeps what was said last.
pub(in crate::command) async fn wait_for<T>(
    patience: Duration,
    status: impl AsyncFn() -> Option<String>,
    event: impl Future<Output = T>,
) -> T {
    let line = ProgressBar::new_spinner();
    if line.is_hidden() {
        return event.await;
    }
    let deadline = Instant::now() + patience;
    let draw = async {
        let (mut said, mut ticks) = (String::new(), 0);
        let mut redraw = interval(REDRAW);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            redraw.tick().await;
            if ticks % REDRAWS_PER_QUESTION == 0
                && let Some(now) = status().await
            {
                said = now;
            }
            ticks += 1;
            line.set_message(format!("{said}; {} left", left(deadline - Instant::now())));
            line.tick();
        }
    };
    let happened = tokio::select! {
        happened = event => happened,
        () = draw => unreachable!("the line is drawn until the event happens"),
    };
    line.finish_and_clear();
    happened
}

/// Waits for the decision of a request, for up to `patience`, and meanwhile says how far it has got. `open`: how long
/// the request itself stays open, or how long the caller is ready to wait.
pub(in crate::command) async fn decision(
    caller: &Caller,
    request_id: &str,
    open: Duration,
    patience: Duration,
) -> Result<v1::Request, Error> {
    let read = async || {
        let request = v1::GetRequestRequest { request_id: request_id.to_owned(), ..v1::GetRequestRequest::default() };
        caller.client.get_request(request).await.ok()?.request
    };
    // Only a terminal shows it, so only then is the request read.
    let status = async || {
        let request = read().await?;
        let awaited = match request.kind() {
            RequestKind::Spawn => format!("started {}", request.member),
            _ => "answered".to_owned(),
        };
        progress_of(caller, &request.message_id, id::noun(request.kind()), &awaited).await
    };
    wait_for(open, status, caller.client.wait_decision(request_id, patience)).await
}

/// Says that the store is older than what was seen, if that is the error, after which a follower goes on.
pub(in crate::command) fn goes_on(error: &Error) -> bool {
    let Some(last) = error.store_end() else { return false };
    anstream::eprintln!(
        "{} The store is older than what you have seen: its newest entry is {last} now. This command goes on from there.",
        show::paint(show::warning(), "note:")
    );
    true
}

/// Fails if all of these members were lost or have exited, so that none of them does what the command waits for: `awaited`,
/// such as "a reply".
pub(in crate::command) async fn refuse_gone(caller: &Caller, names: &[String], awaited: &str) -> Result<(), Failure> {
    let members = caller.client.members().await?;
    let gone = |name: &String| {
        let member = members.iter().find(|member| member.name.eq_ignore_ascii_case(name));
        match member.map(v1::Member::state) {
            None => Some("is no longer a member"),
            Some(MemberState::Lost) => Some("was lost"),
            Some(MemberState::Exited) => Some("has exited"),
            Some(_) => None,
        }
    };
    let how: Vec<_> =
        names.iter().map_while(|name| Some(format!("{} {}", show::one_line(name), gone(name)?))).collect();
    if names.is_empty() || how.len() < names.len() {
        return Ok(());
    }
    Err(Failure::with_code(LOST, format!("No {awaited} can come now: {}.", how.join(", "))))
}

/// Returns the sequence of the newest entry of the history.
pub(in crate::command) async fn last_sequence(caller: &Caller) -> Result<u64, Error> {
    let request = v1::ListHistoryRequest { page_size: 1, newest: true, ..v1::ListHistoryRequest::default() };
    Ok(caller.client.list_history(request).await?.last_sequence)
}

/// Says how far a message has got with its first recipient, and what that one has not done yet: `awaited`, such as
/// "answered".
pub(in crate::command) async fn progress_of(
    caller: &Caller,
    message_id: &str,
    noun: &str,
    awaited: &str,
) -> Option<String> {
    let request = v1::GetMessageRequest { message_id: message_id.to_owned(), ..v1::GetMessageRequest::default() };
    progress(&caller.client.get_message(request).await.ok()?, noun, awaited)
}

/// Says the same of a message that was read.
pub(in crate::command) fn progress(reply: &v1::GetMessageResponse, noun: &str, awaited: &str) -> Option<String> {
    let receipt = reply.receipts.first()?;
    let name = show::one_line(&receipt.recipient);
    Some(match receipt.state() {
        ReceiptState::Unspecified | ReceiptState::Queued => format!("{name} has not read the {noun}"),
        ReceiptState::Delivered => format!("{name} has the {noun}, and has not {awaited}"),
        ReceiptState::Processed => format!("{name} has processed the {noun}, and has not {awaited}"),
        ReceiptState::DeadLettered => format!("the {noun} to {name} cannot be delivered"),
    })
}

/// Formats what is left of a time, as `9:40` or `23:59:40`.
fn left(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_seconds_or_a_duration() {
        let seconds = |text: &str| text.parse().map(|Wait(time)| time.as_secs());
        assert_eq!(seconds("90"), Ok(90));
        assert_eq!(seconds("10m"), Ok(600));
        assert_eq!(seconds("1h30m"), Ok(5_400));
        for wrong in ["", "-5s", "soon", "1.5.2"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_time_left_is_shown_in_hours_minutes_and_seconds() {
        assert_eq!(left(Duration::from_secs(580)), "9:40");
        assert_eq!(left(Duration::from_secs(86_380)), "23:59:40");
        assert_eq!(left(Duration::from_millis(900)), "0:00");
    }
}
