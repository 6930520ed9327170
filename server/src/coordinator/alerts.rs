//! Alerts: claiming those that are due in a team, and recording how they ended.

use teamwire_proto::Refusal;

use super::{Coordinator, keys::team_key};
use crate::{
    domain::{
        alerts::{self, AlertRule, AlertRules, ClaimedAlert, DueAlerts},
        records::{AlertsRecord, RecordType},
    },
    store::{Key, Namespace},
};

fn alerts_key() -> Key {
    Key::new(AlertsRecord::KIND, "")
}

impl Coordinator {
    /// Notifies people as these rules say.
    pub fn with_alerts(self, alerts: AlertRules) -> Self {
        Self { alerts, ..self }
    }

    /// Returns the rule with this id.
    pub fn alert_rule(&self, id: &str) -> Option<&AlertRule> {
        self.alerts.rules.iter().find(|rule| rule.id == id)
    }

    /// Makes the alerts that are due in a team, and claims those that the caller must send.
    pub async fn claim_alerts(&self, namespace: &Namespace) -> Result<DueAlerts, Refusal> {
        if self.alerts.rules.is_empty() {
            return Ok(DueAlerts::default());
        }
        let keys = [team_key(), alerts_key()];
        Ok(self.decide(namespace, &keys, |tx| alerts::carry_out_due(tx, &self.alerts)).await?.value)
    }

    /// Records how an attempt to send an alert ended: `error` says how it failed.
    pub async fn settle_alert(
        &self,
        namespace: &Namespace,
        alert: &ClaimedAlert,
        error: Option<&str>,
    ) -> Result<(), Refusal> {
        self.decide(namespace, &[alerts_key()], |tx| alerts::settle(tx, alert, error)).await.map(drop)
    }
}
