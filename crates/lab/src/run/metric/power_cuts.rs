//! Metrics of a `power-cuts` stage: shares of states, and what a state took.

use fsage_model::crash::{CrashReport, DamageKind, KnownFinding, UpdateOutcome};
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
    for (name, states) in [
        (metric::CUTS_STATES, tried),
        (metric::CUTS_KEPT_STATES, report.ok),
        (metric::CUTS_KEPT_INSPECTED_STATES, report.kept_inspected),
        (metric::CUTS_DAMAGED_STATES, report.damaged()),
        (metric::CUTS_DOCUMENTED_STATES, report.documented),
        (metric::CUTS_BROKEN_STATES, report.broken),
        (metric::CUTS_UNEXPLAINED_STATES, report.unexplained()),
        (metric::CUTS_DAMAGED_INSPECTED_STATES, report.damaged_inspected),
        (metric::CUTS_SILENT_STATES, report.silent),
    ] {
        list.one(name, "count", as_f64(states), None);
    }
    for finding in KnownFinding::ALL.into_iter().filter(|known| known.file_system() == report.file_system) {
        let states =
            report.findings.iter().find(|(known, _)| *known == finding).map_or(0, |(_, states)| *states);
        list.one(&metric::known_states(finding), "count", as_f64(states), None);
    }
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
        list.one(&metric::update_files(way.way), "count", as_f64(all), None);
        for outcome in UpdateOutcome::ALL {
            let files =
                way.outcomes.iter().find(|(known, _)| *known == outcome).map_or(0, |(_, files)| *files);
            list.one(&metric::update_share(way.way, outcome), "share", share(files, all), None);
            list.one(&metric::update_ended(way.way, outcome), "count", as_f64(files), None);
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
        TimeSummary, UpdateWay,
    };
    use fsage_model::record::{PowerCutsRecord, StageRecord};

    use super::*;
    use crate::run::metric::all;

    fn report() -> CrashReport {
        let drive = DriveBehaviour::Honest;
        let spec = CrashSpec { drive, atomic_bytes: 4096, cache_bytes: 1, states: 4, seed: 1 };
        CrashReport {
            file_system: "btrfs".to_owned(),
            medium: "ram".to_owned(),
            load: Some(CrashLoadSpec { load: CrashLoad::Update, size: 4, seed: 1, threads: 1 }),
            operations: 3,
            times: vec![TimeSummary::of("mount", vec![10, 20, 60]).unwrap()],
            elapsed_ns: 2_000_000_000,
            ..CrashReport::untried(spec, CrashCoverage::default())
        }
    }

    #[test]
    fn shares_are_of_the_states_that_say_something() {
        let damage = |kind| Damage { kind, path: String::new(), what: String::new(), pattern: None };
        let mut report = report();
        report.add(
            &Attempt {
                updates: vec![(UpdateWay::WriteRename, UpdateOutcome::Empty)],
                checked: true,
                used: true,
                ..Attempt::default()
            },
            true,
        );
        report.add(
            &Attempt {
                class: CrashClass::Broken,
                known: vec![KnownFinding::BtrfsRenamedFileHasBothNames],
                damage: vec![damage(DamageKind::Name), damage(DamageKind::Name)],
                ..Attempt::default()
            },
            false,
        );
        report.add(
            &Attempt {
                class: CrashClass::Broken,
                damage: vec![damage(DamageKind::Content)],
                ..Attempt::default()
            },
            true,
        );
        report.add(
            &Attempt {
                class: CrashClass::Documented,
                damage: vec![damage(DamageKind::Check)],
                checked: true,
                updates: vec![(UpdateWay::WriteRename, UpdateOutcome::New)],
                ..Attempt::default()
            },
            true,
        );
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
        assert_eq!(value("power.damage.check_share"), 0.5, "of the two states that were checked");
        assert_eq!(value("power.write-rename.empty_share"), 0.5);
        let counts =
            ["states", "kept_states", "kept_inspected_states", "damaged_states", "documented_states"];
        assert_eq!(counts.map(|name| value(&format!("power.{name}"))), [4.0, 1.0, 1.0, 3.0, 1.0]);
        assert_eq!((value("power.broken_states"), value("power.unexplained_states")), (2.0, 1.0));
        let known = ["btrfs-renamed-file-has-both-names", "btrfs-replaced-file-returns"];
        assert_eq!(known.map(|name| value(&format!("power.known.{name}_states"))), [1.0, 0.0]);
        assert!(
            metrics.iter().all(|metric| !metric.name.contains("xfs")),
            "findings of others are not counted"
        );
        assert_eq!((value("power.write-rename.files"), value("power.write-rename.empty_files")), (2.0, 1.0));
        assert_eq!((value("power.mount.median_ns"), value("power.mount.mean_ns")), (20.0, 30.0));
        assert_eq!(value("power.states_per_s"), 2.0);
    }

    #[test]
    fn without_states_nothing_is_said() {
        let cuts = PowerCutsRecord { name: "power".to_owned(), report: report() };
        assert_eq!(all(&[StageRecord::PowerCuts(Box::new(cuts))]), []);
    }
}
