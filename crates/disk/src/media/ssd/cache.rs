//! The write buffer: data that was answered but is not on flash yet.
//!
//! It holds groups of pages from when they are full until they are programmed, in whatever order the dies get
//! to that; what does not fill a group yet is kept by the translation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Debug, Clone)]
pub(super) struct WriteBuffer {
    most_bytes: u64,
    bytes: u64,
    /// Groups that a die is at work on: when it is done, and the bytes.
    begun: BinaryHeap<Reverse<(u64, u64)>>,
    /// When the last of all groups that were begun is on flash.
    pub safe_ns: u64,
}

impl WriteBuffer {
    pub(super) const fn new(most_bytes: u64) -> Self {
        Self { most_bytes, bytes: 0, begun: BinaryHeap::new(), safe_ns: 0 }
    }

    /// Whether that many bytes more fit; into an empty one anything does.
    pub(super) const fn has_room(&self, bytes: u64) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= self.most_bytes
    }

    /// A group came in.
    pub(super) const fn push(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// A die has begun to program a group and will be done then.
    pub(super) fn begin(&mut self, done_ns: u64, bytes: u64) {
        self.begun.push(Reverse((done_ns, bytes)));
        self.safe_ns = self.safe_ns.max(done_ns);
    }

    /// When the next group is done, of those that were begun.
    pub(super) fn next_done_ns(&self) -> Option<u64> {
        self.begun.peek().map(|Reverse((done_ns, _))| *done_ns)
    }

    /// What is done by `now_ns` leaves it.
    pub(super) fn release(&mut self, now_ns: u64) {
        while let Some(Reverse((done_ns, bytes))) = self.begun.peek()
            && *done_ns <= now_ns
        {
            self.bytes -= bytes;
            self.begun.pop();
        }
    }
}
