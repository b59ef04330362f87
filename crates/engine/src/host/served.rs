//! In a guest: the virtual disk that its host serves to it.
//!
//! The first process of such a guest (`boot` in crates/lab) listens at the control socket and passes on what is asked there,
//! and the block device has a serial number that says which it is. On any other host there is no such folder.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use fsage_model::cluster::Sent;
use fsage_sys::folder::Folder;

use super::disk::CONTROL;
use super::{HostError, read_trimmed};

/// Folder of the disk's control socket in a guest.
pub const FOLDER: &str = "/run/fsage-served";

/// Serial number of the block device.
pub const SERIAL: &str = "fsage-disk";

/// The block device, where this is such a guest.
#[must_use]
pub fn device() -> Option<PathBuf> {
    device_of(Path::new(FOLDER), Path::new("/sys/block"))
}

fn device_of(folder: &Path, blocks: &Path) -> Option<PathBuf> {
    let socket = folder.join(CONTROL).symlink_metadata().ok()?;
    if !socket.file_type().is_socket() || Folder::open(folder).ok()?.foreign().is_some() {
        return None;
    }
    let entries = std::fs::read_dir(blocks).ok()?.flatten();
    let mut ours = entries.filter(|entry| read_trimmed(entry.path().join("serial")) == SERIAL);
    let device = Path::new("/dev").join(ours.next()?.file_name());
    // Two would be somebody's mistake.
    ours.next().is_none().then_some(device)
}

/// What the network devices sent, the loopback left out.
///
/// # Errors
/// The kernel does not tell.
pub fn sent() -> Result<Sent, HostError> {
    let folder = Path::new("/sys/class/net");
    let mut sum = Sent::default();
    for entry in std::fs::read_dir(folder).map_err(HostError::file("read", folder))?.flatten() {
        if entry.file_name() == "lo" {
            continue;
        }
        let count =
            |name: &str| read_trimmed(entry.path().join("statistics").join(name)).parse().unwrap_or(0u64);
        sum.packets = sum.packets.saturating_add(count("tx_packets"));
        sum.bytes = sum.bytes.saturating_add(count("tx_bytes"));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_device_is_served_only_with_socket_and_serial() {
        let folder = tempfile::tempdir().unwrap();
        let (served, blocks) = (folder.path().join("served"), folder.path().join("block"));
        let disk = |name: &str, serial: &str| {
            std::fs::create_dir_all(blocks.join(name)).unwrap();
            std::fs::write(blocks.join(name).join("serial"), format!("{serial}\n")).unwrap();
        };
        std::fs::create_dir(&served).unwrap();
        disk("vda", "disk-of-somebody");
        disk("vdb", SERIAL);
        assert_eq!(device_of(&served, &blocks), None, "nobody listens");
        let _socket = UnixListener::bind(served.join(CONTROL)).unwrap();
        assert_eq!(device_of(&served, &blocks), Some(PathBuf::from("/dev/vdb")));
        disk("vdc", SERIAL);
        assert_eq!(device_of(&served, &blocks), None, "two");
        disk("vdb", "other");
        disk("vdc", "other");
        assert_eq!(device_of(&served, &blocks), None);
        assert_eq!(device(), None, "this host is no guest with a disk of its host");
    }
}
