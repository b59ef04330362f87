//! Remedies that suit the file system, and ageing that continues earlier ageing.

use fsage_model::study::{AgeStage, StageSpec, StudySpec};

use super::Checker;
use crate::study::schema::Problem;

/// Problems of the stages that run in the cell's state.
pub(super) fn check(spec: &StudySpec) -> Vec<Problem> {
    let mut check = Checker::new(&["stage"]);
    let kind = &spec.file_system.kind;
    let described = spec.driver.get(kind).and_then(|driver| driver.mount_type.as_ref());
    let mut aged: Vec<&AgeStage> = Vec::new();
    for (index, stage) in spec.stage.iter().enumerate().filter(|(_, stage)| stage.runs_in(&spec.state)) {
        match stage {
            StageSpec::Remedy(remedy) => {
                if let Some(objection) = remedy.method.objection(described.unwrap_or(kind)) {
                    check.fail(&format!("{index}.method"), objection);
                    if let Some(problem) = check.problems.last_mut() {
                        let hint = "in a matrix, leave the combination out with `[[exclude]]`";
                        problem.hint = Some(hint.to_owned());
                    }
                }
            }
            StageSpec::Age(age) => {
                if let Some(earlier) = &age.continues {
                    continues(
                        &mut check,
                        index,
                        age,
                        aged.iter().find(|aged| aged.name == *earlier).copied(),
                    );
                }
                aged.push(age);
            }
            StageSpec::Image(_)
            | StageSpec::Copy(_)
            | StageSpec::Measure(_)
            | StageSpec::Lockstep(_)
            | StageSpec::Fio(_)
            | StageSpec::PowerCuts(_)
            | StageSpec::Precondition(_)
            | StageSpec::Cluster(_) => {}
        }
    }
    check.problems
}

/// Ageing with the files of an earlier stage.
fn continues(check: &mut Checker, index: usize, age: &AgeStage, earlier: Option<&AgeStage>) {
    let key = format!("{index}.continues");
    let Some(earlier) = earlier else {
        let name = age.continues.as_deref().unwrap_or_default();
        check.fail(&key, format!("no `age` stage `{name}` comes before this one in the same state"));
        return;
    };
    check.require(earlier.continues.is_none(), &key, || {
        format!("`{}` continues another stage itself: name the stage that made the files", earlier.name)
    });
    let drift = |age: &AgeStage| age.workload.drift().is_some_and(|drift| drift.like.is_none());
    check.require(drift(age) && drift(earlier), &key, || {
        "only `drift` without a profile can continue with files, and only with those of another".to_owned()
    });
    check.require(age.threads == earlier.threads, &format!("{index}.threads"), || {
        format!(
            "`{}` has {} threads, whose files are continued with: use as many",
            earlier.name, earlier.threads
        )
    });
    check.require(!age.trace, &format!("{index}.trace"), || {
        "a trace begins with an empty directory: it cannot be of a stage that continues".to_owned()
    });
}
