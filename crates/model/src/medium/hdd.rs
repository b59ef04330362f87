//! What makes one hard disk differ from another.

mod preset;

pub(super) use preset::PRESETS;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parameter::parameters;

/// Which part of the disk a volume is that is not as large as the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Placement {
    /// The whole disk, with as many cylinders as the size needs.
    Scaled,
    /// The outermost part of the disk as it is, like a partition at its beginning.
    OuterEdge,
}

parameters! {
    /// Everything that makes one hard disk differ from another.
    numbers {
        /// Turns of the platters in a minute.
        rpm: 1_000..=30_000, "1/min";
        /// Surfaces with data, each with a head.
        surfaces: 1..=64, "1";
        /// Tracks of a surface.
        cylinders: 16..=4_000_000, "1";
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
        /// What a volume is that is not as large as the disk: `scaled` (the whole disk, with fewer or more
        /// cylinders) or `outer-edge` (its outermost part).
        placement: Placement;
    }
}

pub(super) const TURNS: bool = true;
