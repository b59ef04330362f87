//! Whom to kill: programs of fsage that were started for one test, recognised by a path in their environment.

#![allow(dead_code, reason = "every test uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test may panic and say why")]

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use fsage_engine::host::process::is_alive;
use rustix::process::{Pid, Signal, kill_process};

use crate::dice::Dice;

/// A process of ours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: u32,
    /// Its name, as the kernel has it.
    pub name: String,
}

/// Living processes, and whether the path `mark` is in their environment. The dead that nobody waited for
/// have none.
fn processes(mark: &Path) -> Vec<(Process, bool)> {
    let mark = mark.to_str().unwrap().as_bytes();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let name = std::fs::read_to_string(entry.path().join("comm")).ok()?.trim().to_owned();
            let environment = std::fs::read(entry.path().join("environ")).ok().filter(|it| !it.is_empty())?;
            let ours = environment.windows(mark.len()).any(|part| part == mark);
            Some((Process { pid, name }, ours))
        })
        .collect()
}

/// Those of ours.
pub fn ours(mark: &Path) -> BTreeSet<Process> {
    processes(mark).into_iter().filter(|(_, ours)| *ours).map(|(process, _)| process).collect()
}

/// Those of ours that have this variable, as `NAME=value`, in their environment.
pub fn with(mark: &Path, variable: &str) -> BTreeSet<Process> {
    let has = |process: &Process| {
        let environment = std::fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    ours(mark).into_iter().filter(has).collect()
}

/// Whether another fsage is at work on this host: settings of the whole host may then be its doing.
pub fn others(mark: &Path) -> bool {
    processes(mark).iter().any(|(process, ours)| !ours && process.name.starts_with("fsage"))
}

/// Kills one with SIGKILL. It may be gone by now: the moment is random.
pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whom one strike is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Lab,
    Agent,
    Server,
}

/// One strike: in this order, without a pause.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strike(Vec<Target>);

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|target| match target {
            Target::Lab => "lab",
            Target::Agent => "agent",
            Target::Server => "disk server",
        });
        f.write_str(&names.collect::<Vec<_>>().join(" + "))
    }
}

impl Strike {
    /// Each alone and all orders of some, among those that live now.
    pub fn choose(dice: &mut Dice, living: &BTreeSet<Process>) -> Self {
        let mut chosen: Vec<Target> = Vec::new();
        let mut left = vec![Target::Lab];
        left.extend(living.iter().any(|one| one.name == "fsage-agent").then_some(Target::Agent));
        left.extend(living.iter().any(|one| one.name == "fsage-disk").then_some(Target::Server));
        while chosen.is_empty() || (!left.is_empty() && dice.below(3) == 0) {
            let at = usize::try_from(dice.below(u64::try_from(left.len()).unwrap())).unwrap();
            chosen.push(left.swap_remove(at));
        }
        Self(chosen)
    }

    /// Does it, and waits for the end of all but the lab: what was killed but has not ended is still there
    /// for anyone who looks.
    pub fn at(&self, lab: u32, living: &BTreeSet<Process>) {
        for target in &self.0 {
            let name = match target {
                Target::Lab => {
                    kill(lab);
                    continue;
                }
                Target::Agent => "fsage-agent",
                Target::Server => "fsage-disk",
            };
            living.iter().filter(|process| process.name == name).for_each(|process| kill(process.pid));
        }
        let struck = |process: &&Process| match process.name.as_str() {
            "fsage-agent" => self.0.contains(&Target::Agent),
            "fsage-disk" => self.0.contains(&Target::Server),
            _ => false,
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while living.iter().filter(struck).any(|process| is_alive(process.pid)) {
            assert!(Instant::now() < deadline, "{self} does not end");
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// Ends everything of ours, for a test that failed or ended.
pub fn sweep(mark: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = ours(mark);
        left.iter().for_each(|process| kill(process.pid));
        if left.is_empty() || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The agent that a running program has started.
pub fn agent_of(program: u32) -> Option<u32> {
    children(program, "fsage-agent").first().copied()
}

/// The children of a process that have this name.
pub fn children(program: u32, name: &str) -> Vec<u32> {
    let path = format!("/proc/{program}/task");
    let threads = std::fs::read_dir(path).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let all: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let is_named = |pid: &u32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        comm.trim() == name
    };
    all.into_iter().filter(is_named).collect()
}
