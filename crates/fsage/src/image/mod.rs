//! Images from the lab's side: what has to be taken from the host to save or restore one, leased before it is taken.
//!
//! The agent reads and writes (`fsage_engine::image`). To know which blocks of a volume are in use it needs the file system
//! mounted without a byte being written: [`save`] attaches a read-only loop device over the volume and mounts that, so
//! that the kernel itself refuses a file system whose log it would have to replay. [`restore`] goes through the safety rules of
//! [`crate::volume`].

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

use std::path::{Path, PathBuf};

use fsage_engine::image::ImageSummary;
use fsage_engine::protocol::{Reply, Request};

use crate::target::{Incoming, Session};
use crate::volume::unexpected;

/// Asks for an image's summary: `request` is one of `Request::Image…`.
///
/// # Errors
/// What the agent says.
pub fn ask(
    session: &mut Session,
    request: Request,
    incoming: &mut dyn FnMut(Incoming),
) -> Result<ImageSummary, ImageError> {
    match session.call(request, incoming)? {
        Reply::Image { summary } => Ok(*summary),
        other => Err(unexpected("image", &other).into()),
    }
}

/// Loop devices over a file or device, by the kernel's word.
fn loops_over(path: &Path) -> Vec<PathBuf> {
    fsage_sys::loopdev::by_backing_file(path).unwrap_or_default()
}
