//! Points that an interrupted trial has complete: the next attempt at it takes them and runs the others.
//!
//! A point is complete when its JSON has its name in the trial's folder and its figures are in the list beside it,
//! which is written after it; both appear whole or not at all. The list counts only for the very same stage, seed,
//! kernel and programs, and each JSON is read again.

use fsage_model::fio::FioResult;
use fsage_model::record::STORE_VERSION;
use fsage_model::study::{FioStage, StageSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::run::error::TrialError;
use crate::run::stage::StageContext;
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
    pub(in crate::run) fn find(stage: &FioStage, fio: &str, context: &StageContext<'_>) -> Self {
        let file = format!("{}-points.json", stage.name);
        let stages: Vec<&StageSpec> = context.spec.stages().collect();
        let basis = json!({
            "stages": identity::basis(context.spec, &stages),
            "seed": context.planned.seed,
            "kernel": context.facts.kernel,
            "programs": [identity::program(), fio],
        });
        let found =
            context.folder.fio_file(&file).and_then(|text| serde_json::from_slice::<List>(&text).ok());
        let results = found
            .filter(|list| list.version == STORE_VERSION && list.basis == basis)
            .map(|list| list.results)
            .unwrap_or_default();
        let whole = |result: &FioResult| {
            let text = result.file.strip_prefix("fio/").and_then(|name| context.folder.fio_file(name));
            text.and_then(|text| String::from_utf8(text).ok()).is_some_and(|text| plus::parse(&text).is_ok())
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

    /// The stage is over: its record has all of them.
    pub(in crate::run) fn end(self, context: &mut StageContext<'_>) -> Vec<FioResult> {
        context.folder.forget_fio(&self.file);
        self.list.results
    }
}
