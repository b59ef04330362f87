//! A folder in which a test runs fsage with everything of its own, and which nothing leaves.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::victim;
use crate::support::{self, Scratch};

/// Folders that fsage uses when it is told so, each by its variable.
const FOLDERS: [(&str, &str); 6] = [
    ("FSAGE_RUNTIME_DIR", "runtime"),
    ("FSAGE_STATE_DIR", "state"),
    ("XDG_RUNTIME_DIR", "session"),
    ("XDG_STATE_HOME", "home/state"),
    ("HOME", "home"),
    ("TMPDIR", "temporary"),
];

pub struct Place {
    scratch: Scratch,
}

impl Place {
    pub fn new() -> Self {
        let place = Self { scratch: Scratch::new() };
        for (_, folder) in FOLDERS {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        place
    }

    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// `fsage` that says nothing and ends with this test.
    pub fn fsage(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.args(words).current_dir(self.folder()).env("FSAGE_AGENT", support::agent());
        for (variable, folder) in FOLDERS {
            command.env(variable, self.path(folder));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        fsage_sys::process::die_with_parent(&mut command);
        command
    }

    /// Runs it to its end: exit code, and its result or what it said of a failure.
    pub fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.fsage(words).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
        let said =
            if output.status.success() { output.stdout } else { [output.stdout, output.stderr].concat() };
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Runs it to its end, which must be a good one.
    pub fn must(&self, words: &[&str]) -> String {
        let (code, said) = self.run(words);
        assert_eq!(code, Some(0), "fsage {}: {said}", words.join(" "));
        said
    }

    /// Runs a shell script whose `$1` is this path.
    pub fn shell(&self, script: &str, path: &Path) {
        let mut command = Command::new("sh");
        command.args(["-ec", script, "sh"]).arg(path).current_dir(self.folder());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        victim::sweep(self.folder());
    }
}
