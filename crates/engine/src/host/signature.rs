//! What a volume holds, by the magic numbers of file systems, partition tables and volume managers.
//!
//! Only tells whether somebody's data may be there; it never decides that a volume is empty for good.
//!
//! The first [`HEAD_BYTES`] and the last [`TAIL_BYTES`] are inspected, all of them and nothing between.
//! Without a signature is only what is zeros there: what cannot be read is [`UNREADABLE`], and anything else
//! that no format explains is [`UNKNOWN`].
//!
//! Offsets and magics from `linux/magic.h` and the formats' own documents.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fsage_model::filesystem::IdentifierForm::{Disk, Guid, Text, Uuid};
use fsage_model::filesystem::{self, Magic};

use super::identifier;

/// Bytes inspected from the beginning: past the last magic of the table (VMFS' at 2 MiB).
pub const HEAD_BYTES: usize = 4 << 20;

/// Bytes inspected before the end: ZFS' last labels, md, DRBD and firmware RAID metadata, the second GPT.
pub const TAIL_BYTES: usize = 1 << 20;

/// The name of what could not be read: it may be anything.
pub const UNREADABLE: &str = "unreadable";

/// The name of data in no format that we know.
pub const UNKNOWN: &str = "unknown data";

/// The name of a volume whose restore from an image has not ended: its first [`UNFINISHED_BYTES`] are
/// [`unfinished_mark`], and nothing else is known of it.
pub const UNFINISHED: &str = "fsage-unfinished";

/// Bytes of the mark: whatever others write into a first block, boot code, a partition table or a superblock,
/// destroys it.
pub const UNFINISHED_BYTES: usize = 4096;

/// The 16 bytes of [`UNFINISHED`], 256 times.
#[must_use]
pub fn unfinished_mark() -> [u8; UNFINISHED_BYTES] {
    let mut mark = [0; UNFINISHED_BYTES];
    for (byte, letter) in mark.iter_mut().zip(UNFINISHED.bytes().cycle()) {
        *byte = letter;
    }
    mark
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signature {
    /// `ext4`, `gpt`, `LVM2`, …, [`UNREADABLE`], [`UNFINISHED`], [`UNKNOWN`]; empty when there are only
    /// zeros.
    pub name: String,
    /// Label (ext*, xfs, btrfs), empty when there is none.
    pub label: String,
    /// Identifier that it carries ([`identifier`]), empty when it has none or none is known.
    pub uuid: String,
    /// What else was found: a volume manager or RAID whose traces are beside a file system. Which of them the data is
    /// nobody can tell. Partition tables are recognised by [`super::gpt::partitions_on`].
    pub beside: String,
}

/// Recognised before file systems: anyone who puts one of these over a file system may leave that one's magic
/// where it was.
#[rustfmt::skip]
const BELOW: &[(&str, Magic)] = &[
    ("LUKS", Magic::new(0, b"LUKS\xba\xbe", 168, Text)),
    ("squashfs", Magic::alone(0, b"hsqs")),
    ("bluestore", Magic::alone(0, b"bluestore block device")),
    ("md", Magic::alone(0, &[0xfc, 0x4e, 0x2b, 0xa9])),
    ("md", Magic::alone(4096, &[0xfc, 0x4e, 0x2b, 0xa9])),
];

/// Recognised together with the file systems that have a row: the magic with the lowest offset counts.
#[rustfmt::skip]
const BESIDE: &[(&str, Magic)] = &[
    ("ocfs2", Magic::alone(1024, b"OCFSV2")),
    ("ocfs2", Magic::alone(2048, b"OCFSV2")),
    ("ocfs2", Magic::alone(4096, b"OCFSV2")),
    ("ocfs2", Magic::alone(8192, b"OCFSV2")),
    ("swap", Magic::new(4086, b"SWAPSPACE2", 1024 + 12, Uuid)),
    ("swap", Magic::alone(4086, b"SWAP-SPACE")),
    ("swap", Magic::alone(65526, b"SWAPSPACE2")),
    ("bcache", Magic::new(4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x80", 4096 + 40, Uuid)),
    ("iso9660", Magic::alone(32769, b"CD001")),
    ("udf", Magic::alone(32769, b"BEA01")),
    ("gfs2", Magic::alone(65536, &[0x01, 0x16, 0x19, 0x70])),
];

/// Recognised after all of these, in this order: what a file system made over it may leave standing.
#[rustfmt::skip]
const AFTER: &[(&str, Magic)] = &[
    ("LUKS", Magic::alone(0x4000, b"SKUL\xba\xbe")), // LUKS2's second header, by the size of its metadata
    ("LUKS", Magic::alone(0x8000, b"SKUL\xba\xbe")),
    ("LUKS", Magic::alone(0x1_0000, b"SKUL\xba\xbe")),
    ("LUKS", Magic::alone(0x2_0000, b"SKUL\xba\xbe")),
    ("LUKS", Magic::alone(0x4_0000, b"SKUL\xba\xbe")),
    ("LUKS", Magic::alone(0x8_0000, b"SKUL\xba\xbe")),
    ("LUKS", Magic::alone(0x10_0000, b"SKUL\xba\xbe")),
    ("LUKS", Magic::alone(0x20_0000, b"SKUL\xba\xbe")),
    ("bitlocker", Magic::alone(3, b"-FVE-FS-")),
    ("refs", Magic::alone(3, b"ReFS\0\0\0\0")),
    ("apfs", Magic::alone(32, b"NXSB")),
    ("hfsplus", Magic::alone(1024, b"H+")),
    ("hfsplus", Magic::alone(1024, b"HX")),
    ("hfs", Magic::alone(1024, b"BD")),
    ("ufs1", Magic::alone(9564, &[0x54, 0x19, 0x01, 0x00])),
    ("ufs1", Magic::alone(9564, &[0x00, 0x01, 0x19, 0x54])),
    ("ufs2", Magic::alone(66908, &[0x19, 0x01, 0x54, 0x19])),
    ("ufs2", Magic::alone(66908, &[0x19, 0x54, 0x01, 0x19])),
    ("cramfs", Magic::alone(0, &[0x45, 0x3d, 0xcd, 0x28])),
    ("romfs", Magic::alone(0, b"-rom1fs-")),
    ("ubi", Magic::alone(0, b"UBI#")),
    ("ubifs", Magic::alone(0, &[0x31, 0x18, 0x10, 0x06])),
    ("vdo", Magic::alone(0, b"dmvdo001")),
    ("integrity", Magic::alone(0, b"integrt\0")),
    ("verity", Magic::alone(0, b"verity\0\0")),
    ("asm", Magic::alone(32, b"ORCLDISK")),
    ("stratis", Magic::alone(528, b"!Stra0tis\x86\xff\x02^\x41rh")),
    ("vmfs-volume", Magic::alone(1 << 20, &[0x0d, 0xd0, 0x01, 0xc0])),
    ("vmfs", Magic::alone(2 << 20, &[0x5e, 0xf1, 0xab, 0x2f])),
    ("suspend", Magic::alone(4086, b"S1SUSPEND\0")),
    ("suspend", Magic::alone(4086, b"S2SUSPEND\0")),
    ("suspend", Magic::alone(4086, b"LINHIB0001")),
    ("gpt", Magic::new(512, b"EFI PART", 512 + 56, Guid)),
    ("gpt", Magic::new(4096, b"EFI PART", 4096 + 56, Guid)),
    // Two bytes are little: after everything else.
    ("minix", Magic::alone(1040, &[0x7f, 0x13])),
    ("minix", Magic::alone(1040, &[0x8f, 0x13])),
    ("minix", Magic::alone(1040, &[0x68, 0x24])),
    ("minix", Magic::alone(1040, &[0x78, 0x24])),
    ("minix", Magic::alone(1048, &[0x5a, 0x4d])),
];

const MBR: Magic = Magic::new(510, &[0x55, 0xaa], 440, Disk);

/// Magics at fixed offsets before the end.
#[rustfmt::skip]
const BEFORE_END: &[(&str, usize, &[u8])] = &[
    ("imsm", 1024, b"Intel Raid ISM Cfg Sig. "), // in the last sector but one, of 512 or 4096 bytes
    ("imsm", 8192, b"Intel Raid ISM Cfg Sig. "),
    ("ddf", 512, &[0xde, 0x11, 0xde, 0x11]), // SNIA: the anchor header in the last sector
    ("ddf", 4096, &[0xde, 0x11, 0xde, 0x11]),
    ("ddf", 257 * 512, &[0xde, 0x11, 0xde, 0x11]),
    ("drbd", 4096 - 60, &[0x83, 0x74, 0x02, 0x6b]), // internal metadata end with 4 KiB that say what is before
    ("drbd", 4096 - 60, &[0x83, 0x74, 0x02, 0x6c]),
    ("drbd", 4096 - 60, &[0x83, 0x74, 0x02, 0x6d]),
    ("gpt", 512, b"EFI PART"), // the second table, in the last sector
    ("gpt", 4096, b"EFI PART"),
];

fn holds(bytes: &[u8], offset: usize, magic: &[u8]) -> bool {
    bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic))
}

/// A name padded with zeros.
fn label(bytes: &[u8], offset: usize, length: usize) -> String {
    let field = bytes.get(offset..offset + length).unwrap_or_default();
    let name = field.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).trim().to_owned()
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

/// What `head`, the first bytes of a volume, holds at a fixed offset.
fn fixed(head: &[u8]) -> Option<(&'static str, &'static Magic)> {
    let among = |rows: &'static [(&'static str, Magic)]| {
        rows.iter().filter(|(_, magic)| magic.is_in(head)).map(|(name, magic)| (*name, magic))
    };
    let file_systems =
        filesystem::ALL.iter().filter_map(|row| row.magic_in(head).map(|magic| (row.name, magic)));
    let middle = file_systems.chain(among(BESIDE)).min_by_key(|(_, magic)| magic.offset);
    among(BELOW).next().or(middle).or_else(|| among(AFTER).next())
}

/// What the first and last bytes of a volume of `size_bytes` say. `head` starts at 0, `tail` ends at the end.
#[must_use]
pub fn identify(head: &[u8], tail: &[u8], size_bytes: u64) -> Signature {
    let named = |name: &'static str| (name, None);
    let before_end = BEFORE_END
        .iter()
        .find(|(_, back, magic)| tail.len().checked_sub(*back).is_some_and(|at| holds(tail, at, magic)))
        .map(|(name, ..)| named(name));
    let zfs_tail = tail.len().checked_sub(256 << 10).and_then(|at| tail.get(at..));
    let managed = is_lvm2(head)
        .then_some(named("LVM2"))
        .or_else(|| (is_zfs_label(head) || zfs_tail.is_some_and(is_zfs_label)).then_some(named("zfs")))
        .or_else(|| is_old_md(tail, size_bytes).then_some(named("md")))
        .or(before_end);
    let fixed = fixed(head);
    let (name, magic) = fixed
        .map(|(name, magic)| (name, Some(magic)))
        .or(managed)
        .or_else(|| MBR.is_in(head).then_some(("mbr", Some(&MBR))))
        // After everything that somebody may have put there since.
        .or_else(|| holds(head, 0, &unfinished_mark()).then_some(named(UNFINISHED)))
        .or_else(|| [head, tail].into_iter().flatten().any(|byte| *byte != 0).then_some(named(UNKNOWN)))
        .unwrap_or_default();
    let label = filesystem::by_name(name).and_then(|row| row.label);
    let label = label.map(|(offset, length)| self::label(head, offset, length)).unwrap_or_default();
    let uuid = if name == "LVM2" { identifier::lvm2(head) } else { identifier::of(magic, head) };
    // A second GPT alone is left over when a file system is made on a disk that had one.
    let beside = managed.filter(|(name, _)| fixed.is_some() && *name != "gpt");
    let beside = beside.map(|(name, _)| name.to_owned()).unwrap_or_default();
    Signature { name: name.to_owned(), label, uuid, beside }
}

/// Reads what [`identify`] needs: the beginning and the end, or [`UNREADABLE`] where the volume does not give
/// them.
#[must_use]
pub fn of_file(file: &File, size_bytes: u64) -> Signature {
    let (head_bytes, tail_bytes) = (size_bytes.min(HEAD_BYTES as u64), size_bytes.min(TAIL_BYTES as u64));
    match (read(file, 0, head_bytes), read(file, size_bytes - tail_bytes, tail_bytes)) {
        (Ok(head), Ok(tail)) => identify(&head, &tail, size_bytes),
        _ => Signature { name: UNREADABLE.to_owned(), ..Signature::default() },
    }
}

fn read(file: &File, offset: u64, length: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(std::io::Error::other)?];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::host::tool;

    /// Every magic at a fixed offset from the beginning.
    fn magics() -> impl Iterator<Item = (&'static str, &'static Magic)> {
        let tables = [BELOW, BESIDE, AFTER].into_iter().flatten().map(|(name, magic)| (*name, magic));
        let rows = filesystem::ALL.iter();
        tables.chain(rows.flat_map(|row| row.magics.iter().map(|magic| (row.name, magic))))
    }

    fn made_by(argv: &[&str]) -> Option<Signature> {
        if tool::look_up(argv[0]).is_none() {
            crate::skip::skip(format!("{} is not installed", argv[0]));
            return None;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let size = 320 << 20;
        file.as_file().set_len(size).unwrap();
        let words: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let words = [words, vec![file.path().display().to_string()]].concat();
        let output = tool::run(&tool::Children::default(), &words, None).unwrap();
        assert_eq!(output.status, 0, "{words:?}: {}", output.stderr);
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
                assert!(found.uuid.len() >= 9, "{argv:?}: {found:?}");
            }
        }
    }

    #[test]
    fn every_magic_of_the_table_is_found() {
        for (name, magic) in magics() {
            let mut head = vec![0; HEAD_BYTES];
            head[magic.offset..magic.offset + magic.bytes.len()].copy_from_slice(magic.bytes);
            // Without features it is the oldest of its family.
            let name = if name.starts_with("ext") { "ext2" } else { name };
            assert_eq!(identify(&head, &[], 1 << 30).name, name, "at {}", magic.offset);
        }
        for (name, back, magic) in BEFORE_END {
            let mut tail = vec![0; TAIL_BYTES];
            let at = TAIL_BYTES - back;
            tail[at..at + magic.len()].copy_from_slice(magic);
            assert_eq!(identify(&[], &tail, 1 << 30).name, *name, "{back} before the end");
        }
        let (head, tail) = (vec![0; HEAD_BYTES], vec![0; TAIL_BYTES]);
        assert_eq!(identify(&head, &tail, 1 << 30), Signature::default());
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

    #[test]
    fn a_single_byte_at_either_end_is_data() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let size = 64 << 20;
        file.as_file().set_len(size).unwrap();
        let name = || of_file(file.as_file(), size).name;
        assert_eq!(name(), "");
        let ends = [0, HEAD_BYTES as u64 - 1, size - TAIL_BYTES as u64, size - 1];
        for at in ends {
            file.as_file().write_all_at(&[1], at).unwrap();
            assert_eq!(name(), UNKNOWN, "at {at}");
            file.as_file().write_all_at(&[0], at).unwrap();
        }
        // What lies between is not inspected.
        file.as_file().write_all_at(&[1], size / 2).unwrap();
        assert_eq!(name(), "");
    }

    #[test]
    fn an_unfinished_restore_is_told_from_unknown_data_and_from_what_came_later() {
        let mark = unfinished_mark();
        assert!(mark.starts_with(b"fsage-unfinishedfsage-") && mark.ends_with(b"fsage-unfinished"));
        let mut head = vec![0; HEAD_BYTES];
        head[..UNFINISHED_BYTES].copy_from_slice(&mark);
        let tail = vec![0x5a; TAIL_BYTES];
        assert_eq!(identify(&head, &tail, 1 << 30).name, UNFINISHED);
        // A restore under way: data behind the mark.
        head[1 << 20..].fill(0x5a);
        assert_eq!(identify(&head, &tail, 1 << 30).name, UNFINISHED);
        // Any byte of it that is another is somebody's.
        for at in [0, 440, 511, 1024, UNFINISHED_BYTES - 1] {
            let mut other = head.clone();
            other[at] ^= 1;
            assert_eq!(identify(&other, &tail, 1 << 30).name, UNKNOWN, "at {at}");
        }
        // What is known stands before it, at either end.
        for (name, magic) in magics().filter(|(_, magic)| magic.offset >= UNFINISHED_BYTES) {
            let mut other = head.clone();
            other[magic.offset..magic.offset + magic.bytes.len()].copy_from_slice(magic.bytes);
            assert_eq!(identify(&other, &tail, 1 << 30).name, name, "at {}", magic.offset);
        }
        let mut tail = tail;
        tail[TAIL_BYTES - 512..TAIL_BYTES - 504].copy_from_slice(b"EFI PART");
        assert_eq!(identify(&head, &tail, 1 << 30).name, "gpt");
    }

    #[test]
    fn what_cannot_be_read_is_not_blank() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 << 20).unwrap();
        assert_eq!(of_file(file.as_file(), 8 << 20).name, "");
        // A medium that is shorter than it says, as a device with broken sectors at its end.
        assert_eq!(of_file(file.as_file(), 16 << 20).name, UNREADABLE);
        let unreadable = File::options().write(true).open(file.path()).unwrap();
        assert_eq!(of_file(&unreadable, 8 << 20).name, UNREADABLE);
    }

    proptest! {
        #[test]
        fn nothing_panics(head in prop::collection::vec(any::<u8>(), 0..5000), size in any::<u64>()) {
            let found = identify(&head, &head, size);
            prop_assert!(found.label.is_empty() || !found.name.is_empty());
            prop_assert_eq!(found.name.is_empty(), head.iter().all(|byte| *byte == 0));
        }
    }
}
