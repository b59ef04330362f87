//! The file slots of one thread: which are live, with what.
//!
//! Invariants: `order` is a permutation of the slots in three stretches: files with content, empty files,
//! dead slots; `position` is its inverse. So a random member of each set is one look away, and a slot changes
//! sets by swaps. 48 bytes a slot, and under half a byte more where the choice is not uniform.

use fsage_model::operation::{BLOCK_BYTES, DirectoryEntry};
use fsage_model::quantity::index;

use super::bitmap::Bitmap;
use super::choice::Choice;
use crate::distribution::Random;

/// No name attached, no slot.
pub(super) const NONE: u32 = u32::MAX;

/// A file, or the room for one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    /// Identity of the content.
    pub file: u64,
    /// Name number.
    pub name: u64,
    /// Bytes.
    pub size: u64,
    /// Directory of the name.
    pub directory: u32,
    /// Version of the newest data.
    pub version: u32,
    /// End of the space reserved by `fallocate`, in blocks; 0: none.
    pub reserved: u32,
    /// First of the names attached to the file; `NONE`: no more names.
    pub attached: u32,
}

impl Slot {
    pub(super) const fn place(&self) -> DirectoryEntry {
        DirectoryEntry { directory: self.directory, name: self.name }
    }

    /// Bytes taken, in whole blocks.
    fn live_bytes(&self) -> u64 {
        self.size.div_ceil(BLOCK_BYTES).max(u64::from(self.reserved)) * BLOCK_BYTES
    }
}

/// A set of slots to pick from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// Files with at least one byte.
    Sized,
    /// Files.
    Live,
    /// Slots without a file.
    Dead,
}

/// Nearest-member indexes, kept where the choice needs them.
#[derive(Debug)]
struct Indexes {
    sized: Bitmap,
    live: Bitmap,
    dead: Bitmap,
}

/// All slots of a thread.
#[derive(Debug)]
pub(super) struct SlotTable {
    slots: Vec<Slot>,
    order: Vec<u32>,
    position: Vec<u32>,
    /// Ends of the first two stretches of `order`.
    ends: [u32; 2],
    indexes: Option<Box<Indexes>>,
    live_bytes: u64,
}

impl SlotTable {
    /// `count` dead slots (at least 1); `indexed` where slots will be looked for by nearness.
    pub(super) fn new(count: u32, indexed: bool) -> Self {
        let indexes = indexed.then(|| {
            let mut dead = Bitmap::new(count);
            (0..count).for_each(|n| dead.insert(n));
            Box::new(Indexes { sized: Bitmap::new(count), live: Bitmap::new(count), dead })
        });
        Self {
            slots: vec![Slot { attached: NONE, ..Slot::default() }; index(count)],
            order: (0..count).collect(),
            position: (0..count).collect(),
            ends: [0, 0],
            indexes,
            live_bytes: 0,
        }
    }

    pub(super) fn get(&self, n: u32) -> &Slot {
        &self.slots[index(n)]
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Members of a set.
    pub(super) fn members(&self, set: Set) -> u32 {
        match set {
            Set::Sized => self.ends[0],
            Set::Live => self.ends[1],
            Set::Dead => self.count() - self.ends[1],
        }
    }

    /// Bytes of the live files in whole blocks, reserved space included.
    pub(super) const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Live files in no order.
    pub(super) fn live(&self) -> impl Iterator<Item = &Slot> {
        self.order[..index(self.ends[1])].iter().map(|n| self.get(*n))
    }

    /// A member drawn evenly.
    pub(super) fn any(&self, set: Set, random: &mut Random) -> Option<u32> {
        let count = self.members(set);
        if count == 0 {
            return None;
        }
        let first = if set == Set::Dead { self.ends[1] } else { 0 };
        let drawn = u32::try_from(random.below(u64::from(count))).unwrap_or(0);
        Some(self.order[index(first + drawn)])
    }

    /// A member drawn as `choice` says.
    #[inline]
    pub(super) fn pick(&self, set: Set, choice: &Choice, random: &mut Random) -> Option<u32> {
        let Some(indexes) = &self.indexes else {
            return self.any(set, random);
        };
        if self.members(set) == 0 {
            return None;
        }
        let bitmap = match set {
            Set::Sized => &indexes.sized,
            Set::Live => &indexes.live,
            Set::Dead => &indexes.dead,
        };
        bitmap.nearest(choice.draw(random))
    }

    /// Makes a dead slot live.
    pub(super) fn create(&mut self, n: u32, slot: Slot) {
        self.live_bytes += slot.live_bytes();
        self.slots[index(n)] = slot;
        self.cross(n, 1);
        if slot.size > 0 {
            self.cross(n, 0);
        }
        if let Some(indexes) = &mut self.indexes {
            indexes.dead.remove(n);
            indexes.live.insert(n);
            if slot.size > 0 {
                indexes.sized.insert(n);
            }
        }
    }

    /// Makes a live slot dead.
    pub(super) fn remove(&mut self, n: u32) {
        let slot = self.slots[index(n)];
        self.live_bytes -= slot.live_bytes();
        if slot.size > 0 {
            self.cross_back(n, 0);
        }
        self.cross_back(n, 1);
        if let Some(indexes) = &mut self.indexes {
            indexes.sized.remove(n);
            indexes.live.remove(n);
            indexes.dead.insert(n);
        }
    }

    /// Changes a live slot.
    pub(super) fn change(&mut self, n: u32, change: impl FnOnce(&mut Slot)) {
        let before = self.slots[index(n)];
        let slot = &mut self.slots[index(n)];
        change(slot);
        let after = *slot;
        self.live_bytes = self.live_bytes - before.live_bytes() + after.live_bytes();
        match (before.size > 0, after.size > 0) {
            (false, true) => {
                self.cross(n, 0);
                if let Some(indexes) = &mut self.indexes {
                    indexes.sized.insert(n);
                }
            }
            (true, false) => {
                self.cross_back(n, 0);
                if let Some(indexes) = &mut self.indexes {
                    indexes.sized.remove(n);
                }
            }
            _ => {}
        }
    }

    /// Moves a slot from just after an end of a stretch to before it.
    fn cross(&mut self, n: u32, end: usize) {
        self.swap(n, self.ends[end]);
        self.ends[end] += 1;
    }

    /// Moves a slot from before an end of a stretch to just after it.
    fn cross_back(&mut self, n: u32, end: usize) {
        self.ends[end] -= 1;
        self.swap(n, self.ends[end]);
    }

    /// Puts slot `n` at `to` and what was there where `n` was.
    fn swap(&mut self, n: u32, to: u32) {
        let from = self.position[index(n)];
        let other = self.order[index(to)];
        self.order[index(to)] = n;
        self.order[index(from)] = other;
        self.position[index(n)] = to;
        self.position[index(other)] = from;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn check(table: &SlotTable, model: &BTreeMap<u32, (u64, u32)>) {
        let blocks = |(size, reserved): &(u64, u32)| size.div_ceil(4096).max(u64::from(*reserved));
        assert_eq!(table.live_bytes(), model.values().map(blocks).sum::<u64>() * 4096);
        for n in 0..table.count() {
            assert_eq!(table.order[index(table.position[index(n)])], n);
            let place = table.position[index(n)];
            let entry = model.get(&n);
            assert_eq!(place < table.ends[1], entry.is_some());
            assert_eq!(place < table.ends[0], entry.is_some_and(|(size, _)| *size > 0));
        }
    }

    /// Millions of files must fit: 40 bytes and two numbers of 4 a slot.
    #[test]
    fn a_slot_is_small() {
        assert_eq!(size_of::<Slot>(), 40);
    }

    proptest! {
        #[test]
        fn stretches_follow_a_simple_model(
            count in 1..40_u32,
            indexed: bool,
            steps in prop::collection::vec((any::<u32>(), 0..3_u8, 0..3_u64, 0..4_u32), 0..200),
        ) {
            let mut table = SlotTable::new(count, indexed);
            let mut model = BTreeMap::new();
            let mut random = Random::new(1, 0);
            for (n, step, size, reserved) in steps {
                let n = n % count;
                let size = size * 5000;
                match (step, model.contains_key(&n)) {
                    (0, true) => {
                        table.remove(n);
                        model.remove(&n);
                    }
                    (_, true) => {
                        table.change(n, |slot| (slot.size, slot.reserved) = (size, reserved));
                        model.insert(n, (size, reserved));
                    }
                    (_, false) => {
                        table.create(n, Slot { size, reserved, attached: NONE, ..Slot::default() });
                        model.insert(n, (size, reserved));
                    }
                }
                check(&table, &model);
                let near = Choice::gaussian(0.1, count);
                for set in [Set::Sized, Set::Live, Set::Dead] {
                    for picked in [table.any(set, &mut random), table.pick(set, &near, &mut random)] {
                        prop_assert_eq!(picked.is_some(), table.members(set) > 0);
                        let Some(picked) = picked else { continue };
                        let entry = model.get(&picked);
                        let right = match set {
                            Set::Sized => entry.is_some_and(|(size, _)| *size > 0),
                            Set::Live => entry.is_some(),
                            Set::Dead => entry.is_none(),
                        };
                        prop_assert!(right);
                    }
                }
            }
        }
    }
}
