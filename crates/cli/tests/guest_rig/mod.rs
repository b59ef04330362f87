//! A kernel for guests, which all tests of them share.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{self, skip};

/// Fetches a kernel into a cache; says why not otherwise.
pub fn fetch(cache: &Path, version: &str) -> bool {
    let mut fetch = Command::new(env!("CARGO_BIN_EXE_fsage"));
    let output = fetch.args(["kernel", "fetch", version]).env("FSAGE_CACHE_DIR", cache).output().unwrap();
    if !output.status.success() {
        skip(format!("kernel {version} cannot be fetched: {}", String::from_utf8_lossy(&output.stderr)));
    }
    output.status.success()
}

/// Folder with the kernel that the tests share; `None`, and a word why, where there can be none.
pub fn cache() -> Option<&'static Path> {
    static CACHE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = CACHE.get_or_init(|| {
        if !support::can_mount() {
            return None;
        }
        for program in ["/usr/bin/qemu-system-x86_64", "/usr/sbin/mkfs.f2fs", "/usr/bin/apt-get"] {
            if !Path::new(program).exists() {
                skip(format!("guests need {program}"));
                return None;
            }
        }
        // Beside what was built: the next run of the tests has it already.
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
        fetch(&path, "6.1").then_some(path)
    });
    found.as_deref()
}
