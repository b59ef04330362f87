//! Where the files of a volume lie when a stage is done with it: inspected after everything is measured, so
//! that no number of the stage has any of it, and kept beside the record. That a file system does not tell is
//! a warning and no failure.

use fsage_model::cause::in_one_line;
use fsage_model::location::Location;
use fsage_model::medium::{MediumError, MediumSpec};
use fsage_model::record::VolumePlaces;
use fsage_model::study::VolumeSpec;
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;

use super::StageContext;
use crate::explain::{DEFAULT_MEDIUM, ExplainError, KEPT, explain};
use crate::run::error::TrialError;

/// A mounted volume that is inspected.
pub(super) struct Volume<'a> {
    /// The stage that looks.
    pub(super) stage: &'a str,
    /// What it is called; empty for the trial's own.
    pub(super) name: &'a str,
    /// What it is made of.
    pub(super) spec: &'a VolumeSpec,
    /// The tree on it.
    pub(super) directory: &'a Location,
}

impl StageContext<'_> {
    /// Keeps where the files of a volume lie and what reading them costs: on its own medium where it is a
    /// virtual disk, else on [`DEFAULT_MEDIUM`].
    pub(super) fn explain(&mut self, volume: &Volume<'_>) -> Result<(), TrialError> {
        self.interrupted()?;
        let found = match medium(volume.spec) {
            Ok(medium) => {
                self.command(
                    "explain",
                    &format!("fsage explain {} --medium {medium}", volume.directory.path.display()),
                );
                let directory = volume.directory;
                self.ask_long(volume.stage, |session, _, _| explain(session, directory, &medium, KEPT))
            }
            Err(error) => Err(error.into()),
        };
        match found {
            Ok(explanation) => {
                let (stage, name) = (volume.stage.to_owned(), volume.name.to_owned());
                self.folder.keep_places(VolumePlaces { stage, volume: name, explanation });
            }
            Err(ExplainError::Target(error)) if self.session.is_lost() => return Err(error.into()),
            Err(error) => {
                let on = if volume.name.is_empty() { String::new() } else { format!(" on {}", volume.name) };
                let message = format!(
                    "where the files of {}{on} lie is not kept: {}",
                    volume.stage,
                    in_one_line(&error)
                );
                self.warn(Warning { kind: WarningKind::Places, message });
            }
        }
        Ok(())
    }
}

/// The medium that times are of.
fn medium(volume: &VolumeSpec) -> Result<MediumSpec, MediumError> {
    match volume {
        // Where a file lies on layers says little of where it lies on their drives.
        VolumeSpec::Disk(disk) if disk.stack.is_empty() => Ok(disk.drive()),
        VolumeSpec::Disk(_)
        | VolumeSpec::Loop { .. }
        | VolumeSpec::Device { .. }
        | VolumeSpec::Partition { .. } => DEFAULT_MEDIUM.parse(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_of_the_medium_that_the_volume_has() {
        let of = |volume| medium(&serde_json::from_value(volume).unwrap()).unwrap().to_string();
        assert_eq!(of(json!({"kind": "disk", "size": "1GiB", "medium": "ssd"})), "ssd");
        assert_eq!(of(json!({"kind": "loop", "size": "1GiB"})), DEFAULT_MEDIUM);
    }
}
