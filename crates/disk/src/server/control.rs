//! What can be asked of a running server.
//!
//! One connection to the socket is one question and one answer, each a line of JSON:
//!
//! ```text
//! {"command":"stat"}                            {"ok":{…}}
//! {"command":"save-log","file":"/tmp/log"}      {"ok":{"entries":1234,…}}
//! {"command":"down"}                            {"error":"the disk is in use","hint":"…"}
//! ```

use std::path::PathBuf;

use fsage_model::fault::FaultSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ProcessRecord;
use crate::disk;
use crate::export::fuse::Transport;
use crate::export::{DelayError, DiskTime, GateCounts};
use crate::store::SnapshotId;

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Everything the server knows about itself and its disk: [`Stat`].
    Stat,
    /// Bring the medium to rest, in model time: its buffer written, and what follows independent of what was before.
    Rest,
    /// Keep the present contents: `{"snapshot": number}`.
    Snapshot,
    /// Let the disk hold again what a snapshot holds. Nothing may be mounted on it: the kernel would not know. A log that was
    /// kept ends.
    Revert {
        /// Its number.
        snapshot: SnapshotId,
    },
    /// Forget a snapshot.
    DeleteSnapshot {
        /// Its number.
        snapshot: SnapshotId,
    },
    /// Keep a log of every request from now on; one that was kept before is dropped.
    StartLog,
    /// Drop the log.
    EndLog,
    /// Give the present position in the log a name.
    Mark {
        /// One line.
        name: String,
    },
    /// Write the log, as long as it is now, to a file that does not exist yet. Requests go on meanwhile.
    SaveLog {
        /// Where; absolute.
        file: PathBuf,
        /// Without what was written, only what was asked.
        #[serde(default)]
        without_data: bool,
    },
    /// Bring faults into the disk in the place of those it has.
    SetFaults {
        /// Which.
        faults: FaultSpec,
    },
    /// Take the faults out again: the disk holds every byte that it was given.
    ClearFaults,
    /// Unmount and end. Refused while the disk is in use.
    Down,
}

/// The answer: `ok`, or `error` with what helps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<Value>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Answer {
    /// It was done.
    #[must_use]
    pub fn done(value: Value) -> Self {
        Self { ok: Some(value), ..Self::default() }
    }

    /// It was not done, because of `error` and what caused it.
    #[must_use]
    pub fn failed(error: &dyn std::error::Error, hint: Option<String>) -> Self {
        Self { ok: None, error: Some(chain(error)), hint }
    }
}

/// An error and its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// The server.
    pub process: ProcessRecord,
    /// What the disk is made of, as it was asked for.
    pub medium: String,
    /// Whether answers take the medium's time.
    pub time: DiskTime,
    /// How requests come, of FUSE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Clients of the network block device, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd_clients: Option<usize>,
    /// The disk: its clock, requests, contents, and what its medium and its faults counted.
    pub disk: disk::Stat,
    /// What went through the gate.
    pub gate: GateCounts,
    /// How exact the delays are, in real time.
    pub delay_error: DelayError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_small_objects() {
        let asked = |text| serde_json::from_str::<Command>(text);
        assert_eq!(asked(r#"{"command":"stat"}"#).unwrap(), Command::Stat);
        let wanted = Command::Revert { snapshot: SnapshotId(3) };
        assert_eq!(asked(r#"{"command":"revert","snapshot":3}"#).unwrap(), wanted);
        let wanted = Command::SaveLog { file: "/a".into(), without_data: false };
        assert_eq!(asked(r#"{"command":"save-log","file":"/a"}"#).unwrap(), wanted);
        for bad in [
            r#"{"command":"fly"}"#,
            "{}",
            "",
            r#"{"command":"revert"}"#,
            r#"{"command":"save-log","file":"/a","more":1}"#,
        ] {
            assert!(asked(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn answers_say_only_what_there_is() {
        let text = |answer: &Answer| serde_json::to_string(answer).unwrap();
        assert_eq!(text(&Answer::done(Value::Null)), r#"{"ok":null}"#);
        let error = std::io::Error::other("no");
        let failed = Answer::failed(&error, Some("yes".to_owned()));
        assert_eq!(text(&failed), r#"{"error":"no","hint":"yes"}"#);
    }
}
