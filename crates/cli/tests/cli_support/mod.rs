//! Drives the built binary.

#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

#[path = "../../../sys/tests/support/skip.rs"]
mod skip;

use std::path::Path;
use std::process::Command;

#[allow(unused_imports, reason = "every test file uses its own part")]
pub use skip::skip;

/// The program under test.
pub const FSAGE: &str = env!("CARGO_BIN_EXE_fsage");

/// Copies fsage and its agent into a folder, in a process of its own: a file that is open for writing here would be inherited by
/// processes that other tests start, and could not be executed until these have begun their programs.
pub fn copy_programs(folder: &Path) {
    let programs = ["fsage", "fsage-agent"].map(|name| Path::new(FSAGE).with_file_name(name));
    assert!(Command::new("cp").args(programs).arg(folder).status().unwrap().success());
}

/// How a run of the program ended.
#[derive(Debug, Clone)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Runs a command to its end, in English, without colours of the environment.
    pub fn of(command: &mut Command) -> Self {
        let output = command
            .env_remove("NO_COLOR")
            .env("LC_ALL", "C.UTF-8")
            .env("COLUMNS", "100")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Exit code and both streams, for snapshots.
    pub fn text(&self) -> String {
        format!("exit code {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }

    /// The JSON error on standard error.
    pub fn error_object(&self) -> serde_json::Value {
        let value: serde_json::Value = serde_json::from_str(&self.stderr).expect(&self.stderr);
        value["error"].clone()
    }

    /// The JSON result on standard output.
    pub fn result(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.stdout).expect(&self.stdout)
    }
}

/// Runs `fsage` with these arguments.
pub fn fsage(arguments: &[&str]) -> Run {
    Run::of(Command::new(FSAGE).args(arguments))
}

/// Whether tests may mount; says `skipped` when not.
pub fn root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    let root = uid.split_whitespace().nth(2) == Some("0");
    if !root {
        skip("not root, so nothing can be mounted");
    }
    root
}

/// A file system on a loop file, mounted; released however the test ends.
pub struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    /// `size` as truncate(1) takes it, such as `256M`.
    pub fn ext4(size: &str) -> Self {
        Self::of(&["mkfs.ext4", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"], size)
    }

    /// The same with what a command makes of the file, whose name is put at its end.
    pub fn of(mkfs: &[&str], size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Self { folder };
        let image = mounted.folder.path().join("image");
        std::fs::create_dir(mounted.path()).unwrap();
        let image = image.to_str().unwrap();
        for argv in [
            &["truncate", "-s", size, image][..],
            &[mkfs, &[image]].concat(),
            &["mount", "-o", "loop", image, mounted.path().to_str().unwrap()],
        ] {
            let run = Run::of(Command::new(argv[0]).args(&argv[1..]));
            assert_eq!(run.code, 0, "{argv:?}: {run:?}");
        }
        mounted
    }

    /// The mount point.
    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("mount")
    }

    /// Space in use, as a share.
    pub fn used(&self) -> f64 {
        let found = rustix::fs::statvfs(self.path()).unwrap();
        fsage_model::quantity::share(found.f_blocks - found.f_bfree, found.f_blocks)
    }

    /// A path below the mount point, as text.
    pub fn join(&self, name: &str) -> String {
        self.path().join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).output();
    }
}
