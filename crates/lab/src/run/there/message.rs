//! What a lab and fsage on another host say to each other: JSON in frames, files as frames of bytes after the message
//! that announces them. Not tagged within: maps whose keys are numbers, as records have, cannot be read so.

use std::collections::BTreeMap;

use fsage_model::record::VolumePlaces;
use fsage_model::study::StudySpec;
use fsage_model::warning::Warning;
use serde::{Deserialize, Serialize};

use crate::plan::PlannedTrial;

/// Version of these messages: both sides are the same program, but for a forgotten one.
pub(super) const VERSION: u32 = 2;

/// From the lab.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToTarget {
    /// A program follows: so many bytes.
    Program {
        /// Its name.
        name: String,
        /// Bytes.
        bytes: u64,
    },
    /// What holds for all trials.
    Begin(Begin),
    /// Answer with [`FromTarget::Pong`].
    Ping,
    /// Do this trial.
    Trial(Box<TrialRequest>),
    /// Give up the trial that runs.
    Interrupt,
    /// There are no more.
    End,
}

/// What holds for all trials of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// Devices that may be erased, as given with `--erase`.
    pub(crate) erase: Vec<String>,
    /// Crash states that no kernel wrote may be mounted.
    pub(crate) on_host: bool,
}

/// What a guest does before it speaks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) begin: Begin,
    pub(super) trial: TrialRequest,
}

/// Lengths of batches are multiples of this, so that a longer name of something changes nothing.
const BATCH_BYTES: usize = 64 << 10;

impl Batch {
    /// As it is packed with a guest: JSON with blanks after it.
    pub(super) fn packed(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.resize(bytes.len().next_multiple_of(BATCH_BYTES), b' ');
        bytes
    }
}

impl TrialRequest {
    /// The same without what is no part of the trial's id: the words of a study and its other trials change nothing of it.
    pub(super) fn alone(&self) -> Self {
        let Self { planned, spec, .. } = self.clone();
        let planned = PlannedTrial { cell: 0, factors: BTreeMap::new(), ..planned };
        let text = String::new();
        let spec = StudySpec {
            title: text.clone(),
            question: text.clone(),
            citation: text,
            claim: Vec::new(),
            preset: BTreeMap::new(),
            price: Vec::new(),
            repeats: 1,
            name: "trial".to_owned(),
            ..spec
        };
        Self { study: "trial".to_owned(), planned, factors: BTreeMap::new(), spec }
    }
}

/// A trial that is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TrialRequest {
    /// Name of the study.
    pub(super) study: String,
    pub(super) planned: PlannedTrial,
    /// Factors of its cell.
    pub(super) factors: BTreeMap<String, serde_json::Value>,
    /// Specification of its cell.
    pub(super) spec: StudySpec,
}

/// From the target.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FromTarget {
    /// It is there.
    Hello {
        version: u32,
        /// Which fsage it is.
        program: String,
        /// Its clock: seconds since the epoch.
        now_s: u64,
    },
    /// The answer to [`ToTarget::Ping`].
    Pong,
    /// As [`super::RunEvent::Step`].
    Step { name: String, detail: String },
    /// As [`super::RunEvent::Progress`].
    Progress {
        stage: String,
        operations: u64,
        elapsed_ns: u64,
        share: Option<f64>,
        rate: f64,
        eta_s: Option<f64>,
        note: String,
    },
    /// As [`super::RunEvent::Warning`].
    Warning { warning: Warning },
    /// As [`super::RunEvent::Note`].
    Note { text: String },
    /// A file of the trial follows; its end is a frame without bytes.
    File { name: String },
    /// Where the files of its volumes lay.
    Places { volumes: Vec<VolumePlaces> },
    /// The trial is over; its files and record came before.
    Over { outcome: Outcome },
    /// What was asked cannot be done at all.
    Refused { message: String },
}

/// How a trial on another host ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    Complete,
    Interrupted,
    /// The kernel reported a bug of its own.
    Kernel {
        said: String,
    },
    Failed(Failed),
}

/// Why a trial on another host failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Failed {
    /// The error with its causes and its hint.
    pub text: String,
    /// Exit code that this stands for.
    pub exit_code: u8,
    /// Why that host does not take what the trial sets, where that is what failed it.
    pub refusal: Option<String>,
    /// It says nothing of the trial: a lost agent, and the like.
    pub says_nothing: bool,
    /// No measure found room.
    pub no_space: bool,
    /// Other trials would fail there as well.
    pub ends_run: bool,
}

impl Failed {
    /// The same of a guest, whose own files are in its memory.
    pub(super) fn in_guest(mut self) -> Self {
        if !self.no_space && self.text.contains(NO_ROOM) {
            self.text.push_str(MORE_MEMORY);
        }
        self
    }
}

/// What the C library says of `ENOSPC`.
const NO_ROOM: &str = "No space left on device";

/// What to do about it in a guest.
const MORE_MEMORY: &str = " (in the guest: make the volume larger if it is full; the guest's own files are in its memory, which `target.memory` sets)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_without_room_is_said_to_need_memory() {
        let failed = |text: &str| Failed {
            text: text.to_owned(),
            exit_code: 1,
            refusal: None,
            says_nothing: false,
            no_space: false,
            ends_run: false,
        };
        let said = failed("cannot write /tmp/x: No space left on device (os error 28)").in_guest().text;
        assert!(said.contains("`target.memory`"), "{said}");
        assert_eq!(failed("mkfs failed").in_guest().text, "mkfs failed");
    }
}
