//! Solid state drives that have a name, each after a device that somebody published figures of.

use super::{Collection, Condition, Discards, Flushes, Parameters};
use crate::medium::kind::Parameters as AnyParameters;
use crate::medium::preset::Preset;

pub(in crate::medium) static PRESETS: &[Preset] = &[
    Preset {
        name: "ssd",
        summary: "data-centre SSD, SATA, MLC, 28 % spare, protected write buffer",
        source: "Intel, Solid-State Drive DC S3700 Series, Product Specification",
        parameters: AnyParameters::Ssd(SSD),
    },
    Preset {
        name: "ssd-notrim",
        summary: "like ssd, but the drive ignores discards",
        source: "Intel, Solid-State Drive DC S3700 Series, Product Specification",
        parameters: AnyParameters::Ssd(Parameters { discards: Discards::Ignored, ..SSD }),
    },
    Preset {
        name: "ssd-worn",
        summary: "like ssd, but full and in the steady state of random writes before it is used",
        source: "Intel, Solid-State Drive DC S3700 Series, Product Specification",
        parameters: AnyParameters::Ssd(Parameters { condition: Condition::Steady, ..SSD }),
    },
    Preset {
        name: "ssd-consumer",
        summary: "consumer SSD, SATA, TLC, 10 % spare, one-bit write cache",
        source: "Samsung, 860 EVO 250 GB, published specification",
        parameters: AnyParameters::Ssd(SSD_CONSUMER),
    },
];

/// The class of the SATA drives in the ageing papers. The figures are those of the series ("up to"). Eight
/// channels and the flash (264 GB for 200 GB) as Tom's Hardware counted them (*SSD DC S3700 review*, 2012);
/// pages of 8 KiB are those of 25 nm MLC flash. Calibrated: of the 32 % beyond the capacity 28 % are room for
/// data, the rest is taken for parity and bad blocks; four dies a channel; times, typical of that flash, to
/// the published 500 and 460 MB/s, 75,000 and 36,000 random requests per second, 50 and 65 µs.
const SSD: Parameters = Parameters {
    capacity_bytes: 200_049_647_616,
    occupied_permille: 0,
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

/// Capacity beyond 250 GB and the one-bit part (12 GB with the share that is lent) as published; times are
/// typical of three-bit flash and calibrated to the published 550 and 520 MB/s, 98,000 and 90,000 random
/// requests per second at depth 32, 10,000 and 42,000 at depth 1.
const SSD_CONSUMER: Parameters = Parameters {
    capacity_bytes: 250_059_350_016,
    occupied_permille: 0,
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
