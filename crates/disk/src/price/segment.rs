//! The requests between two moments at which the recorded disk was idle, and what waited for what among them.
//!
//! Nothing that came after an idle moment can have been asked before everything before it was answered, so a
//! segment waits for the whole of the one before. A log of a virtual disk is cut into its batches by that
//! alone, and each is a segment; only logs of devices with a queue of their own have longer ones.
//!
//! Within a segment, requests that came together are a group and stay one. A group waits for **one** request:
//! of those that were answered when it came, the last to be answered (of several at the same moment the last
//! in the log), and then for as long as it came after that. A group before the first answer waits for the
//! begin of the segment alone. Who asked is not in a log: where several loads think between an answer and their
//! next request, a group may wait for another load's answer. Rules that give each answer to one request only were
//! tried and are no better (`tests/price_second_run.rs` measures the error).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::log::Entry;
use crate::media::Model;
use crate::request::{IoError, Operation, Request};

/// No group.
const NONE: usize = usize::MAX;

/// A request with its times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub request: Request,
    /// Whether the medium had anything to do with it.
    pub reaches_medium: bool,
    /// On the recorded disk.
    pub issued_ns: u64,
    /// On the recorded disk.
    pub done_ns: u64,
    /// On the medium that is priced.
    pub start_ns: u64,
    /// On the medium that is priced.
    pub end_ns: u64,
}

impl Asked {
    /// A request that the disk does not have, or has no room for, took no time, and neither did a flush that
    /// a fault had it ignore.
    fn new(entry: &Entry) -> Self {
        let Entry { request, result, flush_ignored, issued_ns, done_ns, .. } = *entry;
        let refused = matches!(result, Err(IoError::Range | IoError::Space));
        let ignored = flush_ignored && request.operation == Operation::Flush;
        Self {
            request: Request { fua: request.fua && !flush_ignored, ..request },
            reaches_medium: !refused && !ignored,
            issued_ns,
            done_ns: done_ns.max(issued_ns),
            start_ns: 0,
            end_ns: 0,
        }
    }
}

/// Requests that came at the same moment.
#[derive(Debug, Clone, Copy)]
struct Group {
    first: usize,
    end: usize,
    issued_ns: u64,
    arrived_ns: u64,
    /// How long after the request that it waits for it came.
    after_ns: u64,
    /// The next group that waits for the same request.
    next: usize,
}

/// A segment that is being collected, then served.
#[derive(Debug, Default)]
pub(super) struct Segment {
    asked: Vec<Asked>,
    groups: Vec<Group>,
    /// When the last of its requests was done on the recorded disk.
    done_ns: u64,
    batch: Vec<Request>,
    times: Vec<u64>,
}

impl Segment {
    pub const fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Its requests, in the log's order.
    pub fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// When its first request came on the recorded disk.
    pub fn issued_ns(&self) -> u64 {
        self.groups.first().map_or(0, |group| group.issued_ns)
    }

    /// Whether a request belongs to it: it came with others of it, or while one of them was being served.
    pub fn includes(&self, entry: &Entry) -> bool {
        self.is_empty() || self.joins(entry) || entry.issued_ns < self.done_ns
    }

    /// Whether it came together with the last one.
    fn joins(&self, entry: &Entry) -> bool {
        let last = self.groups.last();
        last.is_some_and(|last| (last.issued_ns, last.arrived_ns) == (entry.issued_ns, entry.arrived_ns))
    }

    /// Adds a request that belongs to it. One that came before its predecessor counts as come with it.
    pub fn push(&mut self, entry: &Entry) {
        let number = self.asked.len();
        let mut asked = Asked::new(entry);
        match self.groups.last_mut() {
            Some(group) if (group.issued_ns, group.arrived_ns) == (entry.issued_ns, entry.arrived_ns) => {
                group.end += 1;
            }
            last => {
                let issued_ns = last.map_or(0, |last| last.issued_ns).max(entry.issued_ns);
                asked.issued_ns = issued_ns;
                asked.done_ns = asked.done_ns.max(issued_ns);
                self.groups.push(Group {
                    first: number,
                    end: number + 1,
                    issued_ns,
                    arrived_ns: entry.arrived_ns,
                    after_ns: 0,
                    next: NONE,
                });
            }
        }
        self.done_ns = self.done_ns.max(asked.done_ns);
        self.asked.push(asked);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.asked.clear();
        self.groups.clear();
        self.done_ns = 0;
    }

    /// Has the medium serve it, from `start_ns` on.
    pub fn serve(&mut self, medium: &mut impl Model, start_ns: u64) {
        if self.groups.len() == 1 {
            self.serve_group(medium, 0, start_ns);
        } else {
            self.follow(medium, start_ns);
        }
    }

    /// Serves several groups, each when what it waits for is done; of those ready at the same moment the one
    /// first in the log goes first.
    fn follow(&mut self, medium: &mut impl Model, start_ns: u64) {
        let (mut ready, first_waiting) = self.waits(start_ns);
        while let Some(Reverse((now_ns, number))) = ready.pop() {
            self.serve_group(medium, number, now_ns);
            let Group { first, end, .. } = self.groups[number];
            for (asked, &waiting) in self.asked[first..end].iter().zip(&first_waiting[first..end]) {
                let mut waiting = waiting;
                while let Some(group) = self.groups.get(waiting) {
                    let due_ns = asked.end_ns.saturating_add(group.after_ns);
                    ready.push(Reverse((due_ns, waiting)));
                    waiting = group.next;
                }
            }
        }
    }

    /// Groups that wait for nothing with when they are due, and for each request the first group that waits
    /// for it.
    fn waits(&mut self, start_ns: u64) -> (BinaryHeap<Reverse<(u64, usize)>>, Vec<usize>) {
        let origin_ns = self.issued_ns();
        let mut ready = BinaryHeap::new();
        let mut first_waiting = vec![NONE; self.asked.len()];
        let mut served: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut last = None;
        for (number, group) in self.groups.iter_mut().enumerate() {
            while let Some(&Reverse((done_ns, asked))) = served.peek()
                && done_ns <= group.issued_ns
            {
                served.pop();
                last = Some(asked);
            }
            match last {
                None => {
                    let due_ns = start_ns.saturating_add(group.issued_ns - origin_ns);
                    ready.push(Reverse((due_ns, number)));
                }
                Some(asked) => {
                    group.after_ns = group.issued_ns - self.asked[asked].done_ns;
                    group.next = std::mem::replace(&mut first_waiting[asked], number);
                }
            }
            served.extend((group.first..group.end).map(|asked| Reverse((self.asked[asked].done_ns, asked))));
        }
        (ready, first_waiting)
    }

    /// Serves requests that came together.
    fn serve_group(&mut self, medium: &mut impl Model, number: usize, now_ns: u64) {
        let group = self.groups[number];
        let asked = &mut self.asked[group.first..group.end];
        self.batch.clear();
        self.batch.extend(asked.iter().filter(|asked| asked.reaches_medium).map(|asked| asked.request));
        self.times.clear();
        self.times.resize(self.batch.len(), now_ns);
        if !self.batch.is_empty() {
            medium.serve(now_ns, &self.batch, &mut self.times);
        }
        let mut times = self.times.iter();
        for asked in asked {
            let served = if asked.reaches_medium { times.next() } else { None };
            (asked.start_ns, asked.end_ns) = (now_ns, served.map_or(now_ns, |&time| time.max(now_ns)));
        }
    }
}
