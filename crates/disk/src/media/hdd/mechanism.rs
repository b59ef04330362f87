//! The arm and the platters: one at a time, each access costs positioning, rotation and transfer.

use fsage_model::medium::hdd::Parameters;

use super::HddError;
use super::geometry::{Geometry, Location};
use super::seek::{Points, SeekCurve};

/// What the mechanism did, in nanoseconds unless named otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub seeks: u64,
    pub seek_distance_bytes: u64,
    pub seek_ns: u64,
    pub settle_ns: u64,
    pub switch_ns: u64,
    pub rotation_ns: u64,
    pub transfer_ns: u64,
    pub busy_ns: u64,
}

/// What it takes to bring the head over a place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Positioning {
    seek_ns: u64,
    settle_ns: u64,
    switch_ns: u64,
    rotation_ns: u64,
}

impl Positioning {
    pub(super) const fn total_ns(&self) -> u64 {
        self.seek_ns + self.settle_ns + self.switch_ns + self.rotation_ns
    }

    /// The wait on the right track.
    pub(super) const fn rotation_ns(&self) -> u64 {
        self.rotation_ns
    }
}

/// Arm, platters and where they stand.
#[derive(Debug, Clone)]
pub(super) struct Mechanism {
    pub geometry: Geometry,
    curve: SeekCurve,
    write_curve: SeekCurve,
    head_switch_ns: u64,
    /// Where the head was when the last access ended.
    pub at: Location,
    /// When the last access ended.
    pub free_ns: u64,
    pub work: Work,
}

impl Mechanism {
    pub(super) fn new(parameters: &Parameters) -> Result<Self, HddError> {
        let fit = |before, points: Points| {
            SeekCurve::through(parameters, points).ok_or(HddError::SeekCurve { before, points })
        };
        let curve = fit("reads", Points::reading(parameters))?;
        let write_curve = fit("writes", Points::writing(parameters))?;
        let geometry = Geometry::new(parameters);
        let at = geometry.locate(0);
        Ok(Self {
            geometry,
            curve,
            write_curve,
            head_switch_ns: parameters.head_switch_ns,
            at,
            free_ns: 0,
            work: Work::default(),
        })
    }

    /// What it takes from where the last access ended, at `start_ns`.
    pub(super) fn positioning(&self, start_ns: u64, to: &Location, write: bool) -> Positioning {
        self.positioning_from(&self.at, start_ns, to, write)
    }

    /// What it takes from a place where the head is at `start_ns`.
    pub(super) fn positioning_from(
        &self,
        at: &Location,
        start_ns: u64,
        to: &Location,
        write: bool,
    ) -> Positioning {
        let mut cost = Positioning::default();
        // The very next byte: the skew already covers the switch, the wait for it is rotation.
        if to.byte != at.byte {
            if to.cylinder != at.cylinder {
                let distance = at.cylinder.abs_diff(to.cylinder);
                cost.seek_ns = self.curve.time_ns(distance);
                if write {
                    cost.settle_ns = self.write_curve.time_ns(distance).saturating_sub(cost.seek_ns);
                }
            } else if to.surface != at.surface {
                // Also of writes: tracks are skewed by what a transfer of either kind needs.
                cost.switch_ns = self.head_switch_ns;
            }
        }
        let turn_ns = self.geometry.turn_ns();
        let there_ns = start_ns + cost.total_ns();
        cost.rotation_ns = (to.stream_ns % turn_ns + turn_ns - there_ns % turn_ns) % turn_ns;
        cost
    }

    /// Reads or writes a range, not before `ready_ns`; gives when it ended.
    pub(super) fn access(&mut self, ready_ns: u64, from: &Location, length_bytes: u64, write: bool) -> u64 {
        let start_ns = ready_ns.max(self.free_ns);
        let cost = self.positioning(start_ns, from, write);
        if cost.seek_ns > 0 {
            self.work.seeks += 1;
            self.work.seek_distance_bytes += from.byte.abs_diff(self.at.byte);
        }
        self.work.seek_ns += cost.seek_ns;
        self.work.settle_ns += cost.settle_ns;
        self.work.switch_ns += cost.switch_ns;
        self.work.rotation_ns += cost.rotation_ns;
        self.work.busy_ns += cost.total_ns();
        let to = self.geometry.locate(from.byte.saturating_add(length_bytes));
        self.passed(from, &to);
        self.at = to;
        self.free_ns = start_ns + cost.total_ns() + (to.stream_ns - from.stream_ns);
        self.free_ns
    }

    /// Reading on brings the head to a place at `until_ns`: nothing else is done before.
    pub(super) const fn busy_until(&mut self, until_ns: u64, at: &Location) {
        if until_ns > self.free_ns {
            self.free_ns = until_ns;
            self.at = *at;
        }
    }

    /// Counts a wait for a place on the right track.
    pub(super) const fn turned(&mut self, rotation_ns: u64) {
        self.work.rotation_ns += rotation_ns;
        self.work.busy_ns += rotation_ns;
    }

    /// Counts that the data between two places passed under the head.
    pub(super) fn passed(&mut self, from: &Location, to: &Location) {
        let (stream_ns, media_ns) = (to.stream_ns - from.stream_ns, to.media_ns - from.media_ns);
        self.work.transfer_ns += media_ns;
        self.work.switch_ns += stream_ns - media_ns;
        self.work.busy_ns += stream_ns;
    }
}
