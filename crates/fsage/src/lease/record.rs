//! What a lease is. The journal (`leases.jsonl` in the store) has one JSON record a line, fsynced before
//! the thing is taken; a `released` record follows when it is given back.

#![allow(missing_docs, reason = "fields of leases are described on the variant")]

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Something taken from the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "lease", rename_all = "kebab-case")]
pub enum Lease {
    /// A file we made; removed on release.
    File { path: PathBuf },
    /// A directory we made; removed on release when empty.
    Directory { path: PathBuf },
    /// Loop devices over this backing file; detached on release.
    Loop { file: PathBuf },
    /// A mount we make; unmounted on release.
    Mount { point: PathBuf },
    /// A sysfs or procfs setting; old value written back on release.
    Setting { path: PathBuf, old: String, new: String },
    /// A process we started; `start_ticks` (field 22 of /proc/PID/stat) tells it from a later one.
    Process { pid: u32, start_ticks: u64 },
    /// A control group we made; its processes are killed and it is removed on release.
    ControlGroup { path: PathBuf },
    /// A virtual disk of ours, by its folder: its server is ended, its mount and the folder are removed on release.
    Disk { directory: PathBuf },
    /// A trace instance of ours in tracefs, by name; removed on release.
    TraceInstance { name: String },
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// Number within the journal, from 1.
    pub number: u64,
    /// Boot id: after a reboot only files and directories are left to release.
    pub boot_id: String,
    /// What happened.
    pub state: LeaseState,
    /// To what.
    #[serde(flatten)]
    pub lease: Lease,
}

/// Taken or given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseState {
    /// About to be taken.
    Taken,
    /// Given back.
    Released,
}
