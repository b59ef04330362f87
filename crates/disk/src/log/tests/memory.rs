//! The log in memory.

use crate::log::*;
use proptest::prelude::*;

pub(super) const GEOMETRY: Geometry = Geometry { size_bytes: 1 << 40, block_bytes: 512 };

/// Any entry that a disk can have.
pub(super) fn any_entry() -> impl Strategy<Value = Entry> {
    let operation = prop_oneof![
        Just(Operation::Read),
        Just(Operation::Write),
        Just(Operation::Flush),
        Just(Operation::Discard),
        Just(Operation::Zero),
    ];
    let result = prop_oneof![
        4 => Just(Ok(())),
        1 => Just(Err(IoError::Medium)),
        1 => Just(Err(IoError::Space)),
        1 => Just(Err(IoError::Range)),
    ];
    let request = (operation, any::<u64>(), 0..=LENGTH_LIMIT, any::<bool>()).prop_map(
        |(operation, offset_bytes, length_bytes, fua)| Request { operation, offset_bytes, length_bytes, fua },
    );
    let times = (any::<u64>(), any::<u64>(), any::<u64>());
    let payload = (any::<u64>(), any::<u32>()).prop_map(|(first, count)| Payload { first, count });
    (request, result, any::<bool>(), times, payload).prop_map(
        |(request, result, flush_ignored, (issued_ns, done_ns, arrived_ns), payload)| Entry {
            request,
            result,
            flush_ignored,
            issued_ns,
            done_ns,
            arrived_ns,
            payload,
        },
    )
}

proptest! {
    #[test]
    fn every_entry_comes_back(entries in prop::collection::vec(any_entry(), 0..50)) {
        let mut log = Log::new(GEOMETRY);
        for (number, entry) in (0..).zip(&entries) {
            prop_assert_eq!(log.push(entry), number);
        }
        prop_assert_eq!(log.entries(0).collect::<Vec<_>>(), entries.clone());
        prop_assert_eq!(log.get(log.len()), None);
    }
}

#[test]
fn segments_follow_each_other() {
    let mut log = Log::new(GEOMETRY);
    let count = 3 * as_u64(SEGMENT_ENTRIES) + 7;
    let entry = |number| Entry {
        issued_ns: number,
        ..Entry::new(Request::new(Operation::Write, number * 4096, 4096))
    };
    for number in 0..count {
        if number == 20_000 {
            log.mark("two\nlines", 5);
        }
        assert_eq!(log.push(&entry(number)), number);
    }
    assert_eq!(log.len(), count);
    for first in [0, 1, 16_383, 16_384, 40_000, count - 1, count, count + 1, u64::MAX] {
        let expected = (first.min(count)..count).map(entry);
        assert!(log.entries(first).eq(expected), "from {first}");
        assert_eq!(log.get(first), (first < count).then(|| entry(first)));
    }
    assert_eq!(log.marks(), [Mark { position: 20_000, set_ns: 5, name: "two lines".to_owned() }]);
    // Four segments: 57 bytes an entry, and no more than one segment beyond what is full.
    let segment = as_u64(SEGMENT_ENTRIES * size_of::<Record>());
    assert!((4 * segment..5 * segment).contains(&log.memory_bytes()), "{}", log.memory_bytes());
    log.clear();
    assert!(log.is_empty() && log.marks().is_empty() && log.entries(0).next().is_none());
    assert_eq!(log.push(&entry(0)), 0);
}

#[test]
fn what_is_done_later_is_said_later() {
    let mut log = Log::new(GEOMETRY);
    let entry = Entry::new(Request::new(Operation::Read, 0, 512));
    let number = log.push(&entry);
    log.set_done(number, 77, Err(IoError::Medium));
    log.set_done(number + 1, 99, Ok(()));
    assert_eq!(log.get(0), Some(Entry { done_ns: 77, result: Err(IoError::Medium), ..entry }));
}
