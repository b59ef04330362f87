//! What a drive does when nobody asks for anything: it empties the part with one bit a cell and collects.
//!
//! It begins `idle_ns` after the last answer and the last program, works in slices of a group on every die, and
//! ends with the slice in which the next request comes; that request waits for it.

use super::Ssd;

impl Ssd {
    /// Makes use of the time until `now_ns`, when the next request comes.
    pub(super) fn idle(&mut self, now_ns: u64) {
        if self.idle_ns == 0 || self.answered_ns.saturating_add(self.idle_ns) >= now_ns {
            return;
        }
        let Some(quiet_ns) = self.flash.quiet_ns(now_ns) else { return };
        let mut at_ns = quiet_ns.max(self.answered_ns).saturating_add(self.idle_ns);
        while at_ns < now_ns && self.collector.idle(&mut self.ftl, &mut self.flash, at_ns) {
            let done_ns = self.flash.finish_ns();
            if done_ns <= at_ns {
                break;
            }
            at_ns = done_ns;
        }
    }
}
