//! What the disk is served as, and how that ends.

#[cfg(feature = "ublk")]
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsage_model::disk::Transport;
#[cfg(feature = "ublk")]
use fsage_model::medium::MediumSpec;
use fsage_sys::fuse::Abort;
use fsage_sys::mount;
#[cfg(feature = "ublk")]
use rustix::process::{Signal, getpid, kill_process};

use super::error::ServerError;
use super::settings::Export;
use super::{ServerDirectory, Settings};
use crate::disk::Disk;
use crate::export::fuse::Session;
#[cfg(feature = "ublk")]
use crate::export::ublk;
use crate::export::{Gate, Heartbeat};

/// `EBUSY`.
pub(super) const BUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();

/// What the disk is served as.
pub(super) enum Exported {
    /// A file in a FUSE mount.
    Fuse {
        /// The mount.
        session: Session,
        /// What ends its connection.
        abort: Arc<Abort>,
        place: ServerDirectory,
    },
    /// A block device of its own.
    #[cfg(feature = "ublk")]
    Ublk(ublk::Device),
}

impl Exported {
    /// Makes it; nobody gets an answer from it before [`Exported::serve`] runs.
    #[cfg_attr(
        not(feature = "ublk"),
        expect(unused_variables, reason = "only a block device needs its gate now")
    )]
    pub fn new(settings: &Settings, place: &ServerDirectory, gate: &Gate<Disk>) -> Result<Self, ServerError> {
        match settings.export {
            Export::Fuse => Self::mount(settings, place),
            #[cfg(feature = "ublk")]
            Export::Ublk => {
                let medium = settings.medium.parse::<MediumSpec>();
                let turns = medium.is_ok_and(|medium| medium.preset().is_rotational());
                Ok(Self::Ublk(ublk::Device::new(gate, turns, &place.ublk_record())?))
            }
        }
    }

    fn mount(settings: &Settings, place: &ServerDirectory) -> Result<Self, ServerError> {
        let point = place.mount();
        std::fs::create_dir(&point).map_err(ServerError::file("make", point.clone()))?;
        let session = Session::mount(&point, settings.transport, &place.switch_record())?;
        match session.abort_handle() {
            Ok(abort) => Ok(Self::Fuse { session, abort: Arc::new(abort), place: place.clone() }),
            Err(source) => {
                let _ = mount::unmount_lazily(&point);
                Err(ServerError::system("reach the FUSE connection")(source))
            }
        }
    }

    /// The file, or the block device.
    pub fn file(&self) -> PathBuf {
        match self {
            Self::Fuse { session, .. } => session.file(),
            #[cfg(feature = "ublk")]
            Self::Ublk(device) => device.path(),
        }
    }

    /// How requests come, of FUSE.
    pub const fn transport(&self) -> Option<Transport> {
        match self {
            Self::Fuse { session, .. } => Some(session.transport()),
            #[cfg(feature = "ublk")]
            Self::Ublk(_) => None,
        }
    }

    /// Answers requests until it is released or ended.
    pub fn serve(&self, gate: &Gate<Disk>, heartbeat: &Heartbeat) -> Result<(), ServerError> {
        match self {
            Self::Fuse { session, .. } => Ok(session.serve(gate, heartbeat)?),
            #[cfg(feature = "ublk")]
            Self::Ublk(device) => Ok(device.serve(gate, heartbeat)?),
        }
    }

    /// Lets users in, once [`Exported::serve`] runs in another thread.
    pub fn publish(&self) -> Result<(), ServerError> {
        match self {
            Self::Fuse { .. } => Ok(()),
            #[cfg(feature = "ublk")]
            Self::Ublk(device) => Ok(device.publish()?),
        }
    }

    /// Ends it if nobody uses it; waits for the last user for `patience`.
    pub fn release(&self, patience: Duration) -> Result<(), fsage_sys::Error> {
        let started = Instant::now();
        loop {
            let released = match self {
                Self::Fuse { place, .. } => mount::unmount(&place.mount()),
                #[cfg(feature = "ublk")]
                Self::Ublk(device) => device.release(),
            };
            match released {
                Err(error) if error.errno() == BUSY && started.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => return other,
            }
        }
    }

    /// What to do about users.
    pub fn in_use_hint(&self) -> String {
        let file = self.file();
        match self {
            Self::Fuse { .. } => {
                format!("unmount what is on it and detach its loop device: losetup -j {}", file.display())
            }
            #[cfg(feature = "ublk")]
            Self::Ublk(_) => format!("unmount what is on it: lsblk {}", file.display()),
        }
    }

    /// Ends it, even while it is in use: they get errors.
    pub fn end(&self) {
        let _ = match self {
            Self::Fuse { abort, .. } => abort.abort(),
            #[cfg(feature = "ublk")]
            Self::Ublk(device) => device.stop(),
        };
    }

    /// What ends it when nobody serves it any more, though the thread that should is there. The driver of
    /// ublk waits for that thread; only the end of the process frees those who wait.
    pub fn watchdog_end(&self) -> Box<dyn FnOnce() + Send> {
        match self {
            Self::Fuse { abort, .. } => {
                let abort = Arc::clone(abort);
                Box::new(move || {
                    let _ = abort.abort();
                })
            }
            #[cfg(feature = "ublk")]
            Self::Ublk(_) => Box::new(|| {
                let reported =
                    b"watchdog: the server was at work on one batch for too long: it ends itself\n";
                let _ = std::io::stderr().write_all(reported);
                let _ = kill_process(getpid(), Signal::KILL);
            }),
        }
    }

    /// Removes what is left of it, after [`Exported::serve`] has ended.
    pub fn remove(&self) {
        match self {
            Self::Fuse { abort, place, .. } => {
                let _ = abort.abort();
                if place.is_mounted() {
                    let _ = mount::unmount_lazily(&place.mount());
                }
            }
            #[cfg(feature = "ublk")]
            Self::Ublk(device) => device.remove(),
        }
    }
}
