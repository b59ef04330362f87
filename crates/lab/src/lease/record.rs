//! What a lease is, and what a journal says: one JSON record a line, fsynced before the thing is taken; a
//! `released` record follows when it is released.
//!
//! A lease that fsage itself could not have taken is none ([`Lease::check`]): it is neither written nor acted
//! upon.

#![allow(missing_docs, reason = "fields of leases are described on the variant")]

use std::path::{Component, Path, PathBuf};

use fsage_engine::host::loopback;
use fsage_engine::host::process::Identity;
use fsage_model::layer::{self, LayerDevice};
use fsage_model::memory;
use fsage_model::protocol::{BackingFile, Made};
use serde::{Deserialize, Serialize};

use super::{object, setting};

/// Something taken from the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "lease", rename_all = "kebab-case")]
pub enum Lease {
    /// A file we made; removed on release.
    File { path: PathBuf },
    /// A directory we made; removed on release when empty.
    Directory { path: PathBuf },
    /// Loop devices over this backing file, which `backing` tells from a later one of its name; detached on
    /// release.
    Loop {
        file: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backing: Option<BackingFile>,
        /// Only those that begin at this byte of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset_bytes: Option<u64>,
    },
    /// A mount we make; unmounted on release.
    Mount { point: PathBuf },
    /// A sysfs or procfs setting, one of the table in `setting`; old value written back on release.
    Setting { path: PathBuf, old: String, new: String },
    /// A process we started; `start_ticks` (field 22 of /proc/PID/stat) tells it from a later one.
    Process { pid: u32, start_ticks: u64 },
    /// A virtual disk of ours, by its folder: its server is ended, its mount and the folder are removed on
    /// release.
    Disk { directory: PathBuf },
    /// A layer of ours between drives and a file system, by name; taken down on release.
    Layer { name: String, device: LayerDevice },
    /// A control group of ours that limits memory; removed on release.
    MemoryGroup { path: PathBuf },
    /// A trace instance of ours in tracefs, by name; removed on release.
    TraceInstance { name: String },
}

impl Lease {
    /// Loop devices over a file that is there.
    #[must_use]
    pub fn loop_over(file: &Path) -> Self {
        Self::Loop { file: file.to_owned(), backing: loopback::backing(file).ok(), offset_bytes: None }
    }

    /// Loop devices over the part that begins at `offset_bytes` of a file that is there.
    #[must_use]
    pub fn loop_at(file: &Path, offset_bytes: u64) -> Self {
        let (file, backing) = (file.to_owned(), loopback::backing(file).ok());
        Self::Loop { file, backing, offset_bytes: Some(offset_bytes) }
    }

    /// Whether fsage could take it.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::File { path }
            | Self::Directory { path }
            | Self::Loop { file: path, .. }
            | Self::Mount { point: path } => plain(path),
            Self::Setting { path, old, new } => {
                plain(path)?;
                setting::check(path, old)?;
                setting::check(path, new)
            }
            Self::Process { pid, .. } if *pid == 1 => Err(format!("process {pid} is not one of fsage's")),
            Self::Process { .. } => Ok(()),
            Self::Disk { directory } => {
                plain(directory)?;
                if is_disk(directory) {
                    Ok(())
                } else {
                    Err(format!("{} is not a virtual disk", directory.display()))
                }
            }
            Self::Layer { name, .. } if layer::is_name(name) => Ok(()),
            Self::Layer { name, .. } => Err(format!("`{name}` is not a layer of fsage's")),
            Self::MemoryGroup { path } if memory::is_group(path) => Ok(()),
            Self::MemoryGroup { path } => {
                Err(format!("{} is not a control group of fsage's", path.display()))
            }
            Self::TraceInstance { name } if is_instance(name) => Ok(()),
            Self::TraceInstance { name } => Err(format!("`{name}` is not a trace instance of fsage's")),
        }
    }

    /// The path it names, where it does.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path }
            | Self::Directory { path }
            | Self::Loop { file: path, .. }
            | Self::Mount { point: path }
            | Self::Setting { path, .. }
            | Self::MemoryGroup { path }
            | Self::Disk { directory: path } => Some(path),
            Self::Process { .. } | Self::Layer { .. } | Self::TraceInstance { .. } => None,
        }
    }
}

/// Absolute and without `.` and `..`: a cleaning process has another working directory, and what is checked
/// is what is meant.
fn plain(path: &Path) -> Result<(), String> {
    let mut components = path.components();
    let rooted = components.next() == Some(Component::RootDir);
    let as_written = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    if rooted && as_written && components.all(|component| matches!(component, Component::Normal(_))) {
        return Ok(());
    }
    Err(format!("{} is not an absolute path without `..`", path.display()))
}

/// `…/disks/NAME/served`, or `…/volumes/HASH` of a trial.
fn is_disk(directory: &Path) -> bool {
    let names: Vec<&str> =
        directory.components().rev().take(3).filter_map(|name| name.as_os_str().to_str()).collect();
    match names.as_slice() {
        ["served", name, "disks"] => super::disk::is_name(name),
        [hash, "volumes", ..] => hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()),
        _ => false,
    }
}

/// `fsage-PID-NUMBER`.
fn is_instance(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix("fsage-").and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(pid, count)| number(pid) && number(count))
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
    /// How a file or directory was made; a second line of the same number has its identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
}

impl LeaseRecord {
    /// Whether fsage could have written it.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), String> {
        self.lease.check()?;
        let needed = matches!(self.lease, Lease::File { .. } | Lease::Directory { .. });
        match &self.made {
            Some(made) if needed && object::is_staged(&made.staged) => Ok(()),
            None if !needed => Ok(()),
            _ => Err("the lease does not say how it was made".to_owned()),
        }
    }
}

/// Taken or released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseState {
    /// About to be taken.
    Taken,
    /// Released.
    Released,
}

/// The line of a journal that says whose it is; another one follows whenever another process continues with
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// What the journal is of: a store, or the folder of other work.
    pub store: PathBuf,
    /// The process that takes the leases that follow.
    pub pid: u32,
    /// Its start, field 22 of /proc/PID/stat.
    pub start_ticks: u64,
    /// Boot id.
    pub boot_id: String,
}

impl Opened {
    /// Whether that process still runs, `boot` being this boot's id.
    #[must_use]
    pub fn lives(&self, boot: &str) -> bool {
        self.boot_id == boot && Identity { pid: self.pid, start_ticks: self.start_ticks }.is_alive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fsage_cannot_have_taken_is_no_lease() {
        let path = PathBuf::from;
        let setting = |path: &str, value: &str| Lease::Setting {
            path: path.into(),
            old: value.to_owned(),
            new: "1".to_owned(),
        };
        for wrong in [
            Lease::File { path: path("relative") },
            Lease::File { path: path("/a/../b") },
            Lease::File { path: path("/a/./b") },
            Lease::Directory { path: path("/a//b") },
            Lease::Mount { point: path("/").join("..") },
            Lease::Process { pid: 1, start_ticks: 0 },
            Lease::Disk { directory: path("/etc") },
            Lease::Disk { directory: path("/run/fsage/disks/../served") },
            Lease::Disk { directory: path("/run/fsage/volumes/not-a-hash") },
            Lease::Layer { name: "vg0".to_owned(), device: LayerDevice::VolumeGroup },
            Lease::TraceInstance { name: "../events".to_owned() },
            Lease::MemoryGroup { path: path("/sys/fs/cgroup/memory") },
            Lease::MemoryGroup { path: path("/sys/fs/cgroup/../fsage-1-1") },
            Lease::TraceInstance { name: "fsage-1-".to_owned() },
            setting("/proc/sys/kernel/core_pattern", "1"),
            setting("/proc/sys/vm/dirty_writeback_centisecs", "|/bin/sh"),
            setting("/sys/class/block/../../kernel/x/queue/scheduler", "none"),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        for right in [
            Lease::File { path: path("/a/b c") },
            Lease::Process { pid: 77, start_ticks: 0 },
            Lease::Disk { directory: path("/run/fsage/disks/old-hdd/served") },
            Lease::Disk { directory: path("/run/fsage/volumes/0123456789abcdef") },
            Lease::Layer { name: "fsage-0123456789abcdef-1pool".to_owned(), device: LayerDevice::Mapped },
            Lease::TraceInstance { name: "fsage-12-3".to_owned() },
            Lease::MemoryGroup { path: path("/sys/fs/cgroup/memory/fsage-12-3") },
            setting("/proc/sys/vm/dirty_writeback_centisecs", "500"),
        ] {
            assert_eq!(right.check(), Ok(()), "{right:?}");
        }
    }
}
