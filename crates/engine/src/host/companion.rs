//! Devices that a superblock names besides its own: external journals and logs, realtime devices, further
//! members.
//!
//! btrfs puts every device that it knows of together by identity, so that a superblock that was made for it
//! joins the devices of another file system. A volume is not mounted while there are such.
//!
//! A volume is what fsage made or restored, on one device. The kernel opens the others a superblock asks for
//! by their number or identity and writes to them, though nobody named them, so such a volume is not mounted.
//!
//! Offsets from `fs/ext4/ext4.h`, `fs/xfs/libxfs/xfs_format.h` (big-endian) and
//! `include/uapi/linux/btrfs_tree.h`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use fsage_model::filesystem::{self, FileSystemFacts, Member};
use fsage_sys::btrfs;

use super::HostError;

/// Bytes from the beginning that hold the superblocks: that of btrfs is the last, at 64 KiB.
const HEAD_BYTES: usize = SUPERBLOCK + (4 << 10);

/// Where that of btrfs begins.
const SUPERBLOCK: usize = 64 << 10;

/// Checks the superblock that `device` would be mounted by as `file_system`.
///
/// # Errors
/// [`HostError::Companion`] when it names another device; [`HostError::Joined`] when another device would become
/// part of the same file system; the device cannot be read.
///
/// Files below the folders `beside` are virtual disks: what is asked of one counts on its clock, so they are not read.
pub fn check(device: &Path, file_system: &str, beside: &[PathBuf]) -> Result<(), HostError> {
    let Some(row) = filesystem::by_name(file_system) else { return Ok(()) };
    let Some(companion) = row.companion else { return Ok(()) };
    let file = File::open(device).map_err(HostError::file("open", device))?;
    let head = read_head(&file).map_err(HostError::file("read", device))?;
    if let Some(what) = companion(&head) {
        return Err(HostError::Companion { device: device.to_owned(), what });
    }
    let Some(member) = row.member.and_then(|member| member(&head)) else { return Ok(()) };
    // What the kernel remembers of a device of this number may be of another that is gone.
    btrfs::forget(device).map_err(HostError::kernel(format!("forget {}", device.display())))?;
    match devices(beside).into_iter().find(|other| completes(&member, other, row)) {
        Some(other) => Err(HostError::Joined { device: device.to_owned(), other }),
        None => Ok(()),
    }
}

/// Checks that what was mounted at `point` is on `device` alone: what the kernel remembers of other devices
/// does not show on any.
///
/// # Errors
/// [`HostError::Joined`]; it cannot be asked.
pub fn check_mounted(device: &Path, point: &Path, file_system: &str) -> Result<(), HostError> {
    let Some(member) = filesystem::by_name(file_system).and_then(|row| row.member) else { return Ok(()) };
    let file = File::open(device).map_err(HostError::file("open", device))?;
    let head = read_head(&file).map_err(HostError::file("read", device))?;
    let Some(member) = member(&head) else { return Ok(()) };
    let root = File::open(point).map_err(HostError::file("open", point))?;
    let (count, path) = btrfs::device(root.as_fd(), member.device.0)
        .map_err(HostError::kernel(format!("ask for the devices of {}", point.display())))?;
    let number = |path: &Path| std::fs::metadata(path).map(|facts| facts.rdev());
    if count == 1 && number(&path).ok() == number(device).ok() {
        return Ok(());
    }
    Err(HostError::Joined { device: device.to_owned(), other: path })
}

/// Whether the superblock of another device belongs to the same file system. What cannot be read is not found by
/// the kernel either.
fn completes(member: &Member, other: &Path, row: &FileSystemFacts) -> bool {
    let mut head = vec![0; HEAD_BYTES];
    let read =
        File::open(other).and_then(|file| file.read_exact_at(&mut head[SUPERBLOCK..], SUPERBLOCK as u64));
    let theirs = read.ok().and_then(|()| row.member.and_then(|member| member(&head)));
    theirs.is_some_and(|theirs| member.completes(&theirs))
}

/// Every block device of this host that holds anything (`/sys/class/block/NAME/size`, in sectors), but for loop
/// devices over files below the folders `beside`.
fn devices(beside: &[PathBuf]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let size = std::fs::read_to_string(entry.path().join("size")).unwrap_or_default();
            let file = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            size.trim().parse::<u64>().is_ok_and(|sectors| sectors > 0)
                && !beside.iter().any(|folder| Path::new(file.trim_end()).starts_with(folder))
        })
        // `!` stands for `/` in names of sysfs.
        .map(|entry| Path::new("/dev").join(entry.file_name().to_string_lossy().replace('!', "/")))
        .collect()
}

/// As much of the first bytes as there is.
fn read_head(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while filled < HEAD_BYTES {
        match file.read_at(&mut head[filled..], u64::try_from(filled).map_err(io::Error::other)?)? {
            0 => break,
            read => filled += read,
        }
    }
    head.truncate(filled);
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tool;

    fn named(file_system: &str, head: &[u8]) -> Option<&'static str> {
        filesystem::by_name(file_system).unwrap().companion.unwrap()(head)
    }

    /// The head of a volume that a program made.
    fn made_by(argv: &[&str]) -> Option<Vec<u8>> {
        if tool::look_up(argv[0]).is_none() {
            crate::skip::skip(format!("{} is not installed", argv[0]));
            return None;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(320 << 20).unwrap();
        let words: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let words = [words, vec![file.path().display().to_string()]].concat();
        let output = tool::run(&tool::Children::default(), &words, None).unwrap();
        assert_eq!(output.status, 0, "{words:?}: {}", output.stderr);
        Some(read_head(file.as_file()).unwrap())
    }

    fn put(head: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
        let mut changed = head.to_vec();
        changed[offset..offset + bytes.len()].copy_from_slice(bytes);
        changed
    }

    #[test]
    fn what_mkfs_makes_on_one_device_needs_no_other() {
        for (argv, kind) in [
            (&["mkfs.ext4", "-q"][..], "ext4"),
            (&["mkfs.ext4", "-q", "-b", "1024"], "ext4"),
            (&["mkfs.ext3", "-q"], "ext3"),
            (&["mkfs.ext2", "-q"], "ext2"),
            (&["mkfs.xfs", "-q"], "xfs"),
            (&["mkfs.btrfs", "-q"], "btrfs"),
        ] {
            if let Some(head) = made_by(argv) {
                assert_eq!(named(kind, &head), None, "{argv:?}");
            }
        }
    }

    #[test]
    fn a_superblock_that_names_another_device_is_found() {
        if let Some(head) = made_by(&["mkfs.ext4", "-q"]) {
            for (offset, bytes) in [(0xe0, &[0; 4][..]), (0xe4, &[0, 7, 0, 0]), (0x60, &[8, 0, 0, 0])] {
                let changed = put(&head, 1024 + offset, bytes);
                assert_eq!(named("ext4", &changed), Some("an external journal"), "{offset:#x}");
            }
        }
        if let Some(head) = made_by(&["mkfs.xfs", "-q"]) {
            assert_eq!(named("xfs", &put(&head, 48, &[0; 8])), Some("an external log"));
            for offset in [16, 24] {
                assert_eq!(named("xfs", &put(&head, offset, &[1; 8])), Some("a realtime device"));
            }
        }
        if let Some(head) = made_by(&["mkfs.btrfs", "-q"]) {
            let with = |offset: usize, bytes: &[u8]| named("btrfs", &put(&head, 0x1_0000 + offset, bytes));
            assert_eq!(with(0x88, &[2]), Some("further devices"));
            assert_eq!(with(0x38 + 4, &[1]), Some("further devices that grow from it"));
            for flag in [8, 16] {
                assert_eq!(with(0x38 + 4, &[flag]), Some("an identity that was being changed"));
            }
            // Less than the file system has, a stripe on another device, its device another than its stripes'.
            for (offset, bytes) in
                [(0xd1, &[0; 8][..]), (0x32b + 65, &[2]), (0x32b + 81, &[0; 16]), (0xc9, &[3])]
            {
                assert_eq!(with(offset, bytes), Some("further devices"), "{offset:#x}");
            }
        }
    }

    #[test]
    fn a_device_completes_another_of_the_same_file_system() {
        let Some(head) = made_by(&["mkfs.btrfs", "-q"]) else { return };
        let member = |head: &[u8]| filesystem::by_name("btrfs").unwrap().member.unwrap()(head).unwrap();
        let own = member(&head);
        assert!(!own.completes(&own), "a copy is the same device");
        let second = put(&head, 0x1_00c9, &[2]);
        assert!(own.completes(&member(&second)) && member(&second).completes(&own));
        // Their file system is known by the identity of its metadata.
        let theirs = put(&put(&second, 0x1_0020, &[1; 16]), 0x1_00c9 + 82, &[1; 16]);
        assert!(!own.completes(&member(&theirs)));
        assert!(own.completes(&member(&put(&theirs, 0x1_023b, &head[0x1_0020..0x1_0030]))));
        assert!(devices(&[]).iter().all(|device| device.starts_with("/dev")));
    }

    #[test]
    fn other_kinds_are_the_kernels_to_judge_and_what_cannot_be_read_is_refused() {
        assert!(check(Path::new("tmpfs"), "tmpfs", &[]).is_ok());
        assert!(matches!(check(Path::new("/nonexistent/device"), "xfs", &[]), Err(HostError::File { .. })));
    }
}
