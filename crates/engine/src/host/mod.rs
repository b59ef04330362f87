//! What the agent does on its host for the lab, one file a group of requests. Everything here that gives
//! something back (unmount, detach, remove, restore, end) is harmless when the thing is already gone.

pub mod activity;
pub mod block;
pub mod cache;
pub mod companion;
pub mod disk;
mod error;
pub mod facts;
pub mod file;
pub mod gpt;
pub mod held;
pub mod identifier;
pub mod layer;
pub mod loopback;
pub mod memory_group;
pub mod mount;
mod partition;
pub mod process;
pub mod processor;
pub mod program;
pub mod served;
pub mod setting;
pub mod signature;
pub mod split;
pub mod supervise;
pub mod tool;
pub mod tracefs;

pub use error::HostError;
pub(crate) use error::chain;

use std::io::{Error, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Does something that the kernel refuses for a moment (`EBUSY`), trying again until `wait` is over.
pub(crate) fn patiently(wait: Duration, mut attempt: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && started.elapsed() < wait => {
                std::thread::sleep(Duration::from_millis(5));
            }
            outcome => return outcome,
        }
    }
}

/// Removes a directory of a file system of the kernel's own (tracefs, control groups), which may keep it busy until what used it is gone,
/// for at most `wait`; a missing one is fine.
pub(crate) fn remove_kernel_directory(path: &Path, wait: Duration) -> Result<(), Error> {
    patiently(wait, || match std::fs::remove_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    })
}

/// A small file of /sys or /proc without its last newline; empty when it cannot be read.
pub(crate) fn read_trimmed(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}
