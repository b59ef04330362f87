//! What a load is, before it is done, and the chance that it is drawn with.

use fsage_model::crash::{CrashLoadSpec, CrashOperation};
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::history::Update;
use super::tree::{BLOCK, Tree};

/// Blocks of the longest file of a random load.
pub const MOST_BLOCKS: u64 = 6;

/// A load.
#[derive(Debug, Clone)]
pub struct Generated {
    /// The directory that it works in; empty: the load's own.
    pub root: String,
    /// Which identities its files have.
    pub seed: u64,
    /// What makes the tree that it begins with; the last is a sync.
    pub base: Vec<CrashOperation>,
    /// The load.
    pub operations: Vec<CrashOperation>,
    /// Files that it replaces.
    pub updates: Vec<Update>,
}

impl Generated {
    /// A load of `spec.size` random operations; `next` draws one that can be done on the tree before it, or none.
    pub fn random(
        spec: CrashLoadSpec,
        base: Vec<CrashOperation>,
        random: &mut Dice,
        next: impl Fn(&Tree, &mut Dice) -> Option<CrashOperation>,
    ) -> Self {
        let mut generated =
            Self { root: String::new(), seed: spec.seed, base, operations: Vec::new(), updates: Vec::new() };
        let mut tree = generated.tree();
        while generated.operations.len() < usize::try_from(spec.size).unwrap_or(0) {
            let Some(operation) = next(&tree, random) else { continue };
            tree.apply(&operation);
            generated.operations.push(operation);
        }
        generated
    }

    /// The tree that it begins with.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new(self.seed);
        for operation in &self.base {
            tree.apply(operation);
        }
        tree
    }
}

/// Whence the chance of a load comes.
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x706f_7765_7263_7574))
    }

    /// A number below `limit`, or 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit.max(1)
    }

    /// One of these, if there is any.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let number = self.below(u64::try_from(from.len()).unwrap_or(u64::MAX));
        from.get(usize::try_from(number).unwrap_or(0))
    }

    /// A size of a few blocks, mostly with a part of one.
    pub fn size(&mut self) -> u64 {
        self.below(MOST_BLOCKS - 1) * BLOCK + 1 + self.below(BLOCK)
    }
}
