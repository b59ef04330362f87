//! What 512 blocks hold: a sorted list of runs.
//!
//! Invariants: the first run begins at block 0; each ends where the next begins, the last at [`CHUNK_BLOCKS`]; no two
//! neighbours could be one run. So a chunk costs 24 bytes a run, whatever the runs hold; 512 of them, the worst that can
//! be, make 0.6 % of the 2 MiB that the chunk stands for.

use super::code::{Cell, Code};

/// Blocks of a chunk.
pub(crate) const CHUNK_BLOCKS: u16 = 512;

/// Part of a chunk that holds one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// First block in the chunk.
    pub start: u16,
    /// Blocks, at least 1.
    pub blocks: u16,
    /// What they hold.
    pub code: Code,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    cells: Vec<Cell>,
}

/// At most three runs: what is put in the place of others.
struct Patch {
    cells: [Cell; 3],
    length: usize,
}

impl Patch {
    fn new() -> Self {
        Self { cells: [Cell::new(0, Code::Zero); 3], length: 0 }
    }

    fn push(&mut self, start: u16, code: Code) {
        if let Some(last) = self.length.checked_sub(1).map(|last| &mut self.cells[last])
            && let Some(both) = last.code().join(u64::from(start - last.start), code)
        {
            *last = Cell::new(last.start, both);
            return;
        }
        self.cells[self.length] = Cell::new(start, code);
        self.length += 1;
    }
}

impl Chunk {
    /// A chunk of zeros.
    pub fn new() -> Self {
        Self { cells: vec![Cell::new(0, Code::Zero)] }
    }

    /// Bytes that it takes, its share of the allocator's and the pointer's bookkeeping included.
    pub fn memory_bytes(&self) -> usize {
        /// Two counters of `Arc`, and a word in front of each of the two allocations.
        const BOOKKEEPING: usize = 32;
        self.cells.capacity() * size_of::<Cell>() + size_of::<Self>() + BOOKKEEPING
    }

    /// Whether it holds nothing but zeros.
    pub fn is_zero(&self) -> bool {
        matches!(self.cells.as_slice(), [one] if one.code() == Code::Zero)
    }

    /// Number of the run that `at` lies in.
    #[inline]
    fn find(&self, at: u16) -> usize {
        debug_assert!(at < CHUNK_BLOCKS, "block {at} of a chunk");
        self.cells.partition_point(|cell| cell.start <= at) - 1
    }

    /// Where the `n`th run ends.
    #[inline]
    fn end(&self, n: usize) -> u16 {
        self.cells.get(n + 1).map_or(CHUNK_BLOCKS, |next| next.start)
    }

    /// What the block `at` and those behind it up to `end` hold: as far as one run goes.
    #[inline]
    pub fn run_at(&self, at: u16, end: u16) -> Run {
        self.part(self.find(at), at, end)
    }

    /// The part of the `n`th run that lies between `from` and `to`.
    #[inline]
    fn part(&self, n: usize, from: u16, to: u16) -> Run {
        let cell = &self.cells[n];
        let (start, end) = (cell.start.max(from), self.end(n));
        let code = cell.code().skip(u64::from(start - cell.start));
        let (code, end) = if end > to { (code.cut(), to) } else { (code, end) };
        Run { start, blocks: end - start, code }
    }

    /// The runs between two blocks, cut where they reach beyond.
    #[inline]
    pub fn runs(&self, from: u16, to: u16) -> impl Iterator<Item = Run> {
        let first = self.find(from);
        let within = self.cells[first..].iter().take_while(move |cell| cell.start < to);
        (first..).zip(within).map(move |(n, _)| self.part(n, from, to))
    }

    /// Lets `blocks` blocks from `start` on hold `code`.
    pub fn set(&mut self, start: u16, blocks: u16, code: Code) {
        let end = start + blocks;
        let (mut first, mut last) = (self.find(start), self.find(end - 1));
        // A neighbour that ends or begins exactly here may become one with what is put in.
        if first > 0 && self.cells[first].start == start {
            first -= 1;
        }
        if self.end(last) == end && end < CHUNK_BLOCKS {
            last += 1;
        }
        let mut patch = Patch::new();
        let head = &self.cells[first];
        if head.start < start {
            // What is left of it is cut unless it ends just where the new run begins.
            let code = if self.end(first) > start { head.code().cut() } else { head.code() };
            patch.push(head.start, code);
        }
        patch.push(start, code);
        if self.end(last) > end {
            let tail = &self.cells[last];
            let from = tail.start.max(end);
            patch.push(from, tail.code().skip(u64::from(from - tail.start)));
        }
        self.replace(first, last, &patch);
    }

    /// Puts a patch in the place of the runs from the `first` to the `last`.
    fn replace(&mut self, first: usize, last: usize, patch: &Patch) {
        let new = &patch.cells[..patch.length];
        let old = last + 1 - first;
        if new.len() > old {
            let more = new.len() - old;
            if self.cells.capacity() < self.cells.len() + more {
                // A quarter more: many chunks grow a little, so doubling would leave much unused.
                self.cells.reserve_exact(more + self.cells.len() / 4);
            }
        }
        if new.len() == old {
            self.cells[first..=last].copy_from_slice(new);
        } else {
            self.cells.splice(first..=last, new.iter().copied());
        }
        if self.cells.len() * 2 < self.cells.capacity() && self.cells.capacity() > 8 {
            self.cells.shrink_to(self.cells.len() + self.cells.len() / 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::{Described, Page};
    use super::*;
    use proptest::prelude::*;

    /// The code of one block, as it would be alone.
    fn single(code: Code, n: u16, blocks: u16) -> Code {
        let code = code.skip(u64::from(n));
        if n + 1 < blocks { code.cut() } else { code }
    }

    fn any_code() -> impl Strategy<Value = Code> {
        prop_oneof![
            Just(Code::Zero),
            (0..4_u64).prop_map(|page| Code::Raw(Page(page * 100))),
            (0..3_u64, 0..3_u64, prop_oneof![Just(4096_u16), Just(100)]).prop_map(
                |(file, first, tail_bytes)| Code::Described(Described {
                    file,
                    version: 1,
                    first,
                    tail_bytes
                })
            ),
        ]
    }

    proptest! {
        #[test]
        fn holds_what_an_array_holds(
            steps in prop::collection::vec((0..CHUNK_BLOCKS, 1..=CHUNK_BLOCKS, any_code(), any::<bool>()), 1..60)
        ) {
            let mut chunk = Chunk::new();
            let mut model = [Code::Zero; CHUNK_BLOCKS as usize];
            for (start, blocks, code, near) in steps {
                let blocks = if near { blocks % 4 + 1 } else { blocks }.min(CHUNK_BLOCKS - start);
                chunk.set(start, blocks, code);
                for n in 0..blocks {
                    model[usize::from(start + n)] = single(code, n, blocks);
                }
                let mut next = 0;
                for run in chunk.runs(0, CHUNK_BLOCKS) {
                    prop_assert_eq!(run.start, next);
                    for n in 0..run.blocks {
                        prop_assert_eq!(single(run.code, n, run.blocks), model[usize::from(next + n)]);
                    }
                    next += run.blocks;
                }
                prop_assert_eq!(next, CHUNK_BLOCKS);
                let runs: Vec<Run> = chunk.runs(0, CHUNK_BLOCKS).collect();
                let joinable = |pair: &[Run]| pair[0].code.join(u64::from(pair[0].blocks), pair[1].code).is_some();
                prop_assert!(!runs.windows(2).any(joinable), "{:?}", runs);
                prop_assert_eq!(chunk.is_zero(), model.iter().all(|code| *code == Code::Zero));
                let end = start + blocks;
                let part: Vec<Run> = chunk.runs(start, end).collect();
                prop_assert_eq!(part.iter().map(|run| run.blocks).sum::<u16>(), blocks);
                prop_assert_eq!(chunk.run_at(start, end), part[0]);
            }
        }
    }
}
