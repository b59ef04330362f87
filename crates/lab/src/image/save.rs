//! Saving a volume as an image.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use fsage_engine::image::{check_outside, check_place};
use fsage_model::filesystem;
use fsage_model::image::ImageSummary;
use fsage_model::protocol::call;
use fsage_sys::folder::Folder;
use fsage_sys::new_file;

use super::{Hold, ImageError, check_detached};
use crate::lease::Journal;
use crate::target::{Incoming, Session};

/// How to save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Save {
    /// The volume: a block device, or a file that holds one.
    pub volume: PathBuf,
    /// The image.
    pub file: PathBuf,
    /// Every block, used or not.
    pub all_blocks: bool,
    /// Where the volume is mounted and frozen; nothing: it is not mounted.
    pub frozen: Option<PathBuf>,
    /// Where its file system may be mounted read-only for the time of the save: an absolute path where
    /// nothing is.
    pub point: PathBuf,
    /// Of zstd, 1 to 19.
    pub level: i32,
    /// 0: as many as suit.
    pub threads: u32,
    /// What to write into the image about where it comes from.
    pub facts: BTreeMap<String, String>,
}

/// How the used blocks were known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsedBy {
    /// By the word of the file system.
    FileSystem,
    /// They were not asked for.
    NotAsked,
    /// Nothing is known of this file system (empty: none was recognised), so every block was saved.
    Unknown(String),
}

/// A save that came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// What the image holds.
    pub summary: ImageSummary,
    /// How the used blocks were known.
    pub used_by: UsedBy,
}

/// Saves a volume. Everything taken for it is released, also after an error.
///
/// # Errors
/// See [`ImageError`]; then there is no new image, and an older one of the same name is still there.
pub fn save(
    session: &mut Session,
    journal: &mut Journal,
    save: &Save,
    incoming: &mut dyn FnMut(Incoming),
) -> Result<Saved, ImageError> {
    let volume = save.volume.canonicalize().map_err(ImageError::path(&save.volume))?;
    let file = std::path::absolute(&save.file).map_err(ImageError::path(&save.file))?;
    // Before anything is opened: on a frozen file system that would wait for ever.
    if let Some(point) = &save.frozen {
        check_outside(&file, point)?;
    }
    // Before hours of work, not after.
    let folder = Folder::of(&file).map_err(ImageError::path(&save.file))?.0;
    new_file::check_owner(&folder).map_err(ImageError::path(&save.file))?;
    check_place(&file, &volume)?;
    let mut hold = Hold::default();
    let outcome = (|| {
        let (point, used_by) = match &save.frozen {
            Some(point) if save.all_blocks => (Some(point.clone()), UsedBy::NotAsked),
            Some(point) => (Some(point.clone()), UsedBy::FileSystem),
            None => look(session, journal, &mut hold, save, &volume)?,
        };
        let call = call::ImageSave {
            device: volume.clone(),
            point,
            frozen: save.frozen.is_some(),
            all_blocks: save.all_blocks,
            file,
            level: save.level,
            threads: save.threads,
            facts: save.facts.clone(),
        };
        let summary = session.call_with(call, incoming)?;
        Ok(Saved { summary, used_by })
    })();
    hold.release(session, journal, outcome)
}

/// Mounts the volume so that its file system can be asked; where it can.
fn look(
    session: &mut Session,
    journal: &mut Journal,
    hold: &mut Hold,
    save: &Save,
    volume: &Path,
) -> Result<(Option<PathBuf>, UsedBy), ImageError> {
    if save.all_blocks {
        return Ok((None, UsedBy::NotAsked));
    }
    check_detached(volume, &save.volume)?;
    let kind = volume.metadata().map_err(ImageError::path(volume))?.file_type();
    // xfs does not mount on sectors larger than those it was made with.
    let sector_bytes = if kind.is_block_device() {
        session.call(call::BlockFacts { device: volume.to_owned() })?.sector_bytes
    } else {
        512
    };
    let attach = call::LoopAttachReadOnly { file: volume.to_owned(), sector_bytes };
    let device = hold.attach(session, journal, volume, attach)?;
    let signature = session.call(call::BlockFacts { device: device.clone() })?.signature;
    let Some(facts) = filesystem::by_name(&signature).filter(|row| row.free_space.is_some()) else {
        hold.release_to(0, session, journal)?;
        return Ok((None, UsedBy::Unknown(signature)));
    };
    // Its identity may be mounted elsewhere: a clone.
    let options = [&["ro"], facts.clone_options].concat();
    match hold.mount(session, journal, &device, &save.point, (facts.name, &options)) {
        // What a file system answers that would have to write.
        Err(ImageError::Target(error)) if error.errno().map(fsage_sys::errno::name) == Some("EROFS") => {
            Err(ImageError::Dirty { volume: save.volume.clone(), file_system: signature })
        }
        mounted => mounted.map(|()| (Some(save.point.clone()), UsedBy::FileSystem)),
    }
}
