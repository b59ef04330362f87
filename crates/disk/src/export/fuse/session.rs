//! Mounting, and serving until the mount is gone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_model::disk::Transport;
use fsage_sys::fuse::reply::{self, InitReply};
use fsage_sys::fuse::request::{self, Request};
use fsage_sys::fuse::{Abort, Device, MessageBuffer, Received, ring};
use fsage_sys::mount;
use serde::{Deserialize, Serialize};

use super::device::DeviceCarrier;
use super::engine::Engine;
use super::ring::RingCarrier;
use super::uring_switch::UringSwitch;
use super::{FILE_NAME, MAX_TRANSFER_BYTES};
use crate::export::{Backend, Gate, Heartbeat};

/// Requests that wait for us without a process waiting for them: the kernel's default of 12 would be the
/// depth of the disk's queue.
const MAX_BACKGROUND: u16 = 512;
/// Largest request in pages.
const MAX_PAGES: u16 = 256;
/// The kernel ends the connection when a request has had no answer for this long, where it can (6.14).
const REQUEST_TIMEOUT_S: u16 = 300;
/// Longest wait for the kernel's first request.
const FIRST_WAIT: Duration = Duration::from_secs(10);

/// Which transport is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The faster one of those that the kernel has.
    #[default]
    Automatic,
    /// [`Transport::Device`], whatever the kernel has.
    Device,
}

/// Why a disk cannot be mounted or served.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// `/dev/fuse` cannot be opened.
    #[error("this kernel has no FUSE")]
    Open(#[source] fsage_sys::Error),
    /// The mount was refused.
    #[error("cannot mount at {}", point.display())]
    Mount {
        /// Where.
        point: PathBuf,
        /// Why.
        source: fsage_sys::Error,
    },
    /// The kernel's first request did not come or is invalid.
    #[error("the kernel sends no valid FUSE_INIT: {0}")]
    Introduction(&'static str),
    /// The kernel's FUSE is too old.
    #[error("the kernel speaks FUSE {major}.{minor}, at least 7.28 is needed")]
    Version {
        /// Of the protocol.
        major: u32,
        /// Of the protocol.
        minor: u32,
    },
    /// The connection broke.
    #[error("the connection to the kernel broke")]
    Connection(#[source] fsage_sys::Error),
}

impl FuseError {
    /// The next step for the user, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open(source) if source.errno() == rustix::io::Errno::NOENT.raw_os_error() => {
                Some("load it: modprobe fuse".to_owned())
            }
            Self::Open(source) | Self::Mount { source, .. } => source.hint(),
            Self::Version { .. } => Some("use a kernel of 2018 or later (4.20)".to_owned()),
            Self::Introduction(_) | Self::Connection(_) => None,
        }
    }
}

/// A mounted disk. Dropping it ends the connection, but the mount point stays until it is unmounted.
#[derive(Debug)]
pub struct Session {
    device: Device,
    transport: Transport,
    point: PathBuf,
}

impl Session {
    /// Mounts at `point` and agrees with the kernel on what both can do. `record` is where the old value of a
    /// kernel setting is noted while it is changed (see [`super::restore_switch`]). Nobody who asks for the
    /// file gets an answer before [`Session::serve`] runs.
    ///
    /// # Errors
    /// As [`FuseError`]; nothing stays mounted then.
    pub fn mount(point: &Path, choice: Choice, record: &Path) -> Result<Self, FuseError> {
        let device = Device::open().map_err(FuseError::Open)?;
        // Kernels that can do io_uring offer it only while this is switched on, and keep to it once agreed.
        let switch = (choice != Choice::Device && ring::is_available()).then(|| UringSwitch::on(record));
        let mounted = device.mount(Path::new("fsage-disk"), point, MAX_TRANSFER_BYTES);
        mounted.map_err(|source| FuseError::Mount { point: point.to_owned(), source })?;
        let agreed = introduce(&device, switch.is_some());
        drop(switch);
        match agreed {
            Ok(transport) => Ok(Self { device, transport, point: point.to_owned() }),
            Err(error) => {
                drop(device);
                // The connection has ended with the device, so nobody can be in there.
                let _ = mount::unmount_lazily(point);
                Err(error)
            }
        }
    }

    /// The path of the file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.point.join(FILE_NAME)
    }

    /// How requests come.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// What ends the connection from another thread.
    ///
    /// # Errors
    /// When the kernel's control file system cannot be reached.
    pub fn abort_handle(&self) -> fsage_sys::Result<Abort> {
        Abort::of(&self.point)
    }

    /// Answers requests until the mount is gone.
    ///
    /// # Errors
    /// [`FuseError::Connection`].
    pub fn serve<B: Backend>(&self, gate: &Gate<B>, heartbeat: &Heartbeat) -> Result<(), FuseError> {
        let served = match self.transport {
            Transport::Device => Engine::new(gate, DeviceCarrier::new(&self.device), heartbeat.clone()).run(),
            Transport::IoUring => RingCarrier::new(&self.device)
                .and_then(|carrier| Engine::new(gate, carrier, heartbeat.clone()).run()),
        };
        served.map_err(FuseError::Connection)
    }
}

/// Answers the first request.
fn introduce(device: &Device, with_ring: bool) -> Result<Transport, FuseError> {
    let mut buffer = MessageBuffer::new(8192);
    let timeout_ns = u64::try_from(FIRST_WAIT.as_nanos()).ok();
    device.wait(timeout_ns).map_err(FuseError::Connection)?;
    if device.receive(&mut buffer).map_err(FuseError::Connection)? != Received::Message {
        return Err(FuseError::Introduction("no first request"));
    }
    let message = buffer.message();
    let header = request::header(&message).map_err(|_| FuseError::Introduction("it is truncated"))?;
    let Ok(Request::Init(offered)) = request::decode(&header, &message) else {
        return Err(FuseError::Introduction("it is another request"));
    };
    if offered.major != 7 || offered.minor < 28 {
        return Err(FuseError::Version { major: offered.major, minor: offered.minor });
    }
    let flags = reply::ASYNC_READ
        | reply::BIG_WRITES
        | reply::ASYNC_DIO
        | reply::MAX_PAGES
        | reply::INIT_EXT
        | reply::REQUEST_TIMEOUT
        | if with_ring { reply::OVER_IO_URING } else { 0 };
    let answer = InitReply {
        offered,
        flags,
        max_background: MAX_BACKGROUND,
        max_write: MAX_TRANSFER_BYTES,
        max_pages: MAX_PAGES,
        request_timeout_s: REQUEST_TIMEOUT_S,
    };
    device.answer(header.unique, 0, &answer.encode()).map_err(FuseError::Connection)?;
    let by_ring = answer.agreed() & reply::OVER_IO_URING != 0;
    Ok(if by_ring { Transport::IoUring } else { Transport::Device })
}
