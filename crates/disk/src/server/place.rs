//! The directory of a server.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fsage_model::disk::ProcessRecord;
use fsage_sys::folder::Folder;
use fsage_sys::owners::is_trusted;
use fsage_sys::{input, new_file};
use rustix::fs::fstat;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::export::fuse::FILE_NAME;

/// Paths in the directory of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDirectory {
    directory: PathBuf,
}

impl ServerDirectory {
    /// That of `directory`.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The directory itself.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the file system with the disk is mounted.
    #[must_use]
    pub fn mount(&self) -> PathBuf {
        self.directory.join("mount")
    }

    /// The disk.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.mount().join(FILE_NAME)
    }

    /// The socket.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.directory.join("control")
    }

    /// The socket of the network block device.
    #[must_use]
    pub fn nbd(&self) -> PathBuf {
        self.directory.join("nbd")
    }

    /// Opens the directory. What lies in it says which process is killed and what is removed, so that nobody
    /// else may write there.
    ///
    /// # Errors
    /// It cannot be opened, or (for root) an untrusted user could change it.
    pub fn open(&self) -> io::Result<Folder> {
        let folder = Folder::open(&self.directory)?;
        new_file::check_owner(&folder)?;
        Ok(folder)
    }

    /// The process that is recorded here, held so that its number cannot become another's; nothing when it is
    /// gone, or is no server of this directory.
    pub(super) fn hold(&self) -> Option<(ProcessRecord, OwnedFd)> {
        let process = self.process().ok().flatten()?;
        let held = pidfd_open(Pid::from_raw(process.pid.try_into().ok()?)?, PidfdFlags::empty()).ok()?;
        (is_alive(&process) && self.is_served_by(process.pid)).then_some((process, held))
    }

    /// Whether the command line of a process is a server's of this directory: the record may be wrong.
    fn is_served_by(&self, pid: u32) -> bool {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0).skip(1);
        if words.next() != Some(b"serve") {
            return false;
        }
        let named = words.skip_while(|word| *word != b"--directory").nth(1).map(OsStr::from_bytes);
        let same = |other: Folder| {
            let (own, other) = (fstat(Folder::open(&self.directory)?)?, fstat(other)?);
            io::Result::Ok((own.st_dev, own.st_ino) == (other.st_dev, other.st_ino))
        };
        let owner = fs::metadata(format!("/proc/{pid}")).map(|found| found.uid());
        owner.is_ok_and(is_trusted)
            && named.is_some_and(|named| match Folder::open(Path::new(named)).and_then(same) {
                Ok(same) => same,
                // The directory was moved while it served.
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            })
    }

    /// Does something with the socket by a path that is short, however long the real one is: sockets have at
    /// most 108 bytes.
    pub(super) fn with_socket<R>(&self, work: impl FnOnce(&Path) -> io::Result<R>) -> io::Result<R> {
        let directory = File::open(&self.directory)?;
        work(Path::new(&format!("/proc/self/fd/{}/control", directory.as_raw_fd())))
    }

    /// The disk's clock, for anyone who times something by it: see [`fsage_sys::shared_clock`].
    #[must_use]
    pub fn clock(&self) -> PathBuf {
        self.directory.join("clock")
    }

    /// CPU time that passes on that clock, where it does: see [`fsage_sys::think_time`].
    #[must_use]
    pub fn think(&self) -> PathBuf {
        self.directory.join("think")
    }

    /// The process record.
    #[must_use]
    pub fn pid(&self) -> PathBuf {
        self.directory.join("pid")
    }

    /// What a kernel setting was before the server changed it; there only while it is changed.
    #[must_use]
    pub fn switch_record(&self) -> PathBuf {
        self.directory.join("enable_uring")
    }

    /// Which device of ublk the disk is, where it is one.
    #[cfg(feature = "ublk")]
    #[must_use]
    pub fn ublk_record(&self) -> PathBuf {
        self.directory.join("ublk")
    }

    /// The messages.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.directory.join("log.txt")
    }

    /// The process that is recorded here, dead or alive.
    ///
    /// # Errors
    /// When there is a record that cannot be read.
    pub fn process(&self) -> io::Result<Option<ProcessRecord>> {
        match input::read_trusted(&self.pid(), 4096) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether something is mounted here. Asks no server.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        let Ok(table) = fs::read_to_string("/proc/self/mountinfo") else { return false };
        let Ok(directory) = self.directory.canonicalize() else { return false };
        let point = directory.join("mount");
        let point = escape(&point.to_string_lossy());
        table.lines().any(|line| line.split(' ').nth(4) == Some(point.as_str()))
    }
}

/// A path as the kernel writes it into the mount table.
fn escape(path: &str) -> String {
    path.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

/// This process.
pub(super) fn own_process() -> io::Result<ProcessRecord> {
    let pid = std::process::id();
    let start_ticks = start_ticks(pid).ok_or_else(|| io::Error::other("cannot read /proc/self/stat"))?;
    Ok(ProcessRecord { pid, start_ticks })
}

/// Whether a process still runs. One that is dead but not yet waited for does not.
#[must_use]
pub fn is_alive(process: &ProcessRecord) -> bool {
    start_ticks(process.pid) == Some(process.start_ticks)
}

/// When a process was started; nothing when there is none, or only its remains.
fn start_ticks(pid: u32) -> Option<u64> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of `/proc/PID/stat`; nothing of a process that is dead (`Z`, `X`). The second field, the name,
/// may hold anything.
fn parse_stat(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_are_found_behind_any_name() {
        let rest = "4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 7777 23 24";
        assert_eq!(parse_stat(&format!("12 (a) S 1) S {rest}")), Some(7777));
        assert_eq!(parse_stat(&format!("12 (a) Z {rest}")), None);
        assert_eq!(parse_stat("12 (a"), None);
        let own = own_process().unwrap();
        assert!(is_alive(&own));
        assert!(!is_alive(&ProcessRecord { start_ticks: own.start_ticks + 1, ..own }));
    }

    #[test]
    fn an_empty_directory_holds_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let place = ServerDirectory::new(directory.path());
        assert_eq!(place.process().unwrap(), None);
        assert!(!place.is_mounted());
        fs::write(place.pid(), "nonsense").unwrap();
        assert!(place.process().is_err());
    }
}
