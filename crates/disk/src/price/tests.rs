//! Logs made by hand, on media whose times can be computed at sight.

use fsage_model::disk::DiskCounter;

use super::*;
use crate::log::stream::{LogSource, NoContents};
use crate::log::{Geometry, Log};
use crate::request::{IoError, Operation, Request};

/// A medium on which a request takes as many nanoseconds as its offset says, beside all others; notes what
/// comes.
#[derive(Default)]
struct Offsets {
    batches: Vec<(u64, usize)>,
    rests: u64,
}

impl Model for Offsets {
    fn serve(&mut self, now_ns: u64, batch: &[Request], done_ns: &mut [u64]) {
        self.batches.push((now_ns, batch.len()));
        for (request, done) in batch.iter().zip(done_ns) {
            *done = now_ns + request.offset_bytes;
        }
    }

    fn rest(&mut self, now_ns: u64) -> u64 {
        self.rests += 1;
        now_ns + 1000
    }

    fn counters(&self) -> Vec<DiskCounter> {
        vec![DiskCounter::sum("rests", "1", self.rests)]
    }
}

/// A read that takes `takes_ns` on the medium that is priced, with its recorded times; what has the same
/// `arrived_ns` came together.
fn read(takes_ns: u64, issued_ns: u64, done_ns: u64, arrived_ns: u64) -> Entry {
    let request = Request::new(Operation::Read, takes_ns, 4096);
    Entry { issued_ns, done_ns, arrived_ns, ..Entry::new(request) }
}

fn log(entries: &[Entry]) -> Log {
    let mut log = Log::new(Geometry { size_bytes: 1 << 30, block_bytes: 512 });
    for entry in entries {
        log.push(entry);
    }
    log
}

fn on(medium: &mut Offsets, log: &Log) -> Priced {
    price(&mut LogSource::new(log, NoContents), medium).unwrap()
}

#[test]
fn a_request_waits_for_the_answer_before_it_and_for_the_time_between() {
    // The second came 30 ns after the first was answered.
    let log = log(&[read(50, 0, 100, 1), read(70, 130, 400, 2)]);
    let mut medium = Offsets::default();
    let priced = on(&mut medium, &log);
    assert_eq!(medium.batches, [(0, 1), (80, 1)]);
    assert_eq!((priced.recorded_ns, priced.total_ns), (400, 150));
    assert_eq!((priced.read.requests, priced.read.recorded_ns, priced.read.sum_ns), (2, 370, 120));
    assert_eq!((priced.read.p50_ns, priced.read.longest_ns), (50, 70));
    assert_eq!(priced.deviation, Deviation { requests: 2, largest_ns: 250 });
}

#[test]
fn what_came_together_comes_together_and_the_next_waits_for_all_of_it() {
    let log = log(&[read(500, 0, 100, 1), read(100, 0, 300, 1), read(10, 300, 310, 2)]);
    let mut medium = Offsets::default();
    // On the recorded disk the second was the slow one.
    assert_eq!(on(&mut medium, &log).total_ns, 510);
    assert_eq!(medium.batches, [(0, 2), (500, 1)]);
}

#[test]
fn a_queue_that_was_kept_is_kept() {
    // Two at a time: the third came when the first was answered, the fourth when the second was.
    let log =
        log(&[read(500, 0, 100, 1), read(100, 0, 300, 1), read(10, 100, 400, 2), read(20, 305, 410, 3)]);
    let mut medium = Offsets::default();
    let priced = on(&mut medium, &log);
    // The second is the faster one here, so the fourth comes before the third; 5 ns of thinking stay.
    assert_eq!(medium.batches, [(0, 2), (105, 1), (500, 1)]);
    assert_eq!(priced.total_ns, 510);
}

#[test]
fn before_the_first_answer_requests_come_at_their_distance() {
    let log = log(&[read(500, 1000, 2000, 1), read(10, 1040, 2000, 2), read(10, 2000, 2010, 3)]);
    let mut medium = Offsets::default();
    let priced = on(&mut medium, &log);
    assert_eq!(medium.batches, [(1000, 1), (1040, 1), (1500, 1)]);
    assert_eq!((priced.begin_ns, priced.recorded_ns, priced.total_ns), (1000, 1010, 510));
}

#[test]
fn rests_are_had_again_and_marks_part_the_time() {
    let mut log = log(&[read(100, 0, 200, 1)]);
    log.mark("fsage:medium hdd-7200", 0);
    log.mark("age", 0);
    log.mark(&OwnMark::Rest.to_string(), 0);
    // The recorded disk rested for 5,000 ns, the medium rests for 1,000 ns.
    log.push(&read(10, 5200, 5300, 2));
    log.push(&read(10, 5300, 5400, 3));
    log.mark("grep", 0);
    log.push(&read(40, 5400, 5410, 4));
    let mut medium = Offsets::default();
    let priced = on(&mut medium, &log);
    assert_eq!(medium.batches, [(0, 1), (1100, 1), (1110, 1), (1120, 1)]);
    assert_eq!((priced.total_ns, priced.counters[0].value.to_bits()), (1160, 1.0_f64.to_bits()));
    let found: Vec<_> = priced
        .intervals
        .iter()
        .map(|one| (one.mark.as_deref(), one.requests, one.recorded_ns, one.total_ns))
        .collect();
    assert_eq!(found, [(None, 1, 200, 100), (Some("age"), 2, 200, 20), (Some("grep"), 1, 10, 40)]);
}

#[test]
fn more_marks_than_an_answer_has_room_for_are_refused() {
    let mut log = log(&[read(100, 0, 200, 1)]);
    for _ in 0..=MOST_MARKS {
        log.mark("again", 0);
    }
    log.push(&read(10, 300, 400, 2));
    let error = price(&mut LogSource::new(&log, NoContents), &mut Offsets::default()).unwrap_err();
    assert!(matches!(error, PriceError::Many { what: "marks", number: 1, .. }), "{error}");
    assert_eq!(error.exit_code(), EXIT_USAGE);
}

#[test]
fn marks_within_a_queue_part_it_at_the_last_answer() {
    let mut log = log(&[read(500, 0, 100, 1), read(100, 0, 300, 1)]);
    log.mark("here", 0);
    log.push(&read(10, 100, 400, 2));
    let priced = on(&mut Offsets::default(), &log);
    let times: Vec<_> = priced.intervals.iter().map(|one| (one.recorded_ns, one.total_ns)).collect();
    assert_eq!(times, [(300, 500), (100, 10)]);
}

#[test]
fn what_the_disk_refused_or_ignored_takes_no_time() {
    let refused = Entry { result: Err(IoError::Range), ..read(700, 0, 0, 1) };
    let full = Entry { result: Err(IoError::Space), ..read(700, 0, 0, 1) };
    let unreadable = Entry { result: Err(IoError::Medium), ..read(30, 0, 10, 1) };
    let flush = Entry::new(Request::new(Operation::Flush, 0, 0));
    let ignored = Entry { flush_ignored: true, issued_ns: 10, done_ns: 10, arrived_ns: 2, ..flush };
    let priced = on(&mut Offsets::default(), &log(&[refused, full, unreadable, ignored]));
    assert_eq!((priced.requests, priced.without_time, priced.total_ns), (4, 3, 30));
    assert_eq!((priced.read.requests, priced.flush.requests, priced.flush.sum_ns), (3, 1, 0));
}

#[test]
fn damaged_times_and_logs_without_requests_are_refused() {
    let refused = |log: &Log| {
        let error = price(&mut LogSource::new(log, NoContents), &mut Offsets::default()).unwrap_err();
        assert!(error.hint().is_some());
        (error.exit_code(), error.to_string())
    };
    let (code, said) = refused(&log(&[read(1, 0, 1, 1), read(1, 5, u64::MAX, 2)]));
    assert!(code == EXIT_DAMAGE && said.contains("entry 1"), "{said}");
    let mut empty = log(&[]);
    empty.mark("alone", 0);
    assert_eq!(refused(&empty), (EXIT_USAGE, "the log holds no requests".to_owned()));
    // Times that run backwards are those of no disk, and end all the same.
    let backwards = log(&[read(5, 900, 950, 1), read(5, 100, 20, 2), read(5, 500, 500, 3)]);
    assert_eq!(on(&mut Offsets::default(), &backwards).requests, 3);
}

#[test]
fn a_log_says_its_medium_and_is_priced_on_its_class_alone() {
    let mut log = log(&[]);
    log.mark("fsage:medium hdd-7200,rpm=5400", 0);
    log.push(&read(1, 0, 1, 1));
    log.mark("fsage:medium ssd", 0);
    let named = |log: &Log| recorded_medium(&mut LogSource::new(log, NoContents)).unwrap();
    assert_eq!(named(&log).as_deref(), Some("hdd-7200,rpm=5400"));
    log.clear();
    log.push(&read(1, 0, 1, 1));
    log.mark("fsage:medium ssd", 0);
    assert_eq!(named(&log), None);
    let check = |one: &str, other: &str| check_class(&one.parse().unwrap(), &other.parse().unwrap());
    assert!(check("hdd-7200", "hdd-10k").is_ok() && check("ssd", "ssd-notrim").is_ok());
    let error = check("hdd-7200,rpm=5400", "ssd").unwrap_err();
    let said = error.to_string();
    assert!(said.contains("`hdd-7200,rpm=5400` cannot be priced on `ssd`"), "{said}");
    assert!(said.ends_with("the one is rotational, the other is not rotational"), "{said}");
    assert_eq!(error.exit_code(), EXIT_USAGE);
    assert!(check("ram", "hdd-5400").unwrap_err().to_string().contains("the one is not rotational"));
}
