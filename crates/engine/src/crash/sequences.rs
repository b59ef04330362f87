//! Short sequences of operations, all of them: bounded black-box testing (Mohan, Martinez, Ponnapalli, Raju and
//! Chidambaram, *Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing*, OSDI 2018).
//!
//! A sequence is one to three operations on four files in two directories, each followed by nothing, `syncfs`, or
//! `fsync` of a file or a directory; the last is followed by one of these. What it needs to begin with is made and
//! synced before it, what it leaves is removed after it, so that a load may have many of them in one log. The two
//! directories and the two names in each may change places without changing anything, so the first operation is
//! always about the first file.
//!
//! Every sequence of a length has a number. A load goes through the numbers of each length in an order of its own
//! (a seeded affine permutation), taking the lengths in turn until its budget is used, so that no load has a
//! sequence twice and any budget has something of each length. Numbers of what cannot be done (a link to a name that
//! is there) are skipped.
//!
//! **Bounds.** No directories are made, renamed or removed, and there are no holes, extended attributes, mapped or
//! direct writes.

use fsage_model::crash::CrashOperation;

use super::generated::{Dice, Generated};
use super::tree::{BLOCK, Tree};

/// The two directories and the names in each.
const FILES: [&str; 4] = ["A/foo", "A/bar", "B/foo", "B/bar"];
const DIRECTORIES: [&str; 2] = ["A", "B"];

/// Operations of the longest sequence.
const LONGEST: u32 = 3;

/// What a file holds that is there before a sequence: two blocks.
const BASE_BYTES: u64 = 2 * BLOCK;

/// Operations of one file, then those of two, each with the other three files in its place.
const OF_ONE: u64 = 5;
const OF_TWO: u64 = 3;
const KINDS: u64 = OF_ONE + 3 * OF_TWO;

/// What may follow an operation: nothing, `syncfs`, or `fsync` of a file or directory.
const SYNCS: u64 = 2 + 4 + 2;

/// Operations and what follows them, by the numbers that stand for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    file: usize,
    kind: u64,
    sync: u64,
}

/// How many sequences of this length there are, those that cannot be done among them.
pub(super) fn count(length: u32) -> u64 {
    let later = 4 * KINDS * SYNCS;
    KINDS * (SYNCS - 1) * later.pow(length.saturating_sub(1))
}

/// The steps of a sequence. `number` is below [`count`].
fn decode(length: u32, mut number: u64) -> Vec<Step> {
    let mut take = |limit: u64| {
        let digit = number % limit;
        number /= limit;
        digit
    };
    let mut steps = Vec::new();
    for place in 1..=length {
        let file = if place == 1 { 0 } else { take(4) };
        let kind = take(KINDS);
        let sync = if place == length { 1 + take(SYNCS - 1) } else { take(SYNCS) };
        steps.push(Step { file: usize::try_from(file).unwrap_or(0), kind, sync });
    }
    steps
}

/// A sequence: what makes its beginning, and what it does. `None` where that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Files that are there before.
    pub base: Vec<&'static str>,
    /// Operations with their syncs.
    pub operations: Vec<CrashOperation>,
}

/// Which files there are, as far as a sequence has asked for them, and what they are.
#[derive(Debug, Default)]
struct Names {
    /// The file that a name leads to, or that it leads to none; `None`: nobody asked yet.
    now: [Option<Option<usize>>; 4],
    sizes: Vec<u64>,
    base: Vec<&'static str>,
}

impl Names {
    /// The file of a name that has to be there; it was there before if nobody asked yet.
    fn there(&mut self, name: usize) -> Option<usize> {
        *self.now[name].get_or_insert_with(|| {
            self.base.push(FILES[name]);
            self.sizes.push(BASE_BYTES);
            Some(self.sizes.len() - 1)
        })
    }

    /// Whether a name is free, as it has to be.
    fn free(&mut self, name: usize) -> bool {
        self.now[name].get_or_insert(None).is_none()
    }

    fn step(&mut self, Step { file, kind, .. }: Step) -> Option<CrashOperation> {
        let path = FILES[file].to_owned();
        if kind >= OF_ONE {
            return self.pair(file, kind - OF_ONE);
        }
        if kind == 0 {
            return self.free(file).then(|| {
                self.sizes.push(0);
                self.now[file] = Some(Some(self.sizes.len() - 1));
                CrashOperation::Create { path }
            });
        }
        let size = self.there(file).and_then(|identity| self.sizes.get_mut(identity))?;
        Some(match kind {
            1 => {
                let length_bytes = (*size).max(BLOCK);
                *size = length_bytes;
                CrashOperation::Write { path, offset_bytes: 0, length_bytes }
            }
            2 => {
                let (offset_bytes, length_bytes) = (*size / BLOCK * BLOCK, BLOCK + 1000);
                *size = offset_bytes + length_bytes;
                CrashOperation::Write { path, offset_bytes, length_bytes }
            }
            3 => {
                *size = if *size > BLOCK { BLOCK } else { 0 };
                CrashOperation::Truncate { path, size_bytes: *size }
            }
            _ => {
                self.now[file] = Some(None);
                CrashOperation::Unlink { path }
            }
        })
    }

    /// A link, a rename to a free name, or one over another file.
    fn pair(&mut self, file: usize, kind: u64) -> Option<CrashOperation> {
        let other = (file + 1 + usize::try_from(kind % 3).unwrap_or(0)) % 4;
        let (from, to) = (FILES[file].to_owned(), FILES[other].to_owned());
        let identity = self.there(file)?;
        let is_over = kind / 3 == 2;
        if is_over {
            // Onto another name of the same file nothing would happen.
            self.there(other).filter(|known| *known != identity)?;
        } else if !self.free(other) {
            return None;
        }
        self.now[other] = Some(Some(identity));
        if kind / 3 == 0 {
            return Some(CrashOperation::Link { from, to });
        }
        self.now[file] = Some(None);
        Some(CrashOperation::Rename { from, to })
    }

    /// What follows an operation; `None` where it cannot be done, and within it where nothing does.
    fn sync(&mut self, sync: u64) -> Option<Option<CrashOperation>> {
        let number = usize::try_from(sync).unwrap_or(0);
        Some(match number {
            0 => None,
            1 => Some(CrashOperation::Sync),
            2..6 => {
                self.there(number - 2)?;
                Some(CrashOperation::Fsync { path: FILES[number - 2].to_owned() })
            }
            _ => Some(CrashOperation::FsyncDirectory { path: DIRECTORIES[number % 2].to_owned() }),
        })
    }
}

/// The sequence with this number; `None` where it cannot be done.
pub(super) fn sequence(length: u32, number: u64) -> Option<Sequence> {
    let (mut names, mut operations) = (Names::default(), Vec::new());
    for step in decode(length, number) {
        operations.push(names.step(step)?);
        operations.extend(names.sync(step.sync)?);
    }
    Some(Sequence { base: names.base, operations })
}

/// The sequences of a length in a seeded order.
struct Order {
    length: u32,
    next: u64,
    factor: u64,
    first: u64,
}

impl Order {
    fn new(length: u32, random: &mut Dice) -> Self {
        let total = count(length);
        let first = random.below(total);
        let factor = loop {
            let factor = 1 + random.below(total);
            if greatest_common_divisor(factor, total) == 1 {
                break factor;
            }
        };
        Self { length, next: 0, factor, first }
    }
}

impl Iterator for Order {
    type Item = Sequence;

    fn next(&mut self) -> Option<Sequence> {
        let total = count(self.length);
        while self.next < total {
            let number = u128::from(self.next) * u128::from(self.factor) + u128::from(self.first);
            self.next += 1;
            let number = u64::try_from(number % u128::from(total)).unwrap_or(0);
            if let Some(sequence) = sequence(self.length, number) {
                return Some(sequence);
            }
        }
        None
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// So many sequences, the lengths in turn.
fn chosen(budget: usize, random: &mut Dice) -> Vec<Sequence> {
    let mut orders: Vec<Order> = (1..=LONGEST).map(|length| Order::new(length, random)).collect();
    let mut all = Vec::new();
    while all.len() < budget {
        let left = budget - all.len();
        let turn: Vec<Sequence> = orders.iter_mut().filter_map(Iterator::next).take(left).collect();
        if turn.is_empty() {
            break;
        }
        all.extend(turn);
    }
    all
}

/// A load of `size` sequences.
pub(super) fn load(seed: u64, size: u32, random: &mut Dice) -> Generated {
    let mut base: Vec<CrashOperation> =
        DIRECTORIES.map(|path| CrashOperation::Mkdir { path: path.to_owned() }).to_vec();
    base.push(CrashOperation::Sync);
    let mut generated = Generated { seed, base, operations: Vec::new(), updates: Vec::new() };
    let mut tree = generated.tree();
    for sequence in chosen(usize::try_from(size).unwrap_or(usize::MAX), random) {
        let mut operations = removal(&tree);
        for path in sequence.base {
            let path = path.to_owned();
            operations.push(CrashOperation::Create { path: path.clone() });
            operations.push(CrashOperation::Write { path, offset_bytes: 0, length_bytes: BASE_BYTES });
        }
        operations.push(CrashOperation::Sync);
        operations.extend(sequence.operations);
        for operation in &operations {
            tree.apply(operation);
        }
        generated.operations.extend(operations);
    }
    generated
}

/// Removes every file.
fn removal(tree: &Tree) -> Vec<CrashOperation> {
    let files = FILES.iter().filter(|path| tree.names.contains_key(**path));
    files.map(|path| CrashOperation::Unlink { path: (*path).to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fsage_model::crash::{CrashLoad, CrashLoadSpec};

    use super::super::load::generate;
    use super::super::tree::Node;
    use super::*;

    fn words(sequence: &Sequence) -> String {
        let words: Vec<String> = sequence.operations.iter().map(ToString::to_string).collect();
        format!("{}: {}", sequence.base.join(" "), words.join("; "))
    }

    /// Does it, and fails where it cannot be done.
    fn perform(tree: &mut Tree, operation: &CrashOperation) {
        match operation {
            CrashOperation::Create { path } => assert!(!tree.names.contains_key(path), "{operation}"),
            CrashOperation::Link { from, to } => {
                assert!(tree.file(from).is_some() && !tree.names.contains_key(to), "{operation}");
            }
            CrashOperation::Rename { from, to } => {
                assert!(tree.file(from).is_some() && tree.file(from) != tree.file(to), "{operation}");
            }
            CrashOperation::FsyncDirectory { path } | CrashOperation::Mkdir { path } => {
                let there = tree.names.get(path) == Some(&Node::Directory);
                assert_eq!(there, !matches!(operation, CrashOperation::Mkdir { .. }), "{operation}");
            }
            CrashOperation::Write { path, offset_bytes, length_bytes } => {
                let size = tree.contents(path).unwrap().size_bytes;
                assert!(offset_bytes.is_multiple_of(BLOCK) && offset_bytes + length_bytes >= size);
            }
            CrashOperation::Sync => {}
            other => assert!(tree.file(other.paths().0).is_some(), "{operation}"),
        }
        tree.apply(operation);
    }

    fn is_sync(operation: &CrashOperation) -> bool {
        matches!(
            operation,
            CrashOperation::Sync | CrashOperation::Fsync { .. } | CrashOperation::FsyncDirectory { .. }
        )
    }

    #[test]
    fn all_sequences_of_one_and_two_operations_can_be_done_and_no_two_are_the_same() {
        // Those of one have seven syncs each, but for that of the file where it is gone: after an unlink, three
        // renames and three replacements.
        for (length, all, doable) in [(1, 98, 91), (2, 43_904, 0)] {
            assert_eq!(count(length), all);
            let found: Vec<Sequence> = (0..all).filter_map(|number| sequence(length, number)).collect();
            let texts: BTreeSet<String> = found.iter().map(words).collect();
            assert_eq!(texts.len(), found.len());
            assert!(doable == 0 || found.len() == doable, "{}", found.len());
            for sequence in &found {
                let mut tree = Tree::new(1);
                for path in DIRECTORIES {
                    perform(&mut tree, &CrashOperation::Mkdir { path: path.to_owned() });
                }
                for path in &sequence.base {
                    perform(&mut tree, &CrashOperation::Create { path: (*path).to_owned() });
                    let (path, length_bytes) = ((*path).to_owned(), BASE_BYTES);
                    perform(&mut tree, &CrashOperation::Write { path, offset_bytes: 0, length_bytes });
                }
                sequence.operations.iter().for_each(|operation| perform(&mut tree, operation));
                let syncs = sequence.operations.iter().filter(|operation| is_sync(operation)).count();
                assert_eq!(sequence.operations.len() - syncs, usize::try_from(length).unwrap());
                assert!(sequence.operations.last().is_some_and(is_sync), "{}", words(sequence));
            }
        }
    }

    #[test]
    fn known_bugs_are_among_them() {
        // Of xfstests: 321, 342 and 480 for files, as far as four files in two directories go.
        let wanted = [
            "A/foo: rename A/foo B/bar; fsync B/",
            "A/foo: rename A/foo A/bar; create A/foo; fsync A/foo",
            "A/foo: link A/foo B/bar; fsync A/foo",
        ];
        let all: BTreeSet<String> = (1..=2)
            .flat_map(|length| (0..count(length)).filter_map(move |number| sequence(length, number)))
            .map(|sequence| words(&sequence))
            .collect();
        for text in wanted {
            assert!(all.contains(text), "{text}");
        }
    }

    #[test]
    fn a_load_has_every_length_none_twice_and_leaves_nothing_of_one_to_the_next() {
        let spec = |size, seed| CrashLoadSpec { load: CrashLoad::Sequences, size, seed };
        let generated = generate(spec(400, 3)).unwrap();
        let mut tree = Tree::new(3);
        generated
            .base
            .iter()
            .chain(&generated.operations)
            .for_each(|operation| perform(&mut tree, operation));
        assert_eq!(generate(spec(400, 3)).unwrap().operations, generated.operations);
        assert_ne!(generate(spec(400, 4)).unwrap().operations, generated.operations);
        let mut random = Dice::new(5);
        let all = chosen(400, &mut random);
        let texts: BTreeSet<String> = all.iter().map(words).collect();
        assert_eq!((all.len(), texts.len()), (400, 400));
        let of = |length: usize| {
            let has = |sequence: &&Sequence| {
                sequence.operations.iter().filter(|operation| !is_sync(operation)).count() == length
            };
            all.iter().filter(has).count()
        };
        // Those of one are used up, the others share the rest.
        assert_eq!([of(1), of(2) + of(3)], [91, 309]);
        assert!(of(2).abs_diff(of(3)) <= 1, "{} {}", of(2), of(3));
        // A small budget has something of each.
        assert_eq!(chosen(3, &mut random).len(), 3);
        assert_eq!(chosen(2, &mut random).len(), 2);
    }

    #[test]
    fn an_order_goes_through_every_number_once() {
        let order = Order::new(1, &mut Dice::new(9));
        let all: BTreeSet<String> = order.map(|sequence| words(&sequence)).collect();
        assert_eq!(all.len(), (0..count(1)).filter_map(|number| sequence(1, number)).count());
        assert_eq!([greatest_common_divisor(12, 18), greatest_common_divisor(7, 98)], [6, 7]);
    }
}
