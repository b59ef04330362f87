//! Whether the logical trees agree: trials that differ in the file system alone, and in nothing that the
//! operations depend on, must leave the same tree.

use std::collections::BTreeMap;

use fsage_model::record::{TrialRecord, TrialStatus};

use super::DigestGroup;

/// Paths of a cell that the operations do not depend on.
const INDIFFERENT: [&str; 4] = ["file_system.", "volume.", "driver.", "target."];

/// Groups of at least two complete trials whose digests must agree. A trial with a caveat is left out.
#[must_use]
pub fn groups(trials: &[TrialRecord]) -> Vec<DigestGroup> {
    let mut groups: BTreeMap<(String, String), BTreeMap<String, String>> = BTreeMap::new();
    for trial in trials.iter().filter(|t| t.status == TrialStatus::Complete) {
        let (same, varied): (Vec<_>, Vec<_>) = trial
            .factors
            .iter()
            .map(|(path, value)| (path, format!("{path} = {value}")))
            .partition(|(path, _)| !INDIFFERENT.iter().any(|p| path.starts_with(p)));
        let words =
            |list: Vec<(&String, String)>| list.into_iter().map(|(_, w)| w).collect::<Vec<_>>().join(", ");
        let mut cell = words(same);
        if trial.repeat > 0 || !cell.is_empty() {
            let separator = if cell.is_empty() { "" } else { ", " };
            cell = format!("{cell}{separator}repeat {}", trial.repeat + 1);
        }
        let member = file_system(trial, words(varied));
        for stage in &trial.stages {
            let Some(result) = stage.load() else { continue };
            let name = stage.name();
            if result.digest_caveats.is_empty() {
                groups
                    .entry((cell.clone(), name.to_owned()))
                    .or_default()
                    .insert(member.clone(), result.digest.clone());
            }
        }
    }
    groups
        .into_iter()
        .filter(|(_, digests)| digests.len() > 1)
        .map(|((cell, stage), digests)| {
            let first = digests.values().next().cloned();
            let agree = digests.values().all(|d| Some(d) == first.as_ref());
            DigestGroup { cell, stage, digests, agree }
        })
        .collect()
}

/// `ext4`, or the varied factors where the kind alone does not tell trials apart.
fn file_system(trial: &TrialRecord, varied: String) -> String {
    match trial.factors.get("file_system.kind").and_then(serde_json::Value::as_str) {
        Some(kind) if varied == format!("file_system.kind = \"{kind}\"") => kind.to_owned(),
        _ if varied.is_empty() => "the only one".to_owned(),
        _ => varied,
    }
}
