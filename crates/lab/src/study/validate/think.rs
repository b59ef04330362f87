//! CPU time on a disk's clock (`cpu = "serial"`): where it cannot be, and what cannot be measured with it.
//! Pauses on that clock (`pace`): where the file system would not write what it writes in them.

use fsage_model::disk::DiskTime;
use fsage_model::filesystem::{self, MetadataBy};
use fsage_model::measure::MeasureSpec;
use fsage_model::study::{StageSpec, StudySpec, VolumeSpec};

use super::volumes;
use crate::study::schema::Problem;

/// Problems of a cell.
pub(super) fn check(spec: &StudySpec) -> Vec<Problem> {
    let volumes = volumes::of(spec);
    let serial = |volume: &VolumeSpec| matches!(volume, VolumeSpec::Disk(disk) if disk.is_serial());
    let Some(first) = volumes.iter().find(|placed| serial(&placed.volume)) else { return Vec::new() };
    let mut problems = pauses(spec);
    let mut refuse = |path: Vec<String>, message: &str, hint: &str| {
        problems.push(Problem { hint: Some(hint.to_owned()), ..Problem::new(&path, message) });
    };
    for placed in &volumes {
        let mut path = placed.path.clone();
        path.push("cpu".to_owned());
        match &placed.volume {
            VolumeSpec::Disk(disk) if disk.is_serial() && disk.time == DiskTime::Real => refuse(
                path,
                "`cpu = \"serial\"` counts CPU time in model time alone: by wall-clock time it passes anyway",
                "leave `cpu` out, or give `time = \"model\"`",
            ),
            VolumeSpec::Disk(disk) if disk.time == DiskTime::Model && !disk.is_serial() => refuse(
                path,
                &format!(
                    "CPU time is counted on `{}` and not on this volume, so their times cannot be compared",
                    first.path.join(".")
                ),
                "give all volumes of a trial the same `cpu`",
            ),
            _ => {}
        }
    }
    if spec.deterministic {
        refuse(
            vec!["deterministic".to_owned()],
            "CPU time is measured and differs from run to run: with `cpu = \"serial\"` times are not reproducible",
            "leave `deterministic` or `cpu` out",
        );
    }
    for (index, stage) in spec.stage.iter().enumerate() {
        let measures = match stage {
            StageSpec::Measure(stage) => &stage.measures,
            StageSpec::Lockstep(stage) => &stage.measures,
            StageSpec::Age(_)
            | StageSpec::Copy(_)
            | StageSpec::Image(_)
            | StageSpec::Remedy(_)
            | StageSpec::Fio(_)
            | StageSpec::PowerCuts(_)
            | StageSpec::Precondition(_)
            | StageSpec::Cluster(_) => continue,
        };
        for (number, _) in measures.iter().enumerate().filter(|(_, one)| matches!(one, MeasureSpec::Fio(_))) {
            let path = ["stage", &index.to_string(), "measures", &number.to_string()].map(str::to_owned);
            refuse(
                path.to_vec(),
                "fio is a program of its own, whose CPU time is not counted: its times would be the only ones without it",
                "leave `fio` or `cpu` out",
            );
        }
    }
    problems
}

/// Pauses that a file system would pass in its own time.
fn pauses(spec: &StudySpec) -> Vec<Problem> {
    let row = filesystem::by_name(&spec.file_system.kind);
    if row.is_none_or(|row| row.metadata != MetadataBy::Worker) {
        return Vec::new();
    }
    let paced = |(_, stage): &(usize, &StageSpec)| matches!(stage, StageSpec::Age(age) if age.pace.is_some());
    let refuse = |(index, _): (usize, &StageSpec)| {
        let kind = &spec.file_system.kind;
        let message = format!(
            "{kind} writes its metadata in a worker that follows wall-clock time: in model time it would write too little"
        );
        let hint = Some(
            "give the volume `time = \"real\"`, where a day takes a day, or another file system".to_owned(),
        );
        Problem { hint, ..Problem::new(&["stage".to_owned(), index.to_string(), "pace".to_owned()], message) }
    };
    spec.stage.iter().enumerate().filter(paced).map(refuse).collect()
}

#[cfg(test)]
mod tests {
    use crate::study::{Consent, Overrides, parse};

    const STUDY: &str = r#"name = "serial"
title = "t"
question = "q"
[volume]
medium = "hdd-7200"
size = "1GiB"
cpu = "serial"
[file_system]
kind = "ext4"
[[stage]]
kind = "age"
stop.operations = 10
workload = { kind = "drift", slots = 50, file_size = { kind = "fixed", size = "8KiB" } }
[[stage]]
kind = "copy"
volume = { medium = "hdd-7200", size = "1GiB", cpu = "serial" }
[[stage]]
kind = "measure"
measures = [{ kind = "grep" }]
"#;

    fn said(text: &str) -> Result<crate::study::Study, String> {
        let read = parse("serial.toml".as_ref(), text.to_owned(), &Overrides::default(), Consent::Given);
        read.map_err(|error| fsage_model::problem::Problem::from(error).render(false))
    }

    #[test]
    fn cpu_time_is_counted_in_model_time_on_every_volume_of_a_trial() {
        assert!(said(STUDY).is_ok(), "{:?}", said(STUDY).err());
        for (old, new, wanted) in [
            (
                "cpu = \"serial\"\n[file",
                "cpu = \"serial\"\ntime = \"real\"\n[file",
                "by wall-clock time it passes anyway",
            ),
            ("question = \"q\"", "question = \"q\"\ndeterministic = true", "times are not reproducible"),
            (", cpu = \"serial\" }", " }", "CPU time is counted on `volume` and not on this volume"),
            ("{ kind = \"grep\" }", "{ kind = \"grep\" }, { kind = \"fio\" }", "fio is a program of its own"),
            ("cpu = \"serial\"\n[file", "cpu = \"parallel\"\n[file", "serial"),
        ] {
            assert!(STUDY.contains(old), "{old}");
            let error = said(&STUDY.replacen(old, new, 1)).err().unwrap_or_default();
            assert!(error.contains(wanted), "{new}: {error}");
        }
    }

    #[test]
    fn days_pass_on_a_clock_that_can_be_moved_on_and_on_file_systems_that_follow_it() {
        let paced = STUDY.replace("workload = {", "pace = { operations_per_day = 500 }\nworkload = {");
        assert!(said(&paced).is_ok(), "{:?}", said(&paced).err());
        for (old, new, wanted) in [
            ("cpu = \"serial\"\n[file", "[file", "give it `cpu = \"serial\"`"),
            ("kind = \"ext4\"", "kind = \"xfs\"", "in a worker that follows wall-clock time"),
            ("= 500 }", "= 0.5 }", "0.5 operations per day: 1 to"),
            ("= 500 }", "= 500, burst = 0 }", "bursts of 0 operations"),
            ("= 500 }", "= 1, burst = 4000 }", "more than ten years apart"),
            ("= 500 }", "= 500, rated_cycles = 0 }", "pace.rated_cycles"),
            ("workload = {", "threads = 2\nworkload = {", "give `threads = 1`"),
            ("workload = {", "write_mode = \"fast\"\nworkload = {", "writes the data at the end"),
        ] {
            assert!(paced.contains(old), "{old}");
            let error = said(&paced.replacen(old, new, 1)).err().unwrap_or_default();
            assert!(error.contains(wanted), "{new}: {error}");
        }
    }

    #[test]
    fn it_is_part_of_what_a_trial_is_and_its_absence_is_not() {
        let canonical = |text: &str| crate::study::identity::canonical(&said(text).unwrap().cells[0].spec);
        let (serial, ignored) =
            (canonical(STUDY), canonical(&STUDY.replace("cpu = \"serial\"", "cpu = \"ignored\"")));
        let absent = canonical(&STUDY.replace(", cpu = \"serial\"", "").replace("cpu = \"serial\"\n", ""));
        assert!(serial != ignored && serial.contains(r#""cpu":"serial""#), "{serial}");
        assert_eq!(ignored, absent);
    }
}
