//! Giving the files of a metadata image their data back: self-describing data in the blocks that they have.
//!
//! Every mapped, written extent of every regular file is written in place; holes and preallocated space stay
//! as they are, and so does the layout, unless extents are shared (xfs reflinks): those are copied by the
//! file system. Access and modification times are kept, change times are not. The file number of the data is
//! the inode's.

use std::fs::{self, File, FileTimes};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use fsage_model::image::BLOCK_BYTES;
use fsage_sys::fiemap::{DATA_INLINE, DELALLOC, ENCODED, Reader, UNKNOWN, UNWRITTEN};
use rustix::fs::{Mode, OFlags};

use super::{ImageError, as_u64, go_on};
use crate::load::Control;
use crate::location::Anchor;

/// Bytes written at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// Writes every file below `directory`, on its file system only.
///
/// # Errors
/// A directory or file cannot be read or written.
pub fn materialise(directory: &Path, control: &Control) -> Result<(), ImageError> {
    let root = Anchor::at(directory).map_err(|errno| ImageError::file("open", directory)(errno.into()))?;
    let device = fs::metadata(root.held()).map_err(ImageError::file("inspect", directory))?.dev();
    let mut waiting = vec![PathBuf::new()];
    let mut reader = Reader::new();
    let mut buffer = vec![0; usize::try_from(CHUNK_BYTES).unwrap_or(0)];
    while let Some(folder) = waiting.pop() {
        let shown = directory.join(&folder);
        let entries = fs::read_dir(root.held().join(&folder)).map_err(ImageError::file("read", &shown))?;
        for entry in entries {
            go_on(control)?;
            let entry = entry.map_err(ImageError::file("read", &shown))?;
            let below = folder.join(entry.file_name());
            let path = directory.join(&below);
            let metadata = entry.metadata().map_err(ImageError::file("inspect", &path))?;
            if metadata.is_dir() && metadata.dev() == device {
                waiting.push(below);
            } else if metadata.is_file() && metadata.len() > 0 {
                let file = root.open(&below, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
                let file = file.map_err(|errno| ImageError::file("open", &path)(errno.into()))?.into();
                write(&file, &path, &metadata, &mut reader, &mut buffer)?;
            }
        }
    }
    crate::host::cache::sync(&root.held())
        .map_err(|_| ImageError::file("sync", directory)(std::io::Error::from(std::io::ErrorKind::Other)))
}

fn write(
    file: &File,
    path: &PathBuf,
    metadata: &fs::Metadata,
    reader: &mut Reader,
    buffer: &mut [u8],
) -> Result<(), ImageError> {
    let mut extents = Vec::new();
    reader
        .visit(file.as_fd(), |extent| {
            if extent.flags & (UNKNOWN | DELALLOC | ENCODED | DATA_INLINE | UNWRITTEN) == 0 {
                extents.push((extent.logical, extent.length));
            }
        })
        .map_err(|source| ImageError::Used { device: path.clone(), source })?;
    for (start, length) in extents {
        let end = start.saturating_add(length).min(metadata.len());
        let mut offset = start - start % BLOCK_BYTES;
        while offset < end {
            let step = (end - offset).min(CHUNK_BYTES);
            let data = &mut buffer[..super::as_usize(step)];
            fsage_content::fill(data, metadata.ino(), offset, 1);
            let skip = super::as_usize(start.saturating_sub(offset));
            file.write_all_at(&data[skip..], offset + as_u64(skip))
                .map_err(ImageError::file("write", path))?;
            offset += step;
        }
    }
    keep_times(file, metadata).map_err(ImageError::file("set the times of", path))
}

fn keep_times(file: &File, metadata: &fs::Metadata) -> std::io::Result<()> {
    file.set_times(FileTimes::new().set_accessed(metadata.accessed()?).set_modified(metadata.modified()?))
}
