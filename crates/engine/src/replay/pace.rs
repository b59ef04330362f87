//! When a recorded operation is to start, and how late it did.
//!
//! Times count from one moment for all threads: the first operation that any of them asks for. A thread
//! sleeps until its next operation is due (timer slack 1 ns, so that the kernel does not add its usual 50 µs)
//! and never spins: what is left of lateness is the kernel's wake-up and the operations before that took
//! longer than when they were recorded. Time in a pause is not taken out.

use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::time::Duration;

use fsage_model::load::LatencySummary;
use fsage_model::quantity::{as_f64, to_u64};
use fsage_model::replay::Speed;
use fsage_sys::clock::raw_ns;
use hdrhistogram::Histogram;

use crate::latency::{nanoseconds, summarise};

/// The moments at which operations are due, for all threads.
#[derive(Debug)]
pub struct Pace {
    speed: f64,
    /// Recorded time of the first operation.
    from_ns: u64,
    zero_raw_ns: OnceLock<u64>,
}

impl Pace {
    /// Nothing when there is no waiting. `from_ns`: recorded time that the replay begins at.
    pub fn new(speed: Speed, from_ns: u64) -> Option<Self> {
        match speed {
            Speed::Max => None,
            Speed::Times(speed) => Some(Self { speed, from_ns, zero_raw_ns: OnceLock::new() }),
        }
    }

    /// Waits for what was recorded at `start_ns`, at most for `patience`; whether it is due, and then how
    /// late.
    pub fn wait(&self, start_ns: u64, patience: Duration) -> Option<u64> {
        let zero = *self.zero_raw_ns.get_or_init(raw_ns);
        let after = as_f64(start_ns.saturating_sub(self.from_ns)) / self.speed;
        let due = zero.saturating_add(to_u64(after));
        let now = raw_ns();
        if now >= due {
            return Some(now - due);
        }
        let left = Duration::from_nanos(due - now);
        std::thread::sleep(left.min(patience));
        (left <= patience).then(|| raw_ns().saturating_sub(due))
    }
}

/// Lets the calling thread's sleeps end as near to their time as the kernel can.
pub fn sleep_sharply() {
    // Where it is not allowed, lateness tells.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// How late operations started.
#[derive(Debug)]
pub struct Lateness(Option<Histogram<u64>>);

impl Lateness {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self(nanoseconds())
    }

    /// Adds one.
    pub fn record(&mut self, late_ns: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(late_ns);
        }
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        if let (Some(to), Some(from)) = (&mut self.0, &other.0) {
            // Both have the same bounds: nothing can be out of range.
            let merged = to.add(from);
            debug_assert!(merged.is_ok());
        }
    }

    /// What it comes to; nothing without an operation.
    pub fn summary(&self) -> Option<LatencySummary> {
        self.0.as_ref().filter(|histogram| !histogram.is_empty()).map(summarise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_as_they_are_written() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("recorded".parse(), Ok(Speed::Times(1.0)));
        assert_eq!("x2".parse(), Ok(Speed::Times(2.0)));
        assert_eq!("×0.5".parse(), Ok(Speed::Times(0.5)));
        for wrong in ["", "x", "2", "x0", "x-1", "xnan", "xinf", "fast"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_starts_before_its_time() {
        let pace = Pace::new(Speed::Times(2.0), 1_000_000).unwrap();
        let start = raw_ns();
        assert!(pace.wait(1_000_000, Duration::ZERO).is_some());
        assert!(pace.wait(1 << 40, Duration::from_micros(1)).is_none(), "not within that patience");
        while pace.wait(5_000_000, Duration::from_millis(20)).is_none() {}
        assert!(raw_ns() - start >= 2_000_000, "4 ms at twice the speed");
        assert!(Pace::new(Speed::Max, 0).is_none());
    }

    #[test]
    fn lateness_adds_up_over_threads() {
        let (mut one, mut other) = (Lateness::new(), Lateness::new());
        assert_eq!(one.summary(), None);
        one.record(100);
        other.record(300);
        one.merge(&other);
        let summary = one.summary().unwrap();
        assert_eq!((summary.count, summary.p50_ns, summary.max_ns), (2, 100, 300));
    }
}
