//! Images of others: made from ours, and ours from them, by the file systems' own tools.
//!
//! Those hold metadata only. What is imported from one has files whose blocks were never written;
//! materialising writes self-describing data into the blocks that the files have, in place. Not on btrfs: its
//! metadata holds a checksum of every block of data, so data that is written would have to go elsewhere, and
//! the layout that the image was taken for would be another.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fsage_engine::image::check_place;
use fsage_model::filesystem::{self, FileSystemFacts, MetadataImage};
use fsage_model::image::ImageSummary;
use fsage_model::protocol::call;
use fsage_sys::folder::Folder;
use fsage_sys::new_file;
use rustix::fs::{OFlags, RenameFlags, renameat_with};

use super::{Hold, ImageError, Save, Saved, save};
use crate::lease::Journal;
use crate::target::{Incoming, Session};
use crate::tools::{Invocation, ToolError, btrfs_image, e2image, xfs_mdrestore, xfs_metadump};

/// A format of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Of e2image, for ext2, ext3 and ext4: QCOW2, when read also raw
    E2image,
    /// Of xfs_metadump, for xfs
    XfsMetadump,
    /// Of btrfs-image, for btrfs
    BtrfsImage,
}

impl Format {
    fn holds(self, file_system: &str) -> bool {
        Self::of(file_system) == Some(self)
    }

    /// The file system that stands for all it holds: ext4 mounts ext2 and ext3, too.
    fn facts(self) -> Option<&'static FileSystemFacts> {
        filesystem::ALL.iter().find(|row| self.holds(row.name)).copied()
    }

    fn of(file_system: &str) -> Option<Self> {
        Some(match filesystem::by_name(file_system)?.metadata_image? {
            MetadataImage::E2image => Self::E2image,
            MetadataImage::XfsMetadump => Self::XfsMetadump,
            MetadataImage::BtrfsImage => Self::BtrfsImage,
        })
    }

    fn dump(self, volume: &str, image: &str) -> Invocation {
        match self {
            Self::E2image => e2image::dump(volume, image),
            Self::XfsMetadump => xfs_metadump::dump(volume, image),
            Self::BtrfsImage => btrfs_image::dump(volume, image),
        }
    }

    fn restore(self, image: &str, volume: &str) -> Invocation {
        match self {
            Self::E2image => e2image::restore(image, volume),
            Self::XfsMetadump => xfs_mdrestore::restore(image, volume),
            Self::BtrfsImage => btrfs_image::restore(image, volume),
        }
    }
}

/// An image of others to be made ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Its format.
    pub format: Format,
    /// The image of others.
    pub source: PathBuf,
    /// Ours. A folder with a volume of the full size, sparse, lies beside it meanwhile.
    pub file: PathBuf,
    /// Write data into the files' blocks.
    pub materialise: bool,
    /// An absolute path where the volume may be mounted.
    pub point: PathBuf,
    /// Of zstd.
    pub level: i32,
    /// 0: as many as suit.
    pub threads: u32,
}

/// Makes an image of one of others.
///
/// # Errors
/// See [`ImageError`]; then there is no new image. Materialising is refused on btrfs.
pub fn import(
    session: &mut Session,
    journal: &mut Journal,
    import: &Import,
    incoming: &mut dyn FnMut(Incoming),
) -> Result<Saved, ImageError> {
    let copy_on_write = import.format.facts().filter(|row| row.copy_on_write);
    if let (true, Some(row)) = (import.materialise, copy_on_write) {
        return Err(ImageError::Materialise {
            file_system: row.name.to_owned(),
            why: "its metadata holds a checksum of every block of data, which new data would not match, and what \
                  is written again goes to other blocks",
        });
    }
    let source = import.source.canonicalize().map_err(ImageError::path(&import.source))?;
    let read = open_source(&source).map_err(ImageError::path(&source))?;
    let file = std::path::absolute(&import.file).map_err(ImageError::path(&import.file))?;
    let place = Place::beside(&file)?;
    check_place(&file, &source)?;
    let volume = place.path.join(VOLUME);
    let mut hold = Hold::default();
    let outcome = (|| {
        let inner = place.make(&mut hold, journal)?;
        let made = inner.make(&mut hold, journal, VOLUME)?;
        let (from, to) = (open_path(read.as_fd()), open_path(made.as_fd()));
        let done = import.format.restore(&from, &to).run_checked(session);
        done.map_err(|error| named(error, &[(&from, &source), (&to, &volume)]))?;
        if import.materialise {
            materialise(session, journal, &mut hold, import, &volume)?;
        }
        let name = format!("{:?}", import.format).to_lowercase();
        let wanted = Save {
            volume: volume.clone(),
            file,
            all_blocks: false,
            frozen: None,
            point: import.point.clone(),
            level: import.level,
            threads: import.threads,
            facts: BTreeMap::from([
                ("imported from".to_owned(), name),
                ("data".to_owned(), if import.materialise { "materialised" } else { "missing" }.to_owned()),
            ]),
        };
        save(session, journal, &wanted, incoming)
    })();
    hold.release(session, journal, outcome)
}

/// One of our images to be written in a format of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Ours.
    pub file: PathBuf,
    /// The image of others, which must not be there. A folder with a volume of the full size, sparse, lies
    /// beside it meanwhile.
    pub target: PathBuf,
    /// Its format; nothing: that of the file system.
    pub format: Option<Format>,
    /// 0: as many as suit.
    pub threads: u32,
}

/// Writes the metadata of an image in a format of others. The data is left out.
///
/// # Errors
/// See [`ImageError`]; then the target is not there.
pub fn export(
    session: &mut Session,
    journal: &mut Journal,
    export: &Export,
    incoming: &mut dyn FnMut(Incoming),
) -> Result<ImageSummary, ImageError> {
    let file = export.file.canonicalize().map_err(ImageError::path(&export.file))?;
    let target = std::path::absolute(&export.target).map_err(ImageError::path(&export.target))?;
    if target.symlink_metadata().is_ok() {
        return Err(ImageError::Exists { path: export.target.clone() });
    }
    let summary = session.call_with(call::ImageInfo { file: file.clone() }, incoming)?;
    let kind = &summary.header.file_system;
    let Some(format) = export.format.or_else(|| Format::of(kind)).filter(|format| format.holds(kind)) else {
        let kind = if kind.is_empty() { "no known file system" } else { kind };
        return Err(ImageError::Format {
            what: format!("{} holds {kind}, which that format does not support", export.file.display()),
        });
    };
    let place = Place::beside(&target)?;
    let volume = place.path.join(VOLUME);
    let mut hold = Hold::default();
    let outcome = (|| {
        let inner = place.make(&mut hold, journal)?;
        let read = inner.make(&mut hold, journal, VOLUME)?;
        let restore =
            call::ImageRestore { file, device: volume.clone(), trim: false, threads: export.threads };
        session.call_with(restore, incoming)?;
        let made = inner.make(&mut hold, journal, IMAGE)?;
        let (from, to) = (open_path(read.as_fd()), open_path(made.as_fd()));
        let done = format.dump(&from, &to).run_checked(session);
        done.map_err(|error| named(error, &[(&from, &volume), (&to, &export.target)]))?;
        renameat_with(&inner.folder, IMAGE, &place.folder, &place.name, RenameFlags::NOREPLACE)
            .map_err(|error| ImageError::path(&export.target)(error.into()))?;
        Ok(summary)
    })();
    hold.release(session, journal, outcome)
}

/// Name of the volume that is made on the way.
const VOLUME: &str = "volume";

/// Name of the image of others before it is complete.
const IMAGE: &str = "image";

/// A folder to be made beside a file, for what is made on the way. The programs follow links and open files late:
/// they get files that are open ([`open_path`]), so that it does not matter what has their names then, and the
/// folders are held.
struct Place {
    /// The folder that the file is or will be in.
    folder: Folder,
    /// The file's name.
    name: OsString,
    /// The folder beside it, which is not there yet.
    path: PathBuf,
}

/// The folder that was made.
struct Inner {
    folder: Folder,
    path: PathBuf,
}

impl Place {
    fn beside(file: &Path) -> Result<Self, ImageError> {
        let (folder, name) = Folder::of(file).map_err(ImageError::path(file))?;
        new_file::check_owner(&folder).map_err(ImageError::path(file))?;
        let path = file.with_file_name(new_file::temporary_name(&name));
        Ok(Self { folder, name, path })
    }

    fn make(&self, hold: &mut Hold, journal: &mut Journal) -> Result<Inner, ImageError> {
        hold.directory(journal, &self.path)?;
        let folder = Folder::open(&self.path).map_err(ImageError::path(&self.path))?;
        Ok(Inner { folder, path: self.path.clone() })
    }
}

impl Inner {
    /// Makes a file here, open.
    fn make(&self, hold: &mut Hold, journal: &mut Journal, name: &str) -> Result<File, ImageError> {
        let path = self.path.join(name);
        hold.file(journal, &path)?;
        self.folder.open_own(name.as_ref(), false, 0o600).map_err(ImageError::path(&path))
    }
}

/// Opens an image of others or a block device with one, without waiting for a pipe.
fn open_source(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a file nor a block device"))
}

/// A path by which programs open a file that this process has open.
fn open_path(file: BorrowedFd<'_>) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// An error of a program with the names that the user knows in the place of the paths it was given.
fn named(error: ToolError, names: &[(&str, &Path)]) -> ToolError {
    let with_names = |text: String| {
        names.iter().fold(text, |text, (path, name)| text.replace(path, &name.display().to_string()))
    };
    match error {
        ToolError::Status { command, status, tail } => {
            ToolError::Status { command: with_names(command), status, tail: with_names(tail) }
        }
        other => other,
    }
}

fn materialise(
    session: &mut Session,
    journal: &mut Journal,
    hold: &mut Hold,
    import: &Import,
    volume: &Path,
) -> Result<(), ImageError> {
    let kept = hold.len();
    let attach = call::LoopAttach {
        file: volume.to_owned(),
        size_bytes: None,
        sector_bytes: 512,
        direct_io: false,
        part: None,
    };
    let device = hold.attach(session, journal, volume, attach)?;
    if let Some(row) = import.format.facts() {
        let options = [row.clone_options, &["noatime"]].concat();
        hold.mount(session, journal, &device, &import.point, (row.name, &options))?;
    }
    session.call(call::ImageMaterialise { directory: import.point.clone() })?;
    hold.release_to(kept, session, journal)
}
