//! Processes of an earlier agent: finding and ending them.
//!
//! A process is named by pid **and** start time (field 22 of /proc/PID/stat), so that a later process with
//! the same number is never touched; signals go through a pidfd opened before that is checked. What an
//! agent started is found by [`MARKER`] in its environment, which is inherited however often it forks.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;

use super::HostError;

/// Environment variable that names the agent a program was started by: [`Identity`] as text.
pub const MARKER: &str = "FSAGE_AGENT_PROCESS";

/// A process that cannot be mistaken for a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pid, self.start_ticks)
    }
}

impl Identity {
    /// This process.
    #[must_use]
    pub fn own() -> Self {
        static OWN: OnceLock<Identity> = OnceLock::new();
        *OWN.get_or_init(|| {
            let pid = std::process::id();
            Self { pid, start_ticks: start_ticks(pid).unwrap_or(0) }
        })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks) && is_alive(self.pid)
    }
}

/// Field 22 of /proc/PID/stat; `None` when there is no such process.
#[must_use]
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    after_name(&stat)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The fields from the third on: the second is a name that may hold anything, parentheses too.
fn after_name(stat: &str) -> Option<&str> {
    stat.rsplit_once(')').map(|(_, rest)| rest)
}

/// Whether any thread of the process still runs. A zombie holds nothing but its number; but while its
/// leader is one, other threads may still be in a system call.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    tasks.flatten().any(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = after_name(&stat).and_then(|rest| rest.trim_start().chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    })
}

/// Kills `identity` and everything it started, and waits until they are gone. Gone already is fine.
///
/// # Errors
/// Something is still there when `limit` has passed; the process is this one.
pub fn end(identity: Identity, limit: Duration) -> Result<(), HostError> {
    if identity == Identity::own() {
        return Err(HostError::Senseless { what: "an agent cannot end itself".to_owned() });
    }
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    let mut killed: Vec<Killed> = Vec::new();
    let mut quiet = 0;
    loop {
        // The agent first: it could start more.
        if !killed.iter().any(|one| one.pid == identity.pid) {
            killed.extend(kill(identity.pid, || start_ticks(identity.pid) == Some(identity.start_ticks))?);
        }
        if killed.iter().all(Killed::is_gone) {
            for pid in started_by(identity) {
                killed.extend(kill(pid, || is_started_by(pid, identity))?);
            }
        }
        // One that was killed has no environment any more while its memory is freed, which may take seconds,
        // but its descriptor tells.
        killed.retain(|one| !one.is_gone());
        // Two looks round that find nothing: one could miss what is forked behind its back.
        quiet = if killed.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 {
            return Ok(());
        }
        let Some(one) = killed.first() else { continue };
        if started.elapsed() > limit {
            return Err(HostError::Unkillable { pid: one.pid, seconds: started.elapsed().as_secs_f64() });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// A process that was killed, by a descriptor that no later process can have.
struct Killed {
    pid: u32,
    descriptor: OwnedFd,
}

impl Killed {
    /// Whether all its threads have ended: then the descriptor is readable.
    fn is_gone(&self) -> bool {
        let mut look = [PollFd::new(&self.descriptor, PollFlags::IN)];
        matches!(poll(&mut look, Some(&Timespec::default())), Ok(1))
    }
}

/// Kills a process if it is the one that is meant, which `is_meant` tells once the descriptor is open: the
/// number may be another's by then. `None`: it is another, or gone.
///
/// # Errors
/// It cannot be determined whether it is there, for lack of descriptors and the like.
fn kill(pid: u32, is_meant: impl FnOnce() -> bool) -> Result<Option<Killed>, HostError> {
    let Some(handle) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let descriptor = match pidfd_open(handle, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::SRCH) => return Ok(None),
        Err(error) => {
            return Err(HostError::file("open process", &PathBuf::from(format!("/proc/{pid}")))(
                error.into(),
            ));
        }
    };
    let killed = Killed { pid, descriptor };
    if killed.is_gone() || !is_meant() {
        return Ok(None);
    }
    // Refused (EPERM) or not: it is there, and the caller's time limit decides.
    let _ = pidfd_send_signal(&killed.descriptor, Signal::KILL);
    Ok(Some(killed))
}

/// Whether root or this user started a process: its real user is one of them, also where it runs with
/// another's rights.
#[must_use]
pub fn is_ours(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let real = users.and_then(|users| users.split_whitespace().next()?.parse::<u32>().ok());
    real.is_some_and(|real| real == 0 || real == rustix::process::getuid().as_raw())
}

/// Waits until a process that somebody else has ended is gone; one that runs on is not waited for.
///
/// # Errors
/// It is still ending when `limit` has passed.
pub fn wait_if_ending(identity: Identity, limit: Duration) -> Result<(), HostError> {
    let started = Instant::now();
    while is_ending(identity) {
        if started.elapsed() > limit {
            let seconds = started.elapsed().as_secs_f64();
            return Err(HostError::Unkillable { pid: identity.pid, seconds });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether a process has begun to exit (`PF_EXITING` of field 9 of /proc/PID/stat) and has not ended.
fn is_ending(identity: Identity) -> bool {
    const PF_EXITING: u64 = 4;
    if start_ticks(identity.pid) != Some(identity.start_ticks) || !is_alive(identity.pid) {
        return false;
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", identity.pid)).unwrap_or_default();
    let flags = after_name(&stat).and_then(|rest| rest.split_ascii_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_EXITING != 0)
}

/// Living processes whose environment names `identity` as their agent.
fn started_by(identity: Identity) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&pid| pid != std::process::id())
        .filter(|&pid| is_started_by(pid, identity))
        .filter(|&pid| is_alive(pid))
        .collect()
}

/// Whether the environment of a process names `identity` as its agent.
fn is_started_by(pid: u32, identity: Identity) -> bool {
    let wanted = format!("{MARKER}={identity}");
    environment(pid).split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// Whether a process other than its leader still runs in a group.
pub(super) fn has_followers(group: u32) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&pid| pid != group && group_of(pid) == Some(group))
        .any(is_alive)
}

/// Children of a process (field 4 of /proc/PID/stat), zombies too.
pub(super) fn children_of(parent: Pid) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let wanted = parent.as_raw_nonzero().get();
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| parent_of(*pid) == Some(wanted))
        .filter_map(Pid::from_raw)
        .collect()
}

/// Field 4 of /proc/PID/stat.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    after_name(&stat)?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Field 5 of /proc/PID/stat.
fn group_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    after_name(&stat)?.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// The environment block of a process. In the middle of execve(2) a process has none for a moment: look
/// again before believing that. Kernel threads have no executable, and never one.
fn environment(pid: u32) -> Vec<u8> {
    let path = format!("/proc/{pid}/environ");
    let mut found = std::fs::read(&path).unwrap_or_default();
    let mut looks = 0;
    while found.is_empty() && looks < 10 && std::fs::read_link(format!("/proc/{pid}/exe")).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
        found = std::fs::read(&path).unwrap_or_default();
        looks += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn own_start_is_known_and_self_is_spared() {
        let own = Identity::own();
        assert!(own.start_ticks > 0 && own.is_alive());
        assert!(matches!(end(own, Duration::ZERO), Err(HostError::Senseless { .. })));
    }

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        assert_eq!(after_name("7 (a) b) (c)) S 1 2"), Some(" S 1 2"));
    }

    #[test]
    fn a_process_of_another_time_is_spared() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        let ticks = start_ticks(pid).unwrap();
        end(Identity { pid, start_ticks: ticks + 1 }, Duration::from_secs(5)).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        end(Identity { pid, start_ticks: ticks }, Duration::from_secs(5)).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_number_that_became_anothers_before_the_signal_is_spared() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        // The process that was meant ended between the look round and the descriptor.
        assert!(kill(child.id(), || false).unwrap().is_none());
        assert!(child.try_wait().unwrap().is_none());
        let killed = kill(child.id(), || true).unwrap().unwrap();
        assert!(!child.wait().unwrap().success() && killed.is_gone());
        assert!(kill(child.id(), || true).unwrap().is_none(), "it is gone");
    }

    #[test]
    fn descendants_are_found_by_their_environment() {
        let identity = Identity { pid: 4_000_000, start_ticks: 12 };
        let script = "setsid sleep 600 >/dev/null 2>&1 & echo $!";
        let output =
            Command::new("sh").args(["-c", script]).env(MARKER, identity.to_string()).output().unwrap();
        assert!(output.status.success());
        let deadline = Instant::now() + Duration::from_secs(5);
        while started_by(identity).is_empty() {
            assert!(Instant::now() < deadline);
        }
        end(identity, Duration::from_secs(5)).unwrap();
        assert!(started_by(identity).is_empty());
    }
}
