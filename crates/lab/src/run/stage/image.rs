//! The `image` stage: the volume as the stages before it left it, kept in the store and restored from there.
//!
//! Every trial with an image continues from the restored one, also the trial that made it: below the
//! file system, too, all of them begin alike (the pages of an SSD lie in the order of restoring).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use fsage_model::image::BLOCK_BYTES;
use fsage_model::image::ImageSummary;
use fsage_model::protocol::call;
use fsage_model::record::{STORE_VERSION, StageRecord};
use fsage_model::study::{ImageStage, StageSpec};
use serde_json::{Value, json};

use super::{Stage, StageContext};
use crate::image;
use crate::run::error::TrialError;
use crate::run::making::Wanted;
use crate::run::trial::mount_point;
use crate::run::trial_volume::TrialVolume;
use crate::store::images::{self, ImageRecord, Images};
use crate::study::identity;
use crate::time;

/// Compression level of an image that is restored at once.
const LEVEL: i32 = 1;

/// The image that this trial's state is to be taken from, waited for while another trial makes it, or the right
/// to make it; nothing without an `image` stage.
pub(in crate::run) fn want(context: &StageContext<'_>) -> Option<Wanted<ImageRecord>> {
    let key = images::key(&basis(context)?);
    let find = || Images::of(context.root).find(&key);
    Some(context.making.want(&key, find, || context.interrupt.by().is_some()))
}

/// Everything that the state of the volume at the `image` stage depends on; `None` without such a stage.
fn basis(context: &StageContext<'_>) -> Option<Value> {
    let stages: Vec<&StageSpec> = context.spec.stages().collect();
    let end = position(&stages)?;
    Some(basis_of(&stages[..end], context))
}

/// Everything that the state of the volume after `stages` depends on.
pub(super) fn basis_of(stages: &[&StageSpec], context: &StageContext<'_>) -> Value {
    let program = context.file_system.mkfs(Path::new("")).program().to_owned();
    json!({
        "made_of": identity::basis(context.spec, stages),
        "seed": context.planned.seed,
        "kernel": context.facts.kernel,
        "mkfs": context.facts.tools.get(&program).cloned().unwrap_or(program),
    })
}

fn position(stages: &[&StageSpec]) -> Option<usize> {
    stages.iter().position(|stage| matches!(stage, StageSpec::Image(_)))
}

/// Restores the image onto a volume that was just taken, mounts it, and gives the position of the first stage
/// that is still to be run.
pub(in crate::run) fn resume(
    record: &ImageRecord,
    place: &mut TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<usize, TrialError> {
    let stages: Vec<&StageSpec> = context.spec.stages().collect();
    let end = position(&stages).unwrap_or(0);
    let restore_ns = restore(&record.key, place, context)?;
    context.done.extend(record.stages.iter().cloned().map(|stage| taken_from(stage, &record.key)));
    for warning in &record.warnings {
        context.warn(warning.clone());
    }
    record.places.iter().cloned().for_each(|places| context.folder.keep_places(places));
    context.done.push(StageRecord::Image {
        name: stages[end].name().to_owned(),
        key: record.key.clone(),
        run: record.run(),
        made: false,
        file_bytes: record.file_bytes,
        used_bytes: record.used_bytes,
        save_ns: None,
        restore_ns,
    });
    Ok(end + 1)
}

/// A stage's record in a trial that did not run it.
fn taken_from(stage: StageRecord, key: &str) -> StageRecord {
    match stage {
        StageRecord::Age { name, continues, result, ticks, probes, .. } => {
            StageRecord::Age { name, image: Some(key.to_owned()), continues, result, ticks, probes }
        }
        other => other,
    }
}

impl Stage for ImageStage {
    /// Saves the volume, and continues from what was saved.
    fn run(&self, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<(), TrialError> {
        let Some(basis) = basis(context) else { return Ok(()) };
        let key = images::key(&basis);
        let images = Images::of(context.root);
        images.prepare()?;
        place.check(context)?;
        let clock = Instant::now();
        let saved = save(&images.path(&key), self.level, place, context)?;
        let save_ns = nanoseconds(clock);
        let record = ImageRecord {
            version: STORE_VERSION,
            key: key.clone(),
            basis,
            made: time::now_rfc3339(),
            digest: saved.digest.clone(),
            file_bytes: saved.image_bytes,
            used_bytes: saved.totals.used_blocks * BLOCK_BYTES,
            volume_bytes: place.facts().size_bytes,
            stages: context.done.clone(),
            warnings: context.warnings.clone(),
            places: context.folder.places().to_vec(),
        };
        images.keep(&record)?;
        context.interrupted()?;
        place.renew(context)?;
        let restore_ns = restore(&key, place, context)?;
        context.done.push(StageRecord::Image {
            name: self.name.clone(),
            run: record.run(),
            key,
            made: true,
            file_bytes: saved.image_bytes,
            used_bytes: saved.totals.used_blocks * BLOCK_BYTES,
            save_ns: Some(save_ns),
            restore_ns,
        });
        Ok(())
    }

    fn describe(&self, point: &Path, _seed: u64) -> Vec<String> {
        vec![format!("fsage image save {} images/KEY.fsage", point.display())]
    }
}

/// Passes a volume through an image: saved, taken again, restored and mounted. The image is not kept.
pub(super) fn pass_through(
    place: &mut TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<(), TrialError> {
    let images = Images::of(context.root);
    images.prepare()?;
    // Without a record it is nobody's image: what a kill leaves of it, the next attempt or
    // `fsage image prune` removes.
    let key = images::key(&json!({ "passes": place.point() }));
    place.check(context)?;
    save(&images.path(&key), LEVEL, place, context)?;
    context.interrupted()?;
    place.renew(context)?;
    restore(&key, place, context)?;
    images.remove(&key)?;
    Ok(())
}

/// Saves the unmounted volume.
pub(super) fn save(
    path: &Path,
    level: i32,
    place: &TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<ImageSummary, TrialError> {
    let line = format!("fsage image save {} {}", place.device().display(), path.display());
    context.command("image", &line);
    // What an earlier attempt left: a whole image that was never recorded.
    context.session.call(call::RemoveFile { file: path.to_owned() })?;
    let save = image::Save {
        volume: place.device().to_owned(),
        file: path.to_owned(),
        all_blocks: false,
        frozen: None,
        point: mount_point(context.root, &format!("{}-image", context.planned.id)),
        level,
        threads: 0,
        facts: facts(context),
    };
    let saved = context
        .ask_long("image", |session, journal, incoming| image::save(session, journal, &save, incoming))?;
    Ok(saved.summary)
}

/// Where the image comes from, for people who find the file.
fn facts(context: &StageContext<'_>) -> BTreeMap<String, String> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    BTreeMap::from([
        fact("study", context.spec.name.clone()),
        fact("kernel", context.facts.kernel.clone()),
        fact("seed", context.planned.seed.to_string()),
    ])
}

/// Restores onto the volume and mounts it.
fn restore(key: &str, place: &mut TrialVolume, context: &mut StageContext<'_>) -> Result<u64, TrialError> {
    let restore_ns = write_onto(&Images::of(context.root).path(key), place, context)?;
    place.mount(context)?;
    Ok(restore_ns)
}

/// Restores the image in a file onto a volume that is not mounted; gives how long that took.
pub(super) fn write_onto(
    path: &Path,
    place: &TrialVolume,
    context: &mut StageContext<'_>,
) -> Result<u64, TrialError> {
    let device = place.device().to_owned();
    context.command("restore", &format!("fsage image restore {} {}", path.display(), device.display()));
    let clock = Instant::now();
    // A loop file has nothing to forget, and loses its blocks to a discard.
    let trim = !place.is_file();
    if trim {
        place.forget_preconditioning(context)?;
    }
    let restore = call::ImageRestore { file: path.to_owned(), device, trim, threads: 0 };
    context.ask_long("restore", |session, _, incoming| session.call_with(restore, incoming))?;
    context.interrupted()?;
    Ok(nanoseconds(clock))
}

fn nanoseconds(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
