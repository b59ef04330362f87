//! Whether the loop that serves an export is at work, and since when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fsage_sys::clock;

/// Shows a watchdog whether the loop is at work, and since when.
#[derive(Debug, Clone, Default)]
pub struct Heartbeat(Arc<AtomicU64>);

impl Heartbeat {
    /// Since when ([`clock::raw_ns`]) the loop has been at work on what it took last; `None` while it waits
    /// for requests.
    #[must_use]
    pub fn busy_since_ns(&self) -> Option<u64> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            since => Some(since),
        }
    }

    /// It begins to work.
    pub(super) fn work(&self) {
        self.0.store(clock::raw_ns(), Ordering::Relaxed);
    }

    /// It waits from now on.
    pub(super) fn rest(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
