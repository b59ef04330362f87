//! What of a test is on the host: mounts, loop devices, processes, settings, control groups, trace instances,
//! files.
//!
//! Others may work on the same host. What has a path below the test's folder, or is a process with that path
//! in its environment, is ours. A setting has no owner: one that differs is judged only while no other fsage
//! runs, and [`Settings::unjudged`] counts the times it was not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::victim;

/// Settings of the whole host that fsage changes for a trial.
const HOST: [&str; 5] = [
    "/sys/devices/virtual/workqueue/cpumask",
    "/proc/sys/vm/dirty_writeback_centisecs",
    "/proc/sys/fs/xfs/xfssyncd_centisecs",
    "/proc/sys/fs/xfs/speculative_prealloc_lifetime",
    "/sys/module/fuse/parameters/enable_uring",
];

/// Settings of a loop device that fsage changes and the device keeps for anyone who has it next. `rotational`
/// is not among them: the kernel sets it, and the read-ahead, whenever a file is attached.
const QUEUE: [&str; 6] =
    ["scheduler", "max_sectors_kb", "wbt_lat_usec", "nr_requests", "nomerges", "rq_affinity"];

/// How long another fsage may take until a setting is as it was.
const PATIENCE: Duration = Duration::from_secs(2);

/// Mounts, loop devices, processes, control groups and trace instances of ours, each in words.
pub fn held(scratch: &Path) -> BTreeSet<String> {
    let mark = scratch.to_str().unwrap();
    let mut found = BTreeSet::new();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(mark)).map(|line| format!("mount: {line}")));
    for (device, file) in loops() {
        if file.starts_with(mark) {
            found.insert(format!("loop device: {device} over {file}"));
        }
    }
    for process in victim::ours(scratch) {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        found.insert(format!("process: {} {} ({line})", process.pid, process.name));
    }
    // They carry the number of the process that made them; that of a living one is at work.
    let is_left = |name: &str| {
        let maker = name.strip_prefix("fsage-").and_then(|rest| rest.split('-').next());
        maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    };
    let mut groups = Vec::new();
    groups_below(Path::new("/sys/fs/cgroup"), &is_left, &mut groups);
    found.extend(groups.into_iter().map(|path| format!("control group: {path}")));
    let instances = folders("/sys/kernel/tracing/instances").into_iter().filter(|name| is_left(name));
    found.extend(instances.map(|name| format!("trace instance: {name}")));
    found
}

fn groups_below(folder: &Path, is_left: &dyn Fn(&str) -> bool, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if is_left(&entry.file_name().to_string_lossy()) {
                found.push(entry.path().display().to_string());
            }
            groups_below(&entry.path(), is_left, found);
        }
    }
}

fn folders(path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Attached loop devices and their files.
fn loops() -> Vec<(String, String)> {
    let devices = folders("/sys/block").into_iter().filter(|name| name.starts_with("loop"));
    devices
        .filter_map(|device| {
            let file = std::fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).ok()?;
            Some((device, file.trim().to_owned()))
        })
        .collect()
}

/// Every file, folder and link below one, relative to it.
pub fn files(folder: &Path) -> BTreeSet<PathBuf> {
    fn add(folder: &Path, top: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                add(&path, top, found);
            }
            found.insert(path.strip_prefix(top).unwrap().to_owned());
        }
    }
    let mut found = BTreeSet::new();
    add(folder, folder, &mut found);
    found
}

/// The settings as they were.
#[derive(Debug, Default)]
pub struct Settings {
    before: BTreeMap<String, String>,
    /// What most loop devices have: for those that are made later.
    usual: BTreeMap<&'static str, String>,
    /// Times that a difference may have been another fsage's.
    pub unjudged: u64,
}

impl Settings {
    pub fn now() -> Self {
        let before = read();
        let mut usual = BTreeMap::new();
        for setting in QUEUE {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for (_, value) in before.iter().filter(|(path, _)| path.ends_with(setting)) {
                *counts.entry(value).or_default() += 1;
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            usual.extend(most.map(|(value, _)| (setting, value.to_owned())));
        }
        Self { before, usual, unjudged: 0 }
    }

    /// Those that are not as they were.
    pub fn changed(&mut self, scratch: &Path) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let others = victim::others(scratch);
            let changed = self.differences();
            if changed.is_empty() || !others {
                return changed;
            }
            if Instant::now() > deadline {
                self.unjudged += 1;
                return Vec::new();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn differences(&self) -> Vec<String> {
        let usual = |path: &str| {
            let setting = path.rsplit('/').next().unwrap_or_default();
            path.starts_with("/sys/block/").then(|| self.usual.get(setting)).flatten()
        };
        let was = |path: &str| self.before.get(path).or_else(|| usual(path));
        read()
            .into_iter()
            .filter_map(|(path, now)| {
                let was = was(&path).filter(|was| **was != now)?;
                Some(format!("setting: {path} is {now}, was {was}"))
            })
            .collect()
    }
}

/// Host settings, and those of loop devices that are not attached: nobody's run needs a setting there.
fn read() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut add = |path: String| {
        let Ok(text) = std::fs::read_to_string(&path) else { return };
        let chosen =
            text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
        found.insert(path, chosen.unwrap_or(text.trim()).to_owned());
    };
    HOST.into_iter().for_each(|path| add(path.to_owned()));
    for device in folders("/sys/block").into_iter().filter(|name| name.starts_with("loop")) {
        if !Path::new("/sys/block").join(&device).join("loop/backing_file").exists() {
            QUEUE.into_iter().for_each(|setting| add(format!("/sys/block/{device}/queue/{setting}")));
        }
    }
    found
}
