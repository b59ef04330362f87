//! Virtual disks of a runtime folder that a test has for itself.

#![allow(dead_code, reason = "every test uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{self, Scratch};

/// A runtime folder of its own, in which disks are by name; all of them go with it.
pub(crate) struct Disks {
    scratch: Scratch,
}

impl Disks {
    pub(crate) fn new() -> Option<Self> {
        (support::can_mount() && support::can_serve_disks()).then(|| Self { scratch: Scratch::new() })
    }

    pub(crate) fn output(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fsage"))
            .args(words)
            .current_dir(self.scratch.path())
            .env("FSAGE_AGENT", support::agent())
            .env("FSAGE_RUNTIME_DIR", self.scratch.path().join("runtime"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let output = self.output(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A disk, by the words after its name, and its device.
    pub(crate) fn up(&self, name: &str, words: &[&str]) -> String {
        let record = self.json(&[&["disk", "up", name], words].concat());
        record["device"].as_str().unwrap().to_owned()
    }

    /// Writes that reached a disk.
    pub(crate) fn writes(&self, name: &str) -> f64 {
        let stat = self.json(&["disk", "stat", name]);
        let counters = stat["counters"].as_array().unwrap();
        counters.iter().find(|counter| counter["name"] == "writes").unwrap()["value"].as_f64().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        let names =
            std::fs::read_dir(self.scratch.path().join("runtime/disks")).into_iter().flatten().flatten();
        for name in names {
            let _ = self.output(&["disk", "down", &name.file_name().to_string_lossy()]);
        }
    }
}
