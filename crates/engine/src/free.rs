//! Deleting a share of the files of a tree, as people do who make room on a full volume.
//!
//! Which files go follows from the seed and from the names of the tree alone, so that the same ones go on
//! every file system. Each file is as likely as any other; directories stay, empty ones too. What is left is
//! as it was: self-describing data verifies as before.

use std::time::Instant;

use fsage_model::protocol::Freed;
use fsage_model::quantity::{as_f64, share as ratio, to_u64};
use rustix::fs::{AtFlags, Mode, OFlags, unlinkat};
use rustix::io::Errno;

use crate::distribution::Random;
use crate::host::cache;
use crate::load::{Control, LoadSink};
use crate::location::Anchor;
use crate::measure::MeasureError;
use crate::measure::listing::below;
use crate::measure::old::OldFiles;

/// The random stream of the choice; measures have lower numbers.
const STREAM: u32 = 9;

/// Deletes `share` (above 0, at most 1) of the files below `root`, rounded, at least one, and syncs.
///
/// # Errors
/// A share out of range; there are no files; one cannot be deleted, and those before it are gone; a stop from
/// outside.
pub fn run_in(
    root: &Anchor,
    share: f64,
    seed: u64,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<Freed, MeasureError> {
    if !(share > 0.0 && share <= 1.0) {
        let (measure, key, limit) = ("free", "share", "above 0 and at most 1");
        return Err(MeasureError::Range { measure, key, value: share.to_string(), limit });
    }
    let started = Instant::now();
    let old = OldFiles::find(root)?;
    if old.files.is_empty() {
        return Err(MeasureError::Nothing { path: root.path().to_owned(), what: "there are no files" });
    }
    let all = u64::try_from(old.files.len()).unwrap_or(u64::MAX);
    let wanted = to_u64((as_f64(all) * share).round()).clamp(1, all);
    let mut freed = Freed { files: 0, bytes: 0 };
    let count = usize::try_from(wanted).unwrap_or(usize::MAX);
    for file in old.choose(count, &mut Random::new(seed, STREAM)) {
        if control.is_stopped() {
            return Err(MeasureError::Stopped);
        }
        unlink(root, &file.path).map_err(MeasureError::system("delete", &below(root.path(), &file.path)))?;
        freed.files += 1;
        freed.bytes += file.size;
        let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        sink.progress(freed.files, elapsed_ns, Some(ratio(freed.files, wanted)), "deleting");
    }
    cache::sync(&root.held())?;
    Ok(freed)
}

/// Removes a name below a directory without following links on the way.
fn unlink(root: &Anchor, path: &[u8]) -> Result<(), Errno> {
    match path.iter().rposition(|byte| *byte == b'/') {
        None => unlinkat(root.fd(), path, AtFlags::empty()),
        Some(slash) => {
            let parent = root.open(&path[..slash], OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
            unlinkat(parent, &path[slash + 1..], AtFlags::empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::load::NoSink;

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for directory in 0..5 {
            let directory = folder.path().join(format!("t00/d000{directory}"));
            std::fs::create_dir_all(&directory).unwrap();
            for file in 0..20 {
                std::fs::write(directory.join(format!("f{file:08x}")), "twelve bytes").unwrap();
            }
        }
        folder
    }

    fn files(root: &Path) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![root.to_owned()];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    waiting.push(path);
                } else {
                    found.insert(path.strip_prefix(root).unwrap().to_owned());
                }
            }
        }
        found
    }

    fn free(root: &Path, share: f64, seed: u64) -> Result<Freed, MeasureError> {
        run_in(&Anchor::at(root).unwrap(), share, seed, &Control::new(), &mut NoSink)
    }

    #[test]
    fn the_seed_says_which_files_go() {
        let trees = [tree(), tree(), tree()];
        for (folder, seed) in trees.iter().zip([1, 1, 2]) {
            assert_eq!(free(folder.path(), 0.2, seed).unwrap(), Freed { files: 20, bytes: 240 });
        }
        let left = trees.each_ref().map(|folder| files(folder.path()));
        assert_eq!(left[0].len(), 80);
        assert_eq!(left[0], left[1]);
        assert_ne!(left[0], left[2]);
    }

    #[test]
    fn shares_out_of_range_and_empty_trees_are_refused() {
        let folder = tree();
        for share in [0.0, 1.1, f64::NAN] {
            assert!(matches!(free(folder.path(), share, 1), Err(MeasureError::Range { .. })), "{share}");
        }
        assert_eq!(free(folder.path(), 1.0, 1).unwrap().files, 100);
        assert!(matches!(free(folder.path(), 0.5, 1), Err(MeasureError::Nothing { .. })));
    }
}
