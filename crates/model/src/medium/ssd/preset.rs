//! Presets of solid state drives, each modelled after a device with published figures.

use super::{Collection, Condition, Discards, Flushes, Folding, Parameters};
use crate::medium::kind::Parameters as AnyParameters;
use crate::medium::preset::Preset;

pub(in crate::medium) static PRESETS: &[Preset] = &[
    Preset {
        name: "ssd",
        summary: "data-centre SSD, SATA, MLC, 28 % spare, write buffer with power-loss protection",
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
        summary: "like ssd, but full and in the steady state of random writes at the start",
        source: "Intel, Solid-State Drive DC S3700 Series, Product Specification",
        parameters: AnyParameters::Ssd(Parameters { condition: Condition::Steady, ..SSD }),
    },
    Preset {
        name: "ssd-consumer",
        summary: "consumer SSD, SATA, TLC, 10 % spare, SLC cache",
        source: "Samsung, 860 EVO 250 GB, published specification",
        parameters: AnyParameters::Ssd(SSD_CONSUMER),
    },
    Preset {
        name: "nvme-tlc",
        summary: "consumer SSD, NVMe, TLC, 1 TB, large SLC cache",
        source: "Samsung, 980 PRO 1 TB, published specification; die mapping: Jun et al., FAST 2024; block size: ISSCC 2018",
        parameters: AnyParameters::Ssd(NVME_TLC),
    },
    Preset {
        name: "nvme-qlc",
        summary: "consumer SSD, NVMe, QLC, 1 TB, mapping table partly in host memory, very large SLC cache",
        source: "Intel, 660p 1 TB, published specification and reviews of 2018; instead of the drive's own memory, 64 MB of host memory hold the mapping table (assumed)",
        parameters: AnyParameters::Ssd(NVME_QLC),
    },
    Preset {
        name: "ufs",
        summary: "phone storage, UFS 3.1, 512 GB",
        source: "Samsung, eUFS 3.1 512 GB, 2020 (rates and requests per second)",
        parameters: AnyParameters::Ssd(UFS),
    },
    Preset {
        name: "emmc",
        summary: "embedded storage, eMMC 5.1, 64 GB",
        source: "Samsung, eMMC 5.1 64 GB (rates and requests per second); JEDEC eMMC 5.1 (queue, bus)",
        parameters: AnyParameters::Ssd(EMMC),
    },
    Preset {
        name: "sd-a2",
        summary: "SD card of application class A2 in a host with command queue and cache, 64 GB",
        source: "SD Physical Layer 6.0, class A2: minimum performance of the class",
        parameters: AnyParameters::Ssd(SD_A2),
    },
];

/// The class of the SATA drives in the ageing papers. The figures are those of the series ("up to"). Eight
/// channels and the flash (264 GB for 200 GB) as Tom's Hardware counted them (*SSD DC S3700 review*, 2012);
/// pages of 8 KiB are those of 25 nm MLC flash. Calibrated: of the 32 % beyond the capacity 28 % are room for
/// data, the rest is taken for parity and bad blocks; four dies per channel; times, typical of that flash, to
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
    write_command_ns: 13_300,
    read_latency_ns: 0,
    write_latency_ns: 43_500,
    write_cache_bytes: 4 << 20,
    slc_permille: 0,
    slc_program_ns: 0,
    slc_read_ns: 40_000,
    slc_least_permille: 0,
    map_cache_bytes: 0,
    idle_ns: 0,
    wear_threshold: 64,
    collection: Collection::Greedy,
    discards: Discards::Honoured,
    flushes: Flushes::Protected,
    folding: Folding::Beside,
    condition: Condition::Fresh,
};

/// Capacity beyond 250 GB and the SLC cache (12 GB with its dynamic part) as published; times are
/// typical of three-bit flash and calibrated to the published 550 and 520 MB/s, 98,000 and 90,000 random
/// requests per second at depth 32, 10,000 and 42,000 at depth 1. Assumed: one second without requests before the
/// SLC cache is emptied.
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
    command_ns: 10_200,
    write_command_ns: 11_100,
    read_latency_ns: 11_600,
    write_latency_ns: 5_300,
    write_cache_bytes: 8 << 20,
    slc_permille: 48,
    slc_program_ns: 250_000,
    slc_read_ns: 62_000,
    slc_least_permille: 48,
    map_cache_bytes: 0,
    idle_ns: 1_000_000_000,
    wear_threshold: 64,
    collection: Collection::Greedy,
    discards: Discards::Honoured,
    flushes: Flushes::Programmed,
    folding: Folding::Beside,
    condition: Condition::Fresh,
};

/// Published: 7,000 and 5,000 MB/s, 1,000,000 random reads and writes per second, 22,000 random reads at depth 1.
/// Found from outside (Jun et al., FAST 2024): 32 KiB in sequence on a die, 1 MiB before the first die is next,
/// 166 MB/s of reads that all meet on one die. So there are 32 dies, each of two planes with pages of 16 KiB; 1 TB
/// on 32 dies are dies of 256 Gbit. Not published by the maker: 18 MiB of a block, as other three-bit flash of two
/// planes has (a superblock of 1,152 MiB), and an SLC cache of 114 GB of which 6 GB are left on a full drive,
/// 2,000 MB/s behind it and 60,000 random writes at depth 1, as reviews give them. Calibrated to these figures: the
/// times. Reading one page at a time, a die has to be faster (21.3 us) than its flash (40 to 45 us), whose two
/// planes read independently. Assumed: spare, buffer, idle time, collection and levelling.
const NVME_TLC: Parameters = Parameters {
    capacity_bytes: 1_000_204_886_016,
    channels: 8,
    dies_per_channel: 4,
    planes: 2,
    page_bytes: 16_384,
    pages_per_block: 1_152,
    spare_permille: 70,
    read_ns: 21_300,
    program_ns: 497_000,
    erase_ns: 3_500_000,
    channel_bytes_per_s: 1_200_000_000,
    interface_bytes_per_s: 7_000_000_000,
    command_ns: 970,
    write_command_ns: 970,
    read_latency_ns: 18_800,
    write_latency_ns: 15_100,
    write_cache_bytes: 4 << 20,
    slc_permille: 114,
    slc_program_ns: 180_000,
    slc_read_ns: 21_300,
    slc_least_permille: 6,
    folding: Folding::Idle,
    ..SSD_CONSUMER
};

/// Published for the 660p: 1,800 MB/s both ways, at most 220,000 random requests per second, an SLC cache of
/// 140 GB when empty and 12 GB when full; some 100 MB/s behind it was measured. Eight dies of 1 Tbit, four
/// planes each, are 1 TB. Calibrated: the program time, to the measured rate (15 MB/s per die; four-bit flash
/// of 2020 writes 30 MB/s), and the read time of the SLC cache, to the published random reads, which are
/// those of the SLC cache. Assumed: read time of 85 us, block size of 48 MiB, folding in parallel with the
/// host's writes once the SLC cache is full, an SLC cache that shrinks linearly with fullness, channels, spare,
/// latencies, buffer, idle time, and a host that lends 64 MB, which hold the mapping table of 64 GB: drives of
/// this class without memory of their own do that.
const NVME_QLC: Parameters = Parameters {
    capacity_bytes: 1_024_209_543_168,
    channels: 4,
    dies_per_channel: 2,
    planes: 4,
    page_bytes: 16_384,
    pages_per_block: 3_072,
    spare_permille: 70,
    read_ns: 85_000,
    program_ns: 4_230_000,
    erase_ns: 5_000_000,
    channel_bytes_per_s: 800_000_000,
    interface_bytes_per_s: 1_800_000_000,
    command_ns: 4_400,
    write_command_ns: 4_500,
    read_latency_ns: 12_000,
    write_latency_ns: 15_000,
    write_cache_bytes: 8 << 20,
    slc_permille: 137,
    slc_program_ns: 205_000,
    slc_read_ns: 30_500,
    slc_least_permille: 12,
    map_cache_bytes: 64 << 20,
    ..SSD_CONSUMER
};

/// Published: 2,100 and 1,200 MB/s, 100,000 and 70,000 random requests per second. Calibrated to these: times of cells
/// and commands. Assumed, because nothing is published: two channels, eight dies of four planes, a map of which the
/// controller has 1 MiB at hand (its own memory; the map of 1 GiB), spare, buffer, and no SLC cache (standard and
/// maker do not say how large it is: the published rate holds without end here).
const UFS: Parameters = Parameters {
    capacity_bytes: 512_110_190_592,
    channels: 2,
    dies_per_channel: 4,
    planes: 4,
    page_bytes: 16_384,
    pages_per_block: 1_152,
    spare_permille: 70,
    read_ns: 45_000,
    program_ns: 375_000,
    erase_ns: 3_500_000,
    channel_bytes_per_s: 1_200_000_000,
    interface_bytes_per_s: 2_100_000_000,
    command_ns: 9_900,
    write_command_ns: 14_200,
    read_latency_ns: 20_000,
    write_latency_ns: 20_000,
    write_cache_bytes: 4 << 20,
    slc_permille: 0,
    slc_program_ns: 0,
    slc_read_ns: 45_000,
    slc_least_permille: 0,
    map_cache_bytes: 1 << 20,
    ..SSD_CONSUMER
};

/// Published: 250 and 125 MB/s, 11,000 and 13,000 random requests per second with a queue of 32, 400 MB/s of bus.
/// Calibrated to these: times of cells and commands. Assumed: one die of four planes (fewer reads than writes per
/// second are what one die at a time gives), the rest as for `ufs`; CACHE_SIZE of such devices was seen from 0.1 to
/// 8 MiB.
const EMMC: Parameters = Parameters {
    capacity_bytes: 62_537_072_640,
    channels: 1,
    dies_per_channel: 1,
    planes: 4,
    page_bytes: 16_384,
    pages_per_block: 768,
    spare_permille: 70,
    read_ns: 80_000,
    program_ns: 360_000,
    erase_ns: 5_000_000,
    channel_bytes_per_s: 400_000_000,
    interface_bytes_per_s: 250_000_000,
    command_ns: 40_000,
    write_command_ns: 76_000,
    read_latency_ns: 50_000,
    write_latency_ns: 50_000,
    write_cache_bytes: 1 << 20,
    ..UFS
};

/// The requirements of the class, and no more: 4,000 random reads and 2,000 random writes of 4 KiB per
/// second, with command queue and cache, and 10 MB/s of sequential writes; 90 MB/s of reads are what makers
/// give for UHS-I cards. With a host that does not use queue and cache, such cards were found to be no faster
/// than others: use `sd-class10` then. Everything else is assumed.
const SD_A2: Parameters = Parameters {
    capacity_bytes: 64_000_000_000,
    channels: 1,
    dies_per_channel: 1,
    planes: 2,
    page_bytes: 16_384,
    pages_per_block: 768,
    spare_permille: 70,
    read_ns: 80_000,
    program_ns: 3_050_000,
    erase_ns: 5_000_000,
    channel_bytes_per_s: 200_000_000,
    interface_bytes_per_s: 90_600_000,
    command_ns: 250_000,
    write_command_ns: 500_000,
    read_latency_ns: 50_000,
    write_latency_ns: 50_000,
    write_cache_bytes: 512 << 10,
    ..UFS
};
