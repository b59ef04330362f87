//! Why a load ends.

use std::sync::atomic::{AtomicU32, Ordering};

use fsage_model::load::StopReason;

/// The first reason to end the load that came up; 0 while there is none.
#[derive(Debug, Default)]
pub struct Halt(AtomicU32);

const REASONS: [StopReason; 8] = [
    StopReason::Operations,
    StopReason::Bytes,
    StopReason::Seconds,
    StopReason::Full,
    StopReason::Inodes,
    StopReason::Age,
    StopReason::Asked,
    StopReason::Ended,
];

impl Halt {
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    pub fn set(&self, reason: StopReason) {
        let place =
            REASONS.iter().position(|other| *other == reason).and_then(|place| u32::try_from(place).ok());
        if let Some(place) = place {
            let _ = self.0.compare_exchange(0, place + 1, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    pub fn reason(&self) -> Option<StopReason> {
        let place = usize::try_from(self.0.load(Ordering::Acquire)).ok()?.checked_sub(1)?;
        REASONS.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stands() {
        let halt = Halt::default();
        assert!(!halt.is_set() && halt.reason().is_none());
        halt.set(StopReason::Full);
        halt.set(StopReason::Asked);
        assert_eq!(halt.reason(), Some(StopReason::Full));
    }
}
