//! What hosts that share a volume cost its drive: on the same files, and on disjoint ones.

use std::collections::BTreeSet;

use fsage_model::cluster::FileSet;
use fsage_model::fio::FioPoint;
use fsage_model::metric;
use fsage_model::warning::WarningKind;
use serde::Serialize;

use super::bar::{Bar, Measure};
use super::factor;
use super::text::counted;
use super::view::View;
use crate::stats::evidence::level;
use crate::stats::{Estimate, Evidence};

/// A point of the trials of one cell.
pub struct Shared<'a> {
    /// The file system.
    pub file_system: &'a str,
    /// The other factors in words.
    pub context: String,
    /// What the names of its metrics begin with: the stage, unless that is the first, and the files.
    prefix: &'a str,
    /// Which files the hosts used.
    pub set: FileSet,
    /// What each of them did.
    pub point: FioPoint,
    /// Its trials.
    pub trials: Vec<&'a Evidence>,
}

impl Shared<'_> {
    /// A number of the point over all trials.
    pub fn level(&self, number: &str, confidence: f64) -> Option<Estimate> {
        self.named(&format!("{}{}", self.prefix, metric::of_point(&self.point, number)), confidence)
    }

    /// The drive's time on the same files ÷ on disjoint files, of a point on the same files.
    pub fn over_disjoint(&self, confidence: f64) -> Option<Estimate> {
        self.named(self.ratio()?, confidence)
    }

    /// Name of that number.
    fn ratio(&self) -> Option<&String> {
        let stage = self.prefix.strip_suffix('.')?.strip_suffix(FileSet::Same.name())?;
        let sides = metric::over(FileSet::Same.name(), FileSet::Disjoint.name(), "");
        let is_it = |name: &&String| {
            metric::point_parts(name).is_some_and(|(before, point, number)| {
                before.strip_prefix(stage) == Some(&sides)
                    && number == metric::DRIVE_NS
                    && FioPoint { files: self.point.files, ..point } == self.point
            })
        };
        self.trials.iter().flat_map(|trial| trial.metrics.keys()).find(is_it)
    }

    fn named(&self, name: &str, confidence: f64) -> Option<Estimate> {
        level(&self.trials, name, confidence)
    }

    /// What makes the point, or its ratio to the one on disjoint files, doubtful in any trial.
    pub fn warnings(&self) -> BTreeSet<WarningKind> {
        let own = metric::of_volume(self.set.name(), &self.point.to_string());
        let ratio = self.ratio().map(String::as_str);
        let doubts = self.trials.iter().flat_map(|trial| &trial.doubts);
        let is_of = |measure: &str| own == measure || ratio.is_some_and(|name| names(name, measure));
        let found = doubts.filter(|doubt| doubt.measure.as_deref().is_some_and(is_of));
        found.map(|doubt| doubt.kind.clone()).collect()
    }

    /// Name of the stage, unless that is the first.
    pub fn stage(&self) -> &str {
        let name = self.prefix.strip_suffix('.').and_then(|name| name.strip_suffix(self.set.name()));
        name.map_or("", |name| name.trim_end_matches('.'))
    }

    /// What the hosts did, whatever the number of files that each of them used.
    pub fn load(&self) -> String {
        let name = FioPoint { files: 1, ..self.point.clone() }.to_string();
        name.strip_suffix("-f1").map_or(name.clone(), str::to_owned)
    }

    /// The files in words.
    pub const fn files(&self) -> &'static str {
        match self.set {
            FileSet::Same => "same files",
            FileSet::Disjoint => "disjoint files",
        }
    }
}

/// Whether a metric is a number of what a doubt names, whose stage is not in its name.
fn names(metric: &str, measure: &str) -> bool {
    let whole = metric.rsplit_once('.').map_or("", |(whole, _)| whole);
    whole.strip_suffix(measure).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Every point of the view: those of one load together.
pub fn all(view: &View) -> Vec<Shared<'_>> {
    let without = BTreeSet::from([factor::FILE_SYSTEM]);
    let mut found: Vec<Shared<'_>> = Vec::new();
    for (trial, evidence) in view.trials.iter().zip(&view.evidence) {
        let context = factor::context(&trial.factors, &without);
        for (prefix, set, point) in evidence.metrics.keys().filter_map(|name| parts(name)) {
            let is_same = |one: &&mut Shared<'_>| {
                one.file_system == trial.file_system
                    && one.context == context
                    && (one.prefix, &one.point) == (prefix, &point)
            };
            match found.iter_mut().find(is_same) {
                Some(one) => one.trials.push(evidence),
                None => {
                    let (file_system, context) = (trial.file_system.as_str(), context.clone());
                    found.push(Shared { file_system, context, prefix, set, point, trials: vec![evidence] });
                }
            }
        }
    }
    found.sort_by_cached_key(|one| (one.load(), place(view, one), one.context.clone(), one.set));
    found
}

fn place(view: &View, one: &Shared<'_>) -> usize {
    view.file_systems.iter().position(|name| name == one.file_system).unwrap_or(0)
}

/// What the metrics of a point begin with, its files and the point, of the name of the drive's time.
fn parts(name: &str) -> Option<(&str, FileSet, FioPoint)> {
    let (prefix, point, number) = metric::point_parts(name)?;
    let last = prefix.strip_suffix('.')?.rsplit('.').next()?;
    let set = FileSet::ALL.into_iter().find(|set| set.name() == last)?;
    (number == metric::DRIVE_NS).then_some((prefix, set, point))
}

/// In the order of the choice.
pub const MEASURES: [Measure; 5] = [
    Measure { metric: metric::DRIVE_NS, words: "time of the drive per operation", unit: "µs", scale: 1e3 },
    Measure { metric: metric::PACKETS, words: "packets per operation", unit: "", scale: 1.0 },
    Measure { metric: metric::FLUSHES, words: "flushes per operation", unit: "", scale: 1.0 },
    Measure {
        metric: metric::BYTES_OVER_ASKED,
        words: "bytes at the devices ÷ bytes asked for",
        unit: "",
        scale: 1.0,
    },
    Measure { metric: metric::IN_FLIGHT, words: "requests in flight at the drive", unit: "", scale: 1.0 },
];

/// What the chart gets.
#[derive(Debug, Serialize)]
pub struct Mark {
    /// Which load.
    pub load: String,
    /// What is drawn.
    #[serde(flatten)]
    pub bar: Bar,
}

/// Bars of every point.
pub fn marks(view: &View) -> Vec<Mark> {
    let mut marks = Vec::new();
    for one in all(view) {
        let parts = [one.file_system, one.stage(), &one.context, one.files()];
        let label = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        for measure in MEASURES {
            let Some(estimate) = one.level(measure.metric, view.confidence) else { continue };
            let bar = Bar::new(place(view, &one), label.clone(), &measure, &estimate);
            marks.push(Mark { load: one.load(), bar });
        }
    }
    marks
}

/// Stage, other factors and trials in words.
pub fn trials(one: &Shared<'_>) -> String {
    let repeats = counted(one.trials.len(), "trial");
    let parts = [one.stage(), &one.context, &repeats];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_clusters_are_known_by_their_files() {
        let (prefix, set, point) = parts("same.randread-4k-libaio-d1-j1-f16.drive_ns").unwrap();
        assert_eq!((prefix, set, point.files), ("same.", FileSet::Same, 16));
        let (prefix, set, _) = parts("second.disjoint.randread-4k-libaio-d1-j1-f8.drive_ns").unwrap();
        assert_eq!((prefix, set), ("second.disjoint.", FileSet::Disjoint));
        for other in [
            "same_over_disjoint.randread-4k-libaio-d1-j1-f8.drive_ns",
            "same.randread-4k-libaio-d1-j1-f16.packets",
            "randread-4k-libaio-d1-j1-f16.drive_ns",
            "full.grep",
        ] {
            assert!(parts(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_doubt_is_of_the_ratio_that_it_names() {
        let ratio = "same_over_disjoint.randread-4k-libaio-d1-j1-f8.drive_ns";
        assert!(names(ratio, "same_over_disjoint.randread-4k-libaio-d1-j1-f8"));
        assert!(names(&format!("second.{ratio}"), "same_over_disjoint.randread-4k-libaio-d1-j1-f8"));
        assert!(!names(ratio, "disjoint.randread-4k-libaio-d1-j1-f8") && !names(ratio, "same"));
    }

    #[test]
    fn a_load_is_the_same_whatever_files_a_host_has() {
        let of = |name: &str| {
            let (prefix, set, point) = parts(name).unwrap();
            let (file_system, context, trials) = ("ocfs2", String::new(), Vec::new());
            Shared { file_system, context, prefix, set, point, trials }.load()
        };
        let same = of("same.randread-4k-libaio-d1-j1-f16.drive_ns");
        assert_eq!(same, of("disjoint.randread-4k-libaio-d1-j1-f8.drive_ns"));
        assert_eq!(same, "randread-4k-libaio-d1-j1");
    }
}
