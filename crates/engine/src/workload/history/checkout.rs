//! A tree on the volume that follows a history, change by change.

use fsage_model::operation::{Operation, OperationKind};
use fsage_model::quantity::index;
use fsage_model::workload::ReplaceSpec;

use super::{Change, History};
use crate::workload::population::Population;

/// Where there is no file.
const NO_FILE: u64 = u64::MAX;
/// Where there is no directory.
const NO_DIRECTORY: u32 = u32::MAX;

/// How far the change under way is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    /// A directory of the history is being made.
    Making(u32),
    /// The new file is there beside the old one.
    Made(u64),
    /// It has its name; the old one is to go.
    Renamed(u64),
    /// The file is gone: this directory may be empty.
    Prune(u32),
}

/// What an operation left of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More operations.
    More,
    /// It is done.
    Done,
}

/// Files and directories of one tree. Memory: 8 bytes a path and 8 a directory of the history.
#[derive(Debug)]
pub struct Checkout {
    replace: ReplaceSpec,
    /// Number of each directory of the history.
    numbers: Vec<u32>,
    /// Things in it.
    entries: Vec<u32>,
    /// File of each path.
    files: Vec<u64>,
    stage: Stage,
}

impl Checkout {
    /// An empty tree below directory `top`.
    pub fn new(history: &History, top: u32, replace: ReplaceSpec) -> Self {
        let mut numbers = vec![NO_DIRECTORY; history.directories()];
        numbers[0] = top;
        Self {
            replace,
            numbers,
            entries: vec![0; history.directories()],
            files: vec![NO_FILE; history.paths()],
            stage: Stage::Begin,
        }
    }

    /// Says where it is, if that was not known at first.
    pub fn put(&mut self, top: u32) {
        self.numbers[0] = top;
    }

    /// Things in a directory of the history.
    pub fn entries(&self, directory: u32) -> u32 {
        self.entries[index(directory)]
    }

    /// Files there are, one that is about to take another's place included.
    pub fn files(&self) -> impl Iterator<Item = u64> + '_ {
        let incoming = match self.stage {
            Stage::Made(file) | Stage::Renamed(file) => Some(file),
            _ => None,
        };
        self.files.iter().copied().filter(|file| *file != NO_FILE).chain(incoming)
    }

    /// Directories there are but the top, children before their parents: each with its parent.
    pub fn directories<'a>(&'a self, history: &'a History) -> impl Iterator<Item = (u32, u32)> + 'a {
        let all = (0_u32..).zip(&self.numbers).skip(1).collect::<Vec<_>>();
        all.into_iter()
            .rev()
            .filter(|(_, number)| **number != NO_DIRECTORY)
            .map(|(directory, number)| (*number, self.numbers[index(history.parent(directory))]))
    }

    /// Gives up the change under way; what it made so far and is not in the tree is to be deleted by the
    /// caller.
    pub fn abandon(&mut self) -> Option<u64> {
        match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Made(file) | Stage::Renamed(file) => Some(file),
            _ => None,
        }
    }

    /// The next operation of a change; nothing when it is done.
    pub fn operation(
        &mut self,
        change: Change,
        history: &History,
        population: &mut Population,
    ) -> Option<Operation> {
        let home = history.home(change.path);
        let old = self.files[index(change.path)];
        let operation = match (self.stage, change.size) {
            (Stage::Begin | Stage::Making(_), Some(size)) => self.write(home, old, size, history, population),
            (Stage::Made(file), _) => population.rename(file, self.numbers[index(home)]),
            (Stage::Renamed(_), _) => population.delete(old),
            (Stage::Prune(directory), _) => self.prune(directory, history, population),
            (Stage::Begin | Stage::Making(_), None) => population.delete(old),
        };
        if operation.is_none() {
            self.stage = Stage::Begin;
        }
        operation
    }

    fn write(
        &mut self,
        home: u32,
        old: u64,
        size: u64,
        history: &History,
        population: &mut Population,
    ) -> Option<Operation> {
        self.stage = Stage::Begin;
        if self.numbers[0] == NO_DIRECTORY {
            // It could not be made.
            return None;
        }
        let (mut missing, mut above) = (None, home);
        while self.numbers[index(above)] == NO_DIRECTORY {
            missing = Some(above);
            above = history.parent(above);
        }
        if let Some(missing) = missing {
            self.stage = Stage::Making(missing);
            return Some(population.make_directory(self.numbers[index(above)]));
        }
        if old != NO_FILE && self.replace == ReplaceSpec::Unlink {
            return population.delete(old);
        }
        Some(population.create(self.numbers[index(home)], size))
    }

    fn prune(&self, directory: u32, history: &History, population: &Population) -> Option<Operation> {
        let number = self.numbers[index(directory)];
        if directory == 0 || number == NO_DIRECTORY || self.entries[index(directory)] > 0 {
            return None;
        }
        Some(population.remove_directory(number, self.numbers[index(history.parent(directory))]))
    }

    /// Takes in that an operation of a change succeeded.
    pub fn succeeded(&mut self, operation: &Operation, change: Change, history: &History) -> Progress {
        let home = index(history.home(change.path));
        let path = index(change.path);
        match (operation.kind(), self.stage) {
            (OperationKind::Mkdir, Stage::Making(directory)) => {
                self.numbers[index(directory)] = operation.place.directory;
                self.entries[index(history.parent(directory))] += 1;
                self.stage = Stage::Begin;
            }
            (OperationKind::Create, _) => {
                self.entries[home] += 1;
                if self.replace == ReplaceSpec::Unlink {
                    self.files[path] = operation.file;
                    return Progress::Done;
                }
                self.stage = Stage::Made(operation.file);
            }
            (OperationKind::Rename, _) if self.files[path] == NO_FILE => {
                return self.settle(path, operation.file);
            }
            (OperationKind::Rename, _) => self.stage = Stage::Renamed(operation.file),
            (OperationKind::Delete, stage) => {
                self.files[path] = NO_FILE;
                self.entries[home] -= 1;
                match (stage, change.size) {
                    (Stage::Renamed(file), _) => return self.settle(path, file),
                    (_, None) => self.stage = Stage::Prune(history.home(change.path)),
                    (_, Some(_)) => {}
                }
            }
            (OperationKind::Rmdir, Stage::Prune(directory)) => {
                self.numbers[index(directory)] = NO_DIRECTORY;
                let parent = history.parent(directory);
                self.entries[index(parent)] -= 1;
                self.stage = Stage::Prune(parent);
            }
            _ => {}
        }
        Progress::More
    }

    fn settle(&mut self, path: usize, file: u64) -> Progress {
        self.files[path] = file;
        self.stage = Stage::Begin;
        Progress::Done
    }
}
