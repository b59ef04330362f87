//! The ext family: ext2, ext3 and ext4, made by mke2fs. One table serves all three.
//!
//! - mke2fs chooses 1 KiB blocks on small volumes: ours is always told, 4 KiB unless asked otherwise.
//! - Lazy initialisation sends writes and discards long after mkfs and would be measured as the load's: it is
//!   off unless asked for.
//! - Today's kernels serve ext2 and ext3 by the ext4 code.

use fsage_model::filesystem::{self as model, FileSystemFacts};

use super::Driver;
use super::deterministic::{self, Additions, Kernel};
use super::parameter::{Flag, Parameter, ParameterError, ParameterType, Preset, Value, Values};
use crate::tools::{Invocation, Program, e2fsck, mke2fs};

/// One of the family.
#[derive(Debug)]
pub struct Ext {
    facts: &'static FileSystemFacts,
}

/// The second extended file system.
pub static EXT2: Ext = Ext { facts: &model::EXT2 };
/// The third extended file system.
pub static EXT3: Ext = Ext { facts: &model::EXT3 };
/// The fourth extended file system.
pub static EXT4: Ext = Ext { facts: &model::EXT4 };

const JOURNALLED: &[&str] = &["ext3", "ext4"];
const EXT4_ONLY: &[&str] = &["ext4"];
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// `mke2fs -O` names of e2fsprogs 1.47 (ext4(5)).
const FEATURES: &[&str] = &[
    "64bit",
    "bigalloc",
    "casefold",
    "dir_index",
    "dir_nlink",
    "ea_inode",
    "encrypt",
    "ext_attr",
    "extent",
    "extra_isize",
    "fast_commit",
    "filetype",
    "flex_bg",
    "has_journal",
    "huge_file",
    "inline_data",
    "large_dir",
    "large_file",
    "metadata_csum",
    "metadata_csum_seed",
    "meta_bg",
    "orphan_file",
    "project",
    "quota",
    "resize_inode",
    "sparse_super",
    "sparse_super2",
    "stable_inodes",
    "uninit_bg",
    "verity",
];

const fn size(min: u64, max: u64) -> ParameterType {
    ParameterType::Bytes { min, max, power_of_two: true, step: 1, unit: 1 }
}

/// The table.
pub static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "block_size",
        kind: size(KIB, 64 * KIB),
        preset: Preset::Bytes(4 * KIB),
        flag: Flag::Argument("-b"),
        doc: "Block size. Blocks larger than the page size (usually 4 KiB) need a newer kernel.",
        only: &[],
    },
    Parameter {
        name: "cluster_size",
        kind: size(2 * KIB, 256 * MIB),
        preset: Preset::Own("no clusters"),
        flag: Flag::ArgumentAnd("-C", "-O", "bigalloc"),
        doc: "Allocate in clusters of this size (feature `bigalloc`); larger than `block_size`.",
        only: EXT4_ONLY,
    },
    Parameter {
        name: "inode_size",
        kind: size(128, 4 * KIB),
        preset: Preset::Own("256 bytes"),
        flag: Flag::Argument("-I"),
        doc: "Bytes of an inode, at most `block_size`. Below 256 there are no nanosecond times.",
        only: &[],
    },
    Parameter {
        name: "inode_ratio",
        kind: ParameterType::Bytes { min: KIB, max: 64 * MIB, power_of_two: false, step: 1, unit: 1 },
        preset: Preset::Own("16 KiB; 4 KiB below 512 MiB"),
        flag: Flag::Argument("-i"),
        doc: "Bytes of the volume per inode: limits the number of files.",
        only: &[],
    },
    Parameter {
        name: "journal",
        kind: ParameterType::Switch,
        preset: Preset::Own("on"),
        flag: Flag::Word("-O", "has_journal", "^has_journal"),
        doc: "Keep a journal.",
        only: EXT4_ONLY,
    },
    Parameter {
        name: "journal_size",
        kind: ParameterType::Bytes { min: MIB, max: 40 * GIB, power_of_two: false, step: MIB, unit: MIB },
        preset: Preset::Own("4 MiB to 1 GiB by the volume's size"),
        flag: Flag::Keys("-J", &["size"]),
        doc: "Size of the journal; at least 1,024 blocks, at most half of the volume.",
        only: JOURNALLED,
    },
    Parameter {
        name: "lazy_init",
        kind: ParameterType::Switch,
        preset: Preset::Switch(false),
        flag: Flag::Keys("-E", &["lazy_itable_init", "lazy_journal_init"]),
        doc: "Initialise inode tables and journal after the mount, while the load runs.",
        only: &[],
    },
    Parameter {
        name: "hash_seed",
        kind: ParameterType::Text { max: 36 },
        preset: Preset::Own("random; follows from the trial's seed on a virtual disk in model time"),
        flag: Flag::Keys("-E", &["hash_seed"]),
        doc: "Seed of the directory hash, a UUID: determines the order of names and the block group of top-level directories.",
        only: &[],
    },
    Parameter {
        name: "stride",
        kind: ParameterType::Count { min: 1, max: 1 << 20 },
        preset: Preset::Own("from the device, else none"),
        flag: Flag::Keys("-E", &["stride"]),
        doc: "Blocks written to one disk of a stripe before the next.",
        only: &[],
    },
    Parameter {
        name: "stripe_width",
        kind: ParameterType::Count { min: 1, max: 1 << 20 },
        preset: Preset::Own("from the device, else none"),
        flag: Flag::Keys("-E", &["stripe_width"]),
        doc: "Blocks of a full stripe (`stride` × data disks); the allocator aligns to it.",
        only: &[],
    },
    Parameter {
        name: "discard",
        kind: ParameterType::Switch,
        preset: Preset::Own("on"),
        flag: Flag::Word("-E", "discard", "nodiscard"),
        doc: "Discard the whole device first. A loop file is fully allocated again at the mount.",
        only: &[],
    },
    Parameter {
        name: "reserved_percent",
        kind: ParameterType::Count { min: 0, max: 50 },
        preset: Preset::Own("5"),
        flag: Flag::Argument("-m"),
        doc: "Share of the blocks that only root may use. The load runs as root, so it is not limited by it, but `df` shows it.",
        only: &[],
    },
    Parameter {
        name: "flex_bg_size",
        kind: ParameterType::Count { min: 1, max: 1 << 20 },
        preset: Preset::Own("16"),
        flag: Flag::Argument("-G"),
        doc: "Block groups whose metadata is packed together (flexible block group); a power of two.",
        only: EXT4_ONLY,
    },
    Parameter {
        name: "features",
        kind: ParameterType::Features(FEATURES),
        preset: Preset::Own("by mke2fs.conf"),
        flag: Flag::Items("-O"),
        doc: "Features enabled (`name`) or disabled (`^name`), as for `mke2fs -O`.",
        only: &[],
    },
    Parameter {
        name: "label",
        kind: ParameterType::Text { max: 16 },
        preset: Preset::Text(fsage_model::study::LABEL),
        flag: Flag::Argument("-L"),
        doc: "Label. With the default, later runs recognise the device as fsage's and may overwrite it.",
        only: &[],
    },
    Parameter {
        name: "uuid",
        kind: ParameterType::Text { max: 36 },
        preset: Preset::Own("random"),
        flag: Flag::Argument("-U"),
        doc: "UUID of the file system.",
        only: &[],
    },
];

/// Mount options as the kernel's documentation has them (`admin-guide/ext4.rst`, `filesystems/ext2.rst`),
/// without those that name other devices or files, read another superblock, or skip repairs.
#[rustfmt::skip]
const MOUNT_OPTIONS: &[&str] = &[
    "acl", "noacl", "auto_da_alloc", "noauto_da_alloc", "barrier",
    "nobarrier", "block_validity", "noblock_validity", "bsddf", "minixdf",
    "bsdgroups", "sysvgroups", "grpid", "nogrpid", "check",
    "nocheck", "commit", "data", "data_err", "dax",
    "debug", "delalloc", "nodelalloc", "dioread_lock", "dioread_nolock",
    "discard", "nodiscard", "errors", "grpquota", "usrquota",
    "prjquota", "quota", "noquota", "i_version", "init_itable",
    "noinit_itable", "inlinecrypt", "inode_readahead_blks", "journal_async_commit", "journal_checksum",
    "nojournal_checksum", "journal_ioprio", "max_batch_time", "min_batch_time", "max_dir_size_kb",
    "mb_optimize_scan", "mblk_io_submit", "nomblk_io_submit", "nombcache", "no_mbcache",
    "prefetch_block_bitmaps", "no_prefetch_block_bitmaps", "bh", "nobh", "nouid32",
    "oldalloc", "orlov", "reservation", "noreservation", "resgid",
    "resuid", "stripe", "user_xattr", "nouser_xattr", "warn_on_error",
    "nowarn_on_error",
];

impl Driver for Ext {
    fn facts(&self) -> &'static FileSystemFacts {
        self.facts
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn mkfs(&self) -> &'static Program {
        &mke2fs::PROGRAM
    }

    fn fsck(&self) -> &'static Program {
        &e2fsck::PROGRAM
    }

    fn fixed_arguments(&self) -> &'static [&'static str] {
        match self.name() {
            "ext2" => &["-q", "-F", "-t", "ext2"],
            "ext3" => &["-q", "-F", "-t", "ext3"],
            _ => &["-q", "-F", "-t", "ext4"],
        }
    }

    fn default_mount_options(&self) -> &'static [&'static str] {
        // Otherwise a failing device would be aged on after the first error in its metadata.
        &["errors=remount-ro"]
    }

    fn deterministic(&self, values: &Values, seed: u64, kernel: Kernel) -> Additions {
        let mut mount = vec!["noatime"];
        // Block bitmaps are read in the background after the mount (Linux 5.13 and later).
        if kernel >= Kernel(5, 13) {
            mount.push("no_prefetch_block_bitmaps");
        }
        let journalled = self.name() != "ext2"
            && values.switch("journal") != Some(false)
            && !values.lists("features", "^has_journal");
        if journalled {
            mount.push(deterministic::COMMIT);
        }
        // Otherwise extents become valid when a write has ended, in a worker of its own, and how many there
        // are when the next is allocated is a race.
        if self.name() == "ext4" {
            mount.push("dioread_lock");
        }
        Additions { mkfs: vec![("hash_seed", Value::Text(deterministic::uuid(seed)))], mount }
    }

    fn mount_options(&self) -> &'static [&'static str] {
        MOUNT_OPTIONS
    }

    fn validate(&self, values: &Values) -> Result<(), ParameterError> {
        let block = values.number("block_size").unwrap_or(4 * KIB);
        if values.number("inode_size").is_some_and(|inode| inode > block) {
            return Err(values.clash("`inode_size` must not be larger than `block_size`"));
        }
        if values.number("cluster_size").is_some_and(|cluster| cluster <= block) {
            return Err(values.clash("`cluster_size` must be larger than `block_size`"));
        }
        if values.number("flex_bg_size").is_some_and(|groups| !groups.is_power_of_two()) {
            return Err(values.clash("`flex_bg_size` must be a power of two"));
        }
        if values.number("journal_size").is_some_and(|journal| journal < 1024 * block) {
            return Err(values.clash("`journal_size` must be at least 1,024 blocks"));
        }
        if values.switch("journal") == Some(false) && values.has("journal_size") {
            return Err(values.clash("`journal_size` needs `journal = true`"));
        }
        let stripe = (values.number("stride"), values.number("stripe_width"));
        if let (Some(stride), Some(width)) = stripe
            && !width.is_multiple_of(stride)
        {
            return Err(values.clash("`stripe_width` must be a multiple of `stride`"));
        }
        Ok(())
    }

    fn block_bytes(&self, values: &Values) -> u64 {
        values.number("cluster_size").or(values.number("block_size")).unwrap_or(4 * KIB)
    }

    fn minimum_bytes(&self, values: &Values) -> u64 {
        // mke2fs makes no journal below 2048 blocks, and takes up to half of a small volume for one.
        let block = values.number("block_size").unwrap_or(4 * KIB);
        (2048 * block).max(values.number("journal_size").unwrap_or(0).saturating_mul(2))
    }

    fn check(&self, device: &str) -> Invocation {
        e2fsck::check(device)
    }
}
