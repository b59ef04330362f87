//! Which block holds what: a tree of two levels that many can share.
//!
//! A map is a list of branches (1 GiB each), a branch a table of chunks (2 MiB each). What holds only zeros is not there. A copy of
//! a map shares everything; who changes a part first makes it its own. A chunk holds one reference to each page that it names, however many
//! maps share the chunk: so pages are counted only when a chunk is copied or goes away.
//!
//! Maps do not let go of their pages by themselves when dropped, as they do not know the arena: call [`Map::release`].

use std::sync::Arc;

use super::arena::Arena;
use super::chunk::{CHUNK_BLOCKS, Chunk};
use super::code::{Code, Page};
use super::number::{index, narrow};

/// Chunks of a branch.
const BRANCH_CHUNKS: usize = 512;

/// The same as a number of blocks.
const CHUNK: u64 = 512;

/// Blocks of a branch.
const BRANCH: u64 = 512 * CHUNK;

const _: () = assert!(CHUNK_BLOCKS == 512 && BRANCH_CHUNKS == 512);

#[derive(Debug, Clone)]
struct Branch {
    chunks: [Option<Arc<Chunk>>; BRANCH_CHUNKS],
    /// Chunks that are there.
    used: usize,
}

/// What all maps of a store share.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The raw pages.
    pub arena: Arena,
    /// Bytes of memory that branches and chunks take.
    pub map_bytes: usize,
}

impl Pool {
    /// Lets go of the pages of a run.
    fn release(&mut self, code: Code, blocks: u64) {
        if let Code::Raw(page) = code {
            self.arena.release(page, blocks);
        }
    }

    /// A chunk that one map does not hold any more.
    fn release_chunk(&mut self, chunk: Arc<Chunk>) {
        if let Ok(chunk) = Arc::try_unwrap(chunk) {
            self.map_bytes -= chunk.memory_bytes();
            for run in chunk.runs(0, CHUNK_BLOCKS) {
                self.release(run.code, u64::from(run.blocks));
            }
        }
    }

    /// The chunk, its own if it was shared.
    fn own_chunk<'a>(&mut self, chunk: &'a mut Arc<Chunk>) -> &'a mut Chunk {
        if Arc::strong_count(chunk) > 1 {
            for run in chunk.runs(0, CHUNK_BLOCKS) {
                if let Code::Raw(page) = run.code {
                    self.arena.retain(page, u64::from(run.blocks));
                }
            }
            let copy = Chunk::clone(chunk);
            self.map_bytes += copy.memory_bytes();
            *chunk = Arc::new(copy);
        }
        Arc::make_mut(chunk)
    }
}

/// Blocks by what they hold; the rest are zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Blocks {
    /// Kept as they are.
    pub raw: u64,
    /// Kept by what they say they are.
    pub described: u64,
}

impl Blocks {
    fn of(&mut self, code: Code) -> Option<&mut u64> {
        match code {
            Code::Zero => None,
            Code::Raw(_) => Some(&mut self.raw),
            Code::Described(_) => Some(&mut self.described),
        }
    }

    fn less(&mut self, chunk: &Chunk, from: u16, to: u16) {
        for run in chunk.runs(from, to) {
            if let Some(count) = self.of(run.code) {
                *count -= u64::from(run.blocks);
            }
        }
    }
}

/// What every block of a disk holds at some time.
#[derive(Debug)]
pub(crate) struct Map {
    branches: Vec<Option<Arc<Branch>>>,
    held: Blocks,
}

impl Map {
    /// A map of zeros.
    pub fn new(blocks: u64) -> Self {
        let branches = index(blocks.div_ceil(BRANCH));
        Self { branches: vec![None; branches], held: Blocks::default() }
    }

    /// A copy that shares everything. Cost: one step a GiB of the disk.
    pub fn share(&self) -> Self {
        Self { branches: self.branches.clone(), held: self.held }
    }

    /// How many blocks hold what.
    pub const fn held(&self) -> Blocks {
        self.held
    }

    /// Bytes that the list of branches takes.
    pub fn memory_bytes(&self) -> usize {
        self.branches.capacity() * size_of::<Option<Arc<Branch>>>()
    }

    /// What a block and those behind it hold, as far as one run goes, at most `blocks`, which must not be 0. A run that goes on in the next
    /// chunk is told in parts.
    #[inline]
    pub fn run_at(&self, block: u64, blocks: u64) -> (Code, u64) {
        let Some(branch) = &self.branches[index(block / BRANCH)] else {
            return (Code::Zero, blocks.min(BRANCH - block % BRANCH));
        };
        let at = block % CHUNK;
        let end = (at + blocks).min(CHUNK);
        branch.chunks[index(block % BRANCH / CHUNK)].as_ref().map_or((Code::Zero, end - at), |chunk| {
            let run = chunk.run_at(narrow(at), narrow(end));
            (run.code, u64::from(run.blocks))
        })
    }

    /// The pages that hold a block and those behind it, if no other map shares what says so: as [`Map::run_at`].
    #[inline]
    pub fn own_pages(&self, block: u64, blocks: u64) -> Option<(Page, u64)> {
        let branch = self.branches[index(block / BRANCH)].as_ref()?;
        let chunk = branch.chunks[index(block % BRANCH / CHUNK)].as_ref()?;
        if Arc::strong_count(branch) > 1 || Arc::strong_count(chunk) > 1 {
            return None;
        }
        let at = block % CHUNK;
        let run = chunk.run_at(narrow(at), narrow((at + blocks).min(CHUNK)));
        match run.code {
            Code::Raw(page) => Some((page, u64::from(run.blocks))),
            _ => None,
        }
    }

    /// Lets `blocks` blocks from `block` on hold `code`, whose pages' references pass to the map.
    pub fn set(&mut self, pool: &mut Pool, block: u64, blocks: u64, code: Code) {
        let (mut at, end) = (block, block + blocks);
        while at < end {
            let zero = code == Code::Zero;
            if zero && at.is_multiple_of(BRANCH) && end - at >= BRANCH {
                self.clear_branch(pool, at);
                at += BRANCH;
                continue;
            }
            let to = end.min(at - at % CHUNK + CHUNK);
            let part = code.skip(at - block);
            self.set_in_chunk(pool, at, to - at, if to < end { part.cut() } else { part });
            at = to;
        }
    }

    fn clear_branch(&mut self, pool: &mut Pool, block: u64) {
        let Some(branch) = self.branches[index(block / BRANCH)].take() else { return };
        for chunk in branch.chunks.iter().flatten() {
            self.held.less(chunk, 0, CHUNK_BLOCKS);
        }
        release_branch(pool, branch);
    }

    fn set_in_chunk(&mut self, pool: &mut Pool, block: u64, blocks: u64, code: Code) {
        let slot = &mut self.branches[index(block / BRANCH)];
        let number = index(block % BRANCH / CHUNK);
        let zero = code == Code::Zero;
        if zero && slot.as_ref().is_none_or(|branch| branch.chunks[number].is_none()) {
            return;
        }
        let branch = own_branch(pool, slot);
        let (from, to) = (narrow(block % CHUNK), narrow(block % CHUNK + blocks));
        let chunk = match &mut branch.chunks[number] {
            Some(chunk) => chunk,
            empty => {
                branch.used += 1;
                let new = Chunk::new();
                pool.map_bytes += new.memory_bytes();
                empty.insert(Arc::new(new))
            }
        };
        self.held.less(chunk, from, to);
        if let Some(count) = self.held.of(code) {
            *count += blocks;
        }
        let emptied = zero && blocks == CHUNK || {
            let chunk = pool.own_chunk(chunk);
            for run in chunk.runs(from, to) {
                pool.release(run.code, u64::from(run.blocks));
            }
            let before = chunk.memory_bytes();
            chunk.set(from, to - from, code);
            pool.map_bytes = pool.map_bytes + chunk.memory_bytes() - before;
            zero && chunk.is_zero()
        };
        if !emptied {
            return;
        }
        if let Some(chunk) = branch.chunks[number].take() {
            pool.release_chunk(chunk);
            branch.used -= 1;
        }
        if branch.used == 0
            && let Some(branch) = slot.take()
        {
            release_branch(pool, branch);
        }
    }

    /// Lets go of everything that only this map holds.
    pub fn release(self, pool: &mut Pool) {
        for branch in self.branches.into_iter().flatten() {
            release_branch(pool, branch);
        }
    }
}

/// The branch in its slot, made if it was not there, its own if it was shared.
fn own_branch<'a>(pool: &mut Pool, slot: &'a mut Option<Arc<Branch>>) -> &'a mut Branch {
    let branch = slot.get_or_insert_with(|| {
        pool.map_bytes += size_of::<Branch>();
        Arc::new(Branch { chunks: [const { None }; BRANCH_CHUNKS], used: 0 })
    });
    if Arc::strong_count(branch) > 1 {
        pool.map_bytes += size_of::<Branch>();
    }
    Arc::make_mut(branch)
}

/// A branch that one map does not hold any more.
fn release_branch(pool: &mut Pool, branch: Arc<Branch>) {
    if let Ok(branch) = Arc::try_unwrap(branch) {
        pool.map_bytes -= size_of::<Branch>();
        for chunk in branch.chunks.into_iter().flatten() {
            pool.release_chunk(chunk);
        }
    }
}
