//! The watch an operation is timed with.

use fsage_sys::clock::raw_ns;

/// Runs from `start` to `stop`, but for the time it is held. Each reading costs about 25 ns.
#[derive(Debug)]
pub struct Watch {
    start: u64,
    held: u64,
}

impl Watch {
    #[inline]
    pub fn start() -> Self {
        Self { start: raw_ns(), held: 0 }
    }

    /// When it was started.
    pub const fn started(&self) -> u64 {
        self.start
    }

    /// Leaves out what follows, up to [`Watch::go_on`].
    pub fn hold(&mut self) {
        self.held = self.held.wrapping_sub(raw_ns());
    }

    pub fn go_on(&mut self) {
        self.held = self.held.wrapping_add(raw_ns());
    }

    /// Nanoseconds run.
    #[inline]
    pub fn stop(self) -> u64 {
        raw_ns().saturating_sub(self.start).saturating_sub(self.held)
    }
}
