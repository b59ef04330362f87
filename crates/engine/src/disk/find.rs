//! From a directory or a block device down to the virtual disk it is on.
//!
//! A loop device tells its backing file; device-mapper and md list what they are made of in `slaves`; a btrfs
//! its devices. What is on several disks, virtual or not, has no single clock and is not found.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use super::VirtualDisk;
use crate::device::Device;
use crate::host::disk::{CONTROL, FILE};
use crate::host::read_trimmed;

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
    let slaves: Vec<PathBuf> =
        std::fs::read_dir(folder.join("slaves")).ok()?.flatten().map(|entry| entry.path()).collect();
    let [only] = slaves.as_slice() else { return None };
    (depth < DEEPEST).then(|| below(only, depth + 1)).flatten()
}

/// The disk whose exported file this is.
fn of_file(file: &Path) -> Option<VirtualDisk> {
    let directory = PathBuf::from(file.to_str()?.strip_suffix(FILE)?.strip_suffix('/')?);
    directory.join(CONTROL).metadata().ok()?.file_type().is_socket().then_some(VirtualDisk { directory })
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
    fn what_is_no_virtual_disk_is_none() {
        assert_eq!(under(Path::new("/proc")), None);
        assert_eq!(under(Path::new("/")), None);
        assert_eq!(of_device(Path::new("/dev/null")), None);
    }
}
