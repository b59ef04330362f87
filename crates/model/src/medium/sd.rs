//! The parameters of SD cards.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kind;
use super::parameter::parameters;
use super::preset::Preset;

/// Order in which pages of an open unit may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Order {
    /// Ascending only.
    Linear,
    /// In any order.
    Any,
}

parameters! {
    /// The parameters of an SD card.
    numbers {
        /// Capacity in bytes; volumes are partitions of it.
        capacity_bytes: 1_048_576..=70_368_744_177_664, "B";
        /// Size of an allocation unit (erase block, segment).
        unit_bytes: 65_536..=268_435_456, "B";
        /// Maximum number of allocation units that are open for writing.
        open_units: 1..=256, "1";
        /// Page size of one plane.
        page_bytes: 512..=1_048_576, "B";
        /// Planes that load and program in parallel.
        planes: 1..=16, "1";
        /// Fixed overhead per read.
        read_command_ns: 0..=1_000_000_000, "ns";
        /// Time to load the pages of all planes into the register.
        load_ns: 0..=1_000_000_000, "ns";
        /// Time to switch to another plane's page in the register.
        plane_ns: 0..=1_000_000_000, "ns";
        /// Time to look up another allocation unit, for a read.
        lookup_ns: 0..=1_000_000_000, "ns";
        /// Fixed overhead per write.
        write_command_ns: 0..=1_000_000_000, "ns";
        /// Time to receive and program a page on all planes.
        program_ns: 0..=1_000_000_000, "ns";
        /// Time to copy the pages of all planes.
        copy_ns: 0..=1_000_000_000, "ns";
        /// Time to close an allocation unit, not counting copies.
        close_ns: 0..=10_000_000_000, "ns";
        /// Transfer rate of the host interface, for reads; that of writes is included in `program_ns`.
        interface_bytes_per_s: 1_000_000..=10_000_000_000, "B/s";
    }
    choices {
        /// Order in which pages of an open unit may be written: `linear` or `any`.
        order: Order;
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

pub(super) static PRESETS: &[Preset] = &[
    Preset {
        name: "sd",
        summary: "SD card with 4 MiB allocation units, at most two open",
        source: "A. Bergmann, flashbench, README (measurements of a card)",
        parameters: kind::Parameters::Sd(SD),
    },
    Preset {
        name: "sd-class10",
        summary: "SD card of speed class 10, 16 GB, 4 MiB allocation units, at most five open",
        source: "SD Physical Layer 4.10: minimum performance of the class; copies and closing as measured in flashbench's README",
        parameters: kind::Parameters::Sd(SD_CLASS10),
    },
];

/// Every time follows from the README's two tables, by least squares over the write rates and by the
/// differences at the boundaries of reads; 16 GB are assumed; the interface is the high-speed mode of the SD specification.
const SD: Parameters = Parameters {
    capacity_bytes: 16_000_000_000,
    unit_bytes: 4 << 20,
    open_units: 2,
    page_bytes: 8_192,
    planes: 2,
    read_command_ns: 175_000,
    load_ns: 165_000,
    plane_ns: 53_000,
    lookup_ns: 138_000,
    write_command_ns: 12_800_000,
    program_ns: 1_814_000,
    copy_ns: 757_000,
    close_ns: 64_000_000,
    interface_bytes_per_s: 25_000_000,
    order: Order::Linear,
};

/// The class promises 10 MB/s of writes of 512 KiB in sequence into empty allocation units, of 4 MiB at most on
/// cards of up to 32 GB: times of commands and programs are calibrated to just that, closing a unit included.
/// Assumed: five open units (of 1 to 10 that were seen), pages, and that copying, closing and reading take what
/// they take the card that flashbench's README measured.
const SD_CLASS10: Parameters =
    Parameters { open_units: 5, write_command_ns: 2_000_000, program_ns: 1_320_000, ..SD };
