//! `fsage image list` and `fsage image prune`: the images that a store keeps of aged volumes.

use std::path::PathBuf;

use clap::Args;
use fsage_model::escape;
use fsage_model::problem::{EXIT_OK, Explain, Problem};
use serde_json::json;

use super::terminal::Terminal;
use super::text;
use fsage_lab::store::images::{ImageRecord, Images, UnknownImage};
use fsage_lab::store::{self, StoreError};

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
Without --all it removes what can never be used again: incomplete images of killed runs, and images made under another
kernel. Trials that are done do not need their images; others make them again. Images that this fsage cannot judge, because
a newer one made them or their kernel is not known, are kept and listed, and so are files whose names are not those of images.")]
pub struct PruneArgs {
    /// The store
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Every image
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
    let images = Images::of(&existing(&args.store)?);
    let records = images.list();
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

/// Why a file in the place of an image stays.
const STRANGE: &str = "it has no name or beginning of an image's files";

pub(super) fn prune(args: &PruneArgs, terminal: &Terminal) -> Result<u8, Problem> {
    let root = existing(&args.store)?;
    let images = Images::of(&root);
    // No run may be restoring one meanwhile.
    let _lock = store::lock(&root).map_err(problem)?;
    let mut kept = images.unknown().map_err(problem)?;
    let (mut removed, mut freed) = (0_u64, 0_u64);
    if args.all {
        let mut strange = Vec::new();
        for image in kept.drain(..) {
            let bytes = std::fs::metadata(images.path(&image.key)).map_or(0, |file| file.len());
            if images.remove(&image.key).map_err(problem)? {
                (freed, removed) = (freed + bytes, removed + 1);
            } else {
                strange.push(UnknownImage { why: STRANGE.to_owned(), ..image });
            }
        }
        kept = strange;
    }
    let kernel = running_kernel();
    for record in images.list() {
        match of_another_kernel(&about(&record).1, &kernel) {
            Err(why) if !args.all => kept.push(UnknownImage { key: record.key, why }),
            Ok(false) if !args.all => {}
            _ if images.remove(&record.key).map_err(problem)? => {
                freed = freed.saturating_add(record.file_bytes);
                removed += 1;
            }
            _ => kept.push(UnknownImage { key: record.key, why: STRANGE.to_owned() }),
        }
    }
    let swept = images.sweep().map_err(problem)?;
    freed += swept.freed_bytes;
    kept.extend(swept.strange.into_iter().map(|key| UnknownImage { key, why: STRANGE.to_owned() }));
    if terminal.json {
        terminal.json(&json!({"removed": removed, "freed_bytes": freed, "kept": kept}))?;
    } else {
        let what = text::plural(removed, "image", "images");
        terminal.result(&format!("{what} removed, {} freed\n", text::size(freed)))?;
        for UnknownImage { key, why } in &kept {
            terminal.note(&format!("note: {} is kept: {why}", escape::line(key)));
        }
    }
    Ok(EXIT_OK)
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
        return Err("its record does not tell the kernel it was made under".to_owned());
    }
    if running.is_empty() {
        return Err(format!(
            "it was made under kernel {made_under}, and the running one does not tell its name"
        ));
    }
    Ok(made_under != running)
}

fn existing(store: &std::path::Path) -> Result<PathBuf, Problem> {
    // The plan is read: a folder that only looks like a store is somebody's.
    store::Store::open(store).map(|store| store.root().to_owned()).map_err(problem)
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
