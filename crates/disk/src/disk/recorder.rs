//! A log that is being kept: entries, and what their writes put where.

use fsage_model::disk::LogStat;
use fsage_model::disk::call::SnapshotId;

use crate::log::{Entry, Geometry, Log, Payload};
use crate::request::Operation;
use crate::store::{Journal, Piece, Store, StoreError};

/// Entries between two checks of the memory they take: some 200 KiB.
const BETWEEN_LOOKS: u64 = 2048;

#[derive(Debug)]
pub(super) struct Recorder {
    pub log: Log,
    journal: Journal,
    /// Most memory for both.
    limit_bytes: u64,
    /// The limit was reached when it was last checked, or the store has no room.
    full: bool,
    /// The entry that comes next is the last.
    closing: bool,
    /// What the disk held when the log began.
    pub base: SnapshotId,
    /// The pieces of the request that is being done: kept so that no request allocates.
    pub scratch: Vec<Piece>,
}

impl Recorder {
    pub fn new(store: &mut Store, block_bytes: u32, limit_bytes: u64) -> Self {
        let geometry = Geometry { size_bytes: store.size_bytes(), block_bytes };
        let (log, journal) = (Log::new(geometry), Journal::default());
        Self {
            log,
            journal,
            limit_bytes,
            full: false,
            closing: false,
            base: store.snapshot(),
            scratch: Vec::with_capacity(256),
        }
    }

    /// Whether nothing more is logged.
    pub const fn is_full(&self) -> bool {
        self.full
    }

    /// The store has no room for what is being done: nothing is logged after it, so that the log is complete up to there.
    pub const fn close(&mut self) {
        self.closing = true;
    }

    /// Adds an entry, with the pieces that were collected for it.
    pub fn push(&mut self, entry: Entry) {
        if self.full {
            return;
        }
        let count = u32::try_from(self.scratch.len()).unwrap_or(u32::MAX);
        let payload = match count {
            0 => Payload::NONE,
            _ => Payload { first: self.journal.push(&self.scratch), count },
        };
        self.scratch.clear();
        self.log.push(&Entry { payload, ..entry });
        let is_due = self.log.len().is_multiple_of(BETWEEN_LOOKS);
        self.full = self.closing || (is_due && self.stat().memory_bytes > self.limit_bytes);
    }

    /// What an entry put on the disk. One that failed for lack of space did a part of it.
    pub fn pieces(&self, entry: &Entry) -> &[Piece] {
        self.journal.get(entry.payload.first, entry.payload.count)
    }

    /// Appends the bytes of a write; nothing if it failed.
    pub fn read(&self, store: &mut Store, entry: &Entry, data: &mut Vec<u8>) -> Result<(), StoreError> {
        if entry.request.operation != Operation::Write || entry.result.is_err() {
            return Ok(());
        }
        for piece in self.pieces(entry) {
            let start = data.len();
            let length = usize::try_from(piece.length_bytes).map_err(|_| StoreError::Full)?;
            data.resize(start + length, 0);
            store.read_piece(piece, 0, &mut data[start..])?;
        }
        Ok(())
    }

    pub fn stat(&self) -> LogStat {
        let memory_bytes = self.log.memory_bytes() + self.journal.memory_bytes();
        LogStat { entries: self.log.len(), memory_bytes, full: self.full }
    }

    /// Lets go of everything that only the log holds.
    pub fn release(self, store: &mut Store) {
        for pieces in self.journal.pieces() {
            store.release(pieces);
        }
        // The snapshot may have been deleted by anyone who has the store in hand.
        let _ = store.delete_snapshot(self.base);
    }
}
