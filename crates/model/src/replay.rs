//! What a replay asks for and leaves.

use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::{LatencySummary, LoadResult};
use crate::operation::OperationKind;
use crate::verify::VerifyResult;

/// How a trace is replayed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayOptions {
    /// How fast.
    pub speed: Speed,
    /// Compare digests at every checkpoint, and read every byte afterwards.
    pub verify: bool,
    /// Go on with a replay of the same trace that was interrupted there, if there is one.
    pub resume: bool,
    /// File in which it is kept how far the replay is; without one it cannot be resumed.
    pub state: Option<PathBuf>,
}

/// What a replay leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResult {
    /// What was done, as of any load; of a replay that was resumed, only what was done now.
    pub load: LoadResult,
    /// What only a replay has.
    pub replay: ReplayReport,
}

/// What only a replay has to tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayReport {
    /// Operations in the trace.
    pub recorded: u64,
    /// Of these, left out because they failed when recorded.
    pub skipped: u64,
    /// Of these, made only what was there before the recording.
    pub prelude: u64,
    /// Records that an earlier run had done, over all threads.
    pub resumed_after: u64,
    /// An earlier run was there, but could not be resumed: its files were removed, for this reason.
    pub started_over: Option<String>,
    /// How late operations started; absent at `max`.
    pub lateness: Option<LatencySummary>,
    /// Checkpoints that were compared and had the recorded digest.
    pub checkpoints_matched: u64,
    /// The first that had another.
    pub checkpoint_differs: Option<CheckpointDifference>,
    /// The digest that the load had at its end; absent in traces of the formats 1 and 2.
    pub recorded_digest: Option<String>,
    /// The first operation that failed here and had not when it was recorded.
    pub divergence: Option<Divergence>,
    /// What reading every file found, if that was asked.
    pub verified: Option<VerifyResult>,
}

impl ReplayReport {
    /// Whether something is not as it was recorded, as far as was looked.
    #[must_use]
    pub fn differs(&self) -> bool {
        let bad =
            self.verified.as_ref().is_some_and(|verified| verified.bad_blocks.values().sum::<u64>() > 0);
        self.divergence.is_some() || self.checkpoint_differs.is_some() || bad
    }
}

/// A digest that is not the recorded one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointDifference {
    /// The thread.
    pub thread: u32,
    /// Records of that thread before it.
    pub sequence: u64,
    /// The recorded digest.
    pub expected: String,
    /// The one found.
    pub found: String,
}

/// An operation that ended otherwise than when it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Divergence {
    /// Its row in the trace, from 0.
    pub operation: u64,
    /// The thread.
    pub thread: u32,
    /// Its place in the thread's sequence, from 0.
    pub sequence: u64,
    /// What was done.
    pub kind: OperationKind,
    /// To what, below the directory.
    pub path: String,
    /// How it ended when recorded: always `success`, since what failed is left out.
    pub expected: String,
    /// The errno that it ended with here.
    pub found: String,
}

/// How fast a trace is replayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    /// Each thread does one operation after the other.
    #[default]
    Max,
    /// Operations start when they did, with the times divided by this (above 0).
    Times(f64),
}

impl FromStr for Speed {
    type Err = String;

    /// `max`, `recorded`, or `xN` with a number above 0.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => return Ok(Self::Max),
            "recorded" => return Ok(Self::Times(1.0)),
            _ => {}
        }
        let number = text.strip_prefix(['x', '×']).and_then(|number| number.parse::<f64>().ok());
        match number.filter(|number| (1e-3..=1e6).contains(number)) {
            Some(number) => Ok(Self::Times(number)),
            None => Err("it is max, recorded or xN, with N from 0.001 to 1000000".to_owned()),
        }
    }
}
