//! One clone: its work tree, and the files of its repository.

use fsage_model::operation::{Operation, OperationKind};
use fsage_model::workload::ReplaceSpec;

use crate::workload::history::{Checkout, History, Progress};
use crate::workload::population::Population;

/// Where there is no directory yet.
const NONE: u32 = u32::MAX;

/// A directory of a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The work tree's.
    Top,
    /// `.git`.
    Git,
    /// `.git/objects`.
    Objects,
    /// `.git/objects/pack`.
    Packs,
}

/// What a file of the repository is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A loose object, with the first byte of its hash.
    Object(u8),
    /// All objects in one file.
    Pack,
    /// The list of the work tree's files.
    Index,
    /// Where the branch is.
    Reference,
}

/// How far the file under way is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    Made(u64),
    Renamed(u64),
}

/// A clone. Memory: that of its checkout, and 8 bytes a loose object.
#[derive(Debug)]
pub struct Repository {
    pub checkout: Checkout,
    /// State of the history that it is at, or is being brought to.
    pub state: usize,
    /// Numbers of the directories of each [`Slot`].
    slots: [u32; 4],
    fan_out: Vec<u32>,
    loose: Vec<u64>,
    loose_bytes: u64,
    pack: Option<u64>,
    pack_bytes: u64,
    index: Option<u64>,
    reference: Option<u64>,
    stage: Stage,
    /// Leftovers of an operation which failed.
    strays: Vec<u64>,
}

impl Repository {
    /// One that is still to be made.
    pub fn new(history: &History, replace: ReplaceSpec) -> Self {
        Self {
            checkout: Checkout::new(history, NONE, replace),
            state: 0,
            slots: [NONE; 4],
            fan_out: vec![NONE; 256],
            loose: Vec::new(),
            loose_bytes: 0,
            pack: None,
            pack_bytes: 0,
            index: None,
            reference: None,
            stage: Stage::Begin,
            strays: Vec::new(),
        }
    }

    const fn slot(&self, slot: Slot) -> u32 {
        self.slots[slot as usize]
    }

    /// The directory that one is to be made in.
    pub const fn parent_of(&self, slot: Slot) -> u32 {
        match slot {
            Slot::Top => 0,
            Slot::Git => self.slot(Slot::Top),
            Slot::Objects => self.slot(Slot::Git),
            Slot::Packs => self.slot(Slot::Objects),
        }
    }

    /// Takes in that a directory was made.
    pub fn made_directory(&mut self, slot: Slot, number: u32) {
        self.slots[slot as usize] = number;
        if slot == Slot::Top {
            self.checkout.put(number);
        }
    }

    /// The next operation that puts a file in its place; nothing when that is done. A pack is of the size of
    /// what goes into it, at least `bytes`.
    pub fn operation(&mut self, role: Role, bytes: u64, population: &mut Population) -> Option<Operation> {
        let directory = match role {
            Role::Object(fan) => self.fan_out[usize::from(fan)],
            Role::Pack => self.slot(Slot::Packs),
            Role::Index | Role::Reference => self.slot(Slot::Git),
        };
        if directory == NONE {
            return Some(population.make_directory(self.slot(Slot::Objects)));
        }
        match self.stage {
            Stage::Begin if role == Role::Pack => {
                Some(population.create(directory, bytes.max(self.pack_bytes + self.loose_bytes)))
            }
            Stage::Begin => Some(population.create(directory, bytes)),
            Stage::Made(file) => population.rename(file, directory),
            Stage::Renamed(_) => population.delete(self.old(role)?),
        }
    }

    const fn old(&self, role: Role) -> Option<u64> {
        match role {
            Role::Object(_) => None,
            Role::Pack => self.pack,
            Role::Index => self.index,
            Role::Reference => self.reference,
        }
    }

    /// Takes in that an operation on a file succeeded.
    pub fn succeeded(&mut self, role: Role, operation: &Operation) -> Progress {
        match (operation.kind(), self.stage, role) {
            (OperationKind::Mkdir, _, Role::Object(fan)) => {
                self.fan_out[usize::from(fan)] = operation.place.directory;
            }
            (OperationKind::Create, ..) => {
                self.stage = Stage::Made(operation.file);
                match role {
                    Role::Object(_) => self.loose_bytes += operation.length(),
                    Role::Pack => self.pack_bytes = operation.length(),
                    Role::Index | Role::Reference => {}
                }
            }
            (OperationKind::Rename, ..) if self.old(role).is_some() => {
                self.stage = Stage::Renamed(operation.file);
            }
            (OperationKind::Rename, ..) | (_, Stage::Renamed(_), _) => {
                return self.settle(role, operation);
            }
            _ => {}
        }
        Progress::More
    }

    fn settle(&mut self, role: Role, operation: &Operation) -> Progress {
        let file = match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Renamed(file) | Stage::Made(file) => file,
            Stage::Begin => operation.file,
        };
        match role {
            Role::Object(_) => self.loose.push(file),
            Role::Pack => self.pack = Some(file),
            Role::Index => self.index = Some(file),
            Role::Reference => self.reference = Some(file),
        }
        Progress::Done
    }

    /// The loose objects, all of which are in the pack now.
    pub fn packed(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.loose_bytes = 0;
        self.loose.drain(..)
    }

    /// Gives up what is under way.
    pub fn abandon(&mut self) {
        if let Stage::Made(file) | Stage::Renamed(file) = std::mem::replace(&mut self.stage, Stage::Begin) {
            self.strays.push(file);
        }
        self.strays.extend(self.checkout.abandon());
    }

    /// All its files.
    pub fn files(&self) -> impl Iterator<Item = u64> + '_ {
        let under_way = match self.stage {
            Stage::Made(file) | Stage::Renamed(file) => Some(file),
            Stage::Begin => None,
        };
        let own = [self.pack, self.index, self.reference, under_way].into_iter().flatten();
        self.checkout.files().chain(self.loose.iter().copied()).chain(self.strays.iter().copied()).chain(own)
    }

    /// All its directories, each before the one it is in, with that one's number.
    pub fn directories<'a>(&'a self, history: &'a History) -> impl Iterator<Item = (u32, u32)> + 'a {
        let objects = self.slot(Slot::Objects);
        let fans = self.fan_out.iter().map(move |number| (*number, objects));
        let slots = [Slot::Packs, Slot::Objects, Slot::Git, Slot::Top];
        let own = slots.into_iter().map(|slot| (self.slot(slot), self.parent_of(slot)));
        self.checkout.directories(history).chain(fans.chain(own).filter(|(number, _)| *number != NONE))
    }
}
