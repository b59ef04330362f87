//! `fsage image list` and `fsage image prune`: the images that a store keeps of aged volumes, and the checkpoints of
//! interrupted trials.

use std::path::PathBuf;

use clap::Args;
use fsage_model::escape;
use fsage_model::problem::{EXIT_OK, Explain, Problem};
use fsage_model::record::TrialStatus;
use serde_json::json;

use super::terminal::Terminal;
use super::text;
use fsage_lab::store::checkpoint::Checkpoint;
use fsage_lab::store::images::{ImageRecord, Images, UnknownImage};
use fsage_lab::store::{self, Store, StoreError};

/// Arguments of `fsage image list`.
#[derive(Debug, Args)]
#[command(after_help = "\
The key is a hash of everything the volume depends on: trials with the same ageing share one image. Files are complete or
absent and never change, so images can be copied from another store:

  rsync -a --ignore-existing other:store/aging/images/ store/aging/images/")]
pub struct ListArgs {
    /// The store
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
}

/// Arguments of `fsage image prune`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --all it removes what can never be used again: incomplete images of killed runs, images made under another kernel,
and checkpoints of trials that are complete or no longer in the study's plan. Complete trials do not need their images;
others make them again, and start over without their checkpoint. Images that this fsage cannot judge, because a newer
one made them or their kernel is not known, are kept and listed, and so are files whose names are not those of images and
checkpoints.")]
pub struct PruneArgs {
    /// The store
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Remove every image and every checkpoint
    #[arg(long)]
    pub all: bool,
}

/// What the key was made of, as far as a reader wants it.
fn about(record: &ImageRecord) -> (String, String, u64) {
    let word = |path: &str| {
        record.basis.pointer(path).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    };
    let seed = record.basis.get("seed").and_then(serde_json::Value::as_u64).unwrap_or_default();
    (word("/made_of/file_system"), word("/kernel"), seed)
}

pub(super) fn list(args: &ListArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let store = existing(&args.store)?;
    let images = Images::of(store.root());
    let records = images.list();
    if let Err(problem) = note_checkpoints(&store, terminal) {
        // A listing of images does not depend on them.
        terminal.note(&format!("note: checkpoints are not listed: {}", problem.message));
    }
    if terminal.json {
        let rows: Vec<_> = records
            .iter()
            .map(|record| {
                let (file_system, kernel, seed) = about(record);
                json!({
                    "key": record.key, "file": images.path(&record.key), "file_system": file_system,
                    "kernel": kernel, "seed": seed, "made": record.made, "file_bytes": record.file_bytes,
                    "used_bytes": record.used_bytes, "volume_bytes": record.volume_bytes,
                })
            })
            .collect();
        terminal.json(&rows)?;
        return Ok(EXIT_OK);
    }
    if records.is_empty() {
        terminal.result(&format!("no image in {}\n", images.directory().display()))?;
        return Ok(EXIT_OK);
    }
    let mut lines = String::new();
    for record in &records {
        let (file_system, kernel, seed) = about(record);
        let line = format!(
            "{}  {file_system:<6} {:>9} for {:>9} in use of {:>9}  seed {seed}, kernel {kernel}, {}",
            record.key,
            text::size(record.file_bytes),
            text::size(record.used_bytes),
            text::size(record.volume_bytes),
            record.made,
        );
        lines.push_str(&format!("{}\n", escape::line(&line)));
    }
    terminal.result(&lines)?;
    Ok(EXIT_OK)
}

/// Why a file in the place of an image or a checkpoint stays.
const STRANGE: &str = "its name or header is not that of an image or a checkpoint";

/// What was removed, and what was not.
#[derive(Debug, Default)]
struct Pruned {
    images: u64,
    checkpoints: u64,
    freed_bytes: u64,
    kept: Vec<UnknownImage>,
}

impl Pruned {
    /// What is none of fsage's stays.
    fn strange(&mut self, keys: Vec<String>) {
        self.kept.extend(keys.into_iter().map(|key| UnknownImage { key, why: STRANGE.to_owned() }));
    }
}

pub(super) fn prune(args: &PruneArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let store = existing(&args.store)?;
    // No run may be restoring one meanwhile.
    let _lock = store::lock(store.root()).map_err(problem)?;
    let mut pruned = Pruned::default();
    prune_images(&Images::of(store.root()), args.all, &mut pruned)?;
    prune_checkpoints(&store, args.all, &mut pruned)?;
    let Pruned { images, checkpoints, freed_bytes, kept } = pruned;
    if terminal.json {
        terminal.json(&json!({
            "removed": images, "removed_checkpoints": checkpoints, "freed_bytes": freed_bytes, "kept": kept,
        }))?;
    } else {
        let mut what = text::plural(images, "image", "images");
        if checkpoints > 0 {
            what = format!("{what} and {}", text::plural(checkpoints, "checkpoint", "checkpoints"));
        }
        terminal.result(&format!("{what} removed, {} freed\n", text::size(freed_bytes)))?;
        for UnknownImage { key, why } in &kept {
            terminal.note(&format!("note: {} is kept: {why}", escape::line(key)));
        }
    }
    Ok(EXIT_OK)
}

fn prune_images(images: &Images, all: bool, pruned: &mut Pruned) -> Result<(), Problem> {
    let mut strange = Vec::new();
    for image in images.unknown().map_err(problem)? {
        if !all {
            pruned.kept.push(image);
            continue;
        }
        let bytes = std::fs::metadata(images.path(&image.key)).map_or(0, |file| file.len());
        if images.remove(&image.key).map_err(problem)? {
            pruned.freed_bytes += bytes;
            pruned.images += 1;
        } else {
            strange.push(image.key);
        }
    }
    let kernel = running_kernel();
    for record in images.list() {
        match of_another_kernel(&about(&record).1, &kernel) {
            Err(why) if !all => pruned.kept.push(UnknownImage { key: record.key, why }),
            Ok(false) if !all => {}
            _ if images.remove(&record.key).map_err(problem)? => {
                pruned.freed_bytes = pruned.freed_bytes.saturating_add(record.file_bytes);
                pruned.images += 1;
            }
            _ => strange.push(record.key),
        }
    }
    let swept = images.sweep().map_err(problem)?;
    pruned.freed_bytes += swept.freed_bytes;
    pruned.strange(strange);
    pruned.strange(swept.strange);
    Ok(())
}

fn prune_checkpoints(store: &Store, all: bool, pruned: &mut Pruned) -> Result<(), Problem> {
    let found = Checkpoint::all(store.root()).map_err(problem)?;
    pruned.strange(found.strange);
    for checkpoint in found.checkpoints {
        match is_continued(store, checkpoint.trial()) {
            Err(why) if !all => {
                let key = format!("checkpoint of trial {}", checkpoint.trial());
                pruned.kept.push(UnknownImage { key, why });
            }
            Ok(true) if !all => {}
            _ => {
                let swept = checkpoint.sweep().map_err(problem)?;
                pruned.freed_bytes = pruned.freed_bytes.saturating_add(swept.freed_bytes);
                // What is left of one is none.
                pruned.checkpoints += u64::from(swept.freed_bytes > 0);
                pruned.strange(swept.strange);
            }
        }
    }
    Ok(())
}

/// Whether a run of the study as it was run last continues a trial from its checkpoint.
///
/// # Errors
/// In words, when the trial's record cannot be read.
fn is_continued(store: &Store, trial: &str) -> Result<bool, String> {
    let planned = store.plan().trials.iter().any(|planned| planned.id == trial);
    let done = store.trial_without_stages(trial)?;
    Ok(planned && done.is_none_or(|record| record.status != TrialStatus::Complete))
}

/// Says what checkpoints there are beside the images.
fn note_checkpoints(store: &Store, terminal: &Terminal) -> Result<(), Problem> {
    for checkpoint in Checkpoint::all(store.root()).map_err(problem)?.checkpoints {
        let next = match is_continued(store, checkpoint.trial()) {
            Ok(true) => "`fsage run` continues from it",
            Ok(false) => "no run continues from it: `fsage image prune` removes it",
            Err(_) => "the trial's record cannot be read",
        };
        let bytes = text::size(checkpoint.bytes().map_err(problem)?);
        terminal.note(&format!("note: checkpoint of trial {}, {bytes}: {next}", checkpoint.trial()));
    }
    Ok(())
}

/// The running kernel, as images name it; empty when it does not tell.
fn running_kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Whether an image made under one kernel is of no use under the running one.
///
/// # Errors
/// In words, when one of the two is not known: then nothing is known about the image.
fn of_another_kernel(made_under: &str, running: &str) -> Result<bool, String> {
    if made_under.is_empty() {
        return Err("its record does not name the kernel it was made under".to_owned());
    }
    if running.is_empty() {
        return Err(format!(
            "it was made under kernel {made_under}, and the release of the running kernel is unknown"
        ));
    }
    Ok(made_under != running)
}

fn existing(store: &std::path::Path) -> Result<Store, Problem> {
    // The plan is read: a folder that only looks like a store is somebody's.
    Store::open(store).map_err(problem)
}

fn problem(error: StoreError) -> Problem {
    let (code, hint) = (error.exit_code(), error.hint());
    let problem = Problem::new(code, "cannot change the images").because(&error);
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_a_name_is_not_another_kernel() {
        assert_eq!(of_another_kernel("6.1.0", "6.1.0"), Ok(false));
        assert_eq!(of_another_kernel("6.1.0", "6.2.0"), Ok(true));
        for (made_under, running) in [("", "6.1.0"), ("6.1.0", ""), ("", "")] {
            assert!(of_another_kernel(made_under, running).is_err(), "{made_under:?} {running:?}");
        }
        assert!(!running_kernel().is_empty());
    }
}
