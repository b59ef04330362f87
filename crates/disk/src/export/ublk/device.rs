//! The driver's side: a device from its making to its removal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use fsage_sys::clock;
use fsage_sys::ublk::{self, CONTROL_PATH, Control, Descriptor, Entry};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{MAX_TRANSFER_BYTES, Queue, Slot, parameters, serve};
use crate::export::{BATCH, Backend, Gate, Heartbeat};

/// What small requests need is touched at the start; the rest of a slot when it is needed.
const TOUCHED_BYTES: usize = 64 << 10;

/// Why there is no block device.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// No driver.
    #[error("this kernel has no ublk: there is no {}", path.display())]
    Missing {
        /// Where it would be reached.
        path: PathBuf,
    },
    /// The driver does not do what it should.
    #[error("ublk cannot {what}")]
    Driver {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: fsage_sys::Error,
    },
    /// The note of which device it is, for anyone who cleans up.
    #[error("cannot write {}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The thread that should serve it does not.
    #[error("no server serves the device")]
    NotServed,
}

impl UblkError {
    /// The next step for the user, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some(
                "load it: modprobe ublk_drv (Linux 6.0 and later with CONFIG_BLK_DEV_UBLK); or use the export fuse, \
                 which needs no driver"
                    .to_owned(),
            ),
            Self::Driver { source, .. } => source.hint(),
            Self::Record { .. } | Self::NotServed => None,
        }
    }

    fn driver(what: &'static str) -> impl FnOnce(fsage_sys::Error) -> Self {
        move |source| Self::Driver { what, source }
    }
}

/// Which device it is; kept in a file while there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    device: u32,
    /// What the driver keeps with it: another one that got the number later has another.
    mark: u64,
}

/// A device. Removed when dropped.
#[derive(Debug)]
pub struct Device {
    control: Control,
    number: u32,
    record: PathBuf,
    is_removed: AtomicBool,
    /// Says once that the queue takes requests.
    serving: Mutex<Option<SyncSender<()>>>,
    served: Mutex<Receiver<()>>,
}

impl Device {
    /// Whether the kernel has the driver.
    #[must_use]
    pub fn available() -> bool {
        Path::new(CONTROL_PATH).exists()
    }

    /// Makes a device for the disk behind `gate`, and notes in the file `record` which it is. There is no
    /// block device before [`Device::publish`].
    ///
    /// # Errors
    /// As [`UblkError`]; no device is left then.
    pub fn new<B: Backend>(gate: &Gate<B>, is_rotational: bool, record: &Path) -> Result<Self, UblkError> {
        if !Self::available() {
            return Err(UblkError::Missing { path: PathBuf::from(CONTROL_PATH) });
        }
        let control = Control::open().map_err(UblkError::driver("be reached"))?;
        let mark = clock::raw_ns() ^ u64::from(std::process::id()).rotate_right(16);
        let depth = u16::try_from(BATCH).unwrap_or(u16::MAX);
        let number =
            control.add(depth, MAX_TRANSFER_BYTES, mark).map_err(UblkError::driver("make a device"))?;
        let (sender, receiver) = sync_channel(1);
        let device = Self {
            control,
            number,
            record: record.to_owned(),
            is_removed: AtomicBool::new(false),
            serving: Mutex::new(Some(sender)),
            served: Mutex::new(receiver),
        };
        let error = |source| UblkError::Record { path: record.to_owned(), source };
        let text = serde_json::to_vec(&Record { device: number, mark }).map_err(|e| error(e.into()))?;
        fs::write(record, text).map_err(error)?;
        let parameters = parameters(gate.size_bytes(), gate.block_bytes(), is_rotational);
        let reported = device.control.set_parameters(number, &parameters);
        reported.map_err(UblkError::driver("take the disk's parameters"))?;
        Ok(device)
    }

    /// The block device.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.number))
    }

    /// Answers requests until the device is stopped.
    ///
    /// # Errors
    /// The queue cannot be made, or breaks.
    pub fn serve<B: Backend>(&self, gate: &Gate<B>, heartbeat: &Heartbeat) -> Result<(), UblkError> {
        // Whatever happens, nobody waits for it any more after this.
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        let depth = u16::try_from(BATCH).unwrap_or(u16::MAX);
        let room = usize::try_from(MAX_TRANSFER_BYTES).unwrap_or(usize::MAX);
        let mut queue = ublk::Queue::new(&self.control, self.number, depth, room, TOUCHED_BYTES)
            .map_err(UblkError::driver("open the device's queue"))?;
        if let Some(serving) = serving {
            let _ = serving.send(());
        }
        serve(gate, &mut queue, heartbeat).map_err(UblkError::driver("continue serving"))
    }

    /// Makes the block device, once [`Device::serve`] runs in another thread.
    ///
    /// # Errors
    /// That does not run, or the driver refuses.
    pub fn publish(&self) -> Result<(), UblkError> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.recv().map_err(|_| UblkError::NotServed)?;
        self.control.start(self.number).map_err(UblkError::driver("start the device"))
    }

    /// Takes the block device away unless it is mounted, or something else has it for itself.
    ///
    /// # Errors
    /// `EBUSY`.
    pub fn release(&self) -> fsage_sys::Result<()> {
        let path = self.path();
        match open(&path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::EXCL, Mode::empty()) {
            Err(Errno::BUSY) => {
                Err(fsage_sys::Error::Path { call: "open", path, source: Errno::BUSY.into() })
            }
            _ => self.stop(),
        }
    }

    /// Takes the block device away, even while it is in use: they get errors. [`Device::serve`] ends.
    ///
    /// # Errors
    /// None that is known.
    pub fn stop(&self) -> fsage_sys::Result<()> {
        self.control.stop(self.number)
    }

    /// Removes it for good. [`Device::serve`] must have ended, or never run.
    pub fn remove(&self) {
        if !self.is_removed.swap(true, Ordering::SeqCst) {
            let _ = self.control.stop(self.number);
            if self.control.delete(self.number).is_ok() {
                let _ = fs::remove_file(&self.record);
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes the device that a process which is dead has noted in `record`, and the note. Nothing to do is
/// fine.
///
/// # Errors
/// The note cannot be read or removed, or the device stays.
pub fn remove_left(record: &Path) -> io::Result<()> {
    let text = match fs::read(record) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    // A note that was not written to its end is of a device that nobody could use; without the driver there
    // is no device.
    if let (Ok(noted), Ok(control)) = (serde_json::from_slice::<Record>(&text), Control::open())
        && control.mark(noted.device).is_ok_and(|mark| mark == noted.mark)
    {
        let removed = control.stop(noted.device).and_then(|()| control.delete(noted.device));
        removed.map_err(io::Error::other)?;
    }
    fs::remove_file(record)
}

impl Slot for Entry {
    fn descriptor(&self) -> Descriptor {
        Self::descriptor(self)
    }

    fn data(&self) -> &[u8] {
        Self::data(self)
    }

    fn data_mut(&mut self) -> &mut [u8] {
        Self::data_mut(self)
    }
}

impl Queue for ublk::Queue {
    type Slot = Entry;

    fn receive(&mut self, arrived: &mut Vec<Entry>, timeout_ns: Option<u64>) -> fsage_sys::Result<bool> {
        Self::receive(self, arrived, timeout_ns)
    }

    fn answer(&mut self, slot: Entry, result: i32) -> fsage_sys::Result<()> {
        Self::answer(self, slot, result)
    }

    fn slots(&self) -> usize {
        self.entries()
    }
}
