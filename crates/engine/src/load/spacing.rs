//! When a load is probed, so that probing does not take over the run.
//!
//! Where a share of the run is given, a probe is made at the first multiple of `every` operations at which
//! all probes so far and this one fit into it. What this one will take follows from the last one and the
//! number of files, which is what walking the layout costs by. The first is always made: it is how the cost
//! is known.
//!
//! Invariant: probes take at most the share of load and probes together, as far as the cost follows the
//! files, from the second probe on.

use fsage_model::quantity::{as_f64, share};

/// What a probe takes for each file and an operation takes, where the clock must not decide (a disk in model
/// time), in ns.
const MODEL_FILE_NS: f64 = 8_000.0;
const MODEL_OPERATION_NS: f64 = 30_000.0;

/// How far a load is.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub operations: u64,
    pub files: u64,
    pub elapsed_ns: u64,
}

/// The times at which a load is probed.
#[derive(Debug)]
pub struct Spacing {
    /// Operations between two opportunities; `u64::MAX`: none.
    every: u64,
    /// Most of the run that probes may take; `None`: every opportunity is taken.
    share: Option<f64>,
    /// Costs are estimated from operations and files, not measured.
    modelled: bool,
    next: u64,
    /// Of all probes so far.
    spent_ns: f64,
    /// Of the last one, for each file; `None` before the first.
    file_ns: Option<f64>,
}

impl Spacing {
    /// `every` 0: no probes.
    pub const fn new(every: u64, share: Option<f64>, modelled: bool) -> Self {
        let every = if every == 0 { u64::MAX } else { every };
        Self { every, share, modelled, next: every, spent_ns: 0.0, file_ns: None }
    }

    /// Operations at which to ask [`Spacing::is_due`] next.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Whether to probe at an opportunity; it is used up.
    pub fn is_due(&mut self, now: &Moment) -> bool {
        self.next = self.next.saturating_add(self.every);
        let (Some(most), Some(file_ns)) = (self.share, self.file_ns) else { return true };
        let probes = self.spent_ns + file_ns * as_f64(now.files.max(1));
        probes <= most * (probes + self.load_ns(now))
    }

    /// A probe was made, and took `took_ns`.
    pub fn probed(&mut self, now: &Moment, took_ns: u64) {
        let files = as_f64(now.files.max(1));
        let took = if self.modelled { files * MODEL_FILE_NS } else { as_f64(took_ns) };
        self.spent_ns += took;
        self.file_ns = Some(took / files);
    }

    fn load_ns(&self, now: &Moment) -> f64 {
        if self.modelled { as_f64(now.operations) * MODEL_OPERATION_NS } else { as_f64(now.elapsed_ns) }
    }
}

/// Share of a run that probes took which is worth a word…
const WORTH_A_WORD: f64 = 0.05;
/// …from so many nanoseconds on.
const LONG_NS: u64 = 10_000_000_000;

/// One sentence when probes took much of a run; `None` otherwise.
pub fn complaint(probes: u64, probe_ns: u64, elapsed_ns: u64, with_layout: bool) -> Option<String> {
    let part = share(probe_ns, probe_ns + elapsed_ns);
    (part > WORTH_A_WORD && probe_ns >= LONG_NS).then(|| {
        let what = if with_layout { "each of which inspected every file" } else { "without the files' layout" };
        format!(
            "{probes} probes, {what}, took {:.0} s beside {:.0} s of load ({:.0} % of the run): a larger probe_every takes less",
            as_f64(probe_ns) / 1e9,
            as_f64(elapsed_ns) / 1e9,
            part * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load that makes `fill` files, then keeps their number: probes made, and their share of the run.
    fn simulated(share: Option<f64>, fill: u64, operations: u64, modelled: bool) -> (u64, f64) {
        let (operation_ns, file_ns) = (30_000, 8_000);
        let mut spacing = Spacing::new(20_000, share, modelled);
        let (mut made, mut spent_ns) = (0, 0);
        while spacing.next() <= operations {
            let done = spacing.next();
            let now = Moment { operations: done, files: done.min(fill), elapsed_ns: done * operation_ns };
            if spacing.is_due(&now) {
                made += 1;
                spent_ns += now.files * file_ns;
                spacing.probed(&now, now.files * file_ns);
            }
        }
        (made, as_f64(spent_ns) / as_f64(spent_ns + operations * operation_ns))
    }

    #[test]
    fn probes_keep_to_their_share_while_files_come_and_after() {
        for modelled in [false, true] {
            for (fill, operations) in [(1_500_000, 20_000_000), (1_500_000, 60_000_000), (2000, 1_000_000)] {
                let (made, part) = simulated(Some(0.05), fill, operations, modelled);
                assert!(part <= 0.05 && made >= 2, "{made} probes, {part} of the run");
            }
        }
        // What the same run cost before.
        let (made, part) = simulated(None, 1_500_000, 6_000_000, false);
        assert!(made == 300 && part > 0.9, "{made} probes, {part}");
    }

    #[test]
    fn small_loads_are_probed_at_every_opportunity() {
        assert_eq!(simulated(Some(0.05), 2000, 1_000_000, false).0, 50);
        assert_eq!(Spacing::new(0, None, false).next(), u64::MAX);
    }

    #[test]
    fn only_probes_that_took_long_are_complained_about() {
        assert_eq!(complaint(300, 9_000_000_000, 1, true), None);
        assert_eq!(complaint(300, 20_000_000_000, 400_000_000_000, true), None);
        let said = complaint(60, 900_000_000_000, 315_000_000_000, true).unwrap();
        assert!(said.contains("60 probes") && said.contains("74 % of the run"), "{said}");
    }
}
