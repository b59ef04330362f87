//! From paths and byte ranges to numbers and whole blocks.
//!
//! The mapper follows the tree that the recording works on and gives out rows of a trace. In the first
//! reading it gives out none, but finds what must have been there before ([`Need`]); the second one is reported.
//! Both take the same way through the same lines, so that numbers agree: everything that was there before is
//! numbered by when it is first met.
//!
//! What is not known at first: how large a file is that was there before. It is as large as what is read of
//! it or written inside it, or as a `stat` says, until the recording itself settles its size.

mod name;
mod range;
pub(super) mod tree;

use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use fsage_model::operation::{Action, DirectoryEntry, Operation, Outcome};

use crate::trace::Record;
use crate::tree::Directory;
use tree::{Node, Slab};

/// Rows that are handed over at once.
const BATCH: usize = 4096;

/// Highest directory number that a trace may have (`trace/reader.rs`).
const DIRECTORY_LIMIT: u32 = 1 << 21;

/// A file that is met and not known: what the second reading has to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    file: u64,
    place: DirectoryEntry,
    /// Bytes it must have.
    size: u64,
    /// It was there before; else it was made when it was first met.
    existed: bool,
    /// Its directory was made by the recording, so it cannot be in the prelude: somebody made it unseen.
    unseen: bool,
}

/// A file of the recording.
#[derive(Debug)]
struct Object {
    file: u64,
    size: u64,
    version: u32,
    /// Its names.
    places: Vec<DirectoryEntry>,
    /// Descriptors that are open on it.
    opens: u32,
    /// The recording has settled its size.
    exact: bool,
    /// It was appended to while its size was not settled.
    appended: bool,
    /// Its place among the needs.
    need: Option<usize>,
}

/// Why an operation cannot be one of ours.
pub type Reason = &'static str;

/// How something is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenFlags {
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
    pub directory: bool,
    pub no_follow: bool,
}

/// What was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A file, by its number within the mapper.
    File(u32),
    /// A directory.
    Directory,
}

/// Follows a recording.
#[derive(Debug)]
pub struct Mapper<'a> {
    below: Option<Arc<[u8]>>,
    nodes: Slab<Node>,
    objects: Slab<Object>,
    /// What the first reading found; nothing during it.
    known: Option<&'a [Need]>,
    needs: Vec<Need>,
    /// Files met that were not known.
    met: usize,
    initial: Vec<Directory>,
    next_file: u64,
    next_name: u64,
    next_directory: u32,
    free_directories: Vec<u32>,
    /// Of directories out of which others were moved, which stay inside them in our tree: how many.
    held: HashMap<u32, u32>,
    rows: Vec<Record>,
    start_ns: u64,
    latency_ns: u64,
    left_out: BTreeMap<Reason, u64>,
    changed: BTreeMap<Reason, u64>,
}

impl<'a> Mapper<'a> {
    /// A mapper of what lies below `below`; for the second reading, with what the first one found.
    pub fn new(below: Option<&Path>, known: Option<&'a [Need]>) -> Self {
        let mut nodes = Slab::default();
        nodes.insert(Node::top());
        Self {
            below: below.map(|path| path.as_os_str().as_bytes().into()),
            nodes,
            objects: Slab::default(),
            known,
            needs: Vec::new(),
            met: 0,
            initial: Vec::new(),
            next_file: 1,
            next_name: 1,
            next_directory: 1,
            free_directories: Vec::new(),
            held: HashMap::new(),
            rows: Vec::new(),
            start_ns: 0,
            latency_ns: 0,
            left_out: BTreeMap::new(),
            changed: BTreeMap::new(),
        }
    }

    /// What the first reading found, with the directories that were there before, parents first.
    pub fn into_needs(self) -> (Vec<Need>, Vec<Directory>) {
        (self.needs, self.initial)
    }

    /// Rows that make the files that were there before.
    pub fn prelude(&self) -> Vec<Record> {
        let before = self.known.unwrap_or_default().iter().filter(|need| need.existed && !need.unseen);
        before.map(|need| self.record(create(need.file, need.place, need.size), 0, 0)).collect()
    }

    /// When the next operations started, in nanoseconds since the recording began, and how long each took.
    pub const fn at(&mut self, start_ns: u64, latency_ns: u64) {
        self.start_ns = start_ns;
        self.latency_ns = latency_ns;
    }

    /// Counts something that is in no row.
    pub fn left_out(&mut self, reason: Reason) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    /// Counts something that is in a row, but not as it was.
    pub fn changed(&mut self, reason: Reason) {
        *self.changed.entry(reason).or_default() += 1;
    }

    /// What was left out and what was changed, by reason.
    pub fn counts(&self) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
        let owned = |counts: &BTreeMap<Reason, u64>| {
            counts.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
        };
        (owned(&self.left_out), owned(&self.changed))
    }

    /// Whether there are rows enough to be handed over.
    pub const fn ready(&self) -> bool {
        self.rows.len() >= BATCH
    }

    /// The rows since the last time.
    pub fn drain(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.rows)
    }

    /// Does something that may have a reason not to be possible, which is counted.
    pub fn try_do(&mut self, done: impl FnOnce(&mut Self) -> Result<(), Reason>) {
        if let Err(reason) = done(self) {
            self.left_out(reason);
        }
    }

    fn record(&self, operation: Operation, start_ns: u64, latency_ns: u64) -> Record {
        // The place in the sequence is given when it is written.
        Record { thread: 0, sequence: 0, operation, outcome: Outcome { errno: 0, latency_ns }, start_ns }
    }

    fn emit(&mut self, operation: Operation) {
        if self.known.is_some() {
            let record = self.record(operation, self.start_ns, self.latency_ns);
            self.rows.push(record);
        }
    }

    /// The first reading is under way.
    const fn surveys(&self) -> bool {
        self.known.is_none()
    }

    /// One more descriptor is open on a file.
    pub fn retain(&mut self, object: u32) {
        if let Some(object) = self.objects.get_mut(object) {
            object.opens += 1;
        }
    }

    /// One descriptor less.
    pub fn release(&mut self, number: u32) {
        if let Some(object) = self.objects.get_mut(number) {
            object.opens = object.opens.saturating_sub(1);
        }
        self.forget(number);
    }

    /// Forgets a file that nothing leads to any more.
    fn forget(&mut self, number: u32) {
        if self.objects.get(number).is_some_and(|object| object.opens == 0 && object.places.is_empty()) {
            self.objects.remove(number);
        }
    }
}

/// Makes a file of `length` bytes.
const fn create(file: u64, place: DirectoryEntry, length: u64) -> Operation {
    Operation { version: 1, ..plain(Action::Create { length }, file, place) }
}

const fn plain(action: Action, file: u64, place: DirectoryEntry) -> Operation {
    Operation { action, file, place, size: 0, version: 0 }
}
