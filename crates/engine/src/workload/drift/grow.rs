//! Files that grow: what breaks a volume's files into pieces as real use does.
//!
//! A load that only makes whole files hardly fragments. With a profile, some of the files begin with a part
//! of their size and are appended to, in turns with others, until they have all of it: sizes keep their
//! distribution, and the share of files that grow steers how many lie in more than one extent.

use fsage_model::operation::BLOCK_BYTES;

use super::slot::SlotTable;
use crate::distribution::Random;

/// Pieces of a file at most, about; large files take larger pieces.
const PIECES: u64 = 16;

/// Files that grow at the same time, at most.
const ROOM: usize = 48;

/// The files of a thread that have not their whole size yet.
#[derive(Debug, Default)]
pub(super) struct Grow {
    growing: Vec<Growing>,
    /// The size that the file being made will grow to.
    begun: Option<u64>,
    /// Slots of the thread.
    slots: u32,
}

#[derive(Debug, Clone, Copy)]
struct Growing {
    slot: u32,
    goal: u64,
}

impl Grow {
    pub(super) fn new(slots: u32) -> Self {
        Self { growing: Vec::with_capacity(ROOM), begun: None, slots }
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.growing.is_empty()
    }

    /// Whether files must be finished before others begin: no more than an eighth of the slots may be
    /// unfinished.
    pub(super) fn is_full(&self) -> bool {
        let room = usize::try_from(self.slots / 8).unwrap_or(ROOM).clamp(1, ROOM);
        self.growing.len() >= room
    }

    /// The size that a file of `size` begins with; the rest comes by and by with a chance of `share`.
    pub(super) fn begin(&mut self, size: u64, piece: u64, share: f64, random: &mut Random) -> u64 {
        let blocks = size.div_ceil(BLOCK_BYTES);
        self.begun = None;
        if blocks < 2 || self.is_full() || !random.chance(share) {
            return size;
        }
        self.begun = Some(size);
        let first = piece_of(size, piece).div_ceil(BLOCK_BYTES).min(1 + random.below(blocks - 1));
        first * BLOCK_BYTES
    }

    /// The file that was begun exists.
    pub(super) fn created(&mut self, slot: u32) {
        if let Some(goal) = self.begun.take() {
            self.growing.push(Growing { slot, goal });
        }
    }

    /// A slot to append to, and how many bytes; files that need none are forgotten.
    pub(super) fn next(&mut self, slots: &SlotTable, piece: u64, random: &mut Random) -> Option<(u32, u64)> {
        while !self.growing.is_empty() {
            let count = u64::try_from(self.growing.len()).unwrap_or(1);
            let at = usize::try_from(random.below(count)).unwrap_or(0);
            let Growing { slot, goal } = self.growing[at];
            let missing = goal.saturating_sub(slots.get(slot).size);
            if missing > 0 {
                return Some((slot, piece_of(goal, piece).min(missing)));
            }
            self.growing.swap_remove(at);
        }
        None
    }

    /// The file of a slot was appended to, or is gone (`size` absent).
    pub(super) fn changed(&mut self, slot: u32, size: Option<u64>) {
        let Some(at) = self.growing.iter().position(|growing| growing.slot == slot) else { return };
        if size.is_none_or(|size| size >= self.growing[at].goal) {
            self.growing.swap_remove(at);
        }
    }
}

/// A piece of a file of `size`, given the size that was drawn for it.
fn piece_of(size: u64, drawn: u64) -> u64 {
    drawn.max(size / PIECES).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_begins_with_a_part() {
        let mut random = Random::new(1, 0);
        let mut grow = Grow::new(1000);
        assert_eq!(grow.begin(4096, 4096, 1.0, &mut random), 4096, "one block cannot be divided");
        grow.created(1);
        assert!(grow.is_idle());
        assert_eq!(grow.begin(100_000, 4096, 0.0, &mut random), 100_000);
        for slot in 0..200 {
            let first = grow.begin(100_000, 8192, 1.0, &mut random);
            assert!(first < 100_000 || grow.is_full());
            assert!(first.is_multiple_of(4096) || first == 100_000);
            grow.created(slot);
        }
        assert!(grow.is_full() && grow.growing.len() == ROOM);
        grow.changed(3, Some(99_999));
        assert_eq!(grow.growing.len(), ROOM);
        grow.changed(3, Some(100_000));
        grow.changed(4, None);
        assert_eq!(grow.growing.len(), ROOM - 2);
    }
}
