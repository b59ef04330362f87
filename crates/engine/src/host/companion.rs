//! Devices that a superblock names besides its own: external journals and logs, realtime devices, further
//! members.
//!
//! A volume is what fsage made or restored, on one device. The kernel opens the others a superblock asks for
//! by their number or identity and writes to them, though nobody named them, so such a volume is not mounted.
//!
//! Offsets from `fs/ext4/ext4.h`, `fs/xfs/libxfs/xfs_format.h` (big-endian) and
//! `include/uapi/linux/btrfs_tree.h`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use fsage_model::filesystem;

use super::HostError;

/// Bytes from the beginning that hold the superblocks: that of btrfs is the last, at 64 KiB.
const HEAD_BYTES: usize = (64 + 4) << 10;

/// Checks the superblock that `device` would be mounted by as `file_system`.
///
/// # Errors
/// [`HostError::Companion`] when it names another device; the device cannot be read.
pub fn check(device: &Path, file_system: &str) -> Result<(), HostError> {
    let Some(companion) = filesystem::by_name(file_system).and_then(|row| row.companion) else {
        return Ok(());
    };
    let file = File::open(device).map_err(HostError::file("open", device))?;
    let head = read_head(&file).map_err(HostError::file("read", device))?;
    match companion(&head) {
        None => Ok(()),
        Some(what) => Err(HostError::Companion { device: device.to_owned(), what }),
    }
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
    use std::process::Command;

    use super::*;
    use crate::host::tool;

    fn named(file_system: &str, head: &[u8]) -> Option<&'static str> {
        filesystem::by_name(file_system).unwrap().companion.unwrap()(head)
    }

    /// The head of a volume that a program made.
    fn made_by(argv: &[&str]) -> Option<Vec<u8>> {
        let Some(program) = tool::look_up(argv[0]) else {
            crate::skip::skip(format!("{} is not installed", argv[0]));
            return None;
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(320 << 20).unwrap();
        let output = Command::new(program).args(&argv[1..]).arg(file.path()).output().unwrap();
        assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
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
            assert_eq!(named("btrfs", &put(&head, 0x1_0088, &[2])), Some("further devices"));
        }
    }

    #[test]
    fn other_kinds_are_the_kernels_to_judge_and_what_cannot_be_read_is_refused() {
        assert!(check(Path::new("tmpfs"), "tmpfs").is_ok());
        assert!(matches!(check(Path::new("/nonexistent/device"), "xfs"), Err(HostError::File { .. })));
    }
}
