//! Images from the lab's side: what has to be taken from the host to save or restore one, leased before it is
//! taken.
//!
//! The agent reads and writes (`fsage_engine::image`). To know which blocks of a volume are in use it needs
//! the file system mounted without a byte being written: [`save`] attaches a read-only loop device over the
//! volume and mounts that, so that the kernel itself refuses a file system whose log it would have to replay.
//! [`restore`] goes through the safety rules of [`crate::volume`].

mod error;
mod foreign;
mod hold;
mod restore;
mod save;
mod workplace;

pub use error::ImageError;
pub use foreign::{Export, Format, Import, export, import};
pub use hold::Hold;
pub use restore::{Restore, Restored, restore};
pub use save::{Save, Saved, UsedBy, save};
pub use workplace::Workplace;

use std::path::Path;

/// Refuses a volume, called `named` by the user, that the kernel has behind a loop device.
///
/// # Errors
/// [`ImageError::Attached`]; [`ImageError::Loops`] when the kernel cannot be asked.
fn check_detached(path: &Path, named: &Path) -> Result<(), ImageError> {
    let devices = fsage_sys::loopdev::by_backing_file(path)
        .map_err(|source| ImageError::Loops { volume: named.to_owned(), source })?;
    match devices.into_iter().next() {
        None => Ok(()),
        Some(device) => Err(ImageError::Attached { volume: named.to_owned(), device }),
    }
}
