//! Why there is no guest, with exit code and hint.

use std::path::PathBuf;

use fsage_model::problem::{EXIT_FAILED, EXIT_INTERNAL, EXIT_MISSING, EXIT_USAGE, Explain};
use fsage_model::study::Architecture;

use crate::target::TargetError;
use crate::tools::ToolError;

/// Why there is no guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// No kernel of that version was fetched.
    #[error("there is no kernel `{name}` for {}guests", architecture.map(|found| format!("{} ", found.name())).unwrap_or_default())]
    NoKernel {
        /// As the study names it.
        name: String,
        /// Of the guests, where it is not this host's.
        architecture: Option<Architecture>,
    },
    /// Something for guests of another architecture was not fetched.
    #[error("{what} for {} guests: not fetched", architecture.name())]
    NotFetched {
        /// What.
        what: String,
        /// Of the guests.
        architecture: Architecture,
        /// Their kernel.
        release: String,
    },
    /// A package did not come with those that were asked for.
    #[error("package `{name}` was not downloaded")]
    NotDownloaded {
        /// Its name.
        name: String,
    },
    /// No package can have such a name.
    #[error("{name:?} is not the name of a package")]
    PackageName {
        /// As it was given.
        name: String,
    },
    /// The distribution has no such kernel.
    #[error("the distribution has no kernel {version}{}", known_in_words(known))]
    NoPackage {
        /// What was asked for.
        version: String,
        /// Releases that it has.
        known: Vec<String>,
    },
    /// A tree, or a package, lacks something.
    #[error("{} lacks {lacks}", tree.display())]
    NotBuilt {
        /// Folder.
        tree: PathBuf,
        /// What.
        lacks: String,
    },
    /// The kernel has no module of that name.
    #[error("kernel {release} has no module `{module}`")]
    NoModule {
        /// Its name.
        module: String,
        /// The kernel.
        release: String,
    },
    /// A program for the guest is not installed here.
    #[error("`{program}`, which the guest needs, is not installed here")]
    NoProgram {
        /// Its name.
        program: String,
    },
    /// Guests of this kind of processor are not known.
    #[error("guests run on x86_64 hosts only")]
    Processor,
    /// QEMU is not installed.
    #[error("`{program}` is not installed")]
    NoQemu {
        /// Its name.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The state of a guest that has booted cannot be saved.
    #[error("cannot save the state of the guest in {}", path.display())]
    Save {
        /// Folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A program of the host failed.
    #[error("cannot prepare a guest")]
    Tool(#[from] ToolError),
    /// Our own programs are not there.
    #[error("cannot prepare a guest")]
    Own(#[from] TargetError),
    /// The first process of a guest could not do its work.
    #[error("cannot {what}")]
    Boot {
        /// What.
        what: String,
        /// Why.
        source: std::io::Error,
    },
}

fn known_in_words(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(" (it has {})", known.join(", ")) }
}

impl Explain for GuestError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoKernel { .. }
            | Self::NotFetched { .. }
            | Self::NoProgram { .. }
            | Self::NoQemu { .. }
            | Self::NoModule { .. }
            | Self::Processor => EXIT_MISSING,
            Self::NoPackage { .. }
            | Self::NotDownloaded { .. }
            | Self::PackageName { .. }
            | Self::NotBuilt { .. } => EXIT_USAGE,
            Self::Read { .. } | Self::Write { .. } | Self::Save { .. } => EXIT_FAILED,
            Self::Tool(error) => error.exit_code(),
            Self::Own(error) => Explain::exit_code(error),
            Self::Boot { .. } => EXIT_INTERNAL,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoKernel { name, .. } if name.starts_with('/') => None,
            Self::NoKernel { name, architecture } => {
                let option = architecture.map(|found| format!(" --architecture {}", found.name()));
                let option = option.unwrap_or_default();
                Some(format!(
                    "`fsage kernel fetch {name}{option}` fetches it; `fsage kernel list` lists the fetched ones"
                ))
            }
            Self::NotFetched { architecture, release, .. } => {
                let name = architecture.name();
                Some(format!(
                    "`fsage kernel fetch {release} --architecture {name}` fetches programs of file systems, with `--package NAME` also others"
                ))
            }
            Self::NoPackage { known, .. } if known.is_empty() => Some(
                "look whether the package sources of this host (`/etc/apt`) have it for this architecture"
                    .to_owned(),
            ),
            Self::NotDownloaded { .. } => Some(
                "name a package, not one that others provide; packages of `file:` sources are not copied"
                    .to_owned(),
            ),
            Self::PackageName { .. } => Some("lower case, digits and + - .".to_owned()),
            Self::NoModule { .. } => {
                Some("use another kernel: cloud kernels lack file systems (`fsage kernel list`)".to_owned())
            }
            Self::NoProgram { program } => {
                Some(fsage_engine::host::program::package_of(program).map_or_else(
                    || "install it here: guests use the programs of this host".to_owned(),
                    |package| format!("install it with `apt-get install {package}`"),
                ))
            }
            Self::NoQemu { package, .. } => Some(format!("install it with `apt-get install {package}`")),
            Self::Tool(error) => error.hint(),
            Self::Own(error) => Explain::hint(error),
            Self::Processor
            | Self::NoPackage { .. }
            | Self::NotBuilt { .. }
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Save { .. }
            | Self::Boot { .. } => None,
        }
    }
}
