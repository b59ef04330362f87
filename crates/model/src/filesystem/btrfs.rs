//! btrfs (`btrfs_tree.h`). The superblock is at 64 KiB.

use super::{
    CommitBy, CommitTimer, FileSystemFacts, FreeSpaceSource, FreeSpaceTolerance, IdentifierForm, Ink, Magic,
    Member, MetadataImage, MountedProgram, StatfsField,
};

/// btrfs.
pub static BTRFS: FileSystemFacts = FileSystemFacts {
    title: "copy-on-write trees, checksums of data",
    statfs_type: Some(0x9123_683E),
    copy_on_write: true,
    magics: &[Magic::new(0x1_0040, b"_BHRfS_M", 0x1_0020, IdentifierForm::Uuid)],
    label: Some((0x1_0000 + 299, 256)),
    companion: Some(companion),
    member: Some(member),
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
    defragment: Some(MountedProgram {
        name: "btrfs",
        arguments: &["filesystem", "defragment", "-r"],
        own_folder: None,
    }),
    // btrfs-balance(8): without filters, and without the delay that warns of that.
    balance: Some(MountedProgram {
        name: "btrfs",
        arguments: &["balance", "start", "--full-balance"],
        own_folder: None,
    }),
    // `BTRFS_DEFAULT_COMMIT_INTERVAL` (`fs/btrfs/fs.h`).
    commit: CommitTimer { seconds: 30, by: CommitBy::StartSync },
    needed: true,
    ink: Some(Ink::new("#009e73", "#3ed6a8", "diamond", "solid")),
    ..FileSystemFacts::unknown("btrfs")
};

/// `struct btrfs_super_block`; little-endian.
struct Superblock<'a>(&'a [u8]);

impl<'a> Superblock<'a> {
    const FLAGS: usize = 0x38;
    const TOTAL_BYTES: usize = 0x70;
    const DEVICES: usize = 0x88;
    const CHUNKS_BYTES: usize = 0xa0;
    /// `struct btrfs_dev_item`: number, total bytes …, identity, identity of its file system.
    const DEVICE: usize = 0xc9;
    const DEVICE_TOTAL_BYTES: usize = Self::DEVICE + 8;
    const DEVICE_UUID: usize = Self::DEVICE + 66;
    const DEVICE_FILE_SYSTEM: usize = Self::DEVICE + 82;
    const METADATA_UUID: usize = 0x23b;
    const CHUNKS: usize = 0x32b;

    fn of(head: &'a [u8]) -> Option<Self> {
        let superblock = Self(head.get(0x1_0000..)?);
        superblock.0.get(0x40..)?.starts_with(b"_BHRfS_M").then_some(superblock)
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    fn number(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Whether every stripe of the array of system chunks is on its own device. An entry is a key (17 bytes), a
    /// chunk with its number of stripes (48 bytes) and the stripes (device, offset, identity of the device).
    fn keeps_to_itself(&self) -> Option<bool> {
        const KEY: usize = 17;
        const CHUNK: usize = 48;
        const STRIPES: usize = KEY + 44;
        const STRIPE: usize = 32;
        let own = (self.number(Self::DEVICE)?, self.bytes::<16>(Self::DEVICE_UUID)?);
        let length = usize::try_from(u32::from_le_bytes(self.bytes(Self::CHUNKS_BYTES)?)).ok()?;
        let mut at = Self::CHUNKS;
        let end = at + length.min(2048);
        while at < end {
            let stripes = usize::from(u16::from_le_bytes(self.bytes(at + STRIPES)?));
            at += KEY + CHUNK;
            for _ in 0..stripes {
                if (self.number(at)?, self.bytes::<16>(at + 16)?) != own {
                    return Some(false);
                }
                at += STRIPE;
            }
        }
        Some(true)
    }
}

/// The kernel takes what the superblock says of devices for a hint: a file system of several may claim one.
fn companion(head: &[u8]) -> Option<&'static str> {
    /// `BTRFS_SUPER_FLAG_SEEDING`: written to together with what is added to it.
    const SEEDING: u64 = 1 << 32;
    /// `BTRFS_SUPER_FLAG_CHANGING_FSID` and `…_V2`: of whose identities some may be another's.
    const CHANGING: u64 = 1 << 35 | 1 << 36;
    let superblock = Superblock::of(head)?;
    let number = |at| superblock.number(at).unwrap_or(u64::MAX);
    let devices = number(Superblock::DEVICES) != 1
        || number(Superblock::TOTAL_BYTES) != number(Superblock::DEVICE_TOTAL_BYTES)
        || superblock.keeps_to_itself() != Some(true);
    if number(Superblock::FLAGS) & SEEDING != 0 {
        Some("further devices that grow from it")
    } else if number(Superblock::FLAGS) & CHANGING != 0 {
        Some("an identity that was being changed")
    } else {
        devices.then_some("further devices")
    }
}

fn member(head: &[u8]) -> Option<Member> {
    let superblock = Superblock::of(head)?;
    let file_systems = [0x20, Superblock::METADATA_UUID, Superblock::DEVICE_FILE_SYSTEM];
    let [own, metadata, of_device] = file_systems.map(|at| superblock.bytes(at));
    let device = (superblock.number(Superblock::DEVICE)?, superblock.bytes(Superblock::DEVICE_UUID)?);
    Some(Member { file_systems: [own?, metadata?, of_device?], device })
}
