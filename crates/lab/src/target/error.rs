//! Why an agent could not be started or asked.

use std::path::PathBuf;

use fsage_engine::frame::FrameError;
use fsage_model::protocol::{Failure, FailureKind, PROTOCOL_VERSION};

/// Why an agent could not be started, or what it answered instead of a reply.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No agent binary was found.
    #[error("the program fsage-agent was not found (searched {})", list(looked))]
    Missing {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// It did not start.
    #[error("cannot start {}", path.display())]
    Start {
        /// The binary.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It speaks another version of the protocol.
    #[error("the agent {version} speaks protocol {theirs}, this program speaks {PROTOCOL_VERSION}")]
    Version {
        /// The agent's protocol.
        theirs: u32,
        /// The agent's version.
        version: String,
    },
    /// The agent, or the connection to it, died.
    #[error("the agent was lost during {request} ({status}); last seen: {last}{}", tail(stderr))]
    Lost {
        /// Name of the request that ran.
        request: String,
        /// How the agent ended.
        status: String,
        /// The last thing it said.
        last: String,
        /// Last lines of its standard error.
        stderr: String,
    },
    /// There is no program `ssh`.
    #[error("the program ssh was not found")]
    NoSsh,
    /// Another host cannot be worked on.
    #[error("cannot work on {host}: {said}")]
    Unreachable {
        /// Which host.
        host: String,
        /// What `ssh`, or the shell there, said.
        said: String,
    },
    /// What another host sent cannot be used.
    #[error("invalid data from {host}: {what}")]
    Nonsense {
        /// Which host.
        host: String,
        /// What is wrong with it.
        what: String,
    },
    /// There is no program for the target's processor.
    #[error("there is no {program} for {machine} processors")]
    Machine {
        /// The name of the file that was looked for.
        program: String,
        /// What `uname -m` says there.
        machine: String,
    },
    /// The request could not be sent.
    #[error("cannot ask the agent for {request}")]
    Send {
        /// Name of the request.
        request: String,
        /// Why.
        source: FrameError,
    },
    /// The agent answered with something that is no reply to the request.
    #[error("the agent sent an unexpected answer to {request}")]
    Unexpected {
        /// Name of the request.
        request: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The request failed on the target.
    #[error("{request} failed")]
    Failed {
        /// Name of the request.
        request: String,
        /// What the agent said.
        #[source]
        failure: Failure,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn tail(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; it said: {stderr}") }
}

/// The next step by what `ssh` or the shell of the other host said; their texts are in English always where `ssh`
/// itself speaks.
fn unreachable_hint(said: &str) -> &'static str {
    let has = |text: &str| said.contains(text);
    if has("Host key verification failed") || has("host key is known") {
        "connect once by hand, as the user who runs fsage (`sudo ssh …`), and compare the key that it shows, or name a file of `known_hosts`"
    } else if has("Permission denied (") {
        "name the key with `identity` (root has keys and an SSH agent of its own), and check that the user may log in there"
    } else if has(super::ssh::NOT_ROOT) || has("sudo:") {
        "let `user` be root, or set `sudo = true` for a user who may run `sudo` without a password"
    } else if has("No space left") || has("Read-only file system") || has("mktemp:") {
        "name a `directory` there with room for programs, loop files and results"
    } else {
        "check that `ssh` reaches it by hand, and that it has sh, uname, id, mktemp, head, wc, rm and chmod"
    }
}

impl TargetError {
    /// What kind of failure this is, which settles the exit code.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Missing { .. }
            | Self::Start { .. }
            | Self::NoSsh
            | Self::Unreachable { .. }
            | Self::Machine { .. } => FailureKind::Missing,
            Self::Version { .. } => FailureKind::Usage,
            Self::Lost { .. } | Self::Nonsense { .. } => FailureKind::Failed,
            Self::Send { .. } | Self::Unexpected { .. } => FailureKind::Internal,
            Self::Failed { failure, .. } => failure.kind,
        }
    }

    /// The next step for the user; `None` when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => {
                Some("install fsage-agent beside fsage, or name it with FSAGE_AGENT".to_owned())
            }
            Self::Start { .. } => Some("check that the file is executable here".to_owned()),
            Self::Version { .. } => Some("install fsage and fsage-agent of the same version".to_owned()),
            Self::Lost { .. } => {
                Some("run the study again: it resumes; `fsage clean` releases what is left".to_owned())
            }
            Self::NoSsh => Some("install it with `apt-get install openssh-client`".to_owned()),
            Self::Unreachable { host, .. } if host.starts_with("guest ") => {
                Some("give it more `memory`, or another `kernel` (`fsage kernel list`; docs/targets.md says what a kernel of your own needs)".to_owned())
            }
            Self::Unreachable { said, .. } => Some(unreachable_hint(said).to_owned()),
            Self::Machine { program, .. } => Some(format!(
                "build fsage for it (`make aarch64` for 64-bit ARM) and put it beside this program as {program} (docs/targets.md)"
            )),
            Self::Failed { failure, .. } if !failure.hint.is_empty() => Some(failure.hint.clone()),
            Self::Nonsense { .. } => Some("run the study again: it resumes".to_owned()),
            Self::Send { .. } | Self::Unexpected { .. } | Self::Failed { .. } => None,
        }
    }

    /// The errno behind it, where there is one.
    #[must_use]
    pub const fn errno(&self) -> Option<i32> {
        match self {
            Self::Failed { failure, .. } => failure.errno,
            _ => None,
        }
    }
}

impl fsage_model::problem::Explain for TargetError {
    fn exit_code(&self) -> u8 {
        fsage_model::problem::exit_code_of(self.kind())
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}
