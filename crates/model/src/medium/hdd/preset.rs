//! Hard disks that have a name, each after a device that somebody published figures of.

use super::Parameters;
use crate::medium::kind::Parameters as AnyParameters;
use crate::medium::preset::Preset;

pub(in crate::medium) static PRESETS: &[Preset] = &[
    Preset {
        name: "hdd-7200",
        summary: "hard disk, 7,200 rpm, SATA, 500 GB class",
        source: "Seagate, Constellation.2 SAS Product Manual, Rev. H, sections 5.1 and 5.2 (ST9500620SS)",
        parameters: AnyParameters::Hdd(HDD_7200),
    },
    Preset {
        name: "hdd-10k",
        summary: "hard disk, 10,000 rpm, SAS, 600 GB class",
        source: "Seagate, Savvio 10K.4 SAS Product Manual, 100539221 Rev. A, December 2009, sections 4.1 and 4.2 (ST9600204SS)",
        parameters: AnyParameters::Hdd(HDD_10K),
    },
    Preset {
        name: "hdd-5400",
        summary: "laptop hard disk, 5,400 rpm, SATA, 320 GB class",
        source: "Hitachi, 5K320 SATA OEM Specification, Rev. 1.5, April 2010, section 4.4.2 (HTS543232L9SA00)",
        parameters: AnyParameters::Hdd(HDD_5400),
    },
];

/// Speeds, surfaces, cylinders, seeks and overhead are the manual's. It gives 732,998 bytes a track on
/// average and internal rates of 84 to 163 MB/s: the track sizes have that mean and that ratio. Not published
/// and typical: the switch times (the manual's single-track write seek), the number of zones, the buffer's
/// parts.
const HDD_7200: Parameters = Parameters {
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
};

/// Speeds, surfaces, cylinders, seeks and overhead are the manual's. It gives 677,557 bytes a track on
/// average; their ratio from outside to inside is that of the Savvio 10K.1 (753 to 506 Mbit/s, its manual's
/// section 4.1). Not published and typical: the switch times (the manual's single-track write seek), the
/// number of zones, the buffer's parts.
const HDD_10K: Parameters = Parameters {
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
};

/// Speed, seeks and the write settle are the specification's. Track sizes are typical: 70 MB/s outside, as
/// Tom's Hardware measured for the same class (Samsung HM320HI, *2.5" HDD galore*, 2008), half of it inside;
/// the cylinders follow from 320 GB on four surfaces. Also typical: overhead, switch times, zones.
const HDD_5400: Parameters = Parameters {
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
};
