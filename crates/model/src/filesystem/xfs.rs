//! xfs (`fs/xfs/libxfs/xfs_format.h`).

use super::{
    CommitBy, CommitTimer, FileSystemFacts, FreeSpaceSource, FreeSpaceTolerance, IdentifierForm, Ink, Magic,
    MetadataBy, MetadataImage, MountedProgram, StatfsField,
};

/// xfs.
pub static XFS: FileSystemFacts = FileSystemFacts {
    overwrites_blocks: true,
    title: "extents in allocation groups, delayed allocation, a log",
    statfs_type: Some(0x5846_5342),
    magics: &[Magic::new(0, b"XFSB", 32, IdentifierForm::Uuid)],
    label: Some((108, 12)),
    companion: Some(companion),
    free_space: Some(FreeSpaceSource::Getfsmap),
    free_space_tolerance: FreeSpaceTolerance {
        against: StatfsField::Free,
        share: 0.005,
        bytes: 33 << 20,
        reason: "statfs leaves out 8192 blocks that xfs keeps for the worst case of its own transactions, and what \
                 its trees may need to grow; the map shows them as free",
    },
    clone_options: &["nouuid"],
    metadata_image: Some(MetadataImage::XfsMetadump),
    // xfs_fsr(8): of a mount point, every file of that file system; no state is kept in /var/tmp.
    defragment: Some(MountedProgram { name: "xfs_fsr", arguments: &[], own_folder: Some(".fsr") }),
    // Its log worker, two hours, and what it trims of space set aside ahead, a day; both the largest there
    // are.
    timers: &[
        ("/proc/sys/fs/xfs/xfssyncd_centisecs", "720000"),
        ("/proc/sys/fs/xfs/speculative_prealloc_lifetime", "86400"),
    ],
    // `xfssyncd_centisecs` (`fs/xfs/xfs_globals.c`).
    commit: CommitTimer { seconds: 30, by: CommitBy::Fsync },
    metadata: MetadataBy::Worker,
    needed: true,
    ink: Some(Ink::new("#d55e00", "#ff9b54", "square", "solid")),
    ..FileSystemFacts::unknown("xfs")
};

fn companion(head: &[u8]) -> Option<&'static str> {
    let word = |offset: usize| head.get(offset..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    if !head.starts_with(b"XFSB") {
        return None;
    }
    let (realtime_blocks, realtime_extents, log_start) = (word(16)?, word(24)?, word(48)?);
    if log_start == 0 {
        return Some("an external log");
    }
    (realtime_blocks != 0 || realtime_extents != 0).then_some("a realtime device")
}
