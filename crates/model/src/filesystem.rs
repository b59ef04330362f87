//! Facts about file systems: one row each, in the file of its family, and everything else looks them up here.
//!
//! A row is found by name ([`by_name`]: the name in studies, of the signature and of the type given to
//! mount(2)) or by the type that `statfs` gives ([`by_statfs_type`]). What has no row is a file system that
//! fsage knows nothing about.

use serde::Serialize;

mod bare;
mod btrfs;
mod ext;
mod other;
mod xfs;

pub use bare::BARE;
pub use btrfs::BTRFS;
pub use ext::{EXT2, EXT3, EXT4};
pub use xfs::XFS;

/// Every row. Reports, `fsage doctor` and the legend of charts list file systems in this order.
pub static ALL: &[&FileSystemFacts] = &[
    &EXT4,
    &XFS,
    &BTRFS,
    &EXT3,
    &EXT2,
    &other::F2FS,
    &other::NILFS2,
    &other::BCACHEFS,
    &other::ZFS,
    &other::TMPFS,
    &other::EROFS,
    &other::JFS,
    &other::REISERFS,
    &other::VFAT,
    &other::EXFAT,
    &other::NTFS,
    &BARE,
];

/// What a superblock says of another device that the file system is on too; nothing where it is on none.
pub type Companion = fn(&[u8]) -> Option<&'static str>;

/// Which device of which file system a superblock is of; nothing where it is none.
pub type MemberOf = fn(&[u8]) -> Option<Member>;

/// By what the kernel puts devices together to one file system: found in the first bytes of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Identities of file systems that it belongs to; those it does not have are zero.
    pub file_systems: [[u8; 16]; 3],
    /// Number and identity of the device within them.
    pub device: (u64, [u8; 16]),
}

impl Member {
    /// Whether both belong to one file system of which each is a device of its own; a copy of a device is that
    /// device.
    #[must_use]
    pub fn completes(&self, other: &Self) -> bool {
        let shared = |id: &[u8; 16]| *id != [0; 16] && other.file_systems.contains(id);
        self.device != other.device && self.file_systems.iter().any(shared)
    }
}

/// What fsage knows about a file system.
#[derive(Debug)]
pub struct FileSystemFacts {
    /// Name in studies and in signatures, and the type given to mount(2).
    pub name: &'static str,
    /// What it is, in a few words; empty without a driver.
    pub title: &'static str,
    /// `f_type` of `statfs` (`linux/magic.h`). Members of a family share it.
    pub statfs_type: Option<u32>,
    /// `statfs` is about right without a sync.
    pub counts_at_once: bool,
    /// Data is never overwritten where it is.
    pub copy_on_write: bool,
    /// A block that a file has is overwritten where it is, so that writing to it through a mapping needs no
    /// space.
    pub overwrites_blocks: bool,
    /// Where a volume says that it holds it.
    pub magics: &'static [Magic],
    /// Whether the first bytes of a volume with a magic of the family are of this member.
    pub is_member: fn(&[u8]) -> bool,
    /// Offset and length of the label.
    pub label: Option<(usize, usize)>,
    /// What the superblock in the first bytes names besides its own device, where it does.
    pub companion: Option<Companion>,
    /// Where the kernel makes one file system of several devices by what their superblocks say: that of one.
    pub member: Option<MemberOf>,
    /// What tells its free space exactly, for the blocks that an image holds; `None`: nothing.
    pub free_space: Option<FreeSpaceSource>,
    /// How far the sum of the free-space map may be from `statfs`.
    pub free_space_tolerance: FreeSpaceTolerance,
    /// Mount options that take the place of what the superblock itself may ask of the host.
    pub own_options: &'static [&'static str],
    /// Mount options without which a volume does not mount while a clone of it is mounted.
    pub clone_options: &'static [&'static str],
    /// The program that saves its metadata alone.
    pub metadata_image: Option<MetadataImage>,
    /// The program that puts the pieces of its files together while it is mounted.
    pub defragment: Option<MountedProgram>,
    /// The program that writes its block groups to new places while it is mounted.
    pub balance: Option<MountedProgram>,
    /// Settings that put off timers of its own, and to what: the path of the setting, and a number.
    pub timers: &'static [(&'static str, &'static str)],
    /// What it does every so many seconds by default.
    pub commit: CommitTimer,
    /// How its metadata gets to its place, where a commit only logs it.
    pub metadata: MetadataBy,
    /// The shipped studies need it.
    pub needed: bool,
    /// How reports draw it; `None`: in a colour that others share.
    pub ink: Option<Ink>,
}

impl FileSystemFacts {
    /// A file system of which only the name is known: the rest of a row starts from here.
    #[must_use]
    pub const fn unknown(name: &'static str) -> Self {
        Self {
            name,
            title: "",
            statfs_type: None,
            counts_at_once: false,
            copy_on_write: false,
            overwrites_blocks: false,
            magics: &[],
            is_member: |_| true,
            label: None,
            companion: None,
            member: None,
            free_space: None,
            free_space_tolerance: FreeSpaceTolerance::ESTIMATE,
            own_options: &[],
            clone_options: &[],
            metadata_image: None,
            defragment: None,
            balance: None,
            timers: &[],
            commit: CommitTimer { seconds: 30, by: CommitBy::Sync },
            metadata: MetadataBy::Commit,
            needed: false,
            ink: None,
        }
    }

    /// The magic of this file system that `head`, the first bytes of a volume, holds.
    #[must_use]
    pub fn magic_in(&self, head: &[u8]) -> Option<&'static Magic> {
        self.magics.iter().find(|magic| magic.is_in(head) && (self.is_member)(head))
    }
}

/// The row of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static FileSystemFacts> {
    ALL.iter().find(|row| row.name == name).copied()
}

/// The row with that `f_type`; of a family that shares it, the first.
#[must_use]
pub fn by_statfs_type(statfs_type: u32) -> Option<&'static FileSystemFacts> {
    ALL.iter().find(|row| row.statfs_type == Some(statfs_type)).copied()
}

/// A magic number on a volume, and the identifier that comes with it.
#[derive(Debug, Clone, Copy)]
pub struct Magic {
    /// Its offset from the beginning of the volume.
    pub offset: usize,
    /// Its bytes.
    pub bytes: &'static [u8],
    /// Offset of the identifier, and its form.
    pub identifier: Option<(usize, IdentifierForm)>,
}

impl Magic {
    /// A magic with an identifier.
    #[must_use]
    pub const fn new(offset: usize, bytes: &'static [u8], at: usize, form: IdentifierForm) -> Self {
        Self { offset, bytes, identifier: Some((at, form)) }
    }

    /// A magic of a format without an identifier, or with one that fsage does not read.
    #[must_use]
    pub const fn alone(offset: usize, bytes: &'static [u8]) -> Self {
        Self { offset, bytes, identifier: None }
    }

    /// Whether the first bytes of a volume hold it.
    #[must_use]
    pub fn is_in(&self, head: &[u8]) -> bool {
        head.get(self.offset..).is_some_and(|rest| rest.starts_with(self.bytes))
    }
}

/// How a volume keeps an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentifierForm {
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

/// The timer by which a file system makes permanent what was done since the last time. A mount option
/// `commit=SECONDS` changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitTimer {
    /// Seconds between two commits where nothing else is said.
    pub seconds: u64,
    /// How anyone else can have it done.
    pub by: CommitBy,
}

/// What makes a file system commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitBy {
    /// `fsync` of a directory that the running transaction changed: the journal is written up to it, and data
    /// only where the journal orders it.
    Fsync,
    /// `BTRFS_IOC_START_SYNC`: a transaction is committed, data that has no place yet stays.
    StartSync,
    /// There is nothing to commit: everything is written, as when it is old enough.
    Sync,
}

/// What writes metadata to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataBy {
    /// The commit does.
    Commit,
    /// It is in the page cache of the block device, whose pages are written when they are old enough, as
    /// those of files are (`fs/fs-writeback.c`).
    Device,
    /// A worker of the file system pushes it, by wall-clock time (`xfs_log_worker`, `fs/xfs/xfs_log.c`), and
    /// nobody else can ask for that alone.
    Worker,
}

/// A program that works on a mounted file system as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountedProgram {
    /// Its name.
    pub name: &'static str,
    /// What stands between its name and the mount point.
    pub arguments: &'static [&'static str],
    /// The folder in the root of the file system that it makes for itself, and would also use if it is there: nothing
    /// else may have that name.
    pub own_folder: Option<&'static str>,
}

impl std::fmt::Display for MountedProgram {
    /// Without the mount point: `btrfs balance start --full-balance`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// What tells a file system's free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreeSpaceSource {
    /// `FS_IOC_GETFSMAP`.
    Getfsmap,
    /// The extent and chunk trees of btrfs; its files' extents are addresses of the chunk tree, too.
    BtrfsTrees,
}

/// A format of metadata images, named by the program that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataImage {
    /// e2image.
    E2image,
    /// xfs_metadump.
    XfsMetadump,
    /// btrfs-image.
    BtrfsImage,
}

/// How far the sum of the free-space map may be from `statfs`, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FreeSpaceTolerance {
    /// What of `statfs` it is compared with.
    pub against: StatfsField,
    /// Largest difference as a share of the volume.
    pub share: f64,
    /// Largest difference in bytes, in addition.
    pub bytes: u64,
    /// Why they differ.
    pub reason: &'static str,
}

impl FreeSpaceTolerance {
    /// Of a file system without a map.
    pub const ESTIMATE: Self = Self {
        against: StatfsField::Free,
        share: 0.10,
        bytes: 64 << 20,
        reason: "without a map, free space is the volume less what the extents of its files cover: metadata counts \
                 as free",
    };
}

/// A field of `statfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatfsField {
    /// `f_bfree`: what is not used.
    Free,
    /// `f_bavail`: what is free for users.
    Available,
}

/// How a file system is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ink {
    /// On light pages.
    pub light: &'static str,
    /// On dark pages.
    pub dark: &'static str,
    /// Plotly's name of the marker.
    pub symbol: &'static str,
    /// Plotly's name of the dash.
    pub dash: &'static str,
}

impl Ink {
    /// An ink.
    #[must_use]
    pub const fn new(
        light: &'static str,
        dark: &'static str,
        symbol: &'static str,
        dash: &'static str,
    ) -> Self {
        Self { light, dark, symbol, dash }
    }
}

/// The little-endian number of 32 bits at `offset`.
fn le32(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_are_named_once_and_those_that_mount_say_how_they_are_drawn() {
        let names: BTreeSet<_> = ALL.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ALL.len());
        for row in ALL {
            assert!(by_name(row.name).is_some_and(|found| found.name == row.name));
            if let Some(kind) = row.statfs_type {
                assert!(by_statfs_type(kind).is_some_and(|found| found.copy_on_write == row.copy_on_write));
            }
            // What a driver can make is recognised, carries a label, and tells what is in use.
            let driven = !row.title.is_empty();
            assert_eq!((driven, driven), (row.label.is_some(), row.free_space.is_some()), "{}", row.name);
            assert!(!driven || row.ink.is_some() && !row.magics.is_empty(), "{}", row.name);
        }
        assert_eq!(by_statfs_type(0xEF53).map(|row| row.name), Some("ext4"));
    }

    proptest! {
        #[test]
        fn nothing_panics(head in prop::collection::vec(any::<u8>(), 0..5000)) {
            for row in ALL {
                let _ = (row.magic_in(&head), row.companion.map(|of| of(&head)), (row.is_member)(&head));
            }
        }
    }
}
