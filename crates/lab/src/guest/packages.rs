//! The distribution's package manager with state of its own: nothing of the host's is read but its sources, and nothing
//! written.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::machine::Machine;
use super::{GuestError, everything};
use crate::tools::Invocation;

/// Lists of packages are fetched again when they are so old.
const LISTS: Duration = Duration::from_secs(24 * 3600);

/// How long a program of the package manager may take.
const LIMIT: Duration = Duration::from_secs(900);

/// How the names of folders begin in which packages are unpacked.
const FETCH: &str = ".fetch-";

/// Folder of what is fetched: `$FSAGE_CACHE_DIR`, or `/var/cache/fsage`.
pub(super) fn cache() -> PathBuf {
    std::env::var_os("FSAGE_CACHE_DIR").map_or_else(|| PathBuf::from("/var/cache/fsage"), PathBuf::from)
}

/// Packages for one architecture.
pub(super) struct Packages {
    state: PathBuf,
    machine: &'static Machine,
    /// Nobody else fetches meanwhile.
    _lock: File,
}

impl Packages {
    /// Those for a machine, with current lists.
    pub fn of(machine: &'static Machine) -> Result<Self, GuestError> {
        let name =
            if machine.is_own() { ".packages".to_owned() } else { format!(".packages-{}", machine.debian) };
        let state = cache().join("kernels").join(name);
        for folder in ["lists/partial", "cache/archives/partial"] {
            make(&state.join(folder))?;
        }
        let lock = lock(&state.join("fsage-lock"))?;
        let packages = Self { state, machine, _lock: lock };
        write(&packages.state.join("status"))?;
        packages.update()?;
        Ok(packages)
    }

    /// What a program of the package manager prints.
    pub fn run(&self, program: &str, words: &[&str], folder: &Path) -> Result<String, GuestError> {
        let state = self.state.display();
        let mut options = vec![
            format!("Dir::State::lists={state}/lists"),
            format!("Dir::Cache={state}/cache"),
            format!("Dir::Cache::archives={state}/cache/archives/"),
            format!("Dir::State::status={state}/status"),
            format!("Dir::State::extended_states={state}/extended_states"),
            "APT::Sandbox::User=root".to_owned(),
        ];
        if !self.machine.is_own() {
            let name = self.machine.debian;
            options.extend(["Architecture", "Architectures"].map(|key| format!("APT::{key}={name}")));
        }
        let mut argv = vec![program.to_owned()];
        options.into_iter().for_each(|option| argv.extend(["-o".to_owned(), option]));
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        run(argv, "apt", folder)
    }

    fn update(&self) -> Result<(), GuestError> {
        let lists = self.state.join("lists");
        let fetched = lists.join("fetched");
        let age = fetched.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        if age.is_none_or(|age| age > LISTS) {
            self.run("apt-get", &["-q", "update"], &self.state)?;
            write(&fetched)?;
        }
        Ok(())
    }

    /// Unpacks packages below `tree`, with all that they depend on. Nothing that they would do when installed is done.
    pub fn unpack(&self, names: &[String], tree: &Path) -> Result<(), GuestError> {
        self.run("apt-get", &["clean"], &self.state)?;
        let begin = ["-q", "--yes", "--no-install-recommends", "--download-only", "install"];
        let words: Vec<&str> = begin.into_iter().chain(names.iter().map(String::as_str)).collect();
        self.run("apt-get", &words, &self.state)?;
        let found = archives(&self.state.join("cache/archives"))?;
        let has = |name: &String| {
            let begin = format!("{name}_");
            found
                .iter()
                .any(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&begin)))
        };
        if let Some(name) = names.iter().find(|name| !has(name)) {
            return Err(GuestError::NotDownloaded { name: name.clone() });
        }
        for archive in found {
            unpack_one(&archive, tree)?;
        }
        self.run("apt-get", &["clean"], &self.state).map(drop)
    }
}

/// Waits until nobody else has this lock, and has it as long as the file is open.
pub(super) fn lock(path: &Path) -> Result<File, GuestError> {
    let locked = File::create(path).and_then(|file| file.lock().map(|()| file));
    locked.map_err(|source| GuestError::Write { path: path.to_owned(), source })
}

/// The packages in a folder.
pub(super) fn archives(folder: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let read = |source| GuestError::Read { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        found.extend(Some(path).filter(|path| path.extension().is_some_and(|end| end == "deb")));
    }
    found.sort();
    Ok(found)
}

/// Unpacks one package below `tree`.
pub(super) fn unpack_one(archive: &Path, tree: &Path) -> Result<(), GuestError> {
    let words = ["dpkg-deb".into(), "-x".into(), archive.display().to_string(), tree.display().to_string()];
    run(words.to_vec(), "dpkg", Path::new("/")).map(drop)
}

/// A folder below `place` to unpack in, which is moved away when all is there.
pub(super) fn workplace(place: &Path) -> Result<tempfile::TempDir, GuestError> {
    make(place)?;
    remove_left(place);
    let folder = tempfile::Builder::new().prefix(FETCH).tempdir_in(place);
    folder.map_err(|source| GuestError::Write { path: place.to_owned(), source })
}

/// Removes what a fetch that was killed left a day ago.
fn remove_left(place: &Path) {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(FETCH)) {
        let age = entry.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > LISTS) {
            // What cannot be removed is tried again by the next.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn run(argv: Vec<String>, package: &str, folder: &Path) -> Result<String, GuestError> {
    let invocation = Invocation::new(argv, package.to_owned(), LIMIT);
    let here = |command: &mut std::process::Command| {
        command.current_dir(folder).env("LC_ALL", "C.UTF-8").env("DEBIAN_FRONTEND", "noninteractive");
    };
    let text = invocation.stream(here, None, everything)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Makes a folder, and those above it.
pub(super) fn make(folder: &Path) -> Result<(), GuestError> {
    fsage_sys::new_file::make_folder(folder, 0o755)
        .map(drop)
        .map_err(|source| GuestError::Write { path: folder.to_owned(), source })
}

/// Moves a file or a folder on one file system.
pub(super) fn moved(from: &Path, to: &Path) -> Result<(), GuestError> {
    std::fs::rename(from, to).map_err(|source| GuestError::Write { path: to.to_owned(), source })
}

/// Makes an empty file.
fn write(path: &Path) -> Result<(), GuestError> {
    std::fs::write(path, "").map_err(|source| GuestError::Write { path: path.to_owned(), source })
}
