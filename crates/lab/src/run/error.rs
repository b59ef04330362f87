//! What ends a whole run (a failed trial does not), and what fails a trial.

use std::path::PathBuf;

use fsage_engine::host::HostError;
use fsage_model::cause::in_one_line;
use fsage_model::escape;
use fsage_model::problem::{EXIT_DAMAGE, EXIT_FAILED, EXIT_INTERNAL, EXIT_USAGE, Explain};
use fsage_model::verify::VerifyResult;

use super::fio::FioError;
use super::there::Failed;
use crate::crash::CrashError;
use crate::filesystem::FileSystemError;
use crate::guest::GuestError;
use crate::image::ImageError;
use crate::lease::LeaseError;
use crate::measure::MeasureError;
use crate::store::StoreError;
use crate::study::StudyError;
use crate::target::TargetError;
use crate::tools::ToolError;
use crate::volume::VolumeError;

/// What ends a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The study is not usable.
    #[error("the study cannot be run")]
    Study(#[from] StudyError),
    /// The store is not usable.
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
    /// A volume of the study can never be had.
    #[error("the volume cannot be used")]
    Volume(#[from] VolumeError),
    /// A file system of the study can never be made.
    #[error("the file system cannot be used")]
    FileSystem(#[from] FileSystemError),
    /// The lease journal cannot be kept: nothing may be taken from the host.
    #[error("leases cannot be kept")]
    Lease(#[from] LeaseError),
    /// No agent can be started.
    #[error("no agent can be started")]
    Target(#[from] TargetError),
    /// Another host of the study cannot be worked on.
    #[error("the target cannot be used")]
    There(#[source] TargetError),
    /// There is no guest.
    #[error("cannot prepare a guest for the study")]
    Guest(#[source] GuestError),
    /// A device may be erased, and it is not said on which of several hosts.
    #[error(
        "study {study} runs on several hosts, and --erase does not say on which of them it names a device"
    )]
    EraseWhere {
        /// Its name.
        study: String,
    },
    /// Wall-clock times of an emulated machine.
    #[error("study {study} cannot run in an emulated guest, whose times are the emulator's: {why}")]
    Emulated {
        /// Its name.
        study: String,
        /// What goes by wall-clock time.
        why: String,
    },
    /// The study reads files that another host of it does not have.
    #[error(
        "{} reads files of this host, which its target {host} does not have:\n{}", study.display(), one_a_line(paths)
    )]
    Sources {
        /// Its file.
        study: PathBuf,
        /// The target.
        host: String,
        /// What it reads.
        paths: Vec<String>,
    },
    /// A trial that was asked for is none of the study's.
    #[error("{} on this node has no trial {id}", study.display())]
    NotPlanned {
        /// Its file.
        study: PathBuf,
        /// The trial.
        id: String,
    },
    /// What failed a trial on another host would fail the others there.
    #[error(transparent)]
    Elsewhere(Failed),
    /// Trials for another host cannot be done.
    #[error("cannot work for another host in {}", root.display())]
    Serve {
        /// The folder.
        root: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Signals cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Signal(String),
    /// The study brings commands of its own, and nobody said that they may run.
    #[error(
        "{} contains commands that would run as root:\n{}", study.display(), one_a_line(commands)
    )]
    Commands {
        /// Its file.
        study: PathBuf,
        /// Them, as a shell would be given them.
        commands: Vec<String>,
    },
    /// The study names what lies outside its folder.
    #[error(
        "{} names files or folders that are neither below its own folder nor below the store:\n{}", study.display(),
        one_a_line(paths)
    )]
    Outside {
        /// Its file.
        study: PathBuf,
        /// Them.
        paths: Vec<String>,
    },
    /// Crash states of the study may not be mounted here.
    #[error("the study cannot be run on this host")]
    OnHost(#[source] CrashError),
    /// Two volumes of the study have sectors in common.
    #[error(
        "{} and {} cannot both be volumes of one study: {what}", first.display(), second.display()
    )]
    Overlap {
        /// A device that it names.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
        /// What they have to do with each other.
        what: &'static str,
    },
    /// More trials at a time than processors.
    #[error("{jobs} trials at a time need a processor each, and fsage may use {processors}")]
    Jobs {
        /// Trials at a time that were asked for.
        jobs: u32,
        /// Processors that this process may use.
        processors: usize,
    },
    /// Trials that would measure each other.
    #[error("trials of study {study} cannot run side by side: {why}")]
    NotBeside {
        /// Its name.
        study: String,
        /// What goes by wall-clock time.
        why: String,
    },
    /// The kernel reported a bug of its own while a trial mounted a crash state: nothing more may be mounted.
    #[error("trial {id} ended the run: the kernel reported a bug of its own")]
    Kernel {
        /// The trial.
        id: String,
    },
    /// Which processors there are cannot be found out.
    #[error("cannot choose processors")]
    Processors(#[from] HostError),
    /// A thread cannot be started.
    #[error("cannot start a thread for a trial")]
    Thread(#[source] std::io::Error),
    /// The folder of the store has no absolute path.
    #[error("cannot find {}", path.display())]
    Path {
        /// Folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn one_a_line(commands: &[String]) -> String {
    commands.iter().map(|command| escape::line(command)).collect::<Vec<_>>().join("\n")
}

impl RunError {
    /// Whether it is the kernel of a guest that does not do: it lacks something, or does not boot.
    #[must_use]
    pub const fn is_of_kernel(&self) -> bool {
        matches!(
            self,
            Self::There(_) | Self::Guest(GuestError::NotBuilt { .. } | GuestError::NoModule { .. })
        )
    }
}

impl Explain for RunError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Study(e) => e.exit_code(),
            Self::Store(e) => e.exit_code(),
            Self::Volume(e) => e.exit_code(),
            Self::FileSystem(e) => e.exit_code(),
            Self::Lease(e) => e.exit_code(),
            Self::Target(e) | Self::There(e) => Explain::exit_code(e),
            Self::OnHost(e) => e.exit_code(),
            Self::Guest(e) => e.exit_code(),
            Self::Emulated { .. }
            | Self::EraseWhere { .. }
            | Self::Sources { .. }
            | Self::NotPlanned { .. }
            | Self::Commands { .. }
            | Self::Outside { .. }
            | Self::Overlap { .. }
            | Self::Jobs { .. }
            | Self::NotBeside { .. } => EXIT_USAGE,
            Self::Kernel { .. } => EXIT_DAMAGE,
            Self::Elsewhere(failed) => failed.exit_code,
            Self::Serve { .. } => EXIT_FAILED,
            Self::Signal(_) | Self::Path { .. } | Self::Processors(_) | Self::Thread(_) => EXIT_INTERNAL,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Study(e) => e.hint(),
            Self::Store(e) => e.hint(),
            Self::Volume(e) => e.hint(),
            Self::FileSystem(e) => e.hint(),
            Self::Lease(e) => e.hint(),
            Self::Target(e) | Self::There(e) => Explain::hint(e),
            Self::OnHost(e) => e.hint(),
            Self::Guest(e) => e.hint(),
            Self::EraseWhere { .. } => {
                Some("run the study once for each host, with --set target=…".to_owned())
            }
            Self::Emulated { .. } => Some(
                "give its volumes a medium and `time = \"model\"`, or use a host with /dev/kvm".to_owned(),
            ),
            Self::Sources { .. } => Some("run this study on this host, or with a generated workload there".to_owned()),
            Self::NotPlanned { .. } => Some(
                "it was changed after the submission, or is another file on this node: submit it again"
                    .to_owned(),
            ),
            Self::Commands { .. } => Some(
                "read them; if you trust the study's author, run it again with --allow-commands".to_owned(),
            ),
            Self::Outside { .. } => Some(crate::study::OUTSIDE_HINT.to_owned()),
            Self::Overlap { .. } => {
                Some("name devices that share nothing: `fsage volume split` makes such partitions".to_owned())
            }
            Self::Jobs { processors: 0 | 1, .. } => Some("leave --jobs out".to_owned()),
            Self::Jobs { processors, .. } => Some(format!("use --jobs {processors} or less")),
            Self::NotBeside { .. } => Some(
                "leave --jobs out, or use virtual disks in model time (`volume.kind = \"disk\"`) for all volumes"
                    .to_owned(),
            ),
            Self::Kernel { .. } => Some(REBOOT.to_owned()),
            Self::Elsewhere(_)
            | Self::Serve { .. }
            | Self::Signal(_)
            | Self::Path { .. }
            | Self::Processors(_)
            | Self::Thread(_) => None,
        }
    }
}

/// What is to be done after a bug of the kernel.
const REBOOT: &str = "reboot before anything else; the trial has the lines of the kernel log";

/// What fails a trial; the others continue.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrialError {
    /// The device.
    #[error("cannot get the volume")]
    Volume(#[from] VolumeError),
    /// The file system.
    #[error("cannot use the file system")]
    FileSystem(#[from] FileSystemError),
    /// The image.
    #[error("cannot keep or restore the volume")]
    Image(#[source] Box<ImageError>),
    /// A measure.
    #[error("cannot measure")]
    Measure(#[source] Box<MeasureError>),
    /// A point of fio.
    #[error("cannot run fio")]
    Fio(#[source] Box<FioError>),
    /// The program of a remedy.
    #[error("cannot apply the remedy")]
    Remedy(#[source] ToolError),
    /// A volume has something by the name of what the program of a remedy makes for itself.
    #[error("`{name}` is on the volume, where {program} would work")]
    InTheWay {
        /// The program.
        program: &'static str,
        /// The name, in the root of the volume.
        name: &'static str,
    },
    /// Crash states.
    #[error("cannot test crash states")]
    Crash(#[from] CrashError),
    /// A `power-cuts` stage on a volume that is no virtual disk; the study's check refuses it before.
    #[error("stage `{stage}` needs a virtual disk")]
    NoDisk {
        /// The stage.
        stage: String,
    },
    /// The load of a stage of power cuts is longer than its disk can remember.
    #[error(
        "stage `{stage}`: the load was stopped, because the disk's memory was full with the requests of its log"
    )]
    LogFull {
        /// Its name.
        stage: String,
    },
    /// The kernel reported a bug of its own while it mounted a crash state; ends the run.
    #[error("the kernel reported a bug of its own: {said}")]
    Kernel {
        /// What it logged.
        said: String,
    },
    /// The agent.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The journal.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The store; ends the run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Blocks that are not what was written.
    #[error("{} of {} blocks are not what was written: {}", bad(.0), .0.good_blocks + bad(.0), first(.0))]
    Damaged(Box<VerifyResult>),
    /// The check after the last unmount.
    #[error("the file system is damaged: {0}")]
    Unclean(String),
    /// There is no guest for it.
    #[error("cannot prepare a guest for the trial")]
    Guest(#[source] Box<GuestError>),
    /// What failed it on another host.
    #[error(transparent)]
    There(Failed),
    /// The user asked to end; the trial is not recorded.
    #[error("interrupted")]
    Interrupted,
}

impl From<ImageError> for TrialError {
    fn from(error: ImageError) -> Self {
        Self::Image(Box::new(error))
    }
}

impl From<FioError> for TrialError {
    fn from(error: FioError) -> Self {
        Self::Fio(Box::new(error))
    }
}

impl From<MeasureError> for TrialError {
    fn from(error: MeasureError) -> Self {
        Self::Measure(Box::new(error))
    }
}

fn bad(result: &VerifyResult) -> u64 {
    result.bad_blocks.values().sum()
}

fn first(result: &VerifyResult) -> String {
    result
        .findings
        .first()
        .map_or_else(String::new, |f| format!("{} at byte {}: {}", f.path, f.offset, f.what))
}

impl TrialError {
    /// Whether a signal to end can be behind it. Damage is damage, and a store or journal that cannot be
    /// written to has to be reported.
    pub(super) const fn may_come_from_a_signal(&self) -> bool {
        match self {
            Self::Volume(_)
            | Self::FileSystem(_)
            | Self::Image(_)
            | Self::Measure(_)
            | Self::Fio(_)
            | Self::Remedy(_)
            | Self::Crash(_)
            | Self::Target(_)
            | Self::Interrupted => true,
            Self::NoDisk { .. }
            | Self::LogFull { .. }
            | Self::Kernel { .. }
            | Self::InTheWay { .. }
            | Self::Lease(_)
            | Self::Store(_)
            | Self::Damaged(_)
            | Self::Unclean(_)
            | Self::Guest(_)
            | Self::There(_) => false,
        }
    }

    /// The error of a trial. What ends the whole run is no such: a store or a journal that cannot be written to cannot
    /// keep the next trials either.
    pub(super) fn of_a_trial(self) -> Result<Self, RunError> {
        match self {
            Self::There(failed) if failed.ends_run => Err(RunError::Elsewhere(failed)),
            Self::Store(error) => Err(error.into()),
            Self::Lease(error) if !matches!(error, LeaseError::Target(_)) => Err(error.into()),
            error => Ok(error),
        }
    }

    /// Whether it [ends the whole run](Self::of_a_trial).
    pub(super) const fn ends_run(&self) -> bool {
        match self {
            Self::Store(_) => true,
            Self::Lease(error) => !matches!(error, LeaseError::Target(_)),
            Self::There(failed) => failed.ends_run,
            _ => false,
        }
    }

    /// Why this host does not take what the trial sets, where that is what failed it.
    ///
    /// # Errors
    /// What says nothing of the trial and would fail others as well: the store, the journal, an agent that is lost, a bug
    /// of the kernel.
    pub(super) fn refusal(self, id: &str) -> Result<Option<String>, RunError> {
        let text = self.text();
        match self.of_a_trial()? {
            Self::Kernel { .. } => Err(RunError::Kernel { id: id.to_owned() }),
            Self::Volume(VolumeError::Lease(error)) if !matches!(error, LeaseError::Target(_)) => {
                Err(error.into())
            }
            Self::Target(error)
            | Self::Lease(LeaseError::Target(error))
            | Self::Volume(VolumeError::Target(error) | VolumeError::Lease(LeaseError::Target(error)))
            | Self::FileSystem(
                FileSystemError::Target(error)
                | FileSystemError::Tool(ToolError::NotRun { source: error, .. }),
            ) if !matches!(error, TargetError::Failed { .. }) => Err(error.into()),
            Self::Volume(_) | Self::FileSystem(_) | Self::Unclean(_) => Ok(Some(text)),
            Self::There(failed) if failed.says_nothing => Err(RunError::Elsewhere(failed)),
            Self::There(failed) => Ok(failed.refusal),
            Self::Guest(error) => Err(RunError::Guest(*error)),
            _ => Ok(None),
        }
    }

    /// Whether a measure found no room on the volume.
    pub(super) fn is_out_of_space(&self) -> bool {
        match self {
            Self::Measure(error) => error.is_out_of_space(),
            Self::There(failed) => failed.no_space,
            _ => false,
        }
    }

    /// Exit code that this failure stands for.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Volume(e) => e.exit_code(),
            Self::FileSystem(e) => e.exit_code(),
            Self::Image(e) => e.exit_code(),
            Self::Measure(e) => e.exit_code(),
            Self::Fio(e) => e.exit_code(),
            Self::Remedy(e) => e.exit_code(),
            Self::Crash(e) => e.exit_code(),
            Self::NoDisk { .. } => EXIT_USAGE,
            Self::Target(e) => Explain::exit_code(e),
            Self::Lease(e) => e.exit_code(),
            Self::Store(e) => e.exit_code(),
            Self::Kernel { .. } | Self::InTheWay { .. } | Self::Damaged(_) | Self::Unclean(_) => EXIT_DAMAGE,
            Self::There(failed) => failed.exit_code,
            Self::Guest(e) => e.exit_code(),
            Self::LogFull { .. } | Self::Interrupted => EXIT_FAILED,
        }
    }

    /// The error with its causes and its hint, in one line.
    pub(super) fn text(&self) -> String {
        self.text_from(self)
    }

    /// The same without what says only where it happened.
    pub(super) fn cause(&self) -> String {
        self.text_from(std::error::Error::source(self).unwrap_or(self))
    }

    fn text_from(&self, error: &dyn std::error::Error) -> String {
        let text = in_one_line(error);
        let hint = match self {
            Self::Volume(e) => e.hint(),
            Self::FileSystem(e) => e.hint(),
            Self::Image(e) => e.hint(),
            Self::Measure(e) => e.hint(),
            Self::Fio(e) => e.hint(),
            Self::Remedy(e) => e.hint(),
            Self::Crash(e) => e.hint(),
            Self::NoDisk { .. } => Some("give the volume a `medium`".to_owned()),
            Self::LogFull { .. } => Some(
                "give the volume more `memory` or a `spill` folder, make the load shorter, or run fewer trials at a time (`--jobs`)"
                    .to_owned(),
            ),
            Self::InTheWay { .. } => Some(
                "no program of fsage leaves it: an image of the store was changed, or the program was killed; remove the store's `images` \
                 and run it again"
                    .to_owned(),
            ),
            Self::Kernel { .. } => Some(REBOOT.to_owned()),
            Self::Target(e) => Explain::hint(e),
            Self::Guest(e) => e.hint(),
            _ => None,
        };
        match hint {
            Some(hint) => format!("{text} ({hint})"),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fio::FioOutputError;

    #[test]
    fn a_job_of_fio_without_room_is_out_of_space() {
        let reported = |error| {
            let job = FioOutputError::Job { job: "x".to_owned(), error };
            TrialError::from(MeasureError::from(job)).is_out_of_space()
        };
        assert!(reported(28) && !reported(5));
        assert!(!TrialError::Interrupted.is_out_of_space());
    }
}
