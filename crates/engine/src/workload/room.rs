//! How far a volume is off the use that a workload is to hold.

use fsage_model::quantity::as_f64;

use super::Feedback;

/// One thread's part of the way to the target. [`Feedback`] is refreshed only now and then: what the thread
/// itself wrote since then is added. With several threads each takes an equal part.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    target: f64,
    threads: u32,
    /// The use that was reported last, and the thread's bytes then.
    reported: f64,
    then: u64,
}

impl Room {
    /// Room below `target`, a share of the volume (0..=1).
    pub const fn new(target: f64, threads: u32) -> Self {
        Self { target, threads, reported: -1.0, then: 0 }
    }

    /// Bytes that this thread may still write; negative when it is to delete some.
    pub fn bytes(&mut self, feedback: &Feedback, live_bytes: u64) -> f64 {
        if self.reported.to_bits() != feedback.used_share.to_bits() {
            (self.reported, self.then) = (feedback.used_share, live_bytes);
        }
        let off = (self.target - self.reported) * as_f64(feedback.total_bytes);
        off / f64::from(self.threads) - (as_f64(live_bytes) - as_f64(self.then))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_since_the_last_look_counts() {
        let mut room = Room::new(0.5, 2);
        let reported = |used_share| Feedback { used_share, total_bytes: 1000, grow_share: 0.0 };
        assert!((room.bytes(&reported(0.3), 100) - 100.0).abs() < 1e-9, "half of what is to come is its own");
        assert!((room.bytes(&reported(0.3), 160) - 40.0).abs() < 1e-9);
        assert!((room.bytes(&reported(0.3), 60) - 140.0).abs() < 1e-9);
        assert!((room.bytes(&reported(0.42), 160) - 40.0).abs() < 1e-9, "a new look starts again");
        assert!((room.bytes(&reported(0.7), 160) + 100.0).abs() < 1e-9);
    }
}
