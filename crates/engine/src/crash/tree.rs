//! A tree as it should be.
//!
//! Contents are known by what fsage-content writes: each block says its file, its offset and which writing
//! of the file it is (version). Every file of a load has an identity of its own for its whole life,
//! whatever its names are.

use std::collections::BTreeMap;

use fsage_content::{BLOCK_BYTES, fill};
use fsage_model::crash::CrashOperation;

/// Identity of a file's content.
pub type Identity = u64;

/// Bytes of a block.
pub const BLOCK: u64 = 4096;

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A file.
    File(Identity),
}

/// A block of a file: its first `bytes` bytes are of that version, the rest is zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// 0: never written, all zeros.
    pub version: u32,
    /// 0 to 4096.
    pub bytes: u64,
}

impl Written {
    const HOLE: Self = Self { version: 0, bytes: 0 };
}

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its size.
    pub size_bytes: u64,
    /// Its blocks.
    pub blocks: Vec<Written>,
    /// The version of its extended attribute; 0: it has none.
    pub attribute: u32,
}

impl Contents {
    fn resize(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
        self.blocks.resize(index(size_bytes.div_ceil(BLOCK)), Written::HOLE);
    }

    fn write(&mut self, offset_bytes: u64, length_bytes: u64, version: u32) {
        let end = offset_bytes + length_bytes;
        if end > self.size_bytes {
            self.resize(end);
        }
        let first = index(offset_bytes / BLOCK);
        for (number, block) in self.blocks.iter_mut().enumerate().skip(first) {
            let start = wide(number) * BLOCK;
            if start < end {
                *block = Written { version, bytes: (end - start).min(BLOCK) };
            }
        }
    }

    fn punch(&mut self, offset_bytes: u64, length_bytes: u64) {
        let blocks = offset_bytes / BLOCK..(offset_bytes + length_bytes) / BLOCK;
        for (number, block) in (0..).zip(&mut self.blocks) {
            if blocks.contains(&number) {
                *block = Written::HOLE;
            }
        }
    }

    /// A block of it; a hole beyond its end.
    pub fn block(&self, number: u64) -> Written {
        self.blocks.get(index(number)).copied().unwrap_or(Written::HOLE)
    }

    /// The value of its extended attribute, if it has one.
    pub fn attribute(&self, file: Identity) -> Option<Vec<u8>> {
        (self.attribute > 0).then(|| attribute_bytes(file, self.attribute))
    }

    /// Its bytes.
    pub fn bytes(&self, file: Identity) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, block) in (0..).zip(&self.blocks) {
            bytes.extend(block_bytes(file, number, *block));
        }
        bytes.truncate(index(self.size_bytes));
        bytes
    }
}

/// Offset that values of extended attributes say: no file is so long.
pub const ATTRIBUTE_OFFSET: u64 = 1 << 40;

/// The value of a version of a file's extended attribute. Those of odd versions are so short that they lie in the inode
/// where a file system does that, the others are not.
pub fn attribute_bytes(file: Identity, version: u32) -> Vec<u8> {
    let mut bytes = vec![0; if version.is_multiple_of(2) { 1024 } else { 48 }];
    fill(&mut bytes, file, ATTRIBUTE_OFFSET, version);
    bytes
}

/// The bytes of block `number` of a file.
pub fn block_bytes(file: Identity, number: u64, block: Written) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    if block.version > 0 {
        let length = index(block.bytes).min(BLOCK_BYTES);
        fill(&mut bytes[..length], file, number * BLOCK, block.version);
    }
    bytes
}

/// A tree and its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Paths relative to the load's directory.
    pub names: BTreeMap<String, Node>,
    /// Contents of every file that ever was.
    pub files: BTreeMap<Identity, Contents>,
    next_file: Identity,
    next_version: u32,
}

impl Tree {
    /// An empty one. Files of trees with different seeds have different identities.
    pub fn new(seed: u64) -> Self {
        let next_file = (seed << 24 | 1) & (u64::MAX >> 1);
        Self { names: BTreeMap::new(), files: BTreeMap::new(), next_file, next_version: 1 }
    }

    /// The identity that the next file has.
    pub const fn next_file(&self) -> Identity {
        self.next_file
    }

    /// The version that the next write writes.
    pub const fn next_version(&self) -> u32 {
        self.next_version
    }

    /// The file of a name.
    pub fn file(&self, path: &str) -> Option<Identity> {
        match self.names.get(path) {
            Some(Node::File(file)) => Some(*file),
            _ => None,
        }
    }

    /// What the file of a name holds.
    pub fn contents(&self, path: &str) -> Option<&Contents> {
        self.files.get(&self.file(path)?)
    }

    /// Does an operation, which a load only asks for where it can be done. The file that it changed, if any.
    pub fn apply(&mut self, operation: &CrashOperation) -> Option<Identity> {
        match operation {
            CrashOperation::Create { path } => {
                let file = self.next_file;
                self.next_file += 1;
                self.names.insert(path.clone(), Node::File(file));
                self.files.insert(file, Contents::default());
                Some(file)
            }
            CrashOperation::Write { path, offset_bytes, length_bytes }
            | CrashOperation::DirectWrite { path, offset_bytes, length_bytes }
            | CrashOperation::MappedWrite { path, offset_bytes, length_bytes } => {
                let (file, version) = (self.file(path)?, self.next_version);
                self.next_version += 1;
                self.files.get_mut(&file)?.write(*offset_bytes, *length_bytes, version);
                Some(file)
            }
            CrashOperation::LinkUnnamed { path, length_bytes } => {
                self.apply(&CrashOperation::Create { path: path.clone() })?;
                let path = path.clone();
                self.apply(&CrashOperation::Write { path, offset_bytes: 0, length_bytes: *length_bytes })
            }
            CrashOperation::Punch { path, offset_bytes, length_bytes } => {
                self.change(path, |held| held.punch(*offset_bytes, *length_bytes))
            }
            CrashOperation::Allocate { path, size_bytes } => {
                self.change(path, |held| held.resize(held.size_bytes.max(*size_bytes)))
            }
            CrashOperation::Exchange { from, to } => {
                let (one, other) = (*self.names.get(from)?, *self.names.get(to)?);
                self.names.insert(from.clone(), other);
                self.names.insert(to.clone(), one);
                None
            }
            CrashOperation::Truncate { path, size_bytes } => {
                self.change(path, |held| held.resize(*size_bytes))
            }
            CrashOperation::SetAttribute { path } => {
                let version = self.next_version;
                self.next_version += 1;
                self.change(path, |held| held.attribute = version)
            }
            CrashOperation::RemoveAttribute { path } => self.change(path, |held| held.attribute = 0),
            CrashOperation::Rename { from, to } => {
                self.rename(from, to);
                None
            }
            CrashOperation::Link { from, to } => {
                let node = *self.names.get(from)?;
                self.names.insert(to.clone(), node);
                None
            }
            CrashOperation::Unlink { path } | CrashOperation::Rmdir { path } => {
                self.names.remove(path);
                None
            }
            CrashOperation::Mkdir { path } => {
                self.names.insert(path.clone(), Node::Directory);
                None
            }
            CrashOperation::WriteOut { .. }
            | CrashOperation::Fsync { .. }
            | CrashOperation::Fdatasync { .. }
            | CrashOperation::FsyncDirectory { .. }
            | CrashOperation::Sync => None,
        }
    }

    /// Changes the file of a name.
    fn change(&mut self, path: &str, change: impl FnOnce(&mut Contents)) -> Option<Identity> {
        let file = self.file(path)?;
        change(self.files.get_mut(&file)?);
        Some(file)
    }

    /// Renames a file, or a directory with what is in it.
    fn rename(&mut self, from: &str, to: &str) {
        let Some(node) = self.names.remove(from) else { return };
        self.names.insert(to.to_owned(), node);
        if node == Node::Directory {
            self.rename_within(from, to);
        }
    }

    fn rename_within(&mut self, from: &str, to: &str) {
        let from = format!("{from}/");
        let within: Vec<String> = self.names.keys().filter(|name| name.starts_with(&from)).cloned().collect();
        for name in within {
            if let (Some(node), Some(rest)) = (self.names.remove(&name), name.strip_prefix(&from)) {
                self.names.insert(format!("{to}/{rest}"), node);
            }
        }
    }
}

/// The directory of a path; empty: the load's own.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_what_was_written() {
        let mut tree = Tree::new(3);
        let path = "a".to_owned();
        tree.apply(&CrashOperation::Create { path: path.clone() });
        let write = |offset_bytes, length_bytes| CrashOperation::Write {
            path: path.clone(),
            offset_bytes,
            length_bytes,
        };
        tree.apply(&write(0, 5000));
        tree.apply(&write(8192, 10));
        let file = tree.file("a").unwrap();
        let bytes = tree.contents("a").unwrap().bytes(file);
        assert_eq!(bytes.len(), 8202);
        let mut expected = vec![0; 5000];
        fill(&mut expected, file, 0, 1);
        assert_eq!(&bytes[..5000], expected);
        assert!(bytes[5000..8192].iter().all(|byte| *byte == 0));
        assert_ne!(&bytes[8192..], [0; 10]);
        tree.apply(&CrashOperation::Truncate { path: path.clone(), size_bytes: 4096 });
        assert_eq!(tree.contents("a").unwrap().blocks, [Written { version: 1, bytes: 4096 }]);
        tree.apply(&CrashOperation::Rename { from: path.clone(), to: "b".to_owned() });
        assert_eq!((tree.file("a"), tree.file("b")), (None, Some(file)));
        assert_ne!(Tree::new(4).next_file, Tree::new(3).next_file);
    }
}
