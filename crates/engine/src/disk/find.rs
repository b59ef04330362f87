//! From a directory or a block device down to the virtual disk it is on.
//!
//! A loop device tells its backing file; device-mapper and md list what they are made of in `slaves`; a btrfs
//! its devices. What is on several disks, virtual or not, has no single clock and is not found; the drives of one virtual
//! disk have one.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use fsage_sys::folder::Folder;
use fsage_sys::owners::is_trusted;
use rustix::fs::{major, minor};

use super::VirtualDisk;
use crate::device::Device;
use crate::host::disk::{CONTROL, FILE};
use crate::host::{read_trimmed, served};

/// Layers of device-mapper and the like that are looked through.
const DEEPEST: usize = 16;

pub(super) fn under(directory: &Path) -> Option<VirtualDisk> {
    let [only]: [PathBuf; 1] = Device::under(directory)?.folders().try_into().ok()?;
    below(&only, 0)
}

pub(super) fn of_device(device: &Path) -> Option<VirtualDisk> {
    let metadata = device.metadata().ok()?;
    if !metadata.file_type().is_block_device() {
        return None;
    }
    let number = metadata.rdev();
    below(&PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number))), 0)
}

/// The disk below the device with this folder in sysfs.
fn below(folder: &Path, depth: usize) -> Option<VirtualDisk> {
    let folder = folder.canonicalize().ok()?;
    // The folder of a partition is in that of its disk.
    let folder = if folder.join("partition").exists() { folder.parent()?.to_owned() } else { folder };
    let backing = read_trimmed(folder.join("loop/backing_file"));
    if !backing.is_empty() {
        return of_file(Path::new(&backing));
    }
    if let Some(found) = served_to_guest(&folder) {
        return Some(found);
    }
    let slaves: Vec<PathBuf> =
        std::fs::read_dir(folder.join("slaves")).ok()?.flatten().map(|entry| entry.path()).collect();
    // Several may be drives of one disk, which has one clock.
    let mut found = slaves.iter().map(|slave| (depth < DEEPEST).then(|| below(slave, depth + 1)).flatten());
    let first = found.next()??;
    found.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// The disk that a guest's host serves, where this device is that.
fn served_to_guest(folder: &Path) -> Option<VirtualDisk> {
    let name = folder.file_name()?;
    let is_it = served::device().is_some_and(|device| device.file_name() == Some(name));
    is_it.then(|| VirtualDisk { directory: PathBuf::from(served::FOLDER) })
}

/// The disk whose exported file this is. Anyone can put such files beside a file of theirs: a disk is one whose
/// socket and folder belong to a trusted user, and nobody else may change them.
fn of_file(file: &Path) -> Option<VirtualDisk> {
    let directory = PathBuf::from(file.to_str()?.strip_suffix(FILE)?.strip_suffix('/')?);
    let socket = directory.join(CONTROL).symlink_metadata().ok()?;
    let ours = socket.file_type().is_socket() && is_trusted(socket.uid());
    (ours && Folder::open(&directory).ok()?.foreign().is_none()).then_some(VirtualDisk { directory })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_file_is_a_disks_when_its_socket_lies_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mount/disk");
        assert_eq!(of_file(&file), None);
        let _socket = UnixListener::bind(folder.path().join("control")).unwrap();
        assert_eq!(of_file(&file).unwrap().directory(), folder.path());
        for other in ["mount/disk2", "amount/disk", "disk"] {
            assert_eq!(of_file(&folder.path().join(other)), None, "{other}");
        }
    }

    #[test]
    fn what_a_stranger_put_beside_a_file_is_no_disk() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("mount/disk"), folder.path().join("control"));
        let _listener = UnixListener::bind(&socket).unwrap();
        assert!(of_file(&file).is_some());
        for theirs in [socket.as_path(), folder.path()] {
            std::os::unix::fs::chown(theirs, Some(65534), None).unwrap();
            assert_eq!(of_file(&file), None, "{}", theirs.display());
            std::os::unix::fs::chown(theirs, Some(0), None).unwrap();
        }
        // A link to a disk's socket is none.
        std::fs::rename(&socket, folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &socket).unwrap();
        assert_eq!(of_file(&file), None);
    }

    #[test]
    fn what_is_no_virtual_disk_is_none() {
        assert_eq!(under(Path::new("/proc")), None);
        assert_eq!(under(Path::new("/")), None);
        assert_eq!(of_device(Path::new("/dev/null")), None);
    }
}
