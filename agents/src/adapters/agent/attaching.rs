//! While a person has the session: the program is gone, messages wait, and the member stays.

use std::time::{Duration, SystemTime};

use tokio::time::timeout;

use super::{Agent, Ended};
use crate::{
    attach::{Answer, Desk, Guest, Start, socket},
    event::RunnerEvent,
    exit::Why,
    incarnation::{Incarnation, IncarnationEvent, ProgramState},
};

/// How long a holder may take to leave when another one takes over.
const LEAVE_DEADLINE: Duration = Duration::from_secs(2);

/// Opens the desk of a member. `None`, with a warning, if no one can attach to it.
pub(super) fn open(incarnation: &Incarnation<'_>) -> Option<Desk> {
    let root = incarnation.config.agent.sockets.as_ref()?;
    let (team_id, member) = incarnation.ids()?;
    match Desk::open(socket(root, &team_id, &member)) {
        Ok(desk) => Some(desk),
        Err(error) => {
            let detail = format!("No one can attach to this agent: its socket cannot be made: {error}.");
            incarnation.tell(RunnerEvent::AgentWarning { detail });
            None
        }
    }
}

/// Waits for one who wants the session. Waits forever without a desk. Cancel-safe.
pub(super) async fn guest(desk: &mut Option<Desk>) -> Guest {
    if let Some(open) = desk
        && let Some(guest) = open.next().await
    {
        return guest;
    }
    std::future::pending().await
}

impl Agent {
    /// Takes in one who wants the session: refuses it, or ends the turn, so that the program can be ended.
    pub(super) fn admit(&mut self, mut guest: Guest, incarnation: &Incarnation<'_>) {
        let refusal = match (&self.guest, incarnation.carried.session.id.as_deref()) {
            (Some(other), _) => Some(format!("{} is about to take over this session.", other.hello.holder)),
            (None, None) => Some("The program has no session yet. Send it a message first.".to_owned()),
            (None, Some(id)) if self.protocol.attach(id).is_none() => {
                Some("teamwire does not know how this program continues a session at a terminal.".to_owned())
            }
            _ => None,
        };
        if let Some(why) = refusal {
            tokio::spawn(async move { guest.tell(&Answer::Refused(why)).await });
            return;
        }
        self.guest = Some(guest);
        if self.is_working() {
            self.interrupt();
        }
    }

    /// Leaves the session to the one who waits for it, or to the next process of the program.
    pub(super) async fn pass_session_on(mut self, incarnation: &mut Incarnation<'_>) -> Ended {
        self.leave_pause_to_successor();
        incarnation.set_resting(false);
        if let Some(request_id) = self.reminders.open_request() {
            self.prompts.remind_of_shutdown(request_id);
        }
        for request_id in self.permission_requests.withdraw_all().await {
            incarnation.note_own_request(request_id);
        }
        let Some(guest) = self.guest else {
            return Ended::Interrupted(self.refusals, self.prompts.into_waiting());
        };
        let session_id = incarnation.carried.session.id.clone().unwrap_or_default();
        let additions = self.protocol.attach(&session_id).unwrap_or_default();
        self.protocol.prepare_session(&session_id, &incarnation.config.environment);
        let start = incarnation.at_terminal(additions);
        Ended::HandedOver(self.refusals, self.prompts.into_waiting(), guest, start)
    }

    /// Returns whether one waits for the session, and no turn keeps it.
    pub(super) fn hands_over(&self) -> bool {
        self.guest.is_some() && !self.prompts.is_in_turn()
    }
}

/// Holds the member while a person has its session. Returns why the incarnation must end, if it must.
pub(super) async fn hold(
    incarnation: &mut Incarnation<'_>,
    mut guest: Guest,
    start: &Start,
    desk: &mut Option<Desk>,
) -> Option<Why> {
    guest.hand_over(start).await;
    incarnation.set_resting(true);
    let mut since = begin(incarnation, &guest);
    let why = loop {
        tokio::select! {
            biased;
            news = incarnation.next() => if let IncarnationEvent::End(why) = news {
                guest.tell(&Answer::Over("The member's life has ended.".to_owned())).await;
                guest.end_program().await;
                break Some(why);
            },
            () = guest.gone() => {
                guest.end_program().await;
                break None;
            }
            mut other = self::guest(desk) => {
                if !other.hello.steal {
                    let why = format!("{} has held this session since {since}. --steal takes it.", guest.hello.holder);
                    other.tell(&Answer::Refused(why)).await;
                    continue;
                }
                guest.tell(&Answer::Over(format!("{} has taken over.", other.hello.holder))).await;
                // The other program must be gone before this one starts, or both write to one session. Its terminal may be
                // suspended, so that it does not end by itself.
                _ = timeout(LEAVE_DEADLINE, guest.gone()).await;
                guest.end_program().await;
                guest = other;
                guest.hand_over(start).await;
                since = begin(incarnation, &guest);
            }
        }
    };
    incarnation.set_resting(false);
    incarnation.tell(RunnerEvent::TakenBack { holder: guest.hello.holder.clone() });
    why
}

/// Says who has the session. Returns since when.
fn begin(incarnation: &mut Incarnation<'_>, guest: &Guest) -> String {
    let holder = guest.hello.holder.clone();
    let since = jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default().strftime("%H:%M UTC").to_string();
    let trouble = format!("held by {holder} since {since}");
    incarnation.program_state(&ProgramState { trouble, ..ProgramState::default() });
    incarnation.tell(RunnerEvent::HandedOver { holder });
    since
}
