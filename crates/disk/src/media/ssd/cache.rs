//! The write buffer: data that was answered but is not on flash yet.
//!
//! It holds whole groups that are being programmed; what does not fill a group yet is kept by the translation. It is left
//! in the order it was filled.

use std::collections::VecDeque;

#[derive(Debug, Clone)]
pub(super) struct WriteBuffer {
    most_bytes: u64,
    bytes: u64,
    /// When a group is on flash, and its bytes.
    groups: VecDeque<(u64, u64)>,
    /// When the last of all is on flash.
    pub safe_ns: u64,
}

impl WriteBuffer {
    pub(super) const fn new(most_bytes: u64) -> Self {
        Self { most_bytes, bytes: 0, groups: VecDeque::new(), safe_ns: 0 }
    }

    /// When there is room for that many bytes, not before `now_ns`.
    pub(super) fn room_ns(&mut self, bytes: u64, now_ns: u64) -> u64 {
        let mut room_ns = now_ns;
        while let Some((done_ns, group_bytes)) = self.groups.front().copied() {
            if done_ns > room_ns {
                if self.bytes.saturating_add(bytes) <= self.most_bytes {
                    break;
                }
                room_ns = done_ns;
            }
            self.groups.pop_front();
            self.bytes -= group_bytes;
        }
        room_ns
    }

    /// A group is being programmed until then.
    pub(super) fn push(&mut self, done_ns: u64, bytes: u64) {
        self.groups.push_back((done_ns, bytes));
        self.bytes += bytes;
        self.safe_ns = self.safe_ns.max(done_ns);
    }
}
