//! The names attached to files beyond their first: hard links, and symbolic links made to them.
//!
//! They form a list a file, newest first; a delete of the file takes the newest attached name before the
//! file's own, so a file never loses its first name while it has others. The pool has a fixed size and never
//! allocates.

use fsage_model::operation::DirectoryEntry;
use fsage_model::quantity::index;

use super::slot::NONE;

/// One attached name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attached {
    /// The name.
    pub place: DirectoryEntry,
    /// Where a symbolic link points; nothing for a hard link.
    pub target: Option<DirectoryEntry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    name: u64,
    target_name: u64,
    directory: u32,
    /// `NONE`: a hard link.
    target_directory: u32,
    /// The file's next older name, or the next free entry.
    next: u32,
}

/// All attached names of a thread.
#[derive(Debug)]
pub(super) struct Pool {
    entries: Vec<Entry>,
    free: u32,
}

impl Pool {
    /// Room for `count` names.
    pub(super) fn new(count: u32) -> Self {
        let entry = |n: u32| {
            let next = if n + 1 < count { n + 1 } else { NONE };
            Entry { name: 0, target_name: 0, directory: 0, target_directory: NONE, next }
        };
        Self { entries: (0..count).map(entry).collect(), free: if count == 0 { NONE } else { 0 } }
    }

    /// Whether another name has room.
    pub(super) const fn has_room(&self) -> bool {
        self.free != NONE
    }

    /// Puts a name before the list that begins at `head`; returns the new head, `head` itself without room.
    pub(super) fn push(&mut self, head: u32, attached: Attached) -> u32 {
        let n = self.free;
        let Some(entry) = self.entries.get_mut(index(n)) else {
            return head;
        };
        self.free = entry.next;
        let target = attached.target.unwrap_or(DirectoryEntry { directory: NONE, name: 0 });
        *entry = Entry {
            name: attached.place.name,
            target_name: target.name,
            directory: attached.place.directory,
            target_directory: target.directory,
            next: head,
        };
        n
    }

    /// The first name of a list.
    pub(super) fn first(&self, head: u32) -> Option<Attached> {
        let entry = self.entries.get(index(head))?;
        let target = DirectoryEntry { directory: entry.target_directory, name: entry.target_name };
        Some(Attached {
            place: DirectoryEntry { directory: entry.directory, name: entry.name },
            target: (entry.target_directory != NONE).then_some(target),
        })
    }

    /// Takes the first name off a list; returns the new head.
    pub(super) fn pop(&mut self, head: u32) -> u32 {
        let free = self.free;
        let Some(entry) = self.entries.get_mut(index(head)) else {
            return NONE;
        };
        let next = entry.next;
        entry.next = free;
        self.free = head;
        next
    }

    /// The names of a list, newest first.
    pub(super) fn list(&self, head: u32) -> impl Iterator<Item = Attached> + '_ {
        let mut n = head;
        std::iter::from_fn(move || {
            let attached = self.first(n)?;
            n = self.entries[index(n)].next;
            Some(attached)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_share_a_pool() {
        let mut pool = Pool::new(3);
        let name = |name, target| Attached { place: DirectoryEntry { directory: 1, name }, target };
        let target = Some(DirectoryEntry { directory: 0, name: 9 });
        let one = pool.push(NONE, name(1, None));
        let two = pool.push(NONE, name(2, None));
        let one = pool.push(one, name(3, target));
        assert!(!pool.has_room());
        assert_eq!(pool.push(two, name(4, None)), two);
        let names = |pool: &Pool, head| pool.list(head).map(|a| (a.place.name, a.target)).collect::<Vec<_>>();
        assert_eq!(names(&pool, one), [(3, target), (1, None)]);
        let one = pool.pop(one);
        assert_eq!(names(&pool, one), [(1, None)]);
        assert_eq!(pool.pop(one), NONE);
        assert_eq!(names(&pool, two), [(2, None)]);
        assert!(pool.has_room());
        assert!(!Pool::new(0).has_room());
    }
}
