//! Limits of the `precondition` stage, and where it can stand.

use fsage_model::study::{PreconditionStage, StageSpec, StudySpec, VolumeSpec};

use super::Checker;
use super::fio::{block_size, count, rounds, run_time};
use super::stage::Limits;
use crate::filesystem::{built_in, mkfs_discards};
use crate::study::schema::Problem;

/// Seconds of a week.
const WEEK: f64 = 7.0 * 86_400.0;

/// Problems of a cell with such a stage: what comes before it, and what would undo it.
pub(super) fn check(spec: &StudySpec) -> Vec<Problem> {
    let mut check = Checker::new(&[]);
    let stages = || spec.stage.iter().enumerate().filter(|(_, stage)| stage.runs_in(&spec.state));
    let Some((index, _)) = stages().find(|(_, stage)| matches!(stage, StageSpec::Precondition(_))) else {
        return check.problems;
    };
    let at = format!("stage.{index}");
    let first = stages().next().is_some_and(|(first, _)| first == index);
    let alone = stages().filter(|(_, stage)| matches!(stage, StageSpec::Precondition(_))).count() == 1;
    check.require(first && alone, &at, || {
        "a device is preconditioned once and before mkfs: put this stage first".to_owned()
    });
    for (_, stage) in stages() {
        let why = match stage {
            StageSpec::Image(_) => {
                "an image is restored to a discarded volume, which undoes the preconditioning"
            }
            StageSpec::Copy(_) | StageSpec::Lockstep(_) => "its other volumes would not be preconditioned",
            StageSpec::PowerCuts(_) => {
                "it works on a virtual disk that shows crash states, and measures no rates"
            }
            StageSpec::Remedy(remedy) if remedy.target(&spec.volume).is_some() => {
                "its copy goes to a volume that would not be preconditioned"
            }
            _ => continue,
        };
        check.fail(&at, format!("`{}` cannot follow: {why}", stage.kind()));
    }
    check.require(!spec.volume.is_model_time(), &at, || {
        "fio times by wall-clock time, which says nothing about a disk in model time".to_owned()
    });
    mkfs(&mut check, spec);
    if let Some(size) = spec.volume.size() {
        check.require(PreconditionStage::bytes(size.0) >= 1 << 20, &at, || {
            format!("the volume of {size} is too small: 5 MiB at its ends stay as they are")
        });
    }
    check.problems
}

/// mkfs of the file systems that fsage drives discards the whole device unless told not to.
fn mkfs(check: &mut Checker, spec: &StudySpec) {
    let kind = &spec.file_system.kind;
    if built_in(kind).is_some() && mkfs_discards(&spec.file_system) {
        let what = format!("mkfs of {kind} discards the device, which undoes the preconditioning");
        check.fail(&format!("file_system.options.{kind}.mkfs"), what);
        if let Some(problem) = check.problems.last_mut() {
            problem.hint =
                Some(format!("give `[file_system.options.{kind}]` the line `mkfs.discard = false`"));
        }
    }
}

impl Limits for PreconditionStage {
    fn limits(&self, check: &mut Checker, _own: &VolumeSpec) {
        for (key, value, most) in
            [("fills", self.fills, 10), ("iodepth", self.iodepth, 4096), ("numjobs", self.numjobs, 256)]
        {
            count(check, key, value, most);
        }
        block_size(check, self.bs);
        run_time(check, self.runtime, WEEK);
        rounds(check, self.round, self.round_s(), self.runtime, true);
    }
}

#[cfg(test)]
mod tests {
    use crate::study::{Consent, Overrides, parse};

    const STUDY: &str = r#"name = "conditioned"
title = "t"
question = "q"
volume = { kind = "loop", size = "256MiB" }
[file_system]
kind = "ext4"
[file_system.options.ext4]
mkfs.discard = false
[[stage]]
kind = "precondition"
runtime = 60.0
[[stage]]
kind = "fio"
rw = "randread"
"#;

    fn said(text: &str) -> Result<(), String> {
        let read = parse("conditioned.toml".as_ref(), text.to_owned(), &Overrides::default(), Consent::Given);
        read.map(drop).map_err(|error| fsage_model::problem::Problem::from(error).render(false))
    }

    #[test]
    fn it_comes_first_and_nothing_undoes_it() {
        assert_eq!(said(STUDY), Ok(()));
        assert_eq!(said(&STUDY.replace("kind = \"ext4\"", "kind = \"bare\"")), Ok(()));
        let fio = "[[stage]]\nkind = \"fio\"\nname = \"before\"\nrw = \"randread\"\n[[stage]]\nkind = \"precondition\"";
        let again = "[[stage]]\nkind = \"precondition\"\nname = \"again\"\n[[stage]]\nkind = \"fio\"";
        for (old, new, wanted) in [
            ("[[stage]]\nkind = \"precondition\"", fio, "put this stage first"),
            ("[[stage]]\nkind = \"fio\"", again, "put this stage first"),
            ("mkfs.discard = false", "", "mkfs of ext4 discards the device"),
            ("mkfs.discard = false", "mkfs.discard = true", "mkfs of ext4 discards the device"),
            ("kind = \"ext4\"", "kind = \"xfs\"", "mkfs of xfs discards the device"),
            (
                "[[stage]]\nkind = \"fio\"\nrw = \"randread\"",
                "[[stage]]\nkind = \"image\"",
                "`image` cannot follow",
            ),
            ("kind = \"loop\"", "medium = \"ssd\"", "disk in model time"),
            ("size = \"256MiB\"", "size = \"5MiB\"", "too small"),
            ("runtime = 60.0", "runtime = 0.1", "0.1 is not in 0.5"),
            ("runtime = 60.0", "runtime = 60.0\nround = 20.0", "fewer than 5 rounds"),
            ("runtime = 60.0", "fills = 0", "0 is not in 1 to 10"),
            ("runtime = 60.0", "fills = 11", "11 is not in 1 to 10"),
            ("runtime = 60.0", "bs = \"1000\"", "not a multiple of 512"),
            ("runtime = 60.0", "iodepth = 5000", "5000 is not in 1 to 4096"),
            ("runtime = 60.0", "fill = 3", "did you mean `fills`?"),
        ] {
            assert!(STUDY.contains(old), "{old}");
            let error = said(&STUDY.replacen(old, new, 1)).err().unwrap_or_default();
            assert!(error.contains(wanted), "{new}: {error}");
        }
    }

    #[test]
    fn a_state_without_it_is_free_of_its_rules() {
        let text = STUDY.replace("runtime = 60.0", "when = [\"used\"]").replace("mkfs.discard = false", "");
        let text = format!("state = \"new\"\n{text}");
        assert_eq!(said(&text), Ok(()));
    }
}
