//! Short sequences of operations, all of them: bounded black-box testing (Mohan, Martinez, Ponnapalli, Raju and
//! Chidambaram, *Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing*, OSDI 2018).
//!
//! A sequence is one to three operations on six files and two directories, each followed by nothing, `syncfs`, or
//! `fsync` of a file or a directory; the last is followed by one of these. `A` and `B` are always there; each has two
//! files, and may have a directory `C` with one. What a sequence needs to begin with is made and synced before it, what
//! it leaves is removed after it, so that a load may have many of them in one log. `A` and `B` may change places
//! without changing anything, and so may `foo` and `bar`, so the first operation is always about `A/foo`, `A/C/foo`
//! or `A/C`.
//!
//! Every sequence of a length has a number. A load goes through the numbers of each length in an order of its own
//! (a seeded affine permutation), taking the lengths in turn until its budget is used, so that no load has a
//! sequence twice and any budget has something of each length. Numbers of what cannot be done (a link to a name that
//! is there) are skipped.
//!
//! **Bounds.** Only `C` is made, renamed and removed, only files have an extended attribute, and there are no holes,
//! mapped or direct writes.

use fsage_model::crash::CrashOperation;

use super::generated::{Dice, Generated};
use super::tree::{BLOCK, Tree};

/// The files. The last two are in the directories of the same place in [`MOVED`].
const FILES: [&str; 6] = ["A/foo", "A/bar", "B/foo", "B/bar", "A/C/foo", "B/C/foo"];

/// Files that are in no directory that may be missing.
const OUTER: usize = 4;

/// Directories that are made, renamed and removed.
const MOVED: [&str; 2] = ["A/C", "B/C"];

/// Directories that are synced; the first two are always there.
const DIRECTORIES: [&str; 4] = ["A", "B", MOVED[0], MOVED[1]];

/// Operations of the longest sequence.
const LONGEST: u32 = 3;

/// What a file holds that is there before a sequence: two blocks.
const BASE_BYTES: u64 = 2 * BLOCK;

/// Operations of one file, then those of two, each with the other five files in its place.
const OF_ONE: u64 = 7;
const OF_TWO: u64 = 3;
const OTHERS: u64 = 5;
const OF_FILE: u64 = OF_ONE + OTHERS * OF_TWO;

/// Operations of a directory: made, removed, renamed to a free name and over another one.
const OF_DIRECTORY: u64 = 4;

/// Operations that a sequence may begin with, and those that may follow.
const FIRST: u64 = 2 * OF_FILE + OF_DIRECTORY;
const LATER: u64 = 6 * OF_FILE + 2 * OF_DIRECTORY;

/// What may follow an operation: nothing, `syncfs`, or `fsync` of a file or directory.
const SYNCS: u64 = 2 + 6 + 4;

/// What an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// A file, by its place.
    File(usize),
    /// A directory, by its place.
    Directory(usize),
}

/// An operation and what follows it, by the numbers that stand for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    subject: Subject,
    kind: u64,
    sync: u64,
}

impl Step {
    /// `operation` is below [`LATER`]. Those of files come first.
    fn new(operation: u64, sync: u64) -> Self {
        let directories = operation.checked_sub(6 * OF_FILE);
        let (subject, kind) = match directories {
            None => (Subject::File(index(operation / OF_FILE)), operation % OF_FILE),
            Some(operation) => {
                (Subject::Directory(index(operation / OF_DIRECTORY)), operation % OF_DIRECTORY)
            }
        };
        Self { subject, kind, sync }
    }

    /// `operation` is below [`FIRST`].
    fn first(operation: u64, sync: u64) -> Self {
        let place = match operation / OF_FILE {
            0 => 0,
            1 => 4 * OF_FILE,
            _ => 6 * OF_FILE,
        };
        Self::new(place + operation % OF_FILE, sync)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// How many sequences of this length there are, those that cannot be done among them.
pub(super) fn count(length: u32) -> u64 {
    FIRST * (SYNCS - 1) * (LATER * SYNCS).pow(length.saturating_sub(1))
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
        let operation = take(if place == 1 { FIRST } else { LATER });
        let sync = if place == length { 1 + take(SYNCS - 1) } else { take(SYNCS) };
        steps.push(if place == 1 { Step::first(operation, sync) } else { Step::new(operation, sync) });
    }
    steps
}

/// A sequence: what makes its beginning, and what it does. `None` where that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Files and directories that are there before, a directory before its file.
    pub base: Vec<&'static str>,
    /// Operations with their syncs.
    pub operations: Vec<CrashOperation>,
}

/// A file of a sequence.
#[derive(Debug, Clone, Copy)]
struct File {
    size: u64,
    has_attribute: bool,
}

/// Which files and directories there are, as far as a sequence has asked for them.
#[derive(Debug, Default)]
struct Names {
    /// The file that a name leads to, or that it leads to none; `None`: nobody asked yet.
    now: [Option<Option<usize>>; 6],
    /// Whether a directory is there, likewise.
    directories: [Option<bool>; 2],
    files: Vec<File>,
    base: Vec<&'static str>,
}

impl Names {
    /// Whether the directory of a file is there, as it has to be; it was there before if nobody asked yet.
    fn has_directory(&mut self, name: usize) -> bool {
        name.checked_sub(OUTER).is_none_or(|directory| self.is_directory(directory))
    }

    fn is_directory(&mut self, directory: usize) -> bool {
        *self.directories[directory].get_or_insert_with(|| {
            self.base.push(MOVED[directory]);
            true
        })
    }

    /// The file of a name that has to be there; it was there before if nobody asked yet, with an attribute.
    fn there(&mut self, name: usize) -> Option<usize> {
        if !self.has_directory(name) {
            return None;
        }
        *self.now[name].get_or_insert_with(|| {
            self.base.push(FILES[name]);
            self.files.push(File { size: BASE_BYTES, has_attribute: true });
            Some(self.files.len() - 1)
        })
    }

    /// Whether a name is free, as it has to be.
    fn free(&mut self, name: usize) -> bool {
        self.has_directory(name) && self.now[name].get_or_insert(None).is_none()
    }

    fn step(&mut self, Step { subject, kind, .. }: Step) -> Option<CrashOperation> {
        match subject {
            Subject::Directory(directory) => self.directory(directory, kind),
            Subject::File(file) if kind >= OF_ONE => self.pair(file, kind - OF_ONE),
            Subject::File(file) if kind == 0 => self.create(file),
            Subject::File(file) => self.file(file, kind),
        }
    }

    fn create(&mut self, file: usize) -> Option<CrashOperation> {
        self.free(file).then(|| {
            self.files.push(File { size: 0, has_attribute: false });
            self.now[file] = Some(Some(self.files.len() - 1));
            CrashOperation::Create { path: FILES[file].to_owned() }
        })
    }

    /// An operation on one file that is there.
    fn file(&mut self, file: usize, kind: u64) -> Option<CrashOperation> {
        let path = FILES[file].to_owned();
        let File { size, has_attribute } = self.there(file).and_then(|known| self.files.get_mut(known))?;
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
            4 => {
                *has_attribute = true;
                CrashOperation::SetAttribute { path }
            }
            5 => std::mem::take(has_attribute).then_some(CrashOperation::RemoveAttribute { path })?,
            _ => {
                self.now[file] = Some(None);
                CrashOperation::Unlink { path }
            }
        })
    }

    /// A link, a rename to a free name, or one over another file.
    fn pair(&mut self, file: usize, kind: u64) -> Option<CrashOperation> {
        let other = (file + 1 + index(kind % OTHERS)) % FILES.len();
        let (from, to) = (FILES[file].to_owned(), FILES[other].to_owned());
        let identity = self.there(file)?;
        let is_over = kind / OTHERS == 2;
        if is_over {
            // Onto another name of the same file nothing would happen.
            self.there(other).filter(|known| *known != identity)?;
        } else if !self.free(other) {
            return None;
        }
        self.now[other] = Some(Some(identity));
        if kind / OTHERS == 0 {
            return Some(CrashOperation::Link { from, to });
        }
        self.now[file] = Some(None);
        Some(CrashOperation::Rename { from, to })
    }

    /// Makes, removes or renames a directory. One that is renamed has a file in it, unless it was made empty.
    fn directory(&mut self, directory: usize, kind: u64) -> Option<CrashOperation> {
        let (path, file) = (MOVED[directory].to_owned(), OUTER + directory);
        if kind == 0 {
            let is_free = !*self.directories[directory].get_or_insert(false);
            (self.directories[directory], self.now[file]) = (Some(true), Some(None));
            return is_free.then_some(CrashOperation::Mkdir { path });
        }
        if !self.is_directory(directory) {
            return None;
        }
        self.directories[directory] = Some(false);
        if kind == 1 {
            let is_empty = self.now[file].get_or_insert(None).is_none();
            return is_empty.then_some(CrashOperation::Rmdir { path });
        }
        self.directories[directory] = Some(true);
        self.there(file);
        self.rename_directory(directory, kind == 3)
    }

    /// Renames it to the other name: a free one, or over an empty directory.
    fn rename_directory(&mut self, directory: usize, is_over: bool) -> Option<CrashOperation> {
        let other = 1 - directory;
        let is_fine = if is_over {
            self.is_directory(other) && self.now[OUTER + other].get_or_insert(None).is_none()
        } else {
            !*self.directories[other].get_or_insert(false)
        };
        self.directories[directory] = Some(false);
        self.directories[other] = Some(true);
        self.now[OUTER + other] = self.now[OUTER + directory].replace(None);
        let (from, to) = (MOVED[directory].to_owned(), MOVED[other].to_owned());
        is_fine.then_some(CrashOperation::Rename { from, to })
    }

    /// What follows an operation; `None` where it cannot be done, and within it where nothing does.
    fn sync(&mut self, sync: u64) -> Option<Option<CrashOperation>> {
        let number = index(sync);
        Some(match number {
            0 => None,
            1 => Some(CrashOperation::Sync),
            2..8 => {
                self.there(number - 2)?;
                Some(CrashOperation::Fsync { path: FILES[number - 2].to_owned() })
            }
            _ => {
                let directory = number - 8;
                let is_there = directory.checked_sub(2).is_none_or(|directory| self.is_directory(directory));
                let path = DIRECTORIES[directory].to_owned();
                Some(is_there.then_some(CrashOperation::FsyncDirectory { path })?)
            }
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
    let mut base: Vec<CrashOperation> = ["A", "B"].map(|path| make(path).remove(0)).to_vec();
    base.push(CrashOperation::Sync);
    let mut generated =
        Generated { root: String::new(), seed, base, operations: Vec::new(), updates: Vec::new() };
    let mut tree = generated.tree();
    for sequence in chosen(usize::try_from(size).unwrap_or(usize::MAX), random) {
        let mut operations = removal(&tree);
        operations.extend(sequence.base.iter().flat_map(|path| make(path)));
        operations.push(CrashOperation::Sync);
        operations.extend(sequence.operations);
        for operation in &operations {
            tree.apply(operation);
        }
        generated.operations.extend(operations);
    }
    generated
}

/// Makes a directory, or a file with contents and an attribute.
fn make(path: &str) -> Vec<CrashOperation> {
    let path = path.to_owned();
    if !FILES.contains(&path.as_str()) {
        return vec![CrashOperation::Mkdir { path }];
    }
    vec![
        CrashOperation::Create { path: path.clone() },
        CrashOperation::Write { path: path.clone(), offset_bytes: 0, length_bytes: BASE_BYTES },
        CrashOperation::SetAttribute { path },
    ]
}

/// Removes every file, then the directories that may be missing.
fn removal(tree: &Tree) -> Vec<CrashOperation> {
    let there = |path: &&&str| tree.names.contains_key(**path);
    let files = FILES.iter().filter(there).map(|path| CrashOperation::Unlink { path: (*path).to_owned() });
    let directories = MOVED.iter().filter(there);
    let directories = directories.map(|path| CrashOperation::Rmdir { path: (*path).to_owned() });
    files.chain(directories).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fsage_model::crash::{CrashLoad, CrashLoadSpec};

    use super::super::load::generate;
    use super::super::tree::{Node, parent};
    use super::*;

    /// Sequences of one operation that can be done.
    const DOABLE: usize = 499;

    fn words(sequence: &Sequence) -> String {
        let words: Vec<String> = sequence.operations.iter().map(ToString::to_string).collect();
        format!("{}: {}", sequence.base.join(" "), words.join("; "))
    }

    fn is_free(tree: &Tree, path: &str) -> bool {
        let directory = parent(path);
        !tree.names.contains_key(path) && tree.names.get(directory) == Some(&Node::Directory)
    }

    /// Whether a directory has nothing in it, or is not there.
    fn is_empty(tree: &Tree, path: &str) -> bool {
        tree.file(path).is_none() && !tree.names.keys().any(|name| parent(name) == path)
    }

    /// Does it, and fails where it cannot be done.
    fn perform(tree: &mut Tree, operation: &CrashOperation) {
        match operation {
            CrashOperation::Create { path } => assert!(is_free(tree, path), "{operation}"),
            CrashOperation::Link { from, to } => {
                assert!(tree.file(from).is_some() && is_free(tree, to), "{operation}");
            }
            CrashOperation::Rename { from, to } => match tree.names.get(from) {
                Some(Node::File(file)) => assert!(tree.file(to) != Some(*file), "{operation}"),
                Some(Node::Directory) => assert!(is_empty(tree, to), "{operation}"),
                None => panic!("{operation}"),
            },
            CrashOperation::Rmdir { path } => assert!(is_empty(tree, path), "{operation}"),
            CrashOperation::RemoveAttribute { path } => {
                assert!(tree.contents(path).unwrap().attribute > 0, "{operation}");
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
        // Those of one have eleven syncs each, but for those of what is gone: of a file after an unlink, five renames
        // and five replacements; of a directory and of the file in it.
        for (length, all, doable, every) in [(1, 528, DOABLE, 1), (2, 887_040, 0, 7)] {
            assert_eq!(count(length), all);
            let numbers = (0..all).step_by(every);
            let found: Vec<Sequence> = numbers.filter_map(|number| sequence(length, number)).collect();
            let texts: BTreeSet<String> = found.iter().map(words).collect();
            assert_eq!(texts.len(), found.len());
            assert!(doable == 0 || found.len() == doable, "{}", found.len());
            for sequence in &found {
                let mut tree = Tree::new(1);
                let before = ["A", "B"].iter().chain(&sequence.base).flat_map(|path| make(path));
                before.for_each(|operation| perform(&mut tree, &operation));
                sequence.operations.iter().for_each(|operation| perform(&mut tree, operation));
                let syncs = sequence.operations.iter().filter(|operation| is_sync(operation)).count();
                assert_eq!(sequence.operations.len() - syncs, usize::try_from(length).unwrap());
                assert!(sequence.operations.last().is_some_and(is_sync), "{}", words(sequence));
            }
        }
    }

    #[test]
    fn known_bugs_are_among_them() {
        // Of xfstests: 321, 342 and 480 for files, 066 for attributes; 4 and 10 of Mohan et al. for a renamed directory,
        // as far as these files and directories go.
        let mut wanted = BTreeSet::from([
            "A/foo: rename A/foo B/bar; fsync B/",
            "A/foo: rename A/foo A/bar; create A/foo; fsync A/foo",
            "A/foo: link A/foo B/bar; fsync A/foo",
            "A/foo: removexattr A/foo; fsync A/foo",
            "A/C A/C/foo: rename A/C B/C; write B/C/foo 0+8192; fsync B/C/foo",
            "A/C A/C/foo: rename A/C B/C; mkdir A/C; fsync A/C/",
        ]);
        for length in 1..=2 {
            for sequence in (0..count(length)).filter_map(|number| sequence(length, number)) {
                // Most are recognised by what they begin with.
                if sequence.operations.len() <= 3 {
                    wanted.remove(words(&sequence).as_str());
                }
            }
        }
        assert_eq!(wanted, BTreeSet::new());
    }

    #[test]
    fn a_load_has_every_length_none_twice_and_leaves_nothing_of_one_to_the_next() {
        let spec = |size, seed| CrashLoadSpec { load: CrashLoad::Sequences, size, seed, threads: 1 };
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
        let all = chosen(1600, &mut random);
        let texts: BTreeSet<String> = all.iter().map(words).collect();
        assert_eq!((all.len(), texts.len()), (1600, 1600));
        let of = |length: usize| {
            let has = |sequence: &&Sequence| {
                sequence.operations.iter().filter(|operation| !is_sync(operation)).count() == length
            };
            all.iter().filter(has).count()
        };
        // Those of one are used up, the others share the rest.
        assert_eq!([of(1), of(2) + of(3)], [DOABLE, 1600 - DOABLE]);
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
