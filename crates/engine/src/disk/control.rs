//! Asking a disk at its control socket: see [`fsage_model::disk::call`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_model::disk::call::{Answer, Call, Command};
use fsage_model::protocol::{Failure, FailureKind};
use fsage_sys::line_socket;

/// How long a disk may take to answer. It answers from memory, but for `save-log`; a snapshot of a large one
/// takes longest.
const LIMIT: Duration = Duration::from_secs(60);

/// Why a disk could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody answers at the socket.
    #[error("cannot ask the disk at {}", socket.display())]
    Silent {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What came back is not what it must be.
    #[error("the disk at {} sent an invalid answer", socket.display())]
    Answer {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The disk does not do it.
    #[error("the disk refuses: {message}")]
    Refused {
        /// What it said.
        message: String,
        /// The next step, as the disk knows it; may be empty.
        hint: String,
    },
}

impl ControlError {
    /// The next step; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Silent { .. } => {
                "check with `fsage disk ls` whether it is up; `fsage clean` removes a dead one".to_owned()
            }
            Self::Answer { .. } => "fsage-agent and fsage-disk must be of the same version".to_owned(),
            Self::Refused { hint, .. } => hint.clone(),
        }
    }

    /// What kind of failure it is.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Silent { .. } => FailureKind::Failed,
            Self::Answer { .. } => FailureKind::Internal,
            Self::Refused { .. } => FailureKind::Usage,
        }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let errno = match &error {
            ControlError::Silent { source, .. } => source.raw_os_error(),
            _ => None,
        };
        Self { message: crate::host::chain(&error), hint: error.hint(), errno, kind: error.kind() }
    }
}

/// Asks once.
pub(super) fn ask<C: Call>(socket: &Path, call: C) -> Result<C::Reply, ControlError> {
    let line = converse(socket, &call.into())
        .map_err(|source| ControlError::Silent { socket: socket.to_owned(), source })?;
    Answer::read(&line).map_err(|source| ControlError::Answer { socket: socket.to_owned(), source })?.map_err(
        |refusal| ControlError::Refused { message: refusal.error, hint: refusal.hint.unwrap_or_default() },
    )
}

fn converse(socket: &Path, command: &Command) -> std::io::Result<String> {
    // A log is written to its file, or every byte of it is read to plan states, before the answer comes, however long it is.
    let limit =
        if matches!(command, Command::SaveLog(_) | Command::BeginCrash(_)) { None } else { Some(LIMIT) };
    line_socket::ask(socket, &serde_json::to_string(command)?, limit)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::thread::JoinHandle;

    use fsage_model::disk::call::{self, SnapshotId};

    use super::*;

    /// A disk that gives these answers, one a connection, and then what it was asked.
    pub fn scripted(socket: &Path, answers: &[&str]) -> JoinHandle<Vec<String>> {
        let listener = UnixListener::bind(socket).unwrap();
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        std::thread::spawn(move || {
            answers
                .iter()
                .map(|answer| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut line = String::new();
                    BufReader::new(&stream).read_line(&mut line).unwrap();
                    stream.write_all(answer.as_bytes()).unwrap();
                    line
                })
                .collect()
        })
    }

    #[test]
    fn one_line_for_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        let disk = scripted(
            &socket,
            &[
                "{\"ok\":{\"snapshot\":1}}\n",
                "{\"error\":\"no\",\"hint\":\"yes\"}\n",
                "nonsense\n",
                "{\"ok\":",
            ],
        );
        assert_eq!(ask(&socket, call::Snapshot).unwrap().snapshot, SnapshotId(1));
        let refused = ask(&socket, call::Snapshot).unwrap_err();
        assert_eq!((refused.to_string().as_str(), refused.hint().as_str()), ("the disk refuses: no", "yes"));
        assert!(matches!(ask(&socket, call::Snapshot), Err(ControlError::Answer { .. })));
        assert!(matches!(ask(&socket, call::Snapshot), Err(ControlError::Silent { .. })));
        assert_eq!(disk.join().unwrap(), vec!["{\"command\":\"snapshot\"}\n"; 4]);
    }

    #[test]
    fn nobody_there_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let error = ask(&folder.path().join("control"), call::Rest).unwrap_err();
        assert!(matches!(error, ControlError::Silent { .. }) && error.hint().contains("disk ls"));
    }
}
