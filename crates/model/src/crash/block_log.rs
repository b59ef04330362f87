//! When blocks of the load's files were given to the drive, and when it flushed: what a request log says of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A block of a file in a write of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockWrite {
    /// Number of the request in the log.
    pub entry: u64,
    /// The file, as the block itself says.
    pub file: u64,
    /// Where in the file, in bytes.
    pub offset_bytes: u64,
    /// Which writing of the file it is.
    pub version: u32,
    /// The request was forced to the medium, and the drive did that.
    pub forced: bool,
    /// Number of the first flush after it that was of its place and that the drive did.
    pub flushed: Option<u64>,
}

/// The self-describing blocks of a request log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockLog {
    /// In the order of the log.
    pub writes: Vec<BlockWrite>,
}

impl BlockLog {
    /// The requests before position `until` of the log that have a version of a block.
    pub fn requests(
        &self,
        file: u64,
        offset_bytes: u64,
        version: u32,
        until: u64,
    ) -> impl Iterator<Item = &BlockWrite> + Clone {
        let is = move |write: &&BlockWrite| {
            (write.file, write.offset_bytes, write.version) == (file, offset_bytes, version)
                && write.entry < until
        };
        self.writes.iter().filter(is)
    }

    /// Whether a version of a block was given to the drive before position `until` of the log, and nothing
    /// brought it to the medium before that: no flush of their places after its first write, and none of its writes was
    /// forced. False where it was not written at all.
    #[must_use]
    pub fn is_unflushed(&self, file: u64, offset_bytes: u64, version: u32, until: u64) -> bool {
        let mut writes = self.requests(file, offset_bytes, version, until).peekable();
        let is_there = |write: &BlockWrite| write.forced || write.flushed.is_some_and(|flush| flush < until);
        writes.peek().is_some() && !writes.any(is_there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_unflushed_from_its_first_write_until_a_flush_or_a_forced_write() {
        let write = |entry, version, forced, flushed| BlockWrite {
            entry,
            file: 7,
            offset_bytes: 4096,
            version,
            forced,
            flushed,
        };
        let log = BlockLog { writes: vec![write(2, 1, false, Some(3)), write(5, 2, false, Some(9))] };
        assert!(log.is_unflushed(7, 4096, 1, 3), "the flush came later");
        assert!(!log.is_unflushed(7, 4096, 1, 4));
        assert!(log.is_unflushed(7, 4096, 2, 9));
        assert!(!log.is_unflushed(7, 4096, 2, 10));
        // Not written by then, or never, is no matter of a flush.
        assert!(!log.is_unflushed(7, 4096, 2, 5));
        assert!(!log.is_unflushed(7, 0, 2, 9) && !log.is_unflushed(8, 4096, 2, 9));
        // Written twice: the flush after the first write counts.
        let twice = BlockLog { writes: vec![write(2, 1, false, Some(3)), write(5, 1, false, None)] };
        assert!(!twice.is_unflushed(7, 4096, 1, 6));
        let forced = BlockLog { writes: vec![write(2, 1, true, None)] };
        assert!(!forced.is_unflushed(7, 4096, 1, 3));
    }
}
