//! What every measure works with: the directory, the seed, the clock, and making things cold.

use std::path::{Path, PathBuf};
use std::time::Instant;

use fsage_model::disk::DiskUse;
use fsage_model::measure::{MeasureMetric, RequestSummary, depth};
use fsage_model::quantity::as_f64;
use fsage_model::warning::Warning;
use fsage_model::warning::WarningKind;
use fsage_sys::clock::{CpuTime, raw_ns, thread_cpu};
use fsage_sys::mount::descriptor_path;
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, syncfs, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::device::Device;
use crate::disk::{Clock, Meter};

use super::extra::Extra;
use super::requests::Tracer;
use super::{MeasureError, listing::Unseen};
use crate::host::cache;
use crate::host::held::HeldDevices;
use crate::load::{Control, LoadSink};
use crate::location::Anchor;

/// Names inspected between two reads of the control and the clock of progress.
const STRIDE: u64 = 32;

/// What a measure has to say, as far as it counts things.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub bytes: u64,
    pub files: u64,
    pub operations: u64,
}

/// When the clocks were started.
#[derive(Debug, Clone, Copy)]
struct Moment {
    wall_ns: u64,
    clock_ns: u64,
    cpu: CpuTime,
}

/// A measure under way.
pub(super) struct Context<'a> {
    /// The tree's path, to be shown.
    pub directory: &'a Path,
    /// The tree.
    pub anchor: &'a Anchor,
    pub seed: u64,
    pub warnings: Vec<Warning>,
    pub count: Count,
    /// Name of the position in the disk's log where the clock is first started.
    pub mark: Option<String>,
    /// Requests that a control adds.
    pub extra: Option<Extra>,
    held: &'a HeldDevices,
    control: &'a Control,
    sink: &'a mut dyn LoadSink,
    tracer: Option<Tracer>,
    clock: Clock,
    meter: Meter,
    /// The block device under the tree, whose counters the kernel keeps.
    device: Option<Device>,
    /// Its milliseconds of requests under way when the clock was started, and while it ran.
    queued_ms: (Option<u64>, u64),
    running: Option<Moment>,
    elapsed_ns: u64,
    wall_ns: u64,
    cpu_ns: u64,
    steps: u64,
    started: Instant,
}

impl<'a> Context<'a> {
    pub fn new(
        anchor: &'a Anchor,
        seed: u64,
        held: &'a HeldDevices,
        (control, sink): (&'a Control, &'a mut dyn LoadSink),
        tracer: Option<Tracer>,
    ) -> Result<Self, MeasureError> {
        Ok(Self {
            directory: anchor.path(),
            anchor,
            seed,
            warnings: Vec::new(),
            count: Count::default(),
            mark: None,
            extra: None,
            held,
            control,
            sink,
            tracer,
            clock: Clock::under(&anchor.held())?,
            meter: Meter::under(&anchor.held()),
            device: Device::under(&anchor.held()),
            queued_ms: (None, 0),
            running: None,
            elapsed_ns: 0,
            wall_ns: 0,
            cpu_ns: 0,
            steps: 0,
            started: Instant::now(),
        })
    }

    /// Makes what is measured next cold: writes the file system back, and mounts it afresh where the agent may;
    /// elsewhere drops the page cache, dentries and inodes of the host, pages of the file under a loop device
    /// too. A virtual disk comes to rest. Without the right to, a warning says so. Nothing but directories may
    /// be open on the file system.
    pub fn drop_caches(&mut self) -> Result<(), MeasureError> {
        self.sync()?;
        let afresh = self.held.mount_afresh(&self.anchor.held())?;
        if !afresh && let Err(error) = cache::drop_caches() {
            let message = format!("caches could not be dropped, so part of this was not cold: {error}");
            self.warn(WarningKind::WarmCache, message);
        }
        self.meter.rest();
        Ok(())
    }

    /// Writes the file system back.
    pub fn sync(&self) -> Result<(), MeasureError> {
        syncfs(self.anchor.fd()).map_err(MeasureError::system("sync", self.directory))
    }

    /// Starts or continues with the clock, the disk's counters and the trace of requests.
    pub fn start(&mut self) {
        if let Some(tracer) = &mut self.tracer {
            tracer.on();
        }
        if let Some(mark) = self.mark.take() {
            self.meter.mark(mark);
        }
        self.meter.start();
        self.queued_ms.0 = self.queued();
        self.clock.count_cpu();
        self.running = Some(self.moment());
    }

    /// Holds them, after the requests that a control adds.
    pub fn stop(&mut self) {
        if let (Some(extra), Some(then)) = (&mut self.extra, &self.running) {
            let stretch_ns = self.clock.now_ns().saturating_sub(then.clock_ns);
            extra.add(self.elapsed_ns + stretch_ns, &self.clock);
        }
        let now = self.moment();
        self.clock.hold_cpu();
        if let Some(then) = self.running.take() {
            self.wall_ns += now.wall_ns - then.wall_ns;
            self.elapsed_ns += now.clock_ns.saturating_sub(then.clock_ns);
            let cpu_ns = |cpu: CpuTime| cpu.user_ns + cpu.sys_ns;
            self.cpu_ns += cpu_ns(now.cpu).saturating_sub(cpu_ns(then.cpu));
        }
        self.meter.stop();
        if let (Some(then), Some(now)) = (self.queued_ms.0.take(), self.queued()) {
            self.queued_ms.1 += now.saturating_sub(then);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.off();
        }
    }

    fn queued(&self) -> Option<u64> {
        self.device.as_ref()?.counts().map(|counts| counts.queued_ms)
    }

    /// How many requests the device had on the average, by the kernel's counters and the host's clock; `None` where
    /// there are none. In model time the disk itself says it.
    pub fn queue_depth(&self) -> Option<MeasureMetric> {
        let elapsed = !self.clock.is_model() && self.device.is_some() && self.wall_ns > 0;
        elapsed.then(|| depth(as_f64(self.queued_ms.1) * 1e6, as_f64(self.wall_ns)))
    }

    fn moment(&self) -> Moment {
        Moment { wall_ns: raw_ns(), clock_ns: self.clock.now_ns(), cpu: thread_cpu() }
    }

    /// What times are to be taken by.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What the virtual disk did while the clock ran, where there is one.
    pub fn disk(&mut self) -> Result<Option<DiskUse>, MeasureError> {
        Ok(self.meter.take()?)
    }

    /// Counts one more thing done; says now and then how far it is, and whether to continue.
    pub fn step(&mut self, share: Option<f64>, note: &str) -> Result<(), MeasureError> {
        self.steps += 1;
        if !self.steps.is_multiple_of(STRIDE) {
            return Ok(());
        }
        self.check()?;
        let elapsed_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.sink.progress(self.count.operations, elapsed_ns, share, note);
        Ok(())
    }

    /// Whether to continue.
    pub fn check(&self) -> Result<(), MeasureError> {
        if self.control.is_stopped() { Err(MeasureError::Stopped) } else { Ok(()) }
    }

    /// Something the reader must know.
    pub fn warn(&mut self, kind: WarningKind, message: String) {
        self.warnings.push(Warning { kind, message });
    }

    /// Says what could not be inspected.
    pub fn warn_unseen(&mut self, unseen: &Unseen) {
        if unseen.count > 0 {
            let message = format!("{} names could not be inspected, first {}", unseen.count, unseen.first);
            self.warn(WarningKind::Unreadable, message);
        }
    }

    /// Time measured so far, by [`clock`](Self::clock).
    pub const fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// Wall time measured so far.
    pub const fn wall_ns(&self) -> u64 {
        self.wall_ns
    }

    /// CPU time measured so far.
    pub const fn cpu_ns(&self) -> u64 {
        self.cpu_ns
    }

    /// What the requests of a control added, where there are any.
    pub fn extra_metrics(&mut self) -> Result<Vec<MeasureMetric>, MeasureError> {
        let metrics = self.extra.take().map(|extra| extra.metrics(self.elapsed_ns)).transpose()?;
        Ok(metrics.map(Vec::from).unwrap_or_default())
    }

    /// Ends the trace.
    pub fn requests(&mut self) -> Option<RequestSummary> {
        let (summary, warnings) = self.tracer.take()?.finish();
        self.warnings.extend(warnings);
        summary
    }

    /// Free bytes that an ordinary user may take.
    pub fn free_bytes(&self) -> Result<u64, MeasureError> {
        Ok(cache::usage(&self.anchor.held())?.available_bytes)
    }

    /// Opens a file below the directory; links are not followed.
    pub fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        self.anchor.open(path, flags | OFlags::NONBLOCK, Mode::empty())
    }

    /// A path below the directory, to be shown.
    pub fn below(&self, path: &[u8]) -> PathBuf {
        super::listing::below(self.directory, path)
    }

    /// A random stream of this measure; `stream` tells its streams apart.
    pub fn random(&self, stream: u32) -> crate::distribution::Random {
        crate::distribution::Random::new(self.seed, stream)
    }
}

/// Nanoseconds as seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    as_f64(ns) / 1e9
}

/// Seconds it takes to move 1 GiB, from nanoseconds and bytes; 0 when there are no bytes.
pub(super) fn seconds_per_gib(ns: u64, bytes: u64) -> f64 {
    if bytes == 0 { 0.0 } else { seconds(ns) / (as_f64(bytes) / f64::from(1 << 30)) }
}

/// Bytes (or things) a second; 0 when no time passed.
pub(super) fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { as_f64(count) / seconds(ns) }
}

/// Name of the folder that a measure makes below the directory for what it writes.
pub const FOLDER: &str = "fsage-measure";

/// Makes [`FOLDER`] below a directory, for this user alone, and opens it.
///
/// # Errors
/// Something of that name is there already, or the file system does not let us.
pub fn make_folder(directory: &Anchor) -> Result<OwnedFd, MeasureError> {
    let path = directory.path().join(FOLDER);
    match mkdirat(directory.fd(), FOLDER, Mode::RWXU) {
        Ok(()) => directory
            .open(FOLDER, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .map_err(MeasureError::system("open", &path)),
        Err(Errno::EXIST) => Err(MeasureError::Leftover { path }),
        Err(errno) => Err(MeasureError::system("make", &path)(errno)),
    }
}

/// Removes a folder that [`make_folder`] made with what is in it, and syncs. Whatever has its name by now,
/// nothing but the folder itself is emptied, and nothing but an empty folder removed; a missing one is fine.
fn remove_made(directory: &Anchor, folder: BorrowedFd<'_>) -> Result<(), MeasureError> {
    let path = directory.path().join(FOLDER);
    let failed = |error| MeasureError::io("remove", &path)(error);
    for entry in std::fs::read_dir(descriptor_path(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        let remove = if is_folder { std::fs::remove_dir_all } else { std::fs::remove_file };
        remove(entry.path()).map_err(failed)?;
    }
    match unlinkat(directory.fd(), FOLDER, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(MeasureError::system("remove", &path)(errno)),
    }
    syncfs(directory.fd()).map_err(MeasureError::system("sync", directory.path()))
}

/// [`FOLDER`] of a measure that another program does, held until it is removed.
#[derive(Debug)]
pub struct HeldFolder {
    directory: Anchor,
    folder: OwnedFd,
}

impl HeldFolder {
    /// Makes it below a directory. `shared`: other users may be able to rename what is in the directory, so
    /// that it must be seen that the folder is ours, and one that nobody else can put a link in.
    ///
    /// # Errors
    /// As [`make_folder`]; another user put something in its place.
    pub fn make(directory: Anchor, shared: bool) -> Result<Self, MeasureError> {
        let folder = make_folder(&directory)?;
        let path = directory.path().join(FOLDER);
        let own = is_own_and_empty(folder.as_fd()).map_err(MeasureError::io("inspect", &path))?;
        if shared && geteuid().is_root() && !own {
            return Err(MeasureError::Exchanged { path });
        }
        Ok(Self { directory, folder })
    }

    /// Opens the one that another host made on a volume that both have.
    ///
    /// # Errors
    /// It is not there, or is a link or a mount.
    pub fn of_another_host(directory: Anchor) -> Result<Self, MeasureError> {
        let path = directory.path().join(FOLDER);
        let folder = directory
            .open(FOLDER, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .map_err(MeasureError::system("open", &path))?;
        Ok(Self { directory, folder })
    }

    /// Its path for programs that this process starts, while it is held: that of the descriptor, whatever has
    /// the name now.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        // What ends in `/.` is the folder itself for who looks whether it is a link, as fio does.
        PathBuf::from(format!("/proc/{}/fd/{}/.", std::process::id(), self.folder.as_raw_fd()))
    }

    /// Removes it with what is in it, and syncs.
    ///
    /// # Errors
    /// The file system does not let us, or something else has its name.
    pub fn remove(self) -> Result<(), MeasureError> {
        remove_made(&self.directory, self.folder.as_fd())
    }
}

/// Whether a folder is this user's, nobody else can write to it, and nothing is in it.
fn is_own_and_empty(folder: BorrowedFd<'_>) -> std::io::Result<bool> {
    let found = fstat(folder)?;
    let own = found.st_uid == geteuid().as_raw() && found.st_mode & 0o022 == 0;
    Ok(own && std::fs::read_dir(descriptor_path(folder))?.next().is_none())
}

/// Removes [`FOLDER`] below a directory with what is in it, and syncs; a missing one is fine.
///
/// # Errors
/// The file system does not let us.
pub fn remove_folder(directory: &Anchor) -> Result<(), MeasureError> {
    // Follows no link, neither here nor below.
    match std::fs::remove_dir_all(directory.held().join(FOLDER)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(MeasureError::io("remove", &directory.path().join(FOLDER))(error));
        }
        _ => {}
    }
    syncfs(directory.fd()).map_err(MeasureError::system("sync", directory.path()))
}

/// A folder of our own below the directory, removed with what is in it when it goes.
pub(super) struct TestDirectory<'a> {
    directory: &'a Anchor,
    folder: OwnedFd,
    removed: bool,
}

impl<'a> TestDirectory<'a> {
    /// Makes [`FOLDER`] below `directory`.
    pub fn make(directory: &'a Anchor) -> Result<Self, MeasureError> {
        Ok(Self { directory, folder: make_folder(directory)?, removed: false })
    }

    /// The folder.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Where it is, to be shown.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(FOLDER)
    }

    /// Removes it and syncs.
    pub fn remove(mut self) -> Result<(), MeasureError> {
        self.removed = true;
        remove_made(self.directory, self.folder.as_fd())
    }
}

impl Drop for TestDirectory<'_> {
    fn drop(&mut self) {
        if !self.removed {
            // The measure failed: its own error is the one to tell.
            let _ = remove_made(self.directory, self.folder.as_fd());
        }
    }
}
