//! `delete`: the time to remove old directories with what is in them, as `rm -r` does, `syncfs` at the end
//! included.
//!
//! Directories are drawn by the seed until about the wanted share of the old files is covered; one that would
//! take twice what is left to take is passed over. Where no directory fits, single files are drawn. **It
//! destroys what it measures**: it belongs last, or before a restore.

use std::collections::BTreeSet;

use fsage_model::measure::{DeleteSpec, MeasureMetric};
use fsage_model::quantity::share;
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{AtFlags, Mode, OFlags, unlinkat};
use rustix::io::Errno;

use super::context::{Context, per_second, seconds};
use super::listing::{Unseen, walk};
use super::old::{OldFiles, shuffled};
use super::{Measure, MeasureError, check_share, part_of};
use crate::distribution::Random;
use crate::location::open_beneath;

impl Measure for DeleteSpec {
    fn run(&self, context: &mut Context<'_>) -> Result<Vec<MeasureMetric>, MeasureError> {
        check_share("delete", "file_share", self.file_share, 1.0, "above 0 and at most 1")?;
        let old = OldFiles::find(context.anchor)?;
        context.warn_unseen(&old.unseen);
        if old.files.is_empty() {
            return Err(MeasureError::Nothing {
                path: context.directory.to_owned(),
                what: "there are no files",
            });
        }
        let wanted = part_of(old.files.len() as u64, self.file_share).max(1);
        let mut random = context.random(4);
        let directories = choose(&old, wanted, &mut random);
        let count = usize::try_from(wanted).unwrap_or(usize::MAX);
        let files = if directories.is_empty() { old.choose(count, &mut random) } else { Vec::new() };
        let mut failed = Unseen::default();
        context.drop_caches()?;
        context.start();
        for path in &directories {
            remove_tree(path, context, &mut failed)?;
        }
        for file in files {
            match unlink(context.anchor.fd(), &file.path, AtFlags::empty()) {
                Ok(()) => context.count.files += 1,
                Err(errno) => failed.add(&file.path, errno),
            }
            context.count.operations += 1;
            context.step(None, "removing")?;
        }
        context.sync()?;
        context.stop();
        context.warn_unseen(&failed);
        let (ns, files) = (context.elapsed_ns(), context.count.files);
        Ok(vec![
            MeasureMetric::cost("time_per_file", "ns", share(ns, files)),
            MeasureMetric::cost("time", "s", seconds(ns)),
            MeasureMetric::gain("files_per_second", "1/s", per_second(files, ns)),
        ])
    }
}

/// Directories, none inside another, that hold about `wanted` files together.
fn choose(old: &OldFiles, wanted: u64, random: &mut Random) -> Vec<Vec<u8>> {
    let mut chosen: BTreeSet<&[u8]> = BTreeSet::new();
    let mut left = wanted;
    for n in shuffled(old.directories.len(), random) {
        let path = &old.directories[n][..];
        if left == 0 || is_below(&chosen, path) {
            continue;
        }
        // One that holds chosen ones takes their place.
        let prefix = [path, b"/"].concat();
        let inside: Vec<&[u8]> =
            chosen.range(&prefix[..]..).take_while(|other| other.starts_with(&prefix)).copied().collect();
        let counted: u64 = inside.iter().map(|other| files_below(old, other)).sum();
        let files = files_below(old, path) - counted;
        if files > 0 && files <= left.saturating_mul(2) {
            left = left.saturating_sub(files);
            for other in inside {
                chosen.remove(other);
            }
            chosen.insert(path);
        }
    }
    chosen.into_iter().map(<[u8]>::to_vec).collect()
}

/// Old files below a directory: they follow each other in the sorted list.
fn files_below(old: &OldFiles, directory: &[u8]) -> u64 {
    let prefix = [directory, b"/"].concat();
    let start = old.files.partition_point(|file| file.path < prefix);
    let rest = old.files.get(start..).unwrap_or_default();
    rest.partition_point(|file| file.path.starts_with(&prefix)) as u64
}

/// Whether `path` is below one of `chosen`.
fn is_below(chosen: &BTreeSet<&[u8]>, path: &[u8]) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(n, _)| &path[..n]).any(|above| chosen.contains(above))
}

/// Removes a name below a directory without following links on the way.
fn unlink(root: BorrowedFd<'_>, path: &[u8], flags: AtFlags) -> Result<(), Errno> {
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => return unlinkat(root, path, flags),
    };
    let parent = open_beneath(root, parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    unlinkat(parent, name, flags)
}

/// Removes a directory and what is in it, names in the order in which they are listed.
fn remove_tree(path: &[u8], context: &mut Context<'_>, failed: &mut Unseen) -> Result<(), MeasureError> {
    let shown = context.below(path);
    let root = context
        .open(path, OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(MeasureError::system("open", &shown))?;
    let mut directories = Vec::new();
    let unseen = walk(&fsage_sys::mount::descriptor_path(root.as_fd()), |found| {
        if found.kind == rustix::fs::FileType::Directory {
            directories.push(found.path.to_vec());
            return Ok(());
        }
        match unlinkat(found.directory, found.name, AtFlags::empty()) {
            Ok(()) => {
                context.count.files += u64::from(found.kind == rustix::fs::FileType::RegularFile);
                context.count.operations += 1;
            }
            Err(errno) => failed.add(found.path, errno),
        }
        context.step(None, "removing")
    })?;
    context.warn_unseen(&unseen);
    // Sub-directories were met after their parents.
    let within = directories.iter().rev().map(|directory| (root.as_fd(), &directory[..]));
    for (above, directory) in within.chain([(context.anchor.fd(), path)]) {
        match unlink(above, directory, AtFlags::REMOVEDIR) {
            Ok(()) => context.count.operations += 1,
            Err(Errno::NOTEMPTY) if failed.count > 0 => {}
            Err(errno) => failed.add(path, errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::old::OldFile;
    use super::*;

    fn tree() -> OldFiles {
        let mut old = OldFiles::default();
        for directory in 0..20 {
            let name = format!("d{directory:02}");
            old.directories.push(name.clone().into_bytes());
            old.directories.push(format!("{name}/in").into_bytes());
            for file in 0..5 {
                let path = |middle: &str| format!("{name}/{middle}f{file}").into_bytes();
                old.files.push(OldFile { path: path(""), size: 1 });
                old.files.push(OldFile { path: path("in/"), size: 1 });
            }
        }
        old.files.sort_by(|a, b| a.path.cmp(&b.path));
        old.directories.sort();
        old
    }

    #[test]
    fn whole_directories_cover_about_the_wanted_share() {
        let old = tree();
        for (seed, wanted) in (0..50).zip([5_u64, 20, 60, 150, 200].into_iter().cycle()) {
            let chosen = choose(&old, wanted, &mut Random::new(seed, 0));
            let covered: u64 = chosen.iter().map(|path| files_below(&old, path)).sum();
            assert!(covered >= wanted && covered <= wanted + 10, "{covered} of {wanted}");
            for path in &chosen {
                let inside = |other: &&Vec<u8>| other.starts_with(&[path, &b"/"[..]].concat());
                assert_eq!(chosen.iter().find(inside), None);
            }
            assert_eq!(chosen, choose(&old, wanted, &mut Random::new(seed, 0)));
        }
        let flat = OldFiles { files: old.files, ..OldFiles::default() };
        assert!(choose(&flat, 10, &mut Random::new(1, 0)).is_empty());
    }
}
