//! Holds the use of the volume near a target by steering the mix.
//!
//! Use is estimated as the workload's own bytes (its live files in whole blocks, times the threads) plus an
//! overhead that follows slowly what feedback says beyond that. So the estimate moves at once with what the
//! workload does, however late the file system accounts for it (delayed allocation, delayed freeing), and in
//! the long run it agrees with feedback. Within [`BAND`] of the target growing operations turn into deletes,
//! and shrinking ones into creates, with a chance proportional to the distance; beyond it always.
//!
//! A volume that is full before the target is reached (reserved blocks, metadata) answers ENOSPC: then
//! deletes make room at once, more at each answer that comes soon after the last, and a little below the use
//! at which it happened becomes a ceiling that the target is cut to. The ceiling rises again slowly, since
//! the shortage may have passed.

use fsage_model::quantity::{as_f64, to_u64};

use crate::workload::Feedback;

/// Distance from the target, as a share of the volume, from which on every operation is steered.
const BAND: f64 = 0.002;

/// How far above the target a single create or append may lead, as a share of the volume.
const MARGIN: f64 = 0.004;

/// Operations over which the overhead follows feedback. Feedback follows the model between two reads of the
/// synced volume, so it is not noisy; following it slowly left two threads up to 2 % of the volume off for a
/// long time.
const FOLLOW_OPERATIONS: f64 = 256.0;

/// Change of its own bytes over [`FOLLOW_OPERATIONS`], as a share of the volume, up to which late feedback is
/// believed.
const STEADY: f64 = 0.01;

/// Operations after a shortage within which the next one counts as the same.
const SHORTAGE_MEMORY: u64 = 1024;

/// How far below the use at a shortage the ceiling is set.
const CEILING_GAP: f64 = 0.004;

/// How much the ceiling rises an operation: 1 % of the volume in 10,000.
const CEILING_RISE: f64 = 1e-6;

/// Steering towards one target, of one thread.
#[derive(Debug, Clone)]
pub(super) struct Steer {
    target: f64,
    /// What the target is cut to after a shortage.
    ceiling: f64,
    /// Estimated use, as a share of the volume.
    used: f64,
    threads: f64,
    /// Bytes in use beyond the workload's own, once known.
    overhead: Option<f64>,
    /// Its own bytes, over all threads, as they were about [`FOLLOW_OPERATIONS`] ago.
    own_before: f64,
    last_share: f64,
    since_feedback: f64,
    total_bytes: f64,
    /// Live bytes of this thread down to which deletes make room, while they do.
    release_to: Option<u64>,
    /// Deletes that failed while making room.
    failures: u32,
    /// Shortages in short order.
    streak: i32,
    since_shortage: u64,
}

impl Steer {
    /// Steering of one of `threads` threads towards `target` (0..=1).
    pub(super) fn new(target: f64, threads: u32) -> Self {
        Self {
            target,
            ceiling: f64::INFINITY,
            used: 0.0,
            threads: f64::from(threads),
            overhead: None,
            own_before: 0.0,
            last_share: -1.0,
            since_feedback: 0.0,
            total_bytes: 0.0,
            release_to: None,
            failures: 0,
            streak: 0,
            since_shortage: SHORTAGE_MEMORY,
        }
    }

    /// How far use is above the target, as a share of the volume (below 0: under it). Once an operation.
    #[inline]
    pub(super) fn excess(&mut self, feedback: &Feedback, live_bytes: u64) -> f64 {
        self.since_shortage = self.since_shortage.saturating_add(1);
        self.since_feedback += 1.0;
        if feedback.total_bytes == 0 {
            return 0.0;
        }
        let own = as_f64(live_bytes) * self.threads;
        self.total_bytes = as_f64(feedback.total_bytes);
        let growth = (own - self.own_before) / self.total_bytes;
        self.own_before += (own - self.own_before) / FOLLOW_OPERATIONS;
        let overhead = self.follow(feedback.used_share, own, growth);
        self.ceiling += CEILING_RISE;
        self.used = (own + overhead) / self.total_bytes;
        self.used - self.target.min(self.ceiling)
    }

    /// The overhead after an inspection of feedback.
    #[inline]
    fn follow(&mut self, share: f64, own: f64, growth: f64) -> f64 {
        let seen = share * self.total_bytes - own;
        let Some(known) = self.overhead else {
            self.overhead = Some(seen);
            self.own_before = own;
            self.last_share = share;
            return seen;
        };
        #[expect(clippy::float_cmp, reason = "any change at all is news")]
        if share == self.last_share {
            return known;
        }
        let weight = (self.since_feedback / FOLLOW_OPERATIONS).min(1.0);
        self.last_share = share;
        self.since_feedback = 0.0;
        // Feedback that lags behind growth makes the overhead look smaller, behind shrinking larger.
        let by_lag = growth.abs() > STEADY && (growth > 0.0) == (seen < known);
        let overhead = if by_lag { known } else { known + weight * (seen - known) };
        self.overhead = Some(overhead);
        overhead
    }

    /// The chance that an operation that leads away from the target is replaced.
    #[inline]
    pub(super) fn chance(excess: f64) -> f64 {
        excess.abs() / BAND
    }

    /// Bytes that one operation may add.
    #[inline]
    pub(super) fn room(&self, excess: f64) -> u64 {
        if self.total_bytes <= 0.0 {
            return u64::MAX;
        }
        to_u64((MARGIN - excess).max(0.0) * self.total_bytes / self.threads).max(1)
    }

    /// An operation that needed `bytes` found no space.
    pub(super) fn shortage(&mut self, bytes: u64, live_bytes: u64) {
        self.streak = if self.since_shortage < SHORTAGE_MEMORY { (self.streak + 1).min(6) } else { 0 };
        self.since_shortage = 0;
        let least = self.total_bytes / self.threads * 0.0025;
        let release = (as_f64(bytes) * 2.0).max(least) * f64::from(1_u32 << self.streak);
        self.failures = 0;
        self.ceiling = self.used - CEILING_GAP;
        self.release_to = Some(live_bytes.saturating_sub(to_u64(release).max(1)));
    }

    /// Whether a delete must make room now.
    #[inline]
    pub(super) fn must_release(&mut self, live_bytes: u64) -> bool {
        match self.release_to {
            Some(bound) if live_bytes > bound => true,
            Some(_) => {
                self.release_to = None;
                false
            }
            None => false,
        }
    }

    /// Ends making room: there is nothing left to delete.
    pub(super) const fn give_up(&mut self) {
        self.release_to = None;
    }

    /// A delete failed. After many of them making room is given up until the next shortage.
    pub(super) const fn delete_failed(&mut self) {
        self.failures += 1;
        if self.failures >= 64 {
            self.release_to = None;
        }
    }
}
