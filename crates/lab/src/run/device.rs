//! Devices of one study that have sectors in common: a partition of a disk that is also used whole, partitions
//! that overlap, one device under two names. What is made on one would be lost on the other, and what is
//! measured would not be two devices'. Their paths cannot tell for certain, so the devices are asked, before
//! the first trial.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fsage_model::protocol::BlockFacts;
use fsage_model::study::VolumeSpec;

use super::RunError;
use super::stage;
use crate::study::Study;

/// The paths of all devices that a study names.
pub(super) fn named(study: &Study) -> BTreeSet<PathBuf> {
    let volumes = study.cells.iter().flat_map(|cell| {
        let own = &cell.spec.volume;
        let others = cell.spec.stages().flat_map(move |stage| stage::of(stage).other_volumes(own));
        others.chain([own.clone()])
    });
    let path = |volume: VolumeSpec| match volume {
        VolumeSpec::Device { path, .. } => Some(path),
        VolumeSpec::Loop { .. } | VolumeSpec::Disk(_) | VolumeSpec::Partition { .. } => None,
    };
    volumes.filter_map(path).collect()
}

/// Refuses devices that overlap. Where there is nothing to compare nobody is asked; a device that does not
/// answer fails its own trial.
///
/// # Errors
/// [`RunError::Overlap`].
pub(super) fn check(
    paths: &BTreeSet<PathBuf>,
    mut ask: impl FnMut(&Path) -> Option<BlockFacts>,
) -> Result<(), RunError> {
    let known: Vec<(&PathBuf, BlockFacts)> =
        paths.iter().filter_map(|path| Some((path, ask(path)?))).collect();
    for (at, (first, one)) in known.iter().enumerate() {
        for (second, other) in &known[at + 1..] {
            if one.overlaps(other) {
                let what = match (one.path == other.path, one.is_partition(), other.is_partition()) {
                    (true, ..) => "they are the same device",
                    (_, true, true) => "they are overlapping partitions",
                    _ => "one is a partition of the other",
                };
                let [first, second] = [first, second].map(|path| path.to_path_buf());
                return Err(RunError::Overlap { first, second, what });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(path: &str, disk: &str, start_bytes: u64, size_bytes: u64) -> BlockFacts {
        BlockFacts { path: path.into(), disk: disk.into(), start_bytes, size_bytes, ..BlockFacts::default() }
    }

    fn checked(devices: &[(&str, BlockFacts)]) -> Result<(), String> {
        let paths = devices.iter().map(|(path, _)| PathBuf::from(path)).collect();
        let ask = |path: &Path| {
            let found = devices.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, facts)| facts.clone())
        };
        check(&paths, ask).map_err(|error| error.to_string())
    }

    #[test]
    fn devices_with_sectors_in_common_are_refused() {
        let (whole, first) = (facts("/dev/sda", "sda", 0, 100), facts("/dev/sda1", "sda", 10, 40));
        let (second, third) = (facts("/dev/sda2", "sda", 50, 40), facts("/dev/sda3", "sda", 40, 20));
        let other = facts("/dev/sdb1", "sdb", 10, 40);
        let fine = [("/dev/a", first.clone()), ("/dev/b", second.clone()), ("/dev/c", other)];
        assert_eq!(checked(&fine), Ok(()));
        for (other, why) in [
            (whole, "one is a partition of the other"),
            (third, "they are overlapping partitions"),
            (first.clone(), "they are the same device"),
        ] {
            let refused = checked(&[("/dev/a", first.clone()), ("/dev/b", other)]).unwrap_err();
            assert_eq!(refused, format!("/dev/a and /dev/b cannot both be volumes of one study: {why}"));
        }
    }

    #[test]
    fn a_device_that_does_not_answer_is_left_to_its_trial() {
        let paths = ["/dev/a", "/dev/b"].map(PathBuf::from).into();
        assert!(check(&paths, |_| None).is_ok());
    }
}
