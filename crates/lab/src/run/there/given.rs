//! What this side knows of a trial that another host does.

use fsage_engine::host::facts;
use fsage_model::protocol::HostFacts;
use fsage_model::record::{STORE_VERSION, TrialRecord, TrialStatus};
use fsage_model::study::TargetSpec;

use super::message::TrialRequest;
use crate::plan::PlannedTrial;
use crate::study::identity;
use crate::time;

/// What this side knows of a trial: the other one is not asked for it.
pub(super) struct Given {
    study: String,
    pub(super) planned: PlannedTrial,
    spec: serde_json::Value,
    /// When it began here, where the clock there says nothing of it.
    started: Option<String>,
    /// This host's identity, for guests, which have none of their own.
    host: Option<String>,
}

impl Given {
    pub(super) fn of(asked: &TrialRequest) -> Self {
        let spec = serde_json::to_value(&asked.spec).unwrap_or_default();
        let started = asked.spec.target.is_virtual().then(time::now_rfc3339);
        let host = matches!(asked.spec.target, TargetSpec::Guest(_)).then(facts::own_identity);
        Self { study: asked.study.clone(), planned: asked.planned.clone(), spec, started, host }
    }

    pub(super) fn restored(&self, record: TrialRecord, complete: bool) -> TrialRecord {
        let PlannedTrial { id, repeat, seed, factors, .. } = self.planned.clone();
        TrialRecord {
            version: STORE_VERSION,
            program: identity::program(),
            id,
            study: self.study.clone(),
            factors,
            repeat,
            seed,
            spec: self.spec.clone(),
            started: self.started.clone().unwrap_or(record.started),
            host: HostFacts {
                identity: self.host.clone().unwrap_or(record.host.identity.clone()),
                ..record.host
            },
            status: if complete { TrialStatus::Complete } else { TrialStatus::Failed },
            ..record
        }
    }
}
