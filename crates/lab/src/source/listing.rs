//! A tree as it was at one time: what a directory or a tar file says of it, and the history of several.
//!
//! Every name is a file of its own, also where two are hard links of one file. A symbolic link is a file of
//! its target's length; a sparse file counts with its whole length. Devices, pipes and sockets are left out,
//! and so are directories without a file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use fsage_engine::host::mount::number;
use fsage_engine::location::Anchor;
use fsage_model::size::Bytes;
use fsage_model::workload::RecordedHistory;
use fsage_sys::input::Unfit;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, statat};
use rustix::io::Errno;

use super::recorder::Recorder;
use super::{SourceError, tar};

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Bytes.
    pub size: u64,
    /// When it was last modified, in seconds since 1970.
    pub seconds: i64,
    /// The rest of that time; nothing where only seconds are known.
    pub nanoseconds: Option<u32>,
}

impl Facts {
    /// Whether a file with these facts then and `later` facts now was changed. Times are compared as exactly
    /// as both are known.
    fn changed(&self, later: &Self) -> bool {
        let finer = self.nanoseconds.zip(later.nanoseconds).is_some_and(|(then, now)| then != now);
        self.size != later.size || self.seconds != later.seconds || finer
    }
}

/// Files by their names from the top; parts are separated by `/`.
pub type Listing = BTreeMap<Vec<u8>, Facts>;

/// The history that goes from each of the listings to the next.
///
/// # Errors
/// Fewer than two, or one that cannot be read.
pub fn read(paths: &[PathBuf]) -> Result<RecordedHistory, SourceError> {
    if paths.len() < 2 {
        let message = format!("{} is too few: at least 2 listings", paths.len());
        let hint = "name the directories or tar files in chronological order";
        return Err(SourceError::TooFew { key: "paths", message, hint });
    }
    if let Some(history) = follow(paths, true)? {
        return Ok(history);
    }
    // The second reading is rare, and no reading needs more than two listings in memory.
    for path in paths {
        let failed = |source| SourceError::Read { path: path.clone(), source };
        let facts = std::fs::metadata(path).map_err(failed)?;
        if !facts.is_dir() && !facts.is_file() {
            let message = "it is a pipe and has to be read twice: make it a file";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
    }
    Ok(follow(paths, false)?.unwrap_or_default())
}

/// The history with names below the one top directory of each tar file, nothing when one of them has several;
/// or with names as they are.
fn follow(paths: &[PathBuf], below_top: bool) -> Result<Option<RecordedHistory>, SourceError> {
    let mut recorder = Recorder::default();
    let mut before = Listing::new();
    for path in paths {
        let (mut now, top) = list(path)?;
        if below_top {
            let Some(top) = top else { return Ok(None) };
            now = now.into_iter().map(|(name, facts)| (name[top..].to_vec(), facts)).collect();
        }
        advance(&mut recorder, &before, &now)?;
        before = now;
    }
    Ok(Some(recorder.finish()))
}

/// Records how one listing became the next.
fn advance(recorder: &mut Recorder, before: &Listing, now: &Listing) -> Result<(), SourceError> {
    recorder.begin()?;
    for (name, facts) in now {
        if before.get(name).is_none_or(|then| then.changed(facts)) {
            recorder.written(name, Bytes(facts.size))?;
        }
    }
    for name in before.keys().filter(|name| !now.contains_key(*name)) {
        recorder.removed(name)?;
    }
    Ok(())
}

/// A listing, and the length of its top directory's name as [`tar::read`] has it.
fn list(path: &Path) -> Result<(Listing, Option<usize>), SourceError> {
    let failed = |source| SourceError::Read { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok((directory(path)?, Some(0)));
    }
    tar::read(path)
}

/// The files below a directory. Other file systems mounted there are left out. Everything is reached from the
/// open directory, without following links: what is swapped for a link meanwhile leads nowhere else.
fn directory(top: &Path) -> Result<Listing, SourceError> {
    let failed = |inner: &Path, source: io::Error| SourceError::Read { path: top.join(inner), source };
    let anchor = Anchor::at(top).map_err(|error| failed(Path::new(""), error.into()))?;
    let mut listing = Listing::new();
    let mut pending = vec![PathBuf::new()];
    let mut mount = None;
    while let Some(inner) = pending.pop() {
        let folder = open_folder(&anchor, &inner).map_err(|source| failed(&inner, source))?;
        let own = number(folder.as_fd()).map_err(|error| failed(&inner, error.into()))?;
        if own != *mount.get_or_insert(own) {
            continue;
        }
        for entry in Dir::read_from(&folder).map_err(|error| failed(&inner, error.into()))? {
            let entry = entry.map_err(|error| failed(&inner, error.into()))?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            let name = inner.join(OsStr::from_bytes(entry.file_name().to_bytes()));
            let found = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let Some(found) = still_there(found).map_err(|source| failed(&name, source))? else { continue };
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => pending.push(name),
                FileType::RegularFile | FileType::Symlink => {
                    listing.insert(name.into_os_string().into_vec(), facts_of(&found));
                }
                _ => {}
            }
        }
    }
    Ok(listing)
}

/// Opens a directory below to read it.
fn open_folder(anchor: &Anchor, inner: &Path) -> io::Result<OwnedFd> {
    let inner = if inner.as_os_str().is_empty() { Path::new(".") } else { inner };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    match anchor.open_across(inner, flags, Mode::empty()) {
        Err(Errno::LOOP) => Err(Unfit::Link.into()),
        opened => Ok(opened?),
    }
}

/// What the kernel says of a file.
fn facts_of(found: &Stat) -> Facts {
    Facts {
        size: u64::try_from(found.st_size).unwrap_or(0),
        seconds: found.st_mtime,
        nanoseconds: u32::try_from(found.st_mtime_nsec).ok(),
    }
}

/// Nothing for what went away while the tree was read, as in one that is in use.
fn still_there<T>(found: Result<T, Errno>) -> io::Result<Option<T>> {
    match found {
        Err(Errno::NOENT) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// A name without what says nothing: leading and doubled slashes, and dots for the directory itself.
pub fn plain(name: &[u8]) -> Vec<u8> {
    let parts = name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.collect::<Vec<_>>().join(&b'/')
}

/// A name as text, for people.
pub fn shown(name: &[u8]) -> String {
    Path::new(OsStr::from_bytes(name)).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(size: u64, seconds: i64, nanoseconds: Option<u32>) -> Facts {
        Facts { size, seconds, nanoseconds }
    }

    #[test]
    fn size_or_time_makes_a_change_as_far_as_both_are_known() {
        let fine = facts(1, 10, Some(5));
        for (other, changed) in [
            (fine, false),
            (facts(2, 10, Some(5)), true),
            (facts(1, 11, Some(5)), true),
            (facts(1, 10, Some(6)), true),
            (facts(1, 10, None), false),
        ] {
            assert_eq!((fine.changed(&other), other.changed(&fine)), (changed, changed), "{other:?}");
        }
    }

    #[test]
    fn a_directory_is_listed_with_its_links_and_without_its_pipes() {
        let top = tempfile::tempdir().unwrap();
        let path = |name: &str| top.path().join(name);
        std::fs::create_dir_all(path("a/empty")).unwrap();
        std::fs::write(path("a/file"), "12345").unwrap();
        std::fs::hard_link(path("a/file"), path("second")).unwrap();
        std::os::unix::fs::symlink("elsewhere", path("link")).unwrap();
        std::os::unix::fs::symlink("a", path("to a directory")).unwrap();
        std::fs::File::create(path("sparse")).unwrap().set_len(1 << 40).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let found = directory(top.path()).unwrap();
        let sizes: Vec<(String, u64)> = found.iter().map(|(name, it)| (shown(name), it.size)).collect();
        let wanted = [("a/file", 5), ("link", 9), ("second", 5), ("sparse", 1 << 40), ("to a directory", 1)];
        assert_eq!(sizes, wanted.map(|(name, size)| (name.to_owned(), size)));
    }

    #[test]
    fn only_what_differs_is_done() {
        let listing = |files: &[(&str, u64)]| -> Listing {
            files.iter().map(|(name, size)| (name.as_bytes().to_vec(), facts(*size, 0, None))).collect()
        };
        let mut recorder = Recorder::default();
        advance(&mut recorder, &Listing::new(), &listing(&[("a", 1), ("b", 2), ("d/c", 3)])).unwrap();
        advance(&mut recorder, &listing(&[("a", 1), ("b", 2), ("d/c", 3)]), &listing(&[("a", 1), ("b", 4)]))
            .unwrap();
        let history = recorder.finish();
        assert_eq!(history.commits[1].written, [(1, Bytes(4))]);
        assert_eq!(history.commits[1].removed, [2]);
        let error = read(&[PathBuf::from("/tmp")]).unwrap_err();
        assert_eq!(
            (error.key(), error.to_string().as_str()),
            (Some("paths"), "1 is too few: at least 2 listings")
        );
    }

    #[test]
    fn what_went_away_is_passed_over() {
        let top = tempfile::tempdir().unwrap();
        let file = top.path().join("file");
        std::fs::write(&file, "").unwrap();
        let look = |path: &Path| still_there(rustix::fs::stat(path));
        assert!(look(&file).unwrap().is_some());
        std::fs::remove_file(&file).unwrap();
        assert!(look(&file).unwrap().is_none());
        assert!(look(Path::new("/dev/null/file")).is_err(), "only that");
    }

    #[test]
    fn a_directory_swapped_for_a_link_is_not_entered() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("tree/folder")).unwrap();
        std::fs::create_dir(top.path().join("outside")).unwrap();
        let anchor = Anchor::at(&top.path().join("tree")).unwrap();
        assert!(open_folder(&anchor, Path::new("folder")).is_ok());
        std::fs::remove_dir(top.path().join("tree/folder")).unwrap();
        std::os::unix::fs::symlink("../outside", top.path().join("tree/folder")).unwrap();
        let error = open_folder(&anchor, Path::new("folder")).unwrap_err();
        let refused = [Errno::NOTDIR, Errno::LOOP].map(|errno| Some(errno.raw_os_error()));
        assert!(refused.contains(&error.raw_os_error()), "{error}");
        assert!(open_folder(&anchor, Path::new("../outside")).is_err());
    }

    #[test]
    fn names_are_made_plain() {
        for (given, wanted) in
            [("./a//b/", "a/b"), ("/abs", "abs"), ("./", ""), ("..a/.b", "..a/.b"), ("", "")]
        {
            assert_eq!(plain(given.as_bytes()), wanted.as_bytes(), "{given}");
        }
    }
}
