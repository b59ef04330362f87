//! A channel between the controller and its dies: when it is taken.
//!
//! Dies ask for it in the order the model inspects them, which is not the order of time: one that will want
//! it in a millisecond must not keep another from using it now. So it keeps the times that are taken, and
//! gives the first gap that is long enough.

use std::collections::VecDeque;

#[derive(Debug, Clone, Default)]
pub(super) struct Channel {
    /// From and until, in order, none meeting another.
    taken: VecDeque<(u64, u64)>,
}

impl Channel {
    /// Takes it for so long, not before `from_ns`; gives when that begins. Costs a step for each transfer
    /// that is not over.
    pub(super) fn take(&mut self, from_ns: u64, cost_ns: u64) -> u64 {
        if cost_ns == 0 {
            return from_ns;
        }
        let (mut begun_ns, mut before) = (from_ns, self.taken.len());
        for (position, (start_ns, end_ns)) in self.taken.iter().enumerate() {
            if *end_ns <= begun_ns {
                continue;
            }
            if begun_ns.saturating_add(cost_ns) <= *start_ns {
                before = position;
                break;
            }
            begun_ns = *end_ns;
        }
        self.taken.insert(before, (begun_ns, begun_ns.saturating_add(cost_ns)));
        begun_ns
    }

    /// Transfers that it remembers.
    pub(super) fn remembered(&self) -> usize {
        self.taken.len()
    }

    /// Nothing will ask for a time before `now_ns` any more.
    pub(super) fn forget(&mut self, now_ns: u64) {
        while self.taken.front().is_some_and(|(_, end_ns)| *end_ns <= now_ns) {
            self.taken.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_later_leaves_room_before_it() {
        let mut channel = Channel::default();
        assert_eq!(channel.take(1000, 100), 1000);
        assert_eq!(channel.take(0, 400), 0);
        // Between 400 and 1000 is room for one of them.
        assert_eq!(channel.take(300, 500), 400);
        assert_eq!(channel.take(300, 500), 1100);
        assert_eq!(channel.take(850, 100), 900);
        assert_eq!(channel.take(850, 0), 850);
        channel.forget(1600);
        assert!(channel.taken.is_empty());
    }
}
