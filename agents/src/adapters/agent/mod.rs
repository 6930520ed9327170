//! Drives an agent program, such as Claude Code, over the program's own protocol.
//!
//! Messages and tasks reach the agent as prompts: between turns, and in the middle of a turn if the program takes them
//! there. A message is acknowledged when the turn that took it has succeeded. A prompt whose turn has failed is handed
//! over again after a delay of 1 s that doubles to 30 s, and one that the program was working on when it died is
//! delivered again by the coordinator. A restarted program resumes its own session, unless the model's API refuses it.
//!
//! The agent has the member's tools ([`mcp`](crate::mcp)): it sends and answers with them, and not by what it writes.
//! When the program wants to leave its plan mode, the plan becomes a request to the team's lead, whose decision goes
//! back to the program. A [`Protocol`] knows one program; everything else is the same for all.

mod acp;
mod attaching;
mod claude;
mod codex;
mod describe;
mod interrupts;
mod listening;
mod loading;
mod loops;
mod permission_requests;
mod prompts;
mod protocol;
mod reminders;
mod spending;
mod start;
mod state;
mod tool_use;
mod tools;
mod turns;
mod unsent;

use std::{mem, pin::pin, time::Duration};

use teamwire_proto::v1::{self, TranscriptKind};
use tokio::{
    process::ChildStdout,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    acp::Acp,
    claude::Claude,
    codex::Codex,
    describe::{ACTIVITY_CHARS_MAX, SUMMARY_CHARS_MAX, first_line},
    interrupts::Interrupts,
    loading::{LOOK_EVERY, Loading, due},
    loops::Loops,
    permission_requests::PermissionRequests,
    prompts::{Failure, Prompts, Rest},
    protocol::{Change, Decision, Event, Outbox, PermissionRequest, Protocol, Usage},
    reminders::Reminders,
    spending::Spending,
    start::{not_resumed, setup, start_tools},
    state::AgentState,
    tools::{Tools, called},
    turns::Turns,
    unsent::UnsentTexts,
};
use crate::{
    attach::{Desk, Guest, Start},
    config::{AgentProtocol, TOOLS_LOADED_VARIABLE},
    event::RunnerEvent,
    exit::{End, Exit, Why},
    incarnation::{Additions, Incarnation, IncarnationEvent, Next, ProgramSession, Refusals},
    line_protocol::{
        input::Input,
        input_lines::Welcome,
        json::Unreadable,
        lines::{Lines, next_piece},
    },
    process::Process,
    transcript::Entry,
};

/// How long the program may take to become ready for prompts.
const READY_DEADLINE: Duration = Duration::from_secs(120);

/// How long to wait for the program's last lines once it has ended.
const LAST_LINES_DEADLINE: Duration = Duration::from_secs(5);

/// Runs the program through one incarnation, with one session after the other if the model's API refuses them.
pub(super) async fn run(incarnation: &mut Incarnation<'_>, protocol: AgentProtocol) -> End {
    let welcome = incarnation.welcome().await;
    let (mut refusals, mut rest) = (Refusals::default(), Rest::default());
    let mut desk = attaching::open(incarnation);
    loop {
        match run_session(incarnation, protocol, &welcome, refusals, rest, &mut desk).await {
            Ended::Over(end) => return end,
            Ended::Refused(known, left) => (refusals, rest) = (known, left),
            Ended::Interrupted(known, left) => {
                (refusals, rest) = (known, left);
                continue;
            }
            Ended::HandedOver(known, left, guest, start) => {
                (refusals, rest) = (known, left);
                if let Some(why) = attaching::hold(incarnation, guest, &start, &mut desk).await {
                    let why = incarnation.settle(why).await;
                    return End { why, ..End::default() };
                }
                continue;
            }
        }
        incarnation.carried.session = ProgramSession::default();
        incarnation.keep_program_session();
        if let Some(failed) = rest.failed.take() {
            // The coordinator delivers all messages again. Only for this one it counts.
            incarnation.renew_session(&failed).await;
        }
    }
}

/// How a process of the program has ended.
enum Ended {
    /// The incarnation is over.
    Over(End),
    /// Its session was refused. The refusals so far, and what was not processed.
    Refused(Refusals, Rest),
    /// It did not end its turn when it was interrupted. The refusals so far, and what waits.
    Interrupted(Refusals, Rest),
    /// A person takes over its session, and starts this program instead.
    HandedOver(Refusals, Rest, Guest, Start),
}

/// Runs one process of the program.
async fn run_session(
    incarnation: &mut Incarnation<'_>,
    protocol: AgentProtocol,
    welcome: &Welcome,
    refusals: Refusals,
    rest: Rest,
    desk: &mut Option<Desk>,
) -> Ended {
    incarnation.begin_process();
    incarnation.ask_for_budgets();
    let mut setup = setup(incarnation, welcome);
    // Codex calls the tools over its own protocol.
    let is_over_mcp = setup.mcp.is_some() && protocol != AgentProtocol::Codex;
    let loading = is_over_mcp.then(|| Loading::new(protocol == AgentProtocol::Acp)).flatten();
    if let (Some(mcp), Some(loading)) = (&mut setup.mcp, &loading) {
        mcp.environment.push((TOOLS_LOADED_VARIABLE.to_owned(), loading.file().to_string_lossy().into_owned()));
    }
    let (used_before, is_resuming) = (setup.used_before, setup.resume.is_some());
    let first = if incarnation.carried.session.is_begun { "" } else { &incarnation.config.agent.prompt };
    let prompts = Prompts::new(welcome.text.clone(), first, rest);
    let mut tools = None;
    let protocol: Box<dyn Protocol> = match protocol {
        AgentProtocol::Claude => Box::new(Claude::new(setup)),
        AgentProtocol::Codex => {
            tools = start_tools(&mut setup, incarnation).await;
            Box::new(Codex::new(setup))
        }
        AgentProtocol::Acp => {
            let program = incarnation.config.command.first().map(|program| program.to_string_lossy());
            Box::new(Acp::new(&program.unwrap_or_default(), setup))
        }
    };
    if let Some(session_id) = &incarnation.carried.session.id {
        protocol.prepare_session(session_id, &incarnation.config.environment);
    }
    let additions = Additions { tools_loaded: loading.as_ref().map(Loading::file), ..protocol.launch() };
    let mut process = match incarnation.start_program(welcome, additions).await {
        Ok(process) => process,
        Err(exit) => return Ended::Over(End { why: Why::Exited, exit: Some(exit), ..End::default() }),
    };
    let mut agent = Agent {
        protocol,
        prompts,
        permission_requests: PermissionRequests::default(),
        reminders: Reminders::new(incarnation.client(), &reminders::DELAYS),
        tools,
        input: Input::new(process.take_stdin(), String::new()),
        output: process.take_stdout().map(Lines::new),
        out: Outbox::default(),
        unreadable: Unreadable::default(),
        used_before,
        done_last: String::new(),
        is_ready: false,
        is_closing: false,
        is_wrapped_up: CancellationToken::new(),
        is_broken: false,
        was_killed: false,
        is_starting_over: false,
        interrupts: Interrupts::default(),
        spending: Spending::new(incarnation.budgets()),
        loops: Loops::default(),
        is_turn_over: false,
        guest: None,
        refusals,
        state: AgentState::default(),
        turns: Turns::default(),
        unsent: UnsentTexts::new(incarnation.client()),
        loading,
    };
    agent.protocol.start(&mut agent.out);
    let why = agent.hold(incarnation, &mut process, desk).await;
    let exit = agent.end_program(incarnation, &mut process, &why).await;
    let hurry = incarnation.hurry.clone();
    let _ = hurry.bound(timeout(LAST_LINES_DEADLINE, agent.drain(incarnation))).await;
    if is_resuming && !agent.is_ready && matches!(why, Why::Exited) {
        not_resumed(incarnation, &exit);
    }
    if agent.is_starting_over && !agent.is_broken && !incarnation.stop.is_cancelled() {
        return Ended::Refused(agent.refusals, agent.prompts.into_rest());
    }
    if matches!(why, Why::HandedOver | Why::IgnoredInterrupt) {
        return agent.pass_session_on(incarnation).await;
    }
    let why = incarnation.settle(why).await;
    Ended::Over(End {
        why,
        exit: Some(exit),
        is_outcome_unknown: false,
        is_final: agent.is_broken || !incarnation.carried.was_ready,
    })
}

/// A running agent program.
struct Agent {
    protocol: Box<dyn Protocol>,
    prompts: Prompts,
    permission_requests: PermissionRequests,
    reminders: Reminders,
    /// The member's tools, unless the program reaches them over MCP.
    tools: Option<Tools>,
    input: Input,
    /// The program's output, until the program closes it.
    output: Option<Lines<ChildStdout>>,
    out: Outbox,
    /// What has arrived of a line that is too long to be read.
    unreadable: Unreadable,
    /// What the program's session had used before the current process started.
    used_before: Usage,
    /// The last activity, for the notice that the member is idle.
    done_last: String,
    is_ready: bool,
    /// Whether the input is to be closed once everything in it is written and no turn is cut short.
    is_closing: bool,
    /// Cancelled: the program gets no more time to end by itself.
    is_wrapped_up: CancellationToken,
    is_broken: bool,
    /// A signal has ended it.
    was_killed: bool,
    /// The program's session is of no use any more: the model's API refuses it.
    is_starting_over: bool,
    interrupts: Interrupts,
    spending: Spending,
    loops: Loops,
    /// The turn has ended, although the program may not have said so of each prompt.
    is_turn_over: bool,
    /// Who is about to take over the session.
    guest: Option<Guest>,
    refusals: Refusals,
    state: AgentState,
    turns: Turns,
    unsent: UnsentTexts,
    /// Checks whether the tools are loaded, until they are, if that can be known.
    loading: Option<Loading>,
}

impl Agent {
    /// Hands prompts over until there is a reason to end.
    async fn hold(&mut self, incarnation: &mut Incarnation<'_>, process: &mut Process, desk: &mut Option<Desk>) -> Why {
        let ready_by = Instant::now() + READY_DEADLINE;
        loop {
            if self.hands_over() {
                return Why::HandedOver;
            }
            self.interrupt_if_asked(incarnation);
            self.approve_while_paused(incarnation);
            self.settle_outbox(incarnation);
            if self.is_broken || self.is_starting_over {
                return Why::Exited;
            }
            let awaits_tools = self.is_ready && self.loading.as_mut().is_some_and(Loading::is_awaited);
            let takes_prompts = self.is_ready
                && !awaits_tools
                && !self.interrupts.is_pending()
                && !self.spending.keeps_prompts()
                && self.guest.is_none()
                && self.input.accepts_line()
                && self.protocol.accepts_prompt();
            if takes_prompts && let Some(prompt) = self.prompts.next(incarnation) {
                self.turns.begin();
                self.is_turn_over = false;
                incarnation.record(Entry {
                    kind: TranscriptKind::Prompt,
                    text: prompt.text.clone(),
                    ..Entry::default()
                });
                self.protocol.prompt(prompt, &mut self.out);
                self.loading.as_mut().map(Loading::begin);
                continue;
            }
            self.input.advance();
            let is_ready = self.is_ready;
            let is_idle = takes_prompts && !self.prompts.is_in_turn();
            tokio::select! {
                biased;
                news = incarnation.next() => match news {
                    IncarnationEvent::End(why) => return why,
                    IncarnationEvent::Reply(_) | IncarnationEvent::Changed => {}
                },
                exit = process.wait() => {
                    self.was_killed = exit.signal != 0;
                    return Why::Exited;
                }
                (key, result) = called(&mut self.tools) => self.protocol.tool_result(&key, result, &mut self.out),
                answered = self.permission_requests.next() => self.apply(answered, incarnation),
                piece = next_piece(&mut self.output) => self.listen(piece, incarnation),
                _ = self.input.write() => {}
                () = self.prompts.due(), if takes_prompts => {}
                request_id = self.reminders.next(), if is_idle => {
                    self.prompts.remind_of_shutdown(&request_id);
                    incarnation.tell(RunnerEvent::ShutdownReminded { request_id });
                }
                guest = attaching::guest(desk) => self.admit(guest, incarnation),
                has_news = self.spending.changed() => self.settle_spending(has_news, incarnation),
                unread = self.unsent.next() => self.settle_unsent(unread, incarnation),
                () = self.interrupts.ignored() => {
                    self.give_up_turn(incarnation);
                    return Why::IgnoredInterrupt;
                }
                () = due(&self.loading) => self.look_for_tools(incarnation),
                () = sleep(LOOK_EVERY), if awaits_tools => {}
                () = sleep_until(ready_by), if !is_ready => {
                    let seconds = READY_DEADLINE.as_secs();
                    self.out.tell(Event::Broken(format!("The program was not ready to work within {seconds} s.")));
                }
            }
        }
    }

    /// Ends the program, and keeps listening to it meanwhile. If the member has agreed, first closes its input.
    async fn end_program(&mut self, incarnation: &mut Incarnation<'_>, process: &mut Process, why: &Why) -> Exit {
        if why.is_agreed() {
            self.protocol.close(&mut self.out);
            self.is_closing = true;
        }
        let mut ending = pin!(incarnation.end_program(process, why, self.is_wrapped_up.clone()));
        let exit = loop {
            tokio::select! {
                exit = &mut ending => break exit,
                () = self.step(incarnation) => {}
            }
        };
        incarnation.program_ended(&exit);
        exit
    }

    /// Listens until the program's output has ended.
    async fn drain(&mut self, incarnation: &mut Incarnation<'_>) {
        while self.output.is_some() {
            self.step(incarnation).await;
        }
    }

    /// Takes one step in a conversation that is ending. Hands nothing new over. Cancel-safe.
    async fn step(&mut self, incarnation: &mut Incarnation<'_>) {
        self.settle_outbox(incarnation);
        self.input.advance();
        if self.is_closing && self.input.accepts_line() && !self.protocol.is_in_turn() {
            self.input.close();
            if self.protocol.ignores_end_of_input() {
                self.is_wrapped_up.cancel();
            }
        }
        tokio::select! {
            _ = incarnation.finish_current() => {}
            (key, result) = called(&mut self.tools) => self.protocol.tool_result(&key, result, &mut self.out),
            answered = self.permission_requests.next() => self.apply(answered, incarnation),
            piece = next_piece(&mut self.output) => self.listen(piece, incarnation),
            _ = self.input.write() => {}
        }
    }

    /// Acts on everything that the protocol has said.
    fn settle_outbox(&mut self, incarnation: &mut Incarnation<'_>) {
        for entry in mem::take(&mut self.out.entries) {
            self.look_for_loop(&entry, incarnation);
            incarnation.record(entry);
        }
        let mut has_used = false;
        while let Some(event) = self.out.events.pop_front() {
            has_used |= matches!(event, Event::Usage(_));
            self.act(event, incarnation);
        }
        if has_used {
            // Not before the turn may have ended with the same line.
            self.settle_spending(false, incarnation);
        }
        for line in self.out.lines.drain(..) {
            self.input.reply(&line);
        }
        for change in self.out.changes.drain(..) {
            if let Change::Version(version) = &change {
                incarnation.tell(RunnerEvent::ProgramVersion { version: version.clone() });
            }
            if let Change::CallBegan { line, .. } = &change {
                self.unsent.call_began(line);
            }
            if let Change::FileChanged(path) = &change {
                incarnation.file_changed(path);
            }
            self.turns.change(&change);
            self.state.change(change);
        }
        incarnation.program_state(&self.state.report(self.prompts.is_in_turn()));
    }

    fn act(&mut self, event: Event, incarnation: &mut Incarnation<'_>) {
        match event {
            Event::Ready { session_id } => {
                self.is_ready = true;
                incarnation.note_ready();
                incarnation.note_turn_ended("");
                if session_id.is_some() {
                    (incarnation.carried.session.id, incarnation.carried.session.kills) = (session_id, 0);
                    incarnation.keep_program_session();
                }
            }
            Event::Taken(id) => self.taken(id),
            Event::TurnEnded(end) => self.turn_ended(&end, incarnation),
            Event::Usage(usage) => {
                self.turns.used(usage);
                incarnation.carried.session.usage = self.used_before.plus(usage).into();
                self.spending.used(incarnation.usage(usage.into()));
                // A successor counts from here.
                incarnation.keep_program_session();
            }
            Event::ToolCalled { key, tool, input } => {
                if let Some(tools) = &mut self.tools {
                    tools.call(key, tool, input);
                }
            }
            // What a killed program has started may outlive it for a moment, and end the turn without its tools.
            Event::Processed(_) if self.was_killed => {}
            Event::Processed(id) => self.processed(id, incarnation),
            Event::Failed(id, _) if self.interrupts.is_pending() => self.interrupted(id, incarnation),
            Event::Failed(id, detail) => {
                self.interrupts.ended(id);
                self.unsent.turn_failed();
                let detail = first_line(&detail, ACTIVITY_CHARS_MAX);
                let Some(Failure { in_a_row, after, report, is_new_turn }) = self.prompts.failed(id) else { return };
                let error = first_line(&detail, SUMMARY_CHARS_MAX);
                let error = if error.is_empty() { "the program does not say why".to_owned() } else { error };
                incarnation.failed_turns(in_a_row, &error);
                let next = if is_new_turn { self.refusals.failed(&detail) } else { Next::Retry };
                if next != Next::Retry {
                    return self.start_over(next, &error, incarnation);
                }
                if let Some(report) = report {
                    incarnation.report_failure(v1::WorkFailure { error, ..report });
                }
                incarnation.tell(RunnerEvent::PromptFailed { detail, after });
            }
            Event::Activity(line) => {
                let line = first_line(&line, ACTIVITY_CHARS_MAX);
                self.done_last = line.chars().take(SUMMARY_CHARS_MAX).collect();
                incarnation.activity(line.as_str());
                incarnation.tell(RunnerEvent::Activity { line });
            }
            Event::PermissionWanted(PermissionRequest { key, .. }) | Event::PlanReady { key, .. }
                if self.is_closing =>
            {
                let why = "This teammate is shutting down.".to_owned();
                self.protocol.decide(&key, Decision::Deny(why), &mut self.out);
            }
            Event::PermissionWanted(request) => self.permission_wanted(request, incarnation),
            Event::PlanReady { key, plan } => {
                incarnation.tell(RunnerEvent::PlanSubmitted);
                self.permission_requests.ask_for_plan(key, plan, incarnation);
            }
            Event::WishWithdrawn { key } => self.permission_requests.withdraw(&key),
            Event::Compacted => self.prompts.repeat_welcome(),
            Event::StartedOver => {
                self.used_before = Usage::default();
                if mem::take(&mut incarnation.carried.session.is_begun) {
                    self.prompts.begin_with(&incarnation.config.agent.prompt);
                }
                self.prompts.repeat_welcome();
            }
            Event::Warning(detail) => warn(incarnation, &detail),
            Event::Broken(detail) => {
                warn(incarnation, &detail);
                self.is_broken = true;
            }
        }
    }
}

/// Reports what the person who runs the program should know.
fn warn(incarnation: &Incarnation<'_>, detail: &str) {
    incarnation.tell(RunnerEvent::AgentWarning { detail: first_line(detail, ACTIVITY_CHARS_MAX) });
}
