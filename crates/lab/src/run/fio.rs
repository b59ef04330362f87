//! Points of fio: why one cannot be run, the words of its job, and those that an interrupted trial kept.

pub(super) mod ask;
pub(super) mod job;
pub(super) mod kept;

use fsage_model::problem::{EXIT_FAILED, EXIT_MISSING, EXIT_USAGE, Explain};
use fsage_model::size::Bytes;

use crate::measure::JobError;
use crate::target::TargetError;
use crate::tools::ToolError;
use crate::tools::fio::FioOutputError;
use crate::tools::fio::plus::OLDEST;

/// How long a device has to be quiet, at most, before it counts as at rest, in milliseconds.
pub(super) const LONGEST_QUIET_MS: u64 = 50;

/// Why a point cannot be run.
#[derive(Debug, thiserror::Error)]
pub(super) enum FioError {
    /// fio is missing, or could not be asked what it is.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// fio is too old.
    #[error("{found} is too old: at least fio {}.{} is needed", OLDEST.0, OLDEST.1)]
    Version {
        /// What it says of itself.
        found: String,
    },
    /// fio was built without an engine.
    #[error("this fio has no engine `{engine}`")]
    Engine {
        /// As the study has it.
        engine: &'static str,
        /// Those of the stage's choice that it has.
        known: Vec<&'static str>,
    },
    /// More requests at once than the device's queue takes: the rest would wait outside of it.
    #[error("point {point} asks for {depth} requests at once, and the queue of the device holds {queue}")]
    Depth {
        /// Its name.
        point: String,
        /// Jobs times depth.
        depth: u32,
        /// `queue/nr_requests`.
        queue: u32,
    },
    /// The files do not fit.
    #[error("files with {} in all do not fit: the volume has {} free", Bytes(*.needed_bytes), Bytes(*.available_bytes))]
    Room {
        /// Bytes of all of them, with what must stay free.
        needed_bytes: u64,
        /// Bytes there are.
        available_bytes: u64,
    },
    /// Blocks are larger than files.
    #[error("each of {files} files has {}, which is less than one block of {bs}", Bytes(*.each_bytes))]
    Block {
        /// How many.
        files: u32,
        /// Bytes of one.
        each_bytes: u64,
        /// The block size.
        bs: Bytes,
    },
    /// fio could not write its files whole.
    #[error("fio wrote {} of the {} that its files have", Bytes(*.written_bytes), Bytes(*.wanted_bytes))]
    Laid {
        /// Bytes written.
        written_bytes: u64,
        /// Bytes wanted.
        wanted_bytes: u64,
    },
    /// A host did less or more than it was to do.
    #[error("fio did {done} of {wanted} operations at {point}")]
    Operations {
        /// The point, and on which host.
        point: String,
        /// Operations that it counted.
        done: u64,
        /// Operations that it was to do.
        wanted: u64,
    },
    /// fio ended with a status that means failure, or without a complete result.
    #[error("fio failed at {point} with status {status}: {said}")]
    Failed {
        /// The point, or `layout`.
        point: String,
        /// Its exit status.
        status: i32,
        /// The end of what it said.
        said: String,
    },
    /// fio needs more memory than it was given.
    #[error("fio was killed at {point}: {limit} of memory is too little for it")]
    Killed {
        /// The point.
        point: String,
        /// Its limit.
        limit: Bytes,
    },
    /// What fio wrote is no result.
    #[error("point {point} has no result")]
    Output {
        /// Its name.
        point: String,
        /// What is wrong with it.
        #[source]
        source: FioOutputError,
    },
    /// The job file of the stage cannot be run.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A job file on a device without a file system.
    #[error("a job file works on files, and the bare device has none")]
    Bare,
    /// The agent failed it.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl Explain for FioError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Tool(error) => Explain::exit_code(error),
            Self::Target(error) => Explain::exit_code(error),
            Self::Version { .. } | Self::Engine { .. } => EXIT_MISSING,
            Self::Depth { .. }
            | Self::Room { .. }
            | Self::Block { .. }
            | Self::Job(_)
            | Self::Bare
            | Self::Killed { .. } => EXIT_USAGE,
            Self::Laid { .. } | Self::Operations { .. } | Self::Failed { .. } | Self::Output { .. } => {
                EXIT_FAILED
            }
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Tool(error) => return error.hint(),
            Self::Target(error) => return Explain::hint(error),
            Self::Job(error) => return error.hint(),
            Self::Bare => "give the stage typed parameters (`rw`, `bs`, …) instead of `job`".to_owned(),
            Self::Version { .. } => "install a newer fio, and put it before the old one in PATH".to_owned(),
            Self::Engine { known, .. } if known.is_empty() => {
                "`fio --enghelp` lists those it has; `sync` is always there".to_owned()
            }
            Self::Engine { known, .. } => format!("it has {}: change `ioengine`", known.join(", ")),
            Self::Depth { queue, .. } => format!(
                "lower `iodepth` or `numjobs` to {queue} together; a scheduler other than `none` may have a longer queue"
            ),
            Self::Room { .. } | Self::Laid { .. } => {
                "make `size` or `fill` of the stage smaller, or the volume larger".to_owned()
            }
            Self::Killed { .. } => {
                "raise `memory` of the stage: threads, queues and blocks of fio are part of it (`numjobs`, `iodepth`, `bs`)".to_owned()
            }
            Self::Block { .. } => "ask for fewer files or smaller blocks, or make the volume larger".to_owned(),
            Self::Output { source, .. } if source.is_out_of_space() => {
                "make `size` or `fill` of the stage smaller: writes need room beside the files on this file system"
                    .to_owned()
            }
            Self::Failed { .. } | Self::Output { .. } | Self::Operations { .. } => {
                "log.txt of the trial has the command: run it by hand to see what fio says".to_owned()
            }
        })
    }
}
