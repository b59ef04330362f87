//! What 512 blocks hold: a list of runs, and a bit for each block at which one begins.
//!
//! Invariants: a run begins at block 0; each ends where the next begins, the last at [`CHUNK_BLOCKS`]; no two
//! neighbours could be one run. A block's run is found by counting the bits up to it: one line of the cache
//! for the bits, one for the run, however many there are. A chunk costs 24 bytes a run, whatever the runs
//! hold; 512 of them, the worst that can be, make 0.6 % of the 2 MiB that the chunk stands for.

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
    starts: Starts,
    cells: Vec<Cell>,
}

/// A bit for each block, set where a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Starts([u64; 8]);

impl Starts {
    /// Which run a block lies in, counted from 0.
    #[inline]
    fn rank(&self, at: u16) -> usize {
        debug_assert!(at < CHUNK_BLOCKS, "block {at} of a chunk");
        let (word, bit) = (usize::from(at / 64), at % 64);
        let before: u32 = self.0[..word].iter().map(|word| word.count_ones()).sum();
        let upto = self.0[word] << (63 - bit);
        usize::try_from(before + upto.count_ones()).unwrap_or(1) - 1
    }

    /// Where the run that a block lies in begins.
    #[inline]
    fn start(&self, at: u16) -> u16 {
        let (mut word, bit) = (at / 64, at % 64);
        let mut bits = self.0[usize::from(word)] << (63 - bit) >> (63 - bit);
        while bits == 0 {
            word -= 1;
            bits = self.0[usize::from(word)];
        }
        word * 64 + low(63 - bits.leading_zeros())
    }

    /// Where the run that a block lies in ends.
    #[inline]
    fn end(&self, at: u16) -> u16 {
        let (mut word, bit) = (at / 64, at % 64);
        // The bits behind this block: shifted twice, as a shift by 64 is none.
        let mut bits = self.0[usize::from(word)] >> bit >> 1 << bit << 1;
        while bits == 0 {
            word += 1;
            if word == 8 {
                return CHUNK_BLOCKS;
            }
            bits = self.0[usize::from(word)];
        }
        word * 64 + low(bits.trailing_zeros())
    }

    #[inline]
    fn set(&mut self, at: u16) {
        self.0[usize::from(at / 64)] |= 1 << (at % 64);
    }

    /// Clears the bits of the blocks from one to before another.
    fn clear(&mut self, from: u16, to: u16) {
        for (word, base) in self.0.iter_mut().zip((0..CHUNK_BLOCKS).step_by(64)) {
            let (from, to) = (from.clamp(base, base + 64) - base, to.clamp(base, base + 64) - base);
            if from < to {
                *word &= !(u64::MAX << from & u64::MAX >> (64 - to));
            }
        }
    }
}

/// A number of bits of a word.
fn low(bits: u32) -> u16 {
    u16::try_from(bits).unwrap_or(0)
}

/// At most three runs: what is put in the place of others.
struct Patch {
    runs: [(u16, Code); 3],
    length: usize,
}

impl Patch {
    #[inline]
    fn push(&mut self, start: u16, code: Code) {
        if let Some((last, before)) = self.length.checked_sub(1).map(|last| &mut self.runs[last])
            && let Some(both) = before.join(u64::from(start - *last), code)
        {
            *before = both;
            return;
        }
        self.runs[self.length] = (start, code);
        self.length += 1;
    }
}

impl Chunk {
    /// A chunk of zeros.
    pub fn new() -> Self {
        Self { starts: Starts([1, 0, 0, 0, 0, 0, 0, 0]), cells: vec![Cell::new(Code::Zero, 0)] }
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

    /// The code of the `n`th run from its beginning.
    #[inline]
    fn code(&self, n: usize) -> Code {
        self.cells[n].code()
    }

    /// What the block `at` and those behind it up to `to` hold: as far as one run goes.
    #[inline]
    pub fn run_at(&self, at: u16, to: u16) -> Run {
        self.part(self.starts.rank(at), at, to)
    }

    /// The part of the `n`th run, which `at` lies in, from there on and up to `to`.
    #[inline]
    fn part(&self, n: usize, at: u16, to: u16) -> Run {
        let (start, end) = (self.starts.start(at), self.starts.end(at));
        let code = self.code(n).skip(u64::from(at - start));
        let (code, end) = if end > to { (code.cut(), to) } else { (code, end) };
        Run { start: at, blocks: end - at, code }
    }

    /// The runs between two blocks, cut where they reach beyond.
    #[inline]
    pub fn runs(&self, from: u16, to: u16) -> impl Iterator<Item = Run> {
        let (mut at, mut n) = (from, self.starts.rank(from));
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let run = self.part(n, at, to);
            at += run.blocks;
            n += 1;
            Some(run)
        })
    }

    /// Lets `blocks` blocks from `start` on hold `code`.
    pub fn set(&mut self, start: u16, blocks: u16, code: Code) {
        let end = start + blocks;
        // A neighbour that ends or begins exactly here may become one with what is put in.
        let head = self.starts.start(start.saturating_sub(1));
        let tail = if end < CHUNK_BLOCKS { self.starts.start(end) } else { start };
        let (first, last) = (self.starts.rank(head), self.starts.rank(end.min(CHUNK_BLOCKS - 1)));
        let mut patch = Patch { runs: [(0, Code::Zero); 3], length: 0 };
        if head < start {
            // What is left of it is cut unless it ends just where the new run begins.
            let whole = self.code(first);
            patch.push(head, if self.starts.end(head) > start { whole.cut() } else { whole });
        }
        patch.push(start, code);
        if end < CHUNK_BLOCKS {
            patch.push(end, self.code(last).skip(u64::from(end - tail)));
        }
        self.starts.clear(head, end.saturating_add(1).min(CHUNK_BLOCKS));
        let new = &patch.runs[..patch.length];
        new.iter().for_each(|(start, _)| self.starts.set(*start));
        self.replace(first, last, new);
    }

    /// Puts runs in the place of those from the `first` to the `last`.
    fn replace(&mut self, first: usize, last: usize, new: &[(u16, Code)]) {
        let old = last + 1 - first;
        let cells = new.iter().map(|(_, code)| Cell::new(*code, 0));
        if new.len() == old {
            self.cells[first..=last].iter_mut().zip(cells).for_each(|(old, new)| *old = new);
            return;
        }
        let length = self.cells.len() + new.len() - old;
        if self.cells.capacity() < length {
            // A quarter more: many chunks grow a little, so doubling would leave much unused.
            self.cells.reserve_exact(length - self.cells.len() + length / 4);
        }
        self.cells.splice(first..=last, cells);
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
