//! The `rest` stage: the volume is idle for a while.

use std::path::Path;
use std::time::Duration;

use super::{Stage, StageContext};
use crate::run::error::TrialError;
use crate::run::trial_volume::TrialVolume;

/// Parameters of the `rest` stage.
pub struct RestStage {
    /// Name in dotted paths.
    pub name: String,
    /// Duration in seconds.
    pub seconds: u64,
}

impl Stage for RestStage {
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        context.commands.extend(self.describe(place.point(), 0));
        for _ in 0..self.seconds {
            context.interrupted()?;
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    fn describe(&self, _point: &Path, _seed: u64) -> Vec<String> {
        vec![format!("sleep {} # {}", self.seconds, self.name)]
    }
}
