//! Metrics of a `power-cuts` stage: shares of states, and what a state took.

use fsage_model::crash::{CrashReport, DamageKind, UpdateOutcome};
use fsage_model::metric;
use fsage_model::quantity::{as_f64, share};

use super::{BETTER, List, WORSE};

/// How states were judged, what was damaged, how files ended that were being replaced, and times.
///
/// Shares are of the states that were tried; without any there are no metrics.
pub(super) fn push(list: &mut List<'_>, report: &CrashReport) {
    let tried = report.tried;
    if tried == 0 {
        return;
    }
    list.one(metric::CUTS_STATES, "count", as_f64(tried), None);
    for (name, states, worse) in [
        (metric::CUTS_KEPT_SHARE, report.ok, BETTER),
        (metric::CUTS_DOCUMENTED_SHARE, report.documented, WORSE),
        (metric::CUTS_BROKEN_SHARE, report.broken, WORSE),
        (metric::CUTS_UNEXPLAINED_SHARE, report.unexplained(), WORSE),
    ] {
        list.one(name, "share", share(states, tried), worse);
    }
    for kind in DamageKind::ALL {
        let states = report.damage.iter().find(|(known, _)| *known == kind).map_or(0, |(_, states)| *states);
        // Of the states that were not checked nobody knows what the check would have said.
        let of = if kind == DamageKind::Check { report.checked } else { tried };
        if of > 0 {
            list.one(&metric::damage_share(kind), "share", share(states.min(of), of), WORSE);
        }
    }
    for way in &report.updates {
        let all = way.outcomes.iter().map(|(_, files)| files).sum();
        for outcome in UpdateOutcome::ALL {
            let files =
                way.outcomes.iter().find(|(known, _)| *known == outcome).map_or(0, |(_, files)| *files);
            list.one(&metric::update_share(way.way, outcome), "share", share(files, all), None);
        }
    }
    for time in &report.times {
        for (statistic, time_ns) in
            [("min", time.min_ns), ("median", time.median_ns), ("mean", time.mean_ns), ("max", time.max_ns)]
        {
            list.one(&metric::step_time(&time.step, statistic), "ns", as_f64(time_ns), None);
        }
    }
    if report.elapsed_ns > 0 {
        let seconds = as_f64(report.elapsed_ns) / 1e9;
        list.one(metric::CUTS_STATES_PER_S, "1/s", as_f64(tried) / seconds, None);
    }
}

#[cfg(test)]
mod tests {
    use fsage_model::crash::{
        Attempt, CrashClass, CrashCoverage, CrashLoad, CrashLoadSpec, CrashSpec, Damage, DriveBehaviour,
        KnownFinding, TimeSummary, UpdateWay,
    };
    use fsage_model::record::{PowerCutsRecord, StageRecord};

    use super::*;
    use crate::run::metric::all;

    fn report() -> CrashReport {
        CrashReport {
            file_system: "btrfs".to_owned(),
            options: Vec::new(),
            medium: "ram".to_owned(),
            load: Some(CrashLoadSpec { load: CrashLoad::Update, size: 4, seed: 1 }),
            program: None,
            operations: 3,
            spec: CrashSpec {
                drive: DriveBehaviour::Honest,
                atomic_bytes: 4096,
                cache_bytes: 1,
                states: 4,
                seed: 1,
            },
            coverage: CrashCoverage::default(),
            tried: 0,
            ok: 0,
            documented: 0,
            broken: 0,
            known: 0,
            findings: Vec::new(),
            checked: 0,
            damage: Vec::new(),
            updates: Vec::new(),
            times: vec![TimeSummary::of("mount", vec![10, 20, 60]).unwrap()],
            failing: None,
            problems: Vec::new(),
            oops: false,
            interrupted: false,
            elapsed_ns: 2_000_000_000,
        }
    }

    #[test]
    fn shares_are_of_the_states_that_say_something() {
        let damage = |kind| Damage { kind, path: String::new(), what: String::new() };
        let mut report = report();
        report.add(&Attempt {
            updates: vec![(UpdateWay::WriteRename, UpdateOutcome::Empty)],
            ..Attempt::default()
        });
        report.add(&Attempt {
            class: CrashClass::Broken,
            known: vec![KnownFinding::BtrfsRenamedFileHasBothNames],
            damage: vec![damage(DamageKind::Name), damage(DamageKind::Name)],
            ..Attempt::default()
        });
        report.add(&Attempt {
            class: CrashClass::Broken,
            damage: vec![damage(DamageKind::Content)],
            ..Attempt::default()
        });
        report.add(&Attempt {
            class: CrashClass::Documented,
            damage: vec![damage(DamageKind::Check)],
            checked: true,
            updates: vec![(UpdateWay::WriteRename, UpdateOutcome::New)],
            ..Attempt::default()
        });
        let cuts = StageRecord::PowerCuts(Box::new(PowerCutsRecord { name: "power".to_owned(), report }));
        let metrics = all(&[cuts]);
        let value = |name: &str| {
            let found: Vec<_> = metrics.iter().filter(|metric| metric.name == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0].samples[0]
        };
        assert_eq!(value("power.states"), 4.0);
        assert_eq!((value("power.kept_share"), value("power.documented_share")), (0.25, 0.25));
        assert_eq!((value("power.broken_share"), value("power.unexplained_share")), (0.5, 0.25));
        assert_eq!((value("power.damage.name_share"), value("power.damage.mount_share")), (0.25, 0.0));
        assert_eq!(value("power.damage.check_share"), 1.0, "of the one state that was checked");
        assert_eq!(value("power.write-rename.empty_share"), 0.5);
        assert_eq!((value("power.mount.median_ns"), value("power.mount.mean_ns")), (20.0, 30.0));
        assert_eq!(value("power.states_per_s"), 2.0);
    }

    #[test]
    fn without_states_nothing_is_said() {
        let cuts = PowerCutsRecord { name: "power".to_owned(), report: report() };
        assert_eq!(all(&[StageRecord::PowerCuts(Box::new(cuts))]), []);
    }
}
