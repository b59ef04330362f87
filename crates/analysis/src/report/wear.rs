//! Daily use by file system and options: what is written to the device, what is worn, and how long flash lasts.

use std::collections::BTreeSet;

use fsage_model::metric;

use super::bar::{Bar, Measure};
use super::factor;
use super::view::View;
use crate::stats::evidence::level;
use crate::stats::{Estimate, Evidence};

/// The trials of one cell, and what daily use did there.
pub struct Used<'a> {
    /// The file system.
    pub file_system: &'a str,
    /// The other factors in words.
    pub context: String,
    /// What the names of the stage's metrics begin with.
    pub prefix: &'a str,
    /// Its trials.
    pub trials: Vec<&'a Evidence>,
}

impl Used<'_> {
    /// A metric of the stage over all trials.
    pub fn level(&self, name: &str, confidence: f64) -> Option<Estimate> {
        level(&self.trials, &format!("{}{name}", self.prefix), confidence)
    }
}

/// Daily use of every cell that has any, stage by stage.
pub fn all(view: &View) -> Vec<Used<'_>> {
    let without = BTreeSet::from([factor::FILE_SYSTEM]);
    let mut found: Vec<Used<'_>> = Vec::new();
    for (trial, evidence) in view.trials.iter().zip(&view.evidence) {
        let context = factor::context(&trial.factors, &without);
        for prefix in evidence.metrics.keys().filter_map(|name| name.strip_suffix(metric::WRITTEN_PER_DAY)) {
            let same = |one: &&mut Used<'_>| {
                one.file_system == trial.file_system && one.context == context && one.prefix == prefix
            };
            match found.iter_mut().find(same) {
                Some(one) => one.trials.push(evidence),
                None => {
                    let (file_system, context) = (&trial.file_system, context.clone());
                    found.push(Used { file_system, context, prefix, trials: vec![evidence] });
                }
            }
        }
    }
    found
}

/// In the order of the choice.
pub const MEASURES: [Measure; 5] = [
    Measure { metric: metric::WEAR_CYCLES, words: "cycles per year", unit: "", scale: 1.0 },
    Measure { metric: metric::LIFETIME_YEARS, words: "lifetime", unit: "years", scale: 1.0 },
    Measure { metric: metric::WRITTEN_PER_DAY, words: "written per day", unit: "MB", scale: 1e6 },
    Measure {
        metric: metric::DRIVE_AMPLIFICATION,
        words: "write amplification of the drive",
        unit: "",
        scale: 1.0,
    },
    Measure { metric: metric::OPERATION_NS, words: "mean time per operation", unit: "ms", scale: 1e6 },
];

/// All bars of a view.
pub fn bars(view: &View) -> Vec<Bar> {
    let found = all(view);
    let stages: BTreeSet<&str> = found.iter().map(|one| one.prefix).collect();
    let mut bars = Vec::new();
    for one in &found {
        // The stage is named where there are several.
        let stage = if stages.len() > 1 { one.prefix.trim_end_matches('.') } else { "" };
        let parts = [one.file_system, stage, &one.context];
        let label = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        let file_system = view.file_systems.iter().position(|name| name == one.file_system).unwrap_or(0);
        for measure in MEASURES {
            let estimate = one.level(measure.metric, view.confidence);
            bars.extend(estimate.map(|found| Bar::new(file_system, label.clone(), &measure, &found)));
        }
    }
    bars
}
