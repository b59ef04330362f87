//! From a kind to an operation with its arguments, and from its outcome to the model.

use fsage_model::operation::{BLOCK_BYTES, DirectoryEntry, Operation, OperationKind};
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
                return self.directories.to_make(&mut self.random).map(|made| on_directory(kind, made));
            }
            K::Rmdir => {
                return self.directories.to_remove(&mut self.random).map(|gone| on_directory(kind, gone));
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
                Operation { target, ..self.on_file(kind) }
            }
            K::Link | K::Symlink => {
                let target = self.new_place();
                Operation { target, ..self.on_file(kind) }
            }
            K::Overwrite => {
                let whole = self.on_file(kind);
                Operation { length: whole.size, version: whole.version.saturating_add(1), ..whole }
            }
            K::Read => {
                let whole = self.on_file(kind);
                Operation { length: whole.size, ..whole }
            }
            K::Fsync | K::Fdatasync | K::Mkdir | K::Rmdir => self.on_file(kind),
        })
    }

    /// An operation on the slot under way, without further arguments.
    pub(super) fn on_file(&self, kind: OperationKind) -> Operation {
        let slot = self.slots.get(self.slot);
        Operation {
            kind,
            file: slot.file,
            place: slot.place(),
            target: DirectoryEntry::default(),
            offset: 0,
            length: 0,
            size: slot.size,
            version: slot.version,
            accesses: 1,
        }
    }

    /// The unlink of the slot's newest name.
    pub(super) fn delete(&self) -> Operation {
        let own = self.on_file(OperationKind::Delete);
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
            kind: OperationKind::Create,
            file: (u64::from(self.thread) << 48) | self.next_file,
            place: self.new_place(),
            target: DirectoryEntry::default(),
            offset: 0,
            length,
            size: 0,
            version: 1,
            accesses: 1,
        }
    }

    fn append(&mut self, excess: f64) -> Operation {
        let drawn = self.io_sizes.draw(&mut self.random);
        let more = self.granular(drawn, excess);
        let file = self.on_file(OperationKind::Append);
        let offset = file.size / BLOCK_BYTES * BLOCK_BYTES;
        let version = file.version.saturating_add(1);
        Operation { offset, length: file.size - offset + more, version, ..file }
    }

    /// The append that gives a growing file more of its size.
    fn grow_one(&mut self) -> Option<Operation> {
        let piece = self.io_sizes.draw(&mut self.random);
        let (slot, more) = self.grow.as_mut()?.next(&self.slots, piece, &mut self.random)?;
        self.slot = slot;
        let more = more.next_multiple_of(self.granule);
        let file = self.on_file(OperationKind::Append);
        let offset = file.size / BLOCK_BYTES * BLOCK_BYTES;
        let version = file.version.saturating_add(1);
        Some(Operation { offset, length: file.size - offset + more, version, ..file })
    }

    fn fallocate(&mut self, excess: f64) -> Operation {
        let drawn = self.io_sizes.draw(&mut self.random);
        let length = self.granular(drawn, excess);
        let file = self.on_file(OperationKind::Fallocate);
        Operation { offset: file.size, length, ..file }
    }

    fn random_access(&mut self, kind: OperationKind) -> Operation {
        let drawn = self.io_sizes.draw(&mut self.random);
        let file = self.on_file(kind);
        let blocks = file.size.div_ceil(BLOCK_BYTES);
        let reach = drawn.div_ceil(BLOCK_BYTES).min(blocks);
        let offset = self.random.below(blocks - reach + 1) * BLOCK_BYTES;
        let write = kind == OperationKind::RandomWrite;
        Operation {
            offset,
            length: reach * BLOCK_BYTES,
            version: file.version.saturating_add(u32::from(write)),
            accesses: self.random_accesses,
            ..file
        }
    }

    fn truncate(&mut self) -> Operation {
        let file = self.on_file(OperationKind::Truncate);
        let granules = file.size.div_ceil(self.granule);
        Operation { offset: self.random.below(granules) * self.granule, ..file }
    }

    /// The operation was done: the model follows.
    pub(super) fn succeeded(&mut self, operation: &Operation) {
        use OperationKind as K;
        let (slot, version) = (self.slot, operation.version);
        match operation.kind {
            K::Create => {
                let DirectoryEntry { directory, name } = operation.place;
                let (file, size) = (operation.file, operation.length);
                let made = Slot { file, name, size, directory, version, reserved: 0, attached: NONE };
                self.slots.create(slot, made);
                self.directories.enter(directory);
                if let Some(grow) = &mut self.grow {
                    grow.created(slot);
                }
            }
            K::Append => {
                let size = operation.offset + operation.length;
                self.slots.change(slot, |slot| (slot.size, slot.version) = (size, version));
                if let Some(grow) = &mut self.grow {
                    grow.changed(slot, Some(size));
                }
            }
            K::RandomWrite | K::Overwrite => self.slots.change(slot, |slot| slot.version = version),
            // Cutting a file gives its reserved space back, on ext4, xfs and btrfs alike.
            K::Truncate => self.slots.change(slot, |slot| (slot.size, slot.reserved) = (operation.offset, 0)),
            K::Fallocate => {
                let end = (operation.offset + operation.length).div_ceil(BLOCK_BYTES);
                let end = u32::try_from(end).unwrap_or(u32::MAX);
                self.slots.change(slot, |slot| slot.reserved = slot.reserved.max(end));
            }
            K::Delete => self.deleted(slot, operation.place.directory),
            K::Rename => {
                let DirectoryEntry { directory, name } = operation.target;
                self.directories.leave(operation.place.directory);
                self.directories.enter(directory);
                self.slots.change(slot, |slot| (slot.directory, slot.name) = (directory, name));
            }
            K::Mkdir => self.directories.made(directory_of(operation)),
            K::Rmdir => self.directories.removed(directory_of(operation)),
            K::Symlink | K::Link => {
                let target = (operation.kind == K::Symlink).then_some(operation.place);
                let attached = Attached { place: operation.target, target };
                let head = self.attached.push(self.slots.get(slot).attached, attached);
                self.slots.change(slot, |slot| slot.attached = head);
                self.directories.enter(operation.target.directory);
            }
            K::Read | K::RandomRead | K::Fsync | K::Fdatasync => {}
        }
        if matches!(operation.kind, K::Create | K::Append | K::RandomWrite | K::Overwrite) {
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
    /// no later write may be told from it by a version already used.
    pub(super) fn failed(&mut self, operation: &Operation, errno: i32) {
        use OperationKind as K;
        if matches!(operation.kind, K::Append | K::RandomWrite | K::Overwrite) {
            self.slots.change(self.slot, |slot| slot.version = operation.version);
        }
        let Some(steer) = &mut self.steer else {
            return;
        };
        match operation.kind {
            K::Delete if self.upkeep => steer.delete_failed(),
            K::Delete | K::Read | K::RandomRead => {}
            _ if is_out_of_space(errno) => {
                steer.shortage(operation.length, self.slots.live_bytes());
            }
            _ => {}
        }
    }
}

/// `mkdir` and `rmdir`: the directory is the place, its parent the offset.
fn on_directory(kind: OperationKind, directory: Directory) -> Operation {
    Operation {
        kind,
        file: 0,
        place: DirectoryEntry { directory: directory.number, name: 0 },
        target: DirectoryEntry::default(),
        offset: u64::from(directory.parent),
        length: 0,
        size: 0,
        version: 0,
        accesses: 1,
    }
}

fn directory_of(operation: &Operation) -> Directory {
    let parent = u32::try_from(operation.offset).unwrap_or(0);
    Directory { number: operation.place.directory, parent }
}
