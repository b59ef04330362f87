//! Taking a complete or failed trial over from another folder of trials, such as the store of a
//! [fleet's](crate::fleet) task.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use fsage_sys::input;

use super::file::{self, NewFile, failed};
use super::{FIO, PLACES, PRICED, RECORD, StoreError, TrialFolder, is_trial_id};

/// Bytes that are copied at a time.
const CHUNK: usize = 1 << 20;

/// Files that every trial may have beside its traces, its logs and fio's.
const FILES: [&str; 4] = ["latency.hlog", "probes.parquet", PLACES, PRICED];

/// Folder in which a trial is until it is whole.
pub(super) const TAKING: &str = "taking";

/// Copies trial `id` from the store at `from` to the one at `to`. It takes the place of what is there only when it is
/// whole. The caller has the lock of `to`.
///
/// # Errors
/// A file cannot be read or written; [`StoreError::Full`] when there is no space.
pub(crate) fn take(from: &Path, id: &str, to: &Path) -> Result<(), StoreError> {
    let directory = from.join("trials").join(id);
    if !is_trial_id(id) {
        return Err(failed("take", &directory, std::io::ErrorKind::InvalidInput.into()));
    }
    // A folder that is a link, or of someone else, is refused.
    file::folder(from, &["trials", id])?;
    let names = TrialFolder::files_in(&directory)?;
    let work = to.join(TAKING);
    let removed = |work: &Path| match std::fs::remove_dir_all(work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", work, error)),
        _ => Ok(()),
    };
    file::folder(to, &[TAKING])?;
    removed(&work)?;
    file::folder(to, &[TAKING])?;
    drop(TrialFolder::begin(&work, id)?);
    let place = work.join("trials").join(id);
    if names.iter().any(|name| name.starts_with(FIO)) {
        file::folder(&place, &[FIO])?;
    }
    for name in names.iter().map(String::as_str).chain(FILES).chain([RECORD]) {
        copy(&directory, name, &place)?;
    }
    file::folder(to, &["trials"])?;
    let (new, old) = (to.join("trials").join(id), work.join("old"));
    let moved = |from: &Path, to: &Path| std::fs::rename(from, to).map_err(|e| failed("rename", from, e));
    if new.symlink_metadata().is_ok() {
        moved(&new, &old)?;
    }
    moved(&place, &new)?;
    removed(&work)
}

/// Copies a file, if it is there.
fn copy(from: &Path, name: &str, to: &Path) -> Result<(), StoreError> {
    let path = from.join(name);
    let mut file: File = match input::open_below(from, Path::new(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("open", &path, error)),
    };
    let mut new = NewFile::create(&to.join(name))?;
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return new.commit(),
            Ok(length) => new.write(&buffer[..length])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("read", &path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef";

    #[test]
    fn all_files_of_a_trial_are_taken_and_nothing_else() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let trial = from.path().join("trials").join(ID);
        std::fs::create_dir_all(trial.join(FIO)).unwrap();
        let names = ["trace.parquet", "requests.log", "fio/a.json", "log.txt", "probes.parquet", RECORD];
        for name in names {
            std::fs::write(trial.join(name), name).unwrap();
        }
        std::fs::write(trial.join("other"), "no file of a trial").unwrap();
        // An earlier attempt left something.
        let place = to.path().join("trials").join(ID);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("trace-old.parquet"), "old").unwrap();
        take(from.path(), ID, to.path()).unwrap();
        for name in names {
            assert_eq!(std::fs::read_to_string(place.join(name)).unwrap(), name);
        }
        assert!(!place.join("other").exists() && !place.join("trace-old.parquet").exists());
    }

    #[test]
    fn a_link_in_place_of_a_file_is_not_followed_and_what_was_there_stays() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let trial = from.path().join("trials").join(ID);
        std::fs::create_dir_all(&trial).unwrap();
        std::fs::write(trial.join(RECORD), "{}").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", trial.join("requests.log")).unwrap();
        let own = to.path().join("trials").join(ID);
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join(RECORD), "what was there").unwrap();
        assert!(take(from.path(), ID, to.path()).is_err());
        assert_eq!(std::fs::read_to_string(own.join(RECORD)).unwrap(), "what was there");
        assert!(take(from.path(), "../..", to.path()).is_err());
    }
}
