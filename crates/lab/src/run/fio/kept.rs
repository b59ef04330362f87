//! Points that an interrupted trial has complete: the next attempt at it takes them and runs the others.
//!
//! A point is complete when its JSON has its name in the trial's folder and its figures are in the list beside it,
//! which is written after it; both appear whole or not at all. The list counts only for the very same stage, seed,
//! kernel and programs, and each JSON is read again.

use std::path::Path;

use fsage_model::fio::{FioLatency, FioResult};
use fsage_model::protocol::BlockFacts;
use fsage_model::record::STORE_VERSION;
use fsage_model::study::{FioStage, StageSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::run::error::TrialError;
use crate::run::stage::StageContext;
use crate::store::TrialFolder;
use crate::study::identity;
use crate::tools::fio::plus;

/// The list of a stage's complete points.
#[derive(Debug, Serialize, Deserialize)]
struct List {
    version: u32,
    basis: Value,
    results: Vec<FioResult>,
}

/// The complete points of a stage.
pub(in crate::run) struct Kept {
    file: String,
    list: List,
}

impl Kept {
    /// Those that an earlier attempt at this trial left.
    pub(in crate::run) fn find(
        stage: &FioStage,
        fio: &str,
        device: &BlockFacts,
        context: &StageContext<'_>,
    ) -> Self {
        let file = TrialFolder::fio_points(&stage.name);
        let stages: Vec<&StageSpec> = context.spec.stages().collect();
        let mkfs = context.file_system.mkfs(Path::new("")).program().to_owned();
        let mkfs = context.facts.tools.get(&mkfs).cloned().unwrap_or(mkfs);
        let basis = json!({
            "stages": identity::basis(context.spec, &stages),
            "seed": context.planned.seed,
            "kernel": context.facts.kernel,
            "programs": [identity::program(), fio, mkfs],
            "host": [context.facts.machine, context.facts.cpu_model, context.facts.cpus],
            "device": [device.model, device.serial, device.part_uuid, device.size_bytes],
        });
        let found =
            context.folder.fio_file(&file).and_then(|text| serde_json::from_slice::<List>(&text).ok());
        let results = found
            .filter(|list| list.version == STORE_VERSION && list.basis == basis)
            .map(|list| list.results)
            .unwrap_or_default();
        let whole = |result: &FioResult| {
            let text = result.file.strip_prefix("fio/").and_then(|name| context.folder.fio_file(name));
            let figures =
                text.and_then(|text| String::from_utf8(text).ok()).and_then(|text| plus::parse(&text).ok());
            // A later attempt on another kernel may have replaced the JSON before it was ended.
            let did = |one: &FioLatency| (one.operations, one.bytes);
            figures.is_some_and(|figures| {
                did(&figures.read) == did(&result.read) && did(&figures.write) == did(&result.write)
            })
        };
        let results =
            results.into_iter().filter(whole).map(|result| FioResult { kept: true, ..result }).collect();
        Self { file, list: List { version: STORE_VERSION, basis, results } }
    }

    /// What is complete so far.
    pub(in crate::run) fn results(&self) -> &[FioResult] {
        &self.list.results
    }

    /// Adds a point whose JSON is there.
    pub(in crate::run) fn keep(
        &mut self,
        result: FioResult,
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        self.list.results.push(result);
        let text = serde_json::to_vec(&self.list).unwrap_or_default();
        context.folder.keep_fio(&self.file, &text)?;
        Ok(())
    }

    /// The stage is over. Its list stays until the trial is complete: a later stage may be interrupted.
    pub(in crate::run) fn end(self) -> Vec<FioResult> {
        self.list.results
    }
}
