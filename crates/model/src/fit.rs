//! A profile scaled to a volume: what a workload must make there.
//!
//! Shares, sizes and shapes stay; counts are scaled to what fits. Files larger than a 64th of the volume are
//! left out: one of them would move its use by more than holding it steady can make good.

use std::collections::BTreeMap;

use crate::operation::OperationKind;
use crate::quantity::{as_f64, share, to_u64};
use crate::size::Bytes;
use crate::workload::{DerivedKey, DirectorySpec, DriftSpec, SizeSpec, UtilisationSpec};

use crate::profile::Profile;

/// Largest file, as a divisor of the volume.
const LARGEST: u64 = 64;

/// Unit in which file systems give space.
const BLOCK_BYTES: u64 = 4096;

/// A profile scaled to a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Files by size, without those too large: upper bound, files, bytes.
    pub sizes: Vec<(u64, u64, u64)>,
    /// Files of the profile that are too large for the volume.
    pub left_out: u64,
    /// Largest size that is not left out.
    pub largest_bytes: u64,
    /// Files that fit when the volume is as full as the profile's.
    pub files: u64,
    /// Share of the volume in use (0..1).
    pub used_share: f64,
    /// Share of the mapped files in one extent.
    pub one_extent_share: f64,
    /// Share of the files that can lie in more than one extent: those above one block.
    pub divisible_share: f64,
    /// Directories and their shape.
    pub directories: DirectorySpec,
}

impl Fit {
    /// Scales a profile to a volume of `volume_bytes` and a load of `threads`.
    #[must_use]
    pub fn new(profile: &Profile, volume_bytes: u64, threads: u32) -> Self {
        let limit = (volume_bytes / LARGEST).max(BLOCK_BYTES);
        let (mut sizes, large): (Vec<_>, Vec<_>) =
            profile.files.sizes.iter().copied().partition(|row| row.0 <= limit);
        // A volume that is too small for every file: the smallest, cut to what it takes.
        if let (true, Some(row)) = (sizes.is_empty(), large.first()) {
            sizes.push((limit, row.1, row.1.saturating_mul(limit)));
        }
        let count: u64 = sizes.iter().map(|row| row.1).sum();
        let blocks: f64 = sizes.iter().map(|row| as_f64(row.1) * whole_blocks(row)).sum();
        let used_share = profile.used_share().clamp(0.01, 0.99);
        let files = to_u64(
            as_f64(volume_bytes) * used_share * as_f64(count) / blocks.max(as_f64(count) / 16.0).max(1.0),
        )
        .max(1);
        let divisible = sizes.iter().filter(|row| row.0 > BLOCK_BYTES).map(|row| row.1).sum();
        Self {
            left_out: profile.files.count.saturating_sub(count),
            largest_bytes: sizes.last().map_or(limit, |row| row.0),
            files,
            used_share,
            one_extent_share: profile.files.one_extent_share,
            divisible_share: share(divisible, count),
            directories: directories(profile, files, u64::from(threads.max(1))),
            sizes,
        }
    }

    /// The size distribution as a workload draws it. Empty files become files of 1 byte.
    #[must_use]
    pub fn size_table(&self) -> SizeSpec {
        let mut rows: Vec<(Bytes, f64)> = Vec::new();
        let mut last = 0;
        for (bound, files, _) in &self.sizes {
            let bound = (*bound).max(1);
            let below = row_below(bound);
            if below > last {
                rows.push((Bytes(below), 0.0));
            }
            match rows.last_mut().filter(|_| bound == last) {
                Some(row) => row.1 += as_f64(*files),
                None => rows.push((Bytes(bound), as_f64(*files))),
            }
            last = bound;
        }
        SizeSpec::Table { rows }
    }
}

/// Bytes on the volume of a file of a row, on average.
fn whole_blocks((_, files, bytes): &(u64, u64, u64)) -> f64 {
    let mean = share(*bytes, *files);
    if mean <= 0.0 { 0.0 } else { (mean / as_f64(BLOCK_BYTES)).ceil() * as_f64(BLOCK_BYTES) }
}

/// The bound of the row below the one with this bound ([`crate::layout::size_bound`]).
fn row_below(bound: u64) -> u64 {
    if bound <= 8 { bound - 1 } else { bound - (1 << ((bound - 1).ilog2() - 2)) }
}

/// As many files a directory as the profile has; as many directories below one, of those that have any.
fn directories(profile: &Profile, files: u64, threads: u64) -> DirectorySpec {
    let source = &profile.directories;
    let count = to_u64(as_f64(files) * share(source.count, profile.files.count)).max(threads);
    let parents: u64 = source.subdirectories.iter().filter(|row| row.0 > 0).map(|row| row.1).sum();
    let fan_out = to_u64(share(source.count - 1, parents)).max(2);
    let levels = profile.directories.depths.last().map_or(1, |row| row.0);
    let mut depth = u32::try_from(levels).unwrap_or(u32::MAX).clamp(1, 100);
    // Deep enough that all have room.
    let each = count.div_ceil(threads);
    let room = |depth: u32| fan_out.saturating_pow(depth);
    while room(depth) < each {
        depth += 1;
    }
    DirectorySpec { count, fan_out, depth }
}

/// The workload with every key that follows from its profile, for a volume of this size (0: unknown, then
/// that of the profile's own). Keys that were given stay. Without a profile nothing changes; doing it twice
/// is doing it once.
#[must_use]
pub fn derived(spec: &DriftSpec, volume_bytes: u64, threads: u32) -> DriftSpec {
    use OperationKind as K;
    let mut spec = spec.clone();
    let Some(like) = &mut spec.like else { return spec };
    let volume_bytes = if volume_bytes == 0 { like.profile.source.volume_bytes } else { volume_bytes };
    let fit = Fit::new(&like.profile, volume_bytes, threads);
    let missing: Vec<DerivedKey> =
        DerivedKey::ALL.iter().map(|(key, _)| *key).filter(|key| like.given.insert(*key)).collect();
    for key in missing {
        match key {
            // More than fit, so that the use of the volume decides how many there are.
            DerivedKey::Slots => {
                spec.slots = fit.files.saturating_add(fit.files / 2).max(64 * u64::from(threads))
            }
            // What neither changes sizes nor makes files is left out.
            DerivedKey::Weights => {
                spec.weights = BTreeMap::from([(K::Create, 10.0), (K::Append, 10.0), (K::Delete, 9.0)]);
            }
            DerivedKey::FileSize => spec.file_size = fit.size_table(),
            DerivedKey::Directories => spec.directories = fit.directories.clone(),
            DerivedKey::Utilisation => {
                spec.utilisation = Some(UtilisationSpec::Hold { target: fit.used_share });
            }
        }
    }
    spec
}
