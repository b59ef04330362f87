//! What makes one hard disk differ from another.

mod preset;

pub(super) use preset::PRESETS;

use super::parameter::parameters;

parameters! {
    /// Everything that makes one hard disk differ from another.
    numbers {
        /// Turns of the platters in a minute.
        rpm: 1_000..=30_000, "1/min";
        /// Surfaces with data, each with a head.
        surfaces: 1..=64, "1";
        /// Tracks of a surface.
        cylinders: 16..=16_000_000, "1";
        /// Zones of equal track size.
        zones: 1..=64, "1";
        /// Bytes of a track of the outermost zone.
        outer_track_bytes: 4_096..=64_000_000, "B";
        /// Bytes of a track of the innermost zone.
        inner_track_bytes: 4_096..=64_000_000, "B";
        /// Seek to the next track, ready to read.
        track_to_track_ns: 1_000..=100_000_000, "ns";
        /// Mean seek over all pairs of cylinders, ready to read.
        average_seek_ns: 1_000..=100_000_000, "ns";
        /// Seek from the first to the last cylinder, ready to read.
        full_stroke_ns: 1_000..=200_000_000, "ns";
        /// Where the seek curve turns from root to line, in thousandths of the stroke.
        seek_knee_permille: 1..=900, "1/1000";
        /// How much longer the head settles before a write than before a read.
        write_settle_ns: 0..=50_000_000, "ns";
        /// From a track to the same track of the next surface; also its skew.
        head_switch_ns: 0..=50_000_000, "ns";
        /// From the last track of a cylinder to the first of the next in a transfer that continues; its skew.
        cylinder_switch_ns: 0..=50_000_000, "ns";
        /// What the electronics take for a command before the arm moves.
        command_ns: 0..=10_000_000, "ns";
        /// Rate of the interface.
        interface_bytes_per_s: 1_000_000..=100_000_000_000, "B/s";
        /// Buffer for data that was read; 0 switches it and reading ahead off.
        read_cache_bytes: 0..=68_719_476_736, "B";
        /// Parts of the read buffer, each for one sequence of reads.
        read_segments: 1..=256, "1";
        /// Buffer for data that was written; 0: every write goes to the platters before it is answered.
        write_cache_bytes: 0..=68_719_476_736, "B";
        /// Commands among which the disk chooses the next; 1: in order of arrival.
        queue_depth: 1..=1_024, "1";
        /// How often others may be served before a waiting command.
        queue_patience: 1..=1_000_000, "1";
    }
    choices {
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

    /// Bytes that the disk holds.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.zone_sizes()
            .map(|(cylinders, track)| cylinders.saturating_mul(track).saturating_mul(self.surfaces))
            .fold(0, u64::saturating_add)
    }

    /// The parameter that makes it hold so many bytes, and its value then.
    pub(super) fn enlarged(&self, size_bytes: u64) -> (&'static str, u64) {
        let each = self.capacity_bytes() / self.cylinders.max(1);
        // The mean cylinder may be a little larger than that of the longer disk.
        ("cylinders", size_bytes.div_ceil(each.max(1)).saturating_add(self.zones))
    }
}

pub(super) const TURNS: bool = true;
