//! The parameters of solid state drives.

mod preset;

pub(super) use preset::PRESETS;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parameter::parameters;

/// Which block garbage collection cleans next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Collection {
    /// The one with the least valid data.
    Greedy,
    /// The one with the best ratio of freed space and age to moved data.
    CostBenefit,
}

/// What the drive does with discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Discards {
    /// Unmap the blocks.
    Honoured,
    /// Ignore them.
    Ignored,
}

/// What a flush costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Flushes {
    /// The write buffer is volatile: a flush programs its contents.
    Programmed,
    /// The write buffer survives power loss (capacitors): a flush takes no time.
    Protected,
}

/// When the SLC cache is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Folding {
    /// In idle time, and beside the host's writes as soon as it is full.
    Beside,
    /// Only in idle time.
    Idle,
}

/// State of the drive before the volume is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Condition {
    /// Erased, except for the share `occupied_permille`.
    Fresh,
    /// Written once from start to end.
    Filled,
    /// Full, in the steady state of random writes.
    Steady,
}

parameters! {
    /// The parameters of a solid state drive.
    numbers {
        /// Capacity in bytes; volumes are partitions of it.
        capacity_bytes: 1_048_576..=70_368_744_177_664, "B";
        /// Share of the capacity that holds other, static data, in thousandths; only used with the condition
        /// `fresh`.
        occupied_permille: 0..=1_000, "1/1000";
        /// Channels between controller and dies.
        channels: 1..=64, "1";
        /// Dies per channel.
        dies_per_channel: 1..=64, "1";
        /// Planes per die, which read and program together.
        planes: 1..=16, "1";
        /// Bytes of a page, without the spare area for error correction.
        page_bytes: 512..=1_048_576, "B";
        /// Pages per erase block of one plane.
        pages_per_block: 1..=16_384, "1";
        /// Mapping unit of the flash translation layer; a partial write reads the unit first.
        mapping_bytes: 512..=1_048_576, "B";
        /// Flash beyond the capacity, in thousandths of the capacity (over-provisioning).
        spare_permille: 10..=4_000, "1/1000";
        /// Page read time, from the cells to the die's register (tR).
        read_ns: 0..=100_000_000, "ns";
        /// Page program time, from the die's register to the cells (tPROG).
        program_ns: 0..=100_000_000, "ns";
        /// Block erase time (tBERS).
        erase_ns: 0..=1_000_000_000, "ns";
        /// Transfer rate of a channel.
        channel_bytes_per_s: 1_000_000..=100_000_000_000, "B/s";
        /// Transfer rate of the host interface.
        interface_bytes_per_s: 1_000_000..=100_000_000_000, "B/s";
        /// Controller time per read, serial: limits the reads per second.
        command_ns: 0..=10_000_000, "ns";
        /// The same for every other command.
        write_command_ns: 0..=10_000_000, "ns";
        /// Additional latency of a read, in parallel with other commands.
        read_latency_ns: 0..=10_000_000, "ns";
        /// Additional latency of any other command, in parallel with other commands.
        write_latency_ns: 0..=10_000_000, "ns";
        /// Write buffer; 0: every write reaches flash before it is answered.
        write_cache_bytes: 0..=68_719_476_736, "B";
        /// SLC cache (one bit per cell, takes writes first), in thousandths of the capacity; 0: none.
        slc_permille: 0..=500, "1/1000";
        /// Like `program_ns`, for the SLC cache.
        slc_program_ns: 0..=100_000_000, "ns";
        /// Like `read_ns`, for flash with one bit per cell.
        slc_read_ns: 0..=100_000_000, "ns";
        /// What remains of `slc_permille` when the drive is full: the rest uses flash that holds no data.
        slc_least_permille: 0..=500, "1/1000";
        /// Memory for the map; a look-up in a part of the map that it does not hold costs a read of flash. 0: it
        /// holds all of the map.
        map_cache_bytes: 0..=1_099_511_627_776, "B";
        /// Idle time after which the drive empties its SLC cache and collects garbage; 0: never.
        idle_ns: 0..=3_600_000_000_000, "ns";
        /// Wear levelling: static data is moved when the erase counts of blocks differ by this; 0: never.
        wear_threshold: 0..=1_000_000, "1";
    }
    choices {
        /// Victim selection of garbage collection: `greedy` or `cost-benefit`.
        collection: Collection;
        /// Whether discards are `honoured` or `ignored`.
        discards: Discards;
        /// Whether a flush is `programmed`, or the write buffer is `protected` against power loss.
        flushes: Flushes;
        /// Whether the SLC cache is emptied in `idle` time only, or also `beside` the host's writes when it is
        /// full.
        folding: Folding;
        /// State of the drive before the volume is used: `fresh`, `filled` once from start to end, or in the
        /// `steady` state of random writes.
        condition: Condition;
    }
}

impl Parameters {
    /// Capacity in bytes.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The parameter to change for a capacity of `size_bytes`, and its value.
    pub(super) const fn enlarged(&self, size_bytes: u64) -> (&'static str, u64) {
        ("capacity_bytes", size_bytes)
    }
}

pub(super) const TURNS: bool = false;
