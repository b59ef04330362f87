//! Which devices a mounted btrfs is on, and what the kernel remembers of devices that it saw before
//! (`include/uapi/linux/btrfs.h`).

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::{info, malformed};
use crate::ioctl::Request;
use crate::{Error, Result};

const CONTROL: &str = "/dev/btrfs-control";

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolumeArguments {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_dev_info_args`; the identity and the sizes are not asked for here.
#[repr(C)]
struct DeviceInfo {
    number: u64,
    rest: [u8; 3064],
    path: [u8; 1024],
}

const BTRFS_IOC_FORGET_DEV: Request<VolumeArguments> = Request::write("BTRFS_IOC_FORGET_DEV", 0x94, 5);
const BTRFS_IOC_DEV_INFO: Request<DeviceInfo> = Request::read_write("BTRFS_IOC_DEV_INFO", 0x94, 30);

/// Makes the kernel forget what it remembers of an unmounted device, so that its next mount goes by what is on
/// it. A device or a file system that the kernel does not know is fine, as is a kernel before 5.4, which has no
/// such call. A device that is still mounted, which may be in another mount namespace, stays what it is: a further mount
/// is one of the same file system.
///
/// # Errors
/// It is no block device, or its path is too long.
pub fn forget(device: &Path) -> Result<()> {
    let control = match open(CONTROL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(control) => control,
        Err(Errno::NOENT | Errno::NODEV | Errno::NXIO) => return Ok(()),
        Err(error) => return Err(Error::call("open /dev/btrfs-control")(error)),
    };
    let path = device.as_os_str().as_bytes();
    let mut arguments = VolumeArguments { fd: 0, name: [0; 4088] };
    if path.len() >= arguments.name.len() {
        return Err(Error::Argument { what: "path of a device", path: device.to_owned() });
    }
    arguments.name[..path.len()].copy_from_slice(path);
    // SAFETY: BTRFS_IOC_FORGET_DEV reads exactly one `btrfs_ioctl_vol_args`, which this is.
    match unsafe { BTRFS_IOC_FORGET_DEV.call(control.as_fd(), &raw mut arguments) } {
        Err(error) if ![libc::ENOENT, libc::ENOTTY, libc::EINVAL, libc::EBUSY].contains(&error.errno()) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// How many devices a mounted file system has, and the path of the one of that number.
///
/// # Errors
/// It is no btrfs, or has no device of that number.
pub fn device(fd: BorrowedFd<'_>, number: u64) -> Result<(u64, PathBuf)> {
    let count = info(fd)?.num_devices;
    let mut found = DeviceInfo { number, rest: [0; 3064], path: [0; 1024] };
    // SAFETY: BTRFS_IOC_DEV_INFO reads and writes exactly one `btrfs_ioctl_dev_info_args`, which this is.
    unsafe { BTRFS_IOC_DEV_INFO.call(fd, &raw mut found) }?;
    let length = found.path.iter().position(|byte| *byte == 0).ok_or(malformed("path of a device"))?;
    Ok((count, PathBuf::from(OsStr::from_bytes(&found.path[..length]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<VolumeArguments>(), size_of::<DeviceInfo>()), (4096, 4096));
    }

    #[test]
    fn what_is_not_known_is_forgotten_already_and_other_file_systems_have_no_devices() {
        if rustix::process::geteuid().is_root() {
            let is_known = Path::new(CONTROL).exists();
            let refused = forget(Path::new("/dev/zero")).map_err(|error| error.errno());
            assert_eq!(refused, if is_known { Err(libc::ENOTBLK) } else { Ok(()) });
        }
        assert!(matches!(forget(Path::new(&"x".repeat(5000))), Err(Error::Argument { .. }) | Ok(())));
        let folder = std::fs::File::open("/proc").unwrap();
        assert_eq!(device(folder.as_fd(), 1).unwrap_err().errno(), libc::ENOTTY);
    }
}
