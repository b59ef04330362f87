//! A control group that limits the memory of a program, its page cache included.
//!
//! Of version 1 it is made below the agent's own group. In version 2 a group that has processes cannot have limited
//! groups below it (`Documentation/admin-guide/cgroup-v2.rst`, "No Internal Process Constraint"), but the root may: there
//! it is made beside the agent's own group. Nothing is swapped, so that the page cache has what the processes leave.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_model::memory::{CONTROL_GROUPS, MemoryGroup, MemoryUse, is_group};
use fsage_sys::memory_group::{Hierarchy, hierarchies_of_self};
use rustix::fs::{Access, access};

use super::{HostError, patiently, read_trimmed, remove_kernel_directory};

/// How long a group may stay busy after its last process ended, or after what it had in memory was too much for a limit.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The hierarchy in which groups are made; none where memory cannot be limited.
#[must_use]
pub fn usable() -> Option<Hierarchy> {
    let is_usable =
        |hierarchy: &Hierarchy| hierarchy.point.starts_with(CONTROL_GROUPS) && parent(hierarchy).is_some();
    hierarchies_of_self().into_iter().find(is_usable)
}

/// Where a group of this name can be made.
///
/// # Errors
/// The kernel has no controller for memory that this process may use, with the reason.
pub fn place(name: &str) -> Result<PathBuf, HostError> {
    let path = usable().and_then(|hierarchy| parent(&hierarchy)).map(|parent| parent.join(name));
    if let Some(path) = path {
        check(&path)?;
        return Ok(path);
    }
    let why = match hierarchies_of_self().first() {
        None => "no control groups that can limit memory are mounted".to_owned(),
        Some(first) if !first.point.starts_with(CONTROL_GROUPS) => {
            format!("control groups are mounted at {}, not below {CONTROL_GROUPS}", first.point.display())
        }
        Some(first) => format!(
            "the memory controller is not enabled in {}, or the group cannot be changed from here",
            above(first).display()
        ),
    };
    Err(HostError::NoMemoryGroup { why })
}

/// The group below which one with a limit can be made.
fn parent(hierarchy: &Hierarchy) -> Option<PathBuf> {
    let above = above(hierarchy);
    let enabled = if hierarchy.unified {
        let controllers = read_trimmed(above.join("cgroup.subtree_control"));
        controllers.split_ascii_whitespace().any(|one| one == "memory")
    } else {
        above.join(Names::V1.limit).exists()
    };
    // A container may see groups that it cannot change.
    let is_usable = enabled && access(&above, Access::WRITE_OK).is_ok();
    is_usable.then_some(above)
}

fn above(hierarchy: &Hierarchy) -> PathBuf {
    let own = &hierarchy.own;
    match own.parent() {
        Some(parent) if hierarchy.unified && *own != hierarchy.point => parent.to_owned(),
        _ => own.clone(),
    }
}

/// Names of files of a group.
#[derive(Debug)]
struct Names {
    limit: &'static str,
    /// What keeps the group's memory from being swapped, and its value.
    no_swap: (&'static str, &'static str),
    /// Where kills are counted, as `oom_kill`.
    events: &'static str,
    /// Where it is counted how often the limit was reached, and under which name, if any.
    full: (&'static str, &'static str),
    /// Fields of `memory.stat`: page cache, and memory of the processes.
    cache: &'static str,
    process: &'static str,
}

impl Names {
    const V1: Self = Self {
        limit: "memory.limit_in_bytes",
        no_swap: ("memory.swappiness", "0"),
        events: "memory.oom_control",
        full: ("memory.failcnt", ""),
        cache: "cache",
        process: "rss",
    };
    const V2: Self = Self {
        limit: "memory.max",
        no_swap: ("memory.swap.max", "0"),
        events: "memory.events",
        full: ("memory.events", "max"),
        cache: "file",
        process: "anon",
    };
}

/// A group that is there.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    names: &'static Names,
    limit_bytes: u64,
    killed_before: u64,
    used: MemoryUse,
}

impl Group {
    /// Makes it, where it is not there yet, and sets its limit.
    ///
    /// # Errors
    /// It is no group of fsage's; the kernel refuses it, or a limit that is below what the group already has.
    pub fn make(wanted: &MemoryGroup) -> Result<Self, HostError> {
        let MemoryGroup { path, limit_bytes } = wanted;
        check(path)?;
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(HostError::file("make the control group", path)(error));
            }
            _ => {}
        }
        let names = if path.join(Names::V2.limit).exists() { &Names::V2 } else { &Names::V1 };
        // A kernel without swap has no such file. In version 1, a parent may have turned kills off, which would have the program
        // wait for ever; version 2 has no such setting.
        let (swap, value) = names.no_swap;
        let _ = write(&path.join(swap), value);
        let _ = write(&path.join("memory.oom_control"), "0");
        set_limit(&path.join(names.limit), *limit_bytes)?;
        let used = MemoryUse { limit_bytes: *limit_bytes, ..MemoryUse::default() };
        let group = Self { path: path.clone(), names, limit_bytes: *limit_bytes, killed_before: 0, used };
        Ok(Self { killed_before: group.kills(), ..group })
    }

    /// What a program writes to that is to run in it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn procs(&self) -> Result<OwnedFd, HostError> {
        let path = self.path.join("cgroup.procs");
        let opened = File::options().write(true).open(&path);
        Ok(opened.map_err(HostError::file("open", &path))?.into())
    }

    /// Notes what it has in memory now.
    pub fn sample(&mut self) {
        let stat = read_trimmed(self.path.join("memory.stat"));
        let now = |name: &str| field(&stat, name).unwrap_or(0);
        // Shared memory counts as page cache for the kernel, and holds no file.
        let shared = now("shmem");
        self.used.cache_bytes = self.used.cache_bytes.max(now(self.names.cache).saturating_sub(shared));
        self.used.process_bytes = self.used.process_bytes.max(now(self.names.process) + shared);
    }

    /// What was used since it was made.
    #[must_use]
    pub fn used(&self) -> MemoryUse {
        MemoryUse {
            limit_bytes: self.limit_bytes,
            killed: self.kills().saturating_sub(self.killed_before).min(self.times_full()),
            ..self.used
        }
    }

    /// How often the limit was reached; without that, a kill was somebody else's.
    fn times_full(&self) -> u64 {
        let (file, name) = self.names.full;
        let text = read_trimmed(self.path.join(file));
        if name.is_empty() { text.parse().unwrap_or(0) } else { field(&text, name).unwrap_or(0) }
    }

    /// Kills of any reason; each counts only where the group itself was at its limit ([`Group::used`]).
    fn kills(&self) -> u64 {
        field(&read_trimmed(self.path.join(self.names.events)), "oom_kill").unwrap_or(0)
    }
}

/// Removes a group that [`Group::make`] made; one that is gone is not an error.
///
/// # Errors
/// It is no group of fsage's, or still has processes.
pub fn remove(path: &Path) -> Result<(), HostError> {
    check(path)?;
    remove_kernel_directory(path, BUSY_WAIT).map_err(HostError::file("remove the control group", path))
}

fn check(path: &Path) -> Result<(), HostError> {
    if is_group(path) {
        return Ok(());
    }
    Err(HostError::Senseless { what: format!("{} is not a control group of fsage's", path.display()) })
}

/// A limit below what the group has makes the kernel free page cache, which may have to be written back first.
fn set_limit(file: &Path, bytes: u64) -> Result<(), HostError> {
    patiently(BUSY_WAIT, || write(file, &bytes.to_string()))
        .map_err(HostError::file("set the memory limit", file))
}

/// Writes to a file that the kernel made: none is made here.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    File::options().write(true).open(file)?.write_all(text.as_bytes())
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::super::tool;
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let stat = "cache 4096\nrss_huge 7\nrss 12\noom_kill_disable 0\noom_kill 3\n";
        assert_eq!(field(stat, "cache"), Some(4096));
        assert_eq!(field(stat, "rss"), Some(12));
        assert_eq!(field(stat, "oom_kill"), Some(3));
        assert_eq!(field(stat, "anon"), None);
    }

    #[test]
    fn version_2_needs_the_controller_in_the_group_above() {
        let directory = tempfile::tempdir().unwrap();
        let (point, own) = (directory.path().to_owned(), directory.path().join("user.slice/session.scope"));
        std::fs::create_dir_all(&own).unwrap();
        let hierarchy = Hierarchy { point: point.clone(), own, unified: true };
        assert_eq!(parent(&hierarchy), None);
        std::fs::write(point.join("user.slice/cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        assert_eq!(parent(&hierarchy), Some(point.join("user.slice")));
        let root = Hierarchy { own: point.clone(), ..hierarchy };
        assert_eq!(parent(&root), None);
        std::fs::write(point.join("cgroup.subtree_control"), "memory\n").unwrap();
        assert_eq!(parent(&root), Some(point));
    }

    #[test]
    fn version_1_has_it_below_the_own_group() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("a");
        std::fs::create_dir_all(&own).unwrap();
        let hierarchy = Hierarchy { point: directory.path().to_owned(), own: own.clone(), unified: false };
        assert_eq!(parent(&hierarchy), None, "the controller is not there");
        std::fs::write(own.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        assert_eq!(parent(&hierarchy), Some(own));
    }

    #[test]
    fn nothing_else_is_made_or_removed() {
        for path in ["/sys/fs/cgroup/memory", "/tmp/fsage-1-1", "/sys/fs/cgroup/../fsage-1-1"] {
            let path = PathBuf::from(path);
            assert!(matches!(remove(&path), Err(HostError::Senseless { .. })), "{}", path.display());
            let made = Group::make(&MemoryGroup { path: path.clone(), limit_bytes: 1 << 30 });
            assert!(matches!(made, Err(HostError::Senseless { .. })), "{}", path.display());
        }
    }

    #[test]
    fn a_program_in_a_group_is_limited_and_its_page_cache_counted() {
        let name = format!("fsage-{}-0", std::process::id());
        let path = match place(&name) {
            Ok(path) => path,
            Err(error) => panic!("tests need control groups that limit memory: {error}"),
        };
        let limit_bytes = 48 << 20;
        let mut group = Group::make(&MemoryGroup { path: path.clone(), limit_bytes }).unwrap();
        let children = tool::Children::default();
        // Not on a tmpfs, whose pages are no cache that can be dropped.
        let folder = tempfile::tempdir_in(".").unwrap();
        let file = folder.path().join("file").display().to_string();
        let run = |group: &Group, script: &str| {
            let words = ["/bin/sh", "-c", script].map(str::to_owned);
            let procs = Some(group.procs().unwrap());
            let limit = Duration::from_secs(60);
            tool::run_watched(&children, (&words, procs), limit, &mut |_| tool::Course::Continue)
                .unwrap()
                .status
        };
        let write = format!("head -c 100M /dev/zero >'{file}' && sync '{file}'");
        // Another test may drop the host's page cache before it is inspected.
        for _ in 0..5 {
            assert_eq!(run(&group, &write), 0, "page cache is freed, not a reason to kill");
            group.sample();
            if group.used().cache_bytes > 8 << 20 {
                break;
            }
        }
        let used = group.used();
        assert!(used.cache_bytes > 8 << 20 && used.cache_bytes <= limit_bytes, "{used:?}");
        assert_eq!((used.killed, used.limit_bytes), (0, limit_bytes));
        // What a process holds itself cannot be freed.
        let hog = "x=$(head -c 100M /dev/zero | tr '\\0' x); echo ${#x}";
        assert_ne!(run(&group, hog), 0);
        assert_eq!(group.used().killed, 1);
        remove(&path).unwrap();
        assert!(!path.exists());
        remove(&path).unwrap();
    }
}
