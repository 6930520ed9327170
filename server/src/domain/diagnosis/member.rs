//! Findings about a member and its program.

use std::time::Duration;

use teamwire_proto::{
    v1::{self, Finding, FindingClass, Liveness, MemberState, RunnerAction, Severity},
    word,
};

use super::{
    Ages, Asker,
    finding::{note, problem},
};
use crate::domain::records::{EndCause, Life, MemberRecord};

/// How many crashes within [`CRASHES_WITHIN`] make a problem.
const CRASHES_MIN: usize = 3;

/// In how much time.
const CRASHES_WITHIN: Duration = Duration::from_mins(10);

/// A member to look at.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'m> {
    /// The member, as it is shown to the caller.
    pub member: &'m v1::Member,
    /// Its entry in the roster.
    pub record: &'m MemberRecord,
    /// Whether the caller asks about this member alone.
    pub is_named: bool,
}

/// Reports what is wrong with a member, apart from what waits in its inbox.
pub fn of_member(asker: &Asker<'_>, ages: Ages, subject: Subject<'_>) -> Vec<Finding> {
    let member = subject.member;
    let found = [
        not_queued(asker, subject),
        not_exited(asker, ages, member),
        lost(asker, ages, member),
        failing(asker, ages, member),
        troubled(asker, ages, member),
        untried(member),
        crashing(asker, ages, subject),
    ];
    found.into_iter().flatten().collect()
}

/// Reports why the coordinator refuses messages to a member, or will soon.
fn not_queued(asker: &Asker<'_>, subject: Subject<'_>) -> Option<Finding> {
    let Subject { member, is_named, .. } = subject;
    let name = &member.name;
    match member.state() {
        MemberState::Exited if has_failed(subject) => Some(failed(asker, member, is_named)),
        MemberState::Exited if is_named => Some(note(
            FindingClass::NotQueued,
            name,
            format!("{name} has exited ({}), so messages to it are refused.", exit(member)),
            asker.advise(member, format!("If it is needed again: {}", begin_again(member))),
        )),
        MemberState::Stopping if is_named => Some(note(
            FindingClass::NotQueued,
            name,
            format!("{name} is stopping, so messages to it are refused."),
            "Send to another member.".to_owned(),
        )),
        // Messages to it are refused anyway, as long as this life lasts.
        MemberState::Exited | MemberState::Stopping => None,
        _ if member.inbox_full => Some(problem(
            FindingClass::NotQueued,
            name,
            format!("{name}'s inbox is full ({} messages), so more messages are refused.", member.inbox_depth),
            make_room(asker, member),
        )),
        _ => None,
    }
}

/// Reports a member that did not exit after its shutdown.
fn not_exited(asker: &Asker<'_>, ages: Ages, member: &v1::Member) -> Option<Finding> {
    let (name, since) = (&member.name, ages.since(member.state_since.as_ref()));
    let place = match host(member) {
        "" => String::new(),
        host => format!(" on {host}"),
    };
    (member.state() == MemberState::Stopping && ages.is_too_long(since)).then(|| {
        problem(
            FindingClass::NotExited,
            name,
            format!(
                "{name} approved its shutdown or was stopped by force {} ago, but its exit was not reported.",
                word::age(since)
            ),
            asker.advise(
                member,
                format!(
                    "Find its process{place} and end it; `teamwire shutdown {name} --force` revokes its credential."
                ),
            ),
        )
    })
}

/// Reports a member that is lost.
fn lost(asker: &Asker<'_>, ages: Ages, member: &v1::Member) -> Option<Finding> {
    let (name, since) = (&member.name, ages.since(member.state_since.as_ref()));
    (member.state() == MemberState::Lost).then(|| {
        problem(
            FindingClass::Lost,
            name,
            format!(
                "{name} has been lost for {}: its lease expired. Its messages wait in its inbox.",
                word::age(since)
            ),
            asker.advise(
                member,
                format!(
                    "If it is still needed: {} It then receives its messages. If not: `teamwire shutdown {name} --force`.",
                    begin_again(member)
                ),
            ),
        )
    })
}

/// Reports a member whose program runs, but has failed in every turn for some time.
fn failing(asker: &Asker<'_>, ages: Ages, member: &v1::Member) -> Option<Finding> {
    let failed = member.failed_turns.as_ref()?;
    let (name, since) = (&member.name, ages.since(failed.since.as_ref()));
    ages.is_too_long(since).then(|| {
        problem(
            FindingClass::Failing,
            name,
            format!(
                "{name}'s program has failed for {}: {}. Its runner keeps trying.",
                word::age(since),
                word::failed_turns(failed)
            ),
            asker.advise(
                member,
                format!(
                    "See what happened: `teamwire logs {name}`. If it doesn't recover, stop it with `teamwire shutdown {name} \
                     --force`, fix the cause, and start it again: {} It then receives its messages.",
                    begin_again(member)
                ),
            ),
        )
    })
}

/// Reports a member whose program runs, and says that something keeps it from its work.
fn troubled(asker: &Asker<'_>, ages: Ages, member: &v1::Member) -> Option<Finding> {
    let (name, program) = (&member.name, member.program.as_ref()?);
    let is_new = program.turn_since.is_some() && !ages.is_too_long(ages.since(program.turn_since.as_ref()));
    (!program.trouble.is_empty() && !is_new).then(|| {
        problem(
            FindingClass::Troubled,
            name,
            format!("{name}'s program cannot work as it should: {}", word::one_line(&program.trouble)),
            asker.advise(member, format!("See what it did: `teamwire logs {name}`.")),
        )
    })
}

/// Notes a member whose program has another version than the one that teamwire is tested with.
fn untried(member: &v1::Member) -> Option<Finding> {
    let program = member.program.as_ref().filter(|program| program.version.contains("(tried: "))?;
    let (name, version) = (&member.name, word::one_line(&program.version));
    let text = format!("{name} runs {version}.");
    let next = format!("If {name} does not behave as documented, install the version that was tried.");
    Some(note(FindingClass::UntriedVersion, name, text, next))
}

/// Reports a live member whose program keeps crashing, although its runner restarts it each time.
fn crashing(asker: &Asker<'_>, ages: Ages, subject: Subject<'_>) -> Option<Finding> {
    let Subject { member, record, .. } = subject;
    let is_over = matches!(member.state(), MemberState::Exited | MemberState::Stopping | MemberState::Spawning);
    let count = record.crashes_ms.iter().filter(|at_ms| ages.since_ms(**at_ms) < CRASHES_WITHIN).count();
    let last = record.last_crash.as_ref().map(|exit| exit.report(&EndCause::ProcessEnded));
    let last = last.filter(|exit| !is_over && count >= CRASHES_MIN && is_failure(exit))?;
    let name = &member.name;
    Some(problem(
        FindingClass::Crashing,
        name,
        format!(
            "{name}'s program has crashed {} times in {} min, the last time with {}. Its runner restarts it.",
            count,
            CRASHES_WITHIN.as_secs() / 60,
            word::exit_and_duration(&last)
        ),
        asker.advise(
            member,
            format!(
                "See what happened: `teamwire logs {name}`. If it doesn't recover, stop it with `teamwire shutdown {name} \
                 --force`, fix the cause, and start it again: {}",
                begin_again(member)
            ),
        ),
    ))
}

/// Reports a member whose program failed: a problem if it left messages behind.
fn failed(asker: &Asker<'_>, member: &v1::Member, is_named: bool) -> Finding {
    let name = &member.name;
    let left = match member.inbox_depth {
        0 => String::new(),
        count => format!(" It has not processed {}.", word::count(count, "message")),
    };
    let refused = if is_named { " Messages to it are refused." } else { "" };
    let receives = if left.is_empty() { "" } else { " It then receives its messages." };
    let severity = if member.inbox_depth > 0 || is_named { Severity::Problem } else { Severity::Note };
    Finding {
        severity: severity.into(),
        ..problem(
            FindingClass::Failed,
            name,
            format!("{name} failed ({}).{left}{refused}", exit(member)),
            asker.advise(member, format!("If it is still needed: {}{receives}", begin_again(member))),
        )
    }
}

/// Says who makes room in a full inbox, and how.
fn make_room(asker: &Asker<'_>, member: &v1::Member) -> String {
    let name = &member.name;
    if asker.is(name) {
        return "Read and acknowledge: `teamwire inbox --ack`.".to_owned();
    }
    let as_lead = match (member.liveness(), member.connected) {
        (Liveness::Detached, _) => format!("{name} makes room with `teamwire inbox --ack`."),
        (_, false) => format!("Start its program again: {} It then receives its messages.", begin_again(member)),
        (_, true) => format!(
            "Its program does not acknowledge what it receives (`teamwire inbox --of {name}` lists it). A shutdown request \
             still reaches it: `teamwire shutdown {name} --wait`; then start it again."
        ),
    };
    asker.advise(member, as_lead)
}

/// Returns whether a member's program failed, and neither it nor anyone else had asked for its end.
fn has_failed(subject: Subject<'_>) -> bool {
    let is_unasked = matches!(subject.record.life, Life::Exited { cause: EndCause::ProcessEnded, .. });
    is_unasked && subject.member.exit.as_ref().is_some_and(is_failure)
}

/// Returns whether a program ended by itself, without an approved shutdown, with a signal or another code than 0.
fn is_failure(exit: &v1::ExitReport) -> bool {
    let was_ended = matches!(exit.runner_action(), RunnerAction::Sigterm | RunnerAction::Sigkill);
    let is_bad = exit.signal > 0 || exit.code.is_some_and(|code| code != 0);
    is_bad && !was_ended && exit.approved_request_id.is_empty()
}

/// Says how a lead begins a new life of a member.
pub(super) fn begin_again(member: &v1::Member) -> String {
    let name = &member.name;
    match (member.liveness(), host(member)) {
        _ if !member.spawned_on.is_empty() => {
            format!("`teamwire spawn {name} --profile PROFILE` (it ran on {}).", member.spawned_on)
        }
        (Liveness::Detached, _) => format!("`teamwire invite {name}`, and send the join string to the person."),
        (_, "") => format!("`teamwire run {name} -- COMMAND`."),
        (_, host) => format!("`teamwire run {name} -- COMMAND` (it ran on {host})."),
    }
}

/// Returns the name of the machine that a member's program runs on; empty if it is unknown.
fn host(member: &v1::Member) -> &str {
    member.attributes.as_ref().map_or("", |attributes| attributes.host.as_str())
}

fn exit(member: &v1::Member) -> String {
    member.exit.as_ref().map_or_else(|| "cause unknown".to_owned(), word::exit_and_duration)
}
