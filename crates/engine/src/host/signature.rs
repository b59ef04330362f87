//! What a volume holds, by the magic numbers of file systems, partition tables and volume managers.
//!
//! Only tells whether somebody's data may be there; it never decides that a volume is empty for good.
//! Offsets and magics from `linux/magic.h` and the formats' own documents.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes looked at from the beginning: as far as the last magic of the table (ZFS' uberblocks).
const HEAD_BYTES: usize = 256 << 10;

/// Bytes looked at before the end: ZFS' last labels, old md superblocks, the second GPT.
const TAIL_BYTES: usize = 512 << 10;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signature {
    /// `ext4`, `gpt`, `LVM2`, …; empty when nothing is known.
    pub name: String,
    /// Label (ext*, xfs, btrfs), empty when there is none.
    pub label: String,
}

/// Magics at fixed offsets from the beginning, in the order they are tried: what stands on top of other
/// things (file systems) before what leaves traces below (partition tables).
#[rustfmt::skip]
const FIXED: &[(&str, usize, &[u8])] = &[
    ("xfs", 0, b"XFSB"),
    ("LUKS", 0, b"LUKS\xba\xbe"),
    ("squashfs", 0, b"hsqs"),
    ("bluestore", 0, b"bluestore block device"),
    ("md", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("md", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("ntfs", 3, b"NTFS    "),
    ("exfat", 3, b"EXFAT   "),
    ("vfat", 54, b"FAT12   "),
    ("vfat", 54, b"FAT16   "),
    ("vfat", 82, b"FAT32   "),
    ("f2fs", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("erofs", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("nilfs2", 1030, &[0x34, 0x34]),
    ("ocfs2", 1024, b"OCFSV2"),
    ("ocfs2", 2048, b"OCFSV2"),
    ("ocfs2", 4096, b"OCFSV2"),
    ("ocfs2", 8192, b"OCFSV2"),
    ("swap", 4086, b"SWAPSPACE2"),
    ("swap", 4086, b"SWAP-SPACE"),
    ("swap", 65526, b"SWAPSPACE2"),
    ("bcachefs", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("bcachefs", 4120, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    ("bcache", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x80"),
    ("jfs", 32768, b"JFS1"),
    ("iso9660", 32769, b"CD001"),
    ("udf", 32769, b"BEA01"),
    ("btrfs", 65600, b"_BHRfS_M"),
    ("reiserfs", 65588, b"ReIsEr"),
    ("gfs2", 65536, &[0x01, 0x16, 0x19, 0x70]),
    ("gpt", 512, b"EFI PART"),
    ("gpt", 4096, b"EFI PART"),
];

fn holds(bytes: &[u8], offset: usize, magic: &[u8]) -> bool {
    bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic))
}

fn le32(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// A name padded with zeros.
fn label(bytes: &[u8], offset: usize, length: usize) -> String {
    let field = bytes.get(offset..offset + length).unwrap_or_default();
    let name = field.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).trim().to_owned()
}

/// `ext4`, `ext3` or `ext2` by the features that the superblock at 1024 names (`fs/ext4/ext4.h`).
fn ext(head: &[u8]) -> Option<&'static str> {
    const HAS_JOURNAL: u32 = 0x4;
    /// extents, 64bit, mmp, flex_bg and everything later.
    const INCOMPAT_EXT4: u32 = !0x3f;
    /// huge_file and everything later.
    const RO_COMPAT_EXT4: u32 = !0x7;
    if !holds(head, 1080, &[0x53, 0xef]) {
        return None;
    }
    let (compat, incompat, ro_compat) = (le32(head, 1116)?, le32(head, 1120)?, le32(head, 1124)?);
    let is_ext4 = incompat & INCOMPAT_EXT4 != 0 || ro_compat & RO_COMPAT_EXT4 != 0;
    Some(match (is_ext4, compat & HAS_JOURNAL != 0) {
        (true, _) => "ext4",
        (false, true) => "ext3",
        (false, false) => "ext2",
    })
}

/// An LVM2 label is in one of the first four sectors.
fn is_lvm2(head: &[u8]) -> bool {
    (0..4).any(|sector| holds(head, sector * 512, b"LABELONE") && holds(head, sector * 512 + 24, b"LVM2 001"))
}

/// A ZFS label: an uberblock, every 1 KiB in the second half of 256 KiB, of either byte order.
fn is_zfs_label(bytes: &[u8]) -> bool {
    (128..256).any(|kib| {
        holds(bytes, kib << 10, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0])
            || holds(bytes, kib << 10, &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c])
    })
}

/// Old md superblocks lie before the end: 0.90 at the last whole 64 KiB but one, 1.0 at 8 KiB rounded down.
fn is_old_md(tail: &[u8], size_bytes: u64) -> bool {
    let places =
        [(size_bytes & !0xffff).checked_sub(0x1_0000), size_bytes.checked_sub(0x2000).map(|at| at & !0xfff)];
    let start = size_bytes.saturating_sub(tail.len() as u64);
    places.into_iter().flatten().any(|at| {
        let within = at.checked_sub(start).and_then(|offset| usize::try_from(offset).ok());
        within.is_some_and(|offset| holds(tail, offset, &[0xfc, 0x4e, 0x2b, 0xa9]))
    })
}

/// What the first and last bytes of a volume of `size_bytes` say. `head` starts at 0, `tail` ends at the end.
#[must_use]
pub fn identify(head: &[u8], tail: &[u8], size_bytes: u64) -> Signature {
    let fixed = FIXED.iter().find(|(_, offset, magic)| holds(head, *offset, magic)).map(|(name, ..)| *name);
    let zfs_tail = tail.len().checked_sub(256 << 10).and_then(|at| tail.get(at..));
    let name = ext(head)
        .or(fixed)
        .or_else(|| is_lvm2(head).then_some("LVM2"))
        .or_else(|| (is_zfs_label(head) || zfs_tail.is_some_and(is_zfs_label)).then_some("zfs"))
        .or_else(|| is_old_md(tail, size_bytes).then_some("md"))
        .or_else(|| last_sector_is_gpt(tail).then_some("gpt"))
        .or_else(|| holds(head, 510, &[0x55, 0xaa]).then_some("mbr"))
        .unwrap_or_default();
    let label = match name {
        "ext2" | "ext3" | "ext4" => label(head, 1144, 16),
        "xfs" => label(head, 108, 12),
        "btrfs" => label(head, 65536 + 299, 256),
        _ => String::new(),
    };
    Signature { name: name.to_owned(), label }
}

/// The second partition table is in the last sector, of 512 or 4096 bytes.
fn last_sector_is_gpt(tail: &[u8]) -> bool {
    [512, 4096]
        .iter()
        .any(|sector| tail.len().checked_sub(*sector).is_some_and(|offset| holds(tail, offset, b"EFI PART")))
}

/// Reads what [`identify`] needs; parts that cannot be read count as empty.
#[must_use]
pub fn of_file(file: &File, size_bytes: u64) -> Signature {
    let head = read(file, 0, HEAD_BYTES);
    let tail_bytes = u64::min(size_bytes, TAIL_BYTES as u64);
    let tail = read(file, size_bytes - tail_bytes, usize::try_from(tail_bytes).unwrap_or(TAIL_BYTES));
    identify(&head, &tail, size_bytes)
}

fn read(file: &File, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut had = 0;
    while let Some(rest) = bytes.get_mut(had..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + had as u64) {
            Ok(count) if count > 0 => had += count,
            _ => break,
        }
    }
    bytes.truncate(had);
    bytes
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;
    use crate::host::tool;

    fn made_by(argv: &[&str]) -> Option<Signature> {
        let Some(program) = tool::look_up(argv[0]) else {
            crate::skip::skip(format!("{} is not installed", argv[0]));
            return None;
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let size = 320 << 20;
        file.as_file().set_len(size).unwrap();
        let output = Command::new(program).args(&argv[1..]).arg(file.path()).output().unwrap();
        assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
        Some(of_file(file.as_file(), size))
    }

    #[test]
    fn real_file_systems_are_recognised() {
        let cases: [(&[&str], &str, &str); 7] = [
            (&["mkfs.ext4", "-q", "-L", "fsage"], "ext4", "fsage"),
            (&["mkfs.ext3", "-q", "-L", "three"], "ext3", "three"),
            (&["mkfs.ext2", "-q"], "ext2", ""),
            (&["mkfs.xfs", "-q", "-L", "fsage"], "xfs", "fsage"),
            (&["mkfs.btrfs", "-q", "-L", "fsage"], "btrfs", "fsage"),
            (&["mkswap"], "swap", ""),
            (&["mkfs.vfat"], "vfat", ""),
        ];
        for (argv, name, label) in cases {
            if let Some(found) = made_by(argv) {
                assert_eq!((found.name.as_str(), found.label.as_str()), (name, label), "{argv:?}");
            }
        }
    }

    #[test]
    fn every_magic_of_the_table_is_found() {
        for (name, offset, magic) in FIXED {
            let mut head = vec![0; HEAD_BYTES];
            head[*offset..offset + magic.len()].copy_from_slice(magic);
            assert_eq!(identify(&head, &[], 1 << 30).name, *name, "at {offset}");
        }
        assert_eq!(identify(&[0; HEAD_BYTES], &[0; TAIL_BYTES], 1 << 30), Signature::default());
    }

    #[test]
    fn traces_at_other_places_are_found() {
        let mut head = vec![0; HEAD_BYTES];
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(identify(&head, &[], 1 << 30).name, "mbr");
        head[1024..1032].copy_from_slice(b"LABELONE");
        head[1048..1056].copy_from_slice(b"LVM2 001");
        assert_eq!(identify(&head, &[], 1 << 30).name, "LVM2");
        let mut tail = vec![0; TAIL_BYTES];
        let at = TAIL_BYTES - 0x1_0000;
        tail[at..at + 4].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9]);
        assert_eq!(identify(&[], &tail, 1 << 30).name, "md");
        let mut tail = vec![0; TAIL_BYTES];
        let at = TAIL_BYTES - (100 << 10);
        tail[at..at + 4].copy_from_slice(&[0x0c, 0xb1, 0xba, 0]);
        assert_eq!(identify(&[], &tail, 1 << 30).name, "zfs");
    }

    proptest! {
        #[test]
        fn nothing_panics(head in prop::collection::vec(any::<u8>(), 0..5000), size in any::<u64>()) {
            let found = identify(&head, &head, size);
            prop_assert!(found.label.is_empty() || !found.name.is_empty());
        }
    }
}
