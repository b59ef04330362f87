//! Checkpoints of a `lockstep` stage: at each look the volumes are kept as images, beside what is known so
//! far, so that a stage that is interrupted continues from its last look.
//!
//! What is restored is what the file systems hold. So a checkpoint is kept only where nothing below a file
//! system has a memory of its own: loop files, and disks of a medium that is as new when it is at rest
//! (`hdd` without bands, `ram`). Where the drive remembers (`ssd`, `sd`, `smr`, a real device) a restored
//! volume would not be the one that was used, and the stage starts over. With and without an interruption the
//! rounds after a look begin alike: mounted afresh, with the medium at rest.

use fsage_model::cause::in_one_line;
use fsage_model::lockstep::{LockstepSpec, RunHistory};
use fsage_model::medium::Parameters;
use fsage_model::protocol::call;
use fsage_model::record::STORE_VERSION;
use fsage_model::study::{LockstepStage, StageSpec, VolumeSpec};
use fsage_model::warning::{Warning, WarningKind};
use serde_json::{Value, json};

use super::{StageContext, image};
use crate::run::error::TrialError;
use crate::run::trial_volume::TrialVolume;
use crate::store::checkpoint::{Checkpoint, CheckpointRecord};
use crate::study::identity;

/// Compression level of its images: each is replaced at the next look.
const LEVEL: i32 = 1;

/// The checkpoints of a stage.
pub(super) struct Checkpoints {
    place: Checkpoint,
    /// What the state depends on; nothing where no checkpoint is kept.
    basis: Option<Value>,
}

impl Checkpoints {
    /// Those of this stage of the trial.
    pub(super) fn of(stage: &LockstepStage, context: &StageContext<'_>) -> Self {
        let place = Checkpoint::of(context.root, &context.planned.id);
        let stages: Vec<&StageSpec> = context.spec.stages().take(1).collect();
        // A checkpoint has nothing of the stages before.
        let first = stages.first().is_some_and(|first| first.name() == stage.name);
        let own = &context.spec.volume;
        let kept = first
            && forgets(own)
            && stage.followers.values().all(|other| other.resolve(own).is_some_and(|other| forgets(&other)));
        let basis = kept
            .then(|| json!({ "state": image::basis_of(&stages, context), "program": identity::program() }));
        Self { place, basis }
    }

    /// The last one.
    pub(super) fn find(&self) -> Option<CheckpointRecord> {
        self.place.find(self.basis.as_ref()?)
    }

    /// Keeps the volumes, which are not mounted, and what `record` has of the stage. Where it cannot, a
    /// warning says so, and the checkpoint before stays: a stage needs none to complete.
    pub(super) fn keep_if_it_can_be(
        &self,
        record: CheckpointRecord,
        volumes: &[&TrialVolume],
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        let round = record.round;
        match self.keep(record, volumes, context) {
            Err(TrialError::Interrupted) => Err(TrialError::Interrupted),
            Err(error) if context.session.is_lost() => Err(error),
            Err(error) => {
                self.place.remove_of(round);
                let message = format!("after round {round}: {}", in_one_line(&error));
                context.warn(Warning { kind: WarningKind::NoCheckpoint, message });
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn keep(
        &self,
        record: CheckpointRecord,
        volumes: &[&TrialVolume],
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        let Some(basis) = &self.basis else { return Ok(()) };
        context.step("checkpoint", &format!("after round {}", record.round));
        self.place.prepare()?;
        let mut images = Vec::new();
        for (index, volume) in volumes.iter().enumerate() {
            context.interrupted()?;
            let name = Checkpoint::image_name(record.round, index);
            let saved = image::save(&self.place.path(&name), LEVEL, volume, context)?;
            images.push((name, saved.image_bytes));
        }
        let warnings = context.warnings.clone();
        let (version, basis) = (STORE_VERSION, basis.clone());
        Ok(self.place.keep(&CheckpointRecord { version, basis, images, warnings, ..record })?)
    }

    /// Restores the volumes, and leaves them unmounted.
    pub(super) fn restore(
        &self,
        record: &CheckpointRecord,
        volumes: &mut [&mut TrialVolume],
        context: &mut StageContext<'_>,
    ) -> Result<(), TrialError> {
        context.folder.log(&format!("continues from the checkpoint after round {}", record.round));
        context.step("checkpoint", &format!("continues after round {}", record.round));
        for (volume, (name, _)) in volumes.iter_mut().zip(&record.images) {
            volume.renew(context)?;
            image::write_onto(&self.place.path(name), volume, context)?;
        }
        for warning in &record.warnings {
            if !context.warnings.contains(warning) {
                context.warn(warning.clone());
            }
        }
        Ok(())
    }

    /// Forgets what was kept.
    pub(super) fn remove(&self) -> Result<(), TrialError> {
        Ok(self.place.remove()?)
    }
}

/// Has the workload of a stage continue on volumes that were restored and are mounted.
pub(super) fn resume(
    stage: &str,
    lockstep: LockstepSpec,
    past: &[RunHistory],
    digest: &str,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    let (past, digest) = (past.to_vec(), digest.to_owned());
    let resume = call::LockstepResume { lockstep: Box::new(lockstep), past, digest };
    context.step(stage, "makes up what was done before");
    let continues = context.ask_long(stage, |session, _, incoming| session.call_with(resume, incoming))?;
    if continues { Ok(()) } else { Err(TrialError::Interrupted) }
}

/// Whether nothing below the file system tells a volume that was restored from the one that was saved, once
/// it is at rest.
fn forgets(volume: &VolumeSpec) -> bool {
    match volume {
        VolumeSpec::Loop { .. } => true,
        VolumeSpec::Device { .. } | VolumeSpec::Partition { .. } => false,
        // What is restored on one partition is written on the others' drive.
        VolumeSpec::Disk(disk) if disk.share.is_some() => false,
        // What is restored goes through the layers, which keep maps and journals of their own.
        VolumeSpec::Disk(disk) if !disk.stack.is_empty() => false,
        // A log would begin again, and faults count requests.
        VolumeSpec::Disk(disk) if disk.log || disk.faults.is_some() => false,
        VolumeSpec::Disk(disk) => match disk.medium.resolved() {
            Ok(Parameters::Ram) => true,
            // Bands remember how full they are, and their cache what it holds.
            Ok(Parameters::Hdd(drive)) => drive.band_bytes == 0,
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_restored_only_where_nothing_below_it_remembers() {
        let of = |text: &str| forgets(&serde_json::from_str::<VolumeSpec>(text).unwrap());
        assert!(of(r#"{"kind": "loop", "size": "1GiB"}"#));
        assert!(of(r#"{"kind": "disk", "medium": "hdd-7200", "size": "1GiB"}"#));
        assert!(of(r#"{"kind": "disk", "medium": "ram", "size": "1GiB"}"#));
        for other in [
            r#"{"kind": "disk", "medium": "ssd", "size": "1GiB"}"#,
            r#"{"kind": "disk", "medium": "sd", "size": "1GiB"}"#,
            r#"{"kind": "disk", "medium": "smr", "size": "1GiB"}"#,
            r#"{"kind": "disk", "medium": "hdd-7200", "size": "1GiB", "log": true}"#,
            r#"{"kind": "disk", "medium": "hdd-7200", "size": "1GiB", "faults": {}}"#,
            r#"{"kind": "device", "path": "/dev/disk/by-id/x"}"#,
        ] {
            assert!(!of(other), "{other}");
        }
    }
}
