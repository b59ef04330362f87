//! The old files: what was below the directory before the measure, in an order that follows from the names
//! alone.
//!
//! `readdir` lists an aged tree and its copy in different orders; choices by a seed are made from this order,
//! so that the same logical files are chosen on both. A file with several names counts once, under the first
//! of them.

use std::collections::HashSet;

use rustix::fs::{AtFlags, FileType, statat};

use super::MeasureError;
use super::listing::{Unseen, walk};
use crate::distribution::Random;
use crate::location::Anchor;

/// An old file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OldFile {
    /// Path below the directory.
    pub path: Vec<u8>,
    /// Its size in bytes.
    pub size: u64,
}

/// The old files, sorted by path (as bytes). Memory: about 100 bytes per file.
#[derive(Debug, Default)]
pub(crate) struct OldFiles {
    /// The files.
    pub files: Vec<OldFile>,
    /// Paths of the directories, sorted.
    pub directories: Vec<Vec<u8>>,
    /// What could not be inspected.
    pub unseen: Unseen,
}

impl OldFiles {
    /// Finds them. Warms the caches: see [`super::Context::drop_caches`].
    pub fn find(root: &Anchor) -> Result<Self, MeasureError> {
        let mut names: Vec<(OldFile, Option<(u64, u64)>)> = Vec::new();
        let mut directories = Vec::new();
        let mut failed = Unseen::default();
        let mut unseen = walk(&root.held(), |found| {
            match found.kind {
                FileType::Directory => directories.push(found.path.to_vec()),
                FileType::RegularFile => match statat(found.directory, found.name, AtFlags::SYMLINK_NOFOLLOW)
                {
                    Ok(stat) => {
                        let several = (stat.st_nlink > 1).then_some((stat.st_dev, stat.st_ino));
                        let size = u64::try_from(stat.st_size).unwrap_or(0);
                        names.push((OldFile { path: found.path.to_vec(), size }, several));
                    }
                    Err(errno) => failed.add(found.path, errno),
                },
                _ => {}
            }
            Ok(())
        })?;
        unseen.count += failed.count;
        if unseen.first.is_empty() {
            unseen.first = failed.first;
        }
        names.sort_by(|a, b| a.0.path.cmp(&b.0.path));
        directories.sort();
        let mut met = HashSet::new();
        let first = |(file, several): (OldFile, Option<_>)| {
            several.is_none_or(|inode| met.insert(inode)).then_some(file)
        };
        Ok(Self { files: names.into_iter().filter_map(first).collect(), directories, unseen })
    }

    /// `count` different files, each as likely as any other, in the order of their paths.
    pub fn choose(&self, count: usize, random: &mut Random) -> Vec<&OldFile> {
        let mut chosen = shuffled(self.files.len(), random);
        chosen.truncate(count);
        chosen.sort_unstable();
        chosen.into_iter().map(|n| &self.files[n]).collect()
    }
}

/// The numbers below `count` in random order (Fisher & Yates 1938).
pub(crate) fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        // A number below a length is a length.
        let other = random.below(last as u64 + 1);
        numbers.swap(last, usize::try_from(other).unwrap_or(last));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_from_names_and_seed() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut names: Vec<String> = (0..200).map(|n| format!("d{}/f{n}", n % 7)).collect();
        for (folder, forth) in folders.iter().zip([true, false]) {
            if !forth {
                names.reverse();
            }
            for name in &names {
                let path = folder.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, name).unwrap();
            }
            let (from, to) = (folder.path().join("d0/f0"), folder.path().join("d6/linked"));
            std::fs::hard_link(from, to).unwrap();
        }
        let choice = |folder: &tempfile::TempDir, seed| {
            let old = OldFiles::find(&Anchor::at(folder.path()).unwrap()).unwrap();
            assert_eq!((old.files.len(), old.directories.len()), (200, 7));
            let chosen = old.choose(20, &mut Random::new(seed, 0));
            chosen.into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(choice(&folders[0], 1), choice(&folders[1], 1));
        assert_ne!(choice(&folders[0], 1), choice(&folders[0], 2));
        let all = choice(&folders[0], 1);
        assert!(all.len() == 20 && all.is_sorted_by(|a, b| a.path < b.path));
    }
}
