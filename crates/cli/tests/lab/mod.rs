//! A study in a folder of its own, run by the built program.

#![allow(dead_code, reason = "every test uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fsage_lab::store::Store;
use fsage_model::record::TrialRecord;

use crate::support::{Scratch, agent};

pub struct Lab {
    pub scratch: Scratch,
}

/// Exit code and standard error.
pub fn ended(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

impl Lab {
    /// With a study's text.
    pub fn new(study: &str) -> Self {
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join("study.toml"), study).unwrap();
        Self { scratch }
    }

    pub fn store(&self) -> PathBuf {
        self.scratch.path().join("store")
    }

    /// `fsage run`, the study changed by `--set`.
    pub fn command(&self, set: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
        command.arg("run").arg(self.scratch.path().join("study.toml")).arg("--store").arg(self.store());
        for set in set {
            command.arg("--set").arg(set);
        }
        command.env("FSAGE_AGENT", agent());
        command
    }

    /// Exit code and standard error.
    pub fn run(&self, set: &[&str]) -> (Option<i32>, String) {
        ended(self.command(set))
    }

    /// The same in guests whose kernel is in `cache`, by commands of the study's own.
    pub fn command_in_guests(&self, cache: &Path, set: &[&str]) -> Command {
        let mut command = self.command(set);
        command.arg("--allow-commands").env("FSAGE_CACHE_DIR", cache);
        command
    }

    /// Any command.
    pub fn fsage(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fsage")).args(words).env("FSAGE_AGENT", agent()).output().unwrap()
    }

    pub fn trials(&self) -> Vec<TrialRecord> {
        Store::open(&self.store()).unwrap().trials()
    }

    /// The report's page.
    pub fn report(&self) -> String {
        let page = self.scratch.path().join("report.html");
        let mut report = Command::new(env!("CARGO_BIN_EXE_fsage"));
        assert!(report.arg("report").arg(self.store()).arg("-o").arg(&page).status().unwrap().success());
        std::fs::read_to_string(page).unwrap()
    }

    pub fn nothing_left(&self) {
        assert_eq!(self.scratch.left_behind(), [] as [String; 0]);
        for folder in ["volumes", "mounts"] {
            assert!(!self.store().join(folder).exists(), "{folder} is still there");
        }
    }
}
