//! The media that have a name, each after a device that somebody published figures of.

use super::hdd::{self, Placement};
use super::sd::{self, Order};
use super::ssd::{self, Collection, Condition, Discards, Flushes};

/// What kind of medium a preset is, with all its parameters.
#[derive(Debug)]
pub(super) enum MediumKind {
    Ram,
    Hdd(hdd::Parameters),
    Ssd(ssd::Parameters),
    Sd(sd::Parameters),
}

/// A medium with a name.
#[derive(Debug)]
pub struct Preset {
    /// What a study or a flag calls it.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Where its figures come from.
    pub source: &'static str,
    pub(super) kind: MediumKind,
}

impl Preset {
    /// Whether it turns: what the kernel is told of the device, and file systems ask for.
    #[must_use]
    pub const fn is_rotational(&self) -> bool {
        matches!(self.kind, MediumKind::Hdd(_))
    }
}

/// Presets are told apart by their names.
impl PartialEq for Preset {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Preset {}

/// Every preset, in the order they are listed.
#[must_use]
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

static PRESETS: [Preset; 9] = [
    Preset { name: "ram", summary: "costs nothing: no time passes", source: "", kind: MediumKind::Ram },
    Preset {
        name: "hdd-7200",
        summary: "hard disk, 7,200 rpm, SATA, 500 GB class",
        source: "Seagate, Constellation.2 SAS Product Manual, Rev. H, sections 5.1 and 5.2 (ST9500620SS)",
        kind: MediumKind::Hdd(HDD_7200),
    },
    Preset {
        name: "hdd-10k",
        summary: "hard disk, 10,000 rpm, SAS, 600 GB class",
        source: "Seagate, Savvio 10K.4 SAS Product Manual, 100539221 Rev. A, December 2009, sections 4.1 and 4.2 (ST9600204SS)",
        kind: MediumKind::Hdd(HDD_10K),
    },
    Preset {
        name: "hdd-5400",
        summary: "laptop hard disk, 5,400 rpm, SATA, 320 GB class",
        source: "Hitachi, 5K320 SATA OEM Specification, Rev. 1.5, April 2010, section 4.4.2 (HTS543232L9SA00)",
        kind: MediumKind::Hdd(HDD_5400),
    },
    Preset {
        name: "ssd",
        summary: "data-centre SSD, SATA, MLC, 28 % spare, protected write buffer",
        source: "Intel, Solid-State Drive DC S3700 Series, Product Specification",
        kind: MediumKind::Ssd(SSD),
    },
    Preset {
        name: "ssd-notrim",
        summary: "like ssd, but the drive ignores discards",
        source: "Intel, Solid-State Drive DC S3700 Series, Product Specification",
        kind: MediumKind::Ssd(ssd::Parameters { discards: Discards::Ignored, ..SSD }),
    },
    Preset {
        name: "ssd-worn",
        summary: "like ssd, but full and in the steady state of random writes before it is used",
        source: "Intel, Solid-State Drive DC S3700 Series, Product Specification",
        kind: MediumKind::Ssd(ssd::Parameters { condition: Condition::Steady, ..SSD }),
    },
    Preset {
        name: "ssd-consumer",
        summary: "consumer SSD, SATA, TLC, 10 % spare, one-bit write cache",
        source: "Samsung, 860 EVO 250 GB, published specification",
        kind: MediumKind::Ssd(SSD_CONSUMER),
    },
    Preset {
        name: "sd",
        summary: "SD card with 4 MiB allocation units, two of them open",
        source: "A. Bergmann, flashbench, README (measurements of a card)",
        kind: MediumKind::Sd(SD),
    },
];

/// Speeds, surfaces, cylinders, seeks and overhead are the manual's. It gives 732,998 bytes a track on average and internal
/// rates of 84 to 163 MB/s: the track sizes have that mean and that ratio. Not published and typical: the switch times (the
/// manual's single-track write seek), the number of zones, the buffer's parts.
const HDD_7200: hdd::Parameters = hdd::Parameters {
    rpm: 7_200,
    surfaces: 4,
    cylinders: 165_800,
    zones: 24,
    outer_track_bytes: 967_438,
    inner_track_bytes: 498_558,
    track_to_track_ns: 230_000,
    average_seek_ns: 7_500_000,
    full_stroke_ns: 17_060_000,
    seek_knee_permille: 195,
    write_settle_ns: 1_000_000,
    head_switch_ns: 440_000,
    cylinder_switch_ns: 440_000,
    command_ns: 200_000,
    interface_bytes_per_s: 300_000_000,
    read_cache_bytes: 32 << 20,
    read_segments: 16,
    write_cache_bytes: 32 << 20,
    queue_depth: 32,
    queue_patience: 64,
    placement: Placement::Scaled,
};

/// Speeds, surfaces, cylinders, seeks and overhead are the manual's. It gives 677,557 bytes a track on average; their ratio
/// from outside to inside is that of the Savvio 10K.1 (753 to 506 Mbit/s, its manual's section 4.1). Not published and
/// typical: the switch times (the manual's single-track write seek), the number of zones, the buffer's parts.
const HDD_10K: hdd::Parameters = hdd::Parameters {
    rpm: 10_000,
    surfaces: 6,
    cylinders: 147_620,
    zones: 24,
    outer_track_bytes: 810_474,
    inner_track_bytes: 544_640,
    track_to_track_ns: 300_000,
    average_seek_ns: 3_800_000,
    full_stroke_ns: 7_810_000,
    seek_knee_permille: 195,
    write_settle_ns: 600_000,
    head_switch_ns: 560_000,
    cylinder_switch_ns: 560_000,
    command_ns: 200_000,
    interface_bytes_per_s: 600_000_000,
    read_cache_bytes: 16 << 20,
    read_segments: 32,
    write_cache_bytes: 16 << 20,
    queue_depth: 64,
    queue_patience: 64,
    placement: Placement::Scaled,
};

/// Speed, seeks and the write settle are the specification's. Track sizes are typical: 70 MB/s outside, as Tom's Hardware
/// measured for the same class (Samsung HM320HI, *2.5" HDD galore*, 2008), half of it inside; the cylinders follow
/// from 320 GB on four surfaces. Also typical: overhead, switch times, zones.
const HDD_5400: hdd::Parameters = hdd::Parameters {
    rpm: 5_400,
    surfaces: 4,
    cylinders: 125_240,
    zones: 24,
    outer_track_bytes: 851_700,
    inner_track_bytes: 425_850,
    track_to_track_ns: 1_000_000,
    average_seek_ns: 12_000_000,
    full_stroke_ns: 20_000_000,
    seek_knee_permille: 195,
    write_settle_ns: 1_000_000,
    head_switch_ns: 1_000_000,
    cylinder_switch_ns: 1_100_000,
    command_ns: 300_000,
    interface_bytes_per_s: 300_000_000,
    read_cache_bytes: 4 << 20,
    read_segments: 8,
    write_cache_bytes: 4 << 20,
    queue_depth: 32,
    queue_patience: 64,
    placement: Placement::Scaled,
};

/// The class of the SATA drives in the ageing papers. The figures are those of the series ("up to"). Eight channels and the
/// flash (264 GB for 200 GB) as Tom's Hardware counted them (*SSD DC S3700 review*, 2012); pages of 8 KiB are those of
/// 25 nm MLC flash. Calibrated: of the 32 % beyond the capacity 28 % are room for data, the rest is taken for parity and bad
/// blocks; four dies a channel; times, typical of that flash, to the published 500 and 460 MB/s, 75,000 and 36,000 random
/// requests a second, 50 and 65 µs.
const SSD: ssd::Parameters = ssd::Parameters {
    channels: 8,
    dies_per_channel: 4,
    planes: 2,
    page_bytes: 8_192,
    pages_per_block: 256,
    mapping_bytes: 4_096,
    spare_permille: 280,
    read_ns: 40_000,
    program_ns: 1_060_000,
    erase_ns: 3_000_000,
    channel_bytes_per_s: 200_000_000,
    interface_bytes_per_s: 500_000_000,
    command_ns: 13_300,
    read_latency_ns: 0,
    write_latency_ns: 43_500,
    write_cache_bytes: 4 << 20,
    slc_permille: 0,
    slc_program_ns: 0,
    wear_threshold: 64,
    collection: Collection::Greedy,
    discards: Discards::Honoured,
    flushes: Flushes::Protected,
    condition: Condition::Fresh,
};

/// Capacity beyond 250 GB and the one-bit part (12 GB with the share that is lent) as published; times are typical of
/// three-bit flash and calibrated to the published 550 and 520 MB/s, 98,000 and 90,000 random requests a second at depth 32,
/// 10,000 and 42,000 at depth 1.
const SSD_CONSUMER: ssd::Parameters = ssd::Parameters {
    channels: 8,
    dies_per_channel: 1,
    planes: 2,
    page_bytes: 16_384,
    pages_per_block: 256,
    mapping_bytes: 4_096,
    spare_permille: 100,
    read_ns: 62_000,
    program_ns: 700_000,
    erase_ns: 3_500_000,
    channel_bytes_per_s: 533_000_000,
    interface_bytes_per_s: 550_000_000,
    command_ns: 10_400,
    read_latency_ns: 11_600,
    write_latency_ns: 6_000,
    write_cache_bytes: 8 << 20,
    slc_permille: 48,
    slc_program_ns: 250_000,
    wear_threshold: 64,
    collection: Collection::Greedy,
    discards: Discards::Honoured,
    flushes: Flushes::Programmed,
    condition: Condition::Fresh,
};

/// Every time follows from the README's two tables, by least squares over the write rates and by the differences at the
/// boundaries of reads; the interface is the high-speed mode of the SD specification.
const SD: sd::Parameters = sd::Parameters {
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

/// The parameters of a hard disk preset, for tests.
#[cfg(test)]
pub(super) fn hdd_parameters(name: &str) -> hdd::Parameters {
    presets()
        .iter()
        .find_map(|p| match &p.kind {
            MediumKind::Hdd(parameters) if p.name == name => Some(parameters.clone()),
            _ => None,
        })
        .unwrap()
}

/// The parameters of an SSD preset, for tests.
#[cfg(test)]
pub(super) fn ssd_parameters(name: &str) -> ssd::Parameters {
    presets()
        .iter()
        .find_map(|p| match &p.kind {
            MediumKind::Ssd(parameters) if p.name == name => Some(parameters.clone()),
            _ => None,
        })
        .unwrap()
}
