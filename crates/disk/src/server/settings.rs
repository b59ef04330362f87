//! What a server is told at its start.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::export::TimeMode;
use crate::export::fuse::Choice;
use crate::fault::spec::FaultSpec;

/// What the disk is served as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    /// A file in a FUSE mount, for a loop device.
    #[default]
    Fuse,
    /// A block device of its own, where the kernel has the driver.
    Ublk,
}

/// Everything about a disk and its server. Goes to the server as JSON on its standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the server keeps its files; absolute. Made if it is not there.
    pub directory: PathBuf,
    /// Size of the disk, a multiple of `block_bytes`.
    pub size_bytes: u64,
    /// Smallest unit of a request.
    #[serde(default = "block_bytes")]
    pub block_bytes: u32,
    /// What the disk is made of: the name of a preset, or a medium in JSON.
    pub medium: String,
    /// Whether answers take the medium's time.
    #[serde(default)]
    pub time: TimeMode,
    /// Whether every request is logged from the beginning.
    #[serde(default)]
    pub log: bool,
    /// What goes wrong from the beginning.
    #[serde(default)]
    pub faults: Option<FaultSpec>,
    /// What it is served as.
    #[serde(default)]
    pub export: Export,
    /// How requests shall come; of FUSE.
    #[serde(default)]
    pub transport: Choice,
    /// Whether it is a network block device too, on a Unix socket.
    #[serde(default)]
    pub nbd: bool,
    /// Most memory for contents that do not describe themselves; beyond it they go to the spill file, or writes fail.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// Folder for that file.
    #[serde(default)]
    pub spill_folder: Option<PathBuf>,
    /// Longest time in seconds that the server may be at work on one batch before the watchdog ends the connection.
    #[serde(default = "watchdog_s")]
    pub watchdog_s: u32,
}

const fn block_bytes() -> u32 {
    4096
}

const fn watchdog_s() -> u32 {
    60
}

impl Settings {
    /// A disk of `size_bytes` on `medium`, everything else as it is by default.
    #[must_use]
    pub fn new(directory: PathBuf, size_bytes: u64, medium: &str) -> Self {
        Self {
            directory,
            size_bytes,
            block_bytes: block_bytes(),
            medium: medium.to_owned(),
            time: TimeMode::default(),
            log: false,
            faults: None,
            export: Export::default(),
            transport: Choice::default(),
            nbd: false,
            memory_limit_bytes: None,
            spill_folder: None,
            watchdog_s: watchdog_s(),
        }
    }
}
