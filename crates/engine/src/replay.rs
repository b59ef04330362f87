//! Runs the operations of a trace again in another directory.
//!
//! Each recorded thread has a thread of its own that does its operations in their order; threads own their parts of
//! the tree, so nothing else needs to be kept in order. Operations that failed when recorded are left out, as
//! in Conway et al. 2019. A model follows what succeeds; at the end the directory is walked, and when it has
//! another shape than the model, that is an error. The digest in the result is that of the model, and so the same as that of the load
//! that was recorded when every operation ended as it did then.

mod stream;

use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::load::{
    Control, Ground, LoadError, LoadResult, LoadSink, LoadSpec, StopReason, StopSpec, run_sources,
};
use crate::protocol::FailureKind;
use crate::trace::TraceError;
use crate::tree::{Shape, ShapeError, walk};
use crate::workload::spec::{DriftSpec, WorkloadSpec};
use stream::{Dealt, Recorded, feed, open_streams};

/// Why a trace could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The operations could not be run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The replayed tree could not be looked at.
    #[error("cannot check the replayed tree")]
    Shape(#[from] ShapeError),
    /// The load ended before the trace did.
    #[error("only {executed} of the trace's operations were run, at least {dealt} were to be")]
    Incomplete {
        /// Operations that were run.
        executed: u64,
        /// Operations read from the trace until then, without those that failed when recorded.
        dealt: u64,
    },
    /// The replayed tree is not the recorded one.
    #[error("{} is not what the trace made: {what}", path.display())]
    Different {
        /// The directory.
        path: PathBuf,
        /// How they differ, in numbers.
        what: String,
    },
}

impl ReplayError {
    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Trace(error) => error.hint(),
            Self::Load(error) => error.hint(),
            Self::Incomplete { .. } => "is the volume as large as the recorded one?".to_owned(),
            Self::Shape(_) => String::new(),
            Self::Different { .. } => "nothing else may work below that directory meanwhile".to_owned(),
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Trace(error) => error.kind(),
            Self::Load(error) => error.kind(),
            Self::Shape(_) | Self::Incomplete { .. } => FailureKind::Failed,
            Self::Different { .. } => FailureKind::Damage,
        }
    }
}

/// Runs the operations of `trace` again below `directory`, each recorded thread in a thread of its own and
/// in its recorded order; operations that failed when recorded are left out. Data is written as it was
/// (buffered, direct or fast, with materialising at the end).
///
/// # Errors
/// An unreadable trace, a directory that cannot be worked in, a device that stopped working, a tree that
/// does not become what the trace says (an operation that failed only now is in [`LoadResult::failed`] and the
/// caveats: then the trees differ by right).
pub fn run(
    trace: &Path,
    directory: &Path,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<LoadResult, ReplayError> {
    let reader = crate::trace::read(trace)?;
    let preamble = reader.preamble().clone();
    let expected = Some(reader.operations());
    let spec = LoadSpec {
        // What held or made room is in the trace; nothing is steered again, and no workload is asked for anything.
        workload: WorkloadSpec::Drift(DriftSpec::default()),
        directory: directory.to_owned(),
        // Recorded threads did unequal numbers of operations: each source runs to its own end.
        stop: StopSpec::default(),
        probe_every: 0,
        probe_layout: false,
        trim: false,
        trace: false,
        ..preamble.load
    };
    let ground = Ground::open(directory)?;
    let (streams, sources) = open_streams(&preamble.directories);
    let (result, sources, fed) = std::thread::scope(|scope| {
        let feeder = scope.spawn(move || feed(reader, &streams));
        let ran = run_sources(&spec, &ground, sources, &preamble.directories, expected, control, sink);
        // The feeder ends when its reader does or when every source is gone.
        let (result, sources) = match ran {
            Ok((result, sources)) => (Ok(result), sources),
            Err(error) => (Err(error), Vec::new()),
        };
        let sources: Vec<Recorded> = sources.into_iter().map(Recorded::hang_up).collect();
        (result, sources, feeder.join())
    });
    let fed = fed.map_err(|_| LoadError::Panicked)?;
    let mut result = result?;
    let Dealt { operations: dealt, whole } = fed?;
    if result.stopped_by != StopReason::Asked && (!whole || result.operations < dealt) {
        return Err(ReplayError::Incomplete { executed: result.operations, dealt });
    }
    conclude(&ground, &sources, &mut result)?;
    Ok(result)
}

/// Compares the model with the directory and completes the result.
fn conclude(ground: &Ground, sources: &[Recorded], result: &mut LoadResult) -> Result<(), ReplayError> {
    let mut wanted = Shape::default();
    let mut digest = Digest::default();
    for source in sources {
        digest.merge(&source.model().digest());
        wanted.merge(&source.model().shape());
        result.files += source.model().files();
        result.live_bytes += source.model().size_bytes();
    }
    result.digest = digest.to_string();
    let found = walk(ground.path())?;
    if found == wanted {
        return Ok(());
    }
    let what = format!(
        "{} directories, {} file names, {} symbolic links and {} bytes instead of {}, {}, {} and {}",
        found.directories,
        found.file_names,
        found.symlinks,
        found.bytes,
        wanted.directories,
        wanted.file_names,
        wanted.symlinks,
        wanted.bytes
    );
    Err(ReplayError::Different { path: ground.path().to_owned(), what })
}
