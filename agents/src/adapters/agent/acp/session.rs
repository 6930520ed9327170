//! From the start of the program to its session.

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        EnvVariable, InitializeResponse, LoadSessionRequest, McpServer, McpServerStdio, NewSessionRequest,
        ResumeSessionRequest, SessionId, SetSessionModeRequest,
    },
};
use serde_json::Value;

use super::{
    super::protocol::{Change, Event, Outbox},
    Acp, Asked,
    program::SERVER,
};
use crate::programs;

impl Acp {
    /// Handles the program's capabilities, and asks it for a session.
    pub(super) fn initialized(&mut self, answer: Value, out: &mut Outbox) {
        let initialized = match serde_json::from_value::<InitializeResponse>(answer) {
            Ok(initialized) if initialized.protocol_version == ProtocolVersion::V1 => initialized,
            Ok(initialized) => {
                let version = initialized.protocol_version;
                out.tell(Event::Broken(format!("The program speaks version {version} of ACP, and not version 1.")));
                return;
            }
            Err(error) => {
                out.tell(Event::Broken(format!("The program does not speak ACP: {error}.")));
                return;
            }
        };
        if let Some(program) = &initialized.agent_info {
            let name = program.title.as_deref().unwrap_or(&program.name);
            out.note(Change::Version(programs::version(&self.command, name, &program.version)));
        }
        let can = initialized.agent_capabilities;
        let (directory, servers) = (self.setup.directory.clone(), self.mcp_servers());
        match self.setup.resume.clone() {
            Some(id) if can.session_capabilities.resume.is_some() => {
                let request = ResumeSessionRequest::new(id, directory).mcp_servers(servers);
                self.ask(Asked::Resume, "session/resume", request, out);
            }
            Some(id) if can.load_session => {
                self.is_replaying = true;
                let request = LoadSessionRequest::new(id, directory).mcp_servers(servers);
                self.ask(Asked::Resume, "session/load", request, out);
            }
            Some(_) => self.start_over("it does not offer that", out),
            None => self.new_session(out),
        }
    }

    /// Starts a new session, because the program cannot resume the old one.
    pub(super) fn start_over(&mut self, why: &str, out: &mut Outbox) {
        let why = why.trim_end_matches('.');
        out.tell(Event::Warning(format!(
            "The program cannot resume its session: {why}. It starts a new one and remembers nothing."
        )));
        out.tell(Event::StartedOver);
        (self.is_replaying, self.cost_before) = (false, Some(0.0));
        self.new_session(out);
    }

    fn new_session(&mut self, out: &mut Outbox) {
        let request = NewSessionRequest::new(self.setup.directory.clone()).mcp_servers(self.mcp_servers());
        self.ask(Asked::NewSession, "session/new", request, out);
    }

    fn mcp_servers(&self) -> Vec<McpServer> {
        let server = self.setup.mcp.as_ref().map(|mcp| {
            let variables = mcp.environment.iter().map(|(name, value)| EnvVariable::new(name, value));
            let server = McpServerStdio::new(SERVER, &mcp.program);
            McpServer::Stdio(server.args(mcp.arguments.clone()).env(variables.collect::<Vec<_>>()))
        });
        server.into_iter().collect()
    }

    /// Handles the session. A member that needs an approved plan starts in the plan mode.
    pub(super) fn opened(&mut self, session: Option<SessionId>, out: &mut Outbox) {
        let Some(session) = session else {
            out.tell(Event::Broken("The program has not told the id of its session.".to_owned()));
            return;
        };
        self.session = Some(session.clone());
        match self.program.plan_mode().filter(|_| self.setup.plan_first) {
            Some(mode) => {
                let request = SetSessionModeRequest::new(session, mode);
                self.ask(Asked::PlanMode, "session/set_mode", request, out);
            }
            None => self.ready(out),
        }
    }

    /// Reports that the program takes prompts.
    pub(super) fn ready(&mut self, out: &mut Outbox) {
        self.is_ready = true;
        out.tell(Event::Ready { session_id: self.session.as_ref().map(|session| session.0.to_string()) });
    }
}
