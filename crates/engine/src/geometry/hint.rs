//! What sysfs says of a block device's geometry. Nothing here is the device's own answer: kernel and controller may
//! round, guess or be silent.

use std::path::{Path, PathBuf};

use fsage_model::geometry::DeviceHints;
use rustix::fs::{major, minor};

use crate::host::read_trimmed;

/// Unit of `start` in sysfs.
const SECTOR_BYTES: u64 = 512;

/// All but what the descriptor itself tells (size and sector).
pub(super) fn of(number: u64) -> DeviceHints {
    let link = PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number)));
    in_folder(&link.canonicalize().unwrap_or(link))
}

fn in_folder(own: &Path) -> DeviceHints {
    let is_partition = own.join("partition").exists();
    let disk = own.parent().filter(|_| is_partition).unwrap_or(own);
    let number = |path: PathBuf| read_trimmed(path).parse::<u64>().ok();
    let queue = |name: &str| number(disk.join("queue").join(name)).unwrap_or(0);
    let card = |name: &str| number(disk.join("device").join(name)).filter(|bytes| *bytes > 0);
    let kind = read_trimmed(disk.join("device/type"));
    // SCSI devices have a number there.
    let kind = ["SD", "MMC"].contains(&kind.as_str()).then_some(kind);
    DeviceHints {
        size_bytes: 0,
        sector_bytes: 0,
        physical_sector_bytes: queue("physical_block_size"),
        start_bytes: number(own.join("start")).unwrap_or(0).saturating_mul(SECTOR_BYTES),
        minimum_io_bytes: queue("minimum_io_size"),
        optimal_io_bytes: queue("optimal_io_size"),
        discard_granularity_bytes: queue("discard_granularity"),
        rotational: queue("rotational") == 1,
        erase_bytes: card("erase_size").filter(|_| kind.is_some()),
        preferred_erase_bytes: card("preferred_erase_size").filter(|_| kind.is_some()),
        card: kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn a_card_says_its_allocation_unit_and_a_partition_has_its_disks() {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &[
                ("queue/physical_block_size", "512"),
                ("queue/minimum_io_size", "512"),
                ("queue/optimal_io_size", "0"),
                ("queue/discard_granularity", "4194304"),
                ("queue/rotational", "0"),
                ("device/type", "SD"),
                ("device/erase_size", "512"),
                ("device/preferred_erase_size", "4194304"),
                ("card1/partition", "1"),
                ("card1/start", "8192"),
            ],
        );
        let disk = in_folder(folder.path());
        assert_eq!((disk.erase_bytes, disk.preferred_erase_bytes), (Some(512), Some(4 << 20)));
        assert_eq!((disk.card.as_deref(), disk.start_bytes), (Some("SD"), 0));
        let partition = in_folder(&folder.path().join("card1"));
        assert_eq!(partition, DeviceHints { start_bytes: 4 << 20, ..disk });
    }

    #[test]
    fn a_disk_that_says_nothing_has_nothing() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[("device/type", "0"), ("device/erase_size", "512")]);
        assert_eq!(in_folder(folder.path()), DeviceHints::default());
    }
}
