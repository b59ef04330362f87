//! Trials side by side: which studies allow it, and on which processors.
//!
//! What a trial in model time says follows from what its file system asks of its own disk, so another trial on
//! another processor changes nothing of it. A trial that goes by wall-clock time, or whose data passes a real
//! device, would measure the other one too: such studies are refused.

use fsage_engine::host::processor;
use fsage_model::disk::DiskTime;
use fsage_model::study::{StageSpec, VolumeSpec};

use super::{RunError, stage};
use crate::study::{Cell, Study};

/// The processors of a trial, and of all trials beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Processors {
    /// This trial's; `None`: it is alone, and the agent chooses.
    pub(super) own: Option<u32>,
    /// Those of every trial that may run at the same time.
    pub(super) all: Vec<u32>,
}

impl Processors {
    /// Trials that may run at the same time, this one among them.
    pub(super) fn trials(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX).max(1)
    }

    /// Of so many trials side by side each its own, the last processors first.
    ///
    /// # Errors
    /// There are fewer processors.
    pub(super) fn of(jobs: u32) -> Result<Vec<Self>, RunError> {
        if jobs <= 1 {
            return Ok(vec![Self::default()]);
        }
        let allowed = processor::allowed()?;
        let count = usize::try_from(jobs).unwrap_or(usize::MAX);
        if allowed.len() < count {
            return Err(RunError::Jobs { jobs, processors: allowed.len() });
        }
        let all: Vec<u32> = allowed.into_iter().rev().take(count).collect();
        Ok(all.iter().map(|cpu| Self { own: Some(*cpu), all: all.clone() }).collect())
    }
}

/// Whether the study's trials may run side by side.
///
/// # Errors
/// [`RunError::NotBeside`] with the first reason.
pub(super) fn check(study: &Study) -> Result<(), RunError> {
    let deterministic = |cell: &Cell| cell.spec.deterministic;
    let both = study.cells.iter().any(deterministic) && !study.cells.iter().all(deterministic);
    let both = both.then(|| {
        "trials with and without `deterministic = true` differ in the host's timers, which all trials share"
            .to_owned()
    });
    match both.or_else(|| study.cells.iter().find_map(objection)) {
        Some(why) => Err(RunError::NotBeside { study: study.spec.name.clone(), why }),
        None => Ok(()),
    }
}

/// Why the trials of a cell must be alone on the host.
fn objection(cell: &Cell) -> Option<String> {
    let there = cell.spec.target.name().map(|host| format!("those on {host} run one after the other"));
    there.or_else(|| wall_clock(cell)).or_else(|| layers_again(cell))
}

/// Layers that are put together again would get the numbers of another trial's.
fn layers_again(cell: &Cell) -> Option<String> {
    let VolumeSpec::Disk(disk) = &cell.spec.volume else { return None };
    let cuts = cell.spec.stages().any(|stage| matches!(stage, StageSpec::PowerCuts(_)));
    (cuts && !disk.stack.is_empty())
        .then(|| "power cuts below `volume.stack` take layers down and put them together again".to_owned())
}

/// What in a cell goes by wall-clock time, or passes what is not the trial's own.
pub(crate) fn wall_clock(cell: &Cell) -> Option<String> {
    let spec = &cell.spec;
    let own = std::iter::once(spec.volume.clone());
    let others = spec.stages().flat_map(|stage| stage::of(stage).other_volumes(&spec.volume));
    if let Some(why) = own.chain(others).find_map(|volume| of_volume(&volume)) {
        return Some(why.to_owned());
    }
    if !cell.file_system.mounts_by_kernel() {
        let kind = cell.file_system.kind();
        return Some(format!(
            "{kind} is not mounted by the kernel alone, so only the host's caches can be dropped"
        ));
    }
    spec.stages().find_map(|stage| match stage {
        StageSpec::Age(age) if age.stop.seconds.is_some() => {
            Some(format!("stage {} stops after seconds of wall-clock time (`stop.seconds`)", age.name))
        }
        _ => None,
    })
}

fn of_volume(volume: &VolumeSpec) -> Option<&'static str> {
    match volume {
        VolumeSpec::Disk(disk) if disk.time == DiskTime::Model => None,
        // In a cell it is a disk.
        VolumeSpec::Partition { .. } => None,
        VolumeSpec::Disk(_) => {
            Some("a virtual disk in real time (`time = \"real\"`) goes by wall-clock time")
        }
        VolumeSpec::Loop { .. } => Some("a loop file is measured by wall-clock time"),
        VolumeSpec::Device { .. } => Some("a real device is measured by wall-clock time"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fsage_model::problem::{EXIT_USAGE, Explain as _};

    use super::*;
    use crate::study::{Consent, Overrides, load};

    fn refused(set: &[&str]) -> Option<String> {
        let set = set.iter().map(|s| (*s).to_owned()).collect();
        let overrides = Overrides { preset: Some("hdd".to_owned()), set };
        let study = load(Path::new("aging"), &overrides, Consent::Given).unwrap();
        let error = check(&study).err()?;
        assert_eq!(error.exit_code(), EXIT_USAGE);
        assert!(error.hint().is_some());
        Some(error.to_string())
    }

    #[test]
    fn only_trials_in_model_time_run_side_by_side() {
        assert_eq!(refused(&[]), None);
        let said = |set| refused(&[set]).unwrap_or_else(|| panic!("{set} is allowed"));
        assert!(said("volume.time=real").contains("virtual disk in real time"));
        assert!(said("matrix.deterministic=[false,true]").contains("share"));
        assert!(said("stage.age.stop.seconds=5").contains("stage age stops after seconds"));
        let set = ["volume={kind=\"loop\",size=\"1GiB\"}"];
        assert!(refused(&set).unwrap().contains("loop file"));
    }

    #[test]
    fn each_trial_has_a_processor_of_its_own() {
        assert_eq!(Processors::of(0).unwrap(), [Processors::default()]);
        assert_eq!(Processors::of(1).unwrap(), [Processors::default()]);
        assert_eq!(Processors::default().trials(), 1);
        let there = u32::try_from(processor::allowed().unwrap().len()).unwrap();
        if there > 1 {
            let lanes = Processors::of(there).unwrap();
            assert!(lanes.iter().all(|lane| lane.trials() == there));
            let mut own: Vec<u32> = lanes.iter().filter_map(|lane| lane.own).collect();
            assert_eq!(own, lanes[0].all);
            own.dedup();
            assert_eq!(own.len(), lanes.len());
        }
        let error = Processors::of(there + 1).unwrap_err();
        assert!(matches!(&error, RunError::Jobs { .. }) && error.exit_code() == EXIT_USAGE);
        assert!(error.hint().unwrap().contains(&format!("--jobs {there}")), "{:?}", error.hint());
    }
}
