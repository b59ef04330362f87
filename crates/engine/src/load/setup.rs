//! What must be right before a load touches anything, and the directory it works in.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_model::load::{AgeTarget, LoadSpec, PaceSpec, WriteMode};
use fsage_model::location::Location;
use fsage_sys::errno::is_out_of_space;
use fsage_sys::folder::Folder;
use fsage_sys::{new_file, xfs};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{self, Access, AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::LoadError;
use super::fullness::{Usage, usage};
use super::message::Failure;
use crate::filesystem;
use crate::location::{Anchor, LocationError, Reach as _};
use crate::tree::write_top_name;

/// Most threads of a load.
const THREADS: std::ops::RangeInclusive<u32> = 1..=64;

/// How often and how long a file system may be waited for that frees space in the background.
const SETTLE_TRIES: u32 = 50;
const SETTLE: Duration = Duration::from_millis(4);

/// Most directory descriptors kept open over all threads.
const DESCRIPTORS: usize = 4096;

/// Refuses specifications that are invalid whatever the directory.
pub fn check(spec: &LoadSpec) -> Result<(), LoadError> {
    let wrong = |what: String| Err(LoadError::Spec { what });
    let stop = &spec.stop;
    if !THREADS.contains(&spec.threads) {
        return wrong(format!("threads = {} is not in 1..=64", spec.threads));
    }
    if stop.operations.is_none()
        && stop.bytes.is_none()
        && stop.seconds.is_none()
        && stop.age.is_none()
        && !stop.full
        && !spec.workload.ends()
    {
        return wrong("stop is empty: give at least one of operations, bytes, seconds, full, age".to_owned());
    }
    if stop.seconds.is_some_and(|seconds| !seconds.is_finite() || seconds <= 0.0) {
        return wrong("stop.seconds must be above 0".to_owned());
    }
    if let Some(pace) = &spec.pace {
        if !PaceSpec::PER_DAY.contains(&pace.operations_per_day) {
            return wrong(format!(
                "pace.operations_per_day = {} is not in 1..=100000000",
                pace.operations_per_day
            ));
        }
        if !PaceSpec::BURST.contains(&pace.burst) {
            return wrong(format!("pace.burst = {} is not in 1..=1000000", pace.burst));
        }
        if pace.interval() > PaceSpec::LONGEST {
            return wrong("bursts of pace are more than ten years apart".to_owned());
        }
        if spec.threads != 1 || spec.deterministic || spec.write_mode == WriteMode::Fast {
            return wrong("pace is for one thread that writes data, and not deterministic".to_owned());
        }
    }
    if spec.probe_every == 0
        && let Some(age) = &stop.age
        && age.needs_probes()
    {
        return wrong("stop.age is checked by probes: give probe_every".to_owned());
    }
    if spec.probe_share.is_some_and(|share| !(share > 0.0 && share < 1.0)) {
        return wrong("probe_share must be above 0 and below 1".to_owned());
    }
    check_near(spec).map_err(|what| LoadError::Spec { what })?;
    stop.age.as_ref().map_or(Ok(()), |age| check_age(age).map_err(|what| LoadError::Spec { what }))
}

/// Refuses what `near` cannot do without.
fn check_near(spec: &LoadSpec) -> Result<(), String> {
    let like = spec.workload.drift().and_then(|drift| drift.like.as_ref());
    if let Some(like) = like {
        // Before anything is derived from it.
        like.profile.check().map_err(|error| format!("workload.like: {error}"))?;
    }
    let stop = &spec.stop;
    if !stop.age.as_ref().is_some_and(|age| age.near) {
        return Ok(());
    }
    if like.is_none() {
        return Err("stop.age.near asks to be near a profile, and workload.like names none".to_owned());
    }
    if stop.operations.is_none() && stop.bytes.is_none() && stop.seconds.is_none() {
        return Err(
            "stop.age.near may never be reached: give stop.operations, bytes or seconds as well".to_owned()
        );
    }
    Ok(())
}

/// Refuses bounds that are met from the start, can never be met or say nothing.
fn check_age(age: &AgeTarget) -> Result<(), String> {
    if *age == AgeTarget::default() {
        return Err("stop.age gives no bound: every load would have reached it".to_owned());
    }
    let bounds = [
        ("extents_per_file", age.extents_per_file, 1.0, f64::MAX),
        ("fragmented_share", age.fragmented_share, 0.0, 1.0),
        ("volume_overwrites", age.volume_overwrites, f64::MIN_POSITIVE, f64::MAX),
        ("converged", age.converged, f64::MIN_POSITIVE, 1.0),
    ];
    for (key, value, low, high) in bounds {
        // Also false for what is not a number.
        let Some(value) = value.filter(|value| !(low..=high).contains(value)) else { continue };
        let range = match (low, high) {
            (1.0, _) => "a number of at least 1",
            (0.0, _) => "in 0..=1",
            (_, 1.0) => "above 0 and at most 1",
            _ => "a number above 0",
        };
        return Err(format!("stop.age.{key} = {value} must be {range}"));
    }
    if age.free_extent_median.is_some_and(|median| median.0 == 0) {
        return Err("stop.age.free_extent_median = 0 must be above 0".to_owned());
    }
    Ok(())
}

/// Refuses a write mode that the file system cannot do, by trying it on a short-lived file that nobody could
/// have put there.
pub fn check_write_mode(test_directory: &TestDirectory, mode: WriteMode) -> Result<(), LoadError> {
    let (flags, call) = match mode {
        WriteMode::Buffered => return Ok(()),
        WriteMode::Direct => (OFlags::DIRECT, "open with O_DIRECT"),
        WriteMode::Fast => (OFlags::empty(), "fallocate"),
    };
    let name = new_file::temporary_name("fsage-write-mode".as_ref());
    let name = name.as_os_str();
    let flags = flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let tried =
        fs::openat(test_directory.fd(), name, flags, Mode::from_raw_mode(0o600)).and_then(
            |file| match mode {
                WriteMode::Fast => fs::fallocate(file, FallocateFlags::empty(), 0, 4096),
                _ => Ok(()),
            },
        );
    // It may not have been made.
    let _ = fs::unlinkat(test_directory.fd(), name, AtFlags::empty());
    match tried {
        // A full volume does not say that it cannot.
        Ok(()) => Ok(()),
        Err(errno) if is_out_of_space(errno.raw_os_error()) => Ok(()),
        Err(errno) => Err(test_directory.error(call, errno)),
    }
}

/// How many directory descriptors a load may keep open; raises the soft limit as far as it helps.
pub fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(2 * DESCRIPTORS).unwrap_or(u64::MAX);
    let reachable = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    let mut have = limit.current.unwrap_or(u64::MAX);
    let raised = Rlimit { current: Some(reachable), maximum: limit.maximum };
    if have < reachable && setrlimit(Resource::Nofile, raised).is_ok() {
        have = reachable;
    }
    usize::try_from(have / 2).unwrap_or(DESCRIPTORS).min(DESCRIPTORS)
}

/// The directory of a load.
#[derive(Debug, Clone)]
pub struct TestDirectory {
    anchor: Anchor,
    resumed: bool,
}

impl TestDirectory {
    /// Opens it; it must exist and be writable.
    pub fn open(location: &Location) -> Result<Self, LoadError> {
        let error = |errno: i32| LoadError::Directory { path: location.path.clone(), errno };
        let anchor = location.open_to_change().map_err(|refused| match refused.errno() {
            Some(errno) => error(errno),
            None => LoadError::Location(refused),
        })?;
        let access = Access::WRITE_OK | Access::EXEC_OK;
        fs::accessat(anchor.fd(), ".", access, AtFlags::EACCESS)
            .map_err(|errno| error(errno.raw_os_error()))?;
        Ok(Self { anchor, resumed: false })
    }

    /// The same where the threads' trees are there already and are resumed.
    pub fn resumed(self) -> Self {
        Self { resumed: true, ..self }
    }

    /// Whether the threads' trees are there already.
    pub const fn is_resumed(&self) -> bool {
        self.resumed
    }

    pub fn path(&self) -> &Path {
        self.anchor.path()
    }

    /// A path of its descriptor; see [`Anchor::held`].
    pub fn held(&self) -> PathBuf {
        self.anchor.held()
    }

    pub const fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.anchor.fd()
    }

    pub fn usage(&self) -> Result<Usage, LoadError> {
        usage(self.fd()).map_err(|errno| self.error("statfs", errno))
    }

    /// Use of the volume after a sync, once it stands still: xfs frees unlinked inodes in the background, up
    /// to 256 of each CPU (fs/xfs/xfs_icache.c); `statfs` makes it start but does not wait. On a busy host it
    /// may not have begun when two readings are equal, so it is waited for where that can be asked for.
    pub fn settled_usage(&self) -> Result<Usage, LoadError> {
        let waited_for = xfs::free_unlinked(self.fd()).is_ok();
        let mut seen = self.usage()?;
        if waited_for {
            return Ok(seen);
        }
        if filesystem::facts(self.fd()).is_ok_and(|facts| facts.counts_at_once) {
            return Ok(seen);
        }
        for _ in 0..SETTLE_TRIES {
            std::thread::sleep(SETTLE);
            let now = self.usage()?;
            if now == seen {
                break;
            }
            seen = now;
        }
        Ok(seen)
    }

    /// Writes everything dirty out.
    pub fn sync(&self) -> Result<(), LoadError> {
        fs::syncfs(self.fd()).map_err(|errno| self.error("syncfs", errno))
    }

    /// A failure of a call on the directory.
    pub fn error(&self, call: &'static str, errno: Errno) -> LoadError {
        LoadError::System { call, path: self.path().to_owned(), errno: errno.raw_os_error() }
    }

    /// What a thread's failure is to the user.
    pub fn failure(&self, failure: Failure) -> LoadError {
        let path = || self.path().to_owned();
        let system = |call, errno| LoadError::System { call, path: path(), errno };
        match failure {
            Failure::Device { errno, consecutive } => {
                LoadError::DeviceFailed { path: path(), errno, consecutive }
            }
            Failure::Futile { errno, consecutive } => LoadError::Futile { path: path(), errno, consecutive },
            Failure::Stuck => LoadError::Workload {
                what: "nothing to do: no operation that has a weight finds an object to work on".to_owned(),
                hint: String::new(),
            },
            Failure::Materialise { errno } => system("writing a file in place", errno),
        }
    }

    /// Makes the threads' top directories, after a look that none is there with something in it.
    pub fn make_tops(&self, threads: usize) -> Result<(), LoadError> {
        let names: Vec<PathBuf> = (0_u32..).take(threads).map(top_name).collect();
        for name in &names {
            let path = || self.path().join(name);
            match self.anchor.open(name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
                Ok(top) if is_empty(&top) => own(top, path())?,
                Err(Errno::NOENT) => {}
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(LoadError::Taken { path: path() }),
                Ok(_) | Err(_) => return Err(LoadError::Leftover { path: path() }),
            }
        }
        for name in &names {
            let path = || self.path().join(name);
            let failed = |errno: Errno| LoadError::Directory { path: path(), errno: errno.raw_os_error() };
            match fs::mkdirat(self.fd(), name, Mode::from_raw_mode(0o755)) {
                Ok(()) => {}
                // As it was, or another user's that came after the look.
                Err(Errno::EXIST) => {
                    let top = self.anchor.open(name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
                    own(top.map_err(failed)?, path())?;
                }
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(())
    }
}

/// Refuses a thread's top directory that was there already and that another user could change while root works
/// in it: in a sticky directory anyone makes one.
fn own(top: OwnedFd, path: PathBuf) -> Result<(), LocationError> {
    let checked = Folder::held(top, &path).and_then(|top| new_file::check_owner(&top));
    checked.map_err(|source| LocationError::Open { path, source })
}

/// Name of a thread's top directory.
pub fn top_name(thread: u32) -> PathBuf {
    let mut name = Vec::new();
    write_top_name(&mut name, thread);
    OsStr::from_bytes(&name).into()
}

/// Whether a directory holds nothing; one that cannot be read does.
pub fn is_empty(directory: &OwnedFd) -> bool {
    let dots = |entry: &fs::DirEntry| matches!(entry.file_name().to_bytes(), b"." | b"..");
    fs::Dir::read_from(directory)
        .is_ok_and(|entries| entries.into_iter().all(|entry| entry.is_ok_and(|entry| dots(&entry))))
}
