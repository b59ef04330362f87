//! ext2, ext3 and ext4 (`fs/ext4/ext4.h`). The superblock is at 1024; which of the three it is, its features
//! say.

use super::{
    CommitBy, CommitTimer, FileSystemFacts, FreeSpaceSource, FreeSpaceTolerance, IdentifierForm, Ink, Magic,
    MetadataBy, MetadataImage, MountedProgram, StatfsField, le32,
};

const HAS_JOURNAL: u32 = 0x4;

/// `JBD2_DEFAULT_MAX_COMMIT_AGE` (`linux/jbd2.h`).
const JOURNAL: CommitTimer = CommitTimer { seconds: 5, by: CommitBy::Fsync };

/// What the three share.
const FAMILY: FileSystemFacts = FileSystemFacts {
    statfs_type: Some(0xEF53),
    counts_at_once: true,
    overwrites_blocks: true,
    magics: &[Magic::new(1080, &[0x53, 0xef], 1024 + 0x68, IdentifierForm::Uuid)],
    label: Some((1144, 16)),
    companion: Some(companion),
    // `s_errors` and `s_mount_opts` may ask for a panic.
    own_options: &["errors=remount-ro"],
    free_space: Some(FreeSpaceSource::Getfsmap),
    free_space_tolerance: FreeSpaceTolerance {
        against: StatfsField::Free,
        share: 0.0,
        bytes: 1 << 20,
        reason: "both come from the block bitmaps, but the allocator may have set some blocks aside for files in memory",
    },
    metadata_image: Some(MetadataImage::E2image),
    ..FileSystemFacts::unknown("ext")
};

/// ext2.
pub static EXT2: FileSystemFacts = FileSystemFacts {
    name: "ext2",
    title: "block-mapped, without a journal",
    is_member: |head| member(head) == Some("ext2"),
    ink: Some(Ink::new("#a8478a", "#e59bcb", "triangle-up", "dot")),
    ..FAMILY
};

/// ext3.
pub static EXT3: FileSystemFacts = FileSystemFacts {
    name: "ext3",
    title: "block-mapped, with a journal",
    is_member: |head| member(head) == Some("ext3"),
    commit: JOURNAL,
    metadata: MetadataBy::Device,
    ink: Some(Ink::new("#2f6f8f", "#8fd0ee", "circle-open", "dash")),
    ..FAMILY
};

/// ext4.
pub static EXT4: FileSystemFacts = FileSystemFacts {
    name: "ext4",
    title: "extents, delayed allocation, a journal",
    is_member: |head| member(head) == Some("ext4"),
    commit: JOURNAL,
    metadata: MetadataBy::Device,
    // e4defrag(8): extents only, so not ext2 and ext3; of a mount point, every file below it.
    defragment: Some(MountedProgram { name: "e4defrag", arguments: &[], own_folder: None }),
    needed: true,
    ink: Some(Ink::new("#0072b2", "#5ab4f0", "circle", "solid")),
    ..FAMILY
};

/// By the features that the superblock names.
fn member(head: &[u8]) -> Option<&'static str> {
    /// extents, 64bit, mmp, flex_bg and everything later.
    const INCOMPAT_EXT4: u32 = !0x3f;
    /// huge_file and everything later.
    const RO_COMPAT_EXT4: u32 = !0x7;
    let (compat, incompat, ro_compat) = (le32(head, 1116)?, le32(head, 1120)?, le32(head, 1124)?);
    let is_ext4 = incompat & INCOMPAT_EXT4 != 0 || ro_compat & RO_COMPAT_EXT4 != 0;
    Some(match (is_ext4, compat & HAS_JOURNAL != 0) {
        (true, _) => "ext4",
        (false, true) => "ext3",
        (false, false) => "ext2",
    })
}

fn companion(head: &[u8]) -> Option<&'static str> {
    const JOURNAL_DEVICE: u32 = 0x8;
    let superblock = head.get(1024..2048)?;
    if !superblock.get(0x38..)?.starts_with(&[0x53, 0xef]) {
        return None;
    }
    let word = |offset| le32(superblock, offset);
    let is_external = word(0x60)? & JOURNAL_DEVICE != 0;
    let (journal_inode, journal_device) = (word(0xe0)?, word(0xe4)?);
    let has_journal = word(0x5c)? & HAS_JOURNAL != 0;
    (is_external || journal_device != 0 || (has_journal && journal_inode == 0))
        .then_some("an external journal")
}
