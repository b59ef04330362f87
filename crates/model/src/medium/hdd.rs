//! The parameters of hard disks.

mod preset;

pub(super) use preset::PRESETS;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parameter::parameters;

/// Initial contents of the bands of a shingled disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Bands {
    /// Nothing: sequential writes go to the bands directly.
    Empty,
    /// Other data: writes that do not cover a whole band go through the persistent cache.
    Written,
}

/// Behaviour of the disk during the rotational delay of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Arrival {
    /// Nothing.
    Waits,
    /// It reads the passing sectors into the read buffer, as a drive with a track buffer does.
    Reads,
}

parameters! {
    /// The parameters of a hard disk.
    numbers {
        /// Rotational speed in revolutions per minute.
        rpm: 1_000..=30_000, "1/min";
        /// Data surfaces, each with one head.
        surfaces: 1..=64, "1";
        /// Tracks per surface.
        cylinders: 16..=16_000_000, "1";
        /// Number of zones; tracks within a zone have equal size.
        zones: 1..=64, "1";
        /// Bytes per track in the outermost zone.
        outer_track_bytes: 4_096..=64_000_000, "B";
        /// Bytes per track in the innermost zone.
        inner_track_bytes: 4_096..=64_000_000, "B";
        /// Track-to-track seek time for reads.
        track_to_track_ns: 1_000..=100_000_000, "ns";
        /// Average seek time for reads, over all pairs of cylinders.
        average_seek_ns: 1_000..=100_000_000, "ns";
        /// Full-stroke seek time for reads, from the first to the last cylinder.
        full_stroke_ns: 1_000..=200_000_000, "ns";
        /// Seek distance at which the seek curve changes from square root to linear, in thousandths of the
        /// full stroke.
        seek_knee_permille: 1..=900, "1/1000";
        /// Track-to-track seek time for writes.
        track_to_track_write_ns: 1_000..=100_000_000, "ns";
        /// Average seek time for writes, over all pairs of cylinders.
        average_seek_write_ns: 1_000..=100_000_000, "ns";
        /// Full-stroke seek time for writes, from the first to the last cylinder.
        full_stroke_write_ns: 1_000..=200_000_000, "ns";
        /// Head switch time for writes, to the same track of the next surface; also the track skew.
        head_switch_ns: 0..=50_000_000, "ns";
        /// Cylinder switch time, from the last track of a cylinder to the first of the next; also the
        /// cylinder skew.
        cylinder_switch_ns: 0..=50_000_000, "ns";
        /// Controller overhead per command, before the seek.
        command_ns: 0..=10_000_000, "ns";
        /// Transfer rate of the host interface.
        interface_bytes_per_s: 1_000_000..=100_000_000_000, "B/s";
        /// Size of the read buffer; 0: no read buffer and no read-ahead.
        read_cache_bytes: 0..=68_719_476_736, "B";
        /// Number of segments of the read buffer, one per sequential stream.
        read_segments: 1..=256, "1";
        /// Size of the write buffer; 0: a write completes when it is on the platters.
        write_cache_bytes: 0..=68_719_476_736, "B";
        /// Number of queued commands from which the disk chooses the next; 1: in order of arrival.
        queue_depth: 1..=1_024, "1";
        /// Number of later commands that may overtake a waiting command.
        queue_patience: 1..=1_000_000, "1";
        /// Size of a band of shingled (overlapping) tracks, which is written as a whole; 0: not shingled.
        band_bytes: 0..=1_073_741_824, "B";
        /// Size of the persistent cache of a shingled disk, on its outermost tracks and in addition to its
        /// capacity.
        media_cache_bytes: 0..=1_099_511_627_776, "B";
        /// Maximum number of ranges in the persistent cache.
        media_cache_ranges: 1..=16_777_216, "1";
        /// Minimum length of a sequential run in the write buffer that is written to its band directly,
        /// without the persistent cache.
        direct_write_bytes: 512..=1_073_741_824, "B";
        /// Idle time after which a shingled disk empties its buffer and its persistent cache; 0: never.
        idle_ns: 0..=3_600_000_000_000, "ns";
    }
    choices {
        /// Initial state of the bands of a shingled disk: `empty` or `written`.
        bands: Bands;
        /// Rotational delay of a read: the disk `waits`, or `reads` the passing sectors into the read buffer.
        arrival: Arrival;
    }
}

impl Parameters {
    /// Cylinders and bytes of a track of each zone, outermost first.
    pub fn zone_sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        let Self { cylinders, outer_track_bytes: outer, inner_track_bytes: inner, .. } = *self;
        let zones = self.zones.min(cylinders).max(1);
        (0..zones).map(move |zone| {
            let size = cylinders * (zone + 1) / zones - cylinders * zone / zones;
            // A zone's tracks are as long as the innermost of them allows; the last zone has the inner track's
            // size.
            let less = outer.saturating_sub(inner) * zone / (zones - 1).max(1);
            (size, outer - less)
        })
    }

    /// Bytes of the persistent cache; a disk without bands has none.
    #[must_use]
    pub const fn cache_on_media_bytes(&self) -> u64 {
        if self.band_bytes == 0 { 0 } else { self.media_cache_bytes }
    }

    /// Capacity in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.platter_bytes().saturating_sub(self.cache_on_media_bytes())
    }

    /// The same with the persistent cache.
    #[must_use]
    pub fn platter_bytes(&self) -> u64 {
        self.zone_sizes()
            .map(|(cylinders, track)| cylinders.saturating_mul(track).saturating_mul(self.surfaces))
            .fold(0, u64::saturating_add)
    }

    /// The parameter to change for a capacity of `size_bytes`, and its value.
    pub(super) fn enlarged(&self, size_bytes: u64) -> (&'static str, u64) {
        let each = self.platter_bytes() / self.cylinders.max(1);
        let needed = size_bytes.saturating_add(self.cache_on_media_bytes());
        // The mean cylinder may be a little larger than that of the longer disk.
        ("cylinders", needed.div_ceil(each.max(1)).saturating_add(self.zones))
    }
}

pub(super) const TURNS: bool = true;
