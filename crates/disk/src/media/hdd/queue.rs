//! Which of the waiting requests is served next: the one with the shortest positioning time (seek and
//! rotation, or what is left until reading ahead is there), within a bound.
//!
//! Shortest positioning time first is what a disk with a command queue can do and a host cannot, because only
//! the disk knows the angle (Seltzer, Chen, Ousterhout: *Disk scheduling revisited*, USENIX Winter 1990;
//! Worthington, Ganger, Patt, SIGMETRICS 1994). Unbounded it starves requests far away; here a request that
//! others have passed a given number of times goes next.

use super::geometry::Location;
use crate::request::{Operation, Request};

/// A request that needs the mechanism.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Its place in the batch.
    pub slot: usize,
    pub request: Request,
    pub place: Location,
    /// When the electronics have taken it in.
    pub ready_ns: u64,
    /// How often another was served before it.
    passed: u64,
}

impl Waiting {
    #[cfg(test)]
    pub(super) const fn of(request: Request, place: Location, ready_ns: u64) -> Self {
        Self { slot: 0, request, place, ready_ns, passed: 0 }
    }

    /// Whether another one does the same from where this one ends.
    fn continued_by(&self, other: &Self) -> bool {
        self.request.end_bytes() == other.request.offset_bytes
            && self.request.operation == other.request.operation
    }
}

/// What the queue knows of the head.
pub(super) trait Head {
    /// When it would be over the first byte of a request that is served next.
    fn begins_ns(&self, waiting: &Waiting) -> u64;

    /// The time at which the end of a request passes below it, in the measure of [`Location::stream_ns`].
    fn end_ns(&self, waiting: &Waiting) -> u64;

    /// A turn of the platters.
    fn turn_ns(&self) -> u64;
}

/// The disk's command queue.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    waiting: Vec<Waiting>,
    depth: usize,
    most_passed: u64,
}

impl Queue {
    pub(super) fn new(depth: u64, most_passed: u64) -> Self {
        let depth = crate::media::number::index(depth);
        Self { waiting: Vec::with_capacity(depth), depth, most_passed }
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.depth
    }

    pub(super) fn push(&mut self, slot: usize, request: Request, place: Location, ready_ns: u64) {
        self.waiting.push(Waiting { slot, request, place, ready_ns, passed: 0 });
    }

    /// Whether a request that waits changes a range.
    pub(super) fn changes(&self, start: u64, end: u64) -> bool {
        self.waiting.iter().any(|waiting| {
            let request = &waiting.request;
            request.operation != Operation::Read && request.offset_bytes < end && start < request.end_bytes()
        })
    }

    /// Takes out the request that is served next.
    pub(super) fn pop(&mut self, head: &impl Head) -> Option<Waiting> {
        let chosen = self.choose(head)?;
        // In order of arrival, so that equals are served first come, first served.
        let next = self.waiting.remove(chosen);
        for earlier in &mut self.waiting[..chosen] {
            earlier.passed += 1;
        }
        Some(next)
    }

    fn choose(&self, head: &impl Head) -> Option<usize> {
        if self.waiting.len() <= 1 {
            return (!self.waiting.is_empty()).then_some(0);
        }
        if let Some(starved) = self.waiting.iter().position(|w| w.passed >= self.most_passed) {
            return Some(starved);
        }
        let nearest = (0..self.waiting.len())
            .filter(|i| self.may_pass(*i))
            .min_by_key(|i| head.begins_ns(&self.waiting[*i]))?;
        Some(self.first_of_run(nearest, head))
    }

    /// Where requests in sequence wait, of which this is one: the first of them, if all are done sooner from there on. From
    /// another one on, the head comes back to the first when that is below it again.
    fn first_of_run(&self, nearest: usize, head: &impl Head) -> usize {
        let at = |i: usize| &self.waiting[i];
        let first = self.follow(nearest, |other, this| other.continued_by(this));
        if first == nearest || !self.may_pass(first) {
            return nearest;
        }
        let last = self.follow(nearest, |other, this| this.continued_by(other));
        let turn_ns = head.turn_ns();
        let back_ns =
            (at(first).place.stream_ns % turn_ns + turn_ns - head.end_ns(at(last)) % turn_ns) % turn_ns;
        if head.begins_ns(at(first)) <= head.begins_ns(at(nearest)) + back_ns { first } else { nearest }
    }

    /// The end of a chain of requests, of which each `is_next` to the one before.
    fn follow(&self, from: usize, is_next: impl Fn(&Waiting, &Waiting) -> bool) -> usize {
        let next = |this: &usize| {
            let this = &self.waiting[*this];
            self.waiting.iter().position(|other| is_next(other, this))
        };
        std::iter::successors(Some(from), next).last().unwrap_or(from)
    }

    /// Whether no earlier request that changes the same place still waits.
    fn may_pass(&self, chosen: usize) -> bool {
        let reads = |w: &Waiting| w.request.operation == Operation::Read;
        let later = &self.waiting[chosen];
        self.waiting[..chosen].iter().all(|earlier| {
            (reads(earlier) && reads(later))
                || earlier.request.end_bytes() <= later.request.offset_bytes
                || later.request.end_bytes() <= earlier.request.offset_bytes
        })
    }
}
