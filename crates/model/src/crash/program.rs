//! A user's own program as the load of a power cut, and a second one that judges what is left.
//!
//! The load prints a line `ack TEXT` for everything that it may be held to from then on. Each such line is
//! tied to the position of the request log at which it was read, which is never before the program wrote it:
//! at a cut a line counts only if it was read before. So judgement errs on the side of the program.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a line of the load begins that acknowledges something.
pub const ACKNOWLEDGES: &str = "ack ";

/// Environment variable with the directory on the volume that both programs work in.
pub const DIRECTORY_VARIABLE: &str = "FSAGE_DIRECTORY";

/// Environment variable of the check with the file of the acknowledgements that precede the cut, one per
/// line, without [`ACKNOWLEDGES`].
pub const ACKNOWLEDGED_VARIABLE: &str = "FSAGE_ACKNOWLEDGED";

/// Most bytes of all acknowledgements of a load.
pub const MOST_ACKNOWLEDGED_BYTES: usize = 4 << 20;

/// Longest line of a load that can be an acknowledgement, in bytes.
pub const LONGEST_ACKNOWLEDGEMENT: usize = 4096;

/// A program to cut the power under, and one that judges what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramSpec {
    /// Command line of the load: an absolute path or a name to be found in `PATH`, and arguments.
    pub load: Vec<String>,
    /// Command line of the check, likewise.
    pub check: Vec<String>,
    /// Longest that the load runs, in milliseconds; then it is ended, which is no failure.
    pub load_timeout_ms: u64,
    /// Longest that a check runs, in milliseconds; then it is ended, and the state is undecided.
    pub check_timeout_ms: u64,
}

/// What a load acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgement {
    /// The line without [`ACKNOWLEDGES`].
    pub text: String,
    /// Requests in the log when it had been read.
    pub position: u64,
}

/// What a load did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRun {
    /// In order.
    pub acknowledged: Vec<Acknowledgement>,
    /// Processes that it left running, which were ended with it.
    pub left: u64,
    /// It did not end by itself within its time and was ended.
    pub timed_out: bool,
    /// It was ended because the run is to end.
    pub stopped: bool,
    /// Flushes that reached the disk while it ran.
    pub flushes: u64,
    /// Changes (writes, discards, zeroings) that reached the disk while it ran.
    pub changes: u64,
    /// How long it ran, in nanoseconds.
    pub elapsed_ns: u64,
}

/// The check of a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateCheck {
    /// The programs.
    pub program: ProgramSpec,
    /// File outside of the volume in which the check finds the acknowledgements; it is replaced.
    pub acknowledged: PathBuf,
}

/// A program of the user's as the load of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramReport {
    /// The programs.
    pub program: ProgramSpec,
    /// Lines that the load acknowledged.
    pub acknowledged: u64,
    /// Processes that it left running, which were ended with it.
    pub left: u64,
    /// It did not end by itself within its time and was ended.
    pub timed_out: bool,
    /// Flushes that reached the disk while it ran.
    pub flushes: u64,
    /// Changes that reached the disk while it ran.
    pub changes: u64,
    /// How long it ran, in nanoseconds.
    pub elapsed_ns: u64,
    /// States in which the check left processes running, which were ended with it.
    pub left_by_check: u64,
    /// States in which the check did not end in time.
    pub undecided: u64,
}

impl ProgramReport {
    /// Before any state was tried.
    #[must_use]
    pub fn new(program: ProgramSpec, run: &ProgramRun) -> Self {
        Self {
            program,
            acknowledged: u64::try_from(run.acknowledged.len()).unwrap_or(u64::MAX),
            left: run.left,
            timed_out: run.timed_out,
            flushes: run.flushes,
            changes: run.changes,
            elapsed_ns: run.elapsed_ns,
            left_by_check: 0,
            undecided: 0,
        }
    }
}

/// A request of the log near a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CutRequest {
    /// Its number in the log.
    pub entry: u64,
    /// What was asked: `write`, `discard`, `zero` or `flush`.
    pub operation: String,
    /// First byte; 0 of a flush.
    pub offset_bytes: u64,
    /// Bytes; 0 of a flush.
    pub length_bytes: u64,
    /// Whether the drive had to bring it to the medium before it answered.
    pub forced: bool,
    /// What became of it.
    pub fate: CutFate,
}

impl CutRequest {
    /// What was asked and what became of it, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = self.operation.clone();
        if self.length_bytes > 0 {
            words.push_str(&format!(" {}+{}", self.offset_bytes, self.length_bytes));
        }
        if self.forced {
            words.push_str(" forced");
        }
        words.push_str(match self.fate {
            CutFate::There => "",
            CutFate::Missing => "  MISSING",
            CutFate::Torn => "  TORN",
        });
        words
    }
}

/// What became of a request at a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CutFate {
    /// It is on the medium.
    There,
    /// Nothing of it is.
    Missing,
    /// A part of it is.
    Torn,
}
