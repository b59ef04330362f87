//! `trials/<id>/priced.json`: what the requests of a trial would take on the media that its study lists,
//! computed from its logs without running the kernel again.

use serde::{Deserialize, Serialize};

/// Every log of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PricedRecord {
    /// `STORE_VERSION` of the writer.
    pub version: u32,
    /// The media of the study when it was priced, as flags say them.
    pub asked: Vec<String>,
    /// One for each log, by the names of their files.
    pub logs: Vec<PricedLog>,
}

/// A log on every medium of its class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PricedLog {
    /// The log's file in the trial's folder.
    pub file: String,
    /// The medium that it was recorded on.
    pub recorded_on: String,
    /// On that medium again: answers that are not given at the recorded nanosecond. More than 0 is the error
    /// of pricing.
    pub deviating: u64,
    /// By how much the worst of them is off.
    pub largest_ns: u64,
    /// In the order of the study; media of another class are left out.
    pub media: Vec<PricedOn>,
}

/// A log on one medium.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PricedOn {
    /// The medium.
    pub medium: String,
    /// All of the log, as recorded.
    pub recorded_ns: u64,
    /// All of the log on this medium.
    pub total_ns: u64,
    /// From mark to mark; a mark is a stage or a measure of the trial.
    pub parts: Vec<PricedPart>,
}

/// What lies between two marks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PricedPart {
    /// The mark at its begin; empty before the first.
    pub mark: String,
    /// Requests.
    pub requests: u64,
    /// What the disk's clock moved by, as recorded.
    pub recorded_ns: u64,
    /// What it moves by on this medium.
    pub total_ns: u64,
}
