//! Where mutants work: `inside` is theirs, `outside` must stay as it is.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use fsage_engine::load::Control;

/// Work that a mutant asks for is asked to stop after so long.
const WORK: Duration = Duration::from_millis(500);

pub struct TestDirectory {
    folder: PathBuf,
    before: Vec<String>,
}

impl TestDirectory {
    /// In an existing folder.
    pub fn new(folder: &Path) -> Self {
        let test_directory = Self { folder: folder.to_owned(), before: Vec::new() };
        for name in ["inside", "outside", "outside/empty"] {
            std::fs::create_dir(test_directory.path(name)).unwrap();
        }
        std::fs::write(test_directory.path("outside/sentinel"), "precious").unwrap();
        std::fs::set_permissions(test_directory.path("outside/sentinel"), Permissions::from_mode(0o600))
            .unwrap();
        symlink(test_directory.path("outside/sentinel"), test_directory.path("outside/link")).unwrap();
        let before = test_directory.outside();
        Self { before, ..test_directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A path of what must not change, as text.
    pub fn sentinels(&self) -> String {
        self.path("outside").to_str().unwrap().to_owned()
    }

    /// An empty folder for one mutant's work.
    pub fn work(&self) -> PathBuf {
        let work = self.path("inside/work");
        // Not below what it may have put there instead.
        if work.symlink_metadata().is_ok() {
            std::fs::remove_dir_all(&work).unwrap();
        }
        std::fs::create_dir(&work).unwrap();
        work
    }

    /// What is outside that was not there, is gone, or is not as it was.
    pub fn check(&self) -> Result<(), String> {
        let now = self.outside();
        if now == self.before { Ok(()) } else { Err(format!("outside is {now:?}, was {:?}", self.before)) }
    }

    fn outside(&self) -> Vec<String> {
        let mut found = Vec::new();
        // A name put beside them is a change too.
        for folder in ["", "outside", "outside/empty"] {
            for entry in std::fs::read_dir(self.path(folder)).unwrap().flatten() {
                let path = entry.path();
                let facts = path.symlink_metadata().unwrap();
                if !folder.is_empty() {
                    let content =
                        if facts.is_file() { std::fs::read_to_string(&path).unwrap() } else { String::new() };
                    let (mode, times) = (facts.mode(), (facts.mtime(), facts.mtime_nsec()));
                    found.push(format!("{} {mode:o} {} {times:?} {content}", path.display(), facts.ino()));
                } else {
                    found.push(path.display().to_string());
                }
            }
        }
        found.sort();
        found
    }
}

/// Does work that can be asked to stop, and asks after [`WORK`].
pub fn limited<T>(work: impl FnOnce(&Control) -> T) -> T {
    let control = Control::new();
    std::thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        let control = &control;
        scope.spawn(move || {
            if wait.recv_timeout(WORK) == Err(mpsc::RecvTimeoutError::Timeout) {
                control.stop();
            }
        });
        let result = work(control);
        drop(done);
        result
    })
}
