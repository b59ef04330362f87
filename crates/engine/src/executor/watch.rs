//! The watch an operation is timed with.

use crate::disk::Clock;

/// Runs from `start` to `stop`, but for the time it is held; CPU time passes on its clock meanwhile, where
/// that counts it. Each reading costs about 25 ns by the host's clock.
#[derive(Debug)]
pub struct Watch {
    clock: Clock,
    start: u64,
    held: u64,
}

impl Watch {
    #[inline]
    pub fn start(clock: &Clock) -> Self {
        clock.count_cpu();
        Self { clock: clock.clone(), start: clock.now_ns(), held: 0 }
    }

    /// When it was started, by its clock.
    pub const fn started(&self) -> u64 {
        self.start
    }

    /// Leaves out what follows, up to [`Watch::go_on`].
    pub fn hold(&mut self) {
        self.held = self.held.wrapping_sub(self.clock.now_ns());
        self.clock.hold_cpu();
    }

    pub fn go_on(&mut self) {
        self.clock.count_cpu();
        self.held = self.held.wrapping_add(self.clock.now_ns());
    }

    /// Nanoseconds run.
    #[inline]
    pub fn stop(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        self.clock.hold_cpu();
        now_ns.saturating_sub(self.start).saturating_sub(self.held)
    }
}
