//! Records what happens in the transcript.

use std::sync::Arc;

use teamwire_proto::v1::{self, TranscriptKind};

use super::Incarnation;
use crate::{
    config::{Mode, RunnerConfig},
    event::RunnerEvent,
    transcript::{Entry, Transcript, directory, prune},
};

/// Opens the transcript of a member that has joined. `None` if none is kept.
pub(super) fn open(config: &RunnerConfig, joined: &v1::JoinResponse) -> Option<Arc<Transcript>> {
    let root = config.agent.transcripts.as_ref().filter(|_| matches!(config.mode, Mode::Agent(_)))?;
    let (team, member) = (joined.team.as_ref()?, joined.member.as_ref()?);
    prune(root);
    Some(Arc::new(Transcript::open(directory(root, &team.id, &member.name)?)))
}

impl Incarnation<'_> {
    /// Adds an entry to the transcript.
    pub(crate) fn record(&self, entry: Entry) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.observe(&entry);
        }
        let Some(transcript) = &self.transcript else { return };
        let incarnation = self.joined.member.as_ref().map_or(0, |member| member.incarnation);
        let turn = if entry.kind == TranscriptKind::TurnEnded { self.turns } else { self.turns + 1 };
        transcript.add(Entry { incarnation, turn, ..entry });
    }

    /// Adds what the runner did to the transcript, if a reader needs it to understand the rest.
    pub(super) fn record_event(&self, event: &RunnerEvent) {
        use RunnerEvent::{
            AgentWarning, Ending, Exited, HandedOver, Interrupted, Paused, PermissionAsked, PermissionRefused,
            ProgramVersion, PromptFailed, Resumed, Started, TakenBack,
        };
        let is_kept = matches!(
            event,
            AgentWarning { .. }
                | Ending { .. }
                | Exited { .. }
                | HandedOver { .. }
                | Interrupted
                | Paused { .. }
                | Resumed
                | PermissionAsked { .. }
                | PermissionRefused { .. }
                | PromptFailed { .. }
                | ProgramVersion { .. }
                | Started { .. }
                | TakenBack { .. }
        );
        if is_kept {
            self.record(Entry { kind: TranscriptKind::Runner, text: event.to_string(), ..Entry::default() });
        }
    }
}
