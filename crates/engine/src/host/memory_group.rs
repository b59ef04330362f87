//! A control group that limits the memory of a program, its page cache included.
//!
//! Of version 1 it is made below the agent's own group. In version 2 a group that has processes cannot have limited
//! groups below it (`Documentation/admin-guide/cgroup-v2.rst`, "No Internal Process Constraint"), but the root may: there
//! it is made beside the agent's own group. Nothing is swapped, so that the page cache has what the processes leave.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_model::memory::{CONTROL_GROUPS, MemoryGroup, MemoryUse, is_group};
use fsage_sys::memory_group::{Hierarchy, hierarchies_of_self};
use rustix::io::Errno;

use super::{HostError, read_trimmed, tool};

/// How long a group may stay busy after its last process ended, or after what it had in memory was too much for a limit.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The hierarchy in which groups are made; none where memory cannot be limited.
#[must_use]
pub fn usable() -> Option<Hierarchy> {
    hierarchies_of_self().into_iter().find(|hierarchy| parent(hierarchy).is_some())
}

/// Where a group of this name can be made.
///
/// # Errors
/// The kernel has no controller for memory that this process may use, with the reason.
pub fn place(name: &str) -> Result<PathBuf, HostError> {
    let found = hierarchies_of_self();
    let path = found.iter().find_map(parent).map(|parent| parent.join(name));
    let why = || match found.as_slice() {
        [] => "no control groups that can limit memory are mounted".to_owned(),
        [first, ..] => format!("the memory controller is not enabled below {}", above(first).display()),
    };
    let path = path.ok_or_else(|| HostError::NoMemoryGroup { why: why() })?;
    if is_group(&path) {
        return Ok(path);
    }
    let why = format!("control groups are mounted at {}, not below {CONTROL_GROUPS}", path.display());
    Err(HostError::NoMemoryGroup { why })
}

/// The group below which one with a limit can be made.
fn parent(hierarchy: &Hierarchy) -> Option<PathBuf> {
    let above = above(hierarchy);
    let enabled = if hierarchy.unified {
        let controllers = read_trimmed(above.join("cgroup.subtree_control"));
        controllers.split_ascii_whitespace().any(|one| one == "memory")
    } else {
        above.join(File::V1.limit).exists()
    };
    enabled.then_some(above)
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
struct File {
    limit: &'static str,
    /// What keeps the group's memory from being swapped, and its value.
    no_swap: (&'static str, &'static str),
    /// Where kills are counted, as `oom_kill`.
    events: &'static str,
    /// Fields of `memory.stat`: page cache, and memory of the processes.
    cache: &'static str,
    process: &'static str,
}

impl File {
    const V1: Self = Self {
        limit: "memory.limit_in_bytes",
        no_swap: ("memory.swappiness", "0"),
        events: "memory.oom_control",
        cache: "cache",
        process: "rss",
    };
    const V2: Self = Self {
        limit: "memory.max",
        no_swap: ("memory.swap.max", "0"),
        events: "memory.events",
        cache: "file",
        process: "anon",
    };
}

/// A group that is there.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    file: &'static File,
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
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(HostError::file("make the control group", path)(error));
            }
            _ => {}
        }
        let file = if path.join(File::V2.limit).exists() { &File::V2 } else { &File::V1 };
        // A kernel without swap has no such file.
        let (swap, value) = file.no_swap;
        let _ = std::fs::write(path.join(swap), value);
        set_limit(&path.join(file.limit), *limit_bytes)?;
        let used = MemoryUse { limit_bytes: *limit_bytes, ..MemoryUse::default() };
        let group = Self { path: path.clone(), file, limit_bytes: *limit_bytes, killed_before: 0, used };
        Ok(Self { killed_before: group.kills(), ..group })
    }

    /// The words that run a program in the group: a shell puts itself into it before it becomes the program.
    ///
    /// # Errors
    /// The program is not installed.
    pub fn words(&self, argv: Vec<String>) -> Result<Vec<String>, HostError> {
        let mut argv = argv.into_iter();
        let program = argv.next().unwrap_or_default();
        let Some(path) = tool::look_up(&program) else { return Err(HostError::NoProgram { program }) };
        let script = r#"echo $$ >"$0" && exec "$@""#.to_owned();
        let procs = self.path.join("cgroup.procs").display().to_string();
        let begin = ["/bin/sh".to_owned(), "-c".to_owned(), script, procs, path.display().to_string()];
        Ok(begin.into_iter().chain(argv).collect())
    }

    /// Looks what it has in memory now.
    pub fn sample(&mut self) {
        let stat = read_trimmed(self.path.join("memory.stat"));
        let now = |name: &str| field(&stat, name).unwrap_or(0);
        self.used.cache_bytes = self.used.cache_bytes.max(now(self.file.cache));
        self.used.process_bytes = self.used.process_bytes.max(now(self.file.process));
    }

    /// What was used since it was made.
    #[must_use]
    pub fn used(&self) -> MemoryUse {
        MemoryUse {
            limit_bytes: self.limit_bytes,
            killed: self.kills().saturating_sub(self.killed_before),
            ..self.used
        }
    }

    fn kills(&self) -> u64 {
        field(&read_trimmed(self.path.join(self.file.events)), "oom_kill").unwrap_or(0)
    }
}

/// Removes a group that [`Group::make`] made; one that is gone is not an error.
///
/// # Errors
/// It is no group of fsage's, or still has processes.
pub fn remove(path: &Path) -> Result<(), HostError> {
    check(path)?;
    patiently(Errno::BUSY, || match std::fs::remove_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    })
    .map_err(HostError::file("remove the control group", path))
}

fn check(path: &Path) -> Result<(), HostError> {
    if is_group(path) {
        return Ok(());
    }
    Err(HostError::Senseless { what: format!("{} is no control group of fsage's", path.display()) })
}

/// A limit below what the group has makes the kernel free page cache, which may have to be written back first.
fn set_limit(file: &Path, bytes: u64) -> Result<(), HostError> {
    patiently(Errno::BUSY, || std::fs::write(file, bytes.to_string()))
        .map_err(HostError::file("set the memory limit", file))
}

/// Tries again while the kernel answers `passing`, for some seconds.
fn patiently(passing: Errno, mut attempt: impl FnMut() -> std::io::Result<()>) -> std::io::Result<()> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(error)
                if error.raw_os_error() == Some(passing.raw_os_error()) && started.elapsed() < BUSY_WAIT =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
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
        // Not on a tmpfs, whose pages are no cache that can be dropped.
        let folder = tempfile::tempdir_in(".").unwrap();
        let file = folder.path().join("file").display().to_string();
        let words = |script: &str| ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let run = |group: &Group, script: &str| {
            let words = group.words(words(script)).unwrap();
            std::process::Command::new(&words[0]).args(&words[1..]).status().unwrap()
        };
        let write = format!("head -c 100M /dev/zero >'{file}' && sync '{file}'");
        assert!(run(&group, &write).success(), "page cache is freed, not a reason to kill");
        group.sample();
        let used = group.used();
        assert!(used.cache_bytes > 8 << 20 && used.cache_bytes <= limit_bytes, "{used:?}");
        assert_eq!((used.killed, used.limit_bytes), (0, limit_bytes));
        // What a process holds itself cannot be freed.
        let hog = "x=$(head -c 100M /dev/zero | tr '\\0' x); echo ${#x}";
        assert!(!run(&group, hog).success());
        assert_eq!(group.used().killed, 1);
        remove(&path).unwrap();
        assert!(!path.exists());
        remove(&path).unwrap();
    }
}
