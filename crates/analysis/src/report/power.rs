//! What survived power cuts: the states of every configuration on every drive, the trials of all seeds
//! together.

use std::collections::BTreeMap;

use fsage_model::crash::{
    CrashClass, CrashReport, DamageKind, DatabaseModes, DriveBehaviour, Failing, KnownFinding, UpdateOutcome,
    UpdateWay,
};
use fsage_model::quantity::{as_f64, share};
use fsage_model::size::Bytes;

use super::text::{grouped, percent};
use super::view::View;
use crate::stats::Interval;
use crate::stats::proportion::clopper_pearson;

/// Unit that a drive writes wholly or not at all unless a study says otherwise.
const ATOMIC: u64 = 4096;

/// The crash states of one configuration, drive and load.
#[derive(Debug, Clone)]
pub struct Survival {
    /// The file system with the options that a study gives it: `ext4 (data=writeback)`.
    pub configuration: String,
    /// Index in the view's file systems.
    pub file_system: usize,
    /// The drive in words: `honest`, `honest, atomic unit 16 KiB`.
    pub drive: String,
    /// Whether it keeps what the interface promises.
    pub is_honest: bool,
    /// The load in words.
    pub load: String,
    /// How SQLite was set, where it was the load.
    pub database: Option<DatabaseModes>,
    pub trials: usize,
    pub seeds: usize,
    pub tried: u64,
    pub kept: u64,
    /// Of the kept ones, those that were checked and written to.
    pub kept_inspected: u64,
    pub documented: u64,
    pub broken: u64,
    /// Of the broken ones, those that known findings explain.
    pub known: u64,
    pub checked: u64,
    /// States in which an array started by force only, and those of them with damage.
    pub forced: (u64, u64),
    pub findings: BTreeMap<KnownFinding, u64>,
    pub damage: BTreeMap<DamageKind, u64>,
    pub updates: BTreeMap<UpdateWay, BTreeMap<UpdateOutcome, u64>>,
    /// The worst state, of all trials the one with the fewest requests missing.
    pub failing: Option<Failing>,
    pub times: Vec<Times>,
    /// States of all trials per second of trying them.
    pub states_per_s: f64,
    elapsed_ns: u64,
}

/// What a step took, over all trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    pub step: String,
    pub count: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub mean_ns: f64,
    /// The median of the trials' medians.
    pub median_ns: u64,
    medians_ns: Vec<u64>,
}

impl Survival {
    /// States with damage, promised not to happen or not.
    pub const fn damaged(&self) -> u64 {
        self.documented + self.broken
    }

    /// Broken states that nothing known explains.
    pub const fn unexplained(&self) -> u64 {
        self.broken.saturating_sub(self.known)
    }

    /// Share of states with damage, with its exact interval.
    pub fn damaged_share(&self, confidence: f64) -> (f64, Interval) {
        (share(self.damaged(), self.tried), clopper_pearson(self.damaged(), self.tried, confidence))
    }

    /// The worst kind of damage.
    pub fn worst(&self) -> Option<DamageKind> {
        self.damage.keys().min().copied()
    }

    fn new(report: &CrashReport, file_system: usize) -> Self {
        Self {
            configuration: configuration(report),
            file_system,
            drive: drive(report),
            is_honest: report.spec.drive.keeps_promises(),
            load: report.load_words(),
            database: report.database,
            trials: 0,
            seeds: 0,
            tried: 0,
            kept: 0,
            kept_inspected: 0,
            documented: 0,
            broken: 0,
            known: 0,
            checked: 0,
            forced: (0, 0),
            findings: BTreeMap::new(),
            damage: BTreeMap::new(),
            updates: BTreeMap::new(),
            failing: None,
            times: Vec::new(),
            states_per_s: 0.0,
            elapsed_ns: 0,
        }
    }

    fn add(&mut self, report: &CrashReport) {
        self.trials += 1;
        self.tried += report.tried;
        self.kept += report.ok;
        self.kept_inspected += report.kept_inspected;
        self.documented += report.documented;
        self.broken += report.broken;
        self.known += report.known;
        self.checked += report.checked;
        self.forced.0 += report.forced_starts;
        self.forced.1 += report.forced_damaged;
        for (finding, states) in &report.findings {
            *self.findings.entry(*finding).or_default() += states;
        }
        for (kind, states) in &report.damage {
            *self.damage.entry(*kind).or_default() += states;
        }
        for way in &report.updates {
            let all = self.updates.entry(way.way).or_default();
            for (outcome, files) in &way.outcomes {
                *all.entry(*outcome).or_default() += files;
            }
        }
        if let Some(failing) = &report.failing
            && self.failing.as_ref().is_none_or(|known| rank(failing) > rank(known))
        {
            self.failing = Some(failing.clone());
        }
        report.times.iter().for_each(|time| self.add_time(time));
        self.elapsed_ns += report.elapsed_ns;
        self.states_per_s = share(self.tried, self.elapsed_ns) * 1e9;
    }

    fn add_time(&mut self, time: &fsage_model::crash::TimeSummary) {
        let Some(known) = self.times.iter_mut().find(|known| known.step == time.step) else {
            self.times.push(Times {
                step: time.step.clone(),
                count: time.count,
                min_ns: time.min_ns,
                max_ns: time.max_ns,
                mean_ns: as_f64(time.mean_ns),
                median_ns: time.median_ns,
                medians_ns: vec![time.median_ns],
            });
            return;
        };
        let sum = known.mean_ns * as_f64(known.count) + as_f64(time.mean_ns) * as_f64(time.count);
        known.count += time.count;
        known.mean_ns = sum / as_f64(known.count.max(1));
        known.min_ns = known.min_ns.min(time.min_ns);
        known.max_ns = known.max_ns.max(time.max_ns);
        known.medians_ns.push(time.median_ns);
        known.medians_ns.sort_unstable();
        known.median_ns = known.medians_ns.get(known.medians_ns.len() / 2).copied().unwrap_or_default();
    }
}

/// How many of the states that were kept were checked and written to, in words.
pub fn inspected(kept: u64, inspected: u64) -> String {
    match inspected {
        0 => "none of these checked and written to".to_owned(),
        inspected if inspected == kept => "all of these checked and written to".to_owned(),
        inspected => format!("{} of these checked and written to", grouped(inspected)),
    }
}

/// A probability in percent with two digits that say something, however small it is: `0.037 %`.
pub fn chance(share: f64) -> String {
    let value = 100.0 * share;
    let digits = match value {
        _ if value == 0.0 || value >= 1.0 => return percent(share),
        _ if value >= 0.1 => 2,
        _ if value >= 0.01 => 3,
        _ => 4,
    };
    format!("{value:.digits$}\u{202f}%")
}

/// The worse one, then one that no known finding explains, then the one with less missing.
fn rank(failing: &Failing) -> (CrashClass, bool, std::cmp::Reverse<usize>) {
    (failing.class, failing.known.is_empty(), std::cmp::Reverse(failing.state.lost.len()))
}

/// The file system and the options that decide what it promises, and the settings of a database, which do so too.
fn configuration(report: &CrashReport) -> String {
    let mut words = report.file_system.clone();
    if !report.options.is_empty() {
        words.push_str(&format!(" ({})", report.options.join(", ")));
    }
    if !report.stack.is_empty() {
        words.push_str(&format!(" on {}", report.stack.join(" + ")));
    }
    if let Some(failed) = report.failed_drive {
        words.push_str(&format!(" without drive {failed}"));
    }
    if let Some(modes) = report.database {
        words.push_str(&format!(", SQLite {modes}"));
    }
    words
}

fn drive(report: &CrashReport) -> String {
    let mut words = report.spec.drive.name().to_owned();
    if report.spec.atomic_bytes != ATOMIC {
        words.push_str(&format!(", atomic unit {}", Bytes(report.spec.atomic_bytes)));
    }
    if report.spec.drive == DriveBehaviour::Lying
        && report.spec.cache_bytes != fsage_model::crash::CACHE_BYTES
    {
        words.push_str(&format!(", cache {}", Bytes(report.spec.cache_bytes)));
    }
    words
}

/// Every configuration, drive and load of the view, in the order of its trials.
pub fn all(view: &View) -> Vec<Survival> {
    let mut all: Vec<Survival> = Vec::new();
    let mut seeds: Vec<std::collections::BTreeSet<u64>> = Vec::new();
    for trial in &view.trials {
        let Some(report) = &trial.power_cuts else { continue };
        let file_system = view.file_systems.iter().position(|name| *name == trial.file_system).unwrap_or(0);
        let new = Survival::new(report, file_system);
        let same = |known: &Survival| {
            (&known.configuration, &known.drive, &known.load) == (&new.configuration, &new.drive, &new.load)
        };
        let at = all.iter().position(same).unwrap_or_else(|| {
            all.push(new.clone());
            seeds.push(std::collections::BTreeSet::new());
            all.len() - 1
        });
        all[at].add(report);
        seeds[at].insert(report.spec.seed);
        all[at].seeds = seeds[at].len();
    }
    all.sort_by_key(|one| (one.file_system, one.configuration.clone(), !one.is_honest, one.drive.clone()));
    all
}

/// How many states of a configuration on a drive were kept, over all loads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sum {
    pub tried: u64,
    pub kept: u64,
    pub kept_inspected: u64,
    pub documented: u64,
    pub broken: u64,
    pub known: u64,
    pub worst: Option<DamageKind>,
    /// The fewest seeds that a load had.
    pub seeds: usize,
}

/// What became of the states of each configuration on each drive.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    pub drives: Vec<String>,
    pub rows: Vec<MatrixRow>,
}

/// A configuration, with a cell per drive: none where nobody tried it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MatrixRow {
    pub configuration: String,
    pub cells: Vec<Option<Sum>>,
}

/// Configurations and drives in the order of `all`.
pub fn matrix(all: &[Survival]) -> Matrix {
    let mut drives: Vec<String> = Vec::new();
    let mut rows: Vec<MatrixRow> = Vec::new();
    for one in all {
        if !drives.contains(&one.drive) {
            drives.push(one.drive.clone());
        }
        if !rows.iter().any(|row| row.configuration == one.configuration) {
            rows.push(MatrixRow { configuration: one.configuration.clone(), cells: Vec::new() });
        }
    }
    for MatrixRow { configuration, cells } in &mut rows {
        for drive in &drives {
            let own = all.iter().filter(|one| one.configuration == *configuration && one.drive == *drive);
            cells.push(own.fold(None, |sum: Option<Sum>, one| {
                let sum = sum.unwrap_or_else(|| Sum { seeds: usize::MAX, ..Sum::default() });
                Some(Sum {
                    tried: sum.tried + one.tried,
                    kept: sum.kept + one.kept,
                    kept_inspected: sum.kept_inspected + one.kept_inspected,
                    documented: sum.documented + one.documented,
                    broken: sum.broken + one.broken,
                    known: sum.known + one.known,
                    worst: sum.worst.into_iter().chain(one.worst()).min(),
                    seeds: sum.seeds.min(one.seeds),
                })
            }));
        }
    }
    Matrix { drives, rows }
}

/// What a program may rely on that replaces files in one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Reliance {
    pub way: UpdateWay,
    pub configuration: String,
    pub drive: String,
    /// Files that were being replaced when power was lost.
    pub files: u64,
    pub outcomes: BTreeMap<UpdateOutcome, u64>,
}

impl Reliance {
    /// In words: the worst that was seen.
    pub fn words(&self) -> &'static str {
        let seen = |outcome| self.outcomes.get(&outcome).is_some_and(|files| *files > 0);
        if self.files == 0 {
            "not seen"
        } else if seen(UpdateOutcome::Foreign) {
            "may expose bytes of others"
        } else if seen(UpdateOutcome::Empty) || seen(UpdateOutcome::Missing) {
            "may lose old and new"
        } else if seen(UpdateOutcome::Mixed) {
            "may mix old and new"
        } else {
            "atomic: old or new"
        }
    }
}

/// Every way of replacing a file on every configuration and drive.
pub fn reliance(all: &[Survival]) -> Vec<Reliance> {
    let mut found: Vec<Reliance> = Vec::new();
    for one in all {
        for (way, outcomes) in &one.updates {
            let same = |known: &Reliance| {
                (known.way, &known.configuration, &known.drive) == (*way, &one.configuration, &one.drive)
            };
            let at = found.iter().position(same).unwrap_or_else(|| {
                let (configuration, drive) = (one.configuration.clone(), one.drive.clone());
                found.push(Reliance { way: *way, configuration, drive, files: 0, outcomes: BTreeMap::new() });
                found.len() - 1
            });
            for (outcome, files) in outcomes {
                found[at].files += files;
                *found[at].outcomes.entry(*outcome).or_default() += files;
            }
        }
    }
    found
}

/// Made-up reports for the tests of what shows them.
#[cfg(test)]
pub mod sample {
    use fsage_model::crash::{
        Attempt, CrashCoverage, CrashLoad, CrashLoadSpec, CrashSpec, Damage, TimeSummary,
    };

    use super::*;

    /// So many states, of which some broke a promise; of these some by a known finding.
    pub fn report(
        file_system: &str,
        drive: DriveBehaviour,
        [tried, documented, broken, known]: [u64; 4],
    ) -> CrashReport {
        let spec = CrashSpec { drive, atomic_bytes: ATOMIC, cache_bytes: 4 << 20, states: tried, seed: 1 };
        let mut report = CrashReport {
            file_system: file_system.to_owned(),
            medium: "ram".to_owned(),
            load: Some(CrashLoadSpec { load: CrashLoad::Update, size: 4, seed: 1, threads: 1 }),
            operations: 70,
            times: TimeSummary::of("mount", vec![1_000_000, 2_000_000, 6_000_000]).into_iter().collect(),
            elapsed_ns: 1_000_000_000,
            ..CrashReport::untried(spec, CrashCoverage::default())
        };
        for number in 0..tried {
            let class = match number {
                _ if number < documented => CrashClass::Documented,
                _ if number < documented + broken => CrashClass::Broken,
                _ => CrashClass::Ok,
            };
            let is_known = class == CrashClass::Broken && number < documented + known;
            let kind = if class == CrashClass::Documented { DamageKind::Check } else { DamageKind::Name };
            let damage = Damage { kind, path: "b".to_owned(), what: "is gone".to_owned(), pattern: None };
            report.add(
                &Attempt {
                    class,
                    // One in four.
                    checked: number % 4 == 0,
                    used: number % 4 == 0,
                    known: if is_known { vec![KnownFinding::BtrfsReplacedFileReturns] } else { Vec::new() },
                    damage: if class == CrashClass::Ok { Vec::new() } else { vec![damage] },
                    ..Attempt::default()
                },
                true,
            );
        }
        report
    }

    /// The states of one configuration on an honest drive.
    pub fn survival(file_system: &str, counts: [u64; 4]) -> Survival {
        let report = report(file_system, DriveBehaviour::Honest, counts);
        let mut survival = Survival::new(&report, 0);
        survival.add(&report);
        survival
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::WayOutcomes;

    use super::*;

    fn survivals(reports: &[CrashReport]) -> Vec<Survival> {
        let mut all: Vec<Survival> = Vec::new();
        for report in reports {
            let new = Survival::new(report, 0);
            match all.iter_mut().find(|one| one.configuration == new.configuration && one.drive == new.drive)
            {
                Some(known) => known.add(report),
                None => {
                    let mut new = new;
                    new.add(report);
                    all.push(new);
                }
            }
        }
        all
    }

    #[test]
    fn states_of_all_seeds_come_together_and_their_interval_is_exact() {
        let one = sample::report("ext4", DriveBehaviour::Honest, [300, 0, 0, 0]);
        let all = survivals(&[one.clone(), one]);
        let [ext4] = &all[..] else { panic!("{all:?}") };
        assert_eq!((ext4.tried, ext4.kept, ext4.damaged(), ext4.trials), (600, 600, 0, 2));
        let (damaged, interval) = ext4.damaged_share(0.95);
        assert_eq!((damaged, interval.low), (0.0, 0.0));
        assert!((interval.high - fsage_model::crash::at_most(600)).abs() < 1e-9);
        assert_eq!((ext4.worst(), ext4.failing.is_none()), (None, true));
        assert!((ext4.states_per_s - 300.0).abs() < 1e-9);
        let mount = &ext4.times[0];
        assert_eq!(
            (mount.count, mount.min_ns, mount.median_ns, mount.max_ns),
            (6, 1_000_000, 2_000_000, 6_000_000)
        );
        assert!((mount.mean_ns - 3e6).abs() < 1e-6);
    }

    #[test]
    fn the_settings_of_a_database_are_a_configuration_of_their_own() {
        let mut report = sample::report("ext4", DriveBehaviour::Honest, [10, 0, 0, 0]);
        report.options = vec!["data=journal".to_owned()];
        report.database = Some(DatabaseModes::default());
        assert_eq!(configuration(&report), "ext4 (data=journal), SQLite delete, synchronous full");
        report.database = None;
        assert_eq!(configuration(&report), "ext4 (data=journal)");
    }

    #[test]
    fn small_chances_keep_their_digits() {
        let words = [0.0, 1.0, 0.345_6, 0.006_129, 0.000_369, 0.000_012].map(chance);
        let wanted =
            ["0", "100", "34.6", "0.61", "0.037", "0.0012"].map(|number| format!("{number}\u{202f}%"));
        assert_eq!(words, wanted);
    }

    #[test]
    fn the_matrix_has_a_cell_for_each_drive_and_says_what_is_known() {
        let mut writeback = sample::report("ext4", DriveBehaviour::Honest, [10, 2, 0, 0]);
        writeback.options = vec!["data=writeback".to_owned()];
        let all = survivals(&[
            sample::report("btrfs", DriveBehaviour::Honest, [100, 0, 5, 4]),
            sample::report("btrfs", DriveBehaviour::Lying, [100, 40, 0, 0]),
            writeback,
        ]);
        let Matrix { drives, rows } = matrix(&all);
        assert_eq!(drives, ["honest", "lying"]);
        let [btrfs, ext4] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!(
            (btrfs.configuration.as_str(), ext4.configuration.as_str()),
            ("btrfs", "ext4 (data=writeback)")
        );
        let honest = btrfs.cells[0].clone().unwrap();
        assert_eq!((honest.tried, honest.kept, honest.broken, honest.known), (100, 95, 5, 4));
        assert_eq!(honest.kept_inspected, 23, "one in four of those that were kept");
        assert_eq!(btrfs.cells[1].clone().unwrap().worst, Some(DamageKind::Check));
        assert!(ext4.cells[0].is_some() && ext4.cells[1].is_none(), "nobody tried it on a lying drive");
        assert_eq!(all[0].unexplained(), 1);
    }

    #[test]
    fn what_may_be_relied_on_is_the_worst_that_was_seen() {
        let mut report = sample::report("xfs", DriveBehaviour::Honest, [10, 0, 0, 0]);
        let way = |way, outcomes: &[(UpdateOutcome, u64)]| WayOutcomes { way, outcomes: outcomes.to_vec() };
        report.updates = vec![
            way(UpdateWay::InPlace, &[(UpdateOutcome::Old, 3), (UpdateOutcome::Mixed, 1)]),
            way(UpdateWay::TruncateWrite, &[(UpdateOutcome::Empty, 1), (UpdateOutcome::Mixed, 1)]),
            way(UpdateWay::WriteRename, &[(UpdateOutcome::New, 2), (UpdateOutcome::Foreign, 1)]),
            way(UpdateWay::WriteFsyncRename, &[(UpdateOutcome::Old, 4), (UpdateOutcome::New, 4)]),
        ];
        let found = reliance(&survivals(&[report.clone(), report]));
        let words: Vec<(&str, u64)> = found.iter().map(|one| (one.words(), one.files)).collect();
        let wanted = [
            ("may mix old and new", 8),
            ("may lose old and new", 4),
            ("may expose bytes of others", 6),
            ("atomic: old or new", 16),
        ];
        assert_eq!(words, wanted);
    }
}
