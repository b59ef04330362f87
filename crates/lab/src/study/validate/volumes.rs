//! The volumes that a cell has at the same time or one after the other, each with its place in the study.

use fsage_model::study::{StageSpec, StudySpec, UNAGED, VolumeSpec};

/// A volume of a cell.
pub(in crate::study) struct Placed {
    /// Its keys in the study (`volume`, `stage.1.followers.empty.volume`, …).
    pub(in crate::study) path: Vec<String>,
    /// What it is, what it takes over from the trial's own included.
    pub(in crate::study) volume: VolumeSpec,
}

/// The trial's own volume, which comes first, and those of the stages that run in its state. Volumes that
/// would have to be the trial's own are left out; they are a problem of their stage.
pub(super) fn of(spec: &StudySpec) -> Vec<Placed> {
    found(spec, |stage| stage.runs_in(&spec.state))
}

/// The same with the volumes of all stages, whatever their states.
pub(in crate::study) fn all(spec: &StudySpec) -> Vec<Placed> {
    found(spec, |_| true)
}

fn found(spec: &StudySpec, is_meant: impl Fn(&StageSpec) -> bool) -> Vec<Placed> {
    let path = |text: &str| text.split('.').map(str::to_owned).collect();
    let mut found = vec![Placed { path: path("volume"), volume: spec.volume.clone() }];
    for (index, stage) in spec.stage.iter().enumerate().filter(|(_, stage)| is_meant(stage)) {
        match stage {
            StageSpec::Copy(copy) => {
                let (place, volume) = match &copy.volume {
                    Some(volume) => (format!("stage.{index}.volume"), volume.clone()),
                    None => (format!("stage.{index}"), spec.volume.another()),
                };
                found.push(Placed { path: path(&place), volume });
            }
            StageSpec::Lockstep(lockstep) => {
                for (name, other) in lockstep.others() {
                    let at = if name == UNAGED { name.to_owned() } else { format!("followers.{name}") };
                    let place = if other.volume.is_some() { format!("{at}.volume") } else { at };
                    let Some(volume) = other.resolve(&spec.volume) else { continue };
                    found.push(Placed { path: path(&format!("stage.{index}.{place}")), volume });
                }
            }
            StageSpec::Remedy(remedy) => {
                let Some(volume) = remedy.target(&spec.volume) else { continue };
                let place = if remedy.volume.is_some() { ".volume" } else { "" };
                found.push(Placed { path: path(&format!("stage.{index}{place}")), volume });
            }
            StageSpec::Age(_)
            | StageSpec::Image(_)
            | StageSpec::Measure(_)
            | StageSpec::Fio(_)
            | StageSpec::PowerCuts(_)
            | StageSpec::Precondition(_)
            | StageSpec::Cluster(_) => {}
        }
    }
    found
}
