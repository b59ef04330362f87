//! From a kind to an operation with its arguments, and from its outcome to the model.

use fsage_model::operation::{Action, BLOCK_BYTES, DirectoryEntry, Operation, OperationKind};
use fsage_sys::errno::is_out_of_space;

use super::Drift;
use super::attached::Attached;
use super::slot::{NONE, Set, Slot};
use crate::tree::Directory;

impl Drift {
    /// Draws the object and the arguments of an operation.
    pub(super) fn step(&mut self, kind: OperationKind, excess: f64) -> Option<Operation> {
        use OperationKind as K;
        let set = match kind {
            K::Create => Set::Dead,
            K::RandomWrite | K::Overwrite | K::Truncate | K::Read | K::RandomRead => Set::Sized,
            K::Mkdir => {
                let Directory { number, parent } = self.directories.to_make(&mut self.random)?;
                return Some(Operation::on_directory(Action::Mkdir { parent }, number));
            }
            K::Rmdir => {
                let Directory { number, parent } = self.directories.to_remove(&mut self.random)?;
                return Some(Operation::on_directory(Action::Rmdir { parent }, number));
            }
            _ => Set::Live,
        };
        if kind == K::Append && self.grow.is_some() {
            return self.grow_one();
        }
        self.slot = self.slots.pick(set, &self.choice, &mut self.random)?;
        Some(match kind {
            K::Create => self.create(excess),
            K::Append => self.append(excess),
            K::RandomWrite | K::RandomRead => self.random_access(kind),
            K::Truncate => self.truncate(),
            K::Fallocate => self.fallocate(excess),
            K::Delete => self.delete(),
            K::Rename => {
                let from = self.slots.get(self.slot).directory;
                let directory = self.directories.other(from, &mut self.random);
                let target = DirectoryEntry { directory, name: self.new_name() };
                self.on_file(Action::Rename { target })
            }
            K::Link | K::Symlink => {
                let target = self.new_place();
                self.on_file(if kind == K::Link {
                    Action::Link { target }
                } else {
                    Action::Symlink { target }
                })
            }
            K::Overwrite => self.writing(Action::Overwrite),
            K::Read => self.on_file(Action::Read { length: self.slots.get(self.slot).size }),
            K::Fsync => self.on_file(Action::Fsync),
            K::Fdatasync => self.on_file(Action::Fdatasync),
            K::Mkdir | K::Rmdir => return None,
        })
    }

    /// An operation on the slot under way.
    pub(super) fn on_file(&self, action: Action) -> Operation {
        let slot = self.slots.get(self.slot);
        Operation { action, file: slot.file, place: slot.place(), size: slot.size, version: slot.version }
    }

    /// The same, of one that writes the next version.
    fn writing(&self, action: Action) -> Operation {
        let file = self.on_file(action);
        Operation { version: file.version.saturating_add(1), ..file }
    }

    /// The unlink of the slot's newest name.
    pub(super) fn delete(&self) -> Operation {
        let own = self.on_file(Action::Delete);
        match self.attached.first(self.slots.get(self.slot).attached) {
            Some(attached) => Operation { place: attached.place, ..own },
            None => own,
        }
    }

    fn new_name(&mut self) -> u64 {
        self.next_name += 1;
        self.next_name - 1
    }

    fn new_place(&mut self) -> DirectoryEntry {
        DirectoryEntry { directory: self.directories.any(&mut self.random), name: self.new_name() }
    }

    /// A size in whole granules, at least one, and within what steering leaves.
    fn granular(&self, size: u64, excess: f64) -> u64 {
        let room = self.steer.as_ref().map_or(u64::MAX, |steer| steer.room(excess));
        size.min(room).max(1).next_multiple_of(self.granule)
    }

    fn create(&mut self, excess: f64) -> Operation {
        let drawn = self.file_sizes.draw(&mut self.random);
        let length = match &mut self.grow {
            // Sizes keep their distribution: what leads too far is made good by deletes.
            Some(grow) => {
                let piece = self.io_sizes.draw(&mut self.random);
                grow.begin(drawn, piece, self.grow_share, &mut self.random).next_multiple_of(self.granule)
            }
            None => self.granular(drawn, excess),
        };
        self.next_file += 1;
        Operation {
            action: Action::Create { length },
            file: (u64::from(self.thread) << 48) | self.next_file,
            place: self.new_place(),
            size: 0,
            version: 1,
        }
    }

    fn append(&mut self, excess: f64) -> Operation {
        let drawn = self.io_sizes.draw(&mut self.random);
        self.append_bytes(self.granular(drawn, excess))
    }

    fn append_bytes(&self, more: u64) -> Operation {
        let size = self.slots.get(self.slot).size;
        let offset = size / BLOCK_BYTES * BLOCK_BYTES;
        self.writing(Action::Append { offset, length: size - offset + more })
    }

    /// The append that gives a growing file more of its size.
    fn grow_one(&mut self) -> Option<Operation> {
        let piece = self.io_sizes.draw(&mut self.random);
        let (slot, more) = self.grow.as_mut()?.next(&self.slots, piece, &mut self.random)?;
        self.slot = slot;
        Some(self.append_bytes(more.next_multiple_of(self.granule)))
    }

    fn fallocate(&mut self, excess: f64) -> Operation {
        let drawn = self.io_sizes.draw(&mut self.random);
        let length = self.granular(drawn, excess);
        self.on_file(Action::Fallocate { offset: self.slots.get(self.slot).size, length })
    }

    fn random_access(&mut self, kind: OperationKind) -> Operation {
        let drawn = self.io_sizes.draw(&mut self.random);
        let blocks = self.slots.get(self.slot).size.div_ceil(BLOCK_BYTES);
        let reach = drawn.div_ceil(BLOCK_BYTES).min(blocks);
        let offset = self.random.below(blocks - reach + 1) * BLOCK_BYTES;
        let (length, accesses) = (reach * BLOCK_BYTES, self.random_accesses);
        if kind == OperationKind::RandomWrite {
            self.writing(Action::RandomWrite { offset, length, accesses })
        } else {
            self.on_file(Action::RandomRead { offset, length, accesses })
        }
    }

    fn truncate(&mut self) -> Operation {
        let granules = self.slots.get(self.slot).size.div_ceil(self.granule);
        let new_size = self.random.below(granules) * self.granule;
        self.on_file(Action::Truncate { new_size })
    }

    /// The operation was done: the model follows.
    pub(super) fn succeeded(&mut self, operation: &Operation) {
        let (slot, version) = (self.slot, operation.version);
        let number = operation.place.directory;
        match operation.action {
            Action::Create { length: size } => {
                let DirectoryEntry { directory, name } = operation.place;
                let file = operation.file;
                let made = Slot { file, name, size, directory, version, reserved: 0, attached: NONE };
                self.slots.create(slot, made);
                self.directories.enter(directory);
                if let Some(grow) = &mut self.grow {
                    grow.created(slot);
                }
            }
            Action::Append { offset, length } => {
                let size = offset + length;
                self.slots.change(slot, |slot| (slot.size, slot.version) = (size, version));
                if let Some(grow) = &mut self.grow {
                    grow.changed(slot, Some(size));
                }
            }
            Action::RandomWrite { .. } | Action::Overwrite => {
                self.slots.change(slot, |slot| slot.version = version)
            }
            // Cutting a file gives its reserved space back, on ext4, xfs and btrfs alike.
            Action::Truncate { new_size } => {
                self.slots.change(slot, |slot| (slot.size, slot.reserved) = (new_size, 0));
            }
            Action::Fallocate { offset, length } => {
                let end = (offset + length).div_ceil(BLOCK_BYTES);
                let end = u32::try_from(end).unwrap_or(u32::MAX);
                self.slots.change(slot, |slot| slot.reserved = slot.reserved.max(end));
            }
            Action::Delete => self.deleted(slot, number),
            Action::Rename { target: DirectoryEntry { directory, name } } => {
                self.directories.leave(number);
                self.directories.enter(directory);
                self.slots.change(slot, |slot| (slot.directory, slot.name) = (directory, name));
            }
            Action::Mkdir { parent } => self.directories.made(Directory { number, parent }),
            Action::Rmdir { parent } => self.directories.removed(Directory { number, parent }),
            Action::Symlink { target: place } | Action::Link { target: place } => {
                let target = (operation.kind() == OperationKind::Symlink).then_some(operation.place);
                let attached = Attached { place, target };
                let head = self.attached.push(self.slots.get(slot).attached, attached);
                self.slots.change(slot, |slot| slot.attached = head);
                self.directories.enter(place.directory);
            }
            Action::Read { .. } | Action::RandomRead { .. } | Action::Fsync | Action::Fdatasync => {}
        }
        if operation.kind() == OperationKind::Create || operation.kind().writes_again() {
            self.fsync_due = self.random.chance(self.fsync_probability);
            self.fdatasync_due = self.random.chance(self.fdatasync_probability);
        }
    }

    fn deleted(&mut self, slot: u32, directory: u32) {
        let head = self.slots.get(slot).attached;
        if head == NONE {
            self.slots.remove(slot);
            if let Some(grow) = &mut self.grow {
                grow.changed(slot, None);
            }
        } else {
            let rest = self.attached.pop(head);
            self.slots.change(slot, |slot| slot.attached = rest);
        }
        self.directories.leave(directory);
    }

    /// The operation failed: the tree stays as it was. A failed write may have left blocks of its version, so
    /// no later write may be distinguished from it by a version already used.
    pub(super) fn failed(&mut self, operation: &Operation, errno: i32) {
        use OperationKind as K;
        if operation.kind().writes_again() {
            self.slots.change(self.slot, |slot| slot.version = operation.version);
        }
        let Some(steer) = &mut self.steer else {
            return;
        };
        match operation.kind() {
            K::Delete if self.upkeep => steer.delete_failed(),
            K::Delete | K::Read | K::RandomRead => {}
            _ if is_out_of_space(errno) => {
                steer.shortage(operation.length(), self.slots.live_bytes());
            }
            _ => {}
        }
    }
}
