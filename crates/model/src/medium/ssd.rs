//! What makes one solid state drive differ from another.

mod preset;

pub(super) use preset::PRESETS;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parameter::parameters;

/// Which block is emptied next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Collection {
    /// The one with the least current data.
    Greedy,
    /// The one where room gained and age outweigh the moves.
    CostBenefit,
}

/// What the drive does with discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Discards {
    /// The data is not needed any more.
    Honoured,
    /// Nothing.
    Ignored,
}

/// What a flush costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Flushes {
    /// The write buffer is lost without power: a flush programs what it holds.
    Programmed,
    /// The write buffer survives (capacitors): a flush costs nothing.
    Protected,
}

/// How the drive is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Condition {
    /// Erased, but for what is `occupied`.
    Fresh,
    /// Written once from its beginning to its end.
    Filled,
    /// Full, after random writes without end.
    Steady,
}

parameters! {
    /// Everything that makes one drive differ from another.
    numbers {
        /// Bytes that the drive holds; volumes are partitions of it.
        capacity_bytes: 1_048_576..=70_368_744_177_664, "B";
        /// Share of the capacity that holds other data, which nobody touches, in thousandths; of no meaning to
        /// a drive that is not found `fresh`.
        occupied_permille: 0..=1_000, "1/1000";
        /// Channels between controller and dies.
        channels: 1..=64, "1";
        /// Dies on a channel.
        dies_per_channel: 1..=64, "1";
        /// Planes of a die, which read and program together.
        planes: 1..=16, "1";
        /// Bytes of a page, without the spare area for error correction.
        page_bytes: 512..=1_048_576, "B";
        /// Pages of an erase block of one plane.
        pages_per_block: 1..=16_384, "1";
        /// Bytes that the translation maps as one unit; what a write covers only in part is read first.
        mapping_bytes: 512..=1_048_576, "B";
        /// Flash beyond the capacity, in thousandths of the capacity (over-provisioning).
        spare_permille: 10..=4_000, "1/1000";
        /// From cells to a die's register.
        read_ns: 0..=100_000_000, "ns";
        /// From a die's register to cells.
        program_ns: 0..=100_000_000, "ns";
        /// To erase a block.
        erase_ns: 0..=1_000_000_000, "ns";
        /// Rate of a channel.
        channel_bytes_per_s: 1_000_000..=100_000_000_000, "B/s";
        /// Rate of the interface to the host.
        interface_bytes_per_s: 1_000_000..=100_000_000_000, "B/s";
        /// What the controller takes for a command, one after the other: the limit of requests per second.
        command_ns: 0..=10_000_000, "ns";
        /// What a read takes besides, in parallel with others.
        read_latency_ns: 0..=10_000_000, "ns";
        /// What every other command takes besides, in parallel with others.
        write_latency_ns: 0..=10_000_000, "ns";
        /// Buffer for data that was written; 0: every write is on flash before it is answered.
        write_cache_bytes: 0..=68_719_476_736, "B";
        /// Flash with one bit a cell that takes writes first, in thousandths of the capacity; 0: none.
        slc_permille: 0..=500, "1/1000";
        /// Like `program_ns`, for flash with one bit a cell.
        slc_program_ns: 0..=100_000_000, "ns";
        /// Difference of erasures between blocks from which data that lies still is moved; 0: never.
        wear_threshold: 0..=1_000_000, "1";
    }
    choices {
        /// Which block is emptied next: `greedy` or `cost-benefit`.
        collection: Collection;
        /// Whether discards are `honoured` or `ignored`.
        discards: Discards;
        /// Whether a flush is `programmed`, or the write buffer is `protected` against power loss.
        flushes: Flushes;
        /// How the drive is found: `fresh`, `filled` once from its beginning to its end, or in the `steady` state
        /// of random writes.
        condition: Condition;
    }
}

impl Parameters {
    /// Bytes that the drive holds.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The parameter that makes it hold so many bytes, and its value then.
    pub(super) const fn enlarged(&self, size_bytes: u64) -> (&'static str, u64) {
        ("capacity_bytes", size_bytes)
    }
}

pub(super) const TURNS: bool = false;
