//! The ways a disk becomes a block device.
//!
//! | export | what it is | where |
//! | --- | --- | --- |
//! | [`fuse`] | a file, for a loop device with direct I/O | every kernel that has FUSE |
//! | [`nbd`] | a network block device on a Unix socket | everywhere: QEMU, `nbd-client`, libnbd |
//! | `ublk` | a block device of its own, `/dev/ublkbN` | with the feature `ublk`; kernel 6.0 with `ublk_drv`; **not tried on a real driver** |
//!
//! Every export goes through the one [`Gate`] of the disk: it refuses what the disk does not have, counts,
//! and keeps the time. The same contract suite (`tests/export_contract.rs`) runs on each of them.
//!
//! **Batches.** An export gathers the requests that wait for it and hands them over together: the medium's
//! model orders them as a device orders its queue.

pub mod fuse;
mod gate;
mod heartbeat;
pub mod nbd;
#[cfg(feature = "ublk")]
pub mod ublk;

pub use gate::{Gate, Wall};
pub use heartbeat::Heartbeat;

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::request::{IoError, Transfer};

/// Largest number of requests that are handed over together: as many as a loop device ever has under way.
pub const BATCH: usize = 128;

/// What is exported: anything that serves requests.
pub trait Backend: Send {
    /// Its size.
    fn size_bytes(&self) -> u64;

    /// Offsets and lengths are multiples of this.
    fn block_bytes(&self) -> u32;

    /// Serves the requests that wait together, in the order in which they came: a later one sees what an
    /// earlier one wrote. All lie within the disk, are aligned to its blocks and have the data they need.
    fn submit(&mut self, transfers: &mut [Transfer<'_>]);
}

/// Connections that may wait to be taken.
const WAITING: i32 = 128;

/// Listens at a socket that only its owner may connect to, from the first moment: the file takes the mode
/// that the socket has when it is bound (`unix_bind` in net/unix/af_unix.c), and nothing of the process, as
/// the umask is, has to change for it.
///
/// # Errors
/// Something is there already, a path longer than 107 bytes, no right to.
pub(crate) fn private_listener(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, WAITING)?;
    Ok(socket.into())
}

/// What the kernel gets of a failure.
const fn errno(error: IoError) -> Errno {
    match error {
        IoError::Medium => Errno::IO,
        IoError::Space => Errno::NOSPC,
        IoError::Range => Errno::INVAL,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_socket_is_its_owners_from_the_first_moment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        // Nothing is done to the file after it was bound, so what is seen now was so when it appeared.
        let listener = private_listener(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        listener.accept().unwrap();
        drop(client);
        assert_eq!(private_listener(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
