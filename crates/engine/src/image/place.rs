//! Where an image may come: nothing that is there may be lost to it but an older image, and a frozen file
//! system cannot take it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::ImageError;
use super::format::MAGIC;
use crate::host::mount;

/// Whether an image of `volume` may take the place of what is at `file`: of nothing, of an empty file, or of
/// an image. Links are not followed, because the image would replace the link.
///
/// # Errors
/// [`ImageError::Place`] when something else is there, [`ImageError::File`] when it cannot be inspected.
pub fn check_place(file: &Path, volume: &Path) -> Result<(), ImageError> {
    let found = match file.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ImageError::file("inspect", file)(error)),
    };
    let taken = |what| Err(ImageError::Place { path: file.to_owned(), what });
    if !found.file_type().is_file() {
        return taken("it is not an ordinary file");
    }
    let own = fs::metadata(volume).map_err(ImageError::file("find", volume))?;
    if (own.dev(), own.ino()) == (found.dev(), found.ino()) {
        return taken("it is the volume itself");
    }
    let mut start = Vec::new();
    // It may not be what was found any more: neither a link is followed nor a pipe waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let content = rustix::fs::openat(rustix::fs::CWD, file, flags, Mode::empty());
    let content = File::from(content.map_err(|errno| ImageError::file("open", file)(errno.into()))?);
    let opened = content.metadata().map_err(ImageError::file("inspect", file))?;
    if (opened.dev(), opened.ino()) != (found.dev(), found.ino()) {
        return taken("it is not what was there a moment ago");
    }
    let mut content = content.take(8);
    content.read_to_end(&mut start).map_err(ImageError::file("read", file))?;
    if start.is_empty() || start == MAGIC { Ok(()) } else { taken("it is not an image") }
}

/// Whether an image of the frozen file system at `point` can be written to `file`: not into itself, where the
/// kernel lets every write wait until it is thawed, out of reach of signals. Opens nothing.
///
/// # Errors
/// [`ImageError::Inside`] when it cannot, [`ImageError::File`] when one of the two is not there.
pub fn check_outside(file: &Path, point: &Path) -> Result<(), ImageError> {
    let folder = folder_of(file).canonicalize().map_err(ImageError::file("find the folder of", file))?;
    let frozen = point.canonicalize().map_err(ImageError::file("find", point))?;
    let number = |path: &Path| Ok(fs::metadata(path).map_err(ImageError::file("inspect", path))?.dev());
    // Subvolumes of btrfs have numbers of their own; the table has one for all.
    let table = mount::table();
    let mounted = |path: &Path| {
        let holding = table.iter().filter(|entry| path.starts_with(&entry.point));
        // The last of the deepest covers the others.
        holding.max_by_key(|entry| entry.point.components().count()).map(|entry| &entry.device_number)
    };
    let same = mounted(&folder).is_some_and(|found| mounted(&frozen) == Some(found));
    if same || number(&folder)? == number(&frozen)? {
        return Err(ImageError::Inside { path: file.to_owned(), point: point.to_owned() });
    }
    Ok(())
}

/// The folder that a file is in.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(file: &Path, volume: &Path) -> &'static str {
        match check_place(file, volume) {
            Err(ImageError::Place { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_image_is_not_written_into_what_is_frozen() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        let refused = check_outside(&below.join("image"), folder.path()).unwrap_err();
        assert!(matches!(refused, ImageError::Inside { .. }), "{refused}");
        assert!(refused.hint().contains("another file system"));
        check_outside(&below.join("image"), Path::new("/proc")).unwrap();
        let missing = check_outside(&below.join("none/image"), Path::new("/proc")).unwrap_err();
        assert!(matches!(missing, ImageError::File { .. }), "{missing}");
    }

    #[test]
    fn only_an_older_image_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, volume) = (folder.path().join("file"), folder.path().join("volume"));
        fs::write(&volume, b"").unwrap();
        check_place(&file, &volume).unwrap();
        for content in [&b""[..], b"fsageIMG", b"fsageIMG and more"] {
            fs::write(&file, content).unwrap();
            check_place(&file, &volume).unwrap();
        }
        for content in [&b"f"[..], b"fsageIM", b"fsageIMg", b"\0fsageIMG", &[0; 4096]] {
            fs::write(&file, content).unwrap();
            assert_eq!(refused(&file, &volume), "it is not an image");
        }
        assert_eq!(refused(&volume, &volume), "it is the volume itself");
        let other = folder.path().join("other");
        fs::hard_link(&volume, &other).unwrap();
        assert_eq!(refused(&other, &volume), "it is the volume itself");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nothing", &link).unwrap();
        for special in [&link, Path::new("/dev/null"), folder.path()] {
            assert_eq!(refused(special, &volume), "it is not an ordinary file");
        }
    }
}
