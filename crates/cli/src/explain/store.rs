//! `fsage explain STORE`: what the trials of a store kept of where their files lay.

use std::collections::BTreeMap;
use std::path::Path;

use fsage_model::explanation::Explanation;
use fsage_model::problem::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, Problem};
use fsage_model::record::{TrialRecord, TrialStatus};
use serde::Serialize;
use serde_json::Value;

use super::{ExplainArgs, save, show};
use crate::terminal::Terminal;
use fsage_analysis::report::explain::{Titled, noted, pages};
use fsage_analysis::report::text::counted;
use fsage_lab::run::label;
use fsage_lab::store::Store;

/// Ids that a hint lists.
const LISTED: usize = 6;

/// A volume of a trial.
#[derive(Debug, Serialize)]
struct Explained {
    /// The trial's id.
    trial: String,
    /// Dotted path → value, of the matrix' factors.
    factors: BTreeMap<String, Value>,
    /// 0-based repeat.
    repeat: u32,
    /// The stage that looked.
    stage: String,
    /// What the volume is called in a `lockstep` stage; else empty.
    volume: String,
    /// In words.
    #[serde(skip)]
    name: String,
    /// Time to read the fresh copy that the trial made, where it made one.
    copy_ns: Option<u64>,
    /// What was found.
    explanation: Explanation,
}

impl Explained {
    fn titled(&self) -> Titled<'_> {
        Titled { name: self.name.clone(), explanation: &self.explanation, copy_ns: self.copy_ns }
    }
}

/// What `fsage explain STORE --json` prints.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    /// The store.
    store: &'a Path,
    /// Trials in the order of the plan, volumes in that of the stage.
    volumes: &'a [Explained],
}

/// Whether a folder is a study's store: it has a plan and trials.
pub(super) fn is_store(folder: &Path) -> bool {
    folder.join("plan.json").is_file() && folder.join("trials").is_dir()
}

/// Tells what the chosen trials kept.
pub(super) fn run(args: &ExplainArgs, terminal: &Terminal) -> Result<u8, Problem> {
    if let Some(medium) = &args.medium {
        let message =
            format!("a store has no times for `{medium}`: its trials recorded those of their own media");
        return Err(Problem::new(EXIT_USAGE, message).hint("leave `--medium` out"));
    }
    let store = Store::open(&args.path)?;
    let trials = chosen(args, &store)?;
    let worst = usize::try_from(args.worst).unwrap_or(usize::MAX);
    let found: Vec<Explained> =
        trials.iter().flat_map(|trial| explained(trial, &store, worst, terminal)).collect();
    if found.is_empty() {
        let message =
            format!("no selected trial of {} recorded the layout of its files", args.path.display());
        return Err(Problem::new(EXIT_FAILED, message).hint(
            "older versions of fsage did not record it: run the study into a new `--store`; only `age`, `copy` and `lockstep` stages do",
        ));
    }
    if let Some(path) = &args.output {
        let title = format!("Why the trials of {} are slow to read", store.plan().study.name);
        let parts: Vec<Titled<'_>> = found.iter().map(Explained::titled).collect();
        save(path, &pages(&title, &parts))?;
    }
    if terminal.json {
        terminal.json(&Shown { store: &args.path, volumes: &found })?;
    } else {
        let text: Vec<String> = found
            .iter()
            .map(|found| show(&found.explanation, &found.name, found.copy_ns, terminal))
            .collect();
        terminal.result(&text.join("\n"))?;
    }
    Ok(EXIT_OK)
}

/// Complete trials, or those of them whose ids begin as the command line says.
fn chosen(args: &ExplainArgs, store: &Store) -> Result<Vec<TrialRecord>, Problem> {
    let mut trials = store.trials();
    trials.retain(|trial| trial.status == TrialStatus::Complete);
    let root = args.path.display();
    if trials.is_empty() {
        return Err(Problem::new(EXIT_FAILED, format!("no trial of {root} is complete"))
            .hint("run its study again: it resumes"));
    }
    for prefix in &args.trial {
        if !trials.iter().any(|trial| trial.id.starts_with(prefix.as_str())) {
            let ids: Vec<&str> = trials.iter().take(LISTED).map(|trial| trial.id.as_str()).collect();
            let more = if trials.len() > LISTED { ", …" } else { "" };
            return Err(Problem::new(
                EXIT_USAGE,
                format!("no complete trial of {root} begins with `{prefix}`"),
            )
            .hint(format!("it has {}: {}{more}", counted(trials.len(), "trial"), ids.join(", "))));
        }
    }
    let wanted = |id: &str| args.trial.iter().any(|prefix| id.starts_with(prefix.as_str()));
    trials.retain(|trial| args.trial.is_empty() || wanted(&trial.id));
    Ok(trials)
}

/// What one trial kept; that there is nothing, or nothing to be read, is reported.
fn explained(trial: &TrialRecord, store: &Store, worst: usize, terminal: &Terminal) -> Vec<Explained> {
    let record = match store.places(&trial.id) {
        Ok(Some(record)) => record,
        Ok(None) => {
            terminal.note(&format!("note: trial {} did not record the layout of its files", trial.id));
            return Vec::new();
        }
        Err(reason) => {
            terminal.warn(&format!("cannot read the file layout of trial {}: {reason}", trial.id));
            return Vec::new();
        }
    };
    let planned = store.plan().trials.iter().find(|planned| planned.id == trial.id);
    let words = planned.map(|planned| label(planned, store.plan().study.repeats)).unwrap_or_default();
    let several = record.volumes.iter().any(|other| other.stage != record.volumes[0].stage);
    noted(record.volumes)
        .into_iter()
        .map(|(kept, copy_ns)| {
            let stage = if several { kept.stage.as_str() } else { "" };
            let parts = [trial.id.as_str(), &words, stage, &kept.volume];
            let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
            let explanation = kept.explanation.only(worst);
            explanation.notes.iter().for_each(|note| terminal.note(&format!("note: {name}: {note}")));
            Explained {
                trial: trial.id.clone(),
                factors: trial.factors.clone(),
                repeat: trial.repeat,
                stage: kept.stage,
                volume: kept.volume,
                name,
                copy_ns,
                explanation,
            }
        })
        .collect()
}
