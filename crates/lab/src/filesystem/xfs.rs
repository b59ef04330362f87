//! xfs, made by mkfs.xfs.
//!
//! mkfs.xfs refuses volumes below 300 MiB (xfsprogs 5.19 and later); earlier ones are held to the same limit
//! here, so that a study means the same everywhere.

use fsage_model::filesystem::{self as model, FileSystemFacts};

use super::Driver;
use super::parameter::{Flag, Parameter, ParameterError, ParameterType, Preset, Values, parameter};
use crate::tools::{Invocation, Program, mkfs_xfs, xfs_repair};

/// xfs.
#[derive(Debug)]
pub struct Xfs;

/// xfs.
pub static XFS: Xfs = Xfs;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const fn size(min: u64, max: u64) -> ParameterType {
    ParameterType::Bytes { min, max, power_of_two: true, step: 1, unit: 1 }
}

const fn multiple(min: u64, max: u64, step: u64) -> ParameterType {
    ParameterType::Bytes { min, max, power_of_two: false, step, unit: 1 }
}

/// The table.
pub static PARAMETERS: &[Parameter] = &[
    parameter(
        "block_size",
        size(KIB, 64 * KIB),
        Preset::Bytes(4 * KIB),
        Flag::Keys("-b", &["size"]),
        "Block size. Blocks larger than the page size (usually 4 KiB) need Linux 6.12 or later.",
    ),
    parameter(
        "sector_size",
        size(512, 32 * KIB),
        Preset::Own("the device's"),
        Flag::Keys("-s", &["size"]),
        "Sector size; at least the device's logical sector, at most `block_size`.",
    ),
    parameter(
        "agcount",
        ParameterType::Count { min: 1, max: 1 << 20 },
        Preset::Own("4 below 4 TiB, more on stripes"),
        Flag::Keys("-d", &["agcount"]),
        "Number of allocation groups: limits the parallelism of allocation.",
    ),
    parameter(
        "su",
        multiple(4 * KIB, GIB, 512),
        Preset::Own("from the device, else none"),
        Flag::Keys("-d", &["su"]),
        "Stripe unit in bytes: written to one disk before the next. Needs `sw`.",
    ),
    parameter(
        "sw",
        ParameterType::Count { min: 1, max: 65_535 },
        Preset::Own("from the device, else none"),
        Flag::Keys("-d", &["sw"]),
        "Stripe units in a stripe (data disks). Needs `su`.",
    ),
    parameter(
        "sunit",
        ParameterType::Count { min: 1, max: 1 << 21 },
        Preset::Own("from the device, else none"),
        Flag::Keys("-d", &["sunit"]),
        "Stripe unit in 512-byte blocks, instead of `su`. Needs `swidth`.",
    ),
    parameter(
        "swidth",
        ParameterType::Count { min: 1, max: 1 << 30 },
        Preset::Own("from the device, else none"),
        Flag::Keys("-d", &["swidth"]),
        "Stripe width in 512-byte blocks, instead of `sw`; a multiple of `sunit`.",
    ),
    parameter(
        "inode_size",
        size(256, 2 * KIB),
        Preset::Own("512 bytes"),
        Flag::Keys("-i", &["size"]),
        "Bytes of an inode; checksums need at least 512.",
    ),
    parameter(
        "maxpct",
        ParameterType::Count { min: 0, max: 100 },
        Preset::Own("25 below 1 TiB"),
        Flag::Keys("-i", &["maxpct"]),
        "Largest share of the volume for inodes, in percent.",
    ),
    parameter(
        "sparse_inodes",
        ParameterType::Switch,
        Preset::Own("on"),
        Flag::Keys("-i", &["sparse"]),
        "Allow sparse inode chunks, so that inodes can be allocated in fragmented free space.",
    ),
    parameter(
        "crc",
        ParameterType::Switch,
        Preset::Own("on"),
        Flag::Keys("-m", &["crc"]),
        "Metadata checksums (version 5). Volumes without checksums can be mounted only on older kernels.",
    ),
    parameter(
        "finobt",
        ParameterType::Switch,
        Preset::Own("on"),
        Flag::Keys("-m", &["finobt"]),
        "Keep a btree of free inodes.",
    ),
    parameter(
        "rmapbt",
        ParameterType::Switch,
        Preset::Own("off before xfsprogs 6.5"),
        Flag::Keys("-m", &["rmapbt"]),
        "Keep a reverse mapping btree (blocks to owners); the layout of all files can then be read in one pass.",
    ),
    parameter(
        "reflink",
        ParameterType::Switch,
        Preset::Own("on"),
        Flag::Keys("-m", &["reflink"]),
        "Allow files to share blocks (reflink copies).",
    ),
    parameter(
        "bigtime",
        ParameterType::Switch,
        Preset::Own("off before xfsprogs 5.15"),
        Flag::Keys("-m", &["bigtime"]),
        "Time stamps beyond 2038.",
    ),
    parameter(
        "log_size",
        multiple(2 * MIB, 2 * GIB, MIB),
        Preset::Own("64 MiB or 1/2048 of the volume"),
        Flag::Keys("-l", &["size"]),
        "Size of the log.",
    ),
    parameter(
        "log_su",
        multiple(4 * KIB, 256 * KIB, 4 * KIB),
        Preset::Own("`su` when it fits"),
        Flag::Keys("-l", &["su"]),
        "Stripe unit of the log in bytes.",
    ),
    parameter(
        "directory_block_size",
        size(4 * KIB, 64 * KIB),
        Preset::Own("4 KiB"),
        Flag::Keys("-n", &["size"]),
        "Block size of directories; at least `block_size`.",
    ),
    parameter(
        "discard",
        ParameterType::Switch,
        Preset::Own("on"),
        Flag::Alone(&[], &["-K"]),
        "Discard the whole device first. A loop file is fully allocated again at the mount.",
    ),
    parameter(
        "label",
        ParameterType::Text { max: 12 },
        Preset::Text(fsage_model::study::LABEL),
        Flag::Argument("-L"),
        "Label. With the default, later runs recognise the device as fsage's and may overwrite it.",
    ),
    parameter(
        "uuid",
        ParameterType::Text { max: 36 },
        Preset::Own("random"),
        Flag::Keys("-m", &["uuid"]),
        "UUID of the file system.",
    ),
];

/// Mount options as the kernel's documentation has them (`admin-guide/xfs.rst`), without those that name
/// other devices or files, read another superblock, or skip repairs.
#[rustfmt::skip]
const MOUNT_OPTIONS: &[&str] = &[
    "allocsize", "attr2", "noattr2", "barrier", "nobarrier",
    "dax", "discard", "nodiscard", "filestreams", "grpid",
    "nogrpid", "bsdgroups", "sysvgroups", "ikeep", "noikeep",
    "inode32", "inode64", "largeio", "nolargeio", "lifetime",
    "nolifetime", "logbsize", "logbufs", "max_atomic_write", "noalign",
    "nouuid", "quota", "noquota", "usrquota", "uquota",
    "uqnoenforce", "qnoenforce", "grpquota", "gquota", "gqnoenforce",
    "prjquota", "pquota", "pqnoenforce", "sunit", "swalloc",
    "swidth", "wsync",
];

impl Driver for Xfs {
    fn facts(&self) -> &'static FileSystemFacts {
        &model::XFS
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn mkfs(&self) -> &'static Program {
        &mkfs_xfs::PROGRAM
    }

    fn fsck(&self) -> &'static Program {
        &xfs_repair::PROGRAM
    }

    fn fixed_arguments(&self) -> &'static [&'static str] {
        &["-q", "-f"]
    }

    fn mount_options(&self) -> &'static [&'static str] {
        MOUNT_OPTIONS
    }

    fn validate(&self, values: &Values) -> Result<(), ParameterError> {
        let block = values.number("block_size").unwrap_or(4 * KIB);
        if values.has("su") != values.has("sw") {
            return Err(values.clash("`su` and `sw` need each other"));
        }
        if values.has("sunit") != values.has("swidth") {
            return Err(values.clash("`sunit` and `swidth` need each other"));
        }
        if values.has("su") && values.has("sunit") {
            return Err(
                values.clash("give the stripe by `su` and `sw` or by `sunit` and `swidth`, not by both")
            );
        }
        if let (Some(unit), Some(width)) = (values.number("sunit"), values.number("swidth"))
            && !width.is_multiple_of(unit)
        {
            return Err(values.clash("`swidth` must be a multiple of `sunit`"));
        }
        if values.number("su").is_some_and(|unit| !unit.is_multiple_of(block)) {
            return Err(values.clash("`su` must be a multiple of `block_size`"));
        }
        if values.number("sector_size").is_some_and(|sector| sector > block) {
            return Err(values.clash("`sector_size` must not be larger than `block_size`"));
        }
        if values.number("directory_block_size").is_some_and(|directory| directory < block) {
            return Err(values.clash("`directory_block_size` must not be smaller than `block_size`"));
        }
        let needs_crc = ["finobt", "rmapbt", "reflink", "bigtime"];
        let on = needs_crc.iter().find(|name| values.switch(name) == Some(true));
        match on {
            Some(name) if values.switch("crc") == Some(false) => {
                Err(values.clash(format!("`{name} = true` needs `crc = true`")))
            }
            _ if values.switch("crc") != Some(false)
                && values.number("inode_size").is_some_and(|inode| inode < 512) =>
            {
                Err(values.clash("`inode_size` below 512 needs `crc = false`"))
            }
            _ => Ok(()),
        }
    }

    fn block_bytes(&self, values: &Values) -> u64 {
        values.number("block_size").unwrap_or(4 * KIB)
    }

    fn minimum_bytes(&self, _values: &Values) -> u64 {
        300 * MIB
    }

    fn check(&self, device: &str) -> Invocation {
        xfs_repair::check(device)
    }
}
