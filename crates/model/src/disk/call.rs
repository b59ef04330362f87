//! What can be asked of the server of a virtual disk, each call a type that names its reply.
//!
//! One connection to the socket is one question and one answer, each a line of JSON:
//!
//! ```text
//! {"command":"stat"}                            {"ok":{…}}
//! {"command":"save-log","file":"/tmp/log"}      {"ok":{"entries":1234,…}}
//! {"command":"down"}                            {"error":"the disk is in use","hint":"…"}
//! ```

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::ServerStat;
use crate::calls::calls;
use crate::cause::in_one_line;
use crate::crash::{BlockLog, CrashCoverage, CrashSpec, CrashState, ShownState};
use crate::fault::FaultSpec;

/// A question to a disk and what it is answered with.
pub trait Call: Into<Command> {
    /// What comes back.
    type Reply: Serialize + DeserializeOwned;
}

/// What does a call in the server.
pub trait Handle<C: Call> {
    /// Does it.
    ///
    /// # Errors
    /// It is refused.
    fn handle(&self, call: C) -> Result<C::Reply, Refusal>;
}

/// Why a disk does not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, with its causes.
    pub error: String,
    /// The next step.
    pub hint: Option<String>,
}

impl Refusal {
    /// Because of `error` and what caused it.
    #[must_use]
    pub fn because(error: &dyn std::error::Error, hint: Option<String>) -> Self {
        Self { error: in_one_line(error), hint }
    }
}

/// The answer to a call, as its line says it: `ok`, or `error` with what helps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct Answer<T> {
    /// What was asked for.
    #[serde(default = "none", deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    ok: Option<T>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

const fn none<T>() -> Option<T> {
    None
}

/// A `null` is an answer too: that of everything that has nothing to say.
fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(input: D) -> Result<Option<T>, D::Error> {
    T::deserialize(input).map(Some)
}

impl<T> From<Result<T, Refusal>> for Answer<T> {
    fn from(result: Result<T, Refusal>) -> Self {
        match result {
            Ok(reply) => Self { ok: Some(reply), error: None, hint: None },
            Err(Refusal { error, hint }) => Self { ok: None, error: Some(error), hint },
        }
    }
}

impl<T: Serialize + DeserializeOwned> Answer<T> {
    /// The line.
    #[must_use]
    pub fn line(&self) -> String {
        let text = serde_json::to_string(self)
            .or_else(|error| serde_json::to_string(&Self::from(Err(Refusal::because(&error, None)))));
        text.unwrap_or_default() + "\n"
    }

    /// What a line says.
    ///
    /// # Errors
    /// It is no answer to the call.
    pub fn read(line: &str) -> serde_json::Result<Result<T, Refusal>> {
        let Self { ok, error, hint } = serde_json::from_str(line)?;
        match (ok, error) {
            (_, Some(error)) => Ok(Err(Refusal { error, hint })),
            (Some(reply), None) => Ok(Ok(reply)),
            (None, None) => Err(serde::de::Error::missing_field("ok")),
        }
    }
}

fn line<C: Call>(result: Result<C::Reply, Refusal>) -> String {
    Answer::from(result).line()
}

calls! {
    /// A question: any call.
    Command, "command", line -> String;

    /// Everything the server knows about itself and its disk.
    Stat -> ServerStat;
    /// Bring the medium to rest, in model time: its buffer written, and what follows independent of what was
    /// before.
    Rest -> ();
    /// Keep the present contents.
    Snapshot -> Kept;
    /// Let the disk hold again what a snapshot holds. Nothing may be mounted on it: the kernel would not
    /// know. A log that was kept ends.
    Revert {
        /// Its number.
        snapshot: SnapshotId,
    } -> ();
    /// Forget a snapshot.
    DeleteSnapshot {
        /// Its number.
        snapshot: SnapshotId,
    } -> ();
    /// Keep a log of every request from now on; one that was kept before is dropped.
    StartLog {
        /// An eighth of the disk's memory is left for what will be written to crash states.
        #[serde(default)]
        for_states: bool,
    } -> ();
    /// Drop the log.
    EndLog -> ();
    /// Give the present position in the log a name.
    Mark {
        /// One line.
        name: String,
    } -> Marked;
    /// When self-describing blocks were written and the disk flushed, by the log. Cost: every byte in the log is
    /// read.
    Blocks -> BlockLog;
    /// Plan crash states of the log, and show them from now on in the place of what the disk holds: nothing may
    /// be mounted on it, before and between two states. What is written to a state is dropped with it.
    BeginCrash {
        /// Which.
        spec: CrashSpec,
    } -> CrashCoverage;
    /// Show the next of the planned states; none is left where there is no answer.
    NextCrash -> Option<ShownState>;
    /// Show this state, planned or not.
    ShowCrash {
        /// Which.
        state: CrashState,
    } -> ();
    /// Whether something that was written to the state that is shown failed because the disk's memory was full, which
    /// is no fault of who wrote it.
    StateRanOut -> bool;
    /// Show what the disk holds again.
    EndCrash -> ();
    /// Write the log, as long as it is now, to a file that does not exist yet. Requests continue meanwhile.
    SaveLog {
        /// Where; absolute.
        file: PathBuf,
        /// Without what was written, only what was asked.
        #[serde(default)]
        without_data: bool,
    } -> Converted;
    /// Bring faults into the disk in the place of those it has.
    SetFaults {
        /// Which.
        faults: FaultSpec,
    } -> ();
    /// Take the faults out again: the disk holds every byte that it was given.
    ClearFaults -> ();
    /// Give answers this much earlier than the medium's time, in real time: what the way between the block device and the
    /// server takes.
    SetLead {
        /// Nanoseconds, at most [`MOST_LEAD_NS`].
        lead_ns: u64,
    } -> ();
    /// Unmount and end. Refused while the disk is in use.
    Down -> ();
}

/// Longest [`SetLead`]: a host whose way to the server takes longer is too busy to stand in for a drive.
pub const MOST_LEAD_NS: u64 = 1_000_000;

/// A snapshot that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its number.
    pub snapshot: SnapshotId,
}

/// A position that was given a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// Requests in the log before it.
    pub position: u64,
    /// The log or what it holds took the most memory that it may: nothing more is logged, and changes fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
}

/// Name of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SnapshotId(pub u32);

/// What became of the entries on their way into another format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Converted {
    /// Entries that were written, in whatever number of pieces.
    pub entries: u64,
    /// Marks that were written.
    pub marks: u64,
    /// Reads left out: the format has none.
    pub reads_left_out: u64,
    /// Requests left out because they failed: the format cannot say so.
    pub failed_left_out: u64,
    /// Flushes left out because the disk ignored them: they ordered nothing.
    pub ignored_flushes_left_out: u64,
    /// Zeroings written as writes: the format does not tell them apart.
    pub zeroes_as_writes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_small_objects() {
        let asked = |text| serde_json::from_str::<Command>(text);
        assert_eq!(asked(r#"{"command":"stat"}"#).unwrap(), Stat.into());
        let wanted = Revert { snapshot: SnapshotId(3) };
        assert_eq!(asked(r#"{"command":"revert","snapshot":3}"#).unwrap(), wanted.into());
        let wanted = SaveLog { file: "/a".into(), without_data: false };
        assert_eq!(asked(r#"{"command":"save-log","file":"/a"}"#).unwrap(), wanted.into());
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
    fn answers_say_only_what_there_is_and_are_read_back() {
        let done = Ok(());
        assert_eq!(Answer::from(done.clone()).line(), "{\"ok\":null}\n");
        assert_eq!(Answer::read("{\"ok\":null}\n").unwrap(), done);
        let refused: Result<Kept, _> =
            Err(Refusal::because(&std::io::Error::other("no"), Some("yes".to_owned())));
        let text = "{\"error\":\"no\",\"hint\":\"yes\"}\n";
        assert_eq!(Answer::from(refused.clone()).line(), text);
        assert_eq!(Answer::read(text).unwrap(), refused);
        let kept = Answer::<Kept>::read(r#"{"ok":{"snapshot":4}}"#).unwrap().unwrap();
        assert_eq!(kept.snapshot, SnapshotId(4));
        for bad in ["", "{}", "{\"ok\":", "{\"ok\":null}", "{\"ok\":7}", "7"] {
            assert!(Answer::<Kept>::read(bad).is_err(), "{bad}");
        }
    }
}
