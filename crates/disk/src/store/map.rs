//! Which block holds what: a tree of two levels that many can share.
//!
//! A map is a list of branches (1 GiB each), a branch a table of chunks (2 MiB each). What holds only zeros
//! is not there. A copy of a map shares everything; who changes a part first makes it its own. A chunk holds
//! one reference to each page that it names, however many maps share the chunk: so pages are counted only
//! when a chunk is copied or goes away.
//!
//! What one map has for itself is a box, and becomes counted when it is shared: to make sure that nobody else
//! has a counted thing takes an atomic operation, which waits until all that was written before is in memory.
//! Right behind the copying of a page that is longer than everything else a write does. In a branch that is
//! shared all chunks are counted.
//!
//! Maps do not let go of their pages by themselves when dropped, as they do not know the arena: call
//! [`Map::release`].

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

/// 1 GiB of a map.
#[derive(Debug)]
enum Branch {
    Own(Box<OwnBranch>),
    Shared(Arc<SharedBranch>),
}

/// A branch that one map has.
#[derive(Debug)]
struct OwnBranch {
    chunks: [Option<Leaf>; BRANCH_CHUNKS],
    /// Chunks that are there.
    used: usize,
}

/// A branch that many maps may have.
#[derive(Debug)]
struct SharedBranch([Option<Arc<Chunk>>; BRANCH_CHUNKS]);

/// A chunk that one map has, or many.
#[derive(Debug)]
enum Leaf {
    Own(Box<Chunk>),
    Shared(Arc<Chunk>),
}

impl Leaf {
    #[inline]
    fn get(&self) -> &Chunk {
        match self {
            Self::Own(chunk) => chunk,
            Self::Shared(chunk) => chunk,
        }
    }

    fn into_shared(self) -> Arc<Chunk> {
        match self {
            Self::Own(chunk) => Arc::from(chunk),
            Self::Shared(chunk) => chunk,
        }
    }
}

impl Branch {
    #[inline]
    fn chunk(&self, number: usize) -> Option<&Chunk> {
        match self {
            Self::Own(branch) => branch.chunks[number].as_ref().map(Leaf::get),
            Self::Shared(branch) => branch.0[number].as_deref(),
        }
    }

    /// A chunk, if no other map has it.
    #[inline]
    fn own_chunk(&self, number: usize) -> Option<&Chunk> {
        match self {
            Self::Own(branch) => match branch.chunks[number].as_ref()? {
                Leaf::Own(chunk) => Some(chunk),
                Leaf::Shared(chunk) => (Arc::strong_count(chunk) == 1).then_some(chunk),
            },
            Self::Shared(branch) => {
                let chunk = branch.0[number].as_ref()?;
                (Arc::strong_count(branch) == 1 && Arc::strong_count(chunk) == 1).then_some(chunk)
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Own(_) => size_of::<OwnBranch>(),
            Self::Shared(_) => size_of::<SharedBranch>(),
        }
    }
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
    fn release_chunk(&mut self, chunk: Leaf) {
        let chunk = match chunk {
            Leaf::Own(chunk) => *chunk,
            Leaf::Shared(chunk) => match Arc::try_unwrap(chunk) {
                Ok(chunk) => chunk,
                Err(_) => return,
            },
        };
        self.map_bytes -= chunk.memory_bytes();
        for run in chunk.runs(0, CHUNK_BLOCKS) {
            self.release(run.code, u64::from(run.blocks));
        }
    }

    /// A branch that one map does not hold any more.
    fn release_branch(&mut self, branch: Branch) {
        let bytes = branch.memory_bytes();
        let chunks = match branch {
            Branch::Own(branch) => branch.chunks,
            Branch::Shared(branch) => match Arc::try_unwrap(branch) {
                Ok(SharedBranch(chunks)) => chunks.map(|chunk| chunk.map(Leaf::Shared)),
                Err(_) => return,
            },
        };
        self.map_bytes -= bytes;
        for chunk in chunks.into_iter().flatten() {
            self.release_chunk(chunk);
        }
    }

    /// The chunk of a slot, made if it was not there, its own if it was shared.
    #[inline]
    fn own_chunk(&mut self, leaf: Option<Leaf>) -> Box<Chunk> {
        match leaf {
            Some(Leaf::Own(chunk)) => chunk,
            Some(Leaf::Shared(chunk)) => {
                Box::new(Arc::try_unwrap(chunk).unwrap_or_else(|chunk| self.copy_chunk(&chunk)))
            }
            None => {
                let chunk = Chunk::new();
                self.map_bytes += chunk.memory_bytes();
                Box::new(chunk)
            }
        }
    }

    fn copy_chunk(&mut self, chunk: &Chunk) -> Chunk {
        for run in chunk.runs(0, CHUNK_BLOCKS) {
            if let Code::Raw(page) = run.code {
                self.arena.retain(page, u64::from(run.blocks));
            }
        }
        let copy = chunk.clone();
        self.map_bytes += copy.memory_bytes();
        copy
    }

    /// The branch of a slot, made if it was not there, its own if it was shared.
    #[inline]
    fn own_branch(&mut self, branch: Option<Branch>) -> Box<OwnBranch> {
        match branch {
            Some(Branch::Own(branch)) => branch,
            Some(Branch::Shared(branch)) => self.unshare(branch),
            None => {
                self.map_bytes += size_of::<OwnBranch>();
                Box::new(OwnBranch { chunks: [const { None }; BRANCH_CHUNKS], used: 0 })
            }
        }
    }

    fn unshare(&mut self, branch: Arc<SharedBranch>) -> Box<OwnBranch> {
        self.map_bytes += size_of::<OwnBranch>();
        let chunks = match Arc::try_unwrap(branch) {
            Ok(SharedBranch(chunks)) => {
                self.map_bytes -= size_of::<SharedBranch>();
                chunks
            }
            Err(branch) => branch.0.clone(),
        };
        let used = chunks.iter().flatten().count();
        Box::new(OwnBranch { chunks: chunks.map(|chunk| chunk.map(Leaf::Shared)), used })
    }

    /// A branch for one more map.
    fn share(&mut self, slot: &mut Option<Branch>) -> Option<Branch> {
        let shared = match slot.take()? {
            Branch::Shared(branch) => branch,
            Branch::Own(branch) => {
                self.map_bytes = self.map_bytes + size_of::<SharedBranch>() - size_of::<OwnBranch>();
                Arc::new(SharedBranch(branch.chunks.map(|chunk| chunk.map(Leaf::into_shared))))
            }
        };
        *slot = Some(Branch::Shared(Arc::clone(&shared)));
        Some(Branch::Shared(shared))
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
    branches: Vec<Option<Branch>>,
    held: Blocks,
}

impl Map {
    /// A map of zeros.
    pub fn new(blocks: u64) -> Self {
        let branches = std::iter::repeat_with(|| None).take(index(blocks.div_ceil(BRANCH))).collect();
        Self { branches, held: Blocks::default() }
    }

    /// A copy that shares everything. Cost: one step a GiB of the disk, and one for each chunk that was
    /// written since the last time.
    pub fn share(&mut self, pool: &mut Pool) -> Self {
        let branches = self.branches.iter_mut().map(|slot| pool.share(slot)).collect();
        Self { branches, held: self.held }
    }

    /// How many blocks hold what.
    pub const fn held(&self) -> Blocks {
        self.held
    }

    /// Bytes that the list of branches takes.
    pub fn memory_bytes(&self) -> usize {
        self.branches.capacity() * size_of::<Option<Branch>>()
    }

    /// What a block and those behind it hold, as far as one run goes, at most `blocks`, which must not be 0.
    /// A run that continues in the next chunk is reported in parts.
    #[inline]
    pub fn run_at(&self, block: u64, blocks: u64) -> (Code, u64) {
        let Some(branch) = &self.branches[index(block / BRANCH)] else {
            return (Code::Zero, blocks.min(BRANCH - block % BRANCH));
        };
        let at = block % CHUNK;
        let end = (at + blocks).min(CHUNK);
        branch.chunk(index(block % BRANCH / CHUNK)).map_or((Code::Zero, end - at), |chunk| {
            let run = chunk.run_at(narrow(at), narrow(end));
            (run.code, u64::from(run.blocks))
        })
    }

    /// The pages that hold a block and those behind it, if no other map shares what says so: as
    /// [`Map::run_at`].
    #[inline]
    pub fn own_pages(&self, block: u64, blocks: u64) -> Option<(Page, u64)> {
        let branch = self.branches[index(block / BRANCH)].as_ref()?;
        let chunk = branch.own_chunk(index(block % BRANCH / CHUNK))?;
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
        for chunk in (0..BRANCH_CHUNKS).filter_map(|number| branch.chunk(number)) {
            self.held.less(chunk, 0, CHUNK_BLOCKS);
        }
        pool.release_branch(branch);
    }

    fn set_in_chunk(&mut self, pool: &mut Pool, block: u64, blocks: u64, code: Code) {
        let slot = &mut self.branches[index(block / BRANCH)];
        let number = index(block % BRANCH / CHUNK);
        let zero = code == Code::Zero;
        if zero && slot.as_ref().is_none_or(|branch| branch.chunk(number).is_none()) {
            return;
        }
        let mut branch = pool.own_branch(slot.take());
        let (from, to) = (narrow(block % CHUNK), narrow(block % CHUNK + blocks));
        let leaf = branch.chunks[number].take();
        branch.used += usize::from(leaf.is_none());
        if let Some(leaf) = &leaf {
            self.held.less(leaf.get(), from, to);
        }
        if let Some(count) = self.held.of(code) {
            *count += blocks;
        }
        let left = if zero && blocks == CHUNK {
            leaf
        } else {
            let mut chunk = pool.own_chunk(leaf);
            for run in chunk.runs(from, to) {
                pool.release(run.code, u64::from(run.blocks));
            }
            let before = chunk.memory_bytes();
            chunk.set(from, to - from, code);
            pool.map_bytes = pool.map_bytes + chunk.memory_bytes() - before;
            Some(Leaf::Own(chunk))
        };
        match left {
            Some(leaf) if zero && (blocks == CHUNK || leaf.get().is_zero()) => {
                pool.release_chunk(leaf);
                branch.used -= 1;
            }
            other => branch.chunks[number] = other,
        }
        if branch.used > 0 {
            *slot = Some(Branch::Own(branch));
        } else {
            pool.release_branch(Branch::Own(branch));
        }
    }

    /// Lets go of everything that only this map holds.
    pub fn release(self, pool: &mut Pool) {
        for branch in self.branches.into_iter().flatten() {
            pool.release_branch(branch);
        }
    }
}
