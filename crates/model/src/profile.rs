//! What a tree of files looks like, without its names and its data: enough to age another volume until it is
//! like it.
//!
//! Lists of rows are as in `TreeDetail`: rising bounds, only rows that hold something. What a profile says is
//! checked by [`Profile::check`] before anything is made of it; The agent scales it to a volume.

mod distance;
mod error;

pub use distance::{DISTANCE_NEAR, ONE_EXTENT_NEAR, USED_NEAR, size_distance};
pub use error::ProfileError;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout::{FreeSpace, FreeSpaceMethod, LayoutSummary, SizeHistogram};
use crate::quantity::share;

/// Version of the format; a reader knows its own only. Changes: 1 first.
pub const PROFILE_VERSION: u32 = 1;

/// A profile, as its TOML and JSON have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// [`PROFILE_VERSION`].
    pub profile_version: u32,
    /// The file system that held the tree.
    pub source: Source,
    /// The regular files.
    pub files: Files,
    /// The directories.
    pub directories: Directories,
    /// Extents that hold file data.
    pub used_extents: Extents,
    /// Free space of the whole file system; absent where it could not be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_space: Option<Free>,
}

/// The file system that held the tree, all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its kind (`ext4`).
    pub file_system: String,
    /// Its size in bytes, as `statfs` has it.
    pub volume_bytes: u64,
    /// Bytes of it in use.
    pub used_bytes: u64,
}

/// Regular files; one with several names counts once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// How many (at least 1).
    pub count: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// Those with at least one extent on the volume.
    pub mapped: u64,
    /// Files and directories that could not be inspected; they are in no other number.
    #[serde(default)]
    pub unseen: u64,
    /// Share of the mapped files that lie in one extent (0..=1).
    pub one_extent_share: f64,
    /// Extents divided by mapped files (at least 1; 0 without any).
    pub extents_per_file: f64,
    /// Share of blocks that directly follow their predecessor (0..=1).
    pub layout_score: f64,
    /// Rows of upper bound in bytes, files, sum of their sizes.
    pub sizes: Vec<(u64, u64, u64)>,
    /// Mapped files: rows of upper bound in extents, files.
    pub extents: Vec<(u64, u64)>,
}

/// Directories, the top one included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Directories {
    /// How many (at least 1).
    pub count: u64,
    /// Rows of upper bound in names of regular files, directories.
    pub files: Vec<(u64, u64)>,
    /// Rows of upper bound in directories below, directories.
    pub subdirectories: Vec<(u64, u64)>,
    /// Rows of levels below the top, directories.
    pub depths: Vec<(u64, u64)>,
}

/// Extents by power of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extents {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Rows of lower bound in bytes (a power of two; the upper is below its double), extents, bytes.
    pub sizes: Vec<(u64, u64, u64)>,
}

/// Free space by power of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Free {
    /// How it was found out.
    pub method: FreeSpaceMethod,
    /// Free extents.
    pub extents: u64,
    /// Free bytes.
    pub bytes: u64,
    /// Size of the largest.
    pub largest_bytes: u64,
    /// Median size.
    pub median_bytes: u64,
    /// Rows of lower bound in bytes (a power of two; the upper is below its double), extents, bytes.
    pub sizes: Vec<(u64, u64, u64)>,
}

impl Profile {
    /// A profile of what a scan in detail (the engine's scan in detail) and the free-space map saw.
    ///
    /// # Errors
    /// [`ProfileError::Empty`] when there was no file, or the scan was not in detail.
    pub fn new(
        source: Source,
        layout: &LayoutSummary,
        free_space: Option<&FreeSpace>,
    ) -> Result<Self, ProfileError> {
        let Some(detail) = layout.detail.as_deref().filter(|_| layout.files > 0) else {
            return Err(ProfileError::Empty);
        };
        let profile = Self {
            profile_version: PROFILE_VERSION,
            source,
            files: Files {
                count: layout.files,
                bytes: layout.size_bytes,
                mapped: layout.mapped_files,
                unseen: layout.failed.values().sum(),
                one_extent_share: layout.one_extent_share,
                extents_per_file: layout.extents_per_file,
                layout_score: layout.layout_score,
                sizes: detail.sizes.clone(),
                extents: detail.extents.clone(),
            },
            directories: Directories {
                count: layout.directories,
                files: detail.directory_files.clone(),
                subdirectories: detail.subdirectories.clone(),
                depths: detail.depths.clone(),
            },
            used_extents: Extents {
                count: layout.extent_histogram.total_count(),
                bytes: layout.extent_histogram.total_bytes(),
                sizes: rows(&layout.extent_histogram),
            },
            free_space: free_space.map(|free| Free {
                method: free.method,
                extents: free.extents,
                bytes: free.bytes,
                largest_bytes: free.largest_bytes,
                median_bytes: free.median_bytes,
                sizes: rows(&free.histogram),
            }),
        };
        profile.check()?;
        Ok(profile)
    }

    /// Share of the volume in use.
    #[must_use]
    pub fn used_share(&self) -> f64 {
        share(self.source.used_bytes, self.source.volume_bytes)
    }

    /// Whether its numbers can be those of a tree.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn check(&self) -> Result<(), ProfileError> {
        if self.profile_version != PROFILE_VERSION {
            return Err(ProfileError::Version { found: self.profile_version });
        }
        let (source, files, directories) = (&self.source, &self.files, &self.directories);
        error::within("source.volume_bytes", source.volume_bytes, source.volume_bytes > 0, "above 0")?;
        let fits = source.used_bytes <= source.volume_bytes;
        error::within("source.used_bytes", source.used_bytes, fits, "at most volume_bytes")?;
        error::within("files.count", files.count, files.count > 0, "above 0")?;
        error::within("files.mapped", files.mapped, files.mapped <= files.count, "at most files.count")?;
        for (key, value) in
            [("one_extent_share", files.one_extent_share), ("layout_score", files.layout_score)]
        {
            error::within(&format!("files.{key}"), value, (0.0..=1.0).contains(&value), "in 0..=1")?;
        }
        let extents = files.extents_per_file;
        let good = extents.is_finite() && (extents >= 1.0 || (files.mapped == 0 && extents == 0.0));
        error::within(
            "files.extents_per_file",
            extents,
            good,
            "a number of at least 1, or 0 without mapped files",
        )?;
        error::check_sizes("files.sizes", &files.sizes, (files.count, files.bytes), true)?;
        error::check_counts("files.extents", &files.extents, files.mapped)?;
        error::within("directories.count", directories.count, directories.count > 0, "above 0")?;
        for (key, rows) in [
            ("files", &directories.files),
            ("subdirectories", &directories.subdirectories),
            ("depths", &directories.depths),
        ] {
            error::check_counts(&format!("directories.{key}"), rows, directories.count)?;
        }
        let used = &self.used_extents;
        error::check_sizes("used_extents.sizes", &used.sizes, (used.count, used.bytes), false)?;
        match &self.free_space {
            Some(free) => {
                error::check_sizes("free_space.sizes", &free.sizes, (free.extents, free.bytes), false)
            }
            None => Ok(()),
        }
    }
}

/// The filled buckets as rows of lower bound, items, bytes.
#[must_use]
pub fn rows(histogram: &SizeHistogram) -> Vec<(u64, u64, u64)> {
    (0_u32..)
        .zip(histogram.count.iter().zip(&histogram.bytes))
        .filter(|(_, (count, _))| **count > 0)
        .map(|(power, (count, bytes))| (1_u64.checked_shl(power).unwrap_or(u64::MAX), *count, *bytes))
        .collect()
}
