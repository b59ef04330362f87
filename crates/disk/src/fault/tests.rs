use fsage_model::fault::{RuleSpec, SlowSpec};
use proptest::prelude::*;

use super::*;

const SIZE: u64 = 64 * SECTOR_BYTES;

fn index(place: u64) -> usize {
    usize::try_from(place).unwrap()
}

/// A disk as it should be: bytes, with faults in front of them.
struct Rig {
    faults: Faults,
    bytes: Vec<u8>,
    number: u64,
}

impl Rig {
    fn new(spec: &FaultSpec) -> Self {
        Self { faults: Faults::new(spec, SIZE).unwrap(), bytes: vec![0; index(SIZE)], number: 0 }
    }

    /// Does a request; a write writes `fill`. What a read found, or why it failed.
    fn request(&mut self, request: &Request, fill: u8) -> (FaultVerdict, Vec<u8>) {
        let verdict = self.faults.before(self.number, request);
        let range = index(request.offset_bytes)..index(request.end_bytes());
        let mut found = Vec::new();
        if verdict.result.is_ok() {
            match request.operation {
                Operation::Read => {
                    found = self.bytes[range].to_vec();
                    self.faults.after_read(request, &mut found);
                }
                Operation::Flush => {}
                operation => {
                    self.bytes[range].fill(if operation == Operation::Write { fill } else { 0 });
                    self.faults.after_change(self.number, request);
                }
            }
        }
        self.number += 1;
        (verdict, found)
    }

    fn read(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<Vec<u8>, IoError> {
        let (verdict, found) = self.request(&Request::new(Operation::Read, offset_bytes, length_bytes), 0);
        verdict.result.map(|()| found)
    }

    fn write(&mut self, offset_bytes: u64, length_bytes: u64, fill: u8) {
        let (verdict, _) = self.request(&Request::new(Operation::Write, offset_bytes, length_bytes), fill);
        assert_eq!(verdict.result, Ok(()));
    }
}

fn region(offset_bytes: u64, length_bytes: u64) -> RuleSpec {
    RuleSpec { offset_bytes: Some(offset_bytes), length_bytes: Some(length_bytes), ..RuleSpec::default() }
}

fn rate(rate: f64) -> RuleSpec {
    RuleSpec { rate: Some(rate), ..RuleSpec::default() }
}

fn requests(requests: &[u64]) -> RuleSpec {
    RuleSpec { requests: requests.to_vec(), ..RuleSpec::default() }
}

fn any_rule() -> impl Strategy<Value = RuleSpec> {
    prop_oneof![
        (0.0..=1.0_f64).prop_map(rate),
        prop::collection::vec(0..60_u64, 1..10).prop_map(|numbers| requests(&numbers)),
        (0..SIZE - 1, 1..SIZE, 0.0..=1.0_f64).prop_map(|(offset, length, rate)| RuleSpec {
            rate: Some(rate),
            ..region(offset, length.min(SIZE - offset))
        }),
    ]
}

fn any_spec() -> impl Strategy<Value = FaultSpec> {
    let rules = || prop::collection::vec(any_rule(), 0..3);
    let unplaced = prop::collection::vec((0.0..=1.0_f64).prop_map(rate), 0..2);
    (any::<u64>(), rules(), rules(), unplaced, rules(), any::<u32>()).prop_map(
        |(seed, read_error, write_error, ignored_flush, bit_rot, extra)| FaultSpec {
            seed,
            read_error,
            write_error,
            ignored_flush,
            bit_rot,
            slow_region: vec![SlowSpec {
                rate: Some(0.5),
                extra_ns: u64::from(extra),
                ..SlowSpec::default()
            }],
        },
    )
}

fn any_request() -> impl Strategy<Value = Request> {
    let operation = prop_oneof![
        2 => Just(Operation::Read),
        3 => Just(Operation::Write),
        1 => Just(Operation::Flush),
        1 => Just(Operation::Discard),
        1 => Just(Operation::Zero),
    ];
    let aligned =
        (0..64_u64, 1..8_u64).prop_map(|(first, count)| (first * 4096, count.min(64 - first) * 4096));
    let odd = (0..SIZE - 1, 1..20_000_u64).prop_map(|(offset, length)| (offset, length.min(SIZE - offset)));
    (operation, prop_oneof![aligned, odd], any::<bool>()).prop_map(|(operation, (offset, length), fua)| {
        match operation {
            Operation::Flush => Request::new(operation, 0, 0),
            _ => Request {
                fua: fua && operation == Operation::Write,
                ..Request::new(operation, offset, length)
            },
        }
    })
}

proptest! {
    #[test]
    fn cleared_faults_leave_every_byte_right(
        spec in any_spec(),
        work in prop::collection::vec((any_request(), any::<u8>()), 0..60),
    ) {
        let mut rig = Rig::new(&spec);
        // What the load knows: writes that were answered without an error.
        let mut model = vec![0; index(SIZE)];
        for (request, fill) in &work {
            let (verdict, _) = rig.request(request, *fill);
            let range = index(request.offset_bytes)..index(request.end_bytes());
            match request.operation {
                Operation::Write if verdict.result.is_ok() => model[range].fill(*fill),
                Operation::Discard | Operation::Zero if verdict.result.is_ok() => model[range].fill(0),
                _ => {}
            }
        }
        rig.faults.clear();
        prop_assert!(rig.faults.is_idle());
        prop_assert!(rig.read(0, SIZE).unwrap() == model);
        prop_assert_eq!(rig.faults.before(0, &work.first().map_or(Request::new(Operation::Flush, 0, 0), |one| one.0)), FaultVerdict::GOOD);
    }

    #[test]
    fn the_same_spec_does_the_same(
        spec in any_spec(),
        work in prop::collection::vec((any_request(), any::<u8>()), 0..60),
    ) {
        let (mut one, mut other) = (Rig::new(&spec), Rig::new(&spec));
        for (request, fill) in &work {
            prop_assert_eq!(one.request(request, *fill), other.request(request, *fill));
        }
    }

    #[test]
    fn what_is_read_in_pieces_is_what_is_read_at_once(spec in any_spec(), work in prop::collection::vec((any_request(), any::<u8>()), 0..20), cut in 1..SIZE) {
        // Reads at given requests spoil more with each read.
        let mut rig = Rig::new(&FaultSpec { read_error: vec![], ..spec });
        for (request, fill) in &work {
            rig.request(request, *fill);
        }
        let whole = rig.read(0, SIZE).unwrap();
        let pieces = [rig.read(0, cut).unwrap(), rig.read(cut, SIZE - cut).unwrap()].concat();
        prop_assert!(whole == pieces);
    }

    #[test]
    fn at_given_requests_exactly_these(
        numbers in prop::collection::btree_set(0..60_u64, 1..20),
        work in prop::collection::vec(any_request(), 60),
    ) {
        let rule = || vec![requests(&numbers.iter().copied().collect::<Vec<_>>())];
        let spec = FaultSpec { write_error: rule(), ignored_flush: rule(), ..FaultSpec::default() };
        let mut rig = Rig::new(&spec);
        for (number, request) in (0..).zip(&work) {
            let verdict = rig.request(request, 1).0;
            let named = numbers.contains(&number);
            let changes = !matches!(request.operation, Operation::Read | Operation::Flush);
            prop_assert_eq!(verdict.result.is_err(), named && changes);
            prop_assert_eq!(verdict.flush_ignored, named && request.operation == Operation::Flush);
        }
    }
}

/// Whether so many of `draws` are what a rate gives: within five standard deviations.
fn is_likely(struck: usize, draws: usize, rate: f64) -> bool {
    let [struck, draws] = [struck, draws].map(|count| f64::from(u32::try_from(count).unwrap()));
    let deviation = (draws * rate * (1.0 - rate)).sqrt();
    (struck - draws * rate).abs() <= 5.0 * deviation
}

#[test]
fn rates_are_kept() {
    const SECTORS: u64 = 20_000;
    for (seed, p) in [(1, 0.0), (2, 0.001), (3, 0.1), (4, 0.5), (5, 0.99), (6, 1.0)] {
        let spec = FaultSpec {
            seed,
            read_error: vec![rate(p)],
            write_error: vec![rate(p)],
            ignored_flush: vec![rate(p)],
            bit_rot: vec![rate(p)],
            slow_region: vec![SlowSpec { rate: Some(p), extra_ns: 7, ..SlowSpec::default() }],
        };
        let mut faults = Faults::new(&spec, SECTORS * SECTOR_BYTES).unwrap();
        let mut counts = [0_usize; 5];
        let mut both = 0;
        for n in 0..SECTORS {
            let on = |operation| Request::new(operation, n * SECTOR_BYTES, SECTOR_BYTES);
            let read = faults.before(3 * n, &on(Operation::Read));
            let write = faults.before(3 * n + 1, &on(Operation::Write));
            let flush = faults.before(3 * n + 2, &Request::new(Operation::Flush, 0, 0));
            let mut data = [0; 4096];
            faults.after_read(&on(Operation::Read), &mut data);
            let bits = data.iter().map(|byte| byte.count_ones()).sum::<u32>();
            assert!(bits <= 1);
            let found = [
                read.result.is_err(),
                write.result.is_err(),
                flush.flush_ignored,
                bits == 1,
                read.extra_ns == 7,
            ];
            found.iter().zip(&mut counts).for_each(|(found, count)| *count += usize::from(*found));
            both += usize::from(found[0] && found[3]);
        }
        let draws = index(SECTORS);
        for count in counts {
            assert!(is_likely(count, draws, p), "{count} of {draws} at {p}");
        }
        assert!(is_likely(both, draws, p * p), "read errors and bit rot strike together: {both} at {p}");
    }
}

#[test]
fn flipped_bits_are_spread_over_sectors() {
    let spec = FaultSpec { seed: 3, bit_rot: vec![rate(1.0)], ..FaultSpec::default() };
    let mut faults = Faults::new(&spec, 4096 * SECTOR_BYTES).unwrap();
    let mut quarters = [0_usize; 4];
    for n in 0..4096 {
        let mut data = [0; 4096];
        faults.after_read(&Request::new(Operation::Read, n * SECTOR_BYTES, SECTOR_BYTES), &mut data);
        let at = data.iter().position(|byte| *byte != 0).unwrap();
        quarters[at / 1024] += 1;
    }
    assert!(quarters.iter().all(|count| is_likely(*count, 4096, 0.25)), "{quarters:?}");
}

#[test]
fn a_bad_sector_is_healed_by_writing_all_of_it() {
    let spec = FaultSpec { read_error: vec![region(4096 + 100, 10)], ..FaultSpec::default() };
    let mut rig = Rig::new(&spec);
    assert!(rig.read(0, 4096).is_ok() && rig.read(8192, 4096).is_ok());
    for (offset, length) in [(4096, 1), (8191, 1), (0, 8192), (4096, 4096)] {
        assert_eq!(rig.read(offset, length), Err(IoError::Medium), "{offset} {length}");
    }
    rig.write(4096, 4095, 5);
    assert!(rig.read(4096, 1).is_err(), "part of it was written");
    rig.write(0, 8192, 6);
    assert_eq!(rig.read(4096, 4096), Ok(vec![6; 4096]));
    let failed: Vec<_> =
        rig.faults.counters().into_iter().map(|counter| (counter.name, counter.value)).collect();
    assert_eq!(failed[0], ("fault_read_errors".to_owned(), 5.0));
}

#[test]
fn a_read_that_is_named_spoils_what_it_reads() {
    let spec = FaultSpec { read_error: vec![requests(&[1, 3])], ..FaultSpec::default() };
    let mut rig = Rig::new(&spec);
    assert!(rig.read(0, 4096).is_ok());
    assert!(rig.read(8192, 8192).is_err(), "request 1");
    assert!(rig.read(12_288, 512).is_err(), "its second sector");
    rig.write(4096, 4096, 1);
    assert!(rig.read(4096, 4096).is_ok(), "request 3 was a write");
    rig.write(8192, 4096, 2);
    assert!(rig.read(8192, 4096).is_ok());
    assert!(rig.read(12_288, 4096).is_err());
}

#[test]
fn rot_stays_until_its_byte_is_written() {
    let spec = FaultSpec { seed: 1, bit_rot: vec![region(5000, 1)], ..FaultSpec::default() };
    let mut rig = Rig::new(&spec);
    rig.write(0, SIZE, 0);
    // Written since: the rule has no power any more. One that was never written rots.
    assert_eq!(rig.read(0, SIZE), Ok(vec![0; index(SIZE)]));
    let mut rig = Rig::new(&spec);
    let found = rig.read(0, SIZE).unwrap();
    let at: Vec<_> = (0..found.len()).filter(|at| found[*at] != 0).collect();
    assert_eq!((&at[..], found[5000].count_ones()), (&[5000][..], 1));
    rig.write(4096, 904, 0);
    rig.write(5001, 3000, 0);
    assert_eq!(rig.read(5000, 1).unwrap(), [found[5000]]);
    rig.write(5000, 1, 0);
    assert_eq!(rig.read(5000, 1).unwrap(), [0]);
}

#[test]
fn a_write_that_is_named_rots_where_it_wrote() {
    let spec = FaultSpec { seed: 9, bit_rot: vec![requests(&[0])], ..FaultSpec::default() };
    let mut rig = Rig::new(&spec);
    rig.write(6000, 8192, 0);
    let flipped = |found: &[u8]| found.iter().map(|byte| byte.count_ones()).sum::<u32>();
    // Parts of three sectors, one bit of each.
    assert_eq!(flipped(&rig.read(6000, 8192).unwrap()), 3);
    assert_eq!(flipped(&rig.read(0, SIZE).unwrap()), 3);
    rig.write(8192, 4096, 0);
    assert_eq!(flipped(&rig.read(0, SIZE).unwrap()), 2);
    rig.write(6000, 8192, 0);
    assert_eq!(flipped(&rig.read(0, SIZE).unwrap()), 0);
}

#[test]
fn slow_regions_add_their_times() {
    let slow = |offset, extra_ns| SlowSpec {
        offset_bytes: Some(offset),
        length_bytes: Some(8192),
        extra_ns,
        ..SlowSpec::default()
    };
    let spec = FaultSpec { slow_region: vec![slow(0, 5), slow(4096, 100)], ..FaultSpec::default() };
    let mut faults = Faults::new(&spec, SIZE).unwrap();
    let mut extra = |offset| faults.before(0, &Request::new(Operation::Read, offset, 4096)).extra_ns;
    assert_eq!([extra(0), extra(4096), extra(8192), extra(12_288)], [5, 105, 100, 0]);
}

#[test]
fn slow_regions_multiply_the_mediums_time() {
    let slow = |offset, factor, extra_ns| SlowSpec {
        offset_bytes: Some(offset),
        length_bytes: Some(8192),
        factor: Some(factor),
        extra_ns,
        ..SlowSpec::default()
    };
    let spec = FaultSpec { slow_region: vec![slow(0, 1.25, 0), slow(4096, 2.0, 7)], ..FaultSpec::default() };
    let mut faults = Faults::new(&spec, SIZE).unwrap();
    let mut takes = |offset| faults.before(0, &Request::new(Operation::Read, offset, 4096)).slowed(1000);
    assert_eq!([takes(0), takes(4096), takes(8192), takes(12_288)], [1250, 2507, 2007, 1000]);
    assert_eq!(faults.counters().iter().find(|c| c.name == "fault_slow_requests").unwrap().value, 3.0);
    for factor in [0.99, 1001.0, f64::NAN] {
        let spec = FaultSpec { slow_region: vec![slow(0, factor, 0)], ..FaultSpec::default() };
        let error = Faults::new(&spec, SIZE).unwrap_err();
        assert!(matches!(error, FaultError::Factor { number: 0, .. }) && !error.hint().is_empty());
    }
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let refused = |rule: RuleSpec| {
        let spec = FaultSpec { bit_rot: vec![rate(0.1), rule], ..FaultSpec::default() };
        let error = Faults::new(&spec, SIZE).unwrap_err();
        assert!(!error.hint().is_empty());
        error.to_string()
    };
    assert_eq!(refused(RuleSpec::default()), "bit_rot 1 says neither where nor how often it strikes");
    assert_eq!(refused(rate(1.5)), "bit_rot 1 has the rate 1.5, which is not a probability");
    assert!(refused(rate(f64::NAN)).ends_with("which is not a probability"));
    for rule in [region(SIZE, 1), region(0, SIZE + 1), region(0, 0), region(u64::MAX, 2)] {
        assert!(refused(rule).ends_with("the disk has 262144 bytes"));
    }
    assert_eq!(
        refused(RuleSpec { requests: vec![1], ..rate(0.5) }),
        "bit_rot 1 has requests as well as a region or a rate"
    );
    let spec = FaultSpec { ignored_flush: vec![region(0, 4096)], ..FaultSpec::default() };
    assert!(matches!(Faults::new(&spec, SIZE), Err(FaultError::Placed { number: 0 })));
    let known: Result<FaultSpec, _> = serde_json::from_str(r#"{"seed": 1, "read_error": [{"rates": 1}]}"#);
    assert!(known.unwrap_err().to_string().contains("unknown field `rates`"));
    let known: FaultSpec = serde_json::from_str(r#"{"seed": 1, "read_error": [{"rate": 1}]}"#).unwrap();
    assert_eq!(known.read_error, [rate(1.0)]);
}
