//! Survival counts and time tables of real power cuts, as Cogent Embedded (2013), section 5.2, prints them, with the
//! interval that the paper does not give.

use std::collections::BTreeMap;

use fsage_model::crash::TimeSummary;
use fsage_model::power_cycle::{CutDamage, CycleOutcome, CycleRecord, PowerCycleSpec, StepTimes};
use fsage_model::quantity::{as_f64, share};
use serde::Serialize;

use crate::stats::proportion::clopper_pearson;

/// Confidence of the intervals.
pub const CONFIDENCE: f64 = 0.95;

/// What a record says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PowerCycleResult {
    /// As the file says.
    pub name: String,
    /// What the file says.
    pub spec: PowerCycleSpec,
    /// Each configuration of the file, in the order of names.
    pub configurations: Vec<ConfigurationResult>,
    /// Every configuration has its cycles, or has stopped at damage; none ends undecided.
    pub complete: bool,
    /// The record.
    pub cycles: Vec<CycleRecord>,
}

/// What a configuration survived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfigurationResult {
    /// Its name.
    pub name: String,
    /// Cycles, of all lives.
    pub cycles: u64,
    /// Of these, but not of the idle ones: everything acknowledged was there, with or without a repair.
    pub survived: u64,
    /// Of the survived ones: the check repaired something.
    pub repaired: u64,
    /// Of the cycles, but not of the idle ones: by what found damage.
    pub damage: BTreeMap<CutDamage, u64>,
    /// Of the cycles: a command did not end in time, or did not say.
    pub undecided: u64,
    /// Of the decided cycles: the load had ended before the cut, so that nothing was written then. They are neither
    /// in the survived nor in the damaged ones.
    pub idle: u64,
    /// Of the idle ones: with damage.
    pub idle_damaged: u64,
    /// Of the survived and damaged ones: the load acknowledged nothing.
    pub unacknowledged: u64,
    /// Damage that resumed runs found after cuts that are no cycles.
    pub resumed: u64,
    /// Lines that were acknowledged.
    pub acknowledged: u64,
    /// Its file systems.
    pub lives: Vec<Life>,
    /// Damaged cycles ÷ (survived + damaged ones).
    pub damage_per_cut: f64,
    /// Exact two-sided 95 % interval of that (Clopper and Pearson): lower and upper end.
    pub damage_per_cut_95: [f64; 2],
    /// Survived and damaged cycles ÷ damaged ones: the estimate where each cut does damage as likely as any other. None
    /// without damage.
    pub mean_cuts_to_damage: Option<f64>,
    /// Times of the steps after a cut, without undecided cycles; none of a step that never ended.
    pub times: Vec<TimeSummary>,
}

/// One file system, from `prepare` on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Life {
    /// Which of its configuration, from 1.
    pub life: u64,
    /// Cuts that it survived, without idle ones.
    pub survived: u64,
    /// How it ended; none: it was not damaged so far, or had its cycles.
    pub end: Option<CycleOutcome>,
}

impl ConfigurationResult {
    /// Cycles with damage, without idle ones.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damage.values().sum()
    }

    fn of(name: &str, cycles: &[&CycleRecord]) -> Self {
        let count = |matches: &dyn Fn(&CycleRecord) -> bool| -> u64 {
            let counted = cycles.iter().filter(|cycle| !cycle.resumed && matches(cycle));
            u64::try_from(counted.count()).unwrap_or(u64::MAX)
        };
        let survived = count(&is_survival);
        let found = |kind: CutDamage| {
            count(&|cycle| {
                !cycle.idle
                    && matches!(cycle.outcome, CycleOutcome::Damage { found_by, .. } if found_by == kind)
            })
        };
        let damage: BTreeMap<CutDamage, u64> = CutDamage::ALL
            .map(|kind| (kind, found(kind)))
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        let damaged: u64 = damage.values().sum();
        let resumed = cycles.iter().filter(|cycle| cycle.resumed && is_damage(cycle));
        let interval = clopper_pearson(damaged, survived + damaged, CONFIDENCE);
        Self {
            name: name.to_owned(),
            cycles: count(&|_| true),
            survived,
            repaired: count(&|cycle| cycle.repaired && is_survival(cycle)),
            damage,
            undecided: count(&is_undecided),
            idle: count(&|cycle| cycle.idle && !is_undecided(cycle)),
            idle_damaged: count(&|cycle| cycle.idle && is_damage(cycle)),
            unacknowledged: count(&|cycle| cycle.acknowledged == 0 && !cycle.idle && !is_undecided(cycle)),
            resumed: u64::try_from(resumed.count()).unwrap_or(u64::MAX),
            acknowledged: cycles.iter().map(|cycle| cycle.acknowledged).sum(),
            lives: lives(cycles),
            damage_per_cut: share(damaged, survived + damaged),
            damage_per_cut_95: [interval.low, interval.high],
            mean_cuts_to_damage: (damaged > 0).then(|| as_f64(survived + damaged) / as_f64(damaged)),
            times: times(cycles),
        }
    }
}

impl PowerCycleResult {
    /// Of a record; `complete`: no cycle is left to be done.
    #[must_use]
    pub fn of(spec: &PowerCycleSpec, complete: bool, cycles: Vec<CycleRecord>) -> Self {
        let of = |name: &String| {
            let own: Vec<&CycleRecord> = cycles.iter().filter(|cycle| cycle.configuration == *name).collect();
            ConfigurationResult::of(name, &own)
        };
        let configurations = spec.configuration.keys().map(of).collect();
        let ends_undecided = |name: &String| {
            cycles.iter().rfind(|cycle| cycle.configuration == *name).is_some_and(is_undecided)
        };
        let complete = complete && !spec.configuration.keys().any(ends_undecided);
        Self { name: spec.name.clone(), spec: spec.clone(), configurations, complete, cycles }
    }

    /// Cycles with damage, idle ones too, and damage that resumed runs found.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.configurations.iter().map(|own| own.damaged() + own.idle_damaged + own.resumed).sum()
    }

    /// Cycles that are undecided.
    #[must_use]
    pub fn undecided(&self) -> u64 {
        self.configurations.iter().map(|own| own.undecided).sum()
    }
}

/// A cut while something was written, and everything is there.
fn is_survival(cycle: &CycleRecord) -> bool {
    !cycle.idle && !cycle.resumed && cycle.outcome == CycleOutcome::Survived
}

const fn is_damage(cycle: &CycleRecord) -> bool {
    matches!(cycle.outcome, CycleOutcome::Damage { .. })
}

const fn is_undecided(cycle: &CycleRecord) -> bool {
    matches!(cycle.outcome, CycleOutcome::Undecided { .. })
}

fn lives(cycles: &[&CycleRecord]) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    for cycle in cycles {
        if lives.last().is_none_or(|last| last.life != cycle.life) {
            lives.push(Life { life: cycle.life, survived: 0, end: None });
        }
        let Some(last) = lives.last_mut() else { continue };
        last.survived += u64::from(is_survival(cycle));
        // What goes on after an undecided cycle did not end by it.
        last.end = Some(cycle.outcome.clone()).filter(|outcome| *outcome != CycleOutcome::Survived);
    }
    lives
}

fn times(cycles: &[&CycleRecord]) -> Vec<TimeSummary> {
    let steps = StepTimes::default().all();
    let of = |(place, (step, _)): (usize, (&'static str, Option<u64>))| {
        let decided = cycles.iter().filter(|cycle| !is_undecided(cycle));
        let taken = decided.filter_map(|cycle| cycle.times.all().get(place).and_then(|(_, time)| *time));
        TimeSummary::of(step, taken.collect())
    };
    steps.into_iter().enumerate().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(life: u64, cycle: u64, outcome: CycleOutcome) -> CycleRecord {
        CycleRecord {
            configuration: "a".to_owned(),
            life,
            cycle,
            at: String::new(),
            cut_after_ns: 1,
            outcome,
            repaired: cycle == 2,
            idle: false,
            resumed: false,
            acknowledged: 2,
            acknowledged_bytes: 0,
            boot_id: String::new(),
            times: StepTimes { check_ns: Some(cycle), ..StepTimes::default() },
        }
    }

    fn damage() -> CycleOutcome {
        CycleOutcome::Damage { found_by: CutDamage::Verify, status: 1, reason: String::new() }
    }

    #[test]
    fn cuts_are_counted_and_what_says_nothing_is_in_no_denominator() {
        let undecided = CycleOutcome::Undecided { step: "check".to_owned(), reason: String::new() };
        let mut cycles = [
            cycle(1, 1, CycleOutcome::Survived),
            cycle(1, 2, CycleOutcome::Survived),
            cycle(1, 3, damage()),
            cycle(2, 1, CycleOutcome::Survived),
            cycle(2, 2, undecided.clone()),
            cycle(3, 1, damage()),
        ];
        cycles[5].resumed = true;
        let own = ConfigurationResult::of("a", &cycles.iter().collect::<Vec<_>>());
        assert_eq!((own.cycles, own.survived, own.repaired, own.undecided, own.resumed), (5, 3, 1, 1, 1));
        assert_eq!((own.damaged(), own.damage_per_cut, own.mean_cuts_to_damage), (1, 0.25, Some(4.0)));
        // Clopper and Pearson of 1 in 4: 0.0063 to 0.8059.
        assert!((own.damage_per_cut_95[0] - 0.0063).abs() < 1e-4, "{own:?}");
        assert!((own.damage_per_cut_95[1] - 0.8059).abs() < 1e-4, "{own:?}");
        let survived: Vec<u64> = own.lives.iter().map(|life| life.survived).collect();
        assert_eq!((survived, own.lives[1].end.clone()), (vec![2, 1, 0], Some(undecided)));
        let [check] = &own.times[..] else { panic!("{:?}", own.times) };
        assert_eq!((&*check.step, check.count, check.min_ns, check.max_ns), ("check", 5, 1, 3));
    }

    #[test]
    fn a_cut_of_an_idle_board_is_in_no_denominator_and_one_without_an_acknowledged_line_is_told() {
        let mut cycles = [
            cycle(1, 1, CycleOutcome::Survived),
            cycle(1, 2, CycleOutcome::Survived),
            cycle(1, 3, CycleOutcome::Survived),
            cycle(1, 4, damage()),
        ];
        cycles[1].idle = true;
        cycles[2].acknowledged = 0;
        cycles[3].idle = true;
        let own = ConfigurationResult::of("a", &cycles.iter().collect::<Vec<_>>());
        assert_eq!((own.cycles, own.survived, own.damaged(), own.lives[0].survived), (4, 2, 0, 2));
        assert_eq!((own.idle, own.idle_damaged, own.unacknowledged, own.repaired), (2, 1, 1, 0));
        assert!(own.lives[0].end.is_some());
    }

    #[test]
    fn without_damage_the_interval_is_that_of_none_in_so_many() {
        let cycles: Vec<CycleRecord> =
            (1..=1000).map(|number| cycle(1, number, CycleOutcome::Survived)).collect();
        let own = ConfigurationResult::of("a", &cycles.iter().collect::<Vec<_>>());
        assert_eq!((own.damage_per_cut_95[0], own.mean_cuts_to_damage), (0.0, None));
        assert!((own.damage_per_cut_95[1] - 3.682e-3).abs() < 1e-6, "{own:?}");
    }
}
