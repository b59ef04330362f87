//! The drives that volumes of a trial share: brought up before the first volume is taken, and taken down after
//! the last one was released.

use fsage_model::study::VolumeSpec;

use super::error::TrialError;
use super::stage::{self, StageContext};
use crate::study::Cell;
use crate::volume::{Acquired, Drive};

/// The drives of a trial that are up.
pub(super) struct Drives(Vec<(Drive, Acquired)>);

/// The volumes of the stages that run in a cell, its own first.
pub(super) fn volumes(cell: &Cell) -> Vec<VolumeSpec> {
    let own = &cell.spec.volume;
    let others = cell.spec.stages().flat_map(|stage| stage::of(stage).other_volumes(own));
    std::iter::once(own.clone()).chain(others).collect()
}

impl Drives {
    /// Brings them up.
    pub(super) fn take(cell: &Cell, context: &mut StageContext<'_>) -> Result<Self, TrialError> {
        let mut taken = Vec::new();
        for mut drive in Drive::of(&volumes(cell), &context.planned.id, context.root)? {
            drive.beside(context.processors.trials());
            context.step("drive", &drive.describe());
            let acquired = drive.serve(context.session, context.journal)?;
            context.commands.extend(acquired.commands.iter().cloned());
            taken.push((drive, acquired));
        }
        Ok(Self(taken))
    }

    /// Takes them down, and keeps the logs of their requests with the trial, where they keep one.
    pub(super) fn release(self, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        for (drive, mut acquired) in self.0.into_iter().rev() {
            let file = context.folder.request_log(&format!("drive-{}", drive.name()));
            context.keep_log(drive.save_log(&file), &file)?;
            acquired.release(context.session, context.journal)?;
        }
        Ok(())
    }
}
