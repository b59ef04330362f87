//! File systems without a driver: recognised on a volume, or distinguished by the load.
//!
//! Offsets from the formats' own headers: `f2fs_fs.h`, `nilfs2_ondisk.h`, `bcachefs_format.h`, `erofs_fs.h`,
//! the FAT, NTFS and exFAT on-disk formats.

use super::{FileSystemFacts, IdentifierForm, Magic, le32};

pub(super) static F2FS: FileSystemFacts = FileSystemFacts {
    statfs_type: Some(0xF2F5_2010),
    counts_at_once: true,
    magics: &[Magic::new(1024, &[0x10, 0x20, 0xf5, 0xf2], 1024 + 108, IdentifierForm::Uuid)],
    companion: Some(f2fs_companion),
    ..FileSystemFacts::unknown("f2fs")
};

/// `devs` of `struct f2fs_super_block`: paths that the kernel opens. There are two superblocks, a block apart.
fn f2fs_companion(head: &[u8]) -> Option<&'static str> {
    const DEVICES: usize = 2201;
    let names = |superblock: usize| {
        let magic = head.get(superblock..)?.starts_with(&[0x10, 0x20, 0xf5, 0xf2]);
        (magic && *head.get(superblock + DEVICES)? != 0).then_some("further devices")
    };
    names(1024).or_else(|| names(4096 + 1024))
}

/// `JFS_INLINELOG` in `s_flag` of `struct jfs_superblock`.
fn jfs_companion(head: &[u8]) -> Option<&'static str> {
    const INLINE_LOG: u32 = 0x800;
    let superblock = head.get(32768..)?;
    let outside = superblock.starts_with(b"JFS1") && le32(superblock, 36)? & INLINE_LOG == 0;
    outside.then_some("an external log")
}

/// `jp_journal_dev` of `struct reiserfs_super_block_v1`.
fn reiserfs_companion(head: &[u8]) -> Option<&'static str> {
    let superblock = head.get(65536..)?;
    let outside = superblock.get(52..)?.starts_with(b"ReIsEr") && le32(superblock, 16)? != 0;
    outside.then_some("an external journal")
}

pub(super) static NILFS2: FileSystemFacts = FileSystemFacts {
    statfs_type: Some(0x3434),
    copy_on_write: true,
    magics: &[Magic::new(1030, &[0x34, 0x34], 1024 + 0x98, IdentifierForm::Uuid)],
    ..FileSystemFacts::unknown("nilfs2")
};

pub(super) static BCACHEFS: FileSystemFacts = FileSystemFacts {
    statfs_type: Some(0xCA45_1A4E),
    copy_on_write: true,
    magics: &[
        Magic::new(
            4120,
            b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
            4096 + 56,
            IdentifierForm::Uuid,
        ),
        Magic::new(
            4120,
            b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
            4096 + 56,
            IdentifierForm::Uuid,
        ),
    ],
    ..FileSystemFacts::unknown("bcachefs")
};

/// Its labels are searched for: they have no one place.
pub(super) static ZFS: FileSystemFacts = FileSystemFacts {
    statfs_type: Some(0x2FC1_2FC1),
    copy_on_write: true,
    ..FileSystemFacts::unknown("zfs")
};

pub(super) static TMPFS: FileSystemFacts = FileSystemFacts {
    statfs_type: Some(0x0102_1994),
    counts_at_once: true,
    overwrites_blocks: true,
    ..FileSystemFacts::unknown("tmpfs")
};

pub(super) static EROFS: FileSystemFacts = FileSystemFacts {
    magics: &[Magic::new(1024, &[0xe2, 0xe1, 0xf5, 0xe0], 1024 + 48, IdentifierForm::Uuid)],
    ..FileSystemFacts::unknown("erofs")
};

pub(super) static JFS: FileSystemFacts = FileSystemFacts {
    magics: &[Magic::new(32768, b"JFS1", 32768 + 136, IdentifierForm::Uuid)],
    companion: Some(jfs_companion),
    ..FileSystemFacts::unknown("jfs")
};

pub(super) static REISERFS: FileSystemFacts = FileSystemFacts {
    magics: &[Magic::new(65588, b"ReIsEr", 65536 + 84, IdentifierForm::Uuid)],
    companion: Some(reiserfs_companion),
    ..FileSystemFacts::unknown("reiserfs")
};

pub(super) static VFAT: FileSystemFacts = FileSystemFacts {
    magics: &[
        Magic::new(82, b"FAT32   ", 67, IdentifierForm::Serial),
        Magic::new(54, b"FAT12   ", 39, IdentifierForm::Serial),
        Magic::new(54, b"FAT16   ", 39, IdentifierForm::Serial),
    ],
    ..FileSystemFacts::unknown("vfat")
};

pub(super) static EXFAT: FileSystemFacts = FileSystemFacts {
    magics: &[Magic::new(3, b"EXFAT   ", 100, IdentifierForm::Serial)],
    ..FileSystemFacts::unknown("exfat")
};

pub(super) static NTFS: FileSystemFacts = FileSystemFacts {
    magics: &[Magic::new(3, b"NTFS    ", 72, IdentifierForm::Long)],
    ..FileSystemFacts::unknown("ntfs")
};
