//! What goes wrong with a file system, and what to do then.

use fsage_model::problem::{EXIT_USAGE, Explain, exit_code_of};
use fsage_model::protocol::FailureKind;
use fsage_model::size::Bytes;

use super::mount_option;
use super::parameter::ParameterError;
use crate::target::TargetError;
use crate::tools::ToolError;

/// Why a file system was refused, or could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileSystemError {
    /// No driver of that name.
    #[error("no file system `{kind}`{}", near(.suggestion.as_ref()))]
    UnknownKind {
        /// Name given.
        kind: String,
        /// Nearest right one.
        suggestion: Option<String>,
        /// All there are.
        known: Vec<String>,
    },
    /// A description that takes the name of a built-in driver.
    #[error("`[driver.{name}]`: {name} is a built-in driver")]
    Taken {
        /// The name.
        name: String,
    },
    /// A description that is invalid.
    #[error("`{key}` of `[driver.{driver}]` {what}")]
    Description {
        /// Name of the described driver.
        driver: String,
        /// Key in its table.
        key: String,
        /// What is wrong.
        what: String,
    },
    /// A mkfs parameter.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A mount option.
    #[error("mount option `{option}` of {driver}: {why}")]
    MountOption {
        /// Driver.
        driver: String,
        /// Option given.
        option: String,
        /// Why it is refused.
        why: String,
    },
    /// The bare device was given options.
    #[error("`bare` is not a file system: it has neither mkfs parameters nor mount options")]
    BareOptions,
    /// The volume is too small.
    #[error("{kind} needs a volume of at least {}, this one has {}", Bytes(*.minimum_bytes), Bytes(*.volume_bytes))]
    TooSmall {
        /// Driver.
        kind: String,
        /// Smallest volume.
        minimum_bytes: u64,
        /// This volume.
        volume_bytes: u64,
    },
    /// The kernel cannot mount it.
    #[error("the kernel has no file system `{mount_type}`")]
    Kernel {
        /// Type given to mount(2).
        mount_type: String,
    },
    /// A program did not do its work.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The agent could not do it.
    #[error(transparent)]
    Target(#[from] TargetError),
}

fn near(suggestion: Option<&String>) -> String {
    suggestion.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

impl Explain for FileSystemError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Kernel { .. } => exit_code_of(FailureKind::Missing),
            Self::Tool(error) => exit_code_of(error.kind()),
            Self::Target(error) => exit_code_of(error.kind()),
            _ => EXIT_USAGE,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKind { known, .. } => {
                Some(format!("file systems: {}; describe others in `[driver.NAME]`", known.join(", ")))
            }
            Self::Taken { .. } => Some("give the described driver another name".to_owned()),
            Self::BareOptions => Some("remove `file_system.options.bare`".to_owned()),
            Self::Parameter(ParameterError::Unknown { .. } | ParameterError::Elsewhere { .. }) => {
                Some("docs/file-systems.md lists the parameters of every driver".to_owned())
            }
            Self::TooSmall { minimum_bytes, .. } => {
                Some(format!("set volume.size to {} or more", Bytes(*minimum_bytes)))
            }
            Self::Kernel { mount_type } => Some(format!(
                "load it with `modprobe {mount_type}`, or boot a kernel that has it; `fsage doctor` lists what this one has"
            )),
            Self::Tool(error) => error.hint(),
            Self::Target(error) => error.hint(),
            Self::MountOption { driver, .. } => Some(mount_option::hint(driver)),
            Self::Description { .. } | Self::Parameter(_) => None,
        }
    }
}
