//! The files and directories of one thread, for workloads whose files need no slots.
//!
//! It numbers what is made, remembers which object the operation under way is about, and follows its outcome in a
//! [`Model`]. Memory: about 120 bytes a live file.

use super::{LiveFile, Model};
use crate::distribution::Random;
use crate::load::WriteMode;
use crate::operation::{BLOCK_BYTES, Operation, OperationKind, Outcome, Place};
use crate::tree::Directory;

/// Files and directories, and the operations that change them.
#[derive(Debug)]
pub struct Population {
    model: Model,
    /// Sizes are whole multiples of it.
    granule: u64,
    initial: Vec<Directory>,
    /// Directories there are, the thread's top (0) included, in no order.
    directories: Vec<u32>,
    /// Identities of the live files, in no order.
    files: Vec<u64>,
    /// Position in `files` of the one that is being deleted.
    leaving: usize,
    next_file: u64,
    next_name: u64,
    next_directory: u32,
}

impl Population {
    /// Nothing but `count` directories, each below one of those before it, drawn at random.
    pub fn new(thread: u32, count: u32, write_mode: WriteMode, random: &mut Random) -> Self {
        let mut directories = vec![0];
        let mut initial = Vec::new();
        for number in 1..=count {
            let parent = pick(&directories, random);
            initial.push(Directory { number, parent });
            directories.push(number);
        }
        Self {
            model: Model::new(thread, &initial),
            granule: if write_mode == WriteMode::Direct { BLOCK_BYTES } else { 1 },
            initial,
            directories,
            files: Vec::new(),
            leaving: 0,
            next_file: u64::from(thread) << 48,
            next_name: 0,
            next_directory: count,
        }
    }

    /// What there is before the first operation.
    pub fn initial_directories(&self) -> Vec<Directory> {
        self.initial.clone()
    }

    /// What there is now.
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// A directory, each as likely as any other.
    pub fn any_directory(&self, random: &mut Random) -> u32 {
        pick(&self.directories, random)
    }

    /// The directory that was made last.
    pub const fn newest_directory(&self) -> u32 {
        self.next_directory
    }

    /// Makes a directory below `parent`.
    pub fn make_directory(&self, parent: u32) -> Operation {
        let place = Place { directory: self.next_directory + 1, name: 0 };
        Operation { place, offset: u64::from(parent), version: 0, ..blank(OperationKind::Mkdir) }
    }

    /// Makes a file of `size` bytes (at least 1) in `directory`.
    pub fn create(&mut self, directory: u32, size: u64) -> Operation {
        self.next_file += 1;
        self.next_name += 1;
        let place = Place { directory, name: self.next_name - 1 };
        let length = size.max(1).next_multiple_of(self.granule);
        Operation { file: self.next_file, place, length, ..blank(OperationKind::Create) }
    }

    /// Deletes a file, each as likely as any other; nothing when there is none.
    pub fn delete_any(&mut self, random: &mut Random) -> Option<Operation> {
        let count = u64::try_from(self.files.len()).ok().filter(|&count| count > 0)?;
        self.leaving = usize::try_from(random.below(count)).ok()?;
        let LiveFile { file, place, size, version, .. } = self.model.file(*self.files.get(self.leaving)?)?;
        Some(Operation { file, place, size, version, ..blank(OperationKind::Delete) })
    }

    /// Takes in how the operation under way went.
    pub fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        if outcome.errno != 0 {
            return self.model.fail(operation);
        }
        self.model.apply(operation);
        match operation.kind {
            OperationKind::Create => self.files.push(operation.file),
            OperationKind::Delete => drop(self.files.swap_remove(self.leaving)),
            OperationKind::Mkdir => {
                self.next_directory = operation.place.directory;
                self.directories.push(self.next_directory);
            }
            _ => {}
        }
    }
}

fn pick(from: &[u32], random: &mut Random) -> u32 {
    let count = u64::try_from(from.len()).unwrap_or(u64::MAX);
    usize::try_from(random.below(count.max(1))).ok().and_then(|n| from.get(n)).copied().unwrap_or(0)
}

const fn blank(kind: OperationKind) -> Operation {
    let nowhere = Place { directory: 0, name: 0 };
    Operation {
        kind,
        file: 0,
        place: nowhere,
        target: nowhere,
        offset: 0,
        length: 0,
        size: 0,
        version: 1,
        accesses: 1,
    }
}
