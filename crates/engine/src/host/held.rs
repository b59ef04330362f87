//! Block devices that the agent holds open, so that none becomes another under its name.
//!
//! While a descriptor of a loop device is open, the kernel gives its number to no other file: who detaches it
//! meanwhile only marks it, and it goes with the last descriptor. A disk that is pulled out or gets another
//! medium keeps its name, and is known by
//! [`DeviceIdentity`]: a device is compared with what it was when it was taken before every tool, mount, image, setting of its queue and
//! detaching. Descriptors are for reading and not exclusive: mkfs and mount(2) claim the device themselves.
//!
//! Anyone who closes a device last makes the kernel write back and drop its page cache, on which programs
//! rely that go past it. Here nobody is last, so that is done before and after each use of one that is not
//! mounted ([`HeldDevices::used`]).
//!
//! Power cuts need the last closing itself, because flushing keeps some pages ([`HeldDevices::forget_cache`]): the device
//! is open to nobody for a moment then, and compared with what it was when it is opened again.
//!
//! Limit: root can still swap the file below a read-only loop device (`LOOP_CHANGE_FD`) between a check and
//! what follows it.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fsage_model::filesystem;
use fsage_model::protocol::{BackingFile, DeviceIdentity};
use fsage_sys::folder::Folder;
use fsage_sys::new_file::check_owner;
use fsage_sys::open_folders::OpenFolders;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::mount::BUSY_WAIT;
use super::{HostError, block, companion, loopback, mount};

/// How long somebody else may keep a device locked, and how often that is checked.
const UDEV_WAIT: Duration = Duration::from_secs(10);
const UDEV_PAUSE: Duration = Duration::from_millis(50);

/// What the agent holds, and what it mounted from it.
#[derive(Debug, Default)]
pub struct HeldDevices {
    devices: Mutex<Vec<Held>>,
    mounts: Mutex<Vec<Mounted>>,
}

/// One device.
#[derive(Debug)]
struct Held {
    /// Canonical.
    path: PathBuf,
    device: File,
    identity: DeviceIdentity,
    /// The file that it was attached over, as that was named then.
    file: Option<PathBuf>,
}

/// One mount that the agent made.
#[derive(Debug)]
struct Mounted {
    point: PathBuf,
    /// As mountinfo has it: btrfs has numbers of its own.
    device_number: String,
    /// How to mount it once more, where the lab allows that.
    again: Option<Again>,
}

/// What a mount was made with.
#[derive(Debug, Clone)]
struct Again {
    device: PathBuf,
    file_system: String,
    options: Vec<String>,
}

impl HeldDevices {
    /// Holds a device that was taken before, if it still is the one of `expected`.
    ///
    /// # Errors
    /// It is another, or cannot be opened.
    pub fn hold(&self, device: &Path, expected: &DeviceIdentity) -> Result<(), HostError> {
        let (path, opened, found) = open(device)?;
        same(&path, expected, &found)?;
        self.keep(Held { path, device: opened, identity: found, file: None });
        Ok(())
    }

    /// Holds the loop device that `attach` gives, over `file`.
    ///
    /// # Errors
    /// What `attach` says, or the device does not answer.
    pub fn attach(
        &self,
        file: &Path,
        attach: impl FnOnce() -> Result<(PathBuf, OwnedFd), HostError>,
    ) -> Result<PathBuf, HostError> {
        let (path, device) = attach()?;
        let device = File::from(device);
        let identity = block::identity(&device, &path)?;
        self.keep(Held { path: path.clone(), device, identity, file: Some(file.to_owned()) });
        Ok(path)
    }

    /// Does `work` on a device that is held.
    ///
    /// # Errors
    /// It is not held, or not what it was, and nothing was done; or what `work` says.
    pub fn used<T, E: From<HostError>>(
        &self,
        device: &Path,
        work: impl FnOnce(&DeviceIdentity) -> Result<T, E>,
    ) -> Result<T, E> {
        let (path, held, identity) = self.check(device)?;
        flush(&path, &held);
        let done = work(&identity);
        flush(&path, &held);
        done
    }

    /// Closes a held device that nothing uses, and opens it again, until nothing of it is in the page cache: the kernel drops all of that
    /// where nobody else has it open, also what `BLKFLSBUF` keeps because a file system left it in use or dirty (the blocks of ext4's fast
    /// commits, seen on Linux 6.18).
    ///
    /// # Errors
    /// It is not held; it is another one when it is opened again, and is held no longer; somebody else keeps it open.
    pub fn forget_cache(&self, device: &Path) -> Result<(), HostError> {
        let started = Instant::now();
        loop {
            self.reopen(device)?;
            let (path, held, _) = self.check(device)?;
            match fsage_sys::block::cached_pages(held.as_fd()) {
                None | Some(0) => return Ok(()),
                Some(_) if started.elapsed() < BUSY_WAIT => std::thread::sleep(Duration::from_millis(5)),
                Some(_) => return Err(HostError::Kept { device: path }),
            }
        }
    }

    fn reopen(&self, device: &Path) -> Result<(), HostError> {
        let (path, copy, identity) = self.check(device)?;
        drop(copy);
        let mut devices = self.devices();
        let meant = devices.iter().position(|held| held.path == path);
        let held = devices.remove(meant.ok_or_else(|| HostError::NotHeld { device: path.clone() })?);
        drop(held.device);
        let (path, device, found) = open(&path)?;
        same(&path, &identity, &found)?;
        devices.push(Held { path, device, ..held });
        Ok(())
    }

    /// Lets go of the device with this folder in sysfs, where it is held under whatever name: who takes it down needs it closed.
    pub fn let_number_go(&self, folder: &Path) {
        let number = super::read_trimmed(folder.join("dev"));
        let is_it = |held: &Held| format!("{}:{}", held.identity.major, held.identity.minor) == number;
        self.devices().retain(|held| !is_it(held));
    }

    /// Whether a device is held and what it was.
    ///
    /// # Errors
    /// It is not.
    pub fn expect(&self, device: &Path) -> Result<(), HostError> {
        self.check(device).map(drop)
    }

    /// As [`HeldDevices::used`], where anything that is no held device is used as it is.
    ///
    /// # Errors
    /// As there, but for one that is not held.
    pub fn used_if_held<T, E: From<HostError>>(
        &self,
        device: Option<&Path>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        match device.filter(|device| self.holds(device)) {
            Some(device) => self.used(device, |_| work()),
            None => work(),
        }
    }

    /// The device that a command line names, if any.
    ///
    /// # Errors
    /// It names a block device that is not held: no program is let at one.
    pub fn device_in(&self, argv: &[String]) -> Result<Option<PathBuf>, HostError> {
        let is_device = |word: &&Path| {
            let device = || word.metadata().is_ok_and(|found| found.file_type().is_block_device());
            word.starts_with("/dev") && device()
        };
        let words = argv.iter().skip(1).map(Path::new);
        let devices: Vec<&Path> = words.filter(is_device).collect();
        match devices.iter().find(|device| !self.holds(device)) {
            Some(device) => Err(HostError::NotHeld { device: device.to_path_buf() }),
            None => Ok(devices.first().map(|device| device.to_path_buf())),
        }
    }

    /// Checks the device whose queue a setting in /sys belongs to; other settings are nobody's device.
    ///
    /// # Errors
    /// The device is not held, or not what it was.
    pub fn check_setting(&self, setting: &Path) -> Result<(), HostError> {
        let path = setting.canonicalize().map_err(HostError::file("find setting", setting))?;
        let is_device = |folder: &&Path| folder.join("queue").is_dir() && folder.join("dev").is_file();
        let Some(folder) = path.ancestors().find(is_device) else { return Ok(()) };
        // The queue of a partition is its disk's.
        let below = |held: &Held| {
            let number = format!("{}:{}", held.identity.major, held.identity.minor);
            let own = Path::new("/sys/dev/block").join(number).canonicalize();
            own.is_ok_and(|own| own.starts_with(folder))
        };
        let held = self.devices().iter().find(|held| below(held)).map(|held| held.path.clone());
        let device = held.ok_or_else(|| HostError::NotHeld { device: folder.to_owned() })?;
        self.check(&device).map(drop)
    }

    /// Mounts a held device, and remembers what is mounted there; `afresh`: also how, so that
    /// [`HeldDevices::mount_afresh`] can.
    ///
    /// # Errors
    /// As [`HeldDevices::used`] and [`mount::mount`].
    pub fn mount(
        &self,
        device: &Path,
        point: &Path,
        file_system: &str,
        options: &[String],
        afresh: bool,
    ) -> Result<(), HostError> {
        self.used(device, |_| mount::mount(device, point, file_system, options))?;
        let again = || Again {
            device: device.to_owned(),
            file_system: file_system.to_owned(),
            options: options.to_owned(),
        };
        self.remember_mount(point, afresh.then(again));
        Ok(())
    }

    /// Unmounts the file system that `directory` is on and mounts it once more in the same way: nothing of it is
    /// left in memory, and nothing of any other file system is lost. Directories that this process has open on
    /// it stay open. False where this agent did not mount it, or was not told that it may do this: then it
    /// is as it was; and where another mount namespace keeps it mounted, so that its caches stayed.
    ///
    /// # Errors
    /// It stays busy, and is as it was; or it cannot be mounted again ([`HostError::Unmounted`]): then what was
    /// open on it leads nowhere, in no case to the folder of the host that it was mounted over.
    pub fn mount_afresh(&self, directory: &Path) -> Result<bool, HostError> {
        let path = directory.canonicalize().map_err(HostError::file("find", directory))?;
        let known = self.mounts().iter().rev().find_map(|known| {
            let again = known.again.clone().filter(|_| path.starts_with(&known.point))?;
            Some((known.point.clone(), again))
        });
        let Some((point, Again { device, file_system, options })) = known else { return Ok(false) };
        let failed = |what| HostError::file(what, &point);
        let open = OpenFolders::let_go(&point).map_err(failed("let go of directories on"))?;
        let reopen = |open: OpenFolders| open.reopen().map_err(failed("open directories again on"));
        if let Err(error) = self.unmount(&point) {
            // It is still mounted. Why it stays says more than what of it cannot be opened.
            let _ = reopen(open);
            return Err(error);
        }
        let went = comes_free(&device);
        let mount = || self.mount(&device, &point, &file_system, &options, true);
        match while_busy(mount) {
            Ok(()) => reopen(open).map(|()| went),
            Err(source) => Err(HostError::Unmounted { device, point, source: Box::new(source) }),
        }
    }

    /// Unmounts a mount of the user's own and mounts it again with exactly these options.
    ///
    /// Between the two, who may rename the mount point could have a link there to any directory of the host. So the
    /// folder that it lies in is opened before, is one that root may write in, and the mount point is opened in it
    /// afterwards without following a link.
    ///
    /// # Errors
    /// Another user could change the way to the mount point, or something else than the device is mounted there, and
    /// nothing was done; as [`HeldDevices::unmount`]; it cannot be mounted again ([`HostError::Unmounted`]).
    pub fn remount(
        &self,
        device: &Path,
        point: &Path,
        file_system: &str,
        options: &[String],
    ) -> Result<(), HostError> {
        let opened =
            Folder::of(point).and_then(|(folder, name)| check_owner(&folder).map(|()| (folder, name)));
        let (folder, name) = opened.map_err(HostError::file("mount again at", point))?;
        self.used(device, |identity| is_mounted_from(device, identity, point, file_system))?;
        self.unmount(point)?;
        let again = || {
            let directory = mount::point_in(folder.as_fd(), &name, point)?;
            self.used(device, |_| mount::mount_again(device, directory.as_fd(), point, file_system, options))
        };
        again().map_err(|source| HostError::Unmounted {
            device: device.to_owned(),
            point: point.to_owned(),
            source: Box::new(source),
        })?;
        self.remember_mount(point, None);
        Ok(())
    }

    fn remember_mount(&self, point: &Path, again: Option<Again>) {
        if let Some(entry) = mount::top(point) {
            let mounted = Mounted { point: entry.point, device_number: entry.device_number, again };
            self.mounts().push(mounted);
        }
    }

    /// Unmounts what this agent mounted at `point`; where it mounted nothing, whatever is there.
    ///
    /// # Errors
    /// Something else is mounted there by now, which stays; or as [`mount::unmount`].
    pub fn unmount(&self, point: &Path) -> Result<(), HostError> {
        let Some(entry) = mount::top(point) else {
            self.forget_mount(point);
            return Ok(());
        };
        match self.known_mount(&entry.point) {
            Some(number) if number != entry.device_number => Err(HostError::Replaced {
                device: entry.point,
                what: format!(
                    "{number} was mounted there, and now {} ({}, {}) is, which stays",
                    entry.device_number,
                    entry.source.display(),
                    entry.file_system
                ),
            }),
            _ => {
                mount::unmount(point)?;
                self.forget_mount(&entry.point);
                Ok(())
            }
        }
    }

    /// Detaches every loop device over `file`, or those that begin at `offset_bytes` of it: over the very file that was attached under this name, where
    /// this agent did that or `backing` says which it was, whatever has the name now. Why something that has
    /// the name was left, if it was.
    ///
    /// # Errors
    /// As [`loopback::detach`].
    pub fn detach(
        &self,
        file: &Path,
        backing: Option<BackingFile>,
        offset_bytes: Option<u64>,
    ) -> Result<Option<String>, HostError> {
        let held = self.detach_where(|held, identity| {
            held == file && offset_bytes.is_none_or(|offset| offset == identity.offset_bytes)
        });
        match (held.is_empty(), backing) {
            (true, Some(backing)) => {
                let others = loopback::detach_leased(file, backing, offset_bytes)?;
                Ok(others
                    .then(|| "what is attached there now has another name or is another file".to_owned()))
            }
            (true, None) => loopback::detach(file).map(|()| None),
            (false, _) => {
                held.into_iter()
                    .try_for_each(|backing| loopback::detach_backing(file, backing, offset_bytes))?;
                Ok(None)
            }
        }
    }

    /// Detaches what is held over a file below `directory`, at once or when its last user goes.
    pub fn detach_below(&self, directory: &Path) {
        self.detach_where(|held, _| held.starts_with(directory));
    }

    /// Discards all of a held device that nothing else uses: it then reads as zeros where it can.
    ///
    /// # Errors
    /// It is not held, in use, or cannot discard.
    pub fn discard(&self, device: &Path) -> Result<(), HostError> {
        self.used(device, |identity| {
            let what = || format!("discard {}", device.display());
            let opened = fsage_sys::block::open_exclusive(device).map_err(HostError::kernel(what()))?;
            fsage_sys::block::discard(opened.as_fd(), 0, identity.size_bytes)
                .map_err(HostError::kernel(what()))
        })
    }

    /// Closes a device; one that is not held is fine.
    pub fn let_go(&self, device: &Path) {
        let device = device.canonicalize().unwrap_or_else(|_| device.to_owned());
        self.devices().retain(|held| held.path != device);
    }

    /// The files behind those that were held.
    fn detach_where(&self, is_meant: impl Fn(&Path, &DeviceIdentity) -> bool) -> Vec<BackingFile> {
        let is_meant = |held: &Held| held.file.as_deref().is_some_and(|file| is_meant(file, &held.identity));
        let meant: Vec<Held> = self.devices().extract_if(.., |held| is_meant(held)).collect();
        let mut files = Vec::new();
        for held in meant {
            // Through the descriptor that was open all the time: no other file can be behind it. Who asks
            // next says what went wrong.
            let _ = fsage_sys::loopdev::detach_open(OwnedFd::from(held.device), &held.path);
            files.extend(held.identity.backing);
        }
        files
    }

    fn keep(&self, new: Held) {
        let mut devices = self.devices();
        devices.retain(|held| held.path != new.path);
        devices.push(new);
    }

    fn holds(&self, device: &Path) -> bool {
        let device = device.canonicalize().unwrap_or_else(|_| device.to_owned());
        self.devices().iter().any(|held| held.path == device)
    }

    /// The descriptor of a device whose name still leads to it.
    fn check(&self, device: &Path) -> Result<(PathBuf, File, DeviceIdentity), HostError> {
        let (path, _opened, found) = open(device)?;
        let devices = self.devices();
        let held = devices.iter().find(|held| held.path == path);
        let held = held.ok_or_else(|| HostError::NotHeld { device: path.clone() })?;
        same(&path, &held.identity, &found)?;
        let copy = held.device.try_clone().map_err(HostError::file("open", &path))?;
        Ok((path, copy, held.identity))
    }

    fn devices(&self) -> MutexGuard<'_, Vec<Held>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mounts(&self) -> MutexGuard<'_, Vec<Mounted>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mount(&self, point: &Path) -> Option<String> {
        let mounts = self.mounts();
        mounts.iter().rev().find(|known| known.point == point).map(|known| known.device_number.clone())
    }

    fn forget_mount(&self, point: &Path) {
        self.mounts().retain(|known| known.point != point);
    }
}

/// Checks that a mount is of this device: its name in the mount table is the one of the day it was mounted.
fn is_mounted_from(
    device: &Path,
    identity: &DeviceIdentity,
    point: &Path,
    file_system: &str,
) -> Result<(), HostError> {
    let found = mount::top(point).map(|entry| entry.device_number).unwrap_or_default();
    let own = format!("{}:{}", identity.major, identity.minor);
    // btrfs has device numbers of its own, and says itself which device it is on.
    if found == own || filesystem::by_name(file_system).is_some_and(|row| row.member.is_some()) {
        return companion::check_mounted(device, point, file_system);
    }
    let what = format!("{found} is mounted at {}, and it is {own} now", point.display());
    Err(HostError::Replaced { device: device.to_owned(), what })
}

/// As long may another mount namespace keep a copy of a mount.
const COPY_WAIT: Duration = Duration::from_millis(500);

/// Whether the file system of a device that was just unmounted went, within [`COPY_WAIT`]: a process that started in a
/// mount namespace of its own meanwhile has a copy of the mount, until it lets go of what it does not need.
fn comes_free(device: &Path) -> bool {
    comes_free_within(COPY_WAIT, device)
}

fn comes_free_within(limit: Duration, device: &Path) -> bool {
    let started = Instant::now();
    while !block::opens_exclusively(device) {
        if started.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Waits until nobody has a device mounted any more that was just unmounted here. A copy of the mount in another mount
/// namespace keeps the file system with its caches, and the next mount of the device would get that one, whatever
/// the device holds by then.
///
/// # Errors
/// [`HostError::Kept`] after some seconds.
pub fn await_free(device: &Path) -> Result<(), HostError> {
    let free = comes_free_within(BUSY_WAIT, device);
    if free { Ok(()) } else { Err(HostError::Kept { device: device.to_owned() }) }
}

/// Tries until the device is not busy any more, for some seconds: udev inspects what was just unmounted.
fn while_busy(mut mount: impl FnMut() -> Result<(), HostError>) -> Result<(), HostError> {
    let started = Instant::now();
    loop {
        match mount() {
            Err(error)
                if error.errno() == Some(Errno::BUSY.raw_os_error()) && started.elapsed() < BUSY_WAIT =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            mounted => return mounted,
        }
    }
}

/// The canonical path, a descriptor and what it is of.
fn open(device: &Path) -> Result<(PathBuf, File, DeviceIdentity), HostError> {
    let path = device.canonicalize().map_err(HostError::file("find device", device))?;
    let opened = File::open(&path).map_err(HostError::file("open", &path))?;
    let identity = block::identity(&opened, &path)?;
    Ok((path, opened, identity))
}

/// Locks a device, as udev asks of who changes what is on it: it does not inspect it while this descriptor is open.
///
/// # Errors
/// Somebody else keeps it locked for 10 s, or it cannot be locked.
pub(crate) fn quiet_udev(device: &File, path: &Path) -> Result<(), HostError> {
    let since = Instant::now();
    while let Err(errno) = rustix::fs::flock(device, FlockOperation::NonBlockingLockExclusive) {
        if errno != Errno::WOULDBLOCK || since.elapsed() > UDEV_WAIT {
            return Err(HostError::file("lock", path)(errno.into()));
        }
        std::thread::sleep(UDEV_PAUSE);
    }
    Ok(())
}

/// Refuses a device that is not what it was.
///
/// # Errors
/// [`HostError::Replaced`].
pub fn same(path: &Path, expected: &DeviceIdentity, found: &DeviceIdentity) -> Result<(), HostError> {
    match expected.difference(found) {
        None => Ok(()),
        Some(what) => Err(HostError::Replaced { device: path.to_owned(), what }),
    }
}

/// As the last to close it would; not of one that is mounted, whose file system has it open.
fn flush(path: &Path, device: &File) {
    if block::opens_exclusively(path) {
        // Without the right to, nothing of ours went through the cache either.
        let _ = fsage_sys::block::flush_buffers(device.as_fd());
    }
}
