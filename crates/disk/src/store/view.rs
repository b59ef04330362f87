//! Other states of the disk beside it.
//!
//! A view begins as a snapshot and is moved along a log: [`View::step`] puts the pieces of one entry on it
//! and keeps what was there before, [`View::back`] takes the last step back. Entries may be left out or cut:
//! the view neither knows nor cares which log they are from. What is written to the view itself (a file
//! system's recovery, say) lies in an overlay that the next move drops. So a state costs what differs from
//! its neighbour, whatever the size of the disk.

use super::code::{BLOCK, Code};
use super::error::StoreError;
use super::map::{Map, Pool};
use super::piece::Piece;
use super::write::Pen;

/// Blocks and what they held; it holds a reference to each of its pages.
#[derive(Debug)]
struct Was {
    block: u64,
    blocks: u64,
    code: Code,
}

#[derive(Debug)]
pub(super) struct View {
    /// The state that the log gives.
    state: Map,
    /// The same with what was written to the view since it was moved.
    overlay: Option<Map>,
    /// What each step changed, in the order of its pieces.
    steps: Vec<Vec<Was>>,
}

impl View {
    pub fn new(state: Map) -> Self {
        Self { state, overlay: None, steps: Vec::new() }
    }

    /// What is read from it.
    pub fn map(&self) -> &Map {
        self.overlay.as_ref().unwrap_or(&self.state)
    }

    /// What is written to.
    pub fn overlay(&mut self, pool: &mut Pool) -> &mut Map {
        self.overlay.get_or_insert_with(|| self.state.share(pool))
    }

    /// Forgets what was written to it.
    pub fn reset(&mut self, pool: &mut Pool) {
        if let Some(overlay) = self.overlay.take() {
            overlay.release(pool);
        }
    }

    /// Steps taken.
    pub fn position(&self) -> usize {
        self.steps.len()
    }

    pub fn step(&mut self, pool: &mut Pool, pieces: &[Piece]) -> Result<(), StoreError> {
        self.reset(pool);
        let mut before = Vec::with_capacity(pieces.len());
        let mut done = Ok(());
        for piece in pieces {
            let (first, end) = (piece.offset_bytes / BLOCK, piece.end_bytes().div_ceil(BLOCK));
            keep(&self.state, pool, first, end, &mut before);
            done = Pen { map: &mut self.state, pool, record: None }.apply(piece);
            if done.is_err() {
                break;
            }
        }
        self.steps.push(before);
        if done.is_err() {
            self.back(pool);
        }
        done
    }

    /// Whether there was a step to take back.
    pub fn back(&mut self, pool: &mut Pool) -> bool {
        self.reset(pool);
        let Some(before) = self.steps.pop() else { return false };
        for Was { block, blocks, code } in before.into_iter().rev() {
            self.state.set(pool, block, blocks, code);
        }
        true
    }

    pub fn release(mut self, pool: &mut Pool) {
        self.reset(pool);
        for Was { blocks, code, .. } in self.steps.drain(..).flatten() {
            if let Code::Raw(page) = code {
                pool.arena.release(page, blocks);
            }
        }
        self.state.release(pool);
    }

    /// Bytes of memory of its own, without what the maps take.
    pub fn memory_bytes(&self) -> usize {
        let steps: usize = self.steps.iter().map(|step| step.capacity() * size_of::<Was>()).sum();
        let lists = self.steps.capacity() * size_of::<Vec<Was>>();
        let maps = self.state.memory_bytes() + self.overlay.as_ref().map_or(0, Map::memory_bytes);
        steps + lists + maps + size_of::<Self>()
    }
}

/// Notes what a range of blocks holds.
fn keep(map: &Map, pool: &mut Pool, first: u64, end: u64, before: &mut Vec<Was>) {
    let mut block = first;
    while block < end {
        let (code, blocks) = map.run_at(block, end - block);
        if let Code::Raw(page) = code {
            pool.arena.retain(page, blocks);
        }
        before.push(Was { block, blocks, code });
        block += blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Store, StoreOptions};

    #[test]
    fn a_step_over_the_same_place_twice_is_taken_back_whole() {
        let mut store = Store::new(1 << 20, &StoreOptions::default()).unwrap();
        let base = store.snapshot();
        let mut pieces = Vec::new();
        for (offset, byte) in [(0, 1), (4096, 2), (0, 3), (100, 4)] {
            store.write(offset, &[byte; 8192], Some(&mut pieces)).unwrap();
        }
        let view = store.view(base).unwrap();
        store.step(view, &pieces).unwrap();
        let (mut is, mut expected) = ([9; 16384], [8; 16384]);
        store.read_view(view, 0, &mut is).unwrap();
        store.read(0, &mut expected).unwrap();
        assert_eq!(is, expected);
        assert!(store.back(view).unwrap());
        store.read_view(view, 0, &mut is).unwrap();
        assert_eq!(is, [0; 16384]);
        assert!(!store.back(view).unwrap());
        store.delete_view(view).unwrap();
        store.release(&pieces);
        store.delete_snapshot(base).unwrap();
        assert_eq!(store.usage().pages, store.usage().raw_blocks);
    }
}
