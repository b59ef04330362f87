//! Where files and free space lie on a volume, in figures.

mod detail;
mod histogram;

pub use detail::{TreeDetail, count_bound, size_bound};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How free space was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FreeSpaceMethod {
    /// `FS_IOC_GETFSMAP` (ext4, xfs).
    Getfsmap,
    /// btrfs' own trees through `BTRFS_IOC_TREE_SEARCH_V2`.
    BtrfsTree,
    /// Volume − union of the FIEMAP of all files: an upper estimate, metadata counts as free.
    FiemapComplement,
}

/// Free space by extent size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FreeSpace {
    /// How it was found.
    pub method: FreeSpaceMethod,
    /// What the reader must know about it; empty when exact.
    pub caveat: String,
    /// Whether free extents may be missing here, or counted that are not free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_estimate: bool,
    /// Free extents.
    pub extents: u64,
    /// Free bytes.
    pub bytes: u64,
    /// Size of the largest.
    pub largest_bytes: u64,
    /// Median extent size (half of the extents are not larger).
    pub median_bytes: u64,
    /// Extents by size.
    pub histogram: SizeHistogram,
}

/// Counts by power of two: bucket i holds sizes s with 2^i ≤ s < 2^(i+1) bytes; 0 bytes go to bucket 0.
/// Trailing empty buckets are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeHistogram {
    /// Items in each bucket.
    pub count: Vec<u64>,
    /// Sum of the sizes in each bucket.
    pub bytes: Vec<u64>,
}

impl SizeHistogram {
    /// Smallest size of a bucket and the first that is too large for it, in bytes; the latter is
    /// [`u64::MAX`] where it would be 2^64.
    #[must_use]
    pub fn bounds(bucket: usize) -> (u64, u64) {
        let power = |exponent: usize| {
            u32::try_from(exponent).ok().and_then(|e| 1_u64.checked_shl(e)).unwrap_or(u64::MAX)
        };
        (if bucket == 0 { 0 } else { power(bucket) }, power(bucket.saturating_add(1)))
    }
}

/// Layout of a tree of files. What `fsage scan --json` prints holds one of these.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutSummary {
    /// Regular files seen (a file with several links counts once).
    pub files: u64,
    /// Files with at least one extent on the volume.
    pub mapped_files: u64,
    /// Files whose data lives in the inode or a tree (inline): no extent to speak of.
    pub inline_files: u64,
    /// Directories.
    pub directories: u64,
    /// Physical extents, neighbours on the volume and in the file merged.
    pub extents: u64,
    /// extents / mapped_files; 0 without files.
    pub extents_per_file: f64,
    /// Share of the mapped files that lie in one extent ("optimally allocated").
    pub one_extent_share: f64,
    /// Smith & Seltzer 1997: share of blocks (but first ones) that directly follow their predecessor,
    /// over all files of at least two blocks; 1 when there are none.
    pub layout_score: f64,
    /// Share of the files with extents (but the first) that begin on the volume where the one read before
    /// them ends: how the files of a directory lie to each other (Conway et al. 2017, §2). 1 for a single
    /// file. Only where one thread looked, and so in reading order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inter_file_score: Option<f64>,
    /// Mapped bytes.
    pub mapped_bytes: u64,
    /// Sum of file sizes.
    pub size_bytes: u64,
    /// Bytes mapped but never written (they read as zeros).
    pub unwritten_bytes: u64,
    /// Mapped bytes that other files use as well (reflinks, snapshots).
    #[serde(default)]
    pub shared_bytes: u64,
    /// Mapped bytes that are stored compressed or encrypted; their extents are never merged.
    #[serde(default)]
    pub encoded_bytes: u64,
    /// Bytes still only in the page cache, without a place on the volume.
    #[serde(default)]
    pub delayed_bytes: u64,
    /// Extents by size.
    pub extent_histogram: SizeHistogram,
    /// Files by size.
    pub file_histogram: SizeHistogram,
    /// The most fragmented files: path, extents, bytes. At most 20, worst first.
    pub worst: Vec<WorstFile>,
    /// Files and directories that could not be inspected, by errno name.
    pub failed: std::collections::BTreeMap<String, u64>,
    /// Finer distributions; only where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<TreeDetail>>,
}

/// One badly laid out file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorstFile {
    /// Path below the scanned directory.
    pub path: String,
    /// Physical extents.
    pub extents: u64,
    /// File size.
    pub bytes: u64,
}
