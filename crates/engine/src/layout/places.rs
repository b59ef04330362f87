//! Where each file of a tree lies, in the order in which a reader of the whole tree meets them.
//!
//! One thread walks, so that the order is that of the directories (as `grep -r` and the grep measure read).
//! Places are byte offsets on the volume; on btrfs its own addresses are translated to those of the device,
//! as far as they lie there in one piece. Data without a place (inline, not written out yet) is left out.
//! Memory: 100 bytes per file and 16 per extent.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;

use fsage_sys::btrfs::{self, Chunk};
use fsage_sys::fiemap::{self, FileExtent, Reader};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scan::read_extents;
use super::walk::{OpenFile, Visitor, walk};
use super::{LayoutError, ScanOptions, has_btrfs_trees};

/// One file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacedFile {
    /// Path below the directory that was asked for.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Byte offset on the volume and length of each piece, in the file's order; neighbours in both are one.
    pub extents: Vec<(u64, u64)>,
}

/// All files of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// In reading order.
    pub files: Vec<PlacedFile>,
    /// Files that could not be inspected.
    pub failed: u64,
    /// Places are btrfs' own addresses, because its chunk tree could not be read (it wants root).
    pub logical: bool,
}

/// Finds every file below `directory`, without crossing into other mounts.
///
/// # Errors
/// The directory cannot be opened. Files that cannot be inspected are counted.
pub fn places(directory: &Path) -> Result<Places, LayoutError> {
    let open_error = |source| LayoutError::Open { path: directory.to_owned(), source };
    let root = File::open(directory).map_err(open_error)?;
    let chunks =
        if has_btrfs_trees(root.as_fd()) { btrfs::chunk_tree(root.as_fd()).ok() } else { Some(Vec::new()) };
    let logical = chunks.is_none();
    let chunks = chunks.unwrap_or_default();
    let options = ScanOptions { threads: 1, one_file_system: true };
    let start =
        || Survey { reader: Reader::new(), chunks: &chunks, files: Vec::new(), path_bytes: 0, failed: 0 };
    let mut places = Places { logical, ..Places::default() };
    for survey in walk(directory, &options, start)? {
        places.files.extend(survey.files);
        places.failed += survey.failed;
    }
    Ok(places)
}

struct Survey<'a> {
    reader: Reader,
    /// Of btrfs; empty elsewhere.
    chunks: &'a [Chunk],
    files: Vec<PlacedFile>,
    path_bytes: usize,
    failed: u64,
}

/// Most bytes of paths that a thread holds: names of a few million files, or of a deep tree that somebody made
/// to take memory. Files beyond count as failed.
const PATHS_LIMIT: usize = 256 << 20;

impl Visitor for Survey<'_> {
    fn directory(&mut self) {}

    fn failed(&mut self, _: i32) {
        self.failed += 1;
    }

    fn file(&mut self, file: &OpenFile<'_>) {
        let mut extents = Vec::new();
        let chunks = self.chunks;
        let read = read_extents(&mut self.reader, file, |extent| add(&mut extents, chunks, &extent));
        if read.is_err() {
            self.failed += 1;
            return;
        }
        let path = file.path();
        self.path_bytes = self.path_bytes.saturating_add(path.len());
        if self.path_bytes > PATHS_LIMIT {
            self.failed += 1;
            return;
        }
        self.files.push(PlacedFile { path, size: file.size_bytes(), extents });
    }
}

/// Adds an extent that has a place, to the one before it where they are neighbours.
fn add(extents: &mut Vec<(u64, u64)>, chunks: &[Chunk], extent: &FileExtent) {
    let without = fiemap::DATA_INLINE | fiemap::DATA_TAIL | fiemap::DELALLOC | fiemap::UNKNOWN;
    if extent.flags & without != 0 || extent.length == 0 {
        return;
    }
    let physical = match chunks.iter().find_map(|chunk| chunk.place(extent.physical)) {
        Some((_, place)) => place,
        None if chunks.is_empty() => extent.physical,
        None => return,
    };
    match extents.last_mut() {
        Some((start, length)) if *start + *length == physical => *length += extent.length,
        _ => extents.push((physical, extent.length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_and_what_has_no_place_is_left_out() {
        let mut extents = Vec::new();
        let of = |physical, length, flags| FileExtent { logical: 0, physical, length, flags };
        for extent in [
            of(4096, 4096, 0),
            of(8192, 4096, fiemap::UNWRITTEN),
            of(0, 100, fiemap::DATA_INLINE),
            of(0, 4096, fiemap::DELALLOC),
            of(40_960, 4096, fiemap::LAST),
        ] {
            add(&mut extents, &[], &extent);
        }
        assert_eq!(extents, [(4096, 8192), (40_960, 4096)]);
    }

    #[test]
    fn files_come_in_the_order_of_their_directories() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a/one", "a/two", "b/three", "four"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, [7; 5000]).unwrap();
        }
        let places = places(folder.path()).unwrap();
        let names: Vec<&str> = places.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names.len(), 4);
        let at = |name: &str| names.iter().position(|known| *known == name).unwrap();
        assert_eq!(at("a/one").abs_diff(at("a/two")), 1, "a directory's files are together: {names:?}");
        assert!(places.files.iter().all(|file| file.size == 5000));
        assert!(super::places(&folder.path().join("missing")).is_err());
    }
}
