//! Why a tree is slow to read: which files and directories cost most beyond what they must, where they lie,
//! and suggested fixes.
//!
//! **How it is estimated.** Every file is read in the order of its directories, piece by piece in requests of
//! 128 KiB (the kernel's read-ahead), one at a time, by the model of a medium ([`fsage_disk::media`]). So is
//! a copy, in which every file lies behind the one before it, and the same tree with each file in one piece
//! at the place where it begins. What a file takes beyond its copy is its *extra* time. Inodes and
//! directories are left out on all sides, and so is the host's CPU: the figures say what the places of the
//! data cost on that medium.

mod cost;

use std::collections::BTreeMap;

use fsage_engine::layout::PlacedFile;
use fsage_model::explanation::{CELLS, Explanation, Item, cells};
use fsage_model::location::Location;
use fsage_model::medium::{MediumError, MediumSpec};
use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Explain};
use fsage_model::protocol::{Placed, call};
use fsage_model::quantity::sum;

use crate::target::{Incoming, Session, TargetError};

/// The medium that times are of where nothing says another one.
pub const DEFAULT_MEDIUM: &str = "hdd-7200";

/// No file system of Linux has a place beyond; what a damaged or foreign volume says may be anything.
const FARTHEST: u64 = 1 << 60;

/// Directories, and files, that a run keeps of each volume.
pub const KEPT: usize = 20;

/// Why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The agent could not look.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The agent said something else.
    #[error("the agent's list of files is invalid")]
    List(#[from] serde_json::Error),
    /// The medium cannot be that.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// No file has a place.
    #[error("no file there has data on the volume")]
    Nothing,
    /// No file tells its place.
    #[error(
        "none of the {failed} files or directories there could be inspected: the file system does not report file layouts"
    )]
    Unseen {
        /// How many did not.
        failed: u64,
    },
}

impl Explain for ExplainError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Target(error) => Explain::exit_code(error),
            Self::Medium(_) => EXIT_USAGE,
            Self::List(_) | Self::Nothing | Self::Unseen { .. } => EXIT_FAILED,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Target(error) => Explain::hint(error),
            Self::Nothing => Some("name a directory with non-empty files; data just written has no place before a `sync`".to_owned()),
            Self::Unseen { .. } => Some("run it as root, on a file system that reports file layouts (FIEMAP): ext2 to ext4, xfs and btrfs do".to_owned()),
            Self::Medium(_) | Self::List(_) => None,
        }
    }
}

/// Inspects the tree below `directory`.
///
/// # Errors
/// As [`ExplainError`].
pub fn explain(
    session: &mut Session,
    directory: &Location,
    medium: &MediumSpec,
    worst: usize,
) -> Result<Explanation, ExplainError> {
    let mut lines = Vec::new();
    let places = call::Places { directory: directory.clone(), cells: CELLS };
    let Placed { failed, logical, volume_bytes, used, unknown, .. } =
        session.call_with(places, &mut |incoming| {
            if let Incoming::Chunk(bytes) = incoming {
                lines.extend_from_slice(&bytes);
            }
        })?;
    let files: Vec<PlacedFile> = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()?;
    let mut notes = Vec::new();
    if failed > 0 {
        notes.push(format!("{failed} files or directories could not be inspected"));
    }
    if logical {
        notes.push("places are btrfs' own addresses: its chunk tree wants root".to_owned());
    }
    if !unknown.is_empty() {
        notes.push(format!("what else is in use is not shown: {unknown}"));
    }
    match estimate(&files, volume_bytes, medium, worst) {
        Ok(explanation) => {
            notes.extend(explanation.notes);
            Ok(Explanation { used, notes, ..explanation })
        }
        Err(ExplainError::Nothing) if failed > 0 => Err(ExplainError::Unseen { failed }),
        Err(error) => Err(error),
    }
}

/// Reckons what files at these places cost.
///
/// # Errors
/// The medium cannot have that size, or no file has a place.
pub fn estimate(
    files: &[PlacedFile],
    volume_bytes: u64,
    medium: &MediumSpec,
    worst: usize,
) -> Result<Explanation, ExplainError> {
    let ends = |file: &PlacedFile| {
        file.extents.iter().all(|(start, length)| start.saturating_add(*length) <= FARTHEST)
    };
    let (placed, beyond): (Vec<&PlacedFile>, Vec<_>) =
        files.iter().filter(|file| !file.extents.is_empty()).partition(|file| ends(file));
    if placed.is_empty() {
        return Err(ExplainError::Nothing);
    }
    let end = placed.iter().flat_map(|file| &file.extents).map(|(start, length)| start + length).max();
    let volume_bytes = volume_bytes.min(FARTHEST).max(end.unwrap_or(0)).next_multiple_of(4096);
    let times = cost::Times::of(&placed, volume_bytes, medium)?;
    let item = |numbers: &[usize], path: &str| sum_up(&placed, &times, numbers, path);
    let with_cells = |mut item: Item, numbers: &[usize]| {
        let extents = numbers.iter().filter_map(|number| placed.get(*number)).flat_map(|file| &file.extents);
        item.cells = cells(extents, volume_bytes);
        item
    };
    let mut directories: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, file) in placed.iter().enumerate() {
        let directory = file.path.rsplit_once('/').map_or(".", |(directory, _)| directory);
        directories.entry(directory).or_default().push(number);
    }
    let rank = |found: Vec<(Item, Vec<usize>)>| {
        let mut found: Vec<_> = found.into_iter().filter(|(item, _)| item.extra_ns() > 0).collect();
        found.sort_by(|(a, _), (b, _)| b.extra_ns().cmp(&a.extra_ns()).then_with(|| a.path.cmp(&b.path)));
        found.truncate(worst);
        found.into_iter().map(|(found, numbers)| with_cells(found, &numbers)).collect::<Vec<Item>>()
    };
    let all: Vec<usize> = (0..placed.len()).collect();
    let each = all.iter().map(|number| (item(&[*number], &placed[*number].path), vec![*number])).collect();
    Ok(Explanation {
        medium: medium.to_string(),
        volume_bytes,
        tree: with_cells(item(&all, "."), &all),
        directories: rank(directories.into_iter().map(|(path, all)| (item(&all, path), all)).collect()),
        files: rank(each),
        inter_file_score: cost::inter_file_score(&placed),
        used: Vec::new(),
        notes: (!beyond.is_empty())
            .then(|| format!("{} files lie where no volume has a place, and are left out", beyond.len()))
            .into_iter()
            .collect(),
    })
}

/// What the files of these numbers cost together.
fn sum_up(placed: &[&PlacedFile], times: &cost::Times, numbers: &[usize], path: &str) -> Item {
    let mut item = Item {
        path: path.to_owned(),
        files: 0,
        bytes: 0,
        extents: 0,
        now_ns: 0,
        defragmented_ns: 0,
        copied_ns: 0,
        cells: BTreeMap::new(),
    };
    for &number in numbers {
        let Some(file) = placed.get(number) else { continue };
        item.files += 1;
        item.bytes = item.bytes.saturating_add(sum(file.extents.iter().map(|(_, length)| length)));
        item.extents += u64::try_from(file.extents.len()).unwrap_or(u64::MAX);
        item.now_ns = item.now_ns.saturating_add(times.now[number]);
        item.defragmented_ns = item.defragmented_ns.saturating_add(times.defragmented[number]);
        item.copied_ns = item.copied_ns.saturating_add(times.copied[number]);
    }
    item
}

#[cfg(test)]
mod tests {
    use fsage_model::quantity::as_f64;

    use super::*;

    fn file(path: &str, extents: &[(u64, u64)]) -> PlacedFile {
        let size = extents.iter().map(|(_, length)| length).sum();
        PlacedFile { path: path.to_owned(), size, extents: extents.to_vec() }
    }

    const MIB: u64 = 1 << 20;

    fn explained(files: &[PlacedFile], medium: &str) -> Explanation {
        estimate(files, 1 << 30, &medium.parse().unwrap(), 5).unwrap()
    }

    /// Two directories: one as a copy would have it, one with files in pieces all over the volume.
    fn tree() -> Vec<PlacedFile> {
        let mut files: Vec<PlacedFile> =
            (0..20).map(|n| file(&format!("good/{n}"), &[(n * 65_536, 65_536)])).collect();
        for n in 0..20_u64 {
            let pieces: Vec<(u64, u64)> =
                (0..4).map(|piece| ((100 + (n * 37 + piece * 211) % 800) * MIB, 16_384)).collect();
            files.push(file(&format!("bad/{n}"), &pieces));
        }
        files
    }

    #[test]
    fn the_worst_are_those_that_lie_worst() {
        let found = explained(&tree(), "hdd-7200");
        assert_eq!(found.directories[0].path, "bad");
        assert!(found.files.iter().all(|item| item.path.starts_with("bad/")), "{:?}", found.files);
        let bad = &found.directories[0];
        assert_eq!((bad.files, bad.extents, bad.bytes), (20, 80, 20 * 65_536));
        // 80 seeks against almost none.
        assert!(bad.now_ns > 5 * bad.copied_ns, "{bad:?}");
        assert!(bad.defragmented_ns < bad.now_ns && bad.defragmented_ns > bad.copied_ns, "{bad:?}");
        let tree = &found.tree;
        assert!(tree.now_ns >= bad.now_ns && tree.copied_ns <= tree.defragmented_ns, "{tree:?}");
        assert_eq!(tree.remedies(None)[0].1, tree.copied_ns);
        // 19 of the 39 files that follow another one do so on the volume.
        assert!((found.inter_file_score - 19.0 / 39.0).abs() < 1e-9, "{}", found.inter_file_score);
        let covered: f64 = bad.cells.values().sum::<f64>() * as_f64(1 << 30) / as_f64(CELLS);
        assert!((covered - (20.0 * 65_536.0)).abs() < 1.0, "{covered}");
    }

    #[test]
    fn a_good_tree_has_nothing_to_mend_and_memory_costs_nothing() {
        let files = &tree()[..20];
        let found = explained(files, "hdd-7200");
        assert_eq!(found.inter_file_score.to_bits(), 1.0_f64.to_bits());
        assert!(found.tree.remedies(None).is_empty(), "{:?}", found.tree);
        let ram = explained(&tree(), "ram");
        assert_eq!((ram.tree.now_ns, ram.files.len(), ram.directories.len()), (0, 0, 0));
    }

    #[test]
    fn flash_does_not_seek() {
        let (disk, flash) = (explained(&tree(), "hdd-7200"), explained(&tree(), "ssd"));
        assert!(flash.tree.now_ns > 0);
        let ratio = |item: &Item| as_f64(item.now_ns) / as_f64(item.copied_ns.max(1));
        assert!(ratio(&flash.tree) < ratio(&disk.tree) / 2.0, "{:?} {:?}", flash.tree, disk.tree);
    }

    #[test]
    fn what_is_kept_is_coarse_and_forgets_no_cell() {
        let mut found = explained(&tree(), "hdd-7200");
        (found.used, found.inter_file_score) = (vec![0.000_01, 0.0, 1.0], 0.5);
        let kept = found.clone().coarse().only(2);
        assert_eq!(
            (kept.files.len(), kept.directories.len(), kept.used.as_slice()),
            (2, 1, &[0.001, 0.0, 1.0][..])
        );
        let bad = (&found.directories[0].cells, &kept.directories[0].cells);
        assert!(bad.0.keys().eq(bad.1.keys()));
        assert!(
            bad.0.values().zip(bad.1.values()).all(|(all, coarse)| (0.0..0.001).contains(&(coarse - all)))
        );
        let text = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<Explanation>(&text).unwrap(), kept);
    }

    #[test]
    fn places_that_no_volume_has_are_left_out_and_told() {
        let mut files = tree();
        files.push(PlacedFile { path: "far".into(), size: 1, extents: vec![(u64::MAX - 4095, 8192)] });
        files.push(PlacedFile { path: "long".into(), size: 1, extents: vec![(0, u64::MAX)] });
        let found = estimate(&files, 1 << 30, &"hdd-7200".parse().unwrap(), 5).unwrap();
        let notes = vec!["2 files lie where no volume has a place, and are left out".to_owned()];
        assert_eq!(found, Explanation { notes, ..explained(&tree(), "hdd-7200") });
        // A volume may say that it is as large as no volume is, and a place be shared by any number of files.
        let whole = estimate(&tree(), u64::MAX, &"ram".parse().unwrap(), 5).unwrap();
        assert_eq!(whole.volume_bytes, FARTHEST);
        assert!(matches!(estimate(&files[40..], 0, &"ram".parse().unwrap(), 5), Err(ExplainError::Nothing)));
    }

    #[test]
    fn without_data_there_is_nothing_to_explain() {
        let empty = [file("empty", &[])];
        let error = estimate(&empty, 1 << 30, &"hdd-7200".parse().unwrap(), 5).unwrap_err();
        assert!(matches!(error, ExplainError::Nothing), "{error}");
    }
}
