//! The files and directories of one thread, for workloads whose files need no slots.
//!
//! It numbers what is made, remembers which object the operation under way is about, and follows its outcome
//! in a [`Model`]. Memory: about 120 bytes a live file.

use fsage_model::load::WriteMode;
use fsage_model::operation::{Action, BLOCK_BYTES, DirectoryEntry, Operation, OperationKind, Outcome};
use fsage_model::workload::WorkloadError;
use fsage_sys::errno::is_out_of_space;

use super::{LiveFile, Model};
use crate::distribution::Random;
use crate::tree::Directory;

/// Most directories of a load.
const MAX_DIRECTORIES: u64 = 1 << 24;

/// Files in a row that did not fit, after which no more are tried.
pub const PATIENCE: u32 = 16;

/// Files and directories, and the operations that change them.
#[derive(Debug)]
pub struct Population {
    model: Model,
    /// Sizes are whole multiples of it.
    granule: u64,
    initial: Vec<Directory>,
    /// Directories there are, the thread's top (0) included, in no order.
    directories: Vec<u32>,
    /// Identities of the live files, in no order; nothing in a population without a list.
    files: Vec<u64>,
    /// Whether `files` is kept.
    listed: bool,
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
        Self::with(thread, initial, write_mode)
    }

    /// Nothing but these directories: numbers from 1 without a gap, parents first.
    pub fn with(thread: u32, initial: Vec<Directory>, write_mode: WriteMode) -> Self {
        Self {
            model: Model::new(thread, &initial),
            granule: if write_mode == WriteMode::Direct { BLOCK_BYTES } else { 1 },
            directories: std::iter::once(0).chain(initial.iter().map(|it| it.number)).collect(),
            next_directory: u32::try_from(initial.len()).unwrap_or(u32::MAX),
            initial,
            files: Vec::new(),
            listed: true,
            leaving: usize::MAX,
            next_file: u64::from(thread) << 48,
            next_name: 0,
        }
    }

    /// Without [`Population::delete_any`], and [`Population::any_directory`] is one of the first: the
    /// workload has lists of its own.
    pub fn without_list(self) -> Self {
        Self { listed: false, ..self }
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
        Operation::on_directory(Action::Mkdir { parent }, self.next_directory + 1)
    }

    /// Removes an empty directory below `parent`.
    pub fn remove_directory(&self, number: u32, parent: u32) -> Operation {
        Operation::on_directory(Action::Rmdir { parent }, number)
    }

    /// Makes a file of `size` bytes (at least 1) in `directory`.
    pub fn create(&mut self, directory: u32, size: u64) -> Operation {
        self.next_file += 1;
        self.next_name += 1;
        let place = DirectoryEntry { directory, name: self.next_name - 1 };
        let length = size.max(1).next_multiple_of(self.granule);
        Operation { action: Action::Create { length }, file: self.next_file, place, size: 0, version: 1 }
    }

    /// Adds `bytes` (at least 1) at the end of a live file.
    pub fn append(&self, file: u64, bytes: u64) -> Option<Operation> {
        let LiveFile { place, size, version, .. } = self.model.file(file)?;
        let offset = size / BLOCK_BYTES * BLOCK_BYTES;
        let length = (size - offset + bytes.max(1)).next_multiple_of(self.granule);
        Some(Operation { action: Action::Append { offset, length }, file, place, size, version: version + 1 })
    }

    /// Gives a live file a new name in `directory`.
    pub fn rename(&mut self, file: u64, directory: u32) -> Option<Operation> {
        let target = DirectoryEntry { directory, name: self.next_name };
        let operation = self.on_file(Action::Rename { target }, file)?;
        self.next_name += 1;
        Some(operation)
    }

    /// Reads a live file, from its beginning to its end.
    pub fn read(&self, file: u64) -> Option<Operation> {
        self.on_file(Action::Read { length: self.model.file(file)?.size }, file)
    }

    /// Syncs a live file.
    pub fn fsync(&self, file: u64) -> Option<Operation> {
        self.on_file(Action::Fsync, file)
    }

    /// Deletes a live file; for populations without a list.
    pub fn delete(&self, file: u64) -> Option<Operation> {
        self.on_file(Action::Delete, file)
    }

    /// Deletes a file, each as likely as any other; nothing when there is none.
    pub fn delete_any(&mut self, random: &mut Random) -> Option<Operation> {
        let count = u64::try_from(self.files.len()).ok().filter(|&count| count > 0)?;
        self.leaving = usize::try_from(random.below(count)).ok()?;
        self.on_file(Action::Delete, *self.files.get(self.leaving)?)
    }

    fn on_file(&self, action: Action, file: u64) -> Option<Operation> {
        let LiveFile { file, place, size, version, .. } = self.model.file(file)?;
        Some(Operation { action, file, place, size, version })
    }

    /// Takes in how the operation under way went.
    pub fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        if outcome.errno != 0 {
            return self.model.fail(operation);
        }
        self.model.apply(operation);
        match operation.kind() {
            OperationKind::Create if self.listed => self.files.push(operation.file),
            OperationKind::Delete if self.listed => drop(self.files.swap_remove(self.leaving)),
            OperationKind::Mkdir => {
                self.next_directory = operation.place.directory;
                if self.listed {
                    self.directories.push(self.next_directory);
                }
            }
            _ => {}
        }
    }
}

/// A thread's part of so many directories, which must be at least one per thread.
pub fn own_directories(key: &str, count: u64, thread: u32, threads: u32) -> Result<u32, WorkloadError> {
    let (own, all) = (u64::from(thread), u64::from(threads));
    if !(all..=MAX_DIRECTORIES).contains(&count) {
        return Err(WorkloadError::range(key, count, &format!("in {all}..={MAX_DIRECTORIES}")));
    }
    Ok(u32::try_from(count / all + u64::from(own < count % all)).unwrap_or(u32::MAX))
}

/// Whether an operation failed because the volume is full.
pub const fn is_shortage(outcome: &Outcome) -> bool {
    is_out_of_space(outcome.errno)
}

fn pick(from: &[u32], random: &mut Random) -> u32 {
    let count = u64::try_from(from.len()).unwrap_or(u64::MAX);
    usize::try_from(random.below(count.max(1))).ok().and_then(|n| from.get(n)).copied().unwrap_or(0)
}
