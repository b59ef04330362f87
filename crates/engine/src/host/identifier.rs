//! The identifier that a file system or partition table carries in itself, written as `blkid` writes it.
//!
//! It is what a user repeats to say that exactly this content can be lost, so it must come from the very
//! bytes that were recognised. A format that is not listed, and an identifier of zeros, has none.
//!
//! Where it lies stands beside the magic that it belongs to ([`Magic`]).

use fsage_model::filesystem::{IdentifierForm, Magic};

/// The identifier that belongs to this magic in the first bytes of a volume; empty when it has none.
#[must_use]
pub fn of(magic: Option<&Magic>, head: &[u8]) -> String {
    significant(magic.and_then(|magic| read(magic, head)))
}

/// A physical volume's of LVM2; empty when it has none.
#[must_use]
pub fn lvm2(head: &[u8]) -> String {
    significant(letters(head))
}

/// Zeros identify nothing.
fn significant(found: Option<String>) -> String {
    found.filter(|text| text.bytes().any(|byte| !matches!(byte, b'0' | b'-'))).unwrap_or_default()
}

fn read(magic: &Magic, head: &[u8]) -> Option<String> {
    let (at, form) = magic.identifier?;
    let bytes = head.get(at..)?;
    let number = || Some(u32::from_le_bytes(*bytes.first_chunk()?));
    Some(match form {
        IdentifierForm::Uuid => in_groups(bytes.first_chunk()?),
        IdentifierForm::Guid => guid(bytes.first_chunk()?),
        IdentifierForm::Text => plain(bytes.get(..40)?)?,
        IdentifierForm::Serial => format!("{:04X}-{:04X}", number()? >> 16, number()? & 0xffff),
        IdentifierForm::Long => format!("{:016X}", u64::from_le_bytes(*bytes.first_chunk()?)),
        IdentifierForm::Disk => format!("{:08x}", number()?),
    })
}

/// Letters, digits and `-` up to the first zero; anything else is not an identifier.
fn plain(bytes: &[u8]) -> Option<String> {
    let text = bytes.split(|&byte| byte == 0).next()?;
    let right = text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    (right && !text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

/// A GUID as UEFI stores it, its first three groups with their bytes swapped.
#[must_use]
pub fn guid(bytes: &[u8; 16]) -> String {
    let mut swapped = *bytes;
    swapped[..4].reverse();
    swapped[4..6].reverse();
    swapped[6..8].reverse();
    in_groups(&swapped)
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

/// 32 letters behind the label, in one of the first four sectors, in groups of 6-4-4-4-4-4-6.
fn letters(head: &[u8]) -> Option<String> {
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

    use super::super::signature::identify;
    use super::*;

    fn head(places: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; 70_000];
        for (at, bytes) in places {
            head[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        head
    }

    const BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    fn found(places: &[(usize, &[u8])]) -> (String, String) {
        let found = identify(&head(places), &[], 1 << 30);
        (found.name, found.uuid)
    }

    #[test]
    fn identifiers_are_written_as_blkid_writes_them() {
        let uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        let letters = b"abcdef0123ABCDefgh4567ijkl89mnop";
        let label =
            [(512, &b"LABELONE"[..]), (532, &32_u32.to_le_bytes()), (536, b"LVM2 001"), (544, letters)];
        for (places, name, expected) in [
            (&[(1080, &[0x53, 0xef][..]), (1120, &[0x40]), (1128, &BYTES)][..], "ext4", uuid),
            (&[(65600, b"_BHRfS_M"), (65568, &BYTES)], "btrfs", uuid),
            (&[(512, b"EFI PART"), (568, &BYTES)], "gpt", "03020100-0504-0706-0809-0a0b0c0d0e0f"),
            (&[(82, b"FAT32   "), (67, &BYTES[1..5])], "vfat", "0403-0201"),
            (&[(54, b"FAT16   "), (39, &BYTES[1..5])], "vfat", "0403-0201"),
            (&[(3, b"NTFS    "), (72, &BYTES[1..9])], "ntfs", "0807060504030201"),
            (&[(510, &[0x55, 0xaa]), (440, &BYTES[1..5])], "mbr", "04030201"),
            (&[(0, b"LUKS\xba\xbe"), (168, b"0123-abcd")], "LUKS", "0123-abcd"),
            (&label, "LVM2", "abcdef-0123-ABCD-efgh-4567-ijkl-89mnop"),
        ] {
            assert_eq!(found(places), (name.to_owned(), expected.to_owned()));
        }
    }

    #[test]
    fn what_has_none_has_none() {
        for (places, why) in [
            (&[(0, &b"XFSB"[..])][..], "zeros identify nothing"),
            (&[(1128, &BYTES)], "unknown data"),
            (&[(0, b"LUKS\xba\xbe"), (168, b"a\x1b[2J")], "no control characters"),
            (&[(0x4000, b"SKUL\xba\xbe"), (168, b"0123-abcd")], "the second header has it elsewhere"),
        ] {
            assert_eq!(found(places).1, "", "{why}");
        }
        assert_eq!(of(Some(&Magic::new(0, b"", 1128, IdentifierForm::Uuid)), &[]), "");
    }

    proptest! {
        #[test]
        fn nothing_panics_and_nothing_odd_is_printed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            use IdentifierForm::{Disk, Guid, Long, Serial, Text, Uuid};
            let forms = [Uuid, Guid, Text, Serial, Long, Disk];
            let found = forms.map(|form| of(Some(&Magic::new(0, b"", 3, form)), &bytes));
            for text in found.into_iter().chain([lvm2(&bytes)]) {
                prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{text}");
            }
        }
    }
}
