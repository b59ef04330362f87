//! Runs the operations of a trace again in another directory.
//!
//! Each recorded thread has a thread of its own that does its operations in their order; threads own their
//! parts of the tree, so nothing else needs to be kept in order. Operations that failed when recorded are
//! left out, as in Conway et al. 2019. A model follows what succeeds; at the end the directory is walked, and
//! when it has another shape than the model, that is an error. The digest in the result is that of the model,
//! and so the same as that of the load that was recorded when every operation ended as it did then.

mod pace;
mod resume;
mod state;
mod stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fsage_model::digest::Digest;
use fsage_model::load::{LoadResult, LoadSpec, StopReason, StopSpec};
use fsage_model::protocol::FailureKind;
use fsage_model::replay::CheckpointDifference;
use fsage_model::replay::ReplayOptions;
use fsage_model::replay::ReplayReport;
use fsage_model::replay::ReplayResult;
use fsage_model::workload::{DriftSpec, WorkloadSpec};
use fsage_sys::new_file::ForeignFolder;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::load::{Control, LoadError, LoadSink, TestDirectory, run_sources};
use crate::trace::{Checkpoint, Preamble, Reader, TraceError};
use crate::tree::{Shape, ShapeError, walk};
use crate::verify::{self, VerifyError};
use crate::workload::Model;
use pace::{Lateness, Pace};
use resume::Position;
use state::{Header, State};
use stream::{Dealt, Recorded, Start, feed, open_streams};

/// How often and how long the end of another replay in the same directory is waited for.
const LOCK_TRIES: u32 = 400;
const LOCK_WAIT: Duration = Duration::from_millis(25);

/// Why a trace could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The operations could not be run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The replayed tree could not be inspected.
    #[error("cannot check the replayed tree")]
    Shape(#[from] ShapeError),
    /// The load ended before the trace did.
    #[error("only {executed} of the trace's operations were run, expected at least {dealt}")]
    Incomplete {
        /// Operations that were run.
        executed: u64,
        /// Operations read from the trace until then, without those that failed when recorded.
        dealt: u64,
    },
    /// A replay was interrupted there.
    #[error("{} holds a replay of this trace that was interrupted", path.display())]
    Interrupted {
        /// The directory.
        path: PathBuf,
    },
    /// Another replay works there.
    #[error("another replay works in {}", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The state file is of another replay.
    #[error("{} is of a replay of another trace or in another directory", path.display())]
    OtherReplay {
        /// The state file.
        path: PathBuf,
    },
    /// How far the replay is cannot be kept or found out.
    #[error("cannot resume a replay: {}: {source}", path.display())]
    Resume {
        /// The object.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The state file is from before it named the trees.
    #[error("{} does not say which trees the replay made, so nothing was removed", path.display())]
    Unproven {
        /// The state file.
        path: PathBuf,
    },
    /// Something that is not a replay's lies where a replay that starts over would remove everything.
    #[error("{} is not one of the replay's files, so nothing was removed", path.display())]
    Stranger {
        /// What.
        path: PathBuf,
    },
    /// The files could not be read back.
    #[error(transparent)]
    Verify(#[from] VerifyError),
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
    fn resume(path: &Path, source: std::io::Error) -> Self {
        Self::Resume { path: path.to_owned(), source }
    }

    /// The next step for the user; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Trace(error) => error.hint(),
            Self::Load(error) => error.hint(),
            Self::Incomplete { .. } => "is the volume as large as the recorded one?".to_owned(),
            Self::Resume { source, .. } if ForeignFolder::is(source) => ForeignFolder::HINT.to_owned(),
            Self::Shape(_) | Self::Resume { .. } => String::new(),
            Self::Verify(error) => error.hint(),
            Self::Busy { .. } => "wait for its end, or name another directory".to_owned(),
            Self::Interrupted { .. } => "use --resume to continue, or name another directory".to_owned(),
            Self::OtherReplay { path } => {
                format!(
                    "name the same trace and directory as then, or remove {} and the trees",
                    path.display()
                )
            }
            Self::Unproven { path } => {
                format!("an older fsage wrote it: remove {} and the trees", path.display())
            }
            Self::Stranger { .. } => "move it away, or name another directory".to_owned(),
            Self::Different { .. } => "nothing else may work below that directory meanwhile".to_owned(),
        }
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Trace(error) => error.kind(),
            Self::Load(error) => error.kind(),
            Self::Verify(error) => error.kind(),
            Self::Busy { .. }
            | Self::Interrupted { .. }
            | Self::OtherReplay { .. }
            | Self::Unproven { .. }
            | Self::Stranger { .. } => FailureKind::Usage,
            Self::Shape(_) | Self::Incomplete { .. } | Self::Resume { .. } => FailureKind::Failed,
            Self::Different { .. } => FailureKind::Damage,
        }
    }
}

/// Runs the operations of `trace` again below `directory`, each recorded thread in a thread of its own and
/// in its recorded order; operations that failed when recorded are left out. Data is written as it was
/// (buffered, direct or fast, with materialising at the end).
///
/// # Errors
/// An unreadable trace, a directory that cannot be worked in, a device that stopped working, a tree that does
/// not become what the trace says (an operation that failed only now is in [`LoadResult::failed`] and the
/// caveats: then the trees differ by right).
pub fn run(
    trace: &Path,
    directory: &Path,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<LoadResult, ReplayError> {
    run_with(trace, directory, &ReplayOptions::default(), control, sink).map(|result| result.load)
}

/// As [`run`], at the speed and with the care that `options` ask for. With a state file a replay that was
/// killed, or stopped when asked, can be resumed; the file is removed when the replay is whole.
///
/// # Errors
/// As [`run`]; also a state file of another replay, or a directory that was interrupted in when `resume` is
/// not asked.
pub fn run_with(
    trace: &Path,
    directory: &Path,
    options: &ReplayOptions,
    control: &Control,
    sink: &mut dyn LoadSink,
) -> Result<ReplayResult, ReplayError> {
    let reader = crate::trace::read(trace)?;
    let preamble = reader.preamble().clone();
    let checkpoints = reader.checkpoints().to_vec();
    let recorded = reader.operations();
    let test_directory = TestDirectory::open(&directory.into())?;
    let begun = Begun::new(trace, &test_directory, &reader, options)?;
    let test_directory = if begun.resumed { test_directory.resumed() } else { test_directory };
    let initial: Vec<_> = begun.position.models.iter().map(Model::directories_by_depth).collect();
    let done = begun.position.done.clone();
    let resumed_after = done.iter().sum();
    let pace = Pace::new(options.speed, begun.position.from_ns).map(Arc::new);
    let starts = starts(begun.position, &checkpoints, options.verify, pace.as_ref(), begun.state.as_ref());
    let (streams, sources) = open_streams(starts);
    let spec = spec(&preamble, directory);
    let expected = Some(recorded.saturating_sub(resumed_after));
    let (result, sources, fed) = std::thread::scope(|scope| {
        let feeder = scope.spawn(move || feed(reader, &streams, &done));
        let ran = run_sources(&spec, &test_directory, sources, &initial, expected, control, sink);
        // The feeder ends when its reader does or when every source is gone.
        let (result, sources) = match ran {
            Ok((result, sources)) => (Ok(result), sources),
            Err(error) => (Err(error), Vec::new()),
        };
        let sources: Vec<Recorded> = sources.into_iter().map(Recorded::hang_up).collect();
        (result, sources, feeder.join())
    });
    let fed = fed.map_err(|_| LoadError::Panicked)?;
    let mut load = result?;
    let Dealt { operations: dealt, failed: skipped, whole } = fed?;
    if load.stopped_by != StopReason::Asked && (!whole || load.operations < dealt) {
        return Err(ReplayError::Incomplete { executed: load.operations, dealt });
    }
    conclude(&test_directory, &sources, &mut load)?;
    let is_whole = load.stopped_by != StopReason::Asked;
    let verified = (options.verify && is_whole).then(|| verify::run_in(test_directory.anchor(), 0, false));
    if let Some(state) = begun.state.filter(|_| is_whole) {
        state.remove().map_err(|error| ReplayError::resume(directory, error))?;
    }
    let replay = ReplayReport {
        recorded,
        skipped,
        prelude: preamble.prelude,
        resumed_after,
        started_over: begun.started_over,
        recorded_digest: last_digest(&checkpoints, sources.len()),
        verified,
        ..seen(&sources)
    };
    Ok(ReplayResult { load, replay })
}

fn spec(preamble: &Preamble, directory: &Path) -> LoadSpec {
    LoadSpec {
        // What held or made room is in the trace; nothing is steered again, and no workload is asked for
        // anything.
        workload: WorkloadSpec::Drift(DriftSpec::default()),
        directory: directory.to_owned(),
        // Recorded threads did unequal numbers of operations: each source runs to its own end.
        stop: StopSpec::default(),
        probe_every: 0,
        probe_share: None,
        probe_layout: false,
        trim: false,
        trace: false,
        ..preamble.load.clone()
    }
}

/// Where a replay begins.
struct Begun {
    position: Position,
    resumed: bool,
    started_over: Option<String>,
    state: Option<State>,
}

impl Begun {
    fn new(
        trace: &Path,
        test_directory: &TestDirectory,
        reader: &Reader,
        options: &ReplayOptions,
    ) -> Result<Self, ReplayError> {
        let trees = &reader.preamble().directories;
        let models = (0_u32..).zip(trees).map(|(thread, directories)| Model::new(thread, directories));
        let fresh = Position { models: models.collect(), done: vec![0; trees.len()], from_ns: 0 };
        let Some(path) = &options.state else {
            return Ok(Self { position: fresh, resumed: false, started_over: None, state: None });
        };
        let error = |error| ReplayError::resume(path, error);
        lock(test_directory)?;
        let own = test_directory.held().canonicalize().map_err(error)?;
        let header = Header::new(trace, &own, trees.len()).map_err(error)?;
        let used = !resume::used_tops(test_directory.anchor(), trees.len()).is_empty();
        let kept = State::read(path).map_err(error)?;
        let noted = kept.as_ref().and_then(|kept| kept.header.trees()).map(<[_]>::to_vec);
        let (position, started_over) = match kept {
            None => (None, None),
            Some(kept) if !kept.header.is_same(&header) => {
                return Err(ReplayError::OtherReplay { path: path.clone() });
            }
            // Somebody removed what it had made: it begins as if it had never been.
            Some(_) if !used => (None, None),
            Some(_) if !options.resume => {
                return Err(ReplayError::Interrupted { path: test_directory.path().to_owned() });
            }
            Some(kept) if !kept.header.same_boot(&header) => {
                (None, Some("the host was restarted since".to_owned()))
            }
            Some(kept) => match resume::find(crate::trace::read(trace)?, test_directory.anchor(), kept.done)?
            {
                Ok(position) => (Some(position), None),
                Err(why) => (None, Some(why)),
            },
        };
        if started_over.is_some() {
            let noted = noted.ok_or_else(|| ReplayError::Unproven { path: path.clone() })?;
            resume::remove_trees(test_directory.anchor(), &noted)?;
        }
        if position.is_none() {
            // Before the state file, which names them; what is of somebody else, or of a load, is refused
            // here.
            test_directory.make_tops(trees.len())?;
        }
        let header = header.with_trees(resume::identities(test_directory.anchor(), trees.len()));
        let resumed = position.is_some();
        let position = position.unwrap_or(fresh);
        let state = State::create(path, &header, &position.done).map_err(error)?;
        Ok(Self { position, resumed, started_over, state: Some(state) })
    }
}

/// Makes sure that no other replay works in the directory: one whose caller was killed takes a moment to end.
/// The lock goes with the directory's descriptor.
fn lock(test_directory: &TestDirectory) -> Result<(), ReplayError> {
    for _ in 0..LOCK_TRIES {
        match rustix::fs::flock(test_directory.fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_WAIT),
            // A file system without locks has to do without.
            Ok(()) | Err(_) => return Ok(()),
        }
    }
    Err(ReplayError::Busy { path: test_directory.path().to_owned() })
}

fn starts(
    position: Position,
    checkpoints: &[Checkpoint],
    verify: bool,
    pace: Option<&Arc<Pace>>,
    state: Option<&State>,
) -> Vec<Start> {
    (0_u32..)
        .zip(position.models.into_iter().zip(position.done))
        .map(|(thread, (model, done))| {
            let own = checkpoints.iter().filter(|one| verify && one.thread == thread && one.sequence >= done);
            let (checkpoints, pace) = (own.copied().collect(), pace.map(Arc::clone));
            let counter = state.map(|state| state.counter(thread.into()));
            Start { model, done, checkpoints, pace, counter }
        })
        .collect()
}

/// The digest at the end of the load, when every thread has a last checkpoint.
fn last_digest(checkpoints: &[Checkpoint], threads: usize) -> Option<String> {
    let mut last: Vec<Option<Digest>> = vec![None; threads];
    for checkpoint in checkpoints {
        *last.get_mut(usize::try_from(checkpoint.thread).ok()?)? = Some(checkpoint.digest);
    }
    let mut digest = Digest::default();
    for one in last {
        digest.merge(&one?);
    }
    Some(digest.to_string())
}

/// What all threads saw together; the rest is left to the caller.
fn seen(sources: &[Recorded]) -> ReplayReport {
    let mut lateness = Lateness::new();
    let seen = || sources.iter().map(Recorded::seen);
    seen().for_each(|seen| lateness.merge(&seen.lateness));
    let mismatch = seen().filter_map(|seen| seen.mismatch).next();
    ReplayReport {
        recorded: 0,
        skipped: 0,
        prelude: 0,
        resumed_after: 0,
        started_over: None,
        lateness: lateness.summary(),
        checkpoints_matched: seen().map(|seen| seen.matched).sum(),
        checkpoint_differs: mismatch.map(|(checkpoint, found)| CheckpointDifference {
            thread: checkpoint.thread,
            sequence: checkpoint.sequence,
            expected: checkpoint.digest.to_string(),
            found: found.to_string(),
        }),
        recorded_digest: None,
        divergence: seen()
            .filter_map(|seen| seen.divergence.as_ref())
            .min_by_key(|divergence| divergence.operation)
            .cloned(),
        verified: None,
    }
}

/// Compares the model with the directory and completes the result.
fn conclude(
    test_directory: &TestDirectory,
    sources: &[Recorded],
    result: &mut LoadResult,
) -> Result<(), ReplayError> {
    let mut wanted = Shape::default();
    let mut digest = Digest::default();
    for source in sources {
        digest.merge(&source.model().digest());
        wanted.merge(&source.model().shape());
        result.files += source.model().files();
        result.live_bytes += source.model().size_bytes();
    }
    result.digest = digest.to_string();
    let found = walk(&test_directory.held())?;
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
    Err(ReplayError::Different { path: test_directory.path().to_owned(), what })
}
