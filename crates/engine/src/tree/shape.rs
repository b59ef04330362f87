//! The shape of a tree: names, kinds, sizes, link counts and symbolic links, without contents. Computed from
//! a model and from a real directory alike, so that a test can prove that they agree.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsage_model::digest::Digest;

/// Why a directory's shape could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    /// Something below the directory could not be inspected.
    #[error("cannot inspect {}", path.display())]
    Look {
        /// What.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// What a tree looks like from outside. The order in which things are added does not matter; shapes of parts
/// combine by [`Shape::merge`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Directories, the threads' top directories included, the load's directory not.
    pub directories: u64,
    /// Names of regular files (a file with two names counts twice).
    pub file_names: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Sum of the sizes over file names.
    pub bytes: u64,
    /// Over every path with what is there.
    pub digest: Digest,
}

impl Shape {
    /// Adds a directory.
    pub fn add_directory(&mut self, path: &[u8]) {
        self.directories += 1;
        self.digest.add_bytes(&[1], path, b"");
    }

    /// Adds one name of a regular file of `size` bytes with `links` names in all.
    pub fn add_file(&mut self, path: &[u8], size: u64, links: u64) {
        self.file_names += 1;
        self.bytes += size;
        self.digest.add_bytes(&[2, size, links], path, b"");
    }

    /// Adds a symbolic link that says `text`.
    pub fn add_symlink(&mut self, path: &[u8], text: &[u8]) {
        self.symlinks += 1;
        self.digest.add_bytes(&[3], path, text);
    }

    /// Adds another part of the same tree.
    pub fn merge(&mut self, other: &Self) {
        self.directories += other.directories;
        self.file_names += other.file_names;
        self.symlinks += other.symlinks;
        self.bytes += other.bytes;
        self.digest.merge(&other.digest);
    }
}

/// The shape of what is below `directory`. Entries of that directory itself that are no thread's top
/// directory (`lost+found`, say) are left out.
///
/// # Errors
/// Something could not be listed or inspected.
pub fn walk(directory: &Path) -> Result<Shape, ShapeError> {
    let mut shape = Shape::default();
    let mut waiting = Vec::new();
    for (path, name) in list(directory)? {
        let is_top = name
            .strip_prefix(b"t")
            .is_some_and(|rest| rest.len() >= 2 && rest.iter().all(u8::is_ascii_digit));
        if is_top {
            shape.add_directory(&name);
            waiting.push((path, name));
        }
    }
    while let Some((path, below)) = waiting.pop() {
        for (path, name) in list(&path)? {
            let name = [&below[..], b"/", &name].concat();
            add(&mut shape, &mut waiting, path, name)?;
        }
    }
    Ok(shape)
}

type Waiting = Vec<(PathBuf, Vec<u8>)>;

fn add(shape: &mut Shape, waiting: &mut Waiting, path: PathBuf, name: Vec<u8>) -> Result<(), ShapeError> {
    let look = |source| ShapeError::Look { path: path.clone(), source };
    let facts = fs::symlink_metadata(&path).map_err(look)?;
    if facts.is_dir() {
        shape.add_directory(&name);
        waiting.push((path, name));
    } else if facts.is_symlink() {
        let text = fs::read_link(&path).map_err(look)?;
        shape.add_symlink(&name, text.as_os_str().as_bytes());
    } else {
        shape.add_file(&name, facts.len(), facts.nlink());
    }
    Ok(())
}

/// The entries of a directory with their names.
fn list(directory: &Path) -> Result<Waiting, ShapeError> {
    let look = |source| ShapeError::Look { path: directory.to_owned(), source };
    let entries = fs::read_dir(directory).map_err(look)?;
    entries
        .map(|entry| entry.map(|entry| (entry.path(), entry.file_name().as_bytes().to_vec())).map_err(look))
        .collect()
}
