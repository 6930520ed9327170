//! Uses Codex's plan mode for members that need an approved plan.
//!
//! In plan mode, Codex only asks its model not to change anything. So this also makes its sandbox read-only. A plan is
//! an item of a turn, and Codex does not wait for an answer to it: the answer is the next turn, in the mode that it
//! chooses.

use serde_json::{Value, json};

use super::{
    super::protocol::{Decision, Event, Outbox},
    text,
};

/// What Codex plans.
pub(super) struct Planning {
    /// Whether the session begins in plan mode.
    plan_first: bool,
    /// Whether the sandbox is off because the runner permits everything, and not because the user turned it off.
    is_unconfined: bool,
    model: Value,
    effort: Value,
    /// The sandbox outside of plan mode. Null: unknown.
    usual_sandbox: Value,
    /// The plan that the running turn has proposed.
    proposal: Option<String>,
    /// The key of the plan that awaits an answer.
    pending: Option<String>,
    /// The answer, until it is carried out.
    verdict: Option<Decision>,
}

impl Planning {
    pub(super) fn new(plan_first: bool, is_unconfined: bool) -> Self {
        Self {
            plan_first,
            is_unconfined,
            model: Value::Null,
            effort: Value::Null,
            usual_sandbox: Value::Null,
            proposal: None,
            pending: None,
            verdict: None,
        }
    }

    /// Handles what the program says about its thread. Returns whether it must be asked for its usual sandbox: a thread
    /// that is resumed in plan mode has kept the one of that mode.
    pub(super) fn opened(&mut self, opened: &Value) -> bool {
        self.model = opened["model"].clone();
        self.effort = opened["reasoningEffort"].clone();
        let was_planning = text(&opened["collaborationMode"], "mode") == "plan";
        if !was_planning {
            self.set_usual_sandbox(&opened["sandbox"]);
        }
        was_planning
    }

    pub(super) fn set_usual_sandbox(&mut self, sandbox: &Value) {
        self.usual_sandbox = sandbox.clone();
    }

    /// Returns whether the session begins in plan mode.
    pub(super) fn is_first(&self) -> bool {
        self.plan_first
    }

    /// Returns the settings of a mode.
    pub(super) fn set(&mut self, is_on: bool) -> Value {
        let mode = if is_on { "plan" } else { "default" };
        let settings = json!({ "model": self.model, "reasoning_effort": self.effort, "developer_instructions": null });
        let has_chosen_none =
            !self.is_unconfined && matches!(text(&self.usual_sandbox, "type"), "dangerFullAccess" | "externalSandbox");
        let sandbox =
            if is_on && !has_chosen_none { json!({ "type": "readOnly" }) } else { self.usual_sandbox.clone() };
        json!({ "collaborationMode": { "mode": mode, "settings": settings }, "sandboxPolicy": sandbox })
    }

    /// The running turn has proposed a plan.
    pub(super) fn proposed(&mut self, plan: &str) {
        self.proposal = Some(plan.to_owned());
    }

    /// A turn has ended. Submits the plan that it has proposed, in place of an earlier one.
    pub(super) fn turn_ended(&mut self, turn: &str, out: &mut Outbox) {
        let Some(plan) = self.proposal.take() else { return };
        if let Some(key) = self.pending.take() {
            out.tell(Event::WishWithdrawn { key });
        }
        let key = format!("plan-{turn}");
        self.pending = Some(key.clone());
        out.tell(Event::PlanReady { key, plan });
    }

    /// Handles the answer to a plan.
    pub(super) fn decide(&mut self, key: &str, decision: Decision) {
        if self.pending.as_deref() == Some(key) {
            self.pending = None;
            self.verdict = Some(decision);
        }
    }

    /// Returns the answer to the plan that was not carried out yet.
    pub(super) fn take_verdict(&mut self) -> Option<Decision> {
        self.verdict.take()
    }
}
