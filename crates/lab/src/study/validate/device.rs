//! Devices of a study that cannot stand beside each other, as far as their paths tell. A run asks the devices
//! themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsage_model::study::{StageSpec, StudySpec, UNAGED, VolumeSpec};

use crate::study::Cell;
use crate::study::schema::Problem;

/// A device that a cell names.
struct Named<'a> {
    /// Where in the study.
    place: Vec<String>,
    device: &'a Path,
}

/// Partitions of a device that another volume uses whole, and devices that one trial would use twice at a time.
pub(in crate::study) fn check(cells: &[Cell]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = cells.iter().flat_map(|cell| twice(&cell.spec)).collect();
    let all: BTreeMap<&Path, Vec<String>> =
        cells.iter().flat_map(|cell| named(&cell.spec)).map(|named| (named.device, named.place)).collect();
    for (part, place) in &all {
        if let Some(whole) = whole_of(part).filter(|whole| all.contains_key(whole.as_path())) {
            let message = format!(
                "`{}` is a partition of `{}`, which the study also uses whole",
                part.display(),
                whole.display()
            );
            let hint = Some("use the whole device, or only partitions of it".to_owned());
            problems.push(Problem { hint, ..Problem::new(place, message) });
        }
    }
    // Most cells have the same devices.
    let mut seen = BTreeSet::new();
    problems.retain(|problem| seen.insert((problem.path.clone(), problem.message.clone())));
    problems
}

/// Volumes of a lock-step stage exist at the same time.
fn twice(spec: &StudySpec) -> Vec<Problem> {
    let lockstep = |place: &[String]| {
        let stage = place.get(1).and_then(|index| spec.stage.get(index.parse::<usize>().ok()?));
        place.len() == 2 || matches!(stage, Some(StageSpec::Lockstep(_)))
    };
    let named: Vec<Named<'_>> = named(spec).into_iter().filter(|named| lockstep(&named.place)).collect();
    let again = |(at, one): (usize, &Named<'_>)| {
        let first = named[..at].iter().find(|other| other.device == one.device)?;
        let message =
            format!("`{}` is the device of `{}` already", one.device.display(), first.place.join("."));
        let hint =
            Some("give each volume a device of its own: `fsage volume split` makes partitions".to_owned());
        Some(Problem { hint, ..Problem::new(&one.place, message) })
    };
    named.iter().enumerate().filter_map(again).collect()
}

/// The devices of a cell's own volume, which comes first, and of its stages' volumes.
fn named(spec: &StudySpec) -> Vec<Named<'_>> {
    let mut volumes = vec![("volume".to_owned(), &spec.volume)];
    for (index, stage) in spec.stage.iter().enumerate().filter(|(_, stage)| stage.runs_in(&spec.state)) {
        match stage {
            StageSpec::Copy(copy) => {
                volumes.extend(copy.volume.iter().map(|volume| (format!("stage.{index}.volume"), volume)));
            }
            StageSpec::Remedy(remedy) => {
                volumes.extend(remedy.volume.iter().map(|volume| (format!("stage.{index}.volume"), volume)));
            }
            StageSpec::Lockstep(lockstep) => volumes.extend(lockstep.others().filter_map(|(name, other)| {
                let at = if name == UNAGED { name.to_owned() } else { format!("followers.{name}") };
                Some((format!("stage.{index}.{at}.volume"), other.volume.as_ref()?))
            })),
            StageSpec::Age(_)
            | StageSpec::Image(_)
            | StageSpec::Measure(_)
            | StageSpec::Fio(_)
            | StageSpec::PowerCuts(_)
            | StageSpec::Precondition(_)
            | StageSpec::Cluster(_) => {}
        }
    }
    let mut named = Vec::new();
    for (place, volume) in volumes {
        if let VolumeSpec::Device { path, .. } = volume {
            let place = format!("{place}.path").split('.').map(str::to_owned).collect();
            named.push(Named { place, device: path });
        }
    }
    named
}

/// The device that this path says to name a partition of, by the names that udev and the kernel give.
fn whole_of(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    let name = path.file_name()?.to_str()?;
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return None;
    }
    let whole = if folder == Path::new("/dev") {
        let numbered = stem.strip_suffix('p').filter(|disk| disk.ends_with(|c: char| c.is_ascii_digit()));
        let lettered = ["sd", "vd", "hd", "xvd"].iter().any(|kind| {
            let letters = stem.strip_prefix(kind);
            letters.is_some_and(|l| !l.is_empty() && l.bytes().all(|byte| byte.is_ascii_lowercase()))
        });
        numbered.or(lettered.then_some(stem))?
    } else if folder.starts_with("/dev/disk") {
        stem.strip_suffix("-part")?
    } else {
        return None;
    };
    Some(folder.join(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_known_by_the_names_of_udev_and_of_the_kernel() {
        for (part, whole) in [
            ("/dev/sda1", "/dev/sda"),
            ("/dev/sdab12", "/dev/sdab"),
            ("/dev/nvme0n1p3", "/dev/nvme0n1"),
            ("/dev/mmcblk0p1", "/dev/mmcblk0"),
            ("/dev/loop7p2", "/dev/loop7"),
            ("/dev/disk/by-id/ata-DISK_S1-part12", "/dev/disk/by-id/ata-DISK_S1"),
            ("/dev/disk/by-path/pci-0000:00:1f.2-ata-1-part1", "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"),
        ] {
            assert_eq!(whole_of(Path::new(part)).as_deref(), Some(Path::new(whole)), "{part}");
        }
        for none in [
            "/dev/sda",
            "/dev/nvme0n1",
            "/dev/loop7",
            "/dev/dm-0",
            "/dev/disk/by-id/ata-DISK_S1",
            "/dev/mapper/x1",
            "sda1",
            "/",
        ] {
            assert_eq!(whole_of(Path::new(none)), None, "{none}");
        }
    }
}
