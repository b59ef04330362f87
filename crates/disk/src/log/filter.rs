//! Which entries are meant.

use std::ops::Range;

use super::{Entry, Mark};
use crate::request::Operation;

/// Entries that answer to all of it. The default are all entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only these operations; empty: all.
    pub operations: Vec<Operation>,
    /// Only requests that touch these bytes; flushes touch none.
    pub bytes: Option<Range<u64>>,
    /// Only requests that came to the medium then, in nanoseconds of the disk's clock.
    pub issued_ns: Option<Range<u64>>,
    /// Only requests that arrived then, in nanoseconds of `CLOCK_MONOTONIC`.
    pub arrived_ns: Option<Range<u64>>,
    /// Only these numbers.
    pub numbers: Option<Range<u64>>,
    /// Only requests that failed.
    pub failed: bool,
}

impl Filter {
    /// Whether entry `number` is meant.
    #[must_use]
    pub fn matches(&self, number: u64, entry: &Entry) -> bool {
        let request = &entry.request;
        let within =
            |range: &Option<Range<u64>>, value| range.as_ref().is_none_or(|range| range.contains(&value));
        (self.operations.is_empty() || self.operations.contains(&request.operation))
            && within(&self.numbers, number)
            && within(&self.issued_ns, entry.issued_ns)
            && within(&self.arrived_ns, entry.arrived_ns)
            && (!self.failed || entry.result.is_err())
            && self.bytes.as_ref().is_none_or(|bytes| {
                request.offset_bytes.max(bytes.start) < request.end_bytes().min(bytes.end)
            })
    }

    /// Whether a mark before entry `number` is meant: one has a place in the order and a time, and nothing
    /// else.
    #[must_use]
    pub fn matches_mark(&self, number: u64, mark: &Mark) -> bool {
        let within =
            |range: &Option<Range<u64>>, value| range.as_ref().is_none_or(|range| range.contains(&value));
        self.operations.is_empty()
            && self.bytes.is_none()
            && self.issued_ns.is_none()
            && !self.failed
            && within(&self.numbers, number)
            && within(&self.arrived_ns, mark.set_ns)
    }

    /// The first number behind all that can match: nothing need be read from there on.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.numbers.as_ref().map_or(u64::MAX, |numbers| numbers.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{IoError, Request};

    fn entry(operation: Operation, offset_bytes: u64, length_bytes: u64) -> Entry {
        let request = Request::new(operation, offset_bytes, length_bytes);
        Entry { issued_ns: 50, arrived_ns: 900, ..Entry::new(request) }
    }

    #[test]
    fn each_condition_counts_and_all_must_hold() {
        let read = entry(Operation::Read, 4096, 4096);
        let filter = |change: &dyn Fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            filter.matches(7, &read)
        };
        assert!(filter(&|_| {}));
        assert!(filter(&|filter| filter.operations = vec![Operation::Write, Operation::Read]));
        assert!(!filter(&|filter| filter.operations = vec![Operation::Write]));
        for (bytes, expected) in
            [(0..4096, false), (0..4097, true), (8191..8192, true), (8192..9000, false), (5000..5000, false)]
        {
            assert_eq!(filter(&|filter| filter.bytes = Some(bytes.clone())), expected, "{bytes:?}");
        }
        for (range, expected) in [(50..51, true), (0..50, false), (51..99, false)] {
            assert_eq!(filter(&|filter| filter.issued_ns = Some(range.clone())), expected, "{range:?}");
        }
        assert!(filter(&|filter| filter.arrived_ns = Some(900..901)));
        assert!(!filter(&|filter| filter.arrived_ns = Some(901..902)));
        assert!(filter(&|filter| filter.numbers = Some(7..8)));
        assert!(!filter(&|filter| filter.numbers = Some(8..9)));
        assert!(
            !filter(&|filter| (filter.numbers, filter.operations) = (Some(7..8), vec![Operation::Flush]))
        );
        assert!(!filter(&|filter| filter.failed = true));
        let failed = Entry { result: Err(IoError::Medium), ..read };
        assert!(Filter { failed: true, ..Filter::default() }.matches(0, &failed));
        let everywhere = Filter { bytes: Some(0..u64::MAX), ..Filter::default() };
        assert!(!everywhere.matches(0, &entry(Operation::Flush, 0, 0)));
    }
}
