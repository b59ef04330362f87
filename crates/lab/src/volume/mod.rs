//! The device under test: a loop file or a virtual disk made for a trial, or a real device behind the safety
//! rules.
//!
//! [`resolve`] touches nothing. [`Volume::acquire`] takes the device, each thing leased before it is taken;
//! [`Volume::release`] releases everything in reverse order. When an acquisition fails half-way, what it took
//! is released; what cannot be released stays leased for `fsage clean`.
//!
//! - A real device keeps the last file system that was made on it; its label `fsage` is how a later run, also
//!   after a crash, recognises it as its own to overwrite ([`safety`]). Described file systems have no label
//!   that we know of: their devices need the identifier of what is on them, or their own, every time.
//! - Of a loop file or a real device the settings of the queue are left alone, but for those that the study
//!   names: the volume is measured as the host would use it. A virtual disk is the medium's model: what the
//!   kernel would set up for such a medium is set.

use std::path::{Path, PathBuf};

use fsage_engine::host::disk::CONTROL;
use fsage_model::fault::FaultSpec;
use fsage_model::protocol::{BlockFacts, call};
use fsage_model::study::{QueueSpec, VolumeSpec};

use crate::lease::record::Lease;
use crate::lease::{self, Journal, LeaseId, setting};
use crate::target::{Incoming, Session};
use crate::tools::Invocation;

pub mod consent;
pub mod device;
pub mod disk;
mod error;
mod layers;
pub mod loop_file;
pub mod partition;
pub mod safety;
pub mod split;
pub mod stack;

pub use consent::EraseConsent;
pub use device::DeviceVolume;
pub use disk::DiskVolume;
pub use error::VolumeError;
use layers::Layer;
pub use layers::{Layers, Start};
pub use loop_file::LoopVolume;
pub use partition::{Drive, PartitionVolume};
pub use safety::Refusal;
pub use split::{ListedPartition, Split, SplitError};

/// A checked volume, not yet taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Volume {
    /// A file under a loop device.
    Loop(LoopVolume),
    /// A real block device.
    Device(DeviceVolume),
    /// A virtual disk.
    Disk(DiskVolume),
    /// A partition of a virtual disk that is served for several volumes.
    Partition(PartitionVolume),
}

/// A virtual disk that guests of this host can have.
#[derive(Debug, Clone)]
pub struct Served {
    /// Socket at which it is a network block device.
    pub nbd: PathBuf,
    /// Socket at which it is asked.
    pub control: PathBuf,
    /// Its logical block size.
    pub block_bytes: u32,
    /// What was done, as a shell would read it.
    pub commands: Vec<String>,
}

/// Name of a disk's network block device in its folder.
const NBD: &str = "nbd";

/// A volume that was taken. Give it back with [`Volume::release`].
#[derive(Debug)]
#[must_use = "a volume that was acquired has to be released"]
pub struct Acquired {
    /// The block device (`/dev/loop3`), canonical.
    pub device: PathBuf,
    /// What is known about it.
    pub facts: BlockFacts,
    /// All block devices: this one, and of a drive with several partitions those after it.
    pub devices: Vec<BlockFacts>,
    /// What was done, as a shell would read it.
    pub commands: Vec<String>,
    layers: Vec<Layer>,
    taken: Vec<Taken>,
}

impl Acquired {
    /// The layers between its drives and the file system, where there are any.
    #[must_use]
    pub fn layers(&self) -> Option<Layers> {
        let drives = self.devices.iter().filter(|facts| facts.backing_file.is_some());
        let drives = drives.map(|facts| facts.path.clone()).collect();
        (!self.layers.is_empty()).then(|| Layers::new(self.layers.clone(), drives))
    }

    /// Releases what was taken; a second time does nothing.
    ///
    /// # Errors
    /// As [`Volume::release`].
    pub(crate) fn release(
        &mut self,
        session: &mut Session,
        journal: &mut Journal,
    ) -> Result<(), VolumeError> {
        release_all(session, journal, std::mem::take(&mut self.taken))
    }
}

/// Checks a volume's description; touches nothing.
///
/// # Errors
/// A size or sector that is invalid; a device that the command line does not allow to be erased.
pub fn resolve(
    spec: &VolumeSpec,
    consent: &EraseConsent,
    store_directory: &Path,
) -> Result<Volume, VolumeError> {
    queue_of(spec)?;
    match spec {
        VolumeSpec::Loop { size, directory, direct_io, sector_bytes, scheduler, queue } => {
            let directory = directory.clone().unwrap_or_else(|| store_directory.join("volumes"));
            let (scheduler, queue) = (scheduler.clone(), queue.clone());
            LoopVolume::new(*size, &directory, *direct_io, *sector_bytes, scheduler, queue).map(Volume::Loop)
        }
        VolumeSpec::Device { path, scheduler, queue } => {
            DeviceVolume::new(path, consent, store_directory, scheduler.clone(), queue.clone())
                .map(Volume::Device)
        }
        VolumeSpec::Disk(disk) => match &disk.share {
            Some(share) => PartitionVolume::new(disk, share, store_directory).map(Volume::Partition),
            None => DiskVolume::new(disk.options(), store_directory).map(Volume::Disk),
        },
        VolumeSpec::Partition { drive, .. } => {
            Err(VolumeError::Spec { key: "drive", what: format!("`{drive}` is not divided yet") })
        }
    }
}

/// Refuses settings of a queue that no device has: their names become part of a path.
fn queue_of(spec: &VolumeSpec) -> Result<(), VolumeError> {
    let Some((scheduler, queue)) = spec.queue() else { return Ok(()) };
    match queue.problems(scheduler).into_iter().next() {
        Some((key, error)) => Err(VolumeError::Spec { key: "queue", what: format!("`{key}`: {error}") }),
        None => Ok(()),
    }
}

/// Refuses what would be another disk's or partition's, too, where a real device is the volume.
fn of_disk_alone(facts: &BlockFacts, queue: &QueueSpec) -> Result<(), VolumeError> {
    let spec = |what: String| Err(VolumeError::Spec { key: "queue", what });
    if facts.is_partition() && !queue.is_empty() {
        let (path, disk) = (facts.path.display(), &facts.disk);
        return spec(format!(
            "{path} is a partition, and the queue is that of the whole disk {disk}: name the disk itself, or leave it out"
        ));
    }
    // Without a scheduler the places for requests are the adapter's, which has them for all of its disks.
    if queue.nr_requests.is_some() {
        return spec(
            "`nr_requests` of a real device may be that of all disks of its adapter: leave it out".to_owned(),
        );
    }
    Ok(())
}

/// Refuses volumes that are there at the same time where the host has no room for all of their files, before
/// the first of them is made.
///
/// # Errors
/// [`VolumeError::Room`] names the directory and how much is missing.
pub fn check_room(volumes: &[Volume], session: &mut Session) -> Result<(), VolumeError> {
    let files = volumes.iter().filter_map(|volume| match volume {
        Volume::Loop(file) => Some(file),
        Volume::Device(_) | Volume::Disk(_) | Volume::Partition(_) => None,
    });
    loop_file::check_room(&files.collect::<Vec<_>>(), session)
}

impl Volume {
    /// Says that so many trials run at the same time, this one among them: what a virtual disk may take of the
    /// host's memory where nothing is said is divided by them.
    pub const fn beside(&mut self, trials: u32) {
        if let Self::Disk(volume) = self {
            volume.beside(trials);
        }
    }

    /// Says that it is a guest's, whose host serves it.
    pub const fn of_host(&mut self) {
        if let Self::Disk(volume) = self {
            volume.of_host();
        }
    }

    /// Takes it on another host that shares it; that host is gone after the trial.
    ///
    /// # Errors
    /// That host does not have it.
    pub fn take_there(&self, session: &mut Session) -> Result<(), VolumeError> {
        match self {
            Self::Disk(volume) => volume.take_there(session),
            Self::Loop(_) | Self::Device(_) | Self::Partition(_) => Err(VolumeError::NoServedDisk),
        }
    }

    /// Serves a virtual disk to guests of this host, until the agent ends or its lease is released.
    ///
    /// # Errors
    /// It is no virtual disk, or cannot be served.
    pub fn serve_to_guests(
        &self,
        session: &mut Session,
        journal: &mut Journal,
        name: &str,
    ) -> Result<Served, VolumeError> {
        let Self::Disk(disk) = self else { return Err(VolumeError::NoServedDisk) };
        let mut incoming = |_| {};
        let mut taking = Taking::new(session, journal, &mut incoming);
        disk.serve(&mut taking, name)?;
        let directory = disk.directory(name);
        let block_bytes = disk.options().block_bytes;
        let (nbd, control) = (directory.join(NBD), directory.join(CONTROL));
        Ok(Served { nbd, control, block_bytes, commands: taking.commands })
    }

    /// Says which trial it is of, which names the drives that the trial's volumes share.
    pub fn of_trial(&mut self, trial: &str) {
        if let Self::Partition(volume) = self {
            volume.of_trial(trial);
        }
    }

    /// What tells it from the other partitions of its trial, where it is one.
    #[must_use]
    pub fn partition(&self) -> Option<(String, u64)> {
        match self {
            Self::Partition(volume) => Some(volume.key()),
            Self::Loop(_) | Self::Device(_) | Self::Disk(_) => None,
        }
    }

    /// Whether it is a virtual disk that keeps a log of its requests.
    #[must_use]
    pub const fn keeps_log(&self) -> bool {
        match self {
            Self::Disk(volume) => volume.keeps_log(),
            Self::Partition(volume) => volume.keeps_log(),
            Self::Loop(_) | Self::Device(_) => false,
        }
    }

    /// Gives the file of a loop volume that was taken as `name` back what blocks it lost to discards; of
    /// others there is nothing to do.
    ///
    /// # Errors
    /// The host has no room for it.
    pub fn allocate(&self, name: &str, session: &mut Session) -> Result<(), VolumeError> {
        match self {
            Self::Loop(volume) => volume.allocate(name, session),
            Self::Device(_) | Self::Disk(_) | Self::Partition(_) => Ok(()),
        }
    }

    /// Its size, where that is known before it is taken.
    #[must_use]
    pub const fn size_bytes(&self) -> Option<u64> {
        match self {
            Self::Loop(volume) => Some(volume.size_bytes()),
            Self::Disk(volume) => Some(volume.size_bytes()),
            Self::Partition(volume) => Some(volume.size_bytes()),
            Self::Device(_) => None,
        }
    }

    /// Takes the device. `name` (the trial's id) tells this volume's files from others'.
    ///
    /// # Errors
    /// See [`VolumeError`]; what was taken has been released.
    pub fn acquire(
        &self,
        session: &mut Session,
        journal: &mut Journal,
        name: &str,
    ) -> Result<Acquired, VolumeError> {
        self.acquire_with(session, journal, name, &mut |_| {})
    }

    /// The same; how far the file of a loop volume is, where it has to be written in full, goes to `incoming`.
    /// The session's control can stop it.
    ///
    /// # Errors
    /// As [`Volume::acquire`].
    pub fn acquire_with(
        &self,
        session: &mut Session,
        journal: &mut Journal,
        name: &str,
        incoming: &mut dyn FnMut(Incoming),
    ) -> Result<Acquired, VolumeError> {
        let mut taking = Taking::new(session, journal, incoming);
        let devices = match self {
            Self::Loop(volume) => volume.take(&mut taking, name).map(|facts| vec![facts]),
            Self::Device(volume) => volume.take(&mut taking).map(|facts| vec![facts]),
            Self::Disk(volume) => volume.take(&mut taking, name),
            Self::Partition(volume) => volume.take(&mut taking).map(|facts| vec![facts]),
        };
        let set = |devices: Vec<BlockFacts>| -> Result<Vec<BlockFacts>, VolumeError> {
            if let Self::Device(_) = self {
                devices.iter().try_for_each(|facts| of_disk_alone(facts, self.wanted_queue().1))?;
            }
            // Layers above drives have no scheduler of their own.
            let is_drive = |facts: &BlockFacts| !self.is_stack() || facts.backing_file.is_some();
            let queue = |facts: BlockFacts| match is_drive(&facts) {
                true => taking.queue(&facts, self.wanted_queue()),
                false => Ok(facts),
            };
            devices.into_iter().map(queue).collect()
        };
        let devices = match devices.and_then(set) {
            Ok(devices) => devices,
            Err(error) => {
                let (session, journal) = (taking.session, taking.journal);
                // The first error tells more; what is not released here stays leased.
                let _ = release_all(session, journal, taking.taken);
                return Err(error);
            }
        };
        // Every volume is at least one device.
        let facts = devices.first().cloned().unwrap_or_default();
        let Taking { taken, layers, commands, .. } = taking;
        Ok(Acquired { device: facts.path.clone(), facts, devices, commands, layers, taken })
    }

    /// Releases it: settings, loop device and file, in reverse order. Every step is tried even after one
    /// failed.
    ///
    /// # Errors
    /// The first step that failed; what was not released stays leased for `fsage clean`.
    pub fn release(
        &self,
        acquired: Acquired,
        session: &mut Session,
        journal: &mut Journal,
    ) -> Result<(), VolumeError> {
        let mut acquired = acquired;
        acquired.release(session, journal)
    }

    /// Names the present position in the log of its requests, where it keeps one.
    ///
    /// # Errors
    /// The disk does not do it.
    pub fn mark(&self, session: &mut Session, name: &str, mark: &str) -> Result<(), VolumeError> {
        match self {
            Self::Disk(volume) => volume.mark(session, name, mark),
            Self::Partition(volume) => volume.mark(session, mark),
            Self::Loop(_) | Self::Device(_) => Ok(()),
        }
    }

    /// Brings faults into a virtual disk in the place of those it has, or takes all out; other volumes have none.
    ///
    /// # Errors
    /// The disk does not answer or refuses.
    pub fn set_faults(
        &self,
        session: &mut Session,
        name: &str,
        faults: Option<FaultSpec>,
    ) -> Result<(), VolumeError> {
        match self {
            Self::Disk(volume) => volume.set_faults(session, name, faults),
            // Those of a drive are every partition's.
            Self::Loop(_) | Self::Device(_) | Self::Partition(_) => Ok(()),
        }
    }

    /// What writes the log of its requests to a file that is not there yet; nothing where it keeps none.
    #[must_use]
    pub fn save_log(&self, name: &str, file: &Path) -> Option<Invocation> {
        match self {
            Self::Disk(volume) => volume.save_log(name, file),
            // The drive's log is kept with the drive.
            Self::Loop(_) | Self::Device(_) | Self::Partition(_) => None,
        }
    }

    /// What acquiring it does, as a shell would read it.
    #[must_use]
    pub fn describe(&self, name: &str) -> Vec<String> {
        let mut lines = match self {
            Self::Loop(volume) => volume.describe(name),
            Self::Device(volume) => volume.describe(),
            Self::Disk(volume) => volume.describe(name),
            Self::Partition(volume) => volume.describe(),
        };
        let device = match self {
            Self::Loop(_) | Self::Disk(_) | Self::Partition(_) => "loopN".to_owned(),
            Self::Device(volume) => format!("DISK-OF-{}", volume.path().display()),
        };
        let (scheduler, queue) = self.wanted_queue();
        if let Some(scheduler) = scheduler {
            lines.push(format!("echo {scheduler} >/sys/block/{device}/queue/scheduler"));
        }
        for (name, value) in queue.settings() {
            lines.push(format!("echo {value} >/sys/block/{device}/queue/{name}"));
        }
        lines
    }

    /// The device's path for [`describe`](Self::describe) and dry runs, before it is known.
    #[must_use]
    pub fn device_in_words(&self) -> String {
        match self {
            Self::Loop(_) | Self::Disk(_) | Self::Partition(_) => "loopN".to_owned(),
            Self::Device(volume) => volume.path().display().to_string(),
        }
    }

    /// Whether a device would be taken now, by the safety rules. Reads, and asks no agent; a loop file or a
    /// virtual disk always would.
    ///
    /// # Errors
    /// The rule that refuses it, or why it cannot be inspected.
    pub fn look(&self) -> Result<(), VolumeError> {
        match self {
            Self::Loop(_) | Self::Disk(_) | Self::Partition(_) => Ok(()),
            Self::Device(volume) => volume.look(),
        }
    }

    /// Whether layers lie between its drives and the file system.
    const fn is_stack(&self) -> bool {
        matches!(self, Self::Disk(volume) if volume.is_stack())
    }

    fn wanted_queue(&self) -> (Option<&str>, &QueueSpec) {
        match self {
            Self::Loop(volume) => volume.queue(),
            Self::Device(volume) => volume.queue(),
            Self::Disk(volume) => volume.queue(),
            Self::Partition(volume) => volume.queue(),
        }
    }
}

/// One thing that was taken.
#[derive(Debug)]
enum Taken {
    /// It outlives the agent, and is leased.
    Leased(LeaseId),
    /// A device that the agent holds, which ends with it.
    Held(PathBuf),
}

/// An acquisition under way.
struct Taking<'a> {
    session: &'a mut Session,
    journal: &'a mut Journal,
    incoming: &'a mut dyn FnMut(Incoming),
    taken: Vec<Taken>,
    /// The lowest first.
    layers: Vec<Layer>,
    commands: Vec<String>,
}

impl<'a> Taking<'a> {
    fn new(
        session: &'a mut Session,
        journal: &'a mut Journal,
        incoming: &'a mut dyn FnMut(Incoming),
    ) -> Self {
        let (taken, layers, commands) = (Vec::new(), Vec::new(), Vec::new());
        Self { session, journal, incoming, taken, layers, commands }
    }

    fn lease(&mut self, lease: Lease) -> Result<(), VolumeError> {
        let id = self.journal.take(lease)?;
        self.taken.push(Taken::Leased(id));
        Ok(())
    }

    /// Makes a file or directory; a directory that is the user's stays that.
    fn make(&mut self, lease: Lease) -> Result<(), VolumeError> {
        let id = self.journal.make(lease)?;
        self.taken.extend(id.map(Taken::Leased));
        Ok(())
    }

    /// Changes a setting; what became of it.
    fn set(&mut self, path: &Path, value: &str) -> Result<Option<setting::Outcome>, VolumeError> {
        let outcome = setting::set(self.session, self.journal, path, |_| value.to_owned())?;
        if let Some(setting::Outcome::Set(id)) = outcome {
            self.taken.push(Taken::Leased(id));
        }
        Ok(outcome)
    }

    fn facts(&mut self, device: &Path) -> Result<BlockFacts, VolumeError> {
        Ok(self.session.call(call::BlockFacts { device: device.to_owned() })?)
    }

    /// Has the agent hold a device, if it still is the one of `facts`.
    fn hold(&mut self, facts: &BlockFacts) -> Result<(), VolumeError> {
        let device = facts.path.clone();
        self.session.call(call::HoldDevice { device: device.clone(), identity: facts.identity })?;
        self.taken.push(Taken::Held(device));
        Ok(())
    }

    /// Sets a setting of the queue; one that this kernel does not have, or not for this device, is left
    /// alone.
    fn queue_setting(&mut self, device: &Path, setting: &str, value: &str) -> Result<(), VolumeError> {
        let path = queue_setting(&device.file_name().unwrap_or_default().to_string_lossy(), setting);
        // A loop device keeps its settings for anyone who has it next.
        if let Some(setting::Outcome::Set(_)) = self.set(&path, value)? {
            self.commands.push(format!("echo {value} >{}", path.display()));
        }
        Ok(())
    }

    /// Sets the I/O scheduler and the settings of the queue that are wanted. The scheduler comes first: a change of
    /// it resets the others.
    fn queue(
        &mut self,
        facts: &BlockFacts,
        (scheduler, queue): (Option<&str>, &QueueSpec),
    ) -> Result<BlockFacts, VolumeError> {
        let facts = self.scheduler(facts, scheduler)?;
        for (name, value) in queue.settings() {
            let path = queue_setting(&facts.disk, &name);
            match self.set(&path, &value.to_string())? {
                Some(setting::Outcome::Set(_)) => {
                    self.commands.push(format!("echo {value} >{}", path.display()));
                }
                Some(setting::Outcome::Kept) => {}
                Some(setting::Outcome::Refused) => {
                    return Err(VolumeError::Setting { path, value, is_there: true });
                }
                None => return Err(VolumeError::Setting { path, value, is_there: false }),
            }
        }
        Ok(facts)
    }

    /// Sets the I/O scheduler, when one is wanted and another is set.
    fn scheduler(&mut self, facts: &BlockFacts, wanted: Option<&str>) -> Result<BlockFacts, VolumeError> {
        let mut facts = facts.clone();
        let Some(wanted) = wanted else { return Ok(facts) };
        if !facts.schedulers.iter().any(|known| known == wanted) {
            let (device, scheduler, known) = (facts.path, wanted.to_owned(), facts.schedulers);
            return Err(VolumeError::Scheduler { device, scheduler, known });
        }
        let path = queue_setting(&facts.disk, "scheduler");
        match self.set(&path, wanted)? {
            Some(setting::Outcome::Set(_)) => {
                self.commands.push(format!("echo {wanted} >{}", path.display()))
            }
            Some(setting::Outcome::Kept) => {}
            Some(setting::Outcome::Refused) | None => {
                let (device, scheduler, known) = (facts.path, wanted.to_owned(), facts.schedulers);
                return Err(VolumeError::Scheduler { device, scheduler, known });
            }
        }
        facts.scheduler = wanted.to_owned();
        Ok(facts)
    }
}

/// Where the queue of a disk has a setting.
fn queue_setting(disk: &str, setting: &str) -> PathBuf {
    PathBuf::from(format!("/sys/class/block/{disk}/queue/{setting}"))
}

fn release_all(session: &mut Session, journal: &mut Journal, taken: Vec<Taken>) -> Result<(), VolumeError> {
    let mut first = Ok(());
    for taken in taken.into_iter().rev() {
        let released = match taken {
            Taken::Leased(id) => lease::release(session, journal, id).map_err(VolumeError::from),
            Taken::Held(device) => session.call(call::LetDeviceGo { device }).map_err(VolumeError::from),
        };
        if first.is_ok() {
            first = released;
        }
    }
    first
}
