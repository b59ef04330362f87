//! The parameters of solid state drives.

mod preset;

pub(super) use preset::PRESETS;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parameter::parameters;

/// Victim selection of garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Collection {
    /// The block with the least valid data.
    Greedy,
    /// The block with the best ratio of freed space and age to moved data.
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

/// Effect of a flush.
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
    /// In idle time, and in parallel with host writes when it is full.
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
    /// Written once sequentially.
    Filled,
    /// Full, in the steady state of random writes.
    Steady,
}

parameters! {
    /// The parameters of a solid state drive.
    numbers {
        /// Capacity in bytes; volumes are partitions of it.
        capacity_bytes: 1_048_576..=70_368_744_177_664, "B";
        /// Share of the capacity with other, static data, in thousandths; only with the condition `fresh`.
        occupied_permille: 0..=1_000, "1/1000";
        /// Number of channels between controller and dies.
        channels: 1..=64, "1";
        /// Dies per channel.
        dies_per_channel: 1..=64, "1";
        /// Planes per die, which read and program in parallel.
        planes: 1..=16, "1";
        /// Page size, without the spare area (OOB).
        page_bytes: 512..=1_048_576, "B";
        /// Pages per erase block of one plane.
        pages_per_block: 1..=16_384, "1";
        /// Mapping unit of the flash translation layer; a partial write reads the unit first.
        mapping_bytes: 512..=1_048_576, "B";
        /// Over-provisioning: flash beyond the capacity, in thousandths of the capacity.
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
        /// Controller time per read, one read after the other: limits the reads per second.
        command_ns: 0..=10_000_000, "ns";
        /// Controller time per command other than a read, one after the other.
        write_command_ns: 0..=10_000_000, "ns";
        /// Additional latency of a read, in parallel with other commands.
        read_latency_ns: 0..=10_000_000, "ns";
        /// Additional latency of any other command, in parallel with other commands.
        write_latency_ns: 0..=10_000_000, "ns";
        /// Size of the write buffer; 0: a write completes when it is in flash.
        write_cache_bytes: 0..=68_719_476_736, "B";
        /// Size of the SLC cache (one bit per cell, receives writes first), in thousandths of the capacity;
        /// 0: none.
        slc_permille: 0..=500, "1/1000";
        /// Like `program_ns`, for the SLC cache.
        slc_program_ns: 0..=100_000_000, "ns";
        /// Like `read_ns`, for the SLC cache.
        slc_read_ns: 0..=100_000_000, "ns";
        /// Minimum size of the SLC cache, on a full drive, in thousandths of the capacity; the rest of
        /// `slc_permille` uses flash without data.
        slc_least_permille: 0..=500, "1/1000";
        /// Memory for the mapping table; a lookup of an entry that is not in memory costs a flash read. 0:
        /// the whole table is in memory.
        map_cache_bytes: 0..=1_099_511_627_776, "B";
        /// Idle time after which the drive empties its SLC cache and collects garbage; 0: never.
        idle_ns: 0..=3_600_000_000_000, "ns";
        /// Wear-levelling threshold: static data is moved when the erase counts of blocks differ by this; 0:
        /// never.
        wear_threshold: 0..=1_000_000, "1";
    }
    choices {
        /// Victim selection of garbage collection: `greedy` or `cost-benefit`.
        collection: Collection;
        /// Discards are `honoured` or `ignored`.
        discards: Discards;
        /// Effect of a flush: `programmed` (the write buffer is written to flash) or `protected` (none: the
        /// buffer survives power loss).
        flushes: Flushes;
        /// When the SLC cache is emptied: in `idle` time only, or also `beside` (in parallel with) host
        /// writes when it is full.
        folding: Folding;
        /// State of the drive before the volume is used: `fresh`, `filled` once sequentially, or in the
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
