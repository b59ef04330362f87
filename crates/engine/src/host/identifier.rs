//! The identifier that a file system or partition table carries in itself, written as `blkid` writes it.
//!
//! It is what a user repeats to say that exactly this content can be lost, so it must come from the very bytes that were recognised.
//! A format that is not listed, and an identifier of zeros, has none.
//!
//! Offsets from the formats' own headers: `fs/ext4/ext4.h`, `fs/xfs/libxfs/xfs_format.h`, `btrfs_tree.h`, `f2fs_fs.h`,
//! `linux/swap.h`, the LUKS, FAT, NTFS, exFAT, UEFI and LVM2 on-disk formats.

/// How an identifier is kept.
#[derive(Clone, Copy)]
enum Kind {
    /// 16 bytes in the order they are written.
    Uuid,
    /// 16 bytes, the first three groups little-endian.
    Guid,
    /// Text of a UUID, 40 bytes padded with zeros.
    Text,
    /// Four bytes, little-endian, `XXXX-XXXX`.
    Serial,
    /// Eight bytes, little-endian, 16 digits.
    Long,
    /// Four bytes, little-endian, 8 digits.
    Disk,
}

/// Name of the signature, magic that tells variants apart and its offset, offset of the identifier, how it is kept.
#[rustfmt::skip]
const PLACES: &[(&str, usize, &[u8], usize, Kind)] = &[
    ("ext2", 0, b"", 1024 + 0x68, Kind::Uuid),
    ("ext3", 0, b"", 1024 + 0x68, Kind::Uuid),
    ("ext4", 0, b"", 1024 + 0x68, Kind::Uuid),
    ("xfs", 0, b"", 32, Kind::Uuid),
    ("btrfs", 0, b"", 65536 + 32, Kind::Uuid),
    ("f2fs", 0, b"", 1024 + 108, Kind::Uuid),
    ("nilfs2", 0, b"", 1024 + 0x98, Kind::Uuid),
    ("bcachefs", 0, b"", 4096 + 56, Kind::Uuid),
    ("bcache", 0, b"", 4096 + 40, Kind::Uuid),
    ("jfs", 0, b"", 32768 + 136, Kind::Uuid),
    ("reiserfs", 0, b"", 65536 + 84, Kind::Uuid),
    ("erofs", 0, b"", 1024 + 48, Kind::Uuid),
    ("swap", 4086, b"SWAPSPACE2", 1024 + 12, Kind::Uuid),
    ("LUKS", 0, b"LUKS\xba\xbe", 168, Kind::Text),
    ("vfat", 82, b"FAT32   ", 67, Kind::Serial),
    ("vfat", 54, b"FAT", 39, Kind::Serial),
    ("exfat", 0, b"", 100, Kind::Serial),
    ("ntfs", 0, b"", 72, Kind::Long),
    ("gpt", 512, b"EFI PART", 512 + 56, Kind::Guid),
    ("gpt", 4096, b"EFI PART", 4096 + 56, Kind::Guid),
    ("mbr", 510, &[0x55, 0xaa], 440, Kind::Disk),
];

/// The identifier of what was recognised as `name` in the first bytes of a volume; empty when it has none.
#[must_use]
pub fn of(name: &str, head: &[u8]) -> String {
    let found = if name == "LVM2" { lvm2(head) } else { listed(name, head) };
    // Zeros identify nothing.
    found.filter(|text| text.bytes().any(|byte| !matches!(byte, b'0' | b'-'))).unwrap_or_default()
}

fn listed(name: &str, head: &[u8]) -> Option<String> {
    let holds = |at: usize, magic: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let (.., at, kind) = PLACES.iter().find(|(known, at, magic, ..)| *known == name && holds(*at, magic))?;
    let bytes = head.get(*at..)?;
    let number = || Some(u32::from_le_bytes(*bytes.first_chunk()?));
    Some(match kind {
        Kind::Uuid => in_groups(bytes.first_chunk()?),
        Kind::Guid => {
            let mut swapped = *bytes.first_chunk::<16>()?;
            swapped[..4].reverse();
            swapped[4..6].reverse();
            swapped[6..8].reverse();
            in_groups(&swapped)
        }
        Kind::Text => plain(bytes.get(..40)?)?,
        Kind::Serial => format!("{:04X}-{:04X}", number()? >> 16, number()? & 0xffff),
        Kind::Long => format!("{:016X}", u64::from_le_bytes(*bytes.first_chunk()?)),
        Kind::Disk => format!("{:08x}", number()?),
    })
}

/// Letters, digits and `-` up to the first zero; anything else is not an identifier.
fn plain(bytes: &[u8]) -> Option<String> {
    let text = bytes.split(|&byte| byte == 0).next()?;
    let right = text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    (right && !text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

fn in_groups(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// A physical volume's: 32 letters behind the label, in one of the first four sectors, in groups of 6-4-4-4-4-4-6.
fn lvm2(head: &[u8]) -> Option<String> {
    let label =
        (0..4).filter_map(|sector| head.get(sector * 512..)).find(|at| at.starts_with(b"LABELONE"))?;
    let offset = usize::try_from(u32::from_le_bytes(*label.get(20..)?.first_chunk()?)).ok()?;
    let letters = plain(label.get(offset..)?.get(..32)?)?;
    let mut rest = letters.as_str();
    let mut groups = Vec::with_capacity(7);
    for length in [6, 4, 4, 4, 4, 4, 6] {
        let (group, more) = rest.split_at_checked(length)?;
        groups.push(group);
        rest = more;
    }
    Some(groups.join("-"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(places: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; 70_000];
        for (at, bytes) in places {
            head[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        head
    }

    const BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    #[test]
    fn identifiers_are_written_as_blkid_writes_them() {
        let uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        assert_eq!(of("ext4", &head(&[(1128, &BYTES)])), uuid);
        assert_eq!(of("btrfs", &head(&[(65568, &BYTES)])), uuid);
        assert_eq!(
            of("gpt", &head(&[(512, b"EFI PART"), (568, &BYTES)])),
            "03020100-0504-0706-0809-0a0b0c0d0e0f"
        );
        assert_eq!(of("vfat", &head(&[(82, b"FAT32   "), (67, &BYTES[1..5])])), "0403-0201");
        assert_eq!(of("vfat", &head(&[(54, b"FAT16   "), (39, &BYTES[1..5])])), "0403-0201");
        assert_eq!(of("ntfs", &head(&[(72, &BYTES[1..9])])), "0807060504030201");
        assert_eq!(of("mbr", &head(&[(510, &[0x55, 0xaa]), (440, &BYTES[1..5])])), "04030201");
        let luks = head(&[(0, b"LUKS\xba\xbe"), (168, b"0123-abcd")]);
        assert_eq!(of("LUKS", &luks), "0123-abcd");
        let letters = b"abcdef0123ABCDefgh4567ijkl89mnop";
        let lvm2 = head(&[(512, b"LABELONE"), (532, &32_u32.to_le_bytes()), (544, letters)]);
        assert_eq!(of("LVM2", &lvm2), "abcdef-0123-ABCD-efgh-4567-ijkl-89mnop");
    }

    #[test]
    fn what_has_none_has_none() {
        assert_eq!(of("ext4", &head(&[])), "", "zeros identify nothing");
        assert_eq!(of("ext4", &[]), "");
        assert_eq!(of("unknown data", &head(&[(1128, &BYTES)])), "");
        assert_eq!(
            of("LUKS", &head(&[(0, b"LUKS\xba\xbe"), (168, b"a\x1b[2J")])),
            "",
            "no control characters"
        );
        assert_eq!(of("LUKS", &head(&[(168, b"0123-abcd")])), "", "the second header has it elsewhere");
    }

    proptest! {
        #[test]
        fn nothing_panics_and_nothing_odd_is_printed(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            for (name, ..) in PLACES {
                let text = of(name, &bytes);
                prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{text}");
            }
            let _ = of("LVM2", &bytes);
        }
    }
}
