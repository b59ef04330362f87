//! Where the objects of a load are: from directory and name numbers to paths, and the shape of a tree.
//!
//! Each thread has a tree of its own below the directory of the load. Paths follow from numbers alone, so
//! that operations, traces and models carry numbers only:
//!
//! | object | name |
//! | --- | --- |
//! | top directory of thread 3, directory number 0 | `t03` |
//! | its directory number 26 | `d001a` (4 hex digits or more) |
//! | file, hard link or symbolic link with name number 511 | `f000001ff` (8 hex digits or more) |
//!
//! The same name number is never used twice by a thread, so names are unique in any directory. Nothing here
//! allocates while a buffer's capacity lasts.

mod shape;

pub use shape::{Shape, ShapeError, walk};

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use fsage_model::operation::{Action, DirectoryEntry, Operation};
use fsage_model::quantity::index;

/// One directory of a thread's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Directory {
    /// Its number within the thread's tree, at least 1.
    pub number: u32,
    /// The directory it is in; 0 is the thread's own top directory.
    pub parent: u32,
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `letter` and `number` in hex with at least `digits` digits.
fn write_hex(path: &mut Vec<u8>, letter: u8, number: u64, digits: u32) {
    path.push(letter);
    let needed = (u64::BITS - number.leading_zeros()).div_ceil(4).max(digits);
    for place in (0..needed).rev() {
        // Four bits: the conversion cannot fail.
        let digit = usize::try_from((number >> (place * 4)) & 15).unwrap_or(0);
        path.push(HEX[digit]);
    }
}

/// Appends the name of a thread's top directory (`t03`).
pub fn write_top_name(path: &mut Vec<u8>, thread: u32) {
    path.push(b't');
    if thread >= 100 {
        path.extend_from_slice(thread.to_string().as_bytes());
        return;
    }
    for digit in [thread / 10, thread % 10] {
        path.push(HEX[usize::try_from(digit).unwrap_or(0)]);
    }
}

/// Appends the name of a directory below a top directory (`d001a`).
pub fn write_directory_name(path: &mut Vec<u8>, number: u32) {
    write_hex(path, b'd', u64::from(number), 4);
}

/// Appends the name of a file or link (`f000001ff`).
pub fn write_file_name(path: &mut Vec<u8>, name: u64) {
    write_hex(path, b'f', name, 8);
}

/// Whether a path ends as those of our files do: a file name below any number of directories below a top
/// directory. It takes the whole path, because the directory inspected may itself be inside a tree of ours.
#[must_use]
pub fn is_file_path(path: &Path) -> bool {
    let mut names = path.components().rev().map(|part| part.as_os_str().as_bytes());
    names.next().is_some_and(is_file_name) && names.find(|name| !is_directory_name(name)).is_some_and(is_top)
}

/// The number in a name that [`write_file_name`] makes.
pub(crate) fn file_number(name: &[u8]) -> Option<u64> {
    number(name, is_file_name)
}

/// The number in a name that [`write_directory_name`] makes.
pub(crate) fn directory_number(name: &[u8]) -> Option<u32> {
    u32::try_from(number(name, is_directory_name)?).ok()
}

fn number(name: &[u8], is_ours: fn(&[u8]) -> bool) -> Option<u64> {
    let digits = name.get(1..).filter(|_| is_ours(name))?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Whether `name` is what [`write_file_name`] makes.
pub(crate) fn is_file_name(name: &[u8]) -> bool {
    is_hex(name, b'f', 8)
}

/// Whether `name` is what [`write_directory_name`] makes.
pub(crate) fn is_directory_name(name: &[u8]) -> bool {
    is_hex(name, b'd', 4)
}

/// Whether `name` is what [`write_hex`] makes.
fn is_hex(name: &[u8], letter: u8, digits: usize) -> bool {
    name.strip_prefix(&[letter])
        .is_some_and(|number| number.len() >= digits && number.iter().all(|digit| HEX.contains(digit)))
}

/// Whether `name` is what [`write_top_name`] makes.
fn is_top(name: &[u8]) -> bool {
    name.strip_prefix(b"t").is_some_and(|number| number.len() >= 2 && number.iter().all(u8::is_ascii_digit))
}

/// The directories of one thread's tree: which there are and where. Both the workload and the executor keep
/// one; the executor's follows the `mkdir` and `rmdir` that succeeded. Numbers may be used again after
/// `rmdir`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryTree {
    thread: u32,
    /// Parent of each number; `NONE` where there is no such directory.
    parents: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl DirectoryTree {
    /// The tree of a thread, with its top directory and `initial`, parents first.
    #[must_use]
    pub fn new(thread: u32, initial: impl IntoIterator<Item = Directory>) -> Self {
        let mut tree = Self { thread, parents: vec![0] };
        for directory in initial {
            tree.insert(directory);
        }
        tree
    }

    /// The thread's number.
    #[must_use]
    pub const fn thread(&self) -> u32 {
        self.thread
    }

    /// Adds a directory. Allocates when its number is larger than any before.
    pub fn insert(&mut self, directory: Directory) {
        let n = index(directory.number);
        if n >= self.parents.len() {
            self.parents.resize(n + 1, NONE);
        }
        self.parents[n] = directory.parent;
    }

    /// Follows an operation that succeeded.
    pub fn follow(&mut self, operation: &Operation) {
        let number = operation.place.directory;
        match operation.action {
            Action::Mkdir { parent } => self.insert(Directory { number, parent }),
            Action::Rmdir { .. } => self.remove(number),
            _ => {}
        }
    }

    /// Takes a directory out; the top stays.
    pub fn remove(&mut self, number: u32) {
        if number != 0
            && let Some(parent) = self.parents.get_mut(index(number))
        {
            *parent = NONE;
        }
    }

    /// The parent of a directory; nothing for the top and for what is not there.
    #[must_use]
    pub fn parent(&self, number: u32) -> Option<u32> {
        let parent = *self.parents.get(index(number))?;
        (number != 0 && parent != NONE).then_some(parent)
    }

    /// Whether there is such a directory.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.parents.get(index(number)).is_some_and(|parent| *parent != NONE)
    }

    /// Levels below the thread's top directory, which has 0.
    #[must_use]
    pub fn depth(&self, number: u32) -> usize {
        std::iter::successors(self.parent(number), |above| self.parent(*above)).count()
    }

    /// Every directory but the top, by number.
    pub fn iter(&self) -> impl Iterator<Item = Directory> + '_ {
        (0_u32..)
            .zip(&self.parents)
            .skip(1)
            .filter(|(_, parent)| **parent != NONE)
            .map(|(number, parent)| Directory { number, parent: *parent })
    }

    /// Appends the path of a directory below the load's directory, without a slash at the end
    /// (`t03/d0001/d001a`).
    pub fn write_directory_path(&self, path: &mut Vec<u8>, number: u32) {
        match self.parent(number) {
            None => write_top_name(path, self.thread),
            Some(parent) => {
                self.write_directory_path(path, parent);
                path.push(b'/');
                write_directory_name(path, number);
            }
        }
    }

    /// Appends the path of a file or link below the load's directory (`t03/d0001/f000001ff`).
    pub fn write_path(&self, path: &mut Vec<u8>, place: DirectoryEntry) {
        self.write_directory_path(path, place.directory);
        path.push(b'/');
        write_file_name(path, place.name);
    }

    /// Appends the path of an operation's object below the load's directory, be it a file or a directory.
    pub fn write_object_path(&self, path: &mut Vec<u8>, operation: &Operation) {
        match operation.action {
            Action::Mkdir { parent } | Action::Rmdir { parent } => {
                self.write_directory_path(path, parent);
                path.push(b'/');
                write_directory_name(path, operation.place.directory);
            }
            _ => self.write_path(path, operation.place),
        }
    }

    /// Appends what a symbolic link in directory `from` says to point to `target`: up to the load's directory
    /// and down again (`../../../t03/d0001/f000001ff`).
    pub fn write_symlink_text(&self, text: &mut Vec<u8>, from: u32, target: DirectoryEntry) {
        for _ in 0..=self.depth(from) {
            text.extend_from_slice(b"../");
        }
        self.write_path(text, target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut path = Vec::new();
        write(&mut path);
        String::from_utf8(path).expect("ASCII")
    }

    #[test]
    fn names_are_fixed() {
        assert_eq!(text(|path| write_top_name(path, 3)), "t03");
        assert_eq!(text(|path| write_top_name(path, 63)), "t63");
        assert_eq!(text(|path| write_top_name(path, 123)), "t123");
        assert_eq!(text(|path| write_directory_name(path, 26)), "d001a");
        assert_eq!(text(|path| write_directory_name(path, 0x12_3456)), "d123456");
        assert_eq!(text(|path| write_file_name(path, 511)), "f000001ff");
        assert_eq!(text(|path| write_file_name(path, u64::MAX)), "fffffffffffffffff");
    }

    #[test]
    fn numbers_are_read_back_from_names() {
        for number in [0, 26, 0x12_3456, u32::MAX] {
            let name = text(|path| write_directory_name(path, number));
            assert_eq!(directory_number(name.as_bytes()), Some(number), "{name}");
        }
        for number in [0, 511, u64::from(u32::MAX) + 1, u64::MAX] {
            let name = text(|path| write_file_name(path, number));
            assert_eq!(file_number(name.as_bytes()), Some(number), "{name}");
        }
        for other in ["d01", "d001A", "f0001", "t00", "fsage-measure", "fffffffffffffffff0"] {
            assert_eq!(
                (directory_number(other.as_bytes()), file_number(other.as_bytes())),
                (None, None),
                "{other}"
            );
        }
    }

    #[test]
    fn our_paths_are_known() {
        for ours in
            ["t03/f000001ff", "/mnt/load/t123/d0001/d123456/fffffffffffffffff", "/t00/d001a/t01/f00000000"]
        {
            assert!(is_file_path(Path::new(ours)), "{ours}");
        }
        for other in [
            "f000001ff",
            "/mnt/f000001ff",
            "t03/other/f000001ff",
            "t3/f000001ff",
            "t03/f00001ff",
            "t03/f000001FF",
            "t03/g000001ff",
            "t03/f000001ff.txt",
            "d0001/f000001ff",
            "",
        ] {
            assert!(!is_file_path(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn paths_follow_the_tree() {
        let initial = [Directory { number: 1, parent: 0 }, Directory { number: 26, parent: 1 }];
        let mut tree = DirectoryTree::new(3, initial);
        assert_eq!(text(|path| tree.write_directory_path(path, 0)), "t03");
        assert_eq!(text(|path| tree.write_directory_path(path, 26)), "t03/d0001/d001a");
        let place = DirectoryEntry { directory: 1, name: 2 };
        assert_eq!(text(|path| tree.write_path(path, place)), "t03/d0001/f00000002");
        assert_eq!(text(|path| tree.write_symlink_text(path, 26, place)), "../../../t03/d0001/f00000002");
        assert_eq!(tree.iter().collect::<Vec<_>>(), initial);
        assert_eq!((tree.depth(0), tree.depth(1), tree.depth(26)), (0, 1, 2));
        tree.remove(26);
        assert!(!tree.contains(26) && !tree.contains(7) && tree.contains(0));
        assert_eq!(tree.iter().count(), 1);
    }
}
