//! btrfs on one device, made by mkfs.btrfs.
//!
//! - Only profiles that one device can hold are offered.
//! - The smallest volume is what mkfs.btrfs 6.2 itself demands: 109 MiB, or 16 MiB when data and metadata are
//!   mixed, more when data is kept twice.

use fsage_model::filesystem::{self as model, FileSystemFacts};

use super::Driver;
use super::deterministic::{self, Additions, Kernel};
use super::parameter::{Flag, Parameter, ParameterError, ParameterType, Preset, Values, parameter};
use crate::tools::{Invocation, Program, btrfs_check, mkfs_btrfs};

/// btrfs.
#[derive(Debug)]
pub struct Btrfs;

/// btrfs.
pub static BTRFS: Btrfs = Btrfs;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// `mkfs.btrfs -O list-all` of btrfs-progs 6.2 and what came later (btrfs(5)).
const FEATURES: &[&str] = &[
    "block-group-tree",
    "extref",
    "free-space-tree",
    "mixed-bg",
    "no-holes",
    "quota",
    "raid-stripe-tree",
    "raid1c34",
    "raid56",
    "skinny-metadata",
    "squota",
    "zoned",
];

/// `mkfs.btrfs -R list-all` of btrfs-progs 6.2.
const RUNTIME_FEATURES: &[&str] = &["block-group-tree", "free-space-tree", "quota"];

/// The table.
pub static PARAMETERS: &[Parameter] = &[
    parameter(
        "nodesize",
        ParameterType::Bytes { min: 4 * KIB, max: 64 * KIB, power_of_two: true, step: 1, unit: 1 },
        Preset::Own("16 KiB; `sectorsize` when mixed"),
        Flag::Argument("--nodesize"),
        "Size of tree nodes; at least `sectorsize`.",
    ),
    parameter(
        "sectorsize",
        ParameterType::Bytes { min: 4 * KIB, max: 64 * KIB, power_of_two: true, step: 1, unit: 1 },
        Preset::Bytes(4 * KIB),
        Flag::Argument("--sectorsize"),
        "Block size of data. Blocks larger than the page size (usually 4 KiB) need a kernel that was built for them.",
    ),
    parameter(
        "data_profile",
        ParameterType::Choice(&["single", "dup"]),
        Preset::Own("single"),
        Flag::Argument("--data"),
        "Block group profile of data on the single device.",
    ),
    parameter(
        "metadata_profile",
        ParameterType::Choice(&["single", "dup"]),
        Preset::Own("dup; single on flash before btrfs-progs 5.15"),
        Flag::Argument("--metadata"),
        "Block group profile of metadata on the single device.",
    ),
    parameter(
        "mixed",
        ParameterType::Switch,
        Preset::Own("off"),
        Flag::Alone(&["--mixed"], &[]),
        "Keep data and metadata in the same block groups, for small volumes.",
    ),
    parameter(
        "checksum",
        ParameterType::Choice(&["crc32c", "xxhash", "sha256", "blake2"]),
        Preset::Own("crc32c"),
        Flag::Argument("--checksum"),
        "Checksum of data and metadata.",
    ),
    parameter(
        "features",
        ParameterType::Features(FEATURES),
        Preset::Own("by version"),
        Flag::Items("--features"),
        "Features enabled (`name`) or disabled (`^name`), as for `mkfs.btrfs -O`.",
    ),
    parameter(
        "runtime_features",
        ParameterType::Features(RUNTIME_FEATURES),
        Preset::Own("by version"),
        Flag::Items("--runtime-features"),
        "As for `mkfs.btrfs -R`; from btrfs-progs 6.3 on these are `features` too.",
    ),
    parameter(
        "discard",
        ParameterType::Switch,
        Preset::Own("on"),
        Flag::Alone(&[], &["--nodiscard"]),
        "Discard the whole device first. A loop file is fully allocated again at the mount.",
    ),
    parameter(
        "label",
        ParameterType::Text { max: 255 },
        Preset::Text(fsage_model::study::LABEL),
        Flag::Argument("--label"),
        "Label. With the default, later runs recognise the device as fsage's and may overwrite it.",
    ),
    parameter(
        "uuid",
        ParameterType::Text { max: 36 },
        Preset::Own("random"),
        Flag::Argument("--uuid"),
        "UUID of the file system.",
    ),
];

/// Mount options as the kernel's documentation has them (btrfs(5)), without those that name other devices or
/// files, read another superblock, or skip repairs.
#[rustfmt::skip]
const MOUNT_OPTIONS: &[&str] = &[
    "acl", "noacl", "autodefrag", "noautodefrag", "barrier",
    "nobarrier", "clear_cache", "commit", "compress", "compress-force",
    "datacow", "nodatacow", "datasum", "nodatasum", "discard",
    "nodiscard", "enospc_debug", "noenospc_debug", "flushoncommit", "noflushoncommit",
    "fragment", "inode_cache", "noinode_cache", "max_inline", "metadata_ratio",
    "ref_verify", "skip_balance", "space_cache", "nospace_cache", "ssd",
    "nossd", "ssd_spread", "nossd_spread", "thread_pool", "treelog",
    "notreelog", "user_subvol_rm_allowed",
];

impl Driver for Btrfs {
    fn facts(&self) -> &'static FileSystemFacts {
        &model::BTRFS
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn mkfs(&self) -> &'static Program {
        &mkfs_btrfs::PROGRAM
    }

    fn fsck(&self) -> &'static Program {
        &btrfs_check::PROGRAM
    }

    fn fixed_arguments(&self) -> &'static [&'static str] {
        &["-q", "-f"]
    }

    fn deterministic(&self, _: &Values, _: u64, _: Kernel) -> Additions {
        Additions::mounted(&["noatime", deterministic::COMMIT])
    }

    fn mount_options(&self) -> &'static [&'static str] {
        MOUNT_OPTIONS
    }

    fn validate(&self, values: &Values) -> Result<(), ParameterError> {
        let sector = values.number("sectorsize").unwrap_or(4 * KIB);
        let mixed = values.switch("mixed") == Some(true) || values.lists("features", "mixed-bg");
        match values.number("nodesize") {
            Some(node) if node < sector => {
                return Err(values.clash("`nodesize` must not be smaller than `sectorsize`"));
            }
            Some(node) if mixed && node != sector => {
                return Err(values.clash("with `mixed`, `nodesize` must be equal to `sectorsize`"));
            }
            _ => {}
        }
        let given = |name| values.text(name).unwrap_or(if mixed { "single" } else { "" });
        if mixed && given("data_profile") != given("metadata_profile") {
            return Err(values.clash("with `mixed`, `data_profile` and `metadata_profile` must be the same"));
        }
        Ok(())
    }

    fn block_bytes(&self, values: &Values) -> u64 {
        values.number("sectorsize").unwrap_or(4 * KIB)
    }

    fn minimum_bytes(&self, values: &Values) -> u64 {
        let dup = values.text("data_profile") == Some("dup");
        let mixed = values.switch("mixed") == Some(true) || values.lists("features", "mixed-bg");
        match (mixed, dup) {
            (true, false) => 16 * MIB,
            (true, true) => 160 * MIB,
            (false, false) => 109 * MIB,
            (false, true) => 229 * MIB,
        }
    }

    fn check(&self, device: &str) -> Invocation {
        btrfs_check::check(device)
    }
}
