//! Why the power of a board could not be cut again.

use std::path::PathBuf;

use fsage_model::problem::{EXIT_DAMAGE, EXIT_FAILED, EXIT_MISSING, EXIT_USAGE, Explain};

use crate::store::StoreError;
use crate::study::StudyError;

/// Why the power of a board could not be cut again.
#[derive(Debug, thiserror::Error)]
pub enum PowerCycleError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is invalid.
    #[error(transparent)]
    File(#[from] StudyError),
    /// The record is of a file that said something else.
    #[error("{} is the record of another version of the file", path.display())]
    Changed {
        /// Folder of the record.
        path: PathBuf,
    },
    /// There is no record yet.
    #[error("there is no record in {}", path.display())]
    NoRecord {
        /// Its folder.
        path: PathBuf,
    },
    /// The record cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of the record is not what was written.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A program is not there.
    #[error("there is no program `{program}` for `{step}`")]
    Missing {
        /// Key of the command.
        step: &'static str,
        /// The program.
        program: String,
    },
    /// A program cannot be run.
    #[error("cannot run `{command}`")]
    Run {
        /// Its command line.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// The boot id is the same after the cut.
    #[error(
        "`power_off` did not cut the power: `boot_id` printed `{boot_id}` before and after it, so the board did not boot"
    )]
    NotCut {
        /// It.
        boot_id: String,
    },
    /// The file system on the device is not that of the next cycle.
    #[error(
        "the device was prepared for configuration `{configuration}` after the last recorded cycle, and the next cycle is of another one"
    )]
    Prepared {
        /// The configuration.
        configuration: String,
    },
    /// The board does not come back.
    #[error("the board did not answer within {seconds} s after `power_on`: {said}")]
    NoBoot {
        /// The limit.
        seconds: f64,
        /// What the last try said.
        said: String,
    },
    /// A command whose failure is no damage failed.
    #[error("`{step}` failed with status {status}: {said}")]
    Failed {
        /// Key of the command.
        step: &'static str,
        /// Its exit status.
        status: i32,
        /// Its last line.
        said: String,
    },
    /// The same, and it did not end.
    #[error("`{step}` did not end within {seconds} s")]
    Late {
        /// Key of the command.
        step: &'static str,
        /// The limit.
        seconds: f64,
    },
    /// The same, and it cannot be ended.
    #[error("`{step}` timed out and could not be ended (pid {pid})")]
    Stuck {
        /// Key of the command.
        step: &'static str,
        /// Its process.
        pid: u32,
    },
    /// The commands find fault with a file system that no cut has met.
    #[error("`{step}` rejects the file system before its first power cut: {reason}")]
    Unfit {
        /// Key of the command.
        step: String,
        /// Why.
        reason: String,
    },
    /// Whether the file system that a resumed run continues with is damaged cannot be known.
    #[error("`{step}` gives no verdict on the file system that the run continues with: {reason}")]
    Undecided {
        /// Key of the command.
        step: String,
        /// Why.
        reason: String,
    },
    /// The load acknowledges a line that is too long.
    #[error("the load acknowledged a line of more than {bytes} bytes")]
    LongLine {
        /// The limit.
        bytes: usize,
    },
    /// The load acknowledges what is no text.
    #[error("the load acknowledged a line that is not UTF-8")]
    NotText,
    /// The user wants it to end.
    #[error("interrupted")]
    Interrupted,
}

impl Explain for PowerCycleError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Read { .. } | Self::Changed { .. } | Self::NoRecord { .. } => EXIT_USAGE,
            Self::File(error) => error.exit_code(),
            Self::Store(error) => error.exit_code(),
            Self::Damaged { .. } => EXIT_DAMAGE,
            Self::Missing { .. } => EXIT_MISSING,
            _ => EXIT_FAILED,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Read { source, .. } if fsage_sys::new_file::ForeignFolder::is(source) => {
                "root would run its commands: copy it to a folder of yours, or add --allow-foreign-owner if you trust that user"
            }
            Self::Read { source, .. } => fsage_sys::input::Unfit::hint(source)
                .unwrap_or("name the TOML file of a board (docs/power-cycle.md)"),
            Self::File(error) => return Explain::hint(error),
            Self::Store(error) => return Explain::hint(error),
            Self::Changed { .. } => {
                "only `cycles` and `timeout` may change during a record; give the file another `name`, or another --store"
            }
            Self::Damaged { .. } => {
                "restore the folder of the record from a copy, or give the file another `name` to begin a new record"
            }
            Self::Stuck { .. } => {
                "check what it waits for and whether it runs as another user, and end it; then run this again: it resumes"
            }
            Self::NoRecord { .. } => "run it without --report first, or name its --store",
            Self::Missing { .. } => {
                "install it, or correct the path: relative paths start at the file's folder"
            }
            Self::Prepared { .. } => {
                "omit --cycles, or give the earlier number, to continue with the configuration that was prepared"
            }
            Self::NotCut { .. } => {
                "check what `power_off` switches, and whether the board has another supply; the cycle does not count"
            }
            Self::NoBoot { .. } => {
                "check why it does not boot; give it more time with `boot_s` below [timeout]"
            }
            Self::Late { step, .. } => {
                return Some(format!(
                    "run the command `{step}` by hand; [timeout] gives it more time; then run this again: it resumes"
                ));
            }
            Self::Failed { step, .. } => {
                return Some(format!("run the command `{step}` by hand; then run this again: it resumes"));
            }
            Self::Undecided { step, .. } => {
                return Some(format!("run the command `{step}` by hand; then run this again: it resumes"));
            }
            Self::Unfit { .. } => {
                "the commands must accept what `prepare` makes while nothing is acknowledged"
            }
            Self::LongLine { .. } | Self::NotText => "acknowledge a number or a name, not the data",
            Self::Run { .. } | Self::Interrupted => return None,
        };
        Some(text.to_owned())
    }
}
