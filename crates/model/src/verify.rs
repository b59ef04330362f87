//! What reading self-describing data found.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `verify` found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VerifyResult {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Blocks that are what they must be.
    pub good_blocks: u64,
    /// Blocks by what is wrong (`stale`, `torn`, `misplaced`, `foreign`, `zero`, `unwritten`, `unreadable`).
    pub bad_blocks: BTreeMap<String, u64>,
    /// At most 100 findings: path, offset, what.
    pub findings: Vec<VerifyFinding>,
    /// Files that hold no self-describing data at all (not ours): counted, not damage.
    pub foreign_files: u64,
}

/// One block that is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyFinding {
    /// Path below the verified directory.
    pub path: String,
    /// Byte offset in the file.
    pub offset: u64,
    /// What is wrong, in words.
    pub what: String,
}

/// Findings kept.
pub const FINDINGS: usize = 100;

impl VerifyResult {
    /// Counts a bad block and keeps it as a finding while there is room.
    pub fn bad(&mut self, kind: &str, path: &str, offset: u64, what: String) {
        *self.bad_blocks.entry(kind.to_owned()).or_default() += 1;
        if self.findings.len() < FINDINGS {
            self.findings.push(VerifyFinding { path: path.to_owned(), offset, what });
        }
    }

    /// Counts a block that could not be read.
    pub fn unreadable(&mut self, path: &str, offset: u64, what: &str) {
        self.bad("unreadable", path, offset, what.to_owned());
    }
}
