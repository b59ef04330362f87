//! Workloads: pure, seeded generators of operations.
//!
//! A workload sees a model of the tree and the outcome of earlier operations, never the file system. Each
//! thread has its own workload over its own part of the tree, so the final logical state does not depend
//! on how threads interleave.
//!
//! What an operation may assume and must leave:
//! - Calls alternate: [`Workload::next`], the operation, [`Workload::completed`]. The model changes in
//!   `completed`, and only on success; so an operation that fails halfway must leave names and sizes as they
//!   were (a failed create leaves no file, a failed append the old size). Blocks that it wrote may stay:
//!   their version is one that no later check takes for wrong.
//! - Data is made of whole blocks of the content crate: `append` writes from the last block boundary
//!   (`offset = size & !4095`, `length` counts from there); random writes and overwrites cover whole blocks,
//!   and an access that reaches beyond `size` is cut there. Every block carries the version of the operation
//!   that wrote it last, at most [`LiveFile::version`] and at least 1.
//! - `delete` unlinks `place`, which may be a file, one of its hard links or a symbolic link to it.

mod digest;
mod drift;
mod fsfb;
mod git;
mod histogram;
mod history;
mod interleaved_append;
mod mail;
mod mobile;
mod model;
mod population;
mod room;
#[cfg(test)]
mod simulated;
mod snapshots;

pub(crate) use digest::TreeDigest;
pub use drift::Drift;
pub use fsfb::Fsfb;
pub use git::Git;
pub use histogram::Histogram;
pub use interleaved_append::InterleavedAppend;
pub use mail::Mail;
pub use mobile::Mobile;
pub(crate) use model::Model;
pub use snapshots::Snapshots;

use fsage_model::digest::Digest;
use fsage_model::load::WriteMode;
use fsage_model::operation::{DirectoryEntry, Operation, Outcome};
use fsage_model::workload::WorkloadError;
use fsage_model::workload::WorkloadSpec;

use self::population::Population;
use crate::tree::{Directory, Shape};

/// What a workload may know of the volume; refreshed by the executor now and then.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Feedback {
    /// Share of the volume in use (0..=1), estimated between two reads of `statfs`.
    pub used_share: f64,
    /// Size of the volume in bytes.
    pub total_bytes: u64,
    /// With a profile: share of the files made that are to grow in pieces (0..=1). Changes only while the
    /// load stands.
    pub grow_share: f64,
}

/// A seeded generator of operations over one thread's part of the tree.
pub trait Workload: Send {
    /// The next operation, or nothing when the pick found no object to work on (a miss: not an
    /// operation). Cost matters: called once an operation, must not allocate.
    fn next(&mut self, feedback: &Feedback) -> Option<Operation>;

    /// A delete of a random live file, for upkeep (`Maintain`, and getting out of a full volume); nothing
    /// when no file is left. Its outcome comes through [`Workload::completed`] as any other's. It is not
    /// counted as an operation of the load.
    fn release(&mut self) -> Option<Operation> {
        None
    }

    /// Tells how the operation went; the model changes only on success.
    fn completed(&mut self, operation: &Operation, outcome: &Outcome);

    /// Whether the operation last given is upkeep: a `delete` that only makes room, counted apart from the
    /// mix.
    fn is_upkeep(&self) -> bool {
        false
    }

    /// Whether no operation is possible any more whatever is picked (only creates have a weight and every
    /// slot is live, say). Look after a run of misses; not for every operation.
    fn is_stuck(&self) -> bool {
        false
    }

    /// Which part of the work the next operation belongs to. It changes only in a [`Workload::next`] that
    /// gives nothing, which is then no miss: anyone who drives the workload may write everything out and
    /// inspect the volume there.
    fn part(&self) -> Part {
        Part::default()
    }

    /// Whether all is done that there was to do; `next` gives nothing any more.
    fn is_finished(&self) -> bool {
        false
    }
}

/// A part of what a workload does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// Rounds that were begun: 0 while the volume is filled, and always where a workload has no rounds.
    pub round: u64,
    /// It only makes room; else it is what the round's cost of writing is measured by.
    pub makes_room: bool,
}

/// What a description is resolved against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolveContext {
    /// Size of the volume; 0 when unknown, then nothing is checked against it.
    pub volume_bytes: u64,
    /// How data is written: direct mode has sizes in whole blocks only.
    pub write_mode: WriteMode,
}

/// A live file of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LiveFile {
    /// Identity of its content.
    pub file: u64,
    /// Its (first) name.
    pub place: DirectoryEntry,
    /// Bytes.
    pub size: u64,
    /// Version of the newest data; blocks carry it or an earlier one.
    pub version: u32,
    /// Names in all: 1 + hard links.
    pub links: u32,
}

/// A hard link of the model: one more name of a live file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HardLink {
    /// Identity of the file's content.
    pub file: u64,
    /// The name.
    pub place: DirectoryEntry,
}

/// A symbolic link of the model. It may dangle: renaming its target does not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symlink {
    /// The link's own name.
    pub place: DirectoryEntry,
    /// Where it points: the target's name when the link was made.
    pub target: DirectoryEntry,
}

/// What an earlier load left of a thread's tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftTree {
    /// Directories but the top, parents first.
    pub directories: Vec<Directory>,
    /// Files, by the number of their names. None has a second name.
    pub files: Vec<LiveFile>,
}

/// Makes the registry: enum dispatch for the hot loop. `drift` keeps a leaner model of its own, the others
/// have a population.
macro_rules! workloads {
    ($($Name:ident),+ $(,)?) => {
        /// Any workload.
        pub enum AnyWorkload {
            /// [`Drift`].
            Drift(Box<Drift>),
            $(#[doc = concat!("[`", stringify!($Name), "`].")] $Name(Box<$Name>),)+
        }

        /// Turns a description into the workload of thread `thread` (0-based) of `threads`. Same arguments,
        /// same operations.
        ///
        /// # Errors
        /// The description is invalid; the error names the key and its limit.
        pub fn resolve(
            spec: &WorkloadSpec,
            thread: u32,
            threads: u32,
            seed: u64,
            context: &ResolveContext,
        ) -> Result<AnyWorkload, WorkloadError> {
            Ok(match spec {
                WorkloadSpec::Drift(spec) => {
                    AnyWorkload::Drift(Box::new(Drift::resolve(spec, thread, threads, seed, context)?))
                }
                $(WorkloadSpec::$Name(spec) => {
                    AnyWorkload::$Name(Box::new($Name::resolve(spec, thread, threads, seed, context)?))
                })+
            })
        }

        impl AnyWorkload {
            /// The files of a workload that keeps them in a population.
            ///
            /// # Panics
            /// Of `drift`, which the macro `tree` does not ask.
            fn population(&self) -> &Population {
                match self {
                    Self::Drift(_) => unreachable!("drift has a model of its own"),
                    $(Self::$Name(it) => it.population(),)+
                }
            }
        }

        macro_rules! dispatch {
            ($self:ident, $inner:ident => $call:expr) => {
                match $self {
                    AnyWorkload::Drift($inner) => $call,
                    $(AnyWorkload::$Name($inner) => $call,)+
                }
            };
        }
    };
}

// Every workload beside `drift`, a name each.
workloads!(Fsfb, Mobile, InterleavedAppend, Mail, Histogram, Git, Snapshots);

/// What is not asked once an operation: `drift` keeps a leaner model of its own, the others have a
/// population.
macro_rules! tree {
    ($self:ident, $drift:ident => $own:expr, $population:ident => $call:expr) => {
        match $self {
            AnyWorkload::Drift($drift) => $own,
            other => {
                let $population: &Population = other.population();
                $call
            }
        }
    };
}

impl AnyWorkload {
    /// Begins with what an earlier load left instead of nothing: only `drift` can.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn adopt(&mut self, tree: &LeftTree) -> Result<(), String> {
        match self {
            Self::Drift(drift) => drift.adopt(tree),
            _ => Err("only `drift` can continue with the files of an earlier load".to_owned()),
        }
    }

    /// Directories to make before the first operation, parents first, without the thread's top directory
    /// (number 0), which must be made too.
    #[must_use]
    pub fn initial_directories(&self) -> Vec<Directory> {
        tree!(self, drift => drift.initial_directories(), files => files.initial_directories())
    }

    /// Directories there are now, by number, without the top.
    pub fn directories(&self) -> Box<dyn Iterator<Item = Directory> + '_> {
        tree!(self, drift => Box::new(drift.directories()), files => Box::new(files.model().directories()))
    }

    /// Live files, each once whatever its links.
    pub fn live_files(&self) -> Box<dyn Iterator<Item = LiveFile> + '_> {
        tree!(self, drift => Box::new(drift.live_files()), files => Box::new(files.model().live_files()))
    }

    /// Hard links: names beyond the first.
    pub fn hard_links(&self) -> Box<dyn Iterator<Item = HardLink> + '_> {
        tree!(self, drift => Box::new(drift.hard_links()), files => Box::new(files.model().hard_links()))
    }

    /// Symbolic links.
    pub fn symlinks(&self) -> Box<dyn Iterator<Item = Symlink> + '_> {
        tree!(self, drift => Box::new(drift.symlinks()), files => Box::new(files.model().symlinks()))
    }

    /// Live files (cheap).
    #[must_use]
    pub fn files(&self) -> u64 {
        tree!(self, drift => drift.files(), files => files.model().files())
    }

    /// Sum of the live files' sizes (a walk over all files).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.live_files().map(|file| file.size).sum()
    }

    /// Bytes of the live files in whole 4 KiB blocks, space reserved by `fallocate` included (cheap).
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        tree!(self, drift => drift.live_bytes(), files => files.model().block_bytes())
    }

    /// Digest of the thread's logical tree: directories, files with place, size, content and version, links.
    /// The load's is the [`Digest::merge`] of all threads'. A walk over everything.
    #[must_use]
    pub fn digest(&self) -> Digest {
        tree!(self, drift => drift.digest(), files => files.model().digest())
    }

    /// The shape the thread's tree must have on disk ([`crate::tree::walk`]). A walk over everything.
    #[must_use]
    pub fn shape(&self) -> Shape {
        tree!(self, drift => drift.shape(), files => files.model().shape())
    }
}

impl Workload for AnyWorkload {
    #[inline]
    fn next(&mut self, feedback: &Feedback) -> Option<Operation> {
        dispatch!(self, inner => inner.next(feedback))
    }

    #[inline]
    fn completed(&mut self, operation: &Operation, outcome: &Outcome) {
        dispatch!(self, inner => inner.completed(operation, outcome));
    }

    fn release(&mut self) -> Option<Operation> {
        dispatch!(self, inner => inner.release())
    }

    #[inline]
    fn is_upkeep(&self) -> bool {
        dispatch!(self, inner => inner.is_upkeep())
    }

    fn is_stuck(&self) -> bool {
        dispatch!(self, inner => inner.is_stuck())
    }

    #[inline]
    fn part(&self) -> Part {
        dispatch!(self, inner => inner.part())
    }

    #[inline]
    fn is_finished(&self) -> bool {
        dispatch!(self, inner => inner.is_finished())
    }
}

/// The guide's example compiles and does what the guide says.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/adding-a-workload.md")]
struct AddingAWorkload;
