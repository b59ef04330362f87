//! The directories of one thread: where new names go, which can be removed.
//!
//! Invariants: directory 0 is always there; `live` holds every directory, `empty` those but 0 that hold
//! nothing; a directory knows its position in both. Numbers of removed directories are used again, so tables
//! by number stay small.

use fsage_model::quantity::index;

use super::slot::NONE;
use crate::distribution::Random;
use crate::tree::Directory;

#[derive(Debug, Clone, Copy)]
struct Node {
    parent: u32,
    /// Levels below the top; `NONE`: no such directory.
    depth: u32,
    /// Names and directories in it.
    entries: u32,
    live_position: u32,
    empty_position: u32,
}

const ABSENT: Node = Node { parent: 0, depth: NONE, entries: 0, live_position: NONE, empty_position: NONE };

/// All directories of a thread.
#[derive(Debug)]
pub(super) struct DirectoryTable {
    nodes: Vec<Node>,
    live: Vec<u32>,
    empty: Vec<u32>,
    /// Numbers free for `mkdir`.
    free: Vec<u32>,
    /// Directories at this depth have none below them.
    depth: u32,
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The directory above number `n` (at least 1) of the initial tree, which is filled level by level.
pub(super) fn initial_parent(n: u32, fan_out: u32) -> u32 {
    (n - 1) / fan_out
}

impl DirectoryTable {
    /// `count` directories with the top one, level by level with `fan_out` below each, and room for `more`.
    pub(super) fn new(count: u32, fan_out: u32, depth: u32, more: u32) -> Self {
        let room = index(count.saturating_add(more));
        // Every number may become free: nothing is allocated later.
        let mut free = Vec::with_capacity(room);
        free.extend((count..count.saturating_add(more)).rev());
        let mut table = Self {
            nodes: vec![ABSENT; room],
            live: Vec::with_capacity(room),
            empty: Vec::with_capacity(room),
            free,
            depth,
        };
        table.nodes[0] = Node { depth: 0, live_position: 0, ..ABSENT };
        table.live.push(0);
        for n in 1..count {
            table.insert(Directory { number: n, parent: initial_parent(n, fan_out) });
        }
        table
    }

    /// A table of these directories (parents first) instead of those of `other`, with as many numbers for
    /// `mkdir` as it had room for.
    pub(super) fn adopted(other: &Self, directories: &[Directory]) -> Self {
        let above = directories.iter().map(|directory| index(directory.number) + 1).max().unwrap_or(1);
        let room = above.max(other.nodes.len());
        let mut table = Self {
            nodes: vec![ABSENT; room],
            live: Vec::with_capacity(room),
            empty: Vec::with_capacity(room),
            free: Vec::with_capacity(room),
            depth: other.depth,
        };
        table.nodes[0] = Node { depth: 0, live_position: 0, ..ABSENT };
        table.live.push(0);
        for directory in directories {
            table.insert(*directory);
        }
        if !other.free.is_empty() {
            table.free.extend((1..number(room)).rev().filter(|n| table.nodes[index(*n)].depth == NONE));
        }
        table
    }

    /// Every directory but the top.
    pub(super) fn iter(&self) -> impl Iterator<Item = Directory> {
        (0_u32..)
            .zip(&self.nodes)
            .skip(1)
            .filter(|(_, node)| node.depth != NONE)
            .map(|(number, node)| Directory { number, parent: node.parent })
    }

    /// A directory drawn evenly.
    pub(super) fn any(&self, random: &mut Random) -> u32 {
        let drawn = random.below(u64::from(number(self.live.len())));
        self.live[usize::try_from(drawn).unwrap_or(0)]
    }

    /// A directory drawn evenly from all but this one, where there is another.
    pub(super) fn other(&self, than: u32, random: &mut Random) -> u32 {
        let others = number(self.live.len()) - 1;
        if others == 0 {
            return than;
        }
        let drawn = u32::try_from(random.below(u64::from(others))).unwrap_or(0);
        let skip = u32::from(drawn >= self.nodes[index(than)].live_position);
        self.live[index(drawn + skip)]
    }

    /// Whether `mkdir` has a number left.
    pub(super) fn can_make(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether `rmdir` has an object.
    pub(super) fn can_remove(&self) -> bool {
        !self.empty.is_empty()
    }

    /// A directory to make: the parent is drawn evenly; one at the last level stands for its own parent.
    pub(super) fn to_make(&self, random: &mut Random) -> Option<Directory> {
        let number = *self.free.last()?;
        let drawn = self.any(random);
        let node = self.nodes[index(drawn)];
        let parent = if node.depth >= self.depth { node.parent } else { drawn };
        Some(Directory { number, parent })
    }

    /// An empty directory drawn evenly.
    pub(super) fn to_remove(&self, random: &mut Random) -> Option<Directory> {
        let drawn = random.below(u64::from(number(self.empty.len())));
        let number = *self.empty.get(usize::try_from(drawn).unwrap_or(0))?;
        Some(Directory { number, parent: self.nodes[index(number)].parent })
    }

    /// A directory was made, under the number that `to_make` gave.
    pub(super) fn made(&mut self, directory: Directory) {
        if self.free.last() == Some(&directory.number) {
            self.free.pop();
            self.insert(directory);
        }
    }

    /// A directory was removed.
    pub(super) fn removed(&mut self, directory: Directory) {
        self.set_empty(directory.number, false);
        let position = self.nodes[index(directory.number)].live_position;
        self.live.swap_remove(index(position));
        if let Some(moved) = self.live.get(index(position)) {
            self.nodes[index(*moved)].live_position = position;
        }
        self.nodes[index(directory.number)] = ABSENT;
        self.free.push(directory.number);
        self.leave(directory.parent);
    }

    /// A name came into a directory.
    pub(super) fn enter(&mut self, directory: u32) {
        self.nodes[index(directory)].entries += 1;
        if self.nodes[index(directory)].entries == 1 {
            self.set_empty(directory, false);
        }
    }

    /// A name went out of a directory.
    pub(super) fn leave(&mut self, directory: u32) {
        self.nodes[index(directory)].entries -= 1;
        if self.nodes[index(directory)].entries == 0 {
            self.set_empty(directory, true);
        }
    }

    fn insert(&mut self, directory: Directory) {
        let depth = self.nodes[index(directory.parent)].depth + 1;
        let live_position = number(self.live.len());
        self.live.push(directory.number);
        self.nodes[index(directory.number)] =
            Node { parent: directory.parent, depth, live_position, ..ABSENT };
        self.set_empty(directory.number, true);
        self.enter(directory.parent);
    }

    fn set_empty(&mut self, directory: u32, empty: bool) {
        if directory == 0 {
            return;
        }
        if empty {
            self.nodes[index(directory)].empty_position = number(self.empty.len());
            self.empty.push(directory);
            return;
        }
        let position = self.nodes[index(directory)].empty_position;
        self.empty.swap_remove(index(position));
        if let Some(moved) = self.empty.get(index(position)) {
            self.nodes[index(*moved)].empty_position = position;
        }
        self.nodes[index(directory)].empty_position = NONE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a map of parents and a map of entries; and no table ever grows.
        #[test]
        fn directories_follow_a_simple_model(
            count in 1..20_u32,
            more in 0..20_u32,
            steps in prop::collection::vec((0..4_u8, any::<u64>()), 0..300),
        ) {
            let mut table = DirectoryTable::new(count, 3, 4, more);
            let room = [table.live.capacity(), table.empty.capacity(), table.free.capacity()];
            let mut parents: BTreeMap<u32, u32> = (1..count).map(|n| (n, initial_parent(n, 3))).collect();
            let mut names: BTreeMap<u32, u32> = BTreeMap::new();
            for (step, seed) in steps {
                let mut random = Random::new(seed, 0);
                let drawn = table.any(&mut random);
                prop_assert!(drawn == 0 || parents.contains_key(&drawn));
                let other = table.other(drawn, &mut random);
                prop_assert!(parents.is_empty() || other != drawn);
                match step {
                    0 => {
                        if let Some(made) = table.to_make(&mut random) {
                            prop_assert!(parents.insert(made.number, made.parent).is_none());
                            table.made(made);
                        }
                    }
                    1 => {
                        if let Some(gone) = table.to_remove(&mut random) {
                            prop_assert_eq!(parents.remove(&gone.number), Some(gone.parent));
                            prop_assert!(names.get(&gone.number).is_none_or(|count| *count == 0));
                            prop_assert!(parents.values().all(|parent| *parent != gone.number));
                            table.removed(gone);
                        }
                    }
                    2 => {
                        table.enter(drawn);
                        *names.entry(drawn).or_insert(0) += 1;
                    }
                    _ => {
                        if let Some(count) = names.get_mut(&drawn).filter(|count| **count > 0) {
                            *count -= 1;
                            table.leave(drawn);
                        }
                    }
                }
                let ours: BTreeMap<u32, u32> = table.iter().map(|directory| (directory.number, directory.parent)).collect();
                prop_assert_eq!(&ours, &parents);
                let is_empty = |n: &&u32| {
                    names.get(n).is_none_or(|count| *count == 0) && parents.values().all(|parent| parent != *n)
                };
                prop_assert_eq!(table.empty.len(), parents.keys().filter(is_empty).count());
                for n in parents.keys() {
                    let depth = std::iter::successors(Some(*n), |n| parents.get(n).copied()).count() - 1;
                    prop_assert!(depth <= 4);
                }
            }
            prop_assert_eq!(room, [table.live.capacity(), table.empty.capacity(), table.free.capacity()]);
        }
    }
}
