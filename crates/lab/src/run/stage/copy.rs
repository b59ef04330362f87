//! The `copy` stage: the same tree on a fresh volume, written file by file in directory order. What the copy
//! has in common with the original is its contents; what it lacks is age.
//!
//! Where the original was restored from an image, so is the copy: saved, and restored on a fresh volume. What
//! is below the file system (the pages of an SSD, the blocks of a loop file) was then written front to back
//! on both, and does not tell them apart.

use std::path::Path;

use fsage_model::location::Location;
use fsage_model::protocol::{self, call};
use fsage_model::record::StageRecord;
use fsage_model::study::{CopyStage, VolumeSpec};

use super::places::Volume;
use super::{Stage, StageContext, image};
use crate::run::deterministic;
use crate::run::error::TrialError;
use crate::run::trial_volume::TrialVolume;

impl Stage for CopyStage {
    /// Copies, checks and releases the original, and continues with the copy.
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let spec = self.volume.clone().unwrap_or_else(|| context.spec.volume.clone());
        let name = format!("{}-{}", context.planned.id, self.name);
        let mut fresh = fresh(&spec, &name, context)?;
        // What the original looked like is not what is measured afterwards.
        context.folder.forget_places();
        let mut copies = Vec::new();
        for folder in context.aged_folders() {
            let copied = copy(&self.name, &folder, place, &fresh, context)?;
            copies.push((folder, copied));
        }
        let restored = context.done.iter().any(|stage| matches!(stage, StageRecord::Image { .. }));
        if restored {
            image::pass_through(&mut fresh, context)?;
        }
        for (folder, Copied { to, took }) in copies {
            let protocol::Copied { files, bytes, digest_to: digest, elapsed_ns, .. } = took;
            let (layout, free_space) = context.look(&to)?;
            context.done.push(StageRecord::Copy {
                name: self.name.clone(),
                folder,
                files,
                bytes,
                digest,
                elapsed_ns,
                restored,
                layout: Box::new(layout),
                free_space: free_space.map(Box::new),
            });
            context.explain(&Volume { stage: &self.name, name: "", spec: &spec, directory: &to })?;
        }
        context.interrupted()?;
        place.check(context)?;
        std::mem::replace(place, fresh).release(context)
    }

    fn describe(&self, point: &Path, _seed: u64) -> Vec<String> {
        vec![format!("cp -a {}/. COPY", point.display())]
    }

    fn other_volumes(&self, own: &VolumeSpec) -> Vec<VolumeSpec> {
        vec![self.volume.clone().unwrap_or_else(|| own.clone())]
    }
}

/// A mounted place for a copy.
pub(super) fn fresh(
    spec: &VolumeSpec,
    name: &str,
    context: &mut StageContext<'_>,
) -> Result<TrialVolume, TrialError> {
    let mut fresh = TrialVolume::acquire(spec, name, context)?;
    // Names hashed as in the original would be read in the very order in which they were copied, as on no
    // other copy.
    let seed = context.planned.seed.wrapping_add(1);
    let own = deterministic::file_system(context.spec, context.file_system, seed, &context.facts.kernel);
    fresh.make_as(&own, context)?;
    fresh.mount(context)?;
    Ok(fresh)
}

/// A copy of a folder.
pub(super) struct Copied {
    /// Where it is.
    pub(super) to: Location,
    /// What was copied, and what that took.
    pub(super) took: protocol::Copied,
}

/// Copies a folder from one mounted place to another and compares their digests.
pub(super) fn copy(
    stage: &str,
    folder: &str,
    from: &TrialVolume,
    to: &TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<Copied, TrialError> {
    let (from, to) = (from.folder(folder), to.folder(folder));
    context.command("copy", &format!("cp -a {}/. {}", from.path.display(), to.path.display()));
    context.session.call(call::MakeFolder { directory: to.clone() })?;
    let copy = call::Copy { from, to: to.clone() };
    let took = context.ask_long(stage, |session, _, incoming| session.call_with(copy, incoming))?;
    Ok(Copied { to, took })
}
