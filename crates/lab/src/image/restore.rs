//! Restoring an image on a volume.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use fsage_model::image::ImageSummary;
use fsage_model::protocol::call;
use fsage_model::study::{QueueSpec, VolumeSpec};

use super::{Hold, ImageError, check_detached};
use crate::lease::Journal;
use crate::target::{Incoming, Session};
use crate::volume::{self, EraseConsent};

/// How to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// The image.
    pub file: PathBuf,
    /// A block device, a file that holds a volume, or the name of one that is to be made.
    pub volume: PathBuf,
    /// What may be erased.
    pub consent: EraseConsent,
    /// Discard the volume first.
    pub trim: bool,
    /// 0: as many as suit.
    pub threads: u32,
}

/// A restore that came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Restored {
    /// What the image holds.
    pub summary: ImageSummary,
    /// The volume was a file that was made.
    pub made: bool,
}

/// Restores a volume: a device by the rules of [`volume::safety`], a file that exists only when `--erase`
/// names it.
///
/// # Errors
/// See [`ImageError`]. What is refused is refused before the first write; a file that was made is removed.
pub fn restore(
    session: &mut Session,
    journal: &mut Journal,
    restore: &Restore,
    incoming: &mut dyn FnMut(Incoming),
) -> Result<Restored, ImageError> {
    let path = std::path::absolute(&restore.volume).map_err(ImageError::path(&restore.volume))?;
    let file = restore.file.canonicalize().map_err(ImageError::path(&restore.file))?;
    let request = |device: PathBuf| call::ImageRestore {
        file: file.clone(),
        device,
        trim: restore.trim,
        threads: restore.threads,
    };
    let is_device = path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
    if is_device || path.starts_with("/dev") {
        let spec =
            VolumeSpec::Device { path: restore.volume.clone(), scheduler: None, queue: QueueSpec::default() };
        let volume = volume::resolve(&spec, &restore.consent, folder_of(&file))?;
        let acquired = volume.acquire(session, journal, "image")?;
        let outcome = session.call_with(request(acquired.device.clone()), incoming);
        let released = volume.release(acquired, session, journal);
        let summary = outcome?;
        released?;
        return Ok(Restored { summary, made: false });
    }
    let mut hold = Hold::default();
    // A link is there too, wherever it leads; the agent refuses it.
    let made = path.symlink_metadata().is_err();
    let outcome = (|| {
        if made {
            hold.file(journal, &path)?;
        } else if restore.consent.for_path(&restore.volume).is_none() {
            return Err(ImageError::Exists { path: restore.volume.clone() });
        } else {
            check_detached(&path, &restore.volume)?;
        }
        let summary = session.call_with(request(path.clone()), incoming)?;
        if made {
            hold.keep_last(journal)?;
        }
        Ok(Restored { summary, made })
    })();
    hold.release(session, journal, outcome)
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}
