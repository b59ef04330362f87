//! btrfs (`btrfs_tree.h`). The superblock is at 64 KiB.

use super::{
    CommitBy, CommitTimer, FileSystemFacts, FreeSpaceSource, FreeSpaceTolerance, IdentifierForm, Ink, Magic,
    MetadataImage, MountedProgram, StatfsField,
};

/// btrfs.
pub static BTRFS: FileSystemFacts = FileSystemFacts {
    title: "copy-on-write trees, checksums of data",
    statfs_type: Some(0x9123_683E),
    copy_on_write: true,
    magics: &[Magic::new(0x1_0040, b"_BHRfS_M", 0x1_0020, IdentifierForm::Uuid)],
    label: Some((0x1_0000 + 299, 256)),
    companion: Some(companion),
    free_space: Some(FreeSpaceSource::BtrfsTrees),
    free_space_tolerance: FreeSpaceTolerance {
        against: StatfsField::Available,
        share: 0.0,
        bytes: 4 << 20,
        reason: "the map has what data could take; statfs leaves out 1 MiB of the device and, where data and metadata \
                 are mixed, the global reserve",
    },
    metadata_image: Some(MetadataImage::BtrfsImage),
    // btrfs-filesystem(8): the target extent size stays at its default of 32 MiB.
    defragment: Some(MountedProgram { name: "btrfs", arguments: &["filesystem", "defragment", "-r"] }),
    // btrfs-balance(8): without filters, and without the delay that warns of that.
    balance: Some(MountedProgram { name: "btrfs", arguments: &["balance", "start", "--full-balance"] }),
    // `BTRFS_DEFAULT_COMMIT_INTERVAL` (`fs/btrfs/fs.h`).
    commit: CommitTimer { seconds: 30, by: CommitBy::StartSync },
    needed: true,
    ink: Some(Ink::new("#009e73", "#3ed6a8", "diamond", "solid")),
    ..FileSystemFacts::unknown("btrfs")
};

fn companion(head: &[u8]) -> Option<&'static str> {
    let superblock = head.get(0x1_0000..)?;
    let devices = superblock.get(0x88..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
    (superblock.get(0x40..)?.starts_with(b"_BHRfS_M") && devices > 1).then_some("further devices")
}
