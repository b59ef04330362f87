//! Mounting and unmounting (`mount(2)`), without the mount program: nothing is looked up in fstab, nothing is
//! written to utab.
//!
//! What is mounted here was made by a study, an image or a file of anybody's, so every mount is
//! `nosuid,nodev,noexec`: what lies on it gives no rights, opens no device and does not run. Only
//! [`mount_again`], for a mount of the user's own that is put back as it was, leaves that to the options.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use rustix::fd::{AsRawFd as _, BorrowedFd};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::{Error, Result};

/// What `mount(2)` takes for a list of options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Those that the kernel knows for every file system.
    pub flags: MountFlags,
    /// The rest, for the file system, separated by commas.
    pub data: String,
}

/// Splits options as mount(8) does: generic ones become flags, those meant for fstab and its readers
/// (`nofail`, `x-…`, `_netdev`, …) are dropped, the rest goes to the file system in the order given. Later
/// options win over earlier ones. An element may hold several, separated by commas.
#[must_use]
pub fn parse(options: &[String]) -> Options {
    let mut flags = MountFlags::empty();
    let mut data: Vec<&str> = Vec::new();
    for option in options.iter().flat_map(|option| option.split(',')).map(str::trim) {
        if let Some((_, set, clear)) = GENERIC.iter().find(|(name, ..)| *name == option) {
            flags = (flags - *clear) | *set;
        } else if !option.is_empty() && !is_ignored(option) {
            data.push(option);
        }
    }
    Options { flags, data: data.join(",") }
}

const NONE: MountFlags = MountFlags::empty();
const ATIME: MountFlags = MountFlags::NOATIME.union(MountFlags::RELATIME).union(MountFlags::STRICTATIME);

/// Name, flags set, flags cleared.
#[rustfmt::skip]
const GENERIC: [(&str, MountFlags, MountFlags); 29] = [
    ("defaults", NONE, NONE),
    ("ro", MountFlags::RDONLY, NONE),
    ("rw", NONE, MountFlags::RDONLY),
    ("nosuid", MountFlags::NOSUID, NONE),
    ("suid", NONE, MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV, NONE),
    ("dev", NONE, MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC, NONE),
    ("exec", NONE, MountFlags::NOEXEC),
    ("sync", MountFlags::SYNCHRONOUS, NONE),
    ("async", NONE, MountFlags::SYNCHRONOUS),
    ("dirsync", MountFlags::DIRSYNC, NONE),
    ("mand", MountFlags::PERMIT_MANDATORY_FILE_LOCKING, NONE),
    ("nomand", NONE, MountFlags::PERMIT_MANDATORY_FILE_LOCKING),
    ("noatime", MountFlags::NOATIME, ATIME),
    ("atime", NONE, ATIME),
    ("relatime", MountFlags::RELATIME, ATIME),
    ("norelatime", NONE, MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME, ATIME),
    ("nostrictatime", NONE, MountFlags::STRICTATIME),
    ("nodiratime", MountFlags::NODIRATIME, NONE),
    ("diratime", NONE, MountFlags::NODIRATIME),
    ("lazytime", MountFlags::LAZYTIME, NONE),
    ("nolazytime", NONE, MountFlags::LAZYTIME),
    ("silent", MountFlags::SILENT, NONE),
    ("loud", NONE, MountFlags::SILENT),
    ("bind", MountFlags::BIND, NONE),
    ("rbind", MountFlags::BIND.union(MountFlags::REC), NONE),
    ("remount", MountFlags::from_bits_retain(32), NONE),
];

/// Addressed to fstab's readers.
fn is_ignored(option: &str) -> bool {
    IGNORED.contains(&option) || option.starts_with("x-") || option.starts_with("comment=")
}

const IGNORED: [&str; 9] =
    ["auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev"];

/// What no mount goes without.
const ALWAYS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Options that would take one of [`ALWAYS`] away, and those that do not mount a device: a bind mount or a
/// remount ignores the flags, or changes a mount that is not ours.
const REFUSED: [&str; 6] = ["suid", "dev", "exec", "bind", "rbind", "remount"];

/// Options that make a driver write to a device, or believe a superblock, that nobody named and nobody
/// inspected: external logs and journals (xfs, ext, reiserfs), realtime devices (xfs), further devices
/// (btrfs), another copy of the superblock (ext).
const ELSEWHERE: [&str; 7] = ["logdev", "rtdev", "journal_path", "journal_dev", "jdev", "device", "sb"];

/// Why an option cannot be taken; `None` when it can.
#[must_use]
pub fn objection(option: &str) -> Option<&'static str> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match option {
        "suid" | "dev" | "exec" => Some("every volume is mounted nosuid, nodev and noexec"),
        _ if REFUSED.contains(&option) => Some("it does not mount a device"),
        _ if ELSEWHERE.contains(&name) => {
            Some("it leads the file system to a device or superblock of its own")
        }
        _ if value.contains('/') => Some("its value is a path"),
        _ if value == "panic" => Some("it would halt this host after an error"),
        _ => None,
    }
}

/// Mounts `device` at `point` with the options as [`parse`] takes them, and with `nosuid`, `nodev` and
/// `noexec` always.
///
/// # Errors
/// What `mount(2)` gives: `ENODEV` for a file system that the kernel lacks, `EINVAL` for an option it does
/// not know or a volume that holds something else, `EUCLEAN` for damage. The kernel log says more. `EINVAL`
/// also for an option that [`objection`] names.
pub fn mount(device: &Path, point: &Path, fstype: &str, options: &[String]) -> Result<()> {
    restricted(device, point, point, fstype, options)
}

/// As [`mount`], at an open directory: whatever has taken its name meanwhile. `point` is what errors call it.
///
/// # Errors
/// As [`mount`].
pub fn mount_at(
    device: &Path,
    directory: BorrowedFd<'_>,
    point: &Path,
    fstype: &str,
    options: &[String],
) -> Result<()> {
    restricted(device, &descriptor_path(directory), point, fstype, options)
}

/// A path that names an open file of this process, for interfaces that take no descriptors. It is valid while
/// the file is open.
#[must_use]
pub fn descriptor_path(file: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn restricted(device: &Path, at: &Path, point: &Path, fstype: &str, options: &[String]) -> Result<()> {
    let words = options.iter().flat_map(|option| option.split(',')).map(str::trim);
    if let Some(refused) = words.into_iter().find(|word| objection(word).is_some()) {
        return Err(Error::Argument {
            what: "mount option that would lift a restriction or reach beyond the volume",
            path: refused.into(),
        });
    }
    let mut options = parse(options);
    options.flags |= ALWAYS;
    call(device, at, point, fstype, &options)
}

/// Mounts with exactly these options: puts a mount of the user's own back as it was, at the open `directory`, which
/// errors call `point`.
///
/// # Errors
/// As [`mount`].
pub fn mount_again(
    device: &Path,
    directory: BorrowedFd<'_>,
    point: &Path,
    fstype: &str,
    options: &[String],
) -> Result<()> {
    call(device, &descriptor_path(directory), point, fstype, &parse(options))
}

/// Makes what another program mounted at `point` `nosuid`, `nodev` and `noexec`; its other flags stay.
///
/// # Errors
/// `EINVAL` when it is no mount point.
pub fn restrict(point: &Path) -> Result<()> {
    let failed = Error::path("restrict the mount", point);
    let flags = match statvfs(point) {
        Ok(facts) => kept(facts.f_flag) | ALWAYS | MountFlags::BIND,
        Err(errno) => return Err(failed(errno)),
    };
    rustix::mount::mount_remount(point, flags, "").map_err(failed)
}

/// Flags of a mount, as a remount has to repeat them.
fn kept(now: StatVfsMountFlags) -> MountFlags {
    let pairs = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let flags = pairs.iter().filter(|(flag, _)| now.contains(*flag)).map(|(_, flag)| *flag).collect();
    // Without one of them the kernel would take relatime.
    if MountFlags::intersects(&flags, MountFlags::NOATIME | MountFlags::RELATIME) {
        flags
    } else {
        flags | MountFlags::STRICTATIME
    }
}

fn call(device: &Path, at: &Path, point: &Path, fstype: &str, options: &Options) -> Result<()> {
    let argument = |what, text: &str| Error::Argument { what, path: text.into() };
    let data = CString::new(options.data.as_str())
        .map_err(|_| argument("NUL byte in mount options", &options.data))?;
    if data.as_bytes().len() >= 4096 {
        return Err(argument("mount options longer than a page", &options.data));
    }
    let data = (!data.is_empty()).then_some(data.as_c_str());
    rustix::mount::mount(device, at, fstype, options.flags, data).map_err(Error::path("mount", point))
}

/// Unmounts what is mounted at `point`; a symbolic link there is not followed.
///
/// # Errors
/// `EBUSY` while files are open or something is mounted below; `EINVAL` when it is no mount point.
pub fn unmount(point: &Path) -> Result<()> {
    rustix::mount::unmount(point, UnmountFlags::NOFOLLOW).map_err(Error::path("umount", point))
}

/// Takes the mount out of the tree at once and lets the kernel finish it when the last user is gone. Only for
/// cleaning up: afterwards nobody can tell when the device is free.
///
/// # Errors
/// As [`unmount`], but for `EBUSY`.
pub fn unmount_lazily(point: &Path) -> Result<()> {
    let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
    rustix::mount::unmount(point, flags).map_err(Error::path("umount", point))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[&str]) -> Options {
        parse(&options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn generic_options_become_flags_and_the_rest_goes_to_the_file_system() {
        let options = parsed(&["noatime,nodev", "data=ordered", "defaults", "commit=5, ro"]);
        assert_eq!(options.flags, MountFlags::NOATIME | MountFlags::NODEV | MountFlags::RDONLY);
        assert_eq!(options.data, "data=ordered,commit=5");
    }

    #[test]
    fn later_options_win() {
        assert_eq!(parsed(&["ro", "rw"]).flags, NONE);
        assert_eq!(parsed(&["noatime", "relatime"]).flags, MountFlags::RELATIME);
        assert_eq!(parsed(&["strictatime", "noatime"]).flags, MountFlags::NOATIME);
        assert_eq!(parsed(&["sync", "lazytime", "async"]).flags, MountFlags::LAZYTIME);
    }

    #[test]
    fn what_only_fstab_knows_is_dropped() {
        let options = parsed(&["nofail", "_netdev", "x-systemd.automount", "", "comment=hello", "noauto"]);
        assert_eq!(options, Options { flags: NONE, data: String::new() });
    }

    #[test]
    fn impossible_options_and_mounts_are_errors() {
        let point = Path::new("/nonexistent/point");
        let too_long = [format!("subvol={}", "x".repeat(5000))];
        assert_eq!(mount(Path::new("none"), point, "tmpfs", &too_long).unwrap_err().errno(), libc::EINVAL);
        assert_eq!(
            mount(Path::new("none"), point, "tmpfs", &["a\0b".to_owned()]).unwrap_err().errno(),
            libc::EINVAL
        );
        for refused in [
            "suid",
            "noatime,dev",
            "exec",
            "bind",
            "rbind",
            "remount",
            "logdev=/dev/loop0",
            "noatime, rtdev=x",
            "journal_path=a",
            "journal_dev=0x100",
            "device=a",
            "sb=131072",
            "other=/dev/loop0",
            "errors=panic",
            "fatal_errors=panic",
        ] {
            let error = mount(Path::new("none"), point, "tmpfs", &[refused.to_owned()]).unwrap_err();
            assert_eq!(error.errno(), libc::EINVAL, "{refused}");
        }
        let error = mount(Path::new("none"), point, "tmpfs", &[]).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/point"));
        assert!(unmount(point).is_err());
    }
}
