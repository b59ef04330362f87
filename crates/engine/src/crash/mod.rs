//! Power cuts, beside the file system: a load that knows what it was promised, and what is left of it after
//! a cut.
//!
//! [`CrashTest::prepare`] makes the tree that the load begins with; [`CrashTest::run`] does the load and asks
//! the disk below for the position in its request log after every operation; [`attempt`] mounts a crash state
//! and compares. What is promised and how it is judged: docs/power.md.
//!
//! | module | what |
//! | --- | --- |
//! | `tree` | a tree as it should be: names and contents |
//! | `history` | the trees that a load went through, and what was promised of them when |
//! | `generated` | what a load is before it is done |
//! | `load` | the operations of a load |
//! | `sequences` | those of one load: every short sequence |
//! | `data` | those of another: random operations on what files hold |
//! | `script` | those of a load that somebody wrote down |
//! | `free_space` | bytes of a file that is gone where nothing is |
//! | `perform` | doing them |
//! | `run` | doing all of a load, by several threads where it has them |
//! | `program` | a program of the user's in the place of all that |
//! | `database` | SQLite as such a program, whose rows are known |
//! | `oracle` | what is there against what was promised |
//! | `links` | which names a file can have at once |
//! | `known` | whether damage comes up under the conditions of a known finding |
//! | `kernel_log` | what the kernel said meanwhile |

mod append;
mod attempt;
mod data;
mod database;
mod free_space;
mod generated;
mod history;
mod kernel_log;
mod known;
mod links;
mod load;
mod oracle;
mod perform;
mod program;
mod run;
mod save;
mod script;
mod sequences;
mod tree;

pub use attempt::{Judge, attempt};
pub use database::{DatabaseJudge, database_lines, database_programs, run_database};
pub use program::{IsOver, ProgramJudge, run_load};
pub use run::Histories;
pub use save::save;

use fsage_model::crash::{CrashLoadSpec, CrashOperation, CrashScript, LoadStep};
use fsage_model::protocol::{Failure, FailureKind};
use rustix::io::Errno;

use crate::disk::ControlError;
use crate::host::HostError;
use crate::location::Anchor;
use generated::Generated;
use perform::Done;

/// Why a load could not be done.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// The disk below does not say where its log is.
    #[error("the disk below does not answer")]
    Disk(#[from] ControlError),
    /// There is no virtual disk below.
    #[error("no virtual disk is below {path}")]
    NoDisk {
        /// The load's directory.
        path: String,
    },
    /// An operation failed, although it should not.
    #[error("`{operation}` failed")]
    Operation {
        /// Which.
        operation: String,
        /// Why.
        source: std::io::Error,
    },
    /// A script asks for what cannot be done.
    #[error("{what}")]
    Script {
        /// Which operation, and why.
        what: String,
    },
    /// The user's own program failed, without any power cut.
    #[error("the load `{argv}` ended with status {status}{}", after(said))]
    Load {
        /// Its command line.
        argv: String,
        /// Its status; 128 and more: a signal.
        status: i32,
        /// Its last line.
        said: String,
    },
    /// More was acknowledged than is kept.
    #[error("the load acknowledges too much: at line {lines}, more than 4096 bytes in it or 4 MiB in all")]
    TooMuch {
        /// Lines before.
        lines: u64,
    },
    /// SQLite does not do what a load needs of it.
    #[error("{what}")]
    Database {
        /// What it does.
        what: String,
    },
    /// A program cannot be run.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Nothing was prepared.
    #[error("no load was {what}")]
    Order {
        /// What is missing.
        what: &'static str,
    },
}

impl From<CrashError> for Failure {
    fn from(error: CrashError) -> Self {
        let (hint, errno, kind) = match &error {
            CrashError::Disk(error) => (error.hint(), None, error.kind()),
            CrashError::NoDisk { .. } => (String::new(), None, FailureKind::Usage),
            CrashError::Operation { source, .. } => (
                "make the volume larger, or the load smaller".to_owned(),
                source.raw_os_error(),
                FailureKind::Failed,
            ),
            CrashError::Load { status: 127 | 126 | 2, .. } => (
                "it runs in a directory of the volume: name its files by absolute paths".to_owned(),
                None,
                FailureKind::Failed,
            ),
            CrashError::Load { .. } => (
                "no power was cut yet: the load has to exit with status 0".to_owned(),
                None,
                FailureKind::Failed,
            ),
            CrashError::Script { .. } => (
                "every operation of a script has to succeed after those before it".to_owned(),
                None,
                FailureKind::Usage,
            ),
            CrashError::TooMuch { .. } => (
                "acknowledge a number or a name per line, not the data itself".to_owned(),
                None,
                FailureKind::Usage,
            ),
            CrashError::Database { .. } => (
                "use SQLite 3.16 or newer, a journal mode that the file system allows, and a load that ends in 10 minutes (`length`)".to_owned(),
                None,
                FailureKind::Failed,
            ),
            CrashError::Host(error) => (error.hint(), error.errno(), error.kind()),
            CrashError::Order { .. } => (String::new(), None, FailureKind::Internal),
        };
        Self { message: crate::host::chain(&error), hint, errno, kind }
    }
}

fn after(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn duration_ns(elapsed: std::time::Duration) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

impl CrashError {
    fn unknown(operation: &CrashOperation) -> Self {
        let what = format!("`{operation}` cannot be done: the file system has no such operation");
        Self::Script { what }
    }

    fn operation(operation: &CrashOperation) -> impl FnOnce(Errno) -> Self {
        let operation = operation.to_string();
        move |errno| Self::Operation { operation, source: errno.into() }
    }
}

/// Leaves bytes of a removed file where free space is, so that a file system that exposes it is found.
///
/// # Errors
/// What the kernel says; a full volume is none.
pub fn use_free_space(directory: &Anchor) -> Result<(), CrashError> {
    free_space::fill(directory)
        .map_err(|errno| CrashError::Operation { operation: "fill".to_owned(), source: errno.into() })
}

/// Whether the operations of a script can be done one after the other, on an empty volume and within what a script may take.
///
/// # Errors
/// Which cannot, and why.
pub fn check_script(script: &CrashScript) -> Result<(), String> {
    script::generate(script, 0).map(drop)
}

/// Makes what a part of a load begins with.
fn make_base(part: &Generated, directory: &Anchor) -> Result<(), CrashError> {
    let mut tree = tree::Tree::new(part.seed);
    for operation in &part.base {
        let done = perform::perform(directory, &tree, operation);
        if done.map_err(CrashError::operation(operation))? == Done::No {
            return Err(CrashError::unknown(operation));
        }
        tree.apply(operation);
    }
    Ok(())
}

/// A load, before or after it was done.
#[derive(Debug)]
pub struct CrashTest {
    /// Of each thread.
    parts: Vec<Generated>,
    /// Whether somebody wrote the operations down: then none is left out.
    is_script: bool,
    histories: Option<Histories>,
}

impl CrashTest {
    /// Makes what the load begins with, durably, on free space that was in use before.
    ///
    /// # Errors
    /// An operation fails.
    pub fn prepare(spec: CrashLoadSpec, directory: &Anchor) -> Result<Self, CrashError> {
        let parts = load::generate_threads(spec).ok_or(CrashError::Order { what: "generated" })?;
        Self::make(parts, false, directory)
    }

    /// The same with operations that somebody wrote down.
    ///
    /// # Errors
    /// They cannot be done one after the other; an operation fails.
    pub fn prepare_script(script: &CrashScript, seed: u64, directory: &Anchor) -> Result<Self, CrashError> {
        let generated = script::generate(script, seed).map_err(|what| CrashError::Script { what })?;
        Self::make(vec![generated], true, directory)
    }

    fn make(parts: Vec<Generated>, is_script: bool, directory: &Anchor) -> Result<Self, CrashError> {
        use_free_space(directory)?;
        parts.iter().try_for_each(|part| make_base(part, directory))?;
        Ok(Self { parts, is_script, histories: None })
    }

    /// What made the tree that it begins with; nothing where several threads each have their own.
    #[must_use]
    pub fn base(&self) -> Vec<CrashOperation> {
        match self.parts.as_slice() {
            [part] => part.base.clone(),
            _ => Vec::new(),
        }
    }

    /// Does the load, and says where in the disk's log each operation had returned.
    ///
    /// # Errors
    /// An operation fails; there is no virtual disk below, or it keeps no log.
    pub fn run(&mut self, directory: &Anchor) -> Result<Vec<LoadStep>, CrashError> {
        let histories = run::run(&self.parts, self.is_script, directory)?;
        let steps = histories.steps();
        self.histories = Some(histories);
        Ok(steps)
    }

    /// What the load did and was promised.
    ///
    /// # Errors
    /// It was not done.
    pub fn histories(&self) -> Result<&Histories, CrashError> {
        self.histories.as_ref().ok_or(CrashError::Order { what: "run" })
    }
}

#[cfg(test)]
#[path = "examples_tests.rs"]
mod examples_tests;
