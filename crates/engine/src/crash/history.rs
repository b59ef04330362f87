//! The trees that a load went through, and what was promised of them when.
//!
//! Tree *k* is the tree after *k* operations. At a cut, operations that had returned are known by the marks
//! in the disk's log; one more may have begun. For every name and every file there is a *floor*: the latest
//! tree of which it was promised to be durable. After the cut it must be as in one of the trees from its
//! floor to the last that may have begun.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use fsage_model::crash::{BlockLog, CrashOperation, LoadStep, Promises, UpdateWay};

use super::tree::{Contents, Identity, Node, Tree, parent};

/// What a sync of a single file or directory is of.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// A file.
    File(Identity),
    /// A directory, by its path.
    Directory(&'a str),
}

/// A file that is replaced, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Its name.
    pub path: String,
    /// How.
    pub way: UpdateWay,
    /// Numbers of its operations.
    pub operations: std::ops::Range<usize>,
}

/// What a load did.
#[derive(Debug, Clone)]
pub struct History {
    now: Tree,
    steps: Vec<LoadStep>,
    /// Names after so many operations.
    names: Vec<BTreeMap<String, Node>>,
    /// What each file held from which tree on, in order.
    contents: BTreeMap<Identity, Vec<(usize, Contents)>>,
    updates: Vec<Update>,
    log: BlockLog,
    /// Whole syncs of other threads: how many operations they cover, and the position when they had returned.
    others: Vec<(usize, u64)>,
}

/// What was promised at a cut.
#[derive(Debug, Clone, Default)]
pub struct Floors {
    /// Of everything.
    all: usize,
    /// What the last whole sync of another thread covers: so many operations, and the position when it had returned.
    by_another: (usize, u64),
    /// Of the names in a directory.
    directories: BTreeMap<String, usize>,
    /// Of single names.
    names: BTreeMap<String, usize>,
    /// Of contents.
    files: BTreeMap<Identity, usize>,
    /// Of extended attributes, where `fsync` promises them.
    attributes: BTreeMap<Identity, usize>,
    /// The last tree that may have been made.
    pub last: usize,
    /// Operations that had returned.
    pub returned: usize,
    /// Requests of the log before the cut that are not there, or not wholly.
    pub missing: Vec<u64>,
    /// What the file system promises; nothing: everything counts alike.
    pub promises: Option<Promises>,
}

impl Floors {
    /// The floor of a name.
    pub fn name(&self, path: &str) -> usize {
        let directory = self.directories.get(parent(path)).copied().unwrap_or(0);
        self.all.max(directory).max(self.names.get(path).copied().unwrap_or(0))
    }

    /// The floor of what a file holds.
    pub fn file(&self, file: Identity) -> usize {
        self.all.max(self.synced_file(file))
    }

    /// The floor of what a file holds by syncs of the file itself.
    pub fn synced_file(&self, file: Identity) -> usize {
        self.files.get(&file).copied().unwrap_or(0)
    }

    /// Whether a whole sync of another thread came after operation `number`.
    pub const fn is_covered(&self, number: usize) -> bool {
        self.by_another.0 > number
    }

    /// The position when the sync of another thread had returned that promised tree `floor`, if one did.
    pub fn promised_by_another(&self, floor: usize) -> Option<u64> {
        let (operations, position) = self.by_another;
        (floor > 0 && operations == floor && floor == self.all).then_some(position)
    }

    /// The floor of a file's extended attribute.
    pub fn attribute(&self, file: Identity) -> usize {
        let is_promised = self.promises.is_none_or(|promises| promises.fsync_attributes);
        let synced = self.attributes.get(&file).copied().filter(|_| is_promised);
        self.all.max(synced.unwrap_or(0))
    }

    /// The floor of everything.
    pub const fn all(&self) -> usize {
        self.all
    }
}

impl History {
    /// A load that begins with a durable tree.
    pub fn new(base: Tree, updates: Vec<Update>) -> Self {
        let contents = base.files.iter().map(|(file, held)| (*file, vec![(0, held.clone())])).collect();
        Self {
            names: vec![base.names.clone()],
            contents,
            now: base,
            steps: Vec::new(),
            updates,
            log: BlockLog::default(),
            others: Vec::new(),
        }
    }

    /// The tree as it is now.
    pub const fn now(&self) -> &Tree {
        &self.now
    }

    /// Every operation with its position.
    pub fn steps(&self) -> &[LoadStep] {
        &self.steps
    }

    /// Files that are replaced.
    pub fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// What the disk's log says of the load's blocks; nothing before it was given.
    pub const fn log(&self) -> &BlockLog {
        &self.log
    }

    /// Notes what the disk's log says of the load's blocks.
    pub fn set_log(&mut self, log: BlockLog) {
        self.log = log;
    }

    /// Notes a whole sync of another thread, before which so many operations had returned.
    pub fn note_sync(&mut self, operations: usize, position: u64) {
        self.others.push((operations, position));
    }

    /// Notes an operation that has returned.
    pub fn push(&mut self, operation: &CrashOperation, position: u64) {
        let changed = self.now.apply(operation);
        self.steps.push(LoadStep { operation: operation.clone(), position });
        self.names.push(self.now.names.clone());
        if let Some(file) = changed
            && let Some(held) = self.now.files.get(&file)
        {
            self.contents.entry(file).or_default().push((self.steps.len(), held.clone()));
        }
    }

    /// What was promised when so many requests of the log were done. `fsync_names`: `fsync` of a file
    /// promises all its names too, that of a directory its name, and both those of the directories above.
    pub fn floors(&self, cut: u64, fsync_names: bool) -> Floors {
        let returned = self.steps.partition_point(|step| step.position <= cut);
        let mut floors = Floors { returned, last: (returned + 1).min(self.steps.len()), ..Floors::default() };
        for (tree, step) in (1..).zip(self.steps.get(..returned).unwrap_or_default()) {
            match &step.operation {
                CrashOperation::Sync => floors.all = tree,
                CrashOperation::FsyncDirectory { path } => {
                    floors.directories.insert(path.clone(), tree);
                    if fsync_names {
                        let changed = self.last_change(Target::Directory(path), floors.all, tree);
                        self.promise_name(path, (changed, tree), &mut floors);
                    }
                }
                CrashOperation::Fsync { path } => {
                    if let Some(file) = self.promise_file(path, tree, &mut floors) {
                        floors.attributes.insert(file, tree);
                    }
                    if fsync_names {
                        self.promise_names(path, tree, &mut floors);
                    }
                }
                // The unnamed file was synced before it got its name.
                CrashOperation::Fdatasync { path } | CrashOperation::LinkUnnamed { path, .. } => {
                    self.promise_file(path, tree, &mut floors);
                }
                _ => {}
            }
        }
        let others = self.others.iter().filter(|(_, position)| *position <= cut);
        floors.by_another = others
            .copied()
            .max_by_key(|(operations, position)| (*operations, Reverse(*position)))
            .unwrap_or_default();
        floors.all = floors.all.max(floors.by_another.0);
        // An operation may have returned, and its mark not been made before the cut.
        floors.last = floors.last.max(floors.all);
        floors
    }

    /// All names of a file.
    fn promise_names(&self, path: &str, tree: usize, floors: &mut Floors) {
        let Some(names) = self.names.get(tree) else { return };
        let Some(Node::File(file)) = names.get(path) else { return };
        let changed = self.last_change(Target::File(*file), floors.all, tree);
        for (name, _) in names.iter().filter(|(_, other)| **other == Node::File(*file)) {
            self.promise_name(name, (changed, tree), floors);
        }
    }

    /// A name and those of the directories above it, as far as they were what they are since what was synced was
    /// changed last: a sync writes what led to that change, and nothing later.
    fn promise_name(&self, path: &str, (changed, tree): (usize, usize), floors: &mut Floors) {
        let mut name = path;
        while !name.is_empty() {
            if self.nodes(name, changed, tree).len() == 1 {
                floors.names.insert(name.to_owned(), tree);
            }
            name = parent(name);
        }
    }

    /// The first tree with the last change of something, not before the tree `from`.
    fn last_change(&self, target: Target<'_>, from: usize, tree: usize) -> usize {
        (from..tree).rev().find(|number| self.is_changed(target, *number)).map_or(from, |number| number + 1)
    }

    /// Whether operation `number` changed something: the inode, not only its path.
    pub fn is_changed(&self, target: Target<'_>, number: usize) -> bool {
        let Some(LoadStep { operation, .. }) = self.steps.get(number) else { return false };
        if matches!(
            operation,
            CrashOperation::Sync
                | CrashOperation::WriteOut { .. }
                | CrashOperation::Fsync { .. }
                | CrashOperation::Fdatasync { .. }
                | CrashOperation::FsyncDirectory { .. }
        ) {
            return false;
        }
        let at = |tree: usize, path: &str| self.names.get(tree)?.get(path).copied();
        let (path, other) = operation.paths();
        [Some(path), other].into_iter().flatten().any(|path| match target {
            Target::File(file) => {
                [number, number + 1].iter().any(|tree| at(*tree, path) == Some(Node::File(file)))
            }
            Target::Directory(directory) => {
                let has_names = self.names.get(number) != self.names.get(number + 1);
                has_names && (path == directory || parent(path) == directory)
            }
        })
    }

    /// The file of a name, whose contents are promised.
    fn promise_file(&self, path: &str, tree: usize, floors: &mut Floors) -> Option<Identity> {
        let Some(Node::File(file)) = self.names.get(tree)?.get(path) else { return None };
        floors.files.insert(*file, tree);
        Some(*file)
    }

    /// Names after so many operations.
    pub fn names(&self, tree: usize) -> Option<&BTreeMap<String, Node>> {
        self.names.get(tree)
    }

    /// The names of a file after so many operations.
    pub fn names_of(&self, file: Identity, tree: usize) -> BTreeSet<&str> {
        let names = self.names.get(tree).into_iter().flatten();
        names.filter(|(_, node)| **node == Node::File(file)).map(|(name, _)| name.as_str()).collect()
    }

    /// What a name led to from one tree to another, each once; `None`: nothing.
    pub fn nodes(&self, path: &str, from: usize, to: usize) -> Vec<Option<Node>> {
        let mut nodes = Vec::new();
        for names in self.names.get(from.min(to)..=to).unwrap_or_default() {
            let node = names.get(path).copied();
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }

    /// What a file held from one tree to another, the oldest first.
    pub fn held(&self, file: Identity, from: usize, to: usize) -> Vec<&Contents> {
        let all = self.contents.get(&file).map(Vec::as_slice).unwrap_or_default();
        let begin = all.partition_point(|(tree, _)| *tree <= from).saturating_sub(1);
        let held = all.get(begin..).unwrap_or_default().iter();
        held.take_while(|(tree, _)| *tree <= to).map(|(_, contents)| contents).collect()
    }

    /// Whether a file ever existed.
    pub fn knows(&self, file: Identity) -> bool {
        self.contents.contains_key(&file)
    }

    /// Every name that there was from one tree to another.
    pub fn all_names(&self, from: usize, to: usize) -> BTreeSet<&str> {
        let names = self.names.get(from..=to).unwrap_or_default().iter();
        names.flat_map(BTreeMap::keys).map(String::as_str).collect()
    }
}
