//! How a running load is held, resumed and ended from outside: signals, the agent protocol, a sink.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const RUN: u32 = 0;
const PAUSE: u32 = 1;
const STOP: u32 = 2;
const ABANDON: u32 = 3;

/// What threads outside the load ask of it. Shared by reference or `Arc`; asking never blocks. A stop is
/// final, and can only become [`Control::abandon`].
#[derive(Debug, Default)]
pub struct Control {
    state: AtomicU32,
}

impl Control {
    /// A control that asks for nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: AtomicU32::new(RUN) }
    }

    /// Holds every thread before its next operation; the time held does not count as load.
    pub fn pause(&self) {
        let _ = self.state.compare_exchange(RUN, PAUSE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Goes on after [`Control::pause`]; nothing when not paused.
    pub fn resume(&self) {
        let _ = self.state.compare_exchange(PAUSE, RUN, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Ends the load before the next operation of each thread, paused or not; a long read ends at once. What its result
    /// needs is still done: data that `fast` mode reserved space for is written.
    pub fn stop(&self) {
        self.state.fetch_max(STOP, Ordering::AcqRel);
    }

    /// Ends the load at once, long writes too: what is reserved but not written stays so, and the result says it.
    pub fn abandon(&self) {
        self.state.store(ABANDON, Ordering::Release);
    }

    /// Whether something other than continuing is asked. One relaxed load: called once an operation.
    #[inline]
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.state.load(Ordering::Relaxed) != RUN
    }

    /// Whether the end is asked.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state.load(Ordering::Acquire) >= STOP
    }

    /// Whether nothing more is to be done, not even what the result needs.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.state.load(Ordering::Acquire) == ABANDON
    }

    /// Whether a pause is asked.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.state.load(Ordering::Acquire) == PAUSE
    }

    /// Sleeps while a pause is asked, unless the load is `over` anyway; returns whether it continues (else it
    /// was stopped).
    pub(crate) fn wait(&self, over: &dyn Fn() -> bool) -> bool {
        while self.is_paused() && !over() {
            std::thread::sleep(Duration::from_millis(2));
        }
        !self.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_is_final() {
        let control = Control::new();
        assert!(!control.is_asked());
        control.pause();
        assert!(control.is_paused());
        control.resume();
        assert!(!control.is_asked());
        control.stop();
        control.pause();
        control.resume();
        assert!(control.is_stopped() && !control.is_abandoned());
        assert!(!control.wait(&|| false));
        control.abandon();
        control.stop();
        assert!(control.is_stopped() && control.is_abandoned());
    }
}
