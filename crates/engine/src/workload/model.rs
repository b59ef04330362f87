//! What a thread's tree must look like after some operations: the model of a replay, and of the workloads
//! that keep no leaner one of their own.

use std::collections::HashMap;

use fsage_model::digest::Digest;
use fsage_model::operation::{Action, BLOCK_BYTES, DirectoryEntry, Operation};

use super::{HardLink, LiveFile, Symlink, TreeDigest};
use crate::tree::{Directory, DirectoryTree, Shape};

/// What a name leads to.
#[derive(Debug, Clone, Copy)]
enum Entry {
    File(u64),
    /// A symbolic link, with what it says.
    Symlink(DirectoryEntry),
}

/// Files, names and directories of one thread. Memory: about 100 bytes a live name.
#[derive(Debug)]
pub struct Model {
    directories: DirectoryTree,
    names: HashMap<DirectoryEntry, Entry>,
    files: HashMap<u64, LiveFile>,
    block_bytes: u64,
}

impl Model {
    pub fn new(thread: u32, initial: &[Directory]) -> Self {
        Self {
            directories: DirectoryTree::new(thread, initial.iter().copied()),
            names: HashMap::new(),
            files: HashMap::new(),
            block_bytes: 0,
        }
    }

    /// The thread.
    pub const fn thread(&self) -> u32 {
        self.directories.thread()
    }

    /// The directories there are, parents first.
    pub fn directories_by_depth(&self) -> Vec<Directory> {
        let mut all: Vec<Directory> = self.directories.iter().collect();
        all.sort_by_key(|directory| self.directories.depth(directory.number));
        all
    }

    /// Path of what an operation works on, below the load's directory: what is made by one that makes a
    /// directory or a link.
    pub fn path_of(&self, operation: &Operation) -> String {
        let mut path = Vec::new();
        match operation.action {
            Action::Link { target } | Action::Symlink { target } => {
                self.directories.write_path(&mut path, target);
            }
            _ => self.directories.write_object_path(&mut path, operation),
        }
        String::from_utf8(path).unwrap_or_default()
    }

    /// Live files.
    pub fn files(&self) -> u64 {
        u64::try_from(self.files.len()).unwrap_or(u64::MAX)
    }

    /// Sum of the sizes of the live files.
    pub fn size_bytes(&self) -> u64 {
        self.files.values().map(|file| file.size).sum()
    }

    /// The same in whole blocks.
    pub const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Live files under their first names.
    pub fn live_files(&self) -> impl Iterator<Item = LiveFile> + '_ {
        self.files.values().copied()
    }

    /// A live file.
    pub fn file(&self, file: u64) -> Option<LiveFile> {
        self.files.get(&file).copied()
    }

    /// Every directory but the top.
    pub fn directories(&self) -> impl Iterator<Item = Directory> + '_ {
        self.directories.iter()
    }

    /// Names beyond a file's first.
    pub fn hard_links(&self) -> impl Iterator<Item = HardLink> + '_ {
        self.names.iter().filter_map(|(place, entry)| match *entry {
            Entry::File(file) if self.files.get(&file).is_some_and(|it| it.place != *place) => {
                Some(HardLink { file, place: *place })
            }
            _ => None,
        })
    }

    /// Symbolic links.
    pub fn symlinks(&self) -> impl Iterator<Item = Symlink> + '_ {
        self.names.iter().filter_map(|(place, entry)| match *entry {
            Entry::Symlink(target) => Some(Symlink { place: *place, target }),
            Entry::File(_) => None,
        })
    }

    /// Follows an operation that succeeded.
    pub fn apply(&mut self, operation: &Operation) {
        let Operation { file, place, version, .. } = *operation;
        match operation.action {
            Action::Create { length: size } => {
                self.files.insert(file, LiveFile { file, place, size: 0, version, links: 1 });
                self.names.insert(place, Entry::File(file));
                self.resize(operation, size);
            }
            Action::Append { offset, length } => self.resize(operation, offset + length),
            Action::Truncate { new_size } => self.resize(operation, new_size),
            Action::RandomWrite { .. } | Action::Overwrite => self.resize(operation, operation.size),
            Action::Delete => self.unlink(place),
            Action::Rename { target } => {
                if let Some(entry) = self.names.remove(&place) {
                    self.unlink(target);
                    self.names.insert(target, entry);
                    self.rehome(file, target);
                }
            }
            Action::Link { target } => {
                self.names.insert(target, Entry::File(file));
                if let Some(file) = self.files.get_mut(&file) {
                    file.links += 1;
                }
            }
            Action::Symlink { target } => {
                self.names.insert(target, Entry::Symlink(place));
            }
            Action::Mkdir { .. } | Action::Rmdir { .. } => self.directories.follow(operation),
            Action::Read { .. }
            | Action::RandomRead { .. }
            | Action::Fallocate { .. }
            | Action::Fsync
            | Action::Fdatasync => {}
        }
    }

    fn resize(&mut self, operation: &Operation, size: u64) {
        if let Some(file) = self.files.get_mut(&operation.file) {
            self.block_bytes -= file.size.next_multiple_of(BLOCK_BYTES);
            file.size = size;
            file.version = file.version.max(operation.version);
            self.block_bytes += size.next_multiple_of(BLOCK_BYTES);
        }
    }

    fn rehome(&mut self, file: u64, place: DirectoryEntry) {
        if let Some(file) = self.files.get_mut(&file) {
            file.place = place;
        }
    }

    fn unlink(&mut self, place: DirectoryEntry) {
        let Some(Entry::File(number)) = self.names.remove(&place) else { return };
        let Some(file) = self.files.get_mut(&number) else { return };
        file.links -= 1;
        if file.links == 0 {
            self.block_bytes -= file.size.next_multiple_of(BLOCK_BYTES);
            self.files.remove(&number);
        } else if file.place == place {
            // Another name must be distinguished: rare enough to search for it.
            let other =
                self.names.iter().find(|(_, entry)| matches!(entry, Entry::File(other) if *other == number));
            if let Some((place, _)) = other {
                file.place = *place;
            }
        }
    }

    /// Follows a write that failed: blocks of its version may be there, as after the load's own
    /// (`Drift::failed`).
    pub fn fail(&mut self, operation: &Operation) {
        if operation.kind().writes_again()
            && let Some(file) = self.files.get_mut(&operation.file)
        {
            file.version = file.version.max(operation.version);
        }
    }

    /// Digest of the logical tree, as the load that was recorded has it.
    pub fn digest(&self) -> Digest {
        let mut digest = TreeDigest::of_thread(self.directories.thread());
        self.directories.iter().for_each(|directory| digest.directory(directory));
        self.files.values().for_each(|file| digest.file(file));
        self.symlinks().for_each(|link| digest.symlink(&link));
        self.hard_links().for_each(|link| digest.hard_link(&link));
        digest.finish()
    }

    /// What a walk of the thread's part of the directory must find.
    pub fn shape(&self) -> Shape {
        let mut shape = Shape::default();
        let mut path = Vec::new();
        self.directories.write_directory_path(&mut path, 0);
        shape.add_directory(&path);
        for directory in self.directories.iter() {
            path.clear();
            self.directories.write_directory_path(&mut path, directory.number);
            shape.add_directory(&path);
        }
        let mut text = Vec::new();
        for (place, entry) in &self.names {
            path.clear();
            self.directories.write_path(&mut path, *place);
            match entry {
                Entry::Symlink(target) => {
                    text.clear();
                    self.directories.write_symlink_text(&mut text, place.directory, *target);
                    shape.add_symlink(&path, &text);
                }
                Entry::File(file) => {
                    if let Some(file) = self.files.get(file) {
                        shape.add_file(&path, file.size, u64::from(file.links));
                    }
                }
            }
        }
        shape
    }
}
