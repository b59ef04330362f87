//! The `image` stage: the volume as the stages before it left it, kept in the store and restored from there.
//!
//! Every trial with an image continues from the restored one, also the trial that made it: below the
//! file system, too, all of them begin alike (a loop file's own blocks lie in the order of restoring).

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
use crate::run::trial::mount_point;
use crate::run::trial_volume::TrialVolume;
use crate::store::images::{self, ImageRecord, Images};
use crate::study::identity;
use crate::time;

/// The image that this trial's state is to be taken from, when it has an `image` stage and the image is
/// there.
pub(in crate::run) fn find(context: &StageContext<'_>) -> Option<ImageRecord> {
    Images::of(context.root).find(&images::key(&basis(context)?))
}

/// Everything that the state of the volume at the `image` stage depends on; `None` without such a stage.
fn basis(context: &StageContext<'_>) -> Option<Value> {
    let stages: Vec<&StageSpec> = context.spec.stages().collect();
    let end = position(&stages)?;
    let program = context.file_system.mkfs(Path::new("")).program().to_owned();
    Some(json!({
        "made_of": identity::basis(context.spec, &stages[..end]),
        "seed": context.planned.seed,
        "kernel": context.facts.kernel,
        "mkfs": context.facts.tools.get(&program).cloned().unwrap_or(program),
    }))
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
        StageRecord::Age { name, result, ticks, probes, .. } => {
            StageRecord::Age { name, image: Some(key.to_owned()), result, ticks, probes }
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

/// Saves the unmounted volume.
fn save(
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
    let path = Images::of(context.root).path(key);
    let device = place.device().to_owned();
    context.command("restore", &format!("fsage image restore {} {}", path.display(), device.display()));
    let clock = Instant::now();
    let restore = call::ImageRestore { file: path, device, trim: true, threads: 0 };
    context.ask_long("restore", |session, _, incoming| session.call_with(restore, incoming))?;
    context.interrupted()?;
    let restore_ns = nanoseconds(clock);
    place.mount(context)?;
    Ok(restore_ns)
}

fn nanoseconds(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
