//! What can go wrong with a fleet.

use std::path::PathBuf;

use fsage_model::problem::{EXIT_FAILED, EXIT_USAGE, Explain, exit_code_of};

use crate::lease::LeaseError;
use crate::run::RunError;
use crate::store::StoreError;
use crate::target::TargetError;
use crate::tools::ToolError;

/// What went wrong with a fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// What a search does next follows from its results.
    #[error("study {study} is a search, whose next runs depend on its results")]
    Search {
        /// Its name.
        study: String,
    },
    /// Nodes are where its trials run, and the study names others.
    #[error("study {study} runs on {host}, not on nodes of a cluster")]
    Elsewhere {
        /// Its name.
        study: String,
        /// The other host.
        host: String,
    },
    /// Trials that are compared have to be on one node.
    #[error("study {study} cannot have one task for each trial: {why}")]
    PerTask {
        /// Its name.
        study: String,
        /// Why.
        why: String,
    },
    /// A path that Slurm would take for a pattern.
    #[error("{} has characters that Slurm interprets", path.display())]
    Path {
        /// Folder.
        path: PathBuf,
    },
    /// An option of sbatch that decides where a task finds its trials, or by what it is found.
    #[error("`{option}` is set by fsage")]
    Option {
        /// As given.
        option: String,
    },
    /// Loop files would lie on what all nodes share.
    #[error("loop files of study {study} would lie in the store, which all nodes share")]
    SharedVolume {
        /// Its name.
        study: String,
    },
    /// An earlier submission has not ended.
    #[error("{tasks} tasks of {} are still in Slurm's queue", store.display())]
    InQueue {
        /// The store.
        store: PathBuf,
        /// Tasks.
        tasks: usize,
    },
    /// Nothing was submitted.
    #[error("{} was not submitted to a fleet", store.display())]
    NoFleet {
        /// The store.
        store: PathBuf,
    },
    /// There is no task of this number.
    #[error("{} has no task {index}", place.display())]
    NoTask {
        /// Folder of the submission.
        place: PathBuf,
        /// Its number.
        index: usize,
    },
    /// One of Slurm's commands failed.
    #[error("a Slurm command failed")]
    Slurm(#[from] ToolError),
    /// The run, here or on a node.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A store.
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
    /// Leases of an earlier task on this node.
    #[error("cannot release what an earlier task left")]
    Lease(#[from] LeaseError),
    /// Our own programs cannot be copied.
    #[error("the programs for the nodes cannot be copied")]
    Programs(#[source] TargetError),
}

impl Explain for FleetError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Search { .. }
            | Self::Elsewhere { .. }
            | Self::PerTask { .. }
            | Self::Path { .. }
            | Self::Option { .. }
            | Self::SharedVolume { .. }
            | Self::NoFleet { .. }
            | Self::NoTask { .. } => EXIT_USAGE,
            Self::InQueue { .. } => EXIT_FAILED,
            Self::Slurm(error) => exit_code_of(error.kind()),
            Self::Run(error) => error.exit_code(),
            Self::Store(error) => error.exit_code(),
            Self::Lease(error) => error.exit_code(),
            Self::Programs(error) => Explain::exit_code(error),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Search { .. } => Some("run it without --fleet".to_owned()),
            Self::Elsewhere { .. } => Some("leave --fleet out, or the study's `target`".to_owned()),
            Self::PerTask { .. } => Some("use `--per-task repeat`".to_owned()),
            Self::Path { .. } => Some("use a store path without %, \\ and line breaks".to_owned()),
            Self::Option { .. } => Some("leave it out".to_owned()),
            Self::SharedVolume { .. } => Some(
                "name a folder on disks local to the nodes: --set volume.directory=…, or use virtual disks"
                    .to_owned(),
            ),
            Self::InQueue { store, .. } => {
                let store = store.display();
                Some(format!(
                    "wait (`fsage fleet status {store}`), or end them: `fsage fleet cancel {store}`"
                ))
            }
            Self::NoFleet { .. } => Some("submit it with `fsage run STUDY --fleet slurm`".to_owned()),
            Self::Slurm(ToolError::Status { tail, .. }) if tail.contains("configuration source") => {
                Some("set SLURM_CONF, or run this on a host of the cluster".to_owned())
            }
            Self::Slurm(ToolError::Status { tail, .. }) if tail.contains("array specification") => {
                Some("there are more tasks than Slurm's MaxArraySize: use `--per-task repeat`".to_owned())
            }
            Self::Slurm(error) => error.hint(),
            Self::Run(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Lease(error) => error.hint(),
            Self::Programs(error) => Explain::hint(error),
            Self::NoTask { .. } => Some("submit the study again".to_owned()),
        }
    }
}
