//! What a real device says of its own wear ([`fsage_model::wear`]).
//!
//! sysfs is asked first (eMMC, UFS), where that costs nothing. Then `smartctl -j -x` and, of NVMe, `nvme smart-log`
//! are run, where they are installed: they read, and only from the whole disk. A device without hardware of its own
//! (loop, device mapper, virtual disks) is never asked. What a device or program says is not trusted: a value of a
//! wrong type, or beyond what it can be, is no counter, and names are shortened to plain words.

mod nvme;
mod smartctl;
mod sysfs;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_model::wear::{WearCounter, WearKind, WearReading};
use rustix::fs::{major, minor};
use serde_json::Value;

use crate::host::tool::{self, Children, Course};
use crate::host::{HostError, block, chain};

/// How long a program may take: a disk that sleeps wakes up within it.
const LIMIT: Duration = Duration::from_secs(10);
/// Most output of a program that is read; what says more is ended.
const MOST_OUTPUT: usize = 4 << 20;
/// Most counters of one reading.
const MOST_COUNTERS: usize = 64;
/// Longest name of a counter, in characters.
const LONGEST_NAME: usize = 60;
/// Longest reason why there is none, in characters.
const LONGEST_REASON: usize = 200;

/// Runs a program with a short limit; what it wrote to standard output, whatever its status.
type Run<'a> = dyn FnMut(&[String]) -> Result<String, HostError> + 'a;

/// What the disk that `device` is, or is a partition of, says of its wear; nothing where it has no hardware of its own.
/// A disk that does not say is a reading with the reason ([`WearReading::missing`]). Takes up to some tens of
/// milliseconds; with programs that hang, 20 s.
///
/// # Errors
/// `device` is missing or no block device.
pub fn read(device: &Path, children: &Children) -> Result<Option<WearReading>, HostError> {
    let metadata = device.metadata().map_err(HostError::file("inspect", device))?;
    if !metadata.file_type().is_block_device() {
        return Err(HostError::Senseless { what: format!("{} is not a block device", device.display()) });
    }
    let number = metadata.rdev();
    let link = PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number)));
    let own = link.canonicalize().map_err(HostError::file("find", &link))?;
    let disk = if own.join("partition").exists() { own.parent().unwrap_or(&own) } else { &own };
    let reading = of_disk(disk, &mut |argv| output(children, argv));
    Ok(reading.map(|reading| WearReading { serial: block::disk_serial(number), ..reading }))
}

/// All of what a program writes to standard output, which can be more than [`tool::run`] keeps.
fn output(children: &Children, argv: &[String]) -> Result<String, HostError> {
    let mut said = Vec::new();
    let mut keep = |bytes: &[u8]| {
        said.extend_from_slice(bytes);
        if said.len() > MOST_OUTPUT { Course::Kill } else { Course::Continue }
    };
    tool::run_watched(children, (argv, None), LIMIT, &mut keep)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// How a disk is attached, as far as that tells who knows its wear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bus {
    Nvme,
    /// Also ATA and USB, which the kernel shows as SCSI.
    Scsi,
    /// eMMC and SD cards.
    Mmc,
}

impl Bus {
    /// Of the disk with this folder in sysfs; nothing where it has no hardware, or none that could tell (virtio).
    fn of(disk: &Path) -> Option<Self> {
        let is = |name: &str| disk.components().any(|part| part.as_os_str() == name);
        // The kernel shows an NVMe disk with several paths as a device of its own.
        if is("virtual") && !is("nvme-subsystem") {
            return None;
        }
        let subsystem = fs::read_link(disk.join("device/subsystem")).ok()?;
        match subsystem.file_name()?.to_str()? {
            "nvme" | "nvme-subsystem" => Some(Self::Nvme),
            "scsi" => Some(Self::Scsi),
            "mmc" => Some(Self::Mmc),
            _ => None,
        }
    }
}

fn of_disk(disk: &Path, run: &mut Run<'_>) -> Option<WearReading> {
    let bus = Bus::of(disk)?;
    // A slash in the name of a device is an exclamation mark in sysfs.
    let device = Path::new("/dev").join(disk.file_name()?.to_str()?.replace('!', "/"));
    let found = |source: String, counters: Vec<WearCounter>| WearReading {
        device: device.clone(),
        serial: String::new(),
        source,
        counters,
        missing: String::new(),
    };
    if let Some((folder, counters)) = sysfs::counters(disk) {
        return Some(found(folder.display().to_string(), counters));
    }
    let node = device.display().to_string();
    let mut why = Vec::new();
    for (argv, parse) in programs(bus, &node) {
        let said = run(&argv).map_err(|error| plain(&chain(&error), LONGEST_REASON));
        match said.and_then(|text| parse(&text)) {
            Ok(mut counters) => {
                counters.truncate(MOST_COUNTERS);
                return Some(found(argv.join(" "), counters));
            }
            Err(reason) => why.push(format!("{}: {reason}", argv[0])),
        }
    }
    if why.is_empty() {
        why.push("sysfs has no life time of it; SD cards have none".to_owned());
    }
    Some(WearReading { missing: why.join("; "), ..found(String::new(), Vec::new()) })
}

/// Reads what a program said: counters, at least one, or why there are none.
type Parse = fn(&str) -> Result<Vec<WearCounter>, String>;

/// The command lines to try, in order.
fn programs(bus: Bus, node: &str) -> Vec<(Vec<String>, Parse)> {
    let argv = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let smartctl = || (argv(&["smartctl", "-j", "-x", node]), smartctl::parse as Parse);
    let nvme = || (argv(&["nvme", "smart-log", "-o", "json", node]), nvme::parse as Parse);
    match bus {
        Bus::Nvme => vec![smartctl(), nvme()],
        Bus::Scsi => vec![smartctl()],
        Bus::Mmc => Vec::new(),
    }
}

/// What every parser makes of output, of whichever program.
#[must_use]
pub fn parsed(text: &str) -> Vec<WearCounter> {
    let parsers = [smartctl::parse as Parse, nvme::parse as Parse];
    parsers.into_iter().filter_map(|parse| parse(text).ok()).flatten().collect()
}

/// A counter, if its value is within what its kind can be.
fn counter(kind: WearKind, name: &str, value: u64, step: u64) -> Option<WearCounter> {
    let most = match kind {
        // One byte in every source.
        WearKind::Used => 255,
        WearKind::SpareLeft => 100,
        WearKind::SpareState => 3,
        WearKind::HostWritten | WearKind::FlashWritten | WearKind::MediaErrors => u64::MAX,
    };
    (value <= most && step > 0).then(|| WearCounter { kind, name: plain(name, LONGEST_NAME), value, step })
}

/// A counter of units that have so many bytes; none where the product is beyond what 64 bits hold, which no device
/// can have written.
fn bytes(kind: WearKind, name: &str, units: u64, unit_bytes: u64) -> Option<WearCounter> {
    counter(kind, name, units.checked_mul(unit_bytes)?, unit_bytes)
}

/// A whole number below `key`: as a number, as one that some versions write as `456.0`, or as digits beside it
/// (`key_s`), which smartctl adds where a JSON number could not hold it.
fn number(object: &Value, key: &str) -> Option<u64> {
    let digits = |value: &Value| value.as_str()?.parse::<u64>().ok();
    object.get(format!("{key}_s")).and_then(digits).or_else(|| whole(object.get(key)?))
}

/// A JSON number that is whole and exact.
fn whole(value: &Value) -> Option<u64> {
    /// Whole numbers are exact below 2^53.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let written_as_float = || {
        let value = value.as_f64()?;
        let is_whole = value.fract() == 0.0 && (0.0..EXACT).contains(&value);
        is_whole.then(|| fsage_model::quantity::to_u64(value))
    };
    value.as_u64().or_else(written_as_float)
}

/// Text of a device or program as plain words: printable ASCII, not too long.
fn plain(text: &str, longest: usize) -> String {
    let printable = |c: char| if c.is_ascii_graphic() { c } else { ' ' };
    let words: String = text.chars().take(4 * longest).map(printable).collect();
    let words = words.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(longest).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Folder of a disk on such a bus, with files below it.
    fn disk(name: &str, subsystem: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join(name);
        fs::create_dir_all(disk.join("device")).unwrap();
        symlink(format!("../../bus/{subsystem}"), disk.join("device/subsystem")).unwrap();
        for (file, text) in files {
            let path = disk.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (folder, disk)
    }

    const NVME: &str = include_str!("../../tests/data/wear/nvme-smartctl.json");
    const NVME_CLI: &str = include_str!("../../tests/data/wear/nvme-cli.json");

    #[test]
    fn sysfs_is_asked_before_any_program() {
        let (_folder, disk) =
            disk("mmcblk0", "mmc", &[("device/life_time", "0x01 0x02\n"), ("device/pre_eol_info", "0x01\n")]);
        let reading = of_disk(&disk, &mut |_| unreachable!()).unwrap();
        assert_eq!(reading.device, Path::new("/dev/mmcblk0"));
        assert!(reading.counters.len() == 3 && reading.source.ends_with("mmcblk0/device"), "{reading:?}");
    }

    #[test]
    fn programs_are_run_on_the_whole_disk_until_one_tells() {
        let (_folder, disk) = disk("nvme0n1", "nvme", &[]);
        let mut ran = Vec::new();
        let reading = of_disk(&disk, &mut |argv| {
            ran.push(argv.join(" "));
            Ok(NVME.to_owned())
        });
        assert_eq!(ran, ["smartctl -j -x /dev/nvme0n1"]);
        assert_eq!(reading.unwrap().source, ran[0]);
        let mut ran = Vec::new();
        let reading = of_disk(&disk, &mut |argv| {
            ran.push(argv[0].clone());
            match argv[0].as_str() {
                "smartctl" => Err(HostError::NoProgram { program: "smartctl".to_owned() }),
                _ => Ok(NVME_CLI.to_owned()),
            }
        });
        assert_eq!(ran, ["smartctl", "nvme"]);
        assert_eq!(reading.unwrap().source, "nvme smart-log -o json /dev/nvme0n1");
    }

    #[test]
    fn a_disk_that_does_not_tell_is_a_reading_with_the_reason() {
        let (_folder, disk) = disk("sda", "scsi", &[]);
        let reading = of_disk(&disk, &mut |_| Ok("{\"smartctl\": {}}".to_owned())).unwrap();
        assert!(reading.counters.is_empty() && reading.missing.starts_with("smartctl: "), "{reading:?}");
        let missing = |_: &[String]| Err(HostError::NoProgram { program: "smartctl".to_owned() });
        let reading = of_disk(&disk, &mut { missing }).unwrap();
        assert!(reading.missing.contains("not installed"), "{reading:?}");
        let (_folder, card) = self::disk("mmcblk1", "mmc", &[]);
        let reading = of_disk(&card, &mut |_| unreachable!()).unwrap();
        assert!(reading.missing.contains("SD cards"), "{reading:?}");
    }

    #[test]
    fn a_disk_without_hardware_is_never_asked() {
        for subsystem in ["virtio", "xen", "memstick"] {
            let (_folder, disk) = disk("vda", subsystem, &[]);
            assert_eq!(of_disk(&disk, &mut |_| unreachable!()), None, "{subsystem}");
        }
        assert_eq!(Bus::of(Path::new("/sys/devices/virtual/block/loop0")), None);
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("virtual/block/loop0");
        fs::create_dir_all(below.join("device")).unwrap();
        symlink("../../bus/scsi", below.join("device/subsystem")).unwrap();
        assert_eq!(Bus::of(&below), None);
        let several_paths = folder.path().join("virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
        fs::create_dir_all(several_paths.join("device")).unwrap();
        symlink("../../class/nvme-subsystem", several_paths.join("device/subsystem")).unwrap();
        assert_eq!(Bus::of(&several_paths), Some(Bus::Nvme));
    }

    #[test]
    fn loop_devices_of_this_host_are_not_asked_and_files_refused() {
        let children = Children::default();
        if Path::new("/dev/loop0").exists() {
            assert_eq!(read(Path::new("/dev/loop0"), &children).unwrap(), None);
        }
        assert!(matches!(read(Path::new("/dev/null"), &children), Err(HostError::Senseless { .. })));
        assert!(matches!(read(Path::new("/dev/no-such"), &children), Err(HostError::File { .. })));
    }

    #[test]
    fn numbers_are_whole_exact_and_within_64_bits() {
        let object = serde_json::json!({
            "int": 7, "float": 456.0, "half": 0.5, "negative": -1, "huge": 1e300, "text": "7", "nothing": null,
            "big": 9.1e15, "unsafe": 1.0, "unsafe_s": "18446744073709551615", "more": 3, "more_s": "3 or so",
            "beyond_s": "18446744073709551616",
        });
        for (key, wanted) in [
            ("int", Some(7)),
            ("float", Some(456)),
            ("unsafe", Some(u64::MAX)),
            ("more", Some(3)),
            ("half", None),
            ("negative", None),
            ("huge", None),
            ("big", None),
            ("text", None),
            ("nothing", None),
            ("beyond", None),
            ("none", None),
        ] {
            assert_eq!(number(&object, key), wanted, "{key}");
        }
        assert_eq!(number(&Value::Null, "x"), None);
        assert_eq!(bytes(WearKind::HostWritten, "x", u64::MAX, 512_000), None);
        assert_eq!(counter(WearKind::SpareLeft, "x", 101, 1), None);
        assert_eq!(counter(WearKind::Used, "x", 256, 1), None);
    }

    const SAVED: [&str; 6] = [
        NVME,
        NVME_CLI,
        include_str!("../../tests/data/wear/nvme-cli-1.json"),
        include_str!("../../tests/data/wear/ata-attributes.json"),
        include_str!("../../tests/data/wear/ata-statistics.json"),
        include_str!("../../tests/data/wear/smartctl-refused.json"),
    ];

    /// The text with its `n`-th number replaced.
    fn with_number(text: &str, n: usize, by: &str) -> Option<String> {
        let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
        let mut starts = (0..text.len()).filter(|&at| is_digit(at) && (at == 0 || !is_digit(at - 1)));
        let start = starts.nth(n)?;
        let end = (start..text.len()).find(|&at| !is_digit(at)).unwrap_or(text.len());
        Some(format!("{}{by}{}", &text[..start], &text[end..]))
    }

    #[test]
    fn output_that_is_cut_off_or_has_wild_numbers_gives_only_counters_within_reason() {
        let reasonable = |text: &str| {
            for found in parsed(text) {
                assert!(found.step > 0 && found.name.len() <= LONGEST_NAME, "{found:?}");
                assert!(found.kind != WearKind::Used || found.value <= 255, "{found:?}");
                assert!(found.kind != WearKind::SpareLeft || found.value <= 100, "{found:?}");
            }
        };
        for text in SAVED {
            let end = text.trim_end().len();
            for at in (0..end).step_by(13) {
                assert_eq!(parsed(&text[..at]), [], "what is cut off is none");
            }
            for by in
                ["18446744073709551616", "-1", "1e308", "0.5", "null", "[]", "{}", "\"7\"", "99999999999999"]
            {
                let mut n = 0;
                while let Some(wild) = with_number(text, n, by) {
                    reasonable(&wild);
                    n += 1;
                }
                assert!(n >= 5, "{n}");
            }
        }
    }

    #[test]
    fn names_become_plain_words() {
        assert_eq!(plain("a\u{1b}[31m<b>\n\tc\u{202e}", 60), "a [31m<b> c");
        assert_eq!(plain(&"x".repeat(1000), 60).len(), 60);
    }

    #[test]
    fn more_output_than_can_be_meant_ends_the_program() {
        let argv = ["sh", "-c", "yes"].map(str::to_owned);
        let said = output(&Children::default(), &argv).unwrap();
        assert!(said.len() > MOST_OUTPUT, "{}", said.len());
        assert!(smartctl::parse(&said).is_err());
    }
}
