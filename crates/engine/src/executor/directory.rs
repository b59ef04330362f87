//! The directories of one thread: their parents, and descriptors of those used lately.
//!
//! Descriptors are `O_PATH`, opened from the parent's by a name of our own making (never a path) and without
//! following links; at most a given number is open, the one to close is found by the clock algorithm (Corbató
//! 1968).

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::location::open_beneath;
use crate::tree::{Directory, DirectoryTree, write_directory_name, write_top_name};

const OPEN: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

const MODE: Mode = Mode::from_raw_mode(0o755);

#[derive(Debug)]
struct Slot {
    fd: OwnedFd,
    used: bool,
}

/// The directories of one thread by number; 0 is the top, which stays open.
#[derive(Debug)]
pub struct DirectoryTable {
    top: OwnedFd,
    tree: DirectoryTree,
    /// Open descriptors by directory number.
    slots: Vec<Option<Slot>>,
    /// The numbers that have one, in the order the hand goes round.
    open: Vec<u32>,
    hand: usize,
    capacity: usize,
    name: Vec<u8>,
}

impl DirectoryTable {
    /// A table of nothing but the top directory of `thread` below `directory`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(directory: BorrowedFd<'_>, thread: u32, capacity: usize) -> Result<Self, Errno> {
        let mut name = Vec::with_capacity(64);
        write_top_name(&mut name, thread);
        // Not O_PATH: syncfs and the like need a real descriptor.
        let top = open_beneath(directory, &name[..], OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let capacity = capacity.max(2);
        let tree = DirectoryTree::new(thread, []);
        Ok(Self { top, tree, slots: Vec::new(), open: Vec::with_capacity(capacity), hand: 0, capacity, name })
    }

    /// The directories there are.
    pub const fn tree(&self) -> &DirectoryTree {
        &self.tree
    }

    /// The top directory's descriptor.
    #[must_use]
    pub fn top(&self) -> BorrowedFd<'_> {
        self.top.as_fd()
    }

    /// Makes sure that [`DirectoryTable::get`] finds `number`, without closing `pinned`.
    ///
    /// # Errors
    /// `ENOENT` for a number never made; what opening says.
    #[inline]
    pub fn ensure(&mut self, number: u32, pinned: Option<u32>) -> Result<(), Errno> {
        if number == 0 {
            return Ok(());
        }
        match index(number).and_then(|index| self.slots.get_mut(index)?.as_mut()) {
            Some(slot) => {
                slot.used = true;
                Ok(())
            }
            None => self.reopen(number, pinned),
        }
    }

    /// The descriptor of `number`.
    ///
    /// # Errors
    /// `ENOENT` when it was not made sure of.
    #[inline]
    pub fn get(&self, number: u32) -> Result<BorrowedFd<'_>, Errno> {
        if number == 0 {
            return Ok(self.top.as_fd());
        }
        let slot = index(number).and_then(|index| self.slots.get(index)?.as_ref());
        slot.map(|slot| slot.fd.as_fd()).ok_or(Errno::NOENT)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// What `mkdirat` says.
    pub fn make(&mut self, directory: Directory) -> Result<(), Errno> {
        self.ensure(directory.parent, None)?;
        self.name.clear();
        write_directory_name(&mut self.name, directory.number);
        fs::mkdirat(self.get(directory.parent)?, &self.name[..], MODE)?;
        self.tree.insert(directory);
        Ok(())
    }

    /// Takes in a directory that is there already.
    pub fn know(&mut self, directory: Directory) {
        self.tree.insert(directory);
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// What `unlinkat` says.
    pub fn remove(&mut self, directory: Directory) -> Result<(), Errno> {
        self.ensure(directory.parent, None)?;
        self.name.clear();
        write_directory_name(&mut self.name, directory.number);
        fs::unlinkat(self.get(directory.parent)?, &self.name[..], AtFlags::REMOVEDIR)?;
        self.tree.remove(directory.number);
        let slot = index(directory.number).and_then(|index| self.slots.get_mut(index)?.take());
        if slot.is_some()
            && let Some(place) = self.open.iter().position(|open| *open == directory.number)
        {
            self.open.swap_remove(place);
        }
        Ok(())
    }

    #[cold]
    fn reopen(&mut self, number: u32, pinned: Option<u32>) -> Result<(), Errno> {
        if !self.tree.contains(number) {
            return Err(Errno::NOENT);
        }
        // The nearest ancestor that is open, and the way down from it.
        let mut way = vec![number];
        let mut from = self.tree.parent(number).unwrap_or(0);
        while self.get(from).is_err() {
            way.push(from);
            from = self.tree.parent(from).unwrap_or(0);
        }
        let mut passed: Option<OwnedFd> = None;
        while let Some(next) = way.pop() {
            self.name.clear();
            write_directory_name(&mut self.name, next);
            let above = match &passed {
                Some(fd) => fd.as_fd(),
                None => self.get(from)?,
            };
            let fd = fs::openat(above, &self.name[..], OPEN, Mode::empty())?;
            passed = Some(fd);
        }
        self.make_room(pinned);
        let place = index(number).ok_or(Errno::INVAL)?;
        if self.slots.len() <= place {
            self.slots.resize_with(place + 1, || None);
        }
        self.slots[place] = passed.map(|fd| Slot { fd, used: true });
        self.open.push(number);
        Ok(())
    }

    /// Closes one descriptor when as many as may be are open.
    fn make_room(&mut self, pinned: Option<u32>) {
        // Two rounds suffice: the first takes every mark away.
        for _ in 0..=2 * self.open.len() {
            if self.open.len() < self.capacity {
                return;
            }
            self.hand %= self.open.len();
            let number = self.open[self.hand];
            let slot = index(number).and_then(|index| self.slots.get_mut(index));
            match slot {
                Some(Some(slot)) if slot.used || Some(number) == pinned => {
                    slot.used = false;
                    self.hand += 1;
                }
                Some(slot) => {
                    *slot = None;
                    self.open.swap_remove(self.hand);
                }
                None => {
                    self.open.swap_remove(self.hand);
                }
            }
        }
    }
}

fn index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn table(folder: &Path, capacity: usize) -> DirectoryTable {
        std::fs::create_dir(folder.join("t07")).unwrap();
        DirectoryTable::open(std::fs::File::open(folder).unwrap().as_fd(), 7, capacity).unwrap()
    }

    #[test]
    fn a_link_in_place_of_the_top_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("t07")).unwrap();
        let directory = std::fs::File::open(folder.path()).unwrap();
        assert_eq!(DirectoryTable::open(directory.as_fd(), 7, 2).unwrap_err(), Errno::LOOP);
    }

    #[test]
    fn few_descriptors_serve_many_directories() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = table(folder.path(), 3);
        for number in 1..=40 {
            table.make(Directory { number, parent: number / 3 }).unwrap();
        }
        for round in 0..3 {
            for number in (1..=40).rev().step_by(round + 1) {
                table.ensure(number, Some(1)).unwrap();
                table.get(number).unwrap();
                assert!(table.open.len() <= 3);
            }
        }
        table.ensure(1, None).unwrap();
        table.ensure(40, Some(1)).unwrap();
        assert!(table.get(1).is_ok() && table.get(40).is_ok());
    }

    #[test]
    fn a_removed_directory_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = table(folder.path(), 8);
        let (above, below) = (Directory { number: 1, parent: 0 }, Directory { number: 2, parent: 1 });
        table.make(above).unwrap();
        table.make(below).unwrap();
        assert_eq!(table.remove(above), Err(Errno::NOTEMPTY));
        table.ensure(2, None).unwrap();
        table.remove(below).unwrap();
        assert_eq!(table.ensure(2, None), Err(Errno::NOENT));
        assert_eq!(table.get(2).unwrap_err(), Errno::NOENT);
        table.remove(above).unwrap();
        assert_eq!(std::fs::read_dir(folder.path().join("t07")).unwrap().count(), 0);
    }
}
