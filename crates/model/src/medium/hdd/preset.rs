//! Presets of hard disks, each modelled after a device with published figures.

use super::{Arrival, Bands, Parameters};
use crate::medium::kind::Parameters as AnyParameters;
use crate::medium::preset::Preset;

pub(in crate::medium) static PRESETS: &[Preset] = &[
    Preset {
        name: "hdd-7200",
        summary: "hard disk, 7,200 rpm, SAS, 500 GB class",
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
        name: "hdd-10k-uncached",
        summary: "like hdd-10k, with the write cache disabled, as in servers",
        source: "Seagate, Savvio 10K.4 SAS Product Manual, 100539221 Rev. A, December 2009, sections 4.1 and 4.2 (ST9600204SS)",
        parameters: AnyParameters::Hdd(Parameters { write_cache_bytes: 0, ..HDD_10K }),
    },
    Preset {
        name: "hdd-5400",
        summary: "laptop hard disk, 5,400 rpm, SATA, 320 GB class",
        source: "Hitachi, 5K320 SATA OEM Specification, Rev. 1.5, April 2010, section 4.4.2 (HTS543232L9SA00)",
        parameters: AnyParameters::Hdd(HDD_5400),
    },
    Preset {
        name: "hdd-500gb",
        summary: "desktop hard disk, 7,200 rpm, SATA, 500 GB on one surface",
        source: "Toshiba, DT01ACA050 (rotational speed, buffer, one surface of a 1 TB platter); seeks and rates assumed",
        parameters: AnyParameters::Hdd(HDD_500GB),
    },
    Preset {
        name: "hdd-20tb",
        summary: "nearline hard disk, 7,200 rpm, conventional recording, 20 TB",
        source: "Seagate, Exos X20 (rotational speed, platters, buffer, 285 MB/s); track-to-track seek: HGST, Ultrastar HC310 specification, section 4.5.1; other seeks assumed",
        parameters: AnyParameters::Hdd(HDD_20TB),
    },
    Preset {
        name: "smr",
        summary: "archive hard disk, drive-managed shingled recording, 5,900 rpm, 8 TB",
        source: "Seagate, ST8000AS0002 (rotational speed, platters, buffer); bands and persistent cache: Aghayev and Desnoyers, FAST 2015, Aghayev et al., FAST 2017; seeks and inner rate assumed",
        parameters: AnyParameters::Hdd(SMR),
    },
];

/// Speeds, surfaces, cylinders, seeks and overhead are the manual's. It gives 732,998 bytes per track on
/// average and internal rates of 84 to 163 MB/s: the track sizes have that mean and that ratio. Seeks before
/// writes have a curve of their own through the manual's three figures (section 5.2.1: 0.44, 8.5 and 18.08 ms).
/// Not published and typical: the switch times (the manual's single-track write seek), the number of zones, the
/// buffer's parts.
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
    track_to_track_write_ns: 440_000,
    average_seek_write_ns: 8_500_000,
    full_stroke_write_ns: 18_080_000,
    head_switch_ns: 440_000,
    cylinder_switch_ns: 440_000,
    command_ns: 200_000,
    interface_bytes_per_s: 300_000_000,
    read_cache_bytes: 32 << 20,
    read_segments: 16,
    write_cache_bytes: 32 << 20,
    queue_depth: 32,
    queue_patience: 64,
    band_bytes: 0,
    media_cache_bytes: 0,
    media_cache_ranges: 1,
    direct_write_bytes: 512,
    idle_ns: 0,
    bands: Bands::Empty,
    arrival: Arrival::Waits,
};

/// Speeds, surfaces, cylinders, seeks and overhead are the manual's. It gives 677,557 bytes per track on average
/// and sustained rates of 135 MB/s outside and 72 MB/s inside: the track sizes have that mean and that ratio.
/// Not published and typical: the switch times (the manual's single-track write seek), the number of zones, the
/// buffer and its parts.
const HDD_10K: Parameters = Parameters {
    rpm: 10_000,
    surfaces: 6,
    cylinders: 147_620,
    zones: 24,
    outer_track_bytes: 883_770,
    inner_track_bytes: 471_344,
    track_to_track_ns: 300_000,
    average_seek_ns: 3_800_000,
    full_stroke_ns: 7_810_000,
    seek_knee_permille: 195,
    track_to_track_write_ns: 560_000,
    average_seek_write_ns: 4_400_000,
    full_stroke_write_ns: 8_180_000,
    head_switch_ns: 560_000,
    cylinder_switch_ns: 560_000,
    command_ns: 200_000,
    interface_bytes_per_s: 600_000_000,
    read_cache_bytes: 16 << 20,
    read_segments: 32,
    write_cache_bytes: 16 << 20,
    queue_depth: 64,
    queue_patience: 64,
    band_bytes: 0,
    media_cache_bytes: 0,
    media_cache_ranges: 1,
    direct_write_bytes: 512,
    idle_ns: 0,
    bands: Bands::Empty,
    arrival: Arrival::Waits,
};

/// Speed and seeks are the specification's. Track sizes are typical: 70 MB/s outside, as
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
    track_to_track_write_ns: 1_100_000,
    average_seek_write_ns: 13_000_000,
    full_stroke_write_ns: 21_000_000,
    head_switch_ns: 1_000_000,
    cylinder_switch_ns: 1_100_000,
    command_ns: 300_000,
    interface_bytes_per_s: 300_000_000,
    read_cache_bytes: 4 << 20,
    read_segments: 8,
    write_cache_bytes: 4 << 20,
    queue_depth: 32,
    queue_patience: 64,
    band_bytes: 0,
    media_cache_bytes: 0,
    media_cache_ranges: 1,
    direct_write_bytes: 512,
    idle_ns: 0,
    bands: Bands::Empty,
    arrival: Arrival::Waits,
};

/// A relative of the desktop disk of ageing studies, the DT01ACA050: speed, 32 MB of buffer and one surface of a
/// 1 TB platter are published, 500,107,862,016 bytes are what every disk of the class holds. Assumed, because no
/// specification was at hand: 190 MB/s outside and 90 MB/s inside (as users measure this disk), the seeks (those
/// commonly given for Seagate's ST500DM002 of the same class; the full stroke is typical), the switch time,
/// overhead, zones and the buffer's parts. The number of tracks follows from capacity and rates.
const HDD_500GB: Parameters = Parameters {
    rpm: 7_200,
    surfaces: 1,
    cylinders: 382_790,
    zones: 24,
    outer_track_bytes: 1_773_300,
    inner_track_bytes: 840_000,
    track_to_track_ns: 1_000_000,
    average_seek_ns: 8_500_000,
    full_stroke_ns: 18_000_000,
    track_to_track_write_ns: 1_200_000,
    average_seek_write_ns: 9_500_000,
    full_stroke_write_ns: 19_000_000,
    read_cache_bytes: 32 << 20,
    write_cache_bytes: 32 << 20,
    head_switch_ns: 1_000_000,
    cylinder_switch_ns: 1_000_000,
    ..HDD_7200
};

/// Ten platters, 7,200 rpm, 256 MB of buffer and 285 MB/s outside are published for the Exos X20, and 20 TB are
/// 20,000,588,955,648 bytes. Not published and assumed: seeks to the next track and the switch times are those of
/// a smaller relative (Ultrastar HC310: 0.23 and 0.32 ms), the averages (7.5 and 8.0 ms) and the full stroke (15
/// and 15.5 ms) typical of the class, half of the outer rate inside (0.48 to 0.53 on disks whose maker gives both),
/// overhead, zones and the buffer's parts. The number of tracks follows from capacity and rates.
const HDD_20TB: Parameters = Parameters {
    rpm: 7_200,
    surfaces: 20,
    cylinders: 540_700,
    zones: 32,
    outer_track_bytes: 2_466_200,
    inner_track_bytes: 1_233_100,
    track_to_track_ns: 230_000,
    average_seek_ns: 7_500_000,
    full_stroke_ns: 15_000_000,
    track_to_track_write_ns: 320_000,
    average_seek_write_ns: 8_000_000,
    full_stroke_write_ns: 15_500_000,
    head_switch_ns: 320_000,
    cylinder_switch_ns: 320_000,
    interface_bytes_per_s: 600_000_000,
    read_cache_bytes: 128 << 20,
    read_segments: 32,
    write_cache_bytes: 128 << 20,
    ..HDD_7200
};

/// After the disk that the literature on drive-managed shingling measured. Published: six platters of 1.33 TB, 128 MB
/// of buffer, and 190 MB/s at most. Found from outside on disks of this series: one persistent cache of some 20 GB,
/// bands of some 30 MiB, a map of some 200,000 ranges, cleaning in idle time, and three times the band moved for a
/// band that is cleaned. Assumed: 5,900 rpm, the cache on the outer edge (both places were found), sequences of
/// 128 KiB and more go to a band directly, one second without requests before cleaning begins, empty bands when the
/// disk is made, seeks (the averages are typical of slow nearline disks), switch times, half of the outer rate
/// inside, zones, overhead and the halves of the buffer. The number of tracks follows from capacity and rates.
const SMR: Parameters = Parameters {
    rpm: 5_900,
    surfaces: 12,
    cylinders: 420_000,
    zones: 32,
    outer_track_bytes: 2_122_200,
    inner_track_bytes: 1_061_100,
    track_to_track_ns: 1_000_000,
    average_seek_ns: 11_000_000,
    full_stroke_ns: 21_000_000,
    track_to_track_write_ns: 1_200_000,
    average_seek_write_ns: 12_000_000,
    full_stroke_write_ns: 22_000_000,
    head_switch_ns: 1_000_000,
    cylinder_switch_ns: 1_000_000,
    interface_bytes_per_s: 600_000_000,
    read_cache_bytes: 64 << 20,
    read_segments: 32,
    write_cache_bytes: 64 << 20,
    band_bytes: 30 << 20,
    media_cache_bytes: 20_000_000_000,
    media_cache_ranges: 200_000,
    direct_write_bytes: 128 << 10,
    idle_ns: 1_000_000_000,
    bands: Bands::Empty,
    ..HDD_7200
};
