//! Life time of an eMMC (`life_time`, `pre_eol_info` of the card; Documentation/driver-api/mmc/mmc-dev-attrs.rst) and
//! of a UFS device (`health_descriptor/` of its host; Documentation/ABI/testing/sysfs-driver-ufs).
//!
//! Both have the values of JESD84-B51, 7.4.59 to 7.4.61 (EXT_CSD 267 to 269), which JESD220 (UFS) took over: 0 is not
//! defined, 1 to 10 are tenths of the life used up to their upper end, 11 is more than the whole; the state of the
//! spare blocks is 1 normal, 2 warning (80 % used up), 3 urgent (90 %).

use std::path::{Path, PathBuf};

use fsage_model::wear::{WearCounter, WearKind};

use super::counter;
use crate::host::read_trimmed;

/// Percent of one step of a life time.
const TENTH: u64 = 10;

/// Counters of the disk with this folder in sysfs, and the folder that has them; nothing where there are none.
pub(super) fn counters(disk: &Path) -> Option<(PathBuf, Vec<WearCounter>)> {
    let card = disk.join("device");
    let both = read_trimmed(card.join("life_time"));
    let mut words = both.split_ascii_whitespace();
    let found = [
        words.next().and_then(|word| life("life_time A", word)),
        words.next().and_then(|word| life("life_time B", word)),
        state("pre_eol_info", &read_trimmed(card.join("pre_eol_info"))),
    ];
    let found: Vec<_> = found.into_iter().flatten().collect();
    if !found.is_empty() {
        return Some((card, found));
    }
    // The disk's folder lies below that of its host.
    let mut hosts = disk.ancestors().skip(1).map(|folder| folder.join("health_descriptor"));
    let health = hosts.find(|folder| folder.is_dir())?;
    let file = |name: &str| read_trimmed(health.join(name));
    let found = [
        life("life_time_estimation_a", &file("life_time_estimation_a")),
        life("life_time_estimation_b", &file("life_time_estimation_b")),
        state("eol_info", &file("eol_info")),
    ];
    let found: Vec<_> = found.into_iter().flatten().collect();
    (!found.is_empty()).then_some((health, found))
}

/// Percent of the life that is used up, at least.
fn life(name: &str, word: &str) -> Option<WearCounter> {
    match hexadecimal(word)? {
        tenth @ 1..=11 => counter(WearKind::Used, name, (tenth - 1) * TENTH, TENTH),
        _ => None,
    }
}

fn state(name: &str, word: &str) -> Option<WearCounter> {
    match hexadecimal(word)? {
        state @ 1..=3 => counter(WearKind::SpareState, name, state, 1),
        _ => None,
    }
}

fn hexadecimal(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("host0/target/block/sda/device")).unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn told(files: &[(&str, &str)]) -> Vec<(WearKind, String, u64, u64)> {
        let folder = written(files);
        let disk = folder.path().join("host0/target/block/sda");
        let found = counters(&disk).map(|(_, found)| found).unwrap_or_default();
        found.into_iter().map(|one| (one.kind, one.name, one.value, one.step)).collect()
    }

    #[test]
    fn an_emmc_says_tenths_of_its_life() {
        let card = "host0/target/block/sda/device";
        let found = told(&[
            (format!("{card}/life_time").as_str(), "0x01 0x0b\n"),
            (format!("{card}/pre_eol_info").as_str(), "0x02\n"),
        ]);
        let wanted = [
            (WearKind::Used, "life_time A".to_owned(), 0, 10),
            (WearKind::Used, "life_time B".to_owned(), 100, 10),
            (WearKind::SpareState, "pre_eol_info".to_owned(), 2, 1),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_ufs_device_says_it_at_its_host() {
        let found = told(&[
            ("health_descriptor/life_time_estimation_a", "0x03\n"),
            ("health_descriptor/life_time_estimation_b", "0x00\n"),
            ("health_descriptor/eol_info", "0x01\n"),
        ]);
        let wanted = [
            (WearKind::Used, "life_time_estimation_a".to_owned(), 20, 10),
            (WearKind::SpareState, "eol_info".to_owned(), 1, 1),
        ];
        assert_eq!(found, wanted, "what is not defined is no counter");
    }

    #[test]
    fn what_is_not_defined_or_no_number_is_no_counter() {
        for text in
            ["", "0x00 0x00", "0x0c 0xff", "0x", "-1 +1", "one two", "0xffffffffffffffffff 1.5", "\0", "0x+1"]
        {
            let found = told(&[("host0/target/block/sda/device/life_time", text)]);
            assert_eq!(found, [], "{text:?}");
        }
        assert_eq!(told(&[("host0/target/block/sda/device/pre_eol_info", "0x04")]), []);
    }
}
