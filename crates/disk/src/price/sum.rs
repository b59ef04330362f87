//! What a priced log comes to.

use fsage_model::disk::DiskCounter;
use serde::Serialize;

use super::latency::Latencies;
use super::segment::Asked;
use crate::request::Operation;

/// Requests of one kind. A time is from when a request comes to the medium to when it is answered; those of
/// requests that wait together overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct KindTimes {
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their times together, as recorded.
    pub recorded_ns: u64,
    /// Their times together.
    pub sum_ns: u64,
    /// The time that half of them do not exceed, at most 1.6 % too high like the others.
    pub p50_ns: u64,
    /// The time that 99 % of them do not exceed.
    pub p99_ns: u64,
    /// The time that 99.9 % of them do not exceed.
    pub p999_ns: u64,
    /// The longest time.
    pub longest_ns: u64,
}

/// The requests between two marks of the user. A rest of the medium that follows right on a mark is in no
/// interval: what is measured begins with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// The mark at its begin; nothing before the first one.
    pub mark: Option<String>,
    /// How many.
    pub requests: u64,
    /// What the disk's clock moved by, as recorded.
    pub recorded_ns: u64,
    /// What the disk's clock moved by.
    pub total_ns: u64,
}

/// How far the answers lie from those recorded. On the medium of the record it is the error of pricing; on
/// another one it says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Deviation {
    /// Requests that are not answered at the very nanosecond.
    pub requests: u64,
    /// By how much at most.
    pub largest_ns: u64,
}

/// A log on a medium.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Priced {
    /// Requests.
    pub requests: u64,
    /// Requests among them that the recorded disk refused or ignored: they take no time.
    pub without_time: u64,
    /// Where the recorded disk's clock stood when the first one came. Not 0: the log was begun later than the
    /// disk, and what was written before is not known.
    pub begin_ns: u64,
    /// From the first request to the last answer by the disk's clock, as recorded.
    pub recorded_ns: u64,
    /// From the first request to the last answer by the disk's clock.
    pub total_ns: u64,
    /// How well it repeats what was recorded, if it is the same medium.
    pub deviation: Deviation,
    /// Reads.
    pub read: KindTimes,
    /// Writes and zeroings.
    pub write: KindTimes,
    /// Flushes.
    pub flush: KindTimes,
    /// Discards.
    pub discard: KindTimes,
    /// From mark to mark; none where the user set no mark.
    pub intervals: Vec<Interval>,
    /// What the medium counted.
    pub counters: Vec<DiskCounter>,
}

/// One kind, as it is added up.
#[derive(Debug)]
struct Kind {
    times: KindTimes,
    latencies: Latencies,
}

impl Kind {
    fn new() -> Self {
        Self { times: KindTimes::default(), latencies: Latencies::new() }
    }

    fn add(&mut self, asked: &Asked) {
        let ns = asked.end_ns - asked.start_ns;
        let times = &mut self.times;
        times.requests += 1;
        times.bytes = times.bytes.saturating_add(asked.request.length_bytes);
        times.recorded_ns = times.recorded_ns.saturating_add(asked.done_ns - asked.issued_ns);
        times.sum_ns = times.sum_ns.saturating_add(ns);
        self.latencies.add(ns);
    }

    fn finish(self) -> KindTimes {
        KindTimes {
            p50_ns: self.latencies.permille_ns(500),
            p99_ns: self.latencies.permille_ns(990),
            p999_ns: self.latencies.permille_ns(999),
            longest_ns: self.latencies.longest_ns(),
            ..self.times
        }
    }
}

/// A moment on both clocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moment {
    /// On the recorded disk.
    pub recorded_ns: u64,
    /// On the medium that is priced.
    pub priced_ns: u64,
}

/// Adds requests up, in the log's order.
#[derive(Debug)]
pub(super) struct Sums {
    /// By operation: read, write, flush, discard.
    kinds: [Kind; 4],
    requests: u64,
    without_time: u64,
    deviation: Deviation,
    begin: Option<Moment>,
    /// The last answer so far.
    pub now: Moment,
    /// The interval that is open: its mark, its begin, the requests before it.
    open: (Option<String>, Moment, u64),
    intervals: Vec<Interval>,
}

impl Sums {
    pub fn new() -> Self {
        Self {
            kinds: std::array::from_fn(|_| Kind::new()),
            requests: 0,
            without_time: 0,
            deviation: Deviation::default(),
            begin: None,
            now: Moment::default(),
            open: (None, Moment::default(), 0),
            intervals: Vec::new(),
        }
    }

    /// The first request comes then.
    pub fn begin(&mut self, now: Moment) {
        (self.now, self.open.1) = (now, now);
        self.begin = Some(now);
    }

    /// The medium has come to rest: an interval that has no requests yet begins now.
    pub const fn rested(&mut self, now: Moment) {
        if self.open.2 == self.requests {
            self.open.1 = now;
        }
    }

    /// Whether anything came so far.
    pub const fn has_begun(&self) -> bool {
        self.begin.is_some()
    }

    pub fn add(&mut self, asked: &Asked) {
        let kind = match asked.request.operation {
            Operation::Read => 0,
            Operation::Write | Operation::Zero => 1,
            Operation::Flush => 2,
            Operation::Discard => 3,
        };
        self.kinds[kind].add(asked);
        self.requests += 1;
        self.without_time += u64::from(!asked.reaches_medium);
        let apart_ns = asked.end_ns.abs_diff(asked.done_ns);
        self.deviation.requests += u64::from(apart_ns > 0);
        self.deviation.largest_ns = self.deviation.largest_ns.max(apart_ns);
        self.now.recorded_ns = self.now.recorded_ns.max(asked.done_ns);
        self.now.priced_ns = self.now.priced_ns.max(asked.end_ns);
    }

    /// A mark of the user's stands here.
    pub fn mark(&mut self, name: &str) {
        self.close(Some(name.to_owned()));
    }

    fn close(&mut self, next: Option<String>) {
        let (mark, from, before) = std::mem::replace(&mut self.open, (next, self.now, self.requests));
        let requests = self.requests - before;
        // Before the first mark there is an interval only if there are requests.
        if mark.is_some() || requests > 0 {
            self.intervals.push(Interval {
                mark,
                requests,
                recorded_ns: self.now.recorded_ns.saturating_sub(from.recorded_ns),
                total_ns: self.now.priced_ns.saturating_sub(from.priced_ns),
            });
        }
    }

    pub fn finish(mut self, counters: Vec<DiskCounter>) -> Priced {
        let is_marked = self.open.0.is_some();
        self.close(None);
        let begin = self.begin.unwrap_or_default();
        let [read, write, flush, discard] = self.kinds.map(Kind::finish);
        Priced {
            requests: self.requests,
            without_time: self.without_time,
            begin_ns: begin.recorded_ns,
            recorded_ns: self.now.recorded_ns - begin.recorded_ns,
            total_ns: self.now.priced_ns - begin.priced_ns,
            deviation: self.deviation,
            read,
            write,
            flush,
            discard,
            intervals: if is_marked { self.intervals } else { Vec::new() },
            counters,
        }
    }
}
