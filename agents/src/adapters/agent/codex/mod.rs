//! Codex: `codex app-server`, which reads and writes requests, responses and notifications as lines of JSON.
//!
//! `turn/start` begins a turn or joins the one that runs; its response proves nothing. A prompt that joins a turn while
//! the model answers makes Codex discard that answer and ask again. So a prompt joins a turn only while a tool runs,
//! and waits for the end of the turn otherwise. The prompt has reached the model when the program completes a user
//! message with the prompt's client id, and it is processed when that turn completes. A turn that fails or is
//! interrupted drops what it has not taken.
//!
//! Codex asks for permission as its own configuration says: by default, whenever a command or an edit leaves its
//! sandbox. The response to a refused request has no room for a reason, so the reason joins the turn as text. If the
//! runner permits everything, the sandbox is off: it would only make commands fail that the runner would permit when
//! asked.

mod arguments;
mod describe;
mod native;
mod planning;
mod requests;
#[cfg(test)]
mod tests;
mod usage;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
};

use serde_json::{Value, json};

use self::{arguments::Arguments, planning::Planning, requests::Wanted, usage::Counter};
use super::protocol::{
    Change, Decision, Event, Outbox, Prompt, PromptId, Protocol, Setup, ToolResult, TurnEnd, text, unreadable_rpc,
};
use crate::{incarnation::Additions, programs};

/// What a client id begins with. A prompt's number follows.
const CLIENT_ID: &str = "teamwire-";

/// The types of items during which the model waits for this machine.
const TOOLS: [&str; 5] = ["commandExecution", "fileChange", "mcpToolCall", "dynamicToolCall", "collabAgentToolCall"];

/// The state of one process of `codex app-server`.
pub(super) struct Codex {
    setup: Setup,
    arguments: Result<Arguments, String>,
    /// The number of our next request.
    next_request: u64,
    /// Our requests that the program has not answered.
    asked: HashMap<u64, Asked>,
    /// The thread, once it has started.
    thread: Option<String>,
    is_turn_running: bool,
    /// The turn that began last.
    begun_turn: String,
    /// Whether the next turn that begins is to be interrupted.
    interrupts_next: bool,
    /// The tools of the turn that run, by the ids of their items.
    running_tools: HashSet<String>,
    /// The turn that ended last.
    ended_turn: String,
    prompts: BTreeMap<PromptId, Handed>,
    permission_requests: HashMap<String, Wanted>,
    /// The ids of the program's requests to call a tool.
    calls: HashMap<String, Value>,
    /// The file changes that are under way, by the ids of their items.
    changes: HashMap<String, Value>,
    planning: Planning,
    usage: Counter,
    warnings: HashSet<String>,
    /// What the model wrote since its last tool call.
    last_text: String,
}

/// A request of ours.
enum Asked {
    Initialize,
    Start,
    Resume,
    /// Asks for the sandbox of a new thread.
    Probe,
    Turn(PromptId),
    /// A request whose response changes nothing. If it fails, the runner reports it with this text.
    Other(&'static str),
}

/// A prompt that was handed over.
#[derive(Default)]
struct Handed {
    /// The turn that it began or joined. `None` if the program has not said.
    turn: Option<String>,
    is_taken: bool,
}

impl Codex {
    pub(super) fn new(setup: Setup) -> Self {
        let mut arguments = arguments::read(&setup.arguments);
        let is_unconfined = setup.permits_all && arguments.as_mut().is_ok_and(Arguments::turn_sandbox_off);
        Self {
            arguments,
            planning: Planning::new(setup.plan_first, is_unconfined),
            usage: Counter::new(setup.used_before),
            setup,
            next_request: 1,
            asked: HashMap::new(),
            thread: None,
            is_turn_running: false,
            begun_turn: String::new(),
            interrupts_next: false,
            running_tools: HashSet::new(),
            ended_turn: String::new(),
            prompts: BTreeMap::new(),
            permission_requests: HashMap::new(),
            calls: HashMap::new(),
            changes: HashMap::new(),
            warnings: HashSet::new(),
            last_text: String::new(),
        }
    }

    fn ask(&mut self, asked: Asked, method: &str, params: &Value, out: &mut Outbox) {
        let id = self.next_request;
        self.next_request += 1;
        self.asked.insert(id, asked);
        out.write(json!({ "id": id, "method": method, "params": params }));
    }

    /// Returns the agent's working directory.
    fn directory(&self) -> String {
        let chosen = self.arguments.as_ref().ok().and_then(|arguments| arguments.directory.as_deref());
        self.setup.directory.join(chosen.unwrap_or_default()).display().to_string()
    }

    fn open_thread(&mut self, resume: Option<String>, out: &mut Outbox) {
        let directory = self.directory();
        let Some(thread) = resume else {
            let tools: Vec<Value> = self.setup.tools.iter().map(|tool| {
                json!({ "type": "function", "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema })
            }).collect();
            self.ask(Asked::Start, "thread/start", &json!({ "cwd": directory, "dynamicTools": tools }), out);
            return;
        };
        // A thread keeps the tools that it was started with.
        let params = json!({ "threadId": thread, "cwd": directory, "excludeTurns": true });
        self.ask(Asked::Resume, "thread/resume", &params, out);
    }

    fn respond(&mut self, asked: Asked, result: Result<&Value, String>, out: &mut Outbox) {
        match (asked, result) {
            (Asked::Initialize, Ok(initialized)) => {
                // Such as `teamwire/0.169.0 (Debian 12.0.0; x86_64) …`.
                let agent = text(initialized, "userAgent").split_once('/');
                if let Some(version) = agent.and_then(|(_, rest)| rest.split_whitespace().next()) {
                    out.note(Change::Version(programs::version("codex", "Codex", version)));
                }
                out.write(json!({ "method": "initialized" }));
                self.open_thread(self.setup.resume.clone(), out);
            }
            (Asked::Start | Asked::Resume, Ok(opened)) => self.thread_opened(opened, out),
            (Asked::Probe, Ok(opened)) => {
                self.planning.set_usual_sandbox(&opened["sandbox"]);
                if !self.planning.is_first() {
                    self.set_plan_mode(false, out);
                }
            }
            (Asked::Turn(id), Ok(started)) => self.turn_named(id, text(&started["turn"], "id"), out),
            (Asked::Other(_), Ok(_)) => {}
            (Asked::Resume, Err(why)) => {
                out.tell(Event::Warning(format!("Codex could not resume its session, and starts a new one: {why}")));
                out.tell(Event::StartedOver);
                self.usage.begin_thread();
                self.open_thread(None, out);
            }
            (Asked::Turn(id), Err(why)) => self.fail(id, why, out),
            (Asked::Initialize | Asked::Start, Err(why)) => {
                out.tell(Event::Broken(format!("Codex could not start a session: {why}")));
            }
            (Asked::Probe, Err(why)) => self.warn(&format!("Codex did not name its sandbox: {why}"), out),
            (Asked::Other(what), Err(why)) => self.warn(&format!("{what}: {why}"), out),
        }
    }

    fn thread_opened(&mut self, opened: &Value, out: &mut Outbox) {
        let thread = text(&opened["thread"], "id").to_owned();
        if let Some(model) = opened["model"].as_str() {
            out.note(Change::Model(model.to_owned()));
        }
        out.tell(Event::Ready { session_id: Some(thread.clone()) });
        if self.planning.opened(opened) {
            let params = json!({ "cwd": self.directory(), "ephemeral": true });
            self.ask(Asked::Probe, "thread/start", &params, out);
        }
        self.thread = Some(thread);
        if self.planning.is_first() {
            self.set_plan_mode(true, out);
        }
    }

    fn set_plan_mode(&mut self, is_on: bool, out: &mut Outbox) {
        let mut params = self.planning.set(is_on);
        params["threadId"] = json!(self.thread);
        self.ask(Asked::Other("Codex did not change its mode"), "thread/settings/update", &params, out);
    }

    /// Begins a turn, or joins the one that runs.
    fn say(&mut self, asked: Asked, said: &str, client_id: Option<String>, out: &mut Outbox) {
        let params = json!({ "threadId": self.thread, "input": input(said), "clientUserMessageId": client_id });
        self.ask(asked, "turn/start", &params, out);
    }

    /// Adds text to a turn, unless it has ended.
    fn add(&mut self, thread: &str, turn: &str, said: &str, out: &mut Outbox) {
        let params = json!({ "threadId": thread, "expectedTurnId": turn, "input": input(said) });
        self.ask(Asked::Other("Codex did not take the reason of a refusal"), "turn/steer", &params, out);
    }

    /// The program has named the turn of a prompt.
    fn turn_named(&mut self, id: PromptId, turn: &str, out: &mut Outbox) {
        let Some(handed) = self.prompts.get_mut(&id).filter(|handed| !handed.is_taken) else { return };
        handed.turn = Some(turn.to_owned());
        if turn == self.ended_turn {
            self.fail(id, "the turn ended before it took the prompt".to_owned(), out);
        }
    }

    fn fail(&mut self, id: PromptId, why: String, out: &mut Outbox) {
        if self.prompts.remove(&id).is_some() {
            out.tell(Event::Failed(id, why));
            self.carry_out_verdict(out);
        }
    }

    fn notified(&mut self, method: &str, params: &Value, out: &mut Outbox) {
        if method == "serverRequest/resolved" {
            return self.resolved(&params["requestId"], out);
        }
        // Subagents have other threads. Only their requests concern us.
        let is_foreign = !params["threadId"].is_null() && params["threadId"] != json!(self.thread);
        match method {
            "item/started" => self.item_started(&params["item"], is_foreign, out),
            _ if is_foreign => {}
            "item/completed" => self.item_completed(params, out),
            "turn/started" => {
                self.is_turn_running = true;
                text(&params["turn"], "id").clone_into(&mut self.begun_turn);
                if mem::take(&mut self.interrupts_next) {
                    self.interrupt(out);
                }
            }
            "turn/completed" => self.turn_completed(&params["turn"], out),
            "thread/tokenUsage/updated" => {
                out.tell(Event::Usage(self.usage.update(&params["tokenUsage"], text(params, "turnId"))));
            }
            "error" if params["willRetry"] == json!(true) => {
                let why = describe::error(&params["error"]);
                let trouble = format!("The model does not answer. Codex tries again. {why}");
                out.tell(Event::Activity(trouble.clone()));
                out.note(Change::Trouble(trouble));
            }
            "warning" | "guardianWarning" => self.warn(text(params, "message"), out),
            "configWarning" => self.warn(text(params, "summary"), out),
            _ => {}
        }
    }

    fn item_started(&mut self, item: &Value, is_foreign: bool, out: &mut Outbox) {
        if text(item, "type") == "fileChange" {
            self.changes.insert(text(item, "id").to_owned(), item.clone());
        }
        if is_foreign {
            return;
        }
        if TOOLS.contains(&text(item, "type")) {
            self.running_tools.insert(text(item, "id").to_owned());
            self.last_text.clear();
        }
        for path in describe::paths(item) {
            out.note(Change::FileChanged(path.to_owned()));
        }
        out.note(Change::Trouble(String::new()));
        if let Some(line) = describe::begun(item) {
            out.begin_call(text(item, "id"), line);
            let (tool, input) = describe::call(item);
            out.called(text(item, "id"), &tool, input);
        }
    }

    fn item_completed(&mut self, params: &Value, out: &mut Outbox) {
        let (item, turn) = (&params["item"], text(params, "turnId"));
        self.running_tools.remove(text(item, "id"));
        out.end_call(text(item, "id"));
        if let Some((result, failed)) = describe::result(item) {
            out.returned(text(item, "id"), result, failed);
        }
        match text(item, "type") {
            "userMessage" => self.taken(text(item, "clientId"), turn, out),
            "fileChange" => _ = self.changes.remove(text(item, "id")),
            "contextCompaction" => out.tell(Event::Compacted),
            "agentMessage" => text(item, "text").clone_into(&mut self.last_text),
            "plan" => {
                self.planning.proposed(text(item, "text"));
                text(item, "text").clone_into(&mut self.last_text);
            }
            _ => {}
        }
        if let Some(line) = describe::completed(item) {
            out.wrote(&line);
            out.tell(Event::Activity(line));
        }
    }

    fn taken(&mut self, client_id: &str, turn: &str, out: &mut Outbox) {
        self.usage.begin(turn);
        let Some(id) = client_id.strip_prefix(CLIENT_ID).and_then(|id| id.parse().ok()) else { return };
        let Some(handed) = self.prompts.get_mut(&id) else { return };
        *handed = Handed { turn: Some(turn.to_owned()), is_taken: true };
        out.tell(Event::Taken(id));
    }

    fn turn_completed(&mut self, turn: &Value, out: &mut Outbox) {
        self.is_turn_running = false;
        self.running_tools.clear();
        text(turn, "id").clone_into(&mut self.ended_turn);
        out.tell(Event::Usage(self.usage.end_turn()));
        let is_completed = text(turn, "status") == "completed";
        let why = match text(turn, "status") {
            "interrupted" => "the turn was interrupted".to_owned(),
            _ => describe::error(&turn["error"]),
        };
        let (final_text, cut_short) = (mem::take(&mut self.last_text), if is_completed { "" } else { &why });
        out.tell(Event::TurnEnded(TurnEnd { final_text, cut_short: cut_short.to_owned() }));
        let is_over = |handed: &Handed| handed.turn.as_ref() == Some(&self.ended_turn);
        if !is_completed && !self.prompts.values().any(is_over) {
            out.tell(Event::Warning(format!("A turn of Codex failed, and is not repeated: {why}")));
        }
        for (id, handed) in self.prompts.extract_if(.., |_, handed| is_over(handed)) {
            out.tell(match is_completed && handed.is_taken {
                true => Event::Processed(id),
                false => Event::Failed(id, why.clone()),
            });
        }
        self.changes.clear();
        self.planning.turn_ended(&self.ended_turn, out);
        self.carry_out_verdict(out);
    }

    /// Leaves plan mode, or says why the plan was rejected, once no turn runs or begins: a turn keeps its mode.
    fn carry_out_verdict(&mut self, out: &mut Outbox) {
        if self.is_in_turn() {
            return;
        }
        let Some(verdict) = self.planning.take_verdict() else { return };
        let says = match verdict {
            Decision::Allow => {
                self.set_plan_mode(false, out);
                "Your plan is approved. Carry it out.".to_owned()
            }
            Decision::Deny(why) => format!("Your plan was rejected. Change it and propose it again. {why}"),
        };
        self.say(Asked::Other("Codex did not take the answer to its plan"), &says, None, out);
    }

    /// Reports a warning once.
    fn warn(&mut self, warning: &str, out: &mut Outbox) {
        if self.warnings.insert(warning.to_owned()) {
            out.tell(Event::Warning(warning.to_owned()));
        }
    }
}

impl Protocol for Codex {
    fn launch(&self) -> Additions {
        let after = self.arguments.as_ref().map(Arguments::after).unwrap_or_default();
        let program = self.setup.program.as_deref().and_then(native::binary);
        Additions { program, after: after.into_iter().map(Into::into).collect(), ..Additions::default() }
    }

    fn start(&mut self, out: &mut Outbox) {
        if let Err(why) = &self.arguments {
            return out.tell(Event::Broken(why.clone()));
        }
        let params = json!({
            "clientInfo": { "name": "teamwire", "title": "teamwire", "version": env!("CARGO_PKG_VERSION") },
            // For `dynamicTools` and `collaborationMode`.
            "capabilities": { "experimentalApi": true },
        });
        self.ask(Asked::Initialize, "initialize", &params, out);
    }

    fn read(&mut self, line: Value, out: &mut Outbox) {
        match (line["method"].as_str(), &line["id"]) {
            (Some(method), Value::Null) => self.notified(method, &line["params"], out),
            (Some(method), request) => self.requested(method, request, &line["params"], out),
            (None, id) => {
                let Some(asked) = id.as_u64().and_then(|id| self.asked.remove(&id)) else { return };
                let result = match &line["error"] {
                    Value::Null => Ok(&line["result"]),
                    error => Err(describe::error(error)),
                };
                self.respond(asked, result, out);
            }
        }
    }

    fn unreadable(&mut self, gist: &Value, out: &mut Outbox) {
        unreadable_rpc(gist, self, out);
    }

    fn accepts_prompt(&self) -> bool {
        self.thread.is_some() && (!self.is_in_turn() || !self.running_tools.is_empty())
    }

    fn is_in_turn(&self) -> bool {
        self.is_turn_running || !self.prompts.is_empty()
    }

    fn prompt(&mut self, prompt: Prompt, out: &mut Outbox) {
        self.prompts.insert(prompt.id, Handed::default());
        let client_id = format!("{CLIENT_ID}{}", prompt.id);
        self.say(Asked::Turn(prompt.id), &prompt.text, Some(client_id), out);
    }

    fn attach(&self, session_id: &str) -> Option<Additions> {
        // Without a daemon, which would keep the session when the person has left.
        let after = ["resume", session_id, "--disable", "daemon_auto_start"].map(Into::into).to_vec();
        let program = self.setup.program.as_deref().and_then(native::binary);
        Some(Additions { program, after, ..Additions::default() })
    }

    fn interrupt(&mut self, out: &mut Outbox) {
        // Codex names a turn only once it has begun.
        self.interrupts_next = !self.is_turn_running;
        if self.interrupts_next {
            return;
        }
        let params = json!({ "threadId": self.thread, "turnId": self.begun_turn });
        self.ask(Asked::Other("Codex did not end its turn"), "turn/interrupt", &params, out);
    }

    fn decide(&mut self, key: &str, decision: Decision, out: &mut Outbox) {
        let Some(wanted) = self.permission_requests.remove(key) else {
            self.planning.decide(key, decision);
            return self.carry_out_verdict(out);
        };
        self.answer_wish(&wanted, decision, out);
    }

    fn tool_result(&mut self, key: &str, result: ToolResult, out: &mut Outbox) {
        let Some(request) = self.calls.remove(key) else { return };
        let content = json!([{ "type": "inputText", "text": result.text }]);
        answer(&request, &json!({ "contentItems": content, "success": !result.is_error }), out);
    }
}

fn answer(request: &Value, result: &Value, out: &mut Outbox) {
    out.write(json!({ "id": request, "result": result }));
}

fn input(said: &str) -> Value {
    json!([{ "type": "text", "text": said }])
}
