//! Which of the waiting requests is served next: the one with the shortest positioning time (seek and
//! rotation, or what is left until reading ahead is there), within a bound.
//!
//! Shortest positioning time first is what a disk with a command queue can do and a host cannot, because only
//! the disk knows the angle (Seltzer, Chen, Ousterhout: *Disk scheduling revisited*, USENIX Winter 1990;
//! Worthington, Ganger, Patt, SIGMETRICS 1994). Unbounded it starves requests far away; here a request that
//! others have passed a given number of times goes next.

use super::geometry::Location;
use crate::request::Request;

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

    /// Takes out the request that is served next, given when the head would be over the first byte of each.
    pub(super) fn pop(&mut self, begins_ns: impl Fn(&Waiting) -> u64) -> Option<Waiting> {
        let chosen = self.choose(begins_ns)?;
        // In order of arrival, so that equals are served first come, first served.
        let next = self.waiting.remove(chosen);
        for earlier in &mut self.waiting[..chosen] {
            earlier.passed += 1;
        }
        Some(next)
    }

    fn choose(&self, begins_ns: impl Fn(&Waiting) -> u64) -> Option<usize> {
        if self.waiting.len() <= 1 {
            return (!self.waiting.is_empty()).then_some(0);
        }
        if let Some(starved) = self.waiting.iter().position(|w| w.passed >= self.most_passed) {
            return Some(starved);
        }
        (0..self.waiting.len()).filter(|i| self.may_pass(*i)).min_by_key(|i| begins_ns(&self.waiting[*i]))
    }

    /// Whether no earlier request that changes the same place still waits.
    fn may_pass(&self, chosen: usize) -> bool {
        let reads = |w: &Waiting| w.request.operation == crate::request::Operation::Read;
        let later = &self.waiting[chosen];
        self.waiting[..chosen].iter().all(|earlier| {
            (reads(earlier) && reads(later))
                || earlier.request.end_bytes() <= later.request.offset_bytes
                || later.request.end_bytes() <= earlier.request.offset_bytes
        })
    }
}
