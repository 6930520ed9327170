//! Findings about a member's state.

use teamwire_client::v1;
use teamwire_proto::{
    v1::{Liveness, MemberState},
    word,
};

use super::{
    Doctor,
    age::{age, duration_text},
    finding::Finding,
    history::was_stopping,
    program::{begin_again, has_failed, host},
    reader::Reader,
};
use crate::{context::Caller, failure::Failure, show};

impl Doctor {
    /// Reports why the coordinator refuses messages to a member, or will soon.
    pub(super) async fn not_queued(
        &self,
        caller: &Caller,
        reader: &Reader,
        member: &v1::Member,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Failure> {
        let name = &member.name;
        let is_named = self.member.is_some();
        match member.state() {
            MemberState::Exited
                if member.exit.as_ref().is_some_and(has_failed) && !was_stopping(caller, member).await? =>
            {
                findings.push(failed(reader, member, is_named));
            }
            MemberState::Exited if is_named => findings.push(
                Finding::note(
                    "not_queued",
                    format!("{name} has exited ({}), so messages to it are refused.", exit(member)),
                    reader.advise(member, format!("If it is needed again: {}", begin_again(member))),
                )
                .of(name),
            ),
            MemberState::Stopping if is_named => findings.push(
                Finding::note(
                    "not_queued",
                    format!("{name} is stopping, so messages to it are refused."),
                    "Send to another member.".to_owned(),
                )
                .of(name),
            ),
            // Messages to it are refused anyway, as long as this life lasts.
            MemberState::Exited | MemberState::Stopping => {}
            _ if member.inbox_full => findings.push(Finding::problem(
                "not_queued",
                name,
                format!("{name}'s inbox is full ({} messages), so more messages are refused.", member.inbox_depth),
                make_room(reader, member),
            )),
            _ => {}
        }
        Ok(())
    }

    /// Reports a member that did not exit after its shutdown, or that is lost.
    pub(super) fn not_exited(&self, reader: &Reader, member: &v1::Member, findings: &mut Vec<Finding>) {
        let (name, since) = (&member.name, age(member.state_since.as_ref()));
        match member.state() {
            MemberState::Stopping if since >= self.patience() => findings.push(Finding::problem(
                "not_exited",
                name,
                format!(
                    "{name} approved its shutdown or was stopped by force {} ago, but its exit was not reported.",
                    duration_text(since)
                ),
                reader.advise(
                    member,
                    format!(
                        "Find its process{} and end it; `teamwire shutdown {name} --force` revokes its credential.",
                        match host(member) {
                            "" => String::new(),
                            host => format!(" on {host}"),
                        }
                    ),
                ),
            )),
            MemberState::Lost => findings.push(Finding::problem(
                "lost",
                name,
                format!(
                    "{name} has been lost for {}: its lease expired. Its messages wait in its inbox.",
                    duration_text(since)
                ),
                reader.advise(
                    member,
                    format!(
                        "If it is still needed: {} It then receives its messages. If not: `teamwire shutdown {name} \
                         --force`.",
                        begin_again(member)
                    ),
                ),
            )),
            _ => {}
        }
    }
}

impl Doctor {
    /// Reports a member whose program runs, but has failed in every turn for some time.
    pub(super) fn failing(&self, reader: &Reader, member: &v1::Member) -> Option<Finding> {
        let failed = member.failed_turns.as_ref()?;
        let (name, since) = (&member.name, age(failed.since.as_ref()));
        (since >= self.patience()).then(|| {
            Finding::problem(
                "failing",
                name,
                format!(
                    "{name}'s program has failed for {}: {}. Its runner keeps trying.",
                    duration_text(since),
                    show::failed_turns(failed)
                ),
                reader.advise(
                    member,
                    format!(
                        "See what happened: `teamwire logs {name}`. If it doesn't recover, stop it with `teamwire \
                         shutdown {name} --force`, fix the cause, and start it again: {} It then receives its messages.",
                        begin_again(member)
                    ),
                ),
            )
        })
    }
}

impl Doctor {
    /// Reports a member whose program runs, and says that something keeps it from its work.
    pub(super) fn troubled(&self, reader: &Reader, member: &v1::Member) -> Option<Finding> {
        let (name, program) = (&member.name, member.program.as_ref()?);
        let is_new = program.turn_since.is_some() && age(program.turn_since.as_ref()) < self.patience();
        (!program.trouble.is_empty() && !is_new).then(|| {
            Finding::problem(
                "troubled",
                name,
                format!("{name}'s program cannot work as it should: {}", show::one_line(&program.trouble)),
                reader.advise(member, format!("See what it did: `teamwire logs {name}`.")),
            )
        })
    }
}

/// Notes a member whose program has another version than the one that teamwire is tested with.
pub(super) fn untried(member: &v1::Member) -> Option<Finding> {
    let program = member.program.as_ref().filter(|program| program.version.contains("(tried: "))?;
    let (name, version) = (&member.name, show::one_line(&program.version));
    let text = format!("{name} runs {version}.");
    let next = format!("If {name} does not behave as documented, install the version that was tried.");
    Some(Finding::note("untried_version", text, next).of(name))
}

/// Reports a member whose program failed: a problem if it left messages behind.
fn failed(reader: &Reader, member: &v1::Member, is_named: bool) -> Finding {
    let name = &member.name;
    let left = match member.inbox_depth {
        0 => String::new(),
        1 => " It has not processed 1 message.".to_owned(),
        count => format!(" It has not processed {count} messages."),
    };
    let refused = if is_named { " Messages to it are refused." } else { "" };
    let receives = if left.is_empty() { "" } else { " It then receives its messages." };
    Finding {
        is_problem: member.inbox_depth > 0 || is_named,
        ..Finding::problem(
            "failed",
            name,
            format!("{name} failed ({}).{left}{refused}", exit(member)),
            reader.advise(member, format!("If it is still needed: {}{receives}", begin_again(member))),
        )
    }
}

/// Says who makes room in a full inbox, and how.
fn make_room(reader: &Reader, member: &v1::Member) -> String {
    let name = &member.name;
    if reader.is(name) {
        return "Read and acknowledge: `teamwire inbox --ack`.".to_owned();
    }
    let as_lead = match (member.liveness(), member.connected) {
        (Liveness::Detached, _) => format!("{name} makes room with `teamwire inbox --ack`."),
        (_, false) => format!("Start its program again: {} It then receives its messages.", begin_again(member)),
        (_, true) => format!(
            "Its program does not acknowledge what it receives (`teamwire inbox --of {name}` lists it). A shutdown \
             request still reaches it: `teamwire shutdown {name} --wait`; then start it again."
        ),
    };
    reader.advise(member, as_lead)
}

/// Reports that there is no member with the name that the caller asked about.
pub(super) fn unknown(reader: &Reader, named: &str, members: &[v1::Member]) -> Finding {
    let known: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    Finding::problem(
        "not_queued",
        named,
        format!(
            "There is no member \"{named}\", so messages to it are refused. The members are: {}.",
            known.join(", ")
        ),
        if reader.can_lead() {
            format!(
                "Check the spelling, or add the member: `teamwire run {named} -- COMMAND`, `teamwire invite {named}`, or \
                 `teamwire spawn {named}` if the team has a host."
            )
        } else {
            "Check the spelling. Only the lead can add members.".to_owned()
        },
    )
}

/// Records which members block the team's deletion.
pub(super) fn delete_blocked(reader: &Reader, members: &[v1::Member]) -> Option<Finding> {
    let is_gone =
        |member: &v1::Member| matches!(member.state(), MemberState::Exited | MemberState::Lost | MemberState::Away);
    let live: Vec<&v1::Member> = members.iter().filter(|member| !is_gone(member) && !reader.is(&member.name)).collect();
    let names: Vec<String> =
        live.iter().map(|member| format!("{} ({})", member.name, word::member_state(member.state()))).collect();
    let first = live.first().filter(|_| reader.can_lead())?;
    Some(Finding::note(
        "delete_blocked",
        format!("The team cannot be deleted while these members are live: {}.", names.join(", ")),
        format!("Shut each one down with `teamwire shutdown {} --wait`, or stop it with --force.", first.name),
    ))
}

fn exit(member: &v1::Member) -> String {
    member.exit.as_ref().map_or_else(|| "cause unknown".to_owned(), word::exit_and_duration)
}
